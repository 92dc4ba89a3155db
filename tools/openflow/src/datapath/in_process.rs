//! A datapath in this process and thread: for whoever wants a switch without packet I/O of its own, in simulations and tests.

use super::{Datapath, FlowCounters, LinkChange, PortCounters, TableCounters};
use crate::ProgramStats;
use heddle_core::flow::{
    Action, Bucket, Flow, FlowDrop, GroupError, GroupKind, Instructions, Match, NoPrograms,
    PacketIn, Programs, RuleId, Switch, TableError,
};
use heddle_core::node::{Engine, Frame, Instant, NoRoom, Node, PortId, PortSet, Verdict};
use std::collections::{BTreeMap, VecDeque};

/// Octets of the longest frame that a port sends, Ethernet header included.
const MTU_OCTETS: u16 = 1514;

/// What loads programs and runs them, for an [`InProcess`]. Its methods are those of [`Datapath`].
pub trait ProgramHost: Programs {
    /// See [`Datapath::put_program`].
    ///
    /// # Errors
    /// Why the program is not taken.
    fn put(&mut self, program: u32, elf: &[u8]) -> Result<(), String>;

    /// See [`Datapath::delete_program`].
    fn delete(&mut self, program: u32);

    /// See [`Datapath::programs`].
    fn stats(&self) -> Vec<ProgramStats>;

    /// See [`Datapath::set_parameter`].
    ///
    /// # Errors
    /// Why the parameter is not taken.
    fn set_parameter(&mut self, program: u32, parameter: u32, octets: &[u8]) -> Result<(), String>;
}

impl ProgramHost for NoPrograms {
    fn put(&mut self, _: u32, _: &[u8]) -> Result<(), String> {
        Err("this switch runs no programs".to_owned())
    }

    fn delete(&mut self, _: u32) {}

    fn stats(&self) -> Vec<ProgramStats> {
        Vec::new()
    }

    fn set_parameter(&mut self, _: u32, _: u32, _: &[u8]) -> Result<(), String> {
        Err("this switch runs no programs".to_owned())
    }
}

/// A [`Switch`] and what it has sent.
#[derive(Debug)]
pub struct InProcess<'m, P = NoPrograms> {
    /// The switch.
    pub switch: Switch<'m, P>,
    /// Frames that it has sent, oldest first.
    pub sent: Vec<(PortId, Vec<u8>)>,
    /// Whether it floods without looking at its rules.
    pub is_standalone: bool,
    ports: PortSet,
    on: PortSet,
    linked: PortSet,
    link_changes: VecDeque<LinkChange>,
    counters: BTreeMap<PortId, PortCounters>,
}

impl<'m, P: ProgramHost> InProcess<'m, P> {
    /// A datapath of this switch, whose ports these are.
    pub fn new(switch: Switch<'m, P>, ports: PortSet) -> Self {
        Self {
            switch,
            sent: Vec::new(),
            is_standalone: false,
            ports,
            on: ports,
            linked: ports,
            link_changes: VecDeque::new(),
            counters: BTreeMap::new(),
        }
    }

    /// A frame comes in on a port. Nothing comes back when the port is off or has no link.
    pub fn receive(
        &mut self,
        now: Instant,
        port: PortId,
        octets: &[u8],
    ) -> Option<Verdict<FlowDrop>> {
        if !self.up().contains(port) {
            return None;
        }
        let counters = self.counters.entry(port).or_default();
        counters.rx_packets += 1;
        counters.rx_octets += octets.len() as u64;
        if self.is_standalone {
            for to in self.up().without(port).iter() {
                self.send(to, octets.to_vec());
            }
            return Some(Verdict::Consumed);
        }
        Some(self.process(now, port, octets))
    }

    /// Says whether a port has a link.
    pub fn set_link(&mut self, port: PortId, is_up: bool) {
        self.linked = if is_up { self.linked.with(port) } else { self.linked.without(port) };
        self.link_changes.push_back(LinkChange { port, is_up });
        self.tell_switch(port);
    }

    fn up(&self) -> PortSet {
        self.ports
            .iter()
            .filter(|port| self.on.contains(*port) && self.linked.contains(*port))
            .collect()
    }

    fn tell_switch(&mut self, port: PortId) {
        let is_up = self.up().contains(port);
        self.switch.set_port(port, is_up, MTU_OCTETS);
    }

    fn process(&mut self, now: Instant, port: PortId, octets: &[u8]) -> Verdict<FlowDrop> {
        let (mut frame, mut engine) = (Octets(octets.to_vec()), Collected::default());
        let verdict = self.switch.receive(now, port, &mut frame, &mut engine);
        self.collect(&verdict, frame, engine);
        verdict
    }

    fn collect(&mut self, verdict: &Verdict<FlowDrop>, frame: Octets, engine: Collected) {
        for (port, frame) in engine.0 {
            self.send(port, frame.0);
        }
        if let Verdict::Forward(port) = verdict {
            self.send(*port, frame.0);
        }
    }

    fn send(&mut self, port: PortId, octets: Vec<u8>) {
        let counters = self.counters.entry(port).or_default();
        counters.tx_packets += 1;
        counters.tx_octets += octets.len() as u64;
        self.sent.push((port, octets));
    }
}

impl<P: ProgramHost> Datapath for InProcess<'_, P> {
    fn insert(&mut self, now: Instant, flow: &Flow<'_, '_>) -> Result<RuleId, TableError> {
        self.switch.tables.add(now, flow)
    }

    fn find(&mut self, table: u8, priority: u16, matching: &Match<'_>) -> Option<RuleId> {
        self.switch.tables.find(table, priority, matching)
    }

    fn modify(&mut self, id: RuleId, instructions: &Instructions) -> Result<(), TableError> {
        self.switch.tables.modify(id, instructions)
    }

    fn remove(&mut self, id: RuleId) {
        self.switch.tables.remove(id);
    }

    fn counters(&self, id: RuleId) -> Option<FlowCounters> {
        self.switch.tables.rule(id).map(|rule| FlowCounters {
            packets: rule.packets(),
            octets: rule.octets(),
            added: rule.added(),
            used: rule.used(),
        })
    }

    fn add_group(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
    ) -> Result<(), GroupError> {
        self.switch.groups.add(id, kind, buckets)
    }

    fn modify_group(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
    ) -> Result<(), GroupError> {
        self.switch.groups.modify(id, kind, buckets)
    }

    fn remove_group(&mut self, id: u32) {
        self.switch.groups.remove(id);
    }

    fn set_port(&mut self, port: PortId, is_on: bool) {
        self.on = if is_on { self.on.with(port) } else { self.on.without(port) };
        self.tell_switch(port);
    }

    fn take_link_change(&mut self) -> Option<LinkChange> {
        self.link_changes.pop_front()
    }

    fn port_counters(&self, port: PortId) -> Option<PortCounters> {
        let counters = self.counters.get(&port).copied().unwrap_or_default();
        self.ports.contains(port).then_some(counters)
    }

    fn table_counters(&self, _table: u8) -> Option<TableCounters> {
        None
    }

    fn take_packet_in(&mut self, octets: &mut Vec<u8>) -> Option<PacketIn> {
        octets.clear();
        self.switch.packet_ins.pop(|entry, kept| {
            octets.extend_from_slice(kept);
            *entry
        })
    }

    fn set_invalid_ttl(&mut self, max_octets: Option<u16>) {
        self.switch.packet_ins.invalid_ttl_octets = max_octets;
    }

    fn packet_out(&mut self, _now: Instant, in_port: PortId, actions: &[Action], frame: &[u8]) {
        let (mut frame, mut engine) = (Octets(frame.to_vec()), Collected::default());
        let verdict = self.switch.packet_out(in_port, actions, &mut frame, &mut engine);
        self.collect(&verdict, frame, engine);
    }

    fn resubmit(&mut self, now: Instant, in_port: PortId, frame: &[u8]) {
        self.process(now, in_port, frame);
    }

    fn set_standalone(&mut self, is_standalone: bool) {
        self.is_standalone = is_standalone;
    }

    fn put_program(&mut self, program: u32, elf: &[u8]) -> Result<(), String> {
        self.switch.programs.put(program, elf)
    }

    fn delete_program(&mut self, program: u32) {
        self.switch.programs.delete(program);
    }

    fn programs(&self) -> Vec<ProgramStats> {
        self.switch.programs.stats()
    }

    fn set_parameter(&mut self, program: u32, parameter: u32, octets: &[u8]) -> Result<(), String> {
        self.switch.programs.set_parameter(program, parameter, octets)
    }
}

/// A frame that grows as it must.
#[derive(Debug)]
struct Octets(Vec<u8>);

impl Frame for Octets {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn resize(&mut self, len_octets: usize) -> Result<(), NoRoom> {
        self.0.resize(len_octets, 0);
        Ok(())
    }

    fn move_head(&mut self, octets: isize) -> Result<(), NoRoom> {
        let count = octets.unsigned_abs();
        if octets >= 0 {
            self.0.splice(..0, std::iter::repeat_n(0, count));
            return Ok(());
        }
        if count > self.0.len() {
            return Err(NoRoom);
        }
        self.0.drain(..count);
        Ok(())
    }
}

#[derive(Default)]
struct Collected(Vec<(PortId, Octets)>);

impl Engine for Collected {
    type Frame = Octets;

    fn allocate(&mut self) -> Option<Octets> {
        Some(Octets(Vec::new()))
    }

    fn transmit(&mut self, port: PortId, frame: Octets) {
        self.0.push((port, frame));
    }
}
