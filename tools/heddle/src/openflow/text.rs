//! Matches and actions as people write them: `in_port=1,ipv4_dst=10.0.0.0/8,name=/tno` and `set:ipv4_dst=10.1.0.2,output:2`.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use heddle_openflow::controller::{Mac, Prefix};
use heddle_openflow::{
    Action, Field, GroupId, Instruction, Match, Oxm, Parameter, PortNumber, SetQueue,
};

/// Kinds of named-data packets, by the numbers that switches give them.
const KINDS: [(&str, u8); 5] =
    [("interest", 1), ("data", 2), ("nack", 3), ("idle", 4), ("fragment", 5)];

/// Ports that are no ports.
const PORTS: [(&str, PortNumber); 7] = [
    ("in_port", PortNumber::IN_PORT),
    ("table", PortNumber::TABLE),
    ("normal", PortNumber::NORMAL),
    ("flood", PortNumber::FLOOD),
    ("all", PortNumber::ALL),
    ("controller", PortNumber::CONTROLLER),
    ("local", PortNumber::LOCAL),
];

/// A match, read from text.
#[derive(Clone, Debug, Default)]
pub struct MatchText(pub Match);

/// What a flow does, read from text.
#[derive(Clone, Debug, Default)]
pub struct ActionsText(pub Vec<Instruction>);

impl FromStr for MatchText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let mut fields: Vec<Oxm> = words.map(match_field).collect::<Result<_, _>>()?;
        // What gives a field its meaning stands before it.
        fields.sort_by_key(|oxm| match oxm {
            Oxm::Basic { field, .. } => *field as u8,
            _ => u8::MAX,
        });
        Ok(Self(Match { fields }))
    }
}

fn match_field(word: &str) -> Result<Oxm, String> {
    let Some((key, value)) = word.split_once('=') else {
        return shorthand(word).ok_or_else(|| format!("'{word}' is no FIELD=VALUE"));
    };
    match key {
        "name" if value == "/" => Ok(Oxm::Name(Vec::new())),
        "name" => Ok(Oxm::Name(name(value)?)),
        "kind" => {
            let found = KINDS.iter().find(|(kind, _)| *kind == value);
            let (_, number) = found.ok_or_else(|| {
                format!("'{value}' is none of {}", list(KINDS.map(|(kind, _)| kind)))
            })?;
            Ok(Oxm::NdnKind(*number))
        }
        "program" => {
            let (program, parameter) = value.split_once(':').unwrap_or((value, ""));
            let parameter = match parameter {
                "" => Parameter::NONE,
                uri if uri.starts_with('/') => Parameter::Octets(name(uri)?),
                number => Parameter::Number(self::number(number)?),
            };
            let program = number(program)?;
            Ok(Oxm::Program { program, result: u64::MAX, masks: None, parameter })
        }
        _ => {
            let (value, mask) = match value.split_once('/') {
                Some((value, mask)) => (value, Some(mask)),
                None => (value, None),
            };
            let field = field(key)?;
            let value = field_value(field, value)?;
            let mask = mask.map(|mask| field_mask(field, mask)).transpose()?;
            // A bit that does not count must be zero.
            let value = match &mask {
                Some(mask) => value.iter().zip(mask).map(|(value, mask)| value & mask).collect(),
                None => value,
            };
            Ok(Oxm::Basic { field, value, mask })
        }
    }
}

/// `ip`, `ipv6`, `arp`, `mpls`.
fn shorthand(word: &str) -> Option<Oxm> {
    let ether_type: u16 = match word {
        "ip" => 0x0800,
        "ipv6" => 0x86dd,
        "arp" => 0x0806,
        "mpls" => 0x8847,
        _ => return None,
    };
    let value = ether_type.to_be_bytes().to_vec();
    Some(Oxm::Basic { field: Field::EthType, value, mask: None })
}

fn name(uri: &str) -> Result<Vec<u8>, String> {
    let prefix: Prefix = uri.parse().map_err(|error| format!("{uri}: {error}"))?;
    Ok(prefix.value().to_vec())
}

fn field(name: &str) -> Result<Field, String> {
    Field::ALL.iter().copied().find(|field| field.name() == name).ok_or_else(|| {
        let names = Field::ALL.iter().map(|field| field.name());
        format!("there is no field '{name}'; there are: name, kind, program, {}", list(names))
    })
}

fn field_value(field: Field, text: &str) -> Result<Vec<u8>, String> {
    let octets = field.octets();
    let address = match octets {
        4 => text.parse::<Ipv4Addr>().ok().map(|address| address.octets().to_vec()),
        6 => text.parse::<Mac>().ok().map(|mac| mac.0.to_vec()),
        16 => text.parse::<Ipv6Addr>().ok().map(|address| address.octets().to_vec()),
        _ => None,
    };
    if let Some(address) = address {
        return Ok(address);
    }
    let number: u64 =
        number(text).map_err(|_| format!("{}: '{text}' is no value of it", field.name()))?;
    let all = number.to_be_bytes();
    let (spare, value) = match all.len().checked_sub(octets) {
        Some(spare) => all.split_at(spare),
        None => return Err(format!("{}: '{text}' is no value of it", field.name())),
    };
    if spare.iter().any(|octet| *octet != 0) {
        return Err(format!("{}: {text} is more than its {octets} octets hold", field.name()));
    }
    Ok(value.to_vec())
}

/// A mask: as a value, or as a number of leading bits for addresses.
fn field_mask(field: Field, text: &str) -> Result<Vec<u8>, String> {
    let octets = field.octets();
    let is_address = matches!(octets, 4 | 16) && !text.contains(['.', ':', 'x']);
    match text.parse::<usize>() {
        Ok(bits) if is_address && bits <= octets * 8 => Ok((0..octets)
            .map(|at| {
                let bits = bits.saturating_sub(at * 8).min(8);
                (0xff00u16 >> bits) as u8
            })
            .collect()),
        _ => field_value(field, text),
    }
}

fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("'{text}' is no number that fits"))
}

fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

impl FromStr for ActionsText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut actions = Vec::new();
        let mut goto = None;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (verb, object) = word.split_once(':').unwrap_or((word, ""));
            match verb {
                "drop" => {}
                "goto" => goto = Some(Instruction::GotoTable(number(object)?)),
                _ => actions.push(action(verb, object)?),
            }
        }
        let apply = (!actions.is_empty()).then_some(Instruction::ApplyActions(actions));
        Ok(Self(apply.into_iter().chain(goto).collect()))
    }
}

fn action(verb: &str, object: &str) -> Result<Action, String> {
    Ok(match verb {
        "output" => Action::Output { port: port(object)?, max_len: u16::MAX },
        "group" => Action::Group(GroupId(number(object)?)),
        "queue" => Action::SetQueue(SetQueue(number(object)?)),
        "set" => {
            let (field, value) = object
                .split_once('=')
                .ok_or_else(|| format!("set:{object} is no set:FIELD=VALUE"))?;
            let field = self::field(field)?;
            let value = field_value(field, value)?;
            Action::SetField(Oxm::Basic { field, value, mask: None })
        }
        "set_ttl" => Action::SetNwTtl(number(object)?),
        "dec_ttl" => Action::DecNwTtl,
        "set_mpls_ttl" => Action::SetMplsTtl(number(object)?),
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "copy_ttl_out" => Action::CopyTtlOut,
        "copy_ttl_in" => Action::CopyTtlIn,
        "push_mpls" => Action::PushMpls(number(object)?),
        "pop_mpls" => Action::PopMpls(number(object)?),
        "push_vlan" => Action::PushVlan(number(object)?),
        "pop_vlan" => Action::PopVlan,
        _ => {
            return Err(format!(
                "there is no action '{verb}'; there are: output:PORT, group:N, set:FIELD=VALUE, set_ttl:N, dec_ttl, push_mpls:TYPE, \
                 pop_mpls:TYPE, set_mpls_ttl:N, dec_mpls_ttl, copy_ttl_out, copy_ttl_in, push_vlan:TYPE, pop_vlan, queue:N, goto:TABLE, drop"
            ));
        }
    })
}

/// A port by its number or by the name of one that is none.
pub fn port(text: &str) -> Result<PortNumber, String> {
    match PORTS.iter().find(|(name, _)| *name == text) {
        Some((_, port)) => Ok(*port),
        None => number(text).map(PortNumber),
    }
}

fn show_port(port: PortNumber) -> String {
    match PORTS.iter().find(|(_, other)| *other == port) {
        Some((name, _)) => (*name).to_owned(),
        None => port.0.to_string(),
    }
}

/// A match as [`MatchText`] reads it.
pub fn show_match(matching: &Match) -> String {
    let words: Vec<String> = matching.fields.iter().map(show_oxm).collect();
    words.join(",")
}

fn show_oxm(oxm: &Oxm) -> String {
    match oxm {
        Oxm::Basic { field, value, mask } => {
            let mask = mask.as_ref().map(|mask| format!("/{}", show_value(*field, mask)));
            format!("{}={}{}", field.name(), show_value(*field, value), mask.unwrap_or_default())
        }
        Oxm::Name(value) if value.is_empty() => "name=/".to_owned(),
        Oxm::Name(value) => format!("name={}", show_name(value)),
        Oxm::NdnKind(number) => {
            let kind = KINDS.iter().find(|(_, kind)| kind == number);
            format!("kind={}", kind.map_or("?", |(kind, _)| kind))
        }
        Oxm::Program { program, result, masks, parameter } => {
            let mut text = format!("program={program}");
            match parameter {
                Parameter::Octets(octets) if octets.is_empty() => {}
                Parameter::Octets(octets) => {
                    let _ = write!(text, ":{}", show_name(octets));
                }
                Parameter::Number(number) => {
                    let _ = write!(text, ":{number}");
                }
            }
            if *result != u64::MAX {
                let _ = write!(text, " returns {result:#x}");
            }
            if let Some((_, mask)) = masks {
                let _ = write!(text, " in {mask:#x}");
            }
            text
        }
        Oxm::LegacyProgram { program, result, mask, parameter } => {
            format!("program={program}:{} returns {result:#x} in {mask:#x}", show_name(parameter))
        }
    }
}

/// A name, or octets in hexadecimal where they are none.
fn show_name(octets: &[u8]) -> String {
    match Prefix::new(octets) {
        Ok(prefix) => prefix.to_string(),
        Err(_) => {
            let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("0x{digits}")
        }
    }
}

fn show_value(field: Field, value: &[u8]) -> String {
    let number = || value.iter().fold(0u64, |number, octet| number << 8 | u64::from(*octet));
    match (field, value) {
        (Field::EthType, _) => format!("{:#06x}", number()),
        (Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa, &[a, b, c, d]) => {
            Ipv4Addr::new(a, b, c, d).to_string()
        }
        (_, &[a, b, c, d, e, f]) => Mac([a, b, c, d, e, f]).to_string(),
        (_, value) => match <[u8; 16]>::try_from(value) {
            Ok(octets) => Ipv6Addr::from(octets).to_string(),
            Err(_) => number().to_string(),
        },
    }
}

/// Instructions as [`ActionsText`] reads them, as far as it can.
pub fn show_instructions(instructions: &[Instruction]) -> String {
    let mut words = Vec::new();
    for instruction in instructions {
        match instruction {
            Instruction::ApplyActions(actions) => words.extend(actions.iter().map(show_action)),
            Instruction::WriteActions(actions) => {
                let inner: Vec<String> = actions.iter().map(show_action).collect();
                words.push(format!("write({})", inner.join(",")));
            }
            Instruction::GotoTable(table) => words.push(format!("goto:{table}")),
            Instruction::WriteMetadata(value, mask) => {
                words.push(format!("metadata:{value:#x}/{mask:#x}"));
            }
            Instruction::ClearActions => words.push("clear".into()),
            Instruction::Meter(meter) => words.push(format!("meter:{meter}")),
        }
    }
    if words.is_empty() { "drop".into() } else { words.join(",") }
}

fn show_action(action: &Action) -> String {
    match action {
        Action::Output { port, .. } => format!("output:{}", show_port(*port)),
        Action::Group(group) => format!("group:{}", group.0),
        Action::SetQueue(queue) => format!("queue:{}", queue.0),
        Action::SetField(oxm) => format!("set:{}", show_oxm(oxm)),
        Action::SetNwTtl(ttl) => format!("set_ttl:{ttl}"),
        Action::DecNwTtl => "dec_ttl".into(),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl:{ttl}"),
        Action::DecMplsTtl => "dec_mpls_ttl".into(),
        Action::CopyTtlOut => "copy_ttl_out".into(),
        Action::CopyTtlIn => "copy_ttl_in".into(),
        Action::PushMpls(ether_type) => format!("push_mpls:{ether_type:#06x}"),
        Action::PopMpls(ether_type) => format!("pop_mpls:{ether_type:#06x}"),
        Action::PushVlan(ether_type) => format!("push_vlan:{ether_type:#06x}"),
        Action::PopVlan => "pop_vlan".into(),
        Action::PushPbb(ether_type) => format!("push_pbb:{ether_type:#06x}"),
        Action::PopPbb => "pop_pbb".into(),
        Action::Encapsulate(tunnel) => format!("into {}", show_tunnel(&tunnel.tunnel)),
        Action::Decapsulate(tunnel) => format!("out of {}", show_tunnel(tunnel)),
    }
}

fn show_tunnel(tunnel: &heddle_core::flow::Tunnel) -> String {
    use heddle_core::flow::Tunnel;
    match tunnel {
        Tunnel::Gre { key: Some(key), .. } => format!("gre:{key}"),
        Tunnel::Gre { key: None, .. } => "gre".into(),
        Tunnel::Vxlan { network } => format!("vxlan:{network}"),
        Tunnel::Udp { destination_port, .. } => format!("udp:{destination_port}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again() {
        for text in [
            "",
            "in_port=1",
            "eth_type=0x0800,ip_proto=17,ipv4_dst=10.0.0.0/255.0.0.0,udp_dst=6363",
            "eth_dst=02:00:00:00:00:01",
            "eth_type=0x86dd,ipv6_src=2001:db8::1",
            "kind=interest,name=/tno/ping",
            "program=1:/tno",
            "program=7:3",
            "program=7",
            "name=/",
        ] {
            let read: MatchText = text.parse().unwrap();
            assert_eq!(show_match(&read.0), text);
        }
        for text in [
            "drop",
            "output:2",
            "set:ipv4_dst=10.1.0.2,set_ttl:128,set:eth_dst=02:00:00:00:00:01,output:controller",
            "push_mpls:0x8847,set:mpls_label=5,output:in_port",
            "dec_ttl,group:3",
            "set:udp_dst=6363,goto:1",
        ] {
            let read: ActionsText = text.parse().unwrap();
            assert_eq!(show_instructions(&read.0), text);
        }
    }

    #[test]
    fn fields_come_behind_what_gives_them_meaning() {
        let read: MatchText =
            "name=/a,udp_dst=6363,ipv4_dst=10.1.2.3/8,ip_proto=17,ip".parse().unwrap();
        let expected =
            "eth_type=0x0800,ip_proto=17,ipv4_dst=10.0.0.0/255.0.0.0,udp_dst=6363,name=/a";
        assert_eq!(show_match(&read.0), expected);
    }

    #[test]
    fn what_cannot_be_read_is_a_sentence() {
        let matching = |text: &str| text.parse::<MatchText>().unwrap_err();
        assert!(matching("colour=red").starts_with("there is no field 'colour'; there are: name,"));
        assert_eq!(matching("udp"), "'udp' is no FIELD=VALUE");
        assert_eq!(matching("udp_dst=x"), "udp_dst: 'x' is no value of it");
        assert_eq!(matching("udp_dst=70000"), "udp_dst: 70000 is more than its 2 octets hold");
        assert_eq!(matching("kind=x"), "'x' is none of interest, data, nack, idle, fragment");
        assert_eq!(matching("name=tno"), "tno: a name begins with a slash, as in /tno/ping");
        let actions = |text: &str| text.parse::<ActionsText>().unwrap_err();
        assert!(actions("jump").starts_with("there is no action 'jump'; there are: output:PORT"));
        assert_eq!(actions("output:x"), "'x' is no number that fits");
        assert_eq!(actions("set:ttl"), "set:ttl is no set:FIELD=VALUE");
    }
}
