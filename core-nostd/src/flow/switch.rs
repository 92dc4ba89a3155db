//! A switch: frames go through the tables, and rules say what becomes of them.

use super::Group;
use super::action::Action;
use super::burst::Glances;
use super::counters::{COUNTER_NAMES, Counters, FlowDrop};
use super::draws::Draws;
use super::fields::Fields;
use super::glance::Glance;
use super::group::{Groups, flow_hash};
use super::packet::Packet;
use super::packet_in::{PacketIn, PacketInReason, PacketIns};
use super::programs::{Known, NoPrograms, Programs};
use super::rule::RuleId;
use super::table::{FlowTable, TableMemory};
use super::way::{Ports, Way};
use crate::ndn::{FragmentFlow, FragmentFlows};
use crate::node::{BURST, Engine, Frame, Instant, MAX_PORTS, Node, PortId, PortSet, Verdict};
use core::time::Duration;

/// Tables that a frame can pass, at most.
pub const MAX_TABLES: usize = 16;

/// Fragments follow their first one for so long.
const FRAGMENT_LIFETIME: Duration = Duration::from_millis(500);

/// The rules that the first fragment of a packet met, which the others follow.
#[derive(Copy, Clone, Debug, Default)]
pub struct FragmentPath {
    pub(super) rules: [Option<RuleId>; MAX_TABLES],
}

/// The memory of a [`Switch`], which the caller owns.
#[derive(Debug)]
pub struct SwitchMemory<'m> {
    /// For rules.
    pub tables: TableMemory<'m>,
    /// A place for each group, made with [`Group::vacant`].
    pub groups: &'m mut [Group],
    /// Places for packets of which fragments are on their way, a multiple of 8.
    pub fragments: &'m mut [FragmentFlow<FragmentPath>],
    /// Places in the queue to the controller.
    pub packet_ins: &'m mut [PacketIn],
    /// Octets of the frames in it, shared evenly.
    pub packet_in_octets: &'m mut [u8],
}

/// The state of one switch on one core.
#[derive(Debug)]
pub struct Switch<'m, P = NoPrograms> {
    /// The rules.
    pub tables: FlowTable<'m>,
    /// The groups.
    pub groups: Groups<'m>,
    /// Frames for the controller.
    pub packet_ins: PacketIns<'m>,
    /// The programs that rules match by.
    pub programs: P,
    /// Whether malformed named-data packets are dropped (the default), or may match rules that ask for no name.
    pub drops_malformed_names: bool,
    pub(super) fragments: FragmentFlows<'m, FragmentPath>,
    pub(super) ports: Ports,
    pub(super) counters: Counters,
    pub(super) draws: Draws,
    /// Scratch memory.
    pub(super) glances: Glances,
    pub(super) known: Known,
}

impl<'m> Switch<'m> {
    /// A switch with these ports, no rule and no programs, in memory of the caller. Each port sends frames of up to
    /// 1514 octets until [`Switch::set_port`] says otherwise.
    pub fn new(memory: SwitchMemory<'m>, ports: PortSet, secret: u64) -> Self {
        Self::with_programs(memory, ports, secret, NoPrograms)
    }
}

impl<'m, P: Programs> Switch<'m, P> {
    /// The same with programs.
    pub fn with_programs(
        memory: SwitchMemory<'m>,
        ports: PortSet,
        secret: u64,
        programs: P,
    ) -> Self {
        Self {
            tables: FlowTable::new(memory.tables, secret),
            groups: Groups::new(memory.groups),
            packet_ins: PacketIns::new(memory.packet_ins, memory.packet_in_octets),
            fragments: FragmentFlows::new(memory.fragments, FRAGMENT_LIFETIME, secret),
            programs,
            drops_malformed_names: true,
            ports: Ports { all: ports, up: ports, mtu_octets: [1514; MAX_PORTS] },
            counters: Counters::new(),
            draws: Draws::new(secret),
            glances: [const { Glance::NONE }; BURST],
            known: Known::new(),
        }
    }

    /// Says whether a port is up and the octets of the longest frame that it sends, Ethernet header included.
    pub fn set_port(&mut self, port: PortId, is_up: bool, max_frame_octets: u16) {
        let ports = &mut self.ports;
        ports.up = if is_up && ports.all.contains(port) {
            ports.up.with(port)
        } else {
            ports.up.without(port)
        };
        if let Some(mtu) = ports.mtu_octets.get_mut(usize::from(port.0)) {
            *mtu = max_frame_octets;
        }
    }

    /// Carries out actions on a frame from the controller, as if it had come in on `in_port`.
    pub fn packet_out<E: Engine>(
        &mut self,
        in_port: PortId,
        actions: &[Action],
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Verdict<FlowDrop> {
        let parsed = Packet::parse(frame.bytes(), in_port).map(|packet| {
            let name = packet.name.map_or(&[][..], |name| name.value());
            (packet.fields, flow_hash(&packet.fields, name))
        });
        let (fields, hash) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return self.counters.drop(FlowDrop::Flow(error)),
        };
        // Fragments that this makes are told from others by numbers that depend on the packet too.
        self.draws.stir(hash);
        let (_, mut way) = self.way(engine, in_port, fields, hash);
        let forward = way.run(actions, frame);
        way.finish(forward)
    }

    /// A frame on its way, beside the tables, which it does not change.
    pub(super) fn way<'s, E: Engine>(
        &'s mut self,
        engine: &'s mut E,
        in_port: PortId,
        fields: Fields,
        hash: u64,
    ) -> (&'s FlowTable<'m>, Way<'s, 'm, E>) {
        let way = Way {
            groups: &self.groups,
            packet_ins: &mut self.packet_ins,
            ports: &self.ports,
            counters: &mut self.counters,
            draws: &mut self.draws,
            engine,
            in_port,
            fields,
            hash,
            table: 0,
            cookie: 0,
            reason: PacketInReason::Action,
            sent: 0,
            problem: None,
        };
        (&self.tables, way)
    }
}

impl<P: Programs> Node for Switch<'_, P> {
    type DropReason = FlowDrop;

    const COUNTER_NAMES: &'static [&'static str] = &COUNTER_NAMES;

    fn receive<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Verdict<FlowDrop> {
        let mut verdict = [Verdict::Consumed];
        self.take_burst(now, port, core::slice::from_mut(frame), &mut verdict, engine);
        let [verdict] = verdict;
        verdict
    }

    fn receive_burst<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frames: &mut [E::Frame],
        verdicts: &mut [Verdict<FlowDrop>],
        engine: &mut E,
    ) {
        for (frames, verdicts) in frames.chunks_mut(BURST).zip(verdicts.chunks_mut(BURST)) {
            self.take_burst(now, port, frames, verdicts, engine);
        }
    }

    /// Nothing falls due by itself: rules that have ended are found by [`FlowTable::scan`].
    fn poll<E: Engine>(&mut self, _now: Instant, _engine: &mut E) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn counters(&self) -> &[u64] {
        self.counters.all()
    }
}
