//! `[switch]`: what it holds, who controls it, and what does not go with it.

use std::collections::HashMap;
use std::net::SocketAddr;

use toml::Spanned;

use super::Findings;
use crate::config::problem::Problem;
use crate::config::{
    Endpoint, FailMode, MAX_FLOWS, MAX_TABLES_OCTETS, Switch, Tls, Transport, file,
};
use crate::units;

/// Controllers, and places to listen at, that one switch can have, at most.
const MAX_ENDPOINTS: usize = 32;

pub(super) fn switch(findings: &mut Findings, file: &file::File) -> Option<Switch> {
    let Some(table) = &file.switch else {
        without(findings, file);
        return None;
    };
    surplus(findings, file, table);
    let table = table.get_ref();
    let default = Switch::new(datapath_id(findings, &table.datapath_id));
    let switch = Switch {
        max_flows: findings.number_or(
            "max_flows",
            &table.max_flows,
            1..=MAX_FLOWS.into(),
            "flows",
            default.max_flows,
        ),
        max_name_octets: findings.number_or(
            "max_name_octets",
            &table.max_name_octets,
            0..=4_000_000_000,
            "octets",
            default.max_name_octets,
        ),
        max_instructions: findings.number_or(
            "max_instructions",
            &table.max_instructions,
            1..=MAX_FLOWS.into(),
            "lists of instructions",
            default.max_instructions,
        ),
        max_groups: findings.number_or(
            "max_groups",
            &table.max_groups,
            0..=65_536,
            "groups",
            default.max_groups,
        ),
        max_fragmented: max_fragmented(findings, table, default.max_fragmented),
        packet_in_queue: findings.number_or(
            "packet_in_queue",
            &table.packet_in_queue,
            1..=65_536,
            "frames",
            default.packet_in_queue,
        ),
        packet_in_octets: findings.number_or(
            "packet_in_octets",
            &table.packet_in_octets,
            64..=2048,
            "octets",
            default.packet_in_octets,
        ),
        controllers: endpoints(findings, "controllers", &table.controllers),
        listen: endpoints(findings, "listen", &table.listen),
        fail_mode: table.fail_mode.as_ref().map_or_else(FailMode::default, |mode| *mode.get_ref()),
        legacy: table.legacy,
        programs: table.programs,
        malformed_names: table.malformed_names,
        tls: table.tls.as_ref().map(|tls| tls.get_ref().clone()),
        ..default
    };
    controlled(findings, table, &switch);
    tls(findings, table, &switch);
    Some(switch)
}

/// Whether the tables fit any machine. Their memory is taken when the engine starts.
pub(super) fn memory(findings: &mut Findings, file: &file::File, octets: u64) {
    let (true, Some(table)) = (octets > MAX_TABLES_OCTETS, &file.switch) else { return };
    let mut problem = Problem::new(format!(
        "the tables would take {} of memory, one copy for each lcore and one more, and {} is the limit",
        units::octets(octets),
        units::octets(MAX_TABLES_OCTETS)
    ));
    let table = table.get_ref();
    let parts = [
        &table.max_flows,
        &table.max_name_octets,
        &table.max_instructions,
        &table.max_groups,
        &table.max_fragmented,
        &table.packet_in_queue,
    ];
    for part in parts.into_iter().flatten() {
        problem = problem.at(part.span(), "a part");
    }
    findings.add(problem.help("lower one of them, or name fewer lcores"));
}

/// What only a switch has.
fn without(findings: &mut Findings, file: &file::File) {
    for mtu in file.ports.iter().filter_map(|port| port.mtu.as_ref()) {
        findings.add(
            Problem::new("only a port of a switch has an `mtu`")
                .at(mtu.span(), "")
                .help("leave it out, and choose `max_block_octets` in [coded] so that packets fit; or add [switch]"),
        );
    }
}

/// What a switch does not have.
fn surplus(findings: &mut Findings, file: &file::File, table: &Spanned<file::Switch>) {
    let place = table.get_ref().datapath_id.span();
    if let Some(session) = file.sessions.first() {
        findings.add(
            Problem::new("an engine is a switch or carries sessions, not both")
                .at(session.role.span(), "of a session")
                .at(place.clone(), "of the switch")
                .help("leave [switch] out, or the [[session]]s; two engines can run side by side"),
        );
    }
    if let Some(coded) = &file.coded {
        findings.add(
            Problem::new("a switch has no coded sessions")
                .at(coded.span(), "says nothing about a switch")
                .help("leave [coded] out"),
        );
    }
    for rate in file.ports.iter().filter_map(|port| port.rate.as_ref()) {
        findings.add(
            Problem::new("a switch does not limit the rate of its ports")
                .at(rate.span(), "")
                .help("leave `rate` out; the kernel or the device can limit it"),
        );
    }
}

/// Eight octets in hexadecimal, with colons between them or without.
fn datapath_id(findings: &mut Findings, text: &Spanned<String>) -> u64 {
    let octets: Vec<&str> = text.get_ref().split(':').collect();
    let digits = match octets.as_slice() {
        [digits] => (*digits).to_owned(),
        octets if octets.iter().all(|octet| octet.len() == 2) => octets.concat(),
        _ => String::new(),
    };
    let is_hexadecimal =
        digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match u64::from_str_radix(&digits, 16) {
        Ok(0) => {
            findings.add(
                Problem::new("`datapath_id` is 0").at(text.span(), "").help(
                    "give the switch a number that none of its controllers' other switches has",
                ),
            );
        }
        Ok(id) if is_hexadecimal => return id,
        _ => {
            findings.add(
                Problem::new("this is not the number of a switch").at(text.span(), "").help(
                    "write eight octets in hexadecimal, for example \"00:00:00:00:00:00:00:01\"",
                ),
            );
        }
    }
    1
}

fn max_fragmented(findings: &mut Findings, table: &file::Switch, default: u32) -> u32 {
    let places = findings.number_or(
        "max_fragmented",
        &table.max_fragmented,
        8..=1_048_576,
        "packets",
        default,
    );
    if let Some(place) = &table.max_fragmented
        && !places.is_multiple_of(8)
    {
        let down = places / 8 * 8;
        findings.add(
            Problem::new("`max_fragmented` is not a multiple of 8")
                .at(place.span(), "")
                .help(format!("use {down} or {}", down + 8)),
        );
    }
    places
}

fn endpoints(
    findings: &mut Findings,
    name: &str,
    list: &Option<Spanned<Vec<Spanned<String>>>>,
) -> Vec<Endpoint> {
    let Some(list) = list else { return Vec::new() };
    if let Some(over) = list.get_ref().get(MAX_ENDPOINTS) {
        findings.add(
            Problem::new(format!("`{name}` names more than a switch can have"))
                .at(over.span(), format!("the first beyond {MAX_ENDPOINTS}"))
                .help("leave some out"),
        );
    }
    let mut seen = HashMap::new();
    let mut endpoints = Vec::with_capacity(list.get_ref().len());
    for text in list.get_ref() {
        let Some(endpoint) = endpoint(text.get_ref()) else {
            findings.add(
                Problem::new(format!("`{}` is not an address to talk OpenFlow to", text.get_ref()))
                    .at(text.span(), "")
                    .help("write it as \"tcp:127.0.0.1:6653\", \"tls:[::1]:6653\": `tcp` or `tls`, an IP address, a port"),
            );
            continue;
        };
        if let Some(first) = seen.insert(endpoint.address, text.span()) {
            findings.add(
                Problem::new(format!("{} is twice in `{name}`", endpoint.address))
                    .at(text.span(), "the second time")
                    .at(first, "the first time")
                    .help("name each address once"),
            );
        } else if name == "controllers" && endpoint.address.ip().is_unspecified() {
            findings.add(
                Problem::new(format!("{} is the address of no controller", endpoint.address.ip()))
                    .at(text.span(), "")
                    .help("give the address of the controller's machine, or put it under `listen`"),
            );
        }
        endpoints.push(endpoint);
    }
    endpoints
}

/// `tcp:ADDRESS:PORT` or `tls:ADDRESS:PORT`; port 0 is nobody's.
fn endpoint(text: &str) -> Option<Endpoint> {
    let (transport, address) = text.split_once(':')?;
    let transport = match transport {
        "tcp" => Transport::Tcp,
        "tls" => Transport::Tls,
        _ => return None,
    };
    let address: SocketAddr = address.parse().ok()?;
    (address.port() != 0).then_some(Endpoint { transport, address })
}

/// Whether anybody could ever make the switch forward anything.
fn controlled(findings: &mut Findings, table: &file::Switch, switch: &Switch) {
    // Those that are written wrong are problems of their own.
    let names = |list: &Option<Spanned<Vec<Spanned<String>>>>| {
        list.as_ref().is_some_and(|list| !list.get_ref().is_empty())
    };
    if !names(&table.controllers) && !names(&table.listen) {
        findings.add(
            Problem::new("nobody controls this switch: it would never forward a frame")
                .at(table.datapath_id.span(), "of this switch")
                .help(
                    "add `controllers` or `listen`, for example listen = [\"tcp:127.0.0.1:6654\"]",
                ),
        );
    } else if switch.fail_mode == FailMode::Standalone
        && !names(&table.controllers)
        && let Some(mode) = &table.fail_mode
    {
        findings.add(
            Problem::new("`standalone` is for when none of `controllers` is connected, and there are none")
                .at(mode.span(), "")
                .help("add `controllers`, or leave `fail_mode` out: the switch then goes by the flows that it is given on `listen`"),
        );
    }
}

fn tls(findings: &mut Findings, table: &file::Switch, switch: &Switch) {
    match &table.tls {
        None if switch.uses_tls() => {
            let lists = table.controllers.iter().chain(&table.listen);
            let mut places = lists.flat_map(|list| list.get_ref());
            let Some(place) = places.find(|text| text.get_ref().starts_with("tls:")) else {
                return;
            };
            findings.add(
                Problem::new("`tls` needs certificates and a key")
                    .at(place.span(), "")
                    .help(
                        "add tls = { certificate = \"switch.pem\", key = \"switch.key\", authority = \"ca.pem\" } to \
                         [switch], or write `tcp:`",
                    ),
            );
        }
        Some(tls) => {
            let Tls { certificate, key, authority } = tls.get_ref();
            let files = [("certificate", certificate), ("key", key), ("authority", authority)];
            for (name, _) in files.iter().filter(|(_, path)| path.as_os_str().is_empty()) {
                findings.add(
                    Problem::new(format!("`{name}` of `tls` is empty"))
                        .at(tls.span(), "")
                        .help("give the path of a PEM file"),
                );
            }
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn endpoints_are_read_and_written_alike() {
        for text in ["tcp:127.0.0.1:6653", "tls:[::1]:6653", "tcp:[fe80::1]:1"] {
            assert_eq!(endpoint(text).unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "tcp",
            "tcp:",
            "udp:127.0.0.1:1",
            "tcp:host:1",
            "tcp:127.0.0.1",
            "tcp:::1:6653",
            "tcp:1.2.3.4:0",
        ] {
            assert_eq!(endpoint(wrong), None, "{wrong}");
        }
    }
}
