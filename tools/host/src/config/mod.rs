//! The configuration of one engine process: `heddle.toml`, read, checked and written.
//!
//! [`Config::load`] reads a file and reports everything that is wrong with it at once, each problem with
//! its line and what to do. What it returns needs no further check: every port that a session names
//! exists, every number is in its range. [`Config::to_toml`] writes a file that reads back as the same.

mod check;
mod file;
mod problem;
mod switch;

use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use heddle_core::coded;
use serde::{Deserialize, Serialize, Serializer};

pub use problem::{ConfigError, Place, Problem};
pub use switch::{Endpoint, FailMode, MalformedNames, ProgramRunner, Switch, Tls, Transport};

/// Ports that one engine can have, at most.
pub const MAX_PORTS: usize = heddle_core::node::MAX_PORTS;

/// Sessions that one file can describe, at most.
pub const MAX_SESSIONS: usize = coded::MAX_RULES;

/// Blocks in a generation, at most: the coded header counts them in one octet.
pub const MAX_GENERATION_SIZE: u8 = 255;

/// Octets in a block, at most: the coded header counts units of 8 octets in one octet.
pub const MAX_BLOCK_OCTETS: u16 = coded::MAX_BLOCK_OCTETS as u16;

/// Memory for generations of all workers together, in octets, at most. More is taken for a mistake.
pub const MAX_GENERATIONS_OCTETS: u64 = 64 << 30;

/// Flows that one switch can hold, at most.
pub const MAX_FLOWS: u32 = 1 << 24;

/// Memory for the tables of a switch, all copies together, in octets, at most. More is taken for a mistake.
pub const MAX_TABLES_OCTETS: u64 = 64 << 30;

/// Everything that one engine process is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The process itself: its name, its CPUs, its memory.
    pub engine: Engine,
    /// Bounds and rules that hold for all coded sessions.
    pub coded: Coded,
    /// The ports, in the file's order; a [`PortIndex`] counts them.
    pub ports: Vec<Port>,
    /// The sessions, in the file's order; none in a switch.
    pub sessions: Vec<Session>,
    /// What makes the process an OpenFlow switch; without it, it carries coded sessions.
    pub switch: Option<Switch>,
}

/// The table `[engine]`: the process itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Names the process in logs and telemetry; `heddle-NAME` is EAL's file prefix. Letters, digits, `.`, `_`
    /// and `-`, 1 to 32 of them.
    pub name: String,
    /// CPU numbers, no two alike, at least one. Each gets one worker, and the sessions are shared out between them.
    pub lcores: Vec<u32>,
    /// What a worker does when no frame waits. `poll` by default.
    pub idle: Idle,
    /// Whether memory comes from hugepages. `auto` by default.
    pub hugepages: Hugepages,
    /// Memory for EAL when it runs without hugepages, in MiB. 64 by default.
    pub memory_mib: u32,
    /// Frame buffers in the pool. 4096 by default.
    pub mbufs: u32,
    /// The least severe messages that are logged. `info` by default.
    pub log: LogLevel,
}

/// What a worker does when no frame waits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Asks again at once: the least latency, and a whole CPU.
    #[default]
    Poll,
    /// Sleeps a little: many engines can share few CPUs.
    Sleep,
}

/// Whether an engine's memory comes from hugepages.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hugepages {
    /// From hugepages when enough are reserved, else without, and the log says so.
    #[default]
    Auto,
    /// From hugepages; the engine does not start without.
    Require,
    /// Never from hugepages.
    Never,
}

/// How severe a message must be to be logged.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing is logged.
    Off,
    /// What stops the engine or a part of it.
    Error,
    /// What an operator should look at.
    Warn,
    /// Start, readiness, stop.
    #[default]
    Info,
    /// What helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

/// The table `[coded]`: bounds and rules of all coded sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The IP protocol number of coded packets. 253 by default, an experimental number (RFC 3692).
    pub protocol: u8,
    /// Blocks in a generation, at most (K). A generation of more is dropped and counted. 16 by default.
    pub max_generation_size: u8,
    /// Octets in a block, at most (N), a multiple of 8 up to 2040. 1480 by default.
    pub max_block_octets: u16,
    /// Generations that a session keeps, at most 1024; the one updated longest ago makes room. 150 by default.
    pub ses_max_gen: u16,
    /// A session that hears nothing for as long is forgotten. 3 minutes by default; whole seconds.
    pub ses_time_out: Duration,
    /// Sessions of sources that no `[[session]]` names, which each worker keeps at a time, at most. 16 by default.
    pub max_sessions: u16,
    /// When a forwarder sends. `paced` by default.
    pub sending: Sending,
}

impl Default for Coded {
    fn default() -> Self {
        Self {
            protocol: 253,
            max_generation_size: 16,
            max_block_octets: 1480,
            ses_max_gen: 150,
            ses_time_out: Duration::from_secs(180),
            max_sessions: 16,
            sending: Sending::default(),
        }
    }
}

/// When a forwarder sends what it recodes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sending {
    /// At each output's rate, so that a node with two inputs does not double its output.
    #[default]
    Paced,
    /// One packet on each output for each innovative arrival.
    Literal,
}

/// One `[[port]]`: a device that frames come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The port's name in sessions, logs and counters. Letters, digits and `_`, 1 to 32 of them.
    pub name: String,
    /// The device behind the port.
    pub device: Device,
    /// Ethernet octets (header included, FCS and preamble not) that this node may send in a second; absent: no limit.
    pub rate_octets_per_s: Option<NonZeroU64>,
    /// Octets of the longest frame that a switch sends here, Ethernet header included, FCS not; 64 to [`MAX_MTU_OCTETS`].
    /// [`DEFAULT_MTU_OCTETS`] by default. Only a switch has it: the length of coded packets follows from their blocks.
    pub mtu_octets: u16,
}

/// Octets of the longest frame that fits a buffer.
pub const MAX_MTU_OCTETS: u16 = 2048;

/// Octets of the longest frame of an Ethernet whose MTU is 1500.
pub const DEFAULT_MTU_OCTETS: u16 = 1514;

/// The device behind a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A device that DPDK makes: what follows `--vdev`, for example `net_af_packet0,iface=eth1`.
    Vdev(String),
    /// A device on the PCI bus.
    Pci(PciAddress),
}

/// An address on the PCI bus, written `DDDD:BB:DD.F` in hexadecimal; the domain may be left out when it is 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// The domain, 16 bits.
    pub domain: u16,
    /// The bus, 8 bits.
    pub bus: u8,
    /// The device on the bus, 0 to 31.
    pub device: u8,
    /// The function of the device, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// A port as its place in [`Config::ports`]: below [`MAX_PORTS`], and also its number in the engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIndex(pub u8);

/// One `[[session]]`: what this node does for one multicast group of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// SESSION_ID of the coded header.
    pub id: u8,
    /// The unicast address of the sender; absent: any sender.
    pub source: Option<Ipv4Addr>,
    /// The multicast group.
    pub group: Ipv4Addr,
    /// What the node does for the session.
    pub role: Role,
}

/// What a node does for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Cuts datagrams into generations and codes them.
    Source(Source),
    /// Recodes.
    Forwarder(Forwarder),
    /// Decodes and delivers.
    Destination(Destination),
}

/// A source: UDP datagrams to the group that arrive on the inputs leave coded on the outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where the datagrams arrive; at least one, and none of the outputs.
    pub inputs: Vec<PortIndex>,
    /// Where the coded packets go; at least one.
    pub outputs: Vec<PortIndex>,
    /// What makes a generation. `datagram` by default.
    pub generation: Generation,
    /// Blocks in a generation (K), 1 to [`Coded::max_generation_size`].
    pub generation_size: u8,
    /// Packets for each generation beyond the larger of K and the number of outputs. 0 by default.
    pub redundancy: u8,
    /// With [`Generation::Packets`]: a generation that has waited for so long is sent short. 20 ms by default; whole
    /// milliseconds.
    pub flush: Duration,
}

/// A forwarder: coded packets of the session that arrive on the inputs leave recoded on the outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarder {
    /// Where coded packets are taken from. When the file names none: every port that is not an output.
    /// A port can be both, where a link carries the session in both directions; the file must then say so.
    pub inputs: Vec<PortIndex>,
    /// Where the recoded packets go; at least one.
    pub outputs: Vec<PortIndex>,
}

/// A destination: coded packets of the session that arrive on the inputs are decoded, and the datagrams delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Where coded packets are taken from. When the file names none: every port that is not delivered to.
    pub inputs: Vec<PortIndex>,
    /// Where the datagrams go, as normal IP packets; at least one, and none of the inputs.
    pub deliver: Vec<PortIndex>,
    /// What the source makes a generation of. `datagram` by default.
    pub generation: Generation,
}

/// What makes a generation.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generation {
    /// One datagram, cut into K blocks.
    #[default]
    Datagram,
    /// K datagrams, each of them a block.
    Packets,
}

impl Config {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong; the error holds every problem that was found.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Box<ConfigError>> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match file::read(path) {
            Ok(text) => Self::parse(&text, &name),
            Err(why) => Err(Box::new(ConfigError::unreadable(&name, why))),
        }
    }

    /// Checks `text`, which is called `name` in the error.
    ///
    /// # Errors
    /// Something in the text is wrong; the error holds every problem that was found.
    pub fn parse(text: &str, name: &str) -> Result<Self, Box<ConfigError>> {
        file::parse(text)
            .and_then(|file| check::check(&file))
            .map_err(|problems| Box::new(ConfigError::invalid(text, name, problems)))
    }

    /// The configuration as the text of a `heddle.toml`, with every default written out.
    ///
    /// # Errors
    /// The configuration was not read but built, and is one that no file can say: a session names a port that does
    /// not exist, or a number is larger than TOML's.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The port that `index` counts.
    pub fn port(&self, index: PortIndex) -> Option<&Port> {
        self.ports.get(usize::from(index.0))
    }

    /// Sessions that each worker has room for: one for each `[[session]]` that names its source, and
    /// [`Coded::max_sessions`] more when any takes any source, since any number of sources can then turn up.
    pub fn session_places(&self) -> usize {
        let named = self.sessions.iter().filter(|session| session.source.is_some()).count();
        let any = match named < self.sessions.len() {
            true => usize::from(self.coded.max_sessions),
            false => 0,
        };
        named + any
    }

    /// Memory that the generations of all workers together take when every session is full, in octets.
    pub fn generations_octets(&self) -> u64 {
        let generation = coded::generation_octets(&coded::Settings {
            max_generation_size: self.coded.max_generation_size,
            max_block_octets: self.coded.max_block_octets,
            ..coded::Settings::default()
        });
        [self.engine.lcores.len(), self.session_places(), usize::from(self.coded.ses_max_gen)]
            .into_iter()
            .fold(generation as u64, |octets, count| octets.saturating_mul(count as u64))
    }

    /// Memory that the tables of a switch take, in octets: a copy for each worker, and one to compare changes with.
    /// None without a [`Switch`].
    pub fn tables_octets(&self) -> u64 {
        let copies = self.engine.lcores.len() as u64 + 1;
        self.switch.as_ref().map_or(0, |switch| switch.tables_octets().saturating_mul(copies))
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        file::File::try_from(self).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl Session {
    /// Where the session's packets are taken from.
    pub fn inputs(&self) -> &[PortIndex] {
        match &self.role {
            Role::Source(role) => &role.inputs,
            Role::Forwarder(role) => &role.inputs,
            Role::Destination(role) => &role.inputs,
        }
    }

    /// Where the session's packets go: coded ones, or the datagrams that a destination delivers.
    pub fn outputs(&self) -> &[PortIndex] {
        match &self.role {
            Role::Source(role) => &role.outputs,
            Role::Forwarder(role) => &role.outputs,
            Role::Destination(role) => &role.deliver,
        }
    }
}

impl Role {
    /// The role's name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Source(_) => "source",
            Self::Forwarder(_) => "forwarder",
            Self::Destination(_) => "destination",
        }
    }
}
