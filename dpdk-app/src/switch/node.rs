//! A switch as one worker has it: a copy of the tables, and the ends of the ways from and to the control thread.

use heddle_core::flow::{FlowDrop, Switch};
use heddle_core::node::{Engine, Frame, Instant, Node, PortId, PortSet, Verdict};
use heddle_host::config::{self, MalformedNames};
use heddle_host::program::ProgramSet;

use super::counters::CounterWriter;
use super::memory;
use super::orders::{Order, OrderReceiver, PacketOut};
use super::packet_ins::PacketInSender;
use crate::outbox::Outbox;
use crate::role::Role;

/// Orders that a worker carries out between two bursts, at most: so long may frames wait.
const ORDERS_A_ROUND: usize = 16;

/// The first five octets of group addresses that no bridge passes on (IEEE 802.1Q, 8.6.3); the sixth is below 16.
const LINK_LOCAL: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];

const FURTHER_COUNTER_NAMES: [&str; 6] = [
    "switch_flooded",
    "switch_port_off",
    "switch_no_frames",
    "switch_packet_ins",
    "switch_packet_outs",
    "switch_orders",
];

/// What a worker's switch counts beside its drops, in the order of the names.
#[derive(Copy, Clone)]
enum Counter {
    /// Frames that were flooded in standalone mode.
    Flooded,
    /// Frames that came in on a port that is switched off.
    PortOff,
    /// Copies and frames of controllers that no buffer was left for.
    NoFrames,
    /// Frames on their way to controllers.
    PacketIns,
    /// Frames from controllers.
    PacketOuts,
    /// Orders that were carried out.
    Orders,
}

/// The switch of one worker.
#[derive(Debug)]
pub struct SwitchNode {
    switch: Switch<'static, ProgramSet>,
    ends: WorkerEnds,
    mtu_octets: Vec<u16>,
    on: PortSet,
    up: PortSet,
    is_standalone: bool,
    further: [u64; FURTHER_COUNTER_NAMES.len()],
}

/// A worker's ends of the ways from and to the control thread.
#[derive(Debug)]
pub struct WorkerEnds {
    /// What it is to do.
    pub orders: OrderReceiver,
    /// Where its rules' counters can be read.
    pub counters: CounterWriter,
    /// Where its frames for the controllers go.
    pub packet_ins: PacketInSender,
}

impl SwitchNode {
    /// A switch without rules, in memory of its own that lives as long as the process.
    pub fn new(
        switch: &config::Switch,
        ports: &[config::Port],
        ends: WorkerEnds,
        secret: u64,
    ) -> Self {
        let all: PortSet = (0..ports.len()).map(|number| PortId(number as u8)).collect();
        let mut node = Self {
            switch: Switch::with_programs(memory::all(switch), all, secret, ProgramSet::new()),
            ends,
            mtu_octets: ports.iter().map(|port| port.mtu_octets).collect(),
            on: all,
            up: all,
            is_standalone: false,
            further: [0; FURTHER_COUNTER_NAMES.len()],
        };
        node.switch.drops_malformed_names = switch.malformed_names == MalformedNames::Drop;
        for port in all.iter() {
            node.set_port(port, true, true);
        }
        node
    }

    fn count(&mut self, counter: Counter, by: u64) {
        if let Some(count) = self.further.get_mut(counter as usize) {
            *count += by;
        }
    }

    fn set_port(&mut self, port: PortId, is_on: bool, is_up: bool) {
        let set =
            |ports: PortSet, is_in| if is_in { ports.with(port) } else { ports.without(port) };
        (self.on, self.up) = (set(self.on, is_on), set(self.up, is_up));
        if let Some(mtu_octets) = self.mtu_octets.get(usize::from(port.0)) {
            self.switch.set_port(port, is_up, *mtu_octets);
        }
    }

    fn carry_out(&mut self, now: Instant, order: &mut Order, outbox: &mut Outbox) {
        match order {
            // The control thread has done the same with its own tables and knows what came of it.
            Order::Insert(rule) => {
                let _ = rule.apply(|now, flow| self.switch.tables.add(now, flow));
            }
            Order::Modify(id, instructions) => {
                let _ = self.switch.tables.modify(*id, instructions);
            }
            Order::Remove(id) => self.switch.tables.remove(*id),
            Order::PutGroup(group) => {
                let groups = &mut self.switch.groups;
                let _ = match group.is_new {
                    true => groups.add(group.id, group.kind, &group.buckets),
                    false => groups.modify(group.id, group.kind, &group.buckets),
                };
            }
            Order::RemoveGroup(id) => self.switch.groups.remove(*id),
            Order::SetPort { port, is_on, is_up } => self.set_port(*port, *is_on, *is_up),
            Order::SetStandalone(is_standalone) => self.is_standalone = *is_standalone,
            Order::SetInvalidTtl(max_octets) => {
                self.switch.packet_ins.invalid_ttl_octets = *max_octets;
            }
            Order::PacketOut(packet) => self.packet_out(now, packet, outbox),
            Order::Program(change, retired) => {
                *retired = change.take().and_then(|change| self.switch.programs.apply(change));
            }
        }
    }

    fn packet_out(&mut self, now: Instant, packet: &PacketOut, outbox: &mut Outbox) {
        self.count(Counter::PacketOuts, 1);
        let frame = outbox.allocate().and_then(|mut frame| {
            frame.resize(packet.frame.len()).ok()?;
            frame.bytes_mut().copy_from_slice(&packet.frame);
            Some(frame)
        });
        let Some(mut frame) = frame else { return self.count(Counter::NoFrames, 1) };
        let verdict = match &packet.actions {
            Some(actions) => self.switch.packet_out(packet.in_port, actions, &mut frame, outbox),
            None => self.switch.receive(now, packet.in_port, &mut frame, outbox),
        };
        if let Verdict::Forward(port) = verdict {
            outbox.transmit(port, frame);
        }
    }

    /// Sends a frame on every port but that on which it came in.
    fn flood<E: Engine>(
        &mut self,
        in_port: PortId,
        frame: &E::Frame,
        engine: &mut E,
    ) -> Verdict<FlowDrop> {
        if frame.bytes().starts_with(&LINK_LOCAL) && frame.bytes().get(5).is_some_and(|x| *x < 16) {
            return Verdict::Consumed;
        }
        self.count(Counter::Flooded, 1);
        let others = self.up.without(in_port);
        let mut ports = others.iter().peekable();
        while let Some(port) = ports.next() {
            if ports.peek().is_none() {
                return Verdict::Forward(port);
            }
            let copy = engine.allocate().and_then(|mut copy| {
                copy.resize(frame.bytes().len()).ok()?;
                copy.bytes_mut().copy_from_slice(frame.bytes());
                Some(copy)
            });
            match copy {
                Some(copy) => engine.transmit(port, copy),
                None => self.count(Counter::NoFrames, 1),
            }
        }
        Verdict::Consumed
    }
}

impl Node for SwitchNode {
    type DropReason = FlowDrop;

    const COUNTER_NAMES: &'static [&'static str] = Switch::<ProgramSet>::COUNTER_NAMES;

    #[inline]
    fn receive<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Verdict<FlowDrop> {
        if !self.on.contains(port) {
            self.count(Counter::PortOff, 1);
            return Verdict::Consumed;
        }
        if self.is_standalone {
            return self.flood(port, frame, engine);
        }
        self.switch.receive(now, port, frame, engine)
    }

    #[inline]
    fn receive_burst<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frames: &mut [E::Frame],
        verdicts: &mut [Verdict<FlowDrop>],
        engine: &mut E,
    ) {
        if self.on.contains(port) && !self.is_standalone {
            return self.switch.receive_burst(now, port, frames, verdicts, engine);
        }
        for (frame, verdict) in frames.iter_mut().zip(verdicts) {
            *verdict = self.receive(now, port, frame, engine);
        }
    }

    fn poll<E: Engine>(&mut self, now: Instant, engine: &mut E) {
        self.switch.poll(now, engine);
    }

    fn deadline(&self) -> Option<Instant> {
        self.switch.deadline()
    }

    fn counters(&self) -> &[u64] {
        self.switch.counters()
    }
}

impl Role for SwitchNode {
    const FURTHER_COUNTER_NAMES: &'static [&'static str] = &FURTHER_COUNTER_NAMES;

    /// Every worker has all the rules.
    const TAKES_ALL: bool = true;

    fn owner(_frame: &[u8], _workers: usize) -> usize {
        0
    }

    fn serve(&mut self, now: Instant, outbox: &mut Outbox) -> usize {
        let mut done = 0;
        while done < ORDERS_A_ROUND
            && let Some(mut order) = self.ends.orders.take()
        {
            self.carry_out(now, &mut order, outbox);
            self.ends.orders.give_back(order);
            done += 1;
        }
        self.count(Counter::Orders, done as u64);
        if !self.switch.packet_ins.is_empty() {
            let sent = self.ends.packet_ins.send(&mut self.switch.packet_ins);
            self.count(Counter::PacketIns, sent);
        }
        done + usize::from(self.ends.counters.step(&self.switch.tables))
    }

    fn further_counters(&self) -> &[u64] {
        &self.further
    }
}
