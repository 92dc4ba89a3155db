//! Match and action: what an OpenFlow 1.3 switch does with frames, with names among the fields that it can match.
//!
//! [`Packet`] finds the fields of a frame and the name in it; [`FlowTable`] holds the rules of all tables and finds
//! the best one; [`Switch`] runs a frame through the tables and carries the actions out.
//!
//! A rule may ask for a prefix of the packet's name. Within a priority the longest prefix wins, and it is found by
//! hashing the name's octets once, component by component; octets of whole components are a prefix of a name exactly
//! when they are a prefix of its octets, so that nothing is decoded but the lengths. Inserting and removing a rule take
//! the same few steps however many rules there are, in memory that the caller gives.

mod action;
mod apply;
mod buckets;
mod burst;
mod counters;
mod draws;
mod fields;
mod fragment;
mod glance;
mod group;
mod hash;
mod instructions;
mod lookup;
mod named;
mod names;
mod nonce;
mod packet;
mod packet_in;
mod pipeline;
mod programs;
mod rewrite;
mod rule;
mod steps;
mod subtables;
mod switch;
mod table;
mod tunnel;
mod way;

pub use action::{Action, ActionSet, MAX_ACTIONS, Output, SetField};
pub use buckets::RuleBucket;
pub use counters::FlowDrop;
pub use fields::{Fields, NdnKind, VLAN_PRESENT};
pub use group::{Bucket, Group, GroupError, GroupKind, Groups, MAX_BUCKETS};
pub use instructions::{Instructions, SharedInstructions};
pub use packet::Packet;
pub use packet_in::{PacketIn, PacketInReason, PacketIns};
pub use programs::{MAX_PROGRAM_RUNS, NoPrograms, ProgramMatch, ProgramPlace, Programs};
pub use rule::{Flow, MAX_NAME_COMPONENTS, Match, NameChunk, Rule, RuleId, Timeouts};
pub use switch::{FragmentPath, MAX_TABLES, Switch, SwitchMemory};
pub use table::{FlowTable, MAX_ALIKE, TableError, TableMemory};
pub use tunnel::{Encapsulation, Endpoints, Tunnel};

use crate::named::named_enum;

named_enum! {
    /// Why a frame goes no further.
    pub enum FlowError {
        /// Shorter than its headers.
        FrameTooShort = "flow_frame_too_short",
        /// A header whose lengths contradict each other or the frame.
        HeaderLen = "flow_header_len",
        /// No rule matches and the table has none for that.
        NoMatch = "flow_no_match",
        /// The rules that match send it nowhere.
        NoOutput = "flow_no_output",
        /// Its TTL or hop limit has run out.
        TtlExpired = "flow_ttl_expired",
        /// Its HopLimit does not let an Interest go further.
        HopLimitReached = "flow_hop_limit_reached",
        /// An action asks for a header that the frame does not have.
        ActionMismatch = "flow_action_mismatch",
        /// An action cannot grow the frame: no headroom, or too long for its headers.
        NoRoom = "flow_no_room",
        /// Longer than the port it should leave on can send.
        FrameExceedsMtu = "flow_frame_exceeds_mtu",
        /// A named-data packet that a port should send in fragments came with a wrong checksum.
        FragmentChecksum = "flow_fragment_checksum",
        /// No frame was left for a copy.
        NoFrames = "flow_no_frames",
        /// It should leave on a port that is not there or down.
        PortDown = "flow_port_down",
        /// The group is not there, or none of its buckets is alive.
        GroupDead = "flow_group_dead",
        /// The queue to the controller is full.
        ControllerQueueFull = "flow_controller_queue_full",
        /// Rules asked for more runs of programs than one packet may cause in a table; those beyond do not match.
        ProgramRuns = "flow_program_runs",
    }
}
