//! OpenFlow 1.3: messages decoded strictly and encoded to the octet, and a stream cut into messages.
//!
//! [`Framer`] cuts a byte stream, [`Message::decode`] and [`Message::encode`] go from octets to values and back. What cannot be decoded
//! gives a [`Refusal`]: the type and code of the error message that its sender gets.
//!
//! [`agent::Agent`] is the switch's side of a conversation, [`datapath::Datapath`] what it asks of the switch.
//! [`controller::Controller`] is a controller that joins islands of named data.
//!
//! Experimenter 0x66666666 carries programs to a switch and matches on their results; see [`Experiment`]. Experimenter 0x48444c45
//! ([`HEDDLE`]) matches prefixes of names and has the actions of tunnels.
//!
//! [`client::Client`] is the controller's side: for controllers and for commands of an operator.

mod action;
mod address;
pub mod agent;
pub mod client;
pub mod controller;
pub mod datapath;
pub mod driver;
mod experiment;
mod flow;
mod framer;
mod group;
mod hello;
mod instruction;
mod message;
mod mods;
mod multipart;
mod ours;
mod oxm;
mod packet;
mod port;
mod refusal;
mod stats;
mod tls;
mod tunnel;
mod wire;

pub use action::{Action, SetQueue};
pub use address::{Address, BadAddress, DEFAULT_PORT, Transport};
pub use experiment::{EXPERIMENTER, Experiment, MAX_PUT_OCTETS, ProgramStats};
pub use flow::{Command, FlowFlags, FlowMod, FlowRemoved};
pub use framer::Framer;
pub use group::{Bucket, GroupCommand, GroupMod, GroupType};
pub use hello::{Hello, HelloElement, VERSION};
pub use instruction::Instruction;
pub use message::{AsyncConfig, Body, Features, Message, Role, SwitchConfig};
pub use mods::{MeterMod, PortMod, TableMod};
pub(crate) use multipart::{MAX_FLOW_STATS_OCTETS, flow_stats_part};
pub use multipart::{Reply, ReplyBody, Request};
pub use ours::{HEDDLE, MAX_NAME_OCTETS, Parameter};
pub(crate) use oxm::CLASS_EXPERIMENTER;
pub use oxm::{Field, MAX_LEGACY_PARAMETER_OCTETS, Match, Oxm};
pub use packet::{PacketIn, PacketOut, Reason};
pub use port::{GroupId, Port, PortNumber, PortStats, PortStatus};
pub use refusal::Refusal;
pub use stats::{
    Aggregate, Description, FlowFilter, FlowStats, GroupFeatures, GroupStats, TableFeatures,
    TableProperty, TableStats,
};

pub use tls::{Tls, TlsError, TlsFiles};

/// The buffer number that says that the octets are in the message.
pub const NO_BUFFER: u32 = u32::MAX;

/// The table number that stands for all tables.
pub const ALL_TABLES: u8 = u8::MAX;
