//! The endpoint: flows of either role in memory of the caller's, driven by datagrams, the clock and the application.

mod api;
mod handshake;
mod messages;
mod receive;
mod restart;
mod tickets;
mod timeouts;
mod transmit;

use super::active::Active;
use super::congestion::Congestion;
use super::flow::{CloseReason, Events, Flow, NONE, Phase};
use super::ids::{IdCipher, IdContent};
use super::path::PathAddress;
use super::random::Random;
use super::timers::{NEVER, Timer, TimerOf, Timers};
use super::{ConnectionId, Identity, KEY_OCTETS, Kind, ModernError, Pattern, RetryKey};
use crate::named::named_enum;
use crate::node::Instant;
use core::time::Duration;
use heapless::{Deque, Vec};

pub use api::StreamError;
pub use messages::{Message, message_octets};

/// Handshakes that have not been proven, all together.
const MAX_UNPROVEN: usize = 128;

/// The same, above which every further one has to show a token, and the same of one address.
const UNPROVEN_BEFORE_RETRY: usize = 64;
const UNPROVEN_OF_ADDRESS: usize = 8;

/// Answers to handshakes that wait to be sent, and the octets of the longest.
const REPLIES: usize = 16;
const REPLY_OCTETS: usize = 256;

/// A clock that says less than before by more than this was put back.
const CLOCK_PUT_BACK: Duration = Duration::from_secs(1);

/// The shortest keep-alive that is granted.
pub(super) const LEAST_KEEP_ALIVE_S: u32 = 60;

/// What is granted to who asks for nothing.
const DEFAULT_KEEP_ALIVE_S: u32 = 7200;

/// How an endpoint behaves.
#[derive(Clone)]
pub struct Config<'m> {
    /// The keys of this end. A server needs the private key, or the pre-shared one; a client brings its own with [`Connect`].
    pub identity: Identity,
    /// The patterns that a server takes; none for an end that only connects.
    pub patterns: &'m [Pattern],
    /// The keys of clients that pattern IK lets in.
    pub authorized: &'m [[u8; KEY_OCTETS]],
    /// Bits of the suites that this end has, and prefers when both have them: AES-GCM should be offered only where the processor has it.
    pub suites: u8,
    /// The key of the connection ids; the same for all servers behind one steering middlebox.
    pub id_key: [u8; KEY_OCTETS],
    /// This server's number in its connection ids.
    pub server: u16,
    /// The longest keep-alive that this end grants, in seconds.
    pub keep_alive_cap_s: u32,
    /// Octets of the largest datagram that this end sends and takes, at least 1200.
    pub datagram_octets: u16,
    /// Streams opened by the peer that this end takes at a time in a flow; with those of the peer at most [`super::MAX_STREAMS`] count.
    pub streams: u8,
    /// Messages on streams keep their boundaries, if the peer wants it too: [`Endpoint::write_message`].
    pub boundaries: bool,
    /// Control of congestion.
    pub congestion: Congestion,
    /// The generation from which flows are counted. Who restores flows takes another one each time it starts, so that no two flows have the same ids.
    pub generation: u32,
    /// Flows that one address may have (an IPv6 address counts as its first 64 bits).
    pub flows_of_address: u16,
    /// How long a client waits for an answer to its handshake.
    pub opening_timeout: Duration,
    /// Packets after which an acknowledgement goes out at once; from two on it goes out 1 ms later.
    pub packets_per_acknowledgement: u8,
}

impl Default for Config<'_> {
    /// A client's configuration; a server adds its keys, patterns and streams.
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            patterns: &[],
            authorized: &[],
            suites: super::Suite::ChaCha20Poly1305.bit(),
            id_key: [0; KEY_OCTETS],
            server: 0,
            keep_alive_cap_s: 24 * 3600,
            datagram_octets: 1200,
            streams: 0,
            boundaries: false,
            congestion: Congestion::Cubic,
            generation: 0,
            flows_of_address: u16::MAX,
            opening_timeout: Duration::from_secs(30),
            packets_per_acknowledgement: 32,
        }
    }
}

/// What a client brings to a new flow.
#[derive(Clone)]
pub struct Connect {
    /// How the ends know each other.
    pub pattern: Pattern,
    /// The keys that the pattern needs.
    pub identity: Identity,
    /// The keep-alive to ask for, in seconds.
    pub keep_alive_s: u32,
}

/// The memory that an endpoint lives in.
pub struct Memory<'m> {
    /// A place for each flow.
    pub flows: &'m mut [Flow],
    /// As many as flows.
    pub timers: &'m mut [u32],
    /// The active parts: as many as flows that do something at the same time.
    pub actives: &'m mut [Active<'m>],
    /// Counts flows by address; a power of two of places, some times the number of flows, keeps collisions rare.
    pub budgets: &'m mut [u16],
}

/// Names a flow as long as it lives; a later flow in the same place has another name.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl FlowId {
    /// The flow's place in the table.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Which flow in this place it is.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// What the application should know.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has opened a flow.
    Incoming,
    /// The server shows this key; nothing is sent until [`Endpoint::trust`].
    ServerKey([u8; KEY_OCTETS]),
    /// The server has answered and is who it should be: streams may be opened and written to.
    Answered,
    /// The server has the flow.
    Connected,
    /// A stream has something to read: octets, its end or its reset. It may be a new stream.
    Readable,
    /// A stream has room again, of a quarter of its buffer or 512 KiB, after it had not enough.
    Writable,
    /// The network is away; the flow waits.
    Suspended,
    /// The network is back.
    Resumed,
    /// The flow has another path.
    Moved,
    /// An end has restarted, and the flow goes on. Streams whose octets this end no longer has must be written again: [`Endpoint::resume_offset`].
    Restarted,
    /// The flow is gone. What has come can be read until [`Endpoint::forget`].
    Closed(CloseReason),
}

/// A datagram to send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub path: PathAddress,
    /// Octets at the beginning of the buffer.
    pub octets: usize,
}

named_enum! {
    /// What an endpoint counts, besides the drops that [`ModernError`] names.
    pub enum Counter {
        /// Datagrams taken.
        Received = "received",
        /// Octets taken.
        ReceivedOctets = "received_octets",
        /// Datagrams sent.
        Sent = "sent",
        /// Octets sent.
        SentOctets = "sent_octets",
        /// Packets given up as lost.
        Lost = "lost",
        /// Packets that were given up and came all the same.
        SpuriouslyLost = "spuriously_lost",
        /// Probes after a time-out and in an outage.
        Probes = "probes",
        /// Flows opened, by either end.
        Opened = "opened",
        /// Flows that lost their network.
        Suspended = "suspended",
        /// Flows that have it back.
        Resumed = "resumed",
        /// Flows that went on after a restart of either end.
        Restarted = "restarted",
        /// Flows on another path.
        Moved = "moved",
        /// Paths that were given up since nobody answered there.
        PathsGivenUp = "paths_given_up",
        /// Paths that turned out not to take large datagrams.
        BlackHoles = "black_holes",
        /// Changes of keys.
        Rekeyed = "rekeyed",
        /// Retry packets.
        Retries = "retries",
        /// Handshakes of clients that never proved their address.
        UnprovenExpired = "unproven_expired",
        /// Grants of keep-alive that were cut.
        GrantsShrunk = "grants_shrunk",
        /// Sleeping flows that had to go.
        Evicted = "evicted",
        /// Flows that nothing was heard of for too long.
        Expired = "expired",
        /// Flows that fell asleep, and woke up.
        Slept = "slept",
        /// Packets that were not sent because the address was not proven.
        AmplificationLimited = "amplification_limited",
    }
}

struct Reply {
    path: PathAddress,
    octets: usize,
    datagram: [u8; REPLY_OCTETS],
}

impl TimerOf for [Flow] {
    fn timer(&mut self, slot: u32) -> Option<&mut Timer> {
        self.get_mut(slot as usize).map(|flow| &mut flow.timer)
    }
}

struct Table<'a>(&'a mut [Flow]);

impl TimerOf for Table<'_> {
    fn timer(&mut self, slot: u32) -> Option<&mut Timer> {
        self.0.timer(slot)
    }
}

/// An endpoint of the `modern` suite.
///
/// Its user calls [`Endpoint::handle`] for every datagram that comes, [`Endpoint::transmit`] until it gives nothing, and both again at
/// [`Endpoint::deadline`]; [`Endpoint::poll`] tells what has happened.
pub struct Endpoint<'m> {
    config: Config<'m>,
    ids: IdCipher,
    random: Random,
    flows: &'m mut [Flow],
    timers: Timers<'m>,
    actives: &'m mut [Active<'m>],
    budgets: &'m mut [u16],
    free_flow: u32,
    free_flows: u32,
    free_active: u32,
    ready: (u32, u32),
    events: (u32, u32),
    /// The flow that sleeps the longest and the one that fell asleep last.
    idle: (u32, u32),
    unproven: Vec<u32, MAX_UNPROVEN>,
    replies: Deque<Reply, REPLIES>,
    /// For what must be the same when an Initial comes again.
    answer_key: [u8; KEY_OCTETS],
    retry_keys: [RetryKey; 2],
    retry_keys_changed: Instant,
    interface_is_up: bool,
    now: Instant,
    /// How far the caller's clock has been put back in all.
    clock_was_behind: Duration,
    receive_octets: usize,
    /// When a restart was last refused, in milliseconds.
    refused_ms: u32,
    drops: [u64; ModernError::ALL.len()],
    counters: [u64; Counter::ALL.len()],
}

impl<'m> Endpoint<'m> {
    /// An endpoint with no flow. `seed` is of the system's cryptographic generator and serves once.
    pub fn new(
        config: Config<'m>,
        memory: Memory<'m>,
        seed: [u8; KEY_OCTETS],
        now: Instant,
    ) -> Self {
        let Memory { flows, timers, actives, budgets } = memory;
        let mut random = Random::new(seed);
        let last = flows.len().min(timers.len()).min(NONE as usize - 1) as u32;
        let mut free_flow = NONE;
        for (slot, flow) in (0..last).zip(flows.iter_mut()).rev() {
            flow.ready_next = free_flow;
            flow.generation = flow.generation.wrapping_add(config.generation);
            free_flow = slot;
        }
        let mut free_active = NONE;
        for (place, active) in (0..NONE).zip(actives.iter_mut()).rev() {
            active.next_free = free_active;
            free_active = place;
        }
        let receive_octets = actives.first().map_or(0, |active| active.receive.len());
        budgets.fill(0);
        Self {
            ids: IdCipher::new(&config.id_key),
            config,
            flows,
            timers: Timers::new(timers),
            actives,
            budgets,
            free_flow,
            free_flows: last,
            free_active,
            ready: (NONE, NONE),
            events: (NONE, NONE),
            idle: (NONE, NONE),
            unproven: Vec::new(),
            replies: Deque::new(),
            answer_key: random.array(),
            retry_keys: [RetryKey::new(random.array()), RetryKey::new(random.array())],
            retry_keys_changed: now,
            random,
            interface_is_up: true,
            now,
            clock_was_behind: Duration::ZERO,
            receive_octets,
            refused_ms: 0,
            drops: [0; ModernError::ALL.len()],
            counters: [0; Counter::ALL.len()],
        }
    }

    /// Takes a datagram, which is decrypted in place. `marked` says that it came with the ECN mark of congestion.
    ///
    /// # Errors
    /// Why it was dropped, which is counted too.
    pub fn handle(
        &mut self,
        now: Instant,
        path: PathAddress,
        datagram: &mut [u8],
        marked: bool,
    ) -> Result<(), ModernError> {
        let now = self.advance(now);
        let result = match Kind::of(datagram) {
            Ok(Kind::Flow) => self.on_flow_packet(now, path, datagram, marked),
            Ok(Kind::Initial) => self.on_initial(now, path, datagram),
            Ok(Kind::Answer) => self.on_answer(now, datagram),
            Ok(Kind::Retry) => self.on_retry(now, datagram),
            Ok(Kind::Versions) => self.on_versions(datagram),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                self.count(Counter::Received, 1);
                self.count(Counter::ReceivedOctets, datagram.len() as u64);
            }
            Err(error) => {
                if let Some(drops) = self.drops.get_mut(error as usize) {
                    *drops += 1;
                }
            }
        }
        result
    }

    /// Whether a flow may have something to send at once.
    pub fn is_ready(&self) -> bool {
        self.ready.0 != NONE || !self.replies.is_empty()
    }

    /// When [`Endpoint::transmit`] is to be called even if nothing happens; nothing for never.
    pub fn deadline(&mut self) -> Option<Instant> {
        let due =
            if self.is_ready() { self.now } else { self.timers.first(&mut Table(self.flows))?.1 };
        // By the caller's clock.
        let behind = self.clock_was_behind.as_nanos() as u64;
        Some(Instant::from_nanos(due.as_nanos().saturating_sub(behind)))
    }

    /// How often something was counted.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    /// How many datagrams were dropped for that reason.
    pub fn drops(&self, reason: ModernError) -> u64 {
        self.drops.get(reason as usize).copied().unwrap_or(0)
    }

    /// Places in the flow table that are free.
    pub const fn free_flows(&self) -> u32 {
        self.free_flows
    }

    /// Handshakes that have not been proven.
    pub fn unproven(&self) -> usize {
        self.unproven.len()
    }

    /// The cipher of this end's connection ids.
    pub const fn id_cipher(&self) -> &IdCipher {
        &self.ids
    }

    /// Whether every path's count of octets on their way is what the packets on their way come to.
    pub fn books_agree(&mut self) -> bool {
        self.actives.iter_mut().filter(|active| active.owner != NONE).all(|active| {
            let Active { recovery, paths, .. } = active;
            (0..).zip(paths.iter()).all(|(place, path)| recovery.count(place) == path.in_flight)
        })
    }

    /// Time never goes back here, whatever a clock does. One that was put back is followed from where it stands, or all timers would wait
    /// until it has caught up; a small step back is two callers that read the clock at the same time.
    fn advance(&mut self, now: Instant) -> Instant {
        let shifted = now.after(self.clock_was_behind);
        if self.now.since(shifted) > CLOCK_PUT_BACK {
            self.clock_was_behind = self.now.since(now);
        } else if shifted > self.now {
            self.now = shifted;
        }
        self.now
    }

    fn count(&mut self, counter: Counter, by: u64) {
        if let Some(count) = self.counters.get_mut(counter as usize) {
            *count += by;
        }
    }

    fn flow(&mut self, slot: u32) -> Option<&mut Flow> {
        self.flows.get_mut(slot as usize)
    }

    /// A flow with its active part, if it has one.
    fn pair(&mut self, slot: u32) -> Option<(&mut Flow, &mut Active<'m>)> {
        let flow = self.flows.get_mut(slot as usize)?;
        let active = self.actives.get_mut(flow.active as usize)?;
        Some((flow, active))
    }

    fn own_id(&self, slot: u32, generation: u32, sequence: u32) -> ConnectionId {
        self.ids.seal(IdContent { server: self.config.server, slot, generation, sequence })
    }

    fn take_flow(&mut self) -> Option<u32> {
        let slot = self.free_flow;
        let flow = self.flows.get_mut(slot as usize)?;
        self.free_flow = flow.ready_next;
        self.free_flows -= 1;
        // Who still is in the list of events leaves it when the list is read.
        *flow = Flow {
            generation: flow.generation.wrapping_add(1),
            timer: flow.timer,
            event_next: flow.event_next,
            has_event: flow.has_event,
            ..Flow::new()
        };
        Some(slot)
    }

    /// Gives a flow's place back. Its active part must have been given back already.
    fn free_flow(&mut self, slot: u32) {
        self.unready(slot);
        self.remove_idle(slot);
        self.timers.set(&mut Table(self.flows), slot, NEVER);
        let first = self.free_flow;
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if flow.phase == Phase::Free {
            return;
        }
        let (ip, counted) = (flow.address.ip, flow.role == super::Role::Server);
        // Who is still in the list of events leaves it when the list is read.
        let (event_next, has_event) = (flow.event_next, flow.has_event);
        let generation = flow.generation;
        *flow = Flow { generation, timer: flow.timer, event_next, has_event, ..Flow::new() };
        flow.ready_next = first;
        self.free_flow = slot;
        self.free_flows += 1;
        if counted {
            self.budget(&ip, false);
        }
    }

    /// Counts a flow of an address in or out; gives whether the address may have it.
    fn budget(&mut self, ip: &[u8; 16], more: bool) -> bool {
        // Two counters of different hashes: the lower one is the better guess.
        let is_v4 = ip.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        let octets = ip.get(..if is_v4 { 16 } else { 8 }).unwrap_or(ip);
        let salts: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
        let key = self.answer_key.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let most = self.config.flows_of_address;
        let places = salts.map(|salt| {
            let hash = octets.iter().fold(key ^ salt, |hash, &octet| {
                (hash ^ u64::from(octet)).wrapping_mul(salt).rotate_left(23)
            });
            hash.checked_rem(self.budgets.len() as u64).unwrap_or(0) as usize
        });
        let least = places.iter().filter_map(|&place| self.budgets.get(place)).min();
        if more && least.is_some_and(|&count| count >= most) {
            return false;
        }
        let [first, second] = places;
        let places = if first == second { &places[..1] } else { &places[..] };
        for &place in places {
            if let Some(count) = self.budgets.get_mut(place) {
                *count = if more { count.saturating_add(1) } else { count.saturating_sub(1) };
            }
        }
        true
    }

    /// The active part of a flow, taken from the pool if it sleeps.
    fn wake(&mut self, slot: u32) -> Option<&mut Active<'m>> {
        let now = self.now;
        let flow = self.flows.get_mut(slot as usize)?;
        if flow.active != NONE {
            return self.actives.get_mut(flow.active as usize);
        }
        let place = self.free_active;
        let active = self.actives.get_mut(place as usize)?;
        self.free_active = active.next_free;
        active.clear(slot, now);
        active.wake(flow, self.config.congestion, now);
        flow.active = place;
        self.remove_idle(slot);
        self.actives.get_mut(place as usize)
    }

    /// Gives the active part back. What the flow keeps of it must have been put into the flow already.
    fn release_active(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        let place = core::mem::replace(&mut flow.active, NONE);
        if let Some(active) = self.actives.get_mut(place as usize) {
            active.clear(NONE, self.now);
            active.next_free = self.free_active;
            self.free_active = place;
        }
    }

    fn set_ready(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if core::mem::replace(&mut flow.is_ready, true) {
            return;
        }
        flow.ready_next = NONE;
        let (first, last) = self.ready;
        match self.flows.get_mut(last as usize) {
            Some(previous) => previous.ready_next = slot,
            None => self.ready.0 = slot,
        }
        let _ = first;
        self.ready.1 = slot;
    }

    fn next_ready(&mut self) -> Option<u32> {
        let slot = self.ready.0;
        let flow = self.flows.get_mut(slot as usize)?;
        flow.is_ready = false;
        self.ready.0 = core::mem::replace(&mut flow.ready_next, NONE);
        if self.ready.0 == NONE {
            self.ready.1 = NONE;
        }
        Some(slot)
    }

    /// Takes a flow out of the list of those that may have something to send.
    fn unready(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if !core::mem::replace(&mut flow.is_ready, false) {
            return;
        }
        let next = core::mem::replace(&mut flow.ready_next, NONE);
        if self.ready.0 == slot {
            self.ready.0 = next;
            if next == NONE {
                self.ready.1 = NONE;
            }
            return;
        }
        let mut at = self.ready.0;
        while let Some(flow) = self.flows.get_mut(at as usize) {
            if flow.ready_next == slot {
                flow.ready_next = next;
                if self.ready.1 == slot {
                    self.ready.1 = at;
                }
                return;
            }
            at = flow.ready_next;
        }
    }

    fn tell(&mut self, slot: u32, events: Events) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        flow.events |= events;
        if core::mem::replace(&mut flow.has_event, true) {
            return;
        }
        flow.event_next = NONE;
        match self.flows.get_mut(self.events.1 as usize) {
            Some(previous) => previous.event_next = slot,
            None => self.events.0 = slot,
        }
        self.events.1 = slot;
    }

    fn add_idle(&mut self, slot: u32) {
        let newest = self.idle.1;
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if core::mem::replace(&mut flow.is_idle, true) {
            return;
        }
        (flow.older, flow.newer) = (newest, NONE);
        match self.flows.get_mut(newest as usize) {
            Some(previous) => previous.newer = slot,
            None => self.idle.0 = slot,
        }
        self.idle.1 = slot;
    }

    fn remove_idle(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if !core::mem::replace(&mut flow.is_idle, false) {
            return;
        }
        let (older, newer) = (flow.older, flow.newer);
        match self.flows.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.idle.0 = newer,
        }
        match self.flows.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.idle.1 = older,
        }
    }

    /// Ends a flow at once: the application is told, the rest is free when it has called [`Endpoint::forget`].
    fn end(&mut self, slot: u32, reason: CloseReason) {
        self.unproven.retain(|&other| other != slot);
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if matches!(flow.phase, Phase::Free | Phase::Closed) {
            return;
        }
        flow.phase = Phase::Closed;
        let reason = *flow.reason.get_or_insert(reason);
        let known = flow.is_known;
        let kept = matches!(reason, CloseReason::Peer(_) | CloseReason::Local);
        self.unready(slot);
        self.remove_idle(slot);
        self.timers.set(&mut Table(self.flows), slot, NEVER);
        if !known {
            self.release_active(slot);
            self.free_flow(slot);
            return;
        }
        if !kept {
            self.release_active(slot);
        }
        self.tell(slot, Events::CLOSED);
    }

    /// The next thing that the application should know.
    pub fn poll(&mut self) -> Option<(FlowId, Event)> {
        loop {
            let slot = self.events.0;
            let flow = self.flows.get_mut(slot as usize)?;
            let Some(event) = flow.events.iter().next() else {
                flow.has_event = false;
                self.events.0 = core::mem::replace(&mut flow.event_next, NONE);
                if self.events.0 == NONE {
                    self.events.1 = NONE;
                }
                continue;
            };
            flow.events.remove(event);
            let id = FlowId { slot, generation: flow.generation };
            let reason = flow.reason;
            let key = self
                .actives
                .get(flow.active as usize)
                .and_then(|active| active.opening.as_ref()?.server_key);
            let event = match event {
                Events::INCOMING => Event::Incoming,
                Events::SERVER_KEY => Event::ServerKey(key.unwrap_or_default()),
                Events::ANSWERED => Event::Answered,
                Events::CONNECTED => Event::Connected,
                Events::READABLE => Event::Readable,
                Events::WRITABLE => Event::Writable,
                Events::SUSPENDED => Event::Suspended,
                Events::RESUMED => Event::Resumed,
                Events::MOVED => Event::Moved,
                Events::RESTARTED => Event::Restarted,
                _ => Event::Closed(reason.unwrap_or(CloseReason::Local)),
            };
            return Some((id, event));
        }
    }
}

/// Whole seconds of an instant.
fn seconds(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
