//! A switch: frames go through the tables, and rules say what becomes of them.

use super::action::{Action, ActionSet, Output};
use super::apply::apply;
use super::fields::Fields;
use super::group::{GroupKind, Groups, flow_hash};
use super::packet::Packet;
use super::packet_in::{PacketIn, PacketInReason, PacketIns};
use super::programs::{NoPrograms, ProgramPlace, Programs, Verdicts};
use super::rule::RuleId;
use super::table::{FlowTable, TableMemory};
use super::{FlowError, Group};
use crate::ndn::{FragmentFlow, FragmentFlows, NdnError, Piece};
use crate::node::{Engine, Frame, Instant, MAX_PORTS, Node, PortId, PortSet, Verdict};
use core::time::Duration;

/// Tables that a frame can pass, at most.
pub const MAX_TABLES: usize = 16;

/// Fragments follow their first one for so long.
const FRAGMENT_LIFETIME: Duration = Duration::from_millis(500);

/// The rules that the first fragment of a packet met, which the others follow.
#[derive(Copy, Clone, Debug, Default)]
pub struct FragmentPath {
    rules: [Option<RuleId>; MAX_TABLES],
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

const NDN_ERRORS_AT: usize = FlowError::NAMES.len();
const COUNTERS: usize = NDN_ERRORS_AT + NdnError::NAMES.len();

const COUNTER_NAMES: [&str; COUNTERS] = {
    let mut names = [""; COUNTERS];
    let mut at = 0;
    while at < COUNTERS {
        names[at] = if at < NDN_ERRORS_AT {
            FlowError::NAMES[at]
        } else {
            NdnError::NAMES[at - NDN_ERRORS_AT]
        };
        at += 1;
    }
    names
};

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
    fragments: FragmentFlows<'m, FragmentPath>,
    ports: Ports,
    counters: Counters,
}

/// What is known about the ports.
#[derive(Debug)]
struct Ports {
    all: PortSet,
    up: PortSet,
    mtu_octets: [u16; MAX_PORTS],
}

/// One counter for each reason to drop.
#[derive(Debug)]
struct Counters([u64; COUNTERS]);

impl Counters {
    fn add(&mut self, reason: FlowDrop) {
        let at = match reason {
            FlowDrop::Flow(error) => error as usize,
            FlowDrop::Ndn(error) => NDN_ERRORS_AT + error as usize,
        };
        if let Some(counter) = self.0.get_mut(at) {
            *counter += 1;
        }
    }

    fn drop(&mut self, reason: FlowDrop) -> Verdict<FlowDrop> {
        self.add(reason);
        Verdict::Drop(reason)
    }
}

/// Why a frame was dropped: one counter for each.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FlowDrop {
    /// The rules, or the frame's headers.
    Flow(FlowError),
    /// It is no named-data packet, where it should be one.
    Ndn(NdnError),
}

impl FlowDrop {
    /// The name of the reason's counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow(error) => error.name(),
            Self::Ndn(error) => error.name(),
        }
    }
}

/// What is known about a frame between two tables.
#[derive(Default)]
struct Walk {
    fields: Fields,
    hash: u64,
    table: u8,
    set: ActionSet,
    path: FragmentPath,
    piece: Option<(Piece, bool)>,
    /// The rules to meet, for a fragment that follows its first.
    follows: Option<FragmentPath>,
    sent: u32,
}

/// One frame on its way through the switch.
struct Way<'s, 'm, E: Engine> {
    groups: &'s Groups<'m>,
    packet_ins: &'s mut PacketIns<'m>,
    ports: &'s Ports,
    counters: &'s mut Counters,
    engine: &'s mut E,
    in_port: PortId,
    fields: Fields,
    /// A hash for groups that choose by it.
    hash: u64,
    table: u8,
    cookie: u64,
    reason: PacketInReason,
    /// Copies that were sent, to ports and to the controller.
    sent: u32,
    /// The first thing that went wrong with a copy.
    problem: Option<FlowError>,
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
            counters: Counters([0; COUNTERS]),
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
        let (_, mut way) = self.way(engine, in_port, fields, hash);
        let forward = way.run(actions, frame);
        way.finish(forward)
    }

    /// Runs a frame through the tables.
    fn process<E: Engine>(
        &mut self,
        now: Instant,
        in_port: PortId,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Verdict<FlowDrop> {
        let octets = frame.bytes().len();
        let mut walk = Walk::default();
        for step in 0..MAX_TABLES {
            let id = match self.find_rule(now, in_port, frame.bytes(), step, &mut walk) {
                Ok(Some(id)) => id,
                // What earlier tables did by apply-actions stands; the set is not carried out (OpenFlow 1.3, 5.4).
                Ok(None) if walk.sent > 0 => return Verdict::Consumed,
                Ok(None) => return self.counters.drop(FlowDrop::Flow(FlowError::NoMatch)),
                Err(reason) => return self.counters.drop(reason),
            };
            if let Some(slot) = walk.path.rules.get_mut(step) {
                *slot = Some(id);
            }
            self.tables.count_packet(id, now, octets);
            let (tables, mut way) = self.way(engine, in_port, walk.fields, walk.hash);
            let (Some(rule), Some(instructions)) = (tables.rule(id), tables.instructions(id))
            else {
                break;
            };
            (way.table, way.cookie, way.sent) = (walk.table, rule.cookie(), walk.sent);
            if rule.priority() == 0 {
                way.reason = PacketInReason::NoMatch;
            }
            if instructions.clear {
                walk.set.clear();
            }
            if !walk.set.write(&instructions.write) {
                return way.counters.drop(FlowDrop::Flow(FlowError::ActionMismatch));
            }
            let Some(next) = instructions.goto_table else {
                let set = walk.set.in_order();
                let forward = if set.is_empty() {
                    way.run(&instructions.apply, frame)
                } else if way.run_before_more(&instructions.apply, frame) {
                    way.run(set, frame)
                } else {
                    None
                };
                let verdict = way.finish(forward);
                if let Some((piece, true)) = walk.piece {
                    self.fragments.begin(now, piece, walk.path);
                }
                return verdict;
            };
            if !way.run_before_more(&instructions.apply, frame) {
                return way.finish(None);
            }
            walk.sent = way.sent;
            walk.fields.tunnel_id = way.fields.tunnel_id;
            if let Some(error) = way.problem {
                way.counters.add(FlowDrop::Flow(error));
            }
            let (value, mask) = instructions.metadata;
            walk.fields.metadata = walk.fields.metadata & !mask | value & mask;
            walk.table = next;
        }
        self.counters.drop(FlowDrop::Flow(FlowError::NoOutput))
    }

    /// A frame on its way, beside the tables, which it does not change.
    fn way<'s, E: Engine>(
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

    /// The rule that the frame meets in the next table: the best one, or the one that its first fragment met.
    fn find_rule(
        &mut self,
        now: Instant,
        in_port: PortId,
        octets: &[u8],
        step: usize,
        walk: &mut Walk,
    ) -> Result<Option<RuleId>, FlowDrop> {
        if step > 0
            && let Some(path) = walk.follows
        {
            return Ok(self.rule_on(&path, step));
        }
        // Actions of earlier tables may have changed the frame.
        let packet = Packet::parse(octets, in_port).map_err(FlowDrop::Flow)?;
        walk.fields = Fields {
            metadata: walk.fields.metadata,
            tunnel_id: walk.fields.tunnel_id,
            ..packet.fields
        };
        if step == 0 {
            if let Some(error) = packet.ndn_error {
                if self.drops_malformed_names {
                    return Err(FlowDrop::Ndn(error));
                }
                self.counters.add(FlowDrop::Ndn(error));
            }
            walk.hash = flow_hash(&packet.fields, packet.name.map_or(&[][..], |name| name.value()));
            walk.piece = packet.piece;
            if let Some((piece, false)) = packet.piece {
                match self.fragments.follow(now, piece) {
                    Ok(path) => {
                        walk.follows = Some(path);
                        return Ok(self.rule_on(&path, 0));
                    }
                    Err(error) => self.counters.add(FlowDrop::Ndn(error)),
                }
            }
        }
        self.tables.prepare(packet.name.as_ref());
        let place = ProgramPlace { table: walk.table, in_port };
        let mut verdicts = Verdicts::new(&mut self.programs, place, octets);
        let name = packet.name.as_ref();
        let found = self
            .tables
            .lookup_prepared(walk.table, &walk.fields, name, |wanted| verdicts.accept(wanted));
        if let Some(problem) = verdicts.problem() {
            self.counters.add(FlowDrop::Flow(problem));
        }
        let program = found.and_then(|id| self.tables.rule(id)?.program());
        if let Some(program) = program {
            self.programs.hit(program.program);
        }
        Ok(found)
    }

    /// A rule that the first fragment met, if it is still there.
    fn rule_on(&self, path: &FragmentPath, step: usize) -> Option<RuleId> {
        path.rules.get(step).copied().flatten().filter(|id| self.tables.rule(*id).is_some())
    }
}

impl<E: Engine> Way<'_, '_, E> {
    /// Carries out all actions. The port that the frame itself is to leave on, if its last action sends it.
    fn run(&mut self, actions: &[Action], frame: &mut E::Frame) -> Option<PortId> {
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
    fn run_before_more(&mut self, actions: &[Action], frame: &mut E::Frame) -> bool {
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
                false
            }
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
            self.fail(FlowError::FrameExceedsMtu);
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

    fn copy(&mut self, octets: &[u8]) -> Option<E::Frame> {
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

    fn fail(&mut self, error: FlowError) {
        match self.problem {
            None => self.problem = Some(error),
            // The verdict counts the first one.
            Some(_) => self.counters.add(FlowDrop::Flow(error)),
        }
    }

    fn finish(self, forward: Option<PortId>) -> Verdict<FlowDrop> {
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
        self.process(now, port, frame, engine)
    }

    /// Nothing falls due by itself: rules that have ended are found by [`FlowTable::scan`].
    fn poll<E: Engine>(&mut self, _now: Instant, _engine: &mut E) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn counters(&self) -> &[u64] {
        &self.counters.0
    }
}
