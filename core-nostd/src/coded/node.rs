//! One node's protocol state: what comes in, which session and generation it belongs to (figure 2, "receiving side").

use super::generation::{Coding, Generation, Pool};
use super::header::CodedHeader;
use super::links::Links;
use super::list::Slot;
use super::session::{Session, SessionKey};
use super::settings::{PortSettings, Role, SendingRule, SessionRule, Settings, SettingsError};
use super::window::Admission;
use super::{CodedError, CodedEvent};
use crate::node::{Engine, Frame, Instant, Node, PortId, PortSet, Verdict};
use crate::rlnc::{Arrival, BlockSet, CoefficientGenerator, DecoderState, RecoderState};
use crate::wire::{
    ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, IP_PROTOCOL_UDP, Ipv4Addr, Ipv4Fields,
    Ipv4Packet, WireError,
};
use zerocopy::FromBytes;

/// The memory of a node, which the caller owns.
#[derive(Debug)]
pub struct Memory<'m> {
    /// A place for each session, made with `Session::default()`.
    pub sessions: &'m mut [Session],
    /// A place for each generation, made with [`Generation::vacant`].
    pub generations: &'m mut [Generation],
    /// [`super::generation_octets`] for each generation.
    pub octets: &'m mut [u8],
}

/// Why a frame was dropped: one counter for each.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CodedDrop {
    /// Its octets are not what they should be.
    Wire(WireError),
    /// CODED IP does not take it.
    Coded(CodedError),
}

impl CodedDrop {
    /// The name of the reason's counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wire(error) => error.name(),
            Self::Coded(error) => error.name(),
        }
    }
}

impl From<WireError> for CodedDrop {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<CodedError> for CodedDrop {
    fn from(error: CodedError) -> Self {
        Self::Coded(error)
    }
}

const CODED_ERRORS_AT: usize = WireError::NAMES.len();
const EVENTS_AT: usize = CODED_ERRORS_AT + CodedError::NAMES.len();
const COUNTERS: usize = EVENTS_AT + CodedEvent::NAMES.len();

const COUNTER_NAMES: [&str; COUNTERS] = {
    let mut names = [""; COUNTERS];
    let mut at = 0;
    while at < COUNTERS {
        names[at] = if at < CODED_ERRORS_AT {
            WireError::NAMES[at]
        } else if at < EVENTS_AT {
            CodedError::NAMES[at - CODED_ERRORS_AT]
        } else {
            CodedEvent::NAMES[at - EVENTS_AT]
        };
        at += 1;
    }
    names
};

/// One counter for each reason to drop and each event.
#[derive(Debug)]
pub(super) struct Counters([u64; COUNTERS]);

impl Counters {
    pub(super) fn drop(&mut self, reason: CodedDrop) {
        self.add(match reason {
            CodedDrop::Wire(error) => error as usize,
            CodedDrop::Coded(error) => CODED_ERRORS_AT + error as usize,
        });
    }

    pub(super) fn event(&mut self, event: CodedEvent) {
        self.add(EVENTS_AT + event as usize);
    }

    fn add(&mut self, index: usize) {
        if let Some(counter) = self.0.get_mut(index) {
            *counter += 1;
        }
    }
}

/// The CODED IP state of one node on one core.
#[derive(Debug)]
pub struct CodedNode<'m> {
    pub(super) settings: Settings,
    pub(super) rules: heapless::Vec<SessionRule, { super::MAX_RULES }>,
    pub(super) sessions: &'m mut [Session],
    pub(super) pool: Pool<'m>,
    pub(super) links: Links,
    pub(super) random: CoefficientGenerator,
    pub(super) counters: Counters,
    /// When sessions are next looked at for `ses_time_out`.
    next_expiry: Option<Instant>,
    /// When a generation that still collects datagrams must go out, at the earliest.
    pub(super) next_flush: Option<Instant>,
}

/// A coded packet, taken apart; the frame that it came in may be overwritten once the row is stored.
struct CodedPacket<'f> {
    ip: Ipv4Fields,
    header: CodedHeader,
    /// Coding vector and block.
    row: &'f [u8],
}

/// A coded packet that was innovative and is stored.
struct Taken {
    /// Its generation.
    slot: Slot,
    /// The blocks that it has made decodable.
    decoded: BlockSet,
    /// The ports that lately carried its session.
    carrying: PortSet,
    /// What the node is to do with it.
    role: Role,
}

impl<'m> CodedNode<'m> {
    /// A node with these ports (numbered from 0) and session rules, in memory of the caller.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(
        settings: Settings,
        ports: &[PortSettings],
        rules: &[SessionRule],
        memory: Memory<'m>,
    ) -> Result<Self, SettingsError> {
        settings.check(ports, rules)?;
        Ok(Self {
            settings,
            rules: heapless::Vec::from_slice(rules).map_err(|_| SettingsError::TooManyRules)?,
            sessions: memory.sessions,
            pool: Pool::new(&settings, memory.generations, memory.octets),
            links: Links::new(ports, settings.sending == SendingRule::Paced),
            random: CoefficientGenerator::new(settings.seed),
            counters: Counters([0; COUNTERS]),
            next_expiry: None,
            next_flush: None,
        })
    }

    /// The value of the counter with this name.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let at = COUNTER_NAMES.iter().position(|counter| *counter == name)?;
        self.counters.0.get(at).copied()
    }

    /// Sessions that live.
    pub fn sessions(&self) -> usize {
        self.sessions.iter().filter(|session| session.key.is_some()).count()
    }

    /// Generations that are buffered, of all sessions.
    pub fn generations(&self) -> usize {
        self.sessions.iter().map(|session| usize::from(session.ses_gen_counter())).sum()
    }

    fn receive_frame<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Result<Option<PortId>, CodedDrop> {
        let (ethernet, octets) =
            EthernetHeader::ref_from_prefix(frame.bytes()).map_err(|_| WireError::FrameTooShort)?;
        if ethernet.ether_type() != EtherType::IPV4 {
            return Err(CodedError::NotCoded.into());
        }
        let packet = Ipv4Packet::parse(octets)?;
        if packet.header.protocol == self.settings.protocol {
            let (header, row) = CodedHeader::parse(packet.payload)?;
            let coded = CodedPacket { ip: packet.header.fields(), header, row };
            let Taken { slot, decoded, carrying, role } = self.take_coded(now, port, &coded)?;
            Ok(match role {
                Role::Forwarder { outputs } => {
                    self.forward(now, slot, outputs, carrying, frame, engine)
                }
                Role::Destination { cut, deliver } => {
                    self.deliver(slot, decoded, cut, deliver, engine)?;
                    None
                }
                Role::Source { .. } => None,
            })
        } else if packet.header.protocol == IP_PROTOCOL_UDP {
            let ip = packet.header.fields();
            self.take_datagram(now, port, ip, packet.payload, engine)?;
            Ok(None)
        } else {
            Err(CodedError::NotCoded.into())
        }
    }

    /// The receiving side of figure 2 for a coded packet: finds or begins its session and generation, checks
    /// for innovation and stores the packet.
    fn take_coded(
        &mut self,
        now: Instant,
        port: PortId,
        packet: &CodedPacket<'_>,
    ) -> Result<Taken, CodedDrop> {
        let CodedPacket { ip, header, row } = packet;
        let k = header.generation_size();
        if k > usize::from(self.settings.max_generation_size)
            || header.block_octets() > self.settings.max_block_octets()
        {
            return Err(CodedError::GenerationTooLarge.into());
        }
        let key =
            SessionKey { source: ip.source, group: ip.destination, session_id: header.session_id };
        let session = self.find_session(&key);
        let (rule_number, rule) = match session.and_then(|index| self.sessions.get(index)) {
            Some(session) => (session.rule, self.rules.get(usize::from(session.rule)).copied()),
            None => self.find_rule(|rule| {
                !matches!(rule.role, Role::Source { .. })
                    && rule.session_id == key.session_id
                    && rule.group == key.group
                    && rule.source.is_none_or(|source| source == key.source)
            }),
        };
        let rule = rule.ok_or(CodedError::ForeignSession)?;
        if !rule.admits(port) {
            return Err(CodedError::WrongPort.into());
        }
        match rule.role {
            // A coded packet that comes back to its source.
            Role::Source { .. } => return Err(CodedError::WrongPort.into()),
            Role::Forwarder { .. } if ip.ttl <= 1 => return Err(CodedError::Ttl.into()),
            Role::Forwarder { .. } | Role::Destination { .. } => {}
        }
        let index = match session {
            Some(index) => index,
            None => self.begin_session(now, key, rule_number, header.session_len())?,
        };
        let session = self.sessions.get_mut(index).ok_or(CodedError::SessionTableFull)?;
        if session.session_len != header.session_len() {
            return Err(CodedError::SessionLenChanged.into());
        }
        let reach = session.ses_max_gen.max(32);
        match session.window.admit(now, header.gen_id(), reach) {
            Admission::Believable => {}
            Admission::Late => return Err(CodedError::GenIdLate.into()),
            Admission::Implausible => return Err(CodedError::GenIdImplausible.into()),
        }
        let slot = match session.find(header.gen_id()) {
            Some(slot) => slot,
            None => {
                let coding = coding_for(&rule.role, header)?;
                self.begin_generation(now, index, *header, coding)?
            }
        };
        if let Some(generation) = self.pool.get_mut(slot) {
            generation.seen_on = generation.seen_on.with(port);
        }
        let decoded = self.store(now, index, slot, *ip, *header, row)?;
        let session = self.sessions.get_mut(index).ok_or(CodedError::SessionTableFull)?;
        Ok(Taken { slot, decoded, carrying: session.carried_on(port), role: rule.role })
    }

    /// Checks a packet for innovation and keeps it if it is (sections II.B and III.B).
    fn store(
        &mut self,
        now: Instant,
        session: usize,
        slot: Slot,
        ip: Ipv4Fields,
        header: CodedHeader,
        row: &[u8],
    ) -> Result<BlockSet, CodedDrop> {
        let (generation, octets) = self.pool.parts(slot).ok_or(CodedError::NoMemory)?;
        if generation.header.gen_size != header.gen_size {
            return Err(CodedError::GenSizeChanged.into());
        }
        if generation.header.block_len_units != header.block_len_units {
            return Err(CodedError::BlockLenChanged.into());
        }
        if generation.header.protocol != header.protocol {
            return Err(CodedError::ProtocolChanged.into());
        }
        let (vector, block) =
            row.split_at_checked(header.generation_size()).ok_or(CodedError::VectorTruncated)?;
        let arrival = match &mut generation.coding {
            Coding::Source { .. } => return Err(CodedError::WrongPort.into()),
            Coding::Forwarder(recoder) => recoder.insert(octets, vector, block),
            Coding::Destination(decoder) => decoder.insert(octets, vector, block),
        };
        // The sizes are right, so an error would be one of ours; the packet is lost either way.
        let Ok(Arrival::Innovative { rank, decoded }) = arrival else {
            return Err(CodedError::NotInnovative.into());
        };
        let ttl = if rank == 1 { ip.ttl } else { ip.ttl.min(generation.ip.ttl) };
        generation.ip = Ipv4Fields { ttl, ..ip };
        self.counters.event(CodedEvent::PacketsInnovative);
        if let Some(session) = self.sessions.get_mut(session) {
            session.update(&mut self.pool, slot, now);
        }
        Ok(decoded)
    }

    pub(super) fn find_session(&self, key: &SessionKey) -> Option<usize> {
        self.sessions.iter().position(|session| session.key.as_ref() == Some(key))
    }

    pub(super) fn find_rule(
        &self,
        is_it: impl Fn(&SessionRule) -> bool,
    ) -> (u8, Option<SessionRule>) {
        match self.rules.iter().enumerate().find(|(_, rule)| is_it(rule)) {
            Some((number, rule)) => (number as u8, Some(*rule)),
            None => (0, None),
        }
    }

    /// Whether the session of a rule that names its source has not begun.
    fn expects(&self, rule: &SessionRule) -> bool {
        rule.source.is_some_and(|source| {
            let key = SessionKey { source, group: rule.group, session_id: rule.session_id };
            self.find_session(&key).is_none()
        })
    }

    /// "Set ses_max_gen": the first packet of a session settles how many generations may be buffered for it,
    /// according to the memory that is free (section III.C).
    pub(super) fn begin_session(
        &mut self,
        now: Instant,
        key: SessionKey,
        rule: u8,
        session_len: u16,
    ) -> Result<usize, CodedError> {
        let promised: usize = self
            .sessions
            .iter()
            .filter(|session| session.key.is_some())
            .map(|session| {
                usize::from(session.ses_max_gen.saturating_sub(session.ses_gen_counter()))
            })
            .sum();
        let free = usize::from(self.pool.vacant()).saturating_sub(promised);
        // Each session that may still come keeps its share, and one whose source a rule names keeps its place: no flood of
        // sources takes it.
        let places = self.sessions.iter().filter(|session| session.key.is_none()).count();
        let expected = self.rules.iter().filter(|rule| self.expects(rule)).count();
        let names_its_source =
            self.rules.get(usize::from(rule)).is_some_and(|rule| rule.source.is_some());
        if !names_its_source && places <= expected {
            return Err(CodedError::SessionTableFull);
        }
        let share = free.div_ceil(places.max(1));
        let ses_max_gen = share.min(usize::from(self.settings.ses_max_gen)) as u16;
        let vacant =
            self.sessions.iter_mut().enumerate().find(|(_, session)| session.key.is_none());
        let (index, session) = vacant.ok_or(CodedError::SessionTableFull)?;
        if ses_max_gen == 0 {
            return Err(CodedError::NoMemory);
        }
        session.begin(key, rule, session_len, ses_max_gen, now);
        self.counters.event(CodedEvent::SessionsStarted);
        log::info!("a session begins");
        let expiry = now.after(self.settings.ses_time_out);
        self.next_expiry = Some(self.next_expiry.map_or(expiry, |next| next.min(expiry)));
        Ok(index)
    }

    /// Makes room if `ses_max_gen = ses_gen_counter`, increments `ses_gen_counter` and initialises `gen_buf_pointer`: here the
    /// place of the generation (figure 2).
    pub(super) fn begin_generation(
        &mut self,
        now: Instant,
        session: usize,
        header: CodedHeader,
        coding: Coding,
    ) -> Result<Slot, CodedError> {
        let Self { sessions, pool, links, counters, .. } = self;
        let session_number = session as u16;
        let session = sessions.get_mut(session).ok_or(CodedError::SessionTableFull)?;
        if session.ses_gen_counter() >= session.ses_max_gen
            && let Some(oldest) = session.to_flush()
        {
            counters.event(CodedEvent::GenerationsFlushed);
            if pool.get(oldest).is_some_and(Generation::is_undecoded) {
                counters.event(CodedEvent::GenerationsLost);
            }
            if flush(pool, links, session, oldest) {
                counters.event(CodedEvent::GenerationsFlushedUnsent);
            }
        }
        let slot = pool.take().ok_or(CodedError::NoMemory)?;
        if let Some(generation) = pool.get_mut(slot) {
            generation.header = header;
            generation.session = session_number;
            generation.gen_last_updated_time = now;
            generation.coding = coding;
        }
        session.insert(pool, header.gen_id(), slot);
        counters.event(CodedEvent::GenerationsStarted);
        Ok(slot)
    }

    /// Ends the generation at `slot`.
    pub(super) fn end_generation(&mut self, slot: Slot) {
        let Some(generation) = self.pool.get(slot) else { return };
        if let Some(session) = self.sessions.get_mut(usize::from(generation.session)) {
            flush(&mut self.pool, &mut self.links, session, slot);
        }
    }

    /// Flushes the sessions whose `ses_time_interval` has reached `ses_time_out` (section III.C, item 5).
    fn expire_sessions(&mut self, now: Instant) {
        if self.next_expiry.is_none_or(|expiry| now < expiry) {
            return;
        }
        let Self { sessions, pool, links, counters, settings, .. } = self;
        let mut next: Option<Instant> = None;
        for session in sessions.iter_mut().filter(|session| session.key.is_some()) {
            let expiry = session.last_updated_time.after(settings.ses_time_out);
            if now < expiry {
                next = Some(next.map_or(expiry, |next| next.min(expiry)));
                continue;
            }
            while let Some(slot) = session.any() {
                flush(pool, links, session, slot);
            }
            session.key = None;
            counters.event(CodedEvent::SessionsTimedOut);
            log::info!("a session ends: nothing new came within ses_time_out");
        }
        self.next_expiry = next;
    }
}

/// The empty coding state of a new generation.
fn coding_for(role: &Role, header: &CodedHeader) -> Result<Coding, CodedError> {
    let (k, block_octets) = (header.gen_size, header.block_octets());
    match role {
        // The length of a datagram is known from its UDP header, so that of nothing else is.
        Role::Destination { .. } if header.protocol != IP_PROTOCOL_UDP => {
            return Err(CodedError::ProtocolUnknown);
        }
        Role::Destination { .. } => DecoderState::new(k, block_octets).map(Coding::Destination),
        Role::Forwarder { .. } | Role::Source { .. } => {
            RecoderState::new(k, block_octets).map(Coding::Forwarder)
        }
    }
    .map_err(|_| CodedError::GenerationTooLarge)
}

/// Takes a generation out of everything and makes its place vacant; tells whether a link still had something new to send from it.
fn flush(pool: &mut Pool<'_>, links: &mut Links, session: &mut Session, slot: Slot) -> bool {
    let unsent = links.forget(pool, slot);
    session.remove(pool, slot);
    pool.give_back(slot);
    unsent
}

impl Node for CodedNode<'_> {
    type DropReason = CodedDrop;

    const COUNTER_NAMES: &'static [&'static str] = &COUNTER_NAMES;

    fn receive<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Verdict<CodedDrop> {
        match self.receive_frame(now, port, frame, engine) {
            Ok(Some(port)) => Verdict::Forward(port),
            Ok(None) => Verdict::Consumed,
            Err(reason) => {
                self.counters.drop(reason);
                Verdict::Drop(reason)
            }
        }
    }

    fn poll<E: Engine>(&mut self, now: Instant, engine: &mut E) {
        self.flush_open_generations(now);
        self.let_go_of_held(now);
        let mut waiting = self.links.waiting;
        while let Some(port) = waiting.iter().next() {
            waiting = waiting.without(port);
            self.send_on(now, port, None, engine);
        }
        self.expire_sessions(now);
    }

    fn deadline(&self) -> Option<Instant> {
        let links = self.links.waiting.iter().filter_map(|port| self.links.get(port));
        let paced = links.map(|link| link.pacer.ready_at()).min();
        let held = self.links.longest_held(&self.pool).map(|(_, until)| until);
        [paced, held, self.next_expiry, self.next_flush].into_iter().flatten().min()
    }

    fn counters(&self) -> &[u64] {
        &self.counters.0
    }
}

/// Which of `workers` cores a frame belongs to, so that all frames of a session meet on one: a hash of source and group.
///
/// Anything that is not IPv4 belongs to the first.
pub fn shard(frame: &[u8], workers: usize) -> usize {
    const ADDRESSES_AT: usize = ETHERNET_HEADER_OCTETS + 12;
    let addresses = frame.get(ADDRESSES_AT..).and_then(<[u8]>::first_chunk::<8>);
    match (EthernetHeader::ref_from_prefix(frame), addresses) {
        (Ok((ethernet, _)), Some(addresses)) if ethernet.ether_type() == EtherType::IPV4 => {
            shard_of(u64::from_be_bytes(*addresses), workers)
        }
        _ => 0,
    }
}

/// Which of `workers` cores the sessions of `source` and `group` live on.
pub fn session_shard(source: Ipv4Addr, group: Ipv4Addr, workers: usize) -> usize {
    let source = u64::from(u32::from_be_bytes(source));
    shard_of(source << 32 | u64::from(u32::from_be_bytes(group)), workers)
}

/// Multiplicative hashing (Knuth), its high half mapped onto the workers without a division.
fn shard_of(addresses: u64, workers: usize) -> usize {
    let hash = addresses.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((hash * workers as u64) >> 32) as usize
}
