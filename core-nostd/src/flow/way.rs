//! One frame on its way out: the actions of a rule, to ports, groups and the controller.

use super::FlowError;
use super::action::{Action, Output};
use super::apply::apply;
use super::counters::{Counters, FlowDrop};
use super::draws::Draws;
use super::fields::Fields;
use super::group::{GroupKind, Groups};
use super::packet_in::{PacketIn, PacketInReason, PacketIns};
use crate::node::{Engine, Frame, MAX_PORTS, PortId, PortSet, Verdict};

/// What is known about the ports.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) all: PortSet,
    pub(super) up: PortSet,
    pub(super) mtu_octets: [u16; MAX_PORTS],
}
/// One frame on its way through the switch.
pub(super) struct Way<'s, 'm, E: Engine> {
    pub(super) groups: &'s Groups<'m>,
    pub(super) packet_ins: &'s mut PacketIns<'m>,
    pub(super) ports: &'s Ports,
    pub(super) draws: &'s mut Draws,
    pub(super) counters: &'s mut Counters,
    pub(super) engine: &'s mut E,
    pub(super) in_port: PortId,
    pub(super) fields: Fields,
    /// A hash for groups that choose by it.
    pub(super) hash: u64,
    pub(super) table: u8,
    pub(super) cookie: u64,
    pub(super) reason: PacketInReason,
    /// Copies that were sent, to ports and to the controller.
    pub(super) sent: u32,
    /// The first thing that went wrong with a copy.
    pub(super) problem: Option<FlowError>,
}
impl<E: Engine> Way<'_, '_, E> {
    /// Carries out all actions. The port that the frame itself is to leave on, if its last action sends it.
    pub(super) fn run(&mut self, actions: &[Action], frame: &mut E::Frame) -> Option<PortId> {
        let (last, before) = actions.split_last()?;
        if !self.run_before_more(before, frame) {
            return None;
        }
        match last {
            Action::Output(output) => self.output(*output, frame, true),
            Action::Group(id) => self.group(*id, frame, true),
            change => {
                self.change(change, frame);
                None
            }
        }
    }

    /// Carries out actions after which the frame is still needed. False when it is of no more use.
    pub(super) fn run_before_more(&mut self, actions: &[Action], frame: &mut E::Frame) -> bool {
        actions.iter().all(|action| {
            match action {
                Action::Output(output) => {
                    self.output(*output, frame, false);
                }
                Action::Group(id) => {
                    self.group(*id, frame, false);
                }
                change => return self.change(change, frame),
            }
            true
        })
    }

    fn change(&mut self, action: &Action, frame: &mut E::Frame) -> bool {
        match apply(action, frame) {
            Ok(tunnel_id) => {
                self.fields.tunnel_id = tunnel_id.unwrap_or(self.fields.tunnel_id);
                true
            }
            Err(error) => {
                self.fail(error);
                if error == FlowError::TtlExpired {
                    self.tell_invalid_ttl(frame);
                }
                false
            }
        }
    }

    /// The frame is dropped in any case, and counted so; the controller may want to see it (OpenFlow 1.3, 7.4.1).
    fn tell_invalid_ttl(&mut self, frame: &E::Frame) {
        let Some(max_octets) = self.packet_ins.invalid_ttl_octets else { return };
        let entry = PacketIn {
            reason: PacketInReason::InvalidTtl,
            table: self.table,
            cookie: self.cookie,
            port: self.in_port,
            ..PacketIn::vacant()
        };
        if !self.packet_ins.push(entry, frame.bytes(), max_octets.into()) {
            self.fail(FlowError::ControllerQueueFull);
        }
    }

    fn output(&mut self, output: Output, frame: &mut E::Frame, is_last: bool) -> Option<PortId> {
        let port = match output {
            Output::Port(port) if port == self.in_port => {
                self.fail(FlowError::NoOutput);
                return None;
            }
            Output::Port(port) => port,
            Output::InPort => self.in_port,
            Output::Flood => {
                let others = self.ports.up.without(self.in_port);
                let mut last = None;
                let mut ports = others.iter().peekable();
                while let Some(port) = ports.next() {
                    last = self.send(port, frame, is_last && ports.peek().is_none());
                }
                return last;
            }
            Output::Controller { max_octets } => {
                let entry = PacketIn {
                    reason: self.reason,
                    table: self.table,
                    cookie: self.cookie,
                    port: self.in_port,
                    ..PacketIn::vacant()
                };
                if self.packet_ins.push(entry, frame.bytes(), max_octets.into()) {
                    self.sent += 1;
                } else {
                    self.fail(FlowError::ControllerQueueFull);
                }
                return None;
            }
        };
        self.send(port, frame, is_last)
    }

    /// Sends a copy, or the frame itself when it is its last use.
    fn send(&mut self, port: PortId, frame: &E::Frame, is_last: bool) -> Option<PortId> {
        if !self.ports.up.contains(port) {
            self.fail(FlowError::PortDown);
            return None;
        }
        let octets = frame.bytes();
        let mtu = self.ports.mtu_octets.get(usize::from(port.0)).copied().unwrap_or(0);
        if octets.len() > usize::from(mtu) {
            if let Err(error) = self.send_in_fragments(port, octets, mtu.into()) {
                self.fail(error);
            }
            return None;
        }
        if is_last {
            self.sent += 1;
            return Some(port);
        }
        match self.copy(octets) {
            Some(copy) => {
                self.sent += 1;
                self.engine.transmit(port, copy);
            }
            None => self.fail(FlowError::NoFrames),
        }
        None
    }

    pub(super) fn copy(&mut self, octets: &[u8]) -> Option<E::Frame> {
        let mut copy = self.engine.allocate()?;
        copy.resize(octets.len()).ok()?;
        copy.bytes_mut().copy_from_slice(octets);
        Some(copy)
    }

    fn group(&mut self, id: u32, frame: &mut E::Frame, is_last: bool) -> Option<PortId> {
        let groups = self.groups;
        let chosen = groups.get(id).and_then(|group| match group.kind() {
            GroupKind::All => Some(group.buckets()),
            _ => {
                let at = group.choose(self.hash, self.ports.up)?;
                group.buckets().get(at).map(core::slice::from_ref)
            }
        });
        let Some((last, before)) = chosen.and_then(<[_]>::split_last) else {
            self.fail(FlowError::GroupDead);
            return None;
        };
        for bucket in before {
            self.run_on_copy(&bucket.actions, frame);
        }
        if is_last {
            return self.run(&last.actions, frame);
        }
        self.run_on_copy(&last.actions, frame);
        None
    }

    /// Each bucket has a frame of its own to change.
    fn run_on_copy(&mut self, actions: &[Action], frame: &E::Frame) {
        let Some(mut copy) = self.copy(frame.bytes()) else {
            self.fail(FlowError::NoFrames);
            return;
        };
        if let Some(port) = self.run(actions, &mut copy) {
            self.engine.transmit(port, copy);
        }
    }

    pub(super) fn fail(&mut self, error: FlowError) {
        match self.problem {
            None => self.problem = Some(error),
            // The verdict counts the first one.
            Some(_) => self.counters.add(FlowDrop::Flow(error)),
        }
    }

    pub(super) fn finish(self, forward: Option<PortId>) -> Verdict<FlowDrop> {
        let Self { counters, sent, problem, .. } = self;
        match (forward, sent, problem) {
            (None, 0, problem) => {
                counters.drop(FlowDrop::Flow(problem.unwrap_or(FlowError::NoOutput)))
            }
            (forward, _, problem) => {
                if let Some(error) = problem {
                    counters.add(FlowDrop::Flow(error));
                }
                forward.map_or(Verdict::Consumed, Verdict::Forward)
            }
        }
    }
}
