//! The file as it is written: serde's view of `heddle.toml`, with the place of each value.

use std::fs;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::problem::Problem;
use super::{
    Config, Device, Endpoint, FailMode, Generation, Hugepages, Idle, LogLevel, MalformedNames,
    PortIndex, ProgramRunner, Role, Sending, Tls,
};

/// A file of more octets is not a configuration. It could be a device without an end.
const MAX_FILE_OCTETS: u64 = 1 << 20;

/// An optional value of the file and its place.
type Maybe<T> = Option<Spanned<T>>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub engine: Engine,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coded: Maybe<Coded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Maybe<Switch>,
    #[serde(rename = "port", default)]
    pub ports: Vec<Port>,
    #[serde(rename = "session", default)]
    pub sessions: Vec<Session>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    pub name: Spanned<String>,
    pub lcores: Spanned<Vec<Spanned<i64>>>,
    #[serde(default)]
    pub idle: Idle,
    #[serde(default)]
    pub hugepages: Hugepages,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbufs: Maybe<i64>,
    #[serde(default)]
    pub log: LogLevel,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Coded {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_generation_size: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_block_octets: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ses_max_gen: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ses_time_out_s: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sessions: Maybe<i64>,
    #[serde(default)]
    pub sending: Sending,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub name: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vdev: Maybe<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Maybe<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Maybe<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub datapath_id: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_flows: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_name_octets: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_instructions: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_groups: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fragmented: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_in_queue: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_in_octets: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Maybe<Vec<Spanned<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Maybe<Vec<Spanned<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_mode: Maybe<FailMode>,
    #[serde(default)]
    pub programs: ProgramRunner,
    #[serde(default)]
    pub malformed_names: MalformedNames,
    #[serde(default)]
    pub legacy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Maybe<Tls>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoleName {
    Source,
    Forwarder,
    Destination,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Session {
    pub role: Spanned<RoleName>,
    pub id: Spanned<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Maybe<Ipv4Addr>,
    pub group: Spanned<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Maybe<Vec<Spanned<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Maybe<Vec<Spanned<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver: Maybe<Vec<Spanned<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Maybe<Generation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation_size: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redundancy: Maybe<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_ms: Maybe<i64>,
}

/// The text of the file at `path`, or why there is none.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut octets = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_OCTETS + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_FILE_OCTETS {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    String::from_utf8(octets).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is not UTF-8 text from octet {at} on"))
    })
}

/// What the text says, or every place where it is not TOML, or the first where it is not a `heddle.toml`.
pub(super) fn parse(text: &str) -> Result<File, Vec<Problem>> {
    let (table, errors) = toml::de::DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(Problem::from).collect());
    }
    File::deserialize(toml::de::Deserializer::from(table))
        .map_err(|error| vec![Problem::from(&error)])
}

/// A value to write: the place does not matter then.
fn written<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// An optional value to write.
fn present<T>(value: impl Into<T>) -> Maybe<T> {
    Some(written(value.into()))
}

fn integer(value: impl TryInto<i64>) -> Result<i64, String> {
    value.try_into().map_err(|_| "a number is larger than TOML's".to_owned())
}

impl TryFrom<&Config> for File {
    type Error = String;

    fn try_from(config: &Config) -> Result<Self, String> {
        let Config { engine, coded, ports, sessions, switch } = config;
        Ok(Self {
            engine: Engine {
                name: written(engine.name.clone()),
                lcores: written(engine.lcores.iter().map(|&cpu| written(cpu.into())).collect()),
                idle: engine.idle,
                hugepages: engine.hugepages,
                memory_mib: present(engine.memory_mib),
                mbufs: present(engine.mbufs),
                log: engine.log,
            },
            coded: match switch {
                Some(_) => None,
                None => Some(written(Coded::try_from(coded)?)),
            },
            switch: switch.as_ref().map(|switch| written(Switch::from(switch))),
            ports: ports
                .iter()
                .map(|port| Port::new(port, switch.is_some()))
                .collect::<Result<_, _>>()?,
            sessions: sessions
                .iter()
                .map(|session| Session::new(config, session))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<&super::Coded> for Coded {
    type Error = String;

    fn try_from(coded: &super::Coded) -> Result<Self, String> {
        Ok(Self {
            protocol: present(coded.protocol),
            max_generation_size: present(coded.max_generation_size),
            max_block_octets: present(coded.max_block_octets),
            ses_max_gen: present(coded.ses_max_gen),
            ses_time_out_s: present(integer(coded.ses_time_out.as_secs())?),
            max_sessions: present(coded.max_sessions),
            sending: coded.sending,
        })
    }
}

impl From<&super::Switch> for Switch {
    fn from(switch: &super::Switch) -> Self {
        let octets = switch.datapath_id.to_be_bytes().map(|octet| format!("{octet:02x}"));
        let list = |endpoints: &[Endpoint]| {
            let texts = endpoints.iter().map(|endpoint| written(endpoint.to_string()));
            Some(written(texts.collect()))
        };
        Self {
            datapath_id: written(octets.join(":")),
            max_flows: present(switch.max_flows),
            max_name_octets: present(switch.max_name_octets),
            max_instructions: present(switch.max_instructions),
            max_groups: present(switch.max_groups),
            max_fragmented: present(switch.max_fragmented),
            packet_in_queue: present(switch.packet_in_queue),
            packet_in_octets: present(switch.packet_in_octets),
            controllers: list(&switch.controllers),
            listen: list(&switch.listen),
            fail_mode: present(switch.fail_mode),
            programs: switch.programs,
            malformed_names: switch.malformed_names,
            legacy: switch.legacy,
            tls: switch.tls.clone().map(written),
        }
    }
}

impl Port {
    fn new(port: &super::Port, of_switch: bool) -> Result<Self, String> {
        let (vdev, pci) = match &port.device {
            Device::Vdev(vdev) => (present(vdev.clone()), None),
            Device::Pci(pci) => (None, present(pci.to_string())),
        };
        let rate = match port.rate_octets_per_s {
            Some(rate) => present(integer(rate.get())?),
            None => None,
        };
        let mtu = if of_switch { present(port.mtu_octets) } else { None };
        Ok(Self { name: written(port.name.clone()), vdev, pci, rate, mtu })
    }
}

impl Session {
    fn new(config: &Config, session: &super::Session) -> Result<Self, String> {
        let names = |ports: &[PortIndex]| {
            ports
                .iter()
                .map(|&index| match config.port(index) {
                    Some(port) => Ok(written(port.name.clone())),
                    None => Err(format!(
                        "session {} names port number {}, and there are {} ports",
                        session.id,
                        index.0,
                        config.ports.len()
                    )),
                })
                .collect::<Result<Vec<_>, _>>()
                .map(present)
        };
        let mut file = Self {
            role: written(RoleName::Forwarder),
            id: written(session.id.into()),
            source: session.source.map(written),
            group: written(session.group),
            inputs: names(session.inputs())?,
            outputs: None,
            deliver: None,
            generation: None,
            generation_size: None,
            redundancy: None,
            flush_ms: None,
        };
        match &session.role {
            Role::Source(role) => {
                file.role = written(RoleName::Source);
                file.outputs = names(&role.outputs)?;
                file.generation = present(role.generation);
                file.generation_size = present(role.generation_size);
                file.redundancy = present(role.redundancy);
                file.flush_ms = present(integer(role.flush.as_millis())?);
            }
            Role::Forwarder(role) => file.outputs = names(&role.outputs)?,
            Role::Destination(role) => {
                file.role = written(RoleName::Destination);
                file.deliver = names(&role.deliver)?;
                file.generation = present(role.generation);
            }
        }
        Ok(file)
    }
}
