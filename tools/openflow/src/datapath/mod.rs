//! What an agent asks of the switch that it speaks for.
//!
//! All OpenFlow state is the agent's; a [`Datapath`] holds rules, groups and programs and carries packets. It may live on other threads:
//! each call is an order that is carried out in the order of the calls, and none waits for a packet. [`Datapath::barrier`] waits for
//! them all.

mod in_process;

pub use in_process::{InProcess, ProgramHost};

use crate::ProgramStats;
use heddle_core::flow::{
    Action, Bucket, Flow, GroupError, GroupKind, Instructions, Match, PacketIn, RuleId, TableError,
};
use heddle_core::node::{Instant, PortId};

/// Counters of a rule.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FlowCounters {
    /// Packets that it has matched.
    pub packets: u64,
    /// Octets of them.
    pub octets: u64,
    /// When it was added.
    pub added: Instant,
    /// When it last matched a packet, or when it was added.
    pub used: Instant,
}

/// Counters of a port; all ones where not counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Received packets.
    pub rx_packets: u64,
    /// Sent packets.
    pub tx_packets: u64,
    /// Received octets.
    pub rx_octets: u64,
    /// Sent octets.
    pub tx_octets: u64,
    /// Received packets that were dropped for want of room.
    pub rx_dropped: u64,
    /// Packets that could not be sent for want of room.
    pub tx_dropped: u64,
    /// Received packets that were faulty.
    pub rx_errors: u64,
    /// Packets that failed to be sent.
    pub tx_errors: u64,
}

/// Counters of a table.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TableCounters {
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that a rule matched.
    pub matched: u64,
}

/// The link of a port has come up or gone down.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The port.
    pub port: PortId,
    /// Whether it now has a link.
    pub is_up: bool,
}

/// A switch as its agent sees it. Ports are those of the core: OpenFlow's port 1 is [`PortId`] 0.
pub trait Datapath {
    /// Adds a rule. One of the same table, priority and match gives way to it, with no packet between the two.
    ///
    /// # Errors
    /// Why it is not added; a rule that it would have replaced may be gone all the same ([`Datapath::find`] tells).
    fn insert(&mut self, now: Instant, flow: &Flow<'_, '_>) -> Result<RuleId, TableError>;

    /// The rule of exactly this table, priority and match.
    fn find(&mut self, table: u8, priority: u16, matching: &Match<'_>) -> Option<RuleId>;

    /// Gives a rule other instructions; its counters and times stay.
    ///
    /// # Errors
    /// Why not; the rule is then as it was.
    fn modify(&mut self, id: RuleId, instructions: &Instructions) -> Result<(), TableError>;

    /// Removes a rule; one that is no longer there changes nothing.
    fn remove(&mut self, id: RuleId);

    /// Counters of a rule, as of lately; nothing when it is not there.
    fn counters(&self, id: RuleId) -> Option<FlowCounters>;

    /// Adds a group.
    ///
    /// # Errors
    /// Why not.
    fn add_group(&mut self, id: u32, kind: GroupKind, buckets: &[Bucket])
    -> Result<(), GroupError>;

    /// Gives a group another kind and other buckets.
    ///
    /// # Errors
    /// Why not; the group is then as it was.
    fn modify_group(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
    ) -> Result<(), GroupError>;

    /// Removes a group; one that is not there changes nothing.
    fn remove_group(&mut self, id: u32);

    /// A controller switches a port on or off: nothing is received or sent on one that is off.
    fn set_port(&mut self, port: PortId, is_on: bool);

    /// The next change of a link since the last call.
    fn take_link_change(&mut self) -> Option<LinkChange>;

    /// Counters of a port; nothing when it is not there.
    fn port_counters(&self, port: PortId) -> Option<PortCounters>;

    /// Counters of a table; nothing when they are not counted.
    fn table_counters(&self, table: u8) -> Option<TableCounters>;

    /// The frame that has waited longest for controllers: its octets go into `octets`, which is emptied before.
    fn take_packet_in(&mut self, octets: &mut Vec<u8>) -> Option<PacketIn>;

    /// Waits until what was ordered before is in force for every packet.
    fn barrier(&mut self) {}

    /// Controllers want to see packets whose TTL has run out, so many octets of each, or no longer do.
    fn set_invalid_ttl(&mut self, max_octets: Option<u16>);

    /// Carries out actions on a frame from a controller. A port that the switch does not have stands for the controller.
    fn packet_out(&mut self, now: Instant, in_port: PortId, actions: &[Action], frame: &[u8]);

    /// Runs a frame from a controller through the tables, as if it had come in on `in_port`.
    fn resubmit(&mut self, now: Instant, in_port: PortId, frame: &[u8]);

    /// With no controller there, floods every packet as a plain switch would (true), or goes by its rules (false).
    fn set_standalone(&mut self, is_standalone: bool);

    /// Adds a program or puts another in its place, under traffic: an ELF file.
    ///
    /// # Errors
    /// A sentence that says why the program is not taken; the old one then stays.
    fn put_program(&mut self, program: u32, elf: &[u8]) -> Result<(), String>;

    /// Deletes a program; rules that ask for it no longer match. One that is not there changes nothing.
    fn delete_program(&mut self, program: u32);

    /// Programs that are there, and their counters.
    fn programs(&self) -> Vec<ProgramStats>;

    /// Gives a parameter of a program these octets; empty ones take it away. Number 0 is the empty parameter and never set.
    ///
    /// # Errors
    /// A sentence that says why not.
    fn set_parameter(&mut self, program: u32, parameter: u32, octets: &[u8]) -> Result<(), String>;
}
