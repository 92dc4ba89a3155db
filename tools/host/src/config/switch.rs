//! The table `[switch]`: what makes an engine an OpenFlow switch.

use std::fmt;
use std::mem::size_of;
use std::net::SocketAddr;
use std::path::PathBuf;

use heddle_core::flow;
use heddle_core::ndn::FragmentFlow;
use serde::{Deserialize, Serialize};

/// Octets of a long name in each piece.
pub const NAME_PIECE_OCTETS: u32 = 60;

/// An OpenFlow 1.3 switch: who controls it, and how much it can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The number by which controllers know the switch, not 0. Written as eight octets, `00:00:00:00:00:00:00:01`.
    pub datapath_id: u64,
    /// Flows in all tables together, at most. 65536 by default.
    pub max_flows: u32,
    /// Memory for what names of flows have beyond their first 36 octets, for all flows together. 1 MiB by default.
    pub max_name_octets: u32,
    /// Different lists of instructions, at most: flows that do the same share one. 4096 by default.
    pub max_instructions: u32,
    /// Groups, at most. 256 by default.
    pub max_groups: u32,
    /// Fragmented packets of which the switch remembers the way at a time; a multiple of 8. 1024 by default.
    pub max_fragmented: u32,
    /// Frames that wait for the controllers at each worker, at most. 256 by default.
    pub packet_in_queue: u32,
    /// Octets of each such frame that are kept. 2048 by default: all of it.
    pub packet_in_octets: u16,
    /// Controllers that the switch connects to. None by default.
    pub controllers: Vec<Endpoint>,
    /// Where the switch waits for connections of controllers and of operators' commands. Nowhere by default.
    pub listen: Vec<Endpoint>,
    /// What happens to frames while no controller is connected. `secure` by default.
    pub fail_mode: FailMode,
    /// What runs the programs of flows. `jit` by default.
    pub programs: ProgramRunner,
    /// What happens to malformed named-data packets. `drop` by default.
    pub malformed_names: MalformedNames,
    /// Whether controllers of older switches of this kind are understood, too: their match on programs, and a PUT that is not
    /// acknowledged. Not by default.
    pub legacy: bool,
    /// Certificates and key; needed when an endpoint is `tls`.
    pub tls: Option<Tls>,
}

impl Switch {
    /// The switch with this number that nobody controls, everything else as by default.
    pub const fn new(datapath_id: u64) -> Self {
        Self {
            datapath_id,
            max_flows: 65_536,
            max_name_octets: 1 << 20,
            max_instructions: 4096,
            max_groups: 256,
            max_fragmented: 1024,
            packet_in_queue: 256,
            packet_in_octets: 2048,
            controllers: Vec::new(),
            listen: Vec::new(),
            fail_mode: FailMode::Secure,
            programs: ProgramRunner::Jit,
            malformed_names: MalformedNames::Drop,
            legacy: false,
            tls: None,
        }
    }

    /// Buckets by which flows are found: a power of two, about one for every four flows.
    pub fn buckets(&self) -> u32 {
        (self.max_flows / 4).max(1).next_power_of_two()
    }

    /// Pieces of long names.
    pub fn name_pieces(&self) -> u32 {
        self.max_name_octets.div_ceil(NAME_PIECE_OCTETS)
    }

    /// Memory that one copy of the tables takes, in octets.
    pub fn tables_octets(&self) -> u64 {
        let places = [
            (self.max_flows, size_of::<flow::Rule>()),
            (self.buckets(), size_of::<flow::RuleBucket>()),
            (self.name_pieces(), size_of::<flow::NameChunk>()),
            (self.max_instructions, size_of::<flow::SharedInstructions>()),
            (self.max_groups, size_of::<flow::Group>()),
            (self.max_fragmented, size_of::<FragmentFlow<flow::FragmentPath>>()),
            (
                self.packet_in_queue,
                size_of::<flow::PacketIn>() + usize::from(self.packet_in_octets),
            ),
        ];
        places.iter().map(|(count, octets)| u64::from(*count) * *octets as u64).sum()
    }

    /// Whether any endpoint is `tls`.
    pub fn uses_tls(&self) -> bool {
        let is_tls = |endpoint: &Endpoint| endpoint.transport == Transport::Tls;
        self.controllers.iter().chain(&self.listen).any(is_tls)
    }
}

/// An address and how it is talked to: `tcp:127.0.0.1:6653` or `tls:[::1]:6653`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Whether the connection is encrypted.
    pub transport: Transport,
    /// The address and port.
    pub address: SocketAddr,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
        };
        write!(f, "{transport}:{}", self.address)
    }
}

/// How controllers are talked to.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// In the clear.
    Tcp,
    /// Encrypted, each side proving who it is.
    Tls,
}

/// What a switch does while none of [`Switch::controllers`] is connected (OpenFlow 1.3.5, 6.3.2).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailMode {
    /// Flows stay as they are, and end by their time-outs.
    #[default]
    Secure,
    /// After three seconds without, it forwards as a bridge that learns nothing: each frame goes out on all ports but the one that
    /// it came in on, so that there must be no loop of such switches. Its flows stay for when a controller is back.
    Standalone,
}

/// What runs the programs of flows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramRunner {
    /// Compiled code; an interpreter on processors for which there is no compiler.
    #[default]
    Jit,
    /// An interpreter.
    Interpret,
}

/// What happens to a named-data packet that its specification does not allow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MalformedNames {
    /// It is dropped.
    #[default]
    Drop,
    /// It can match flows that ask for no name.
    Pass,
}

/// Files with certificates and a key, in PEM, from the directory in which the engine runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The switch's own certificate, and those that lead from it to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities that the other side's certificate must come from.
    pub authority: PathBuf,
}
