//! The endpoint: flows of either role in memory of the caller's, driven by datagrams, the clock and the application.

mod api;
mod flow;
mod receive;
mod transmit;

use super::{
    HOST_ID_OCTETS, HostId, KeepAliveLimits, MAX_HEADER_OCTETS, MAX_KEY_BITS, PaperError,
    PrivateKey, PublicKey,
};
use crate::dtp::modern::PathAddress;
use crate::dtp::modern::random::Random;
use crate::dtp::modern::timers::{NEVER, Timer, TimerOf, Timers};
use crate::node::Instant;
use core::time::Duration;
use flow::{Events, NONE};
use heapless::{Deque, Vec};

pub use flow::{Active, CloseReason, Flow, Phase};
pub use transmit::DATAGRAM_OCTETS;

/// Flows that have not been proven, all together and of one address.
const MAX_UNPROVEN: usize = 128;
const UNPROVEN_OF_ADDRESS: usize = 8;

/// How long a flow may stay unproven.
const UNPROVEN_LIFETIME: Duration = Duration::from_secs(30);

const REPLIES: usize = 16;
const REPLY_OCTETS: usize = MAX_HEADER_OCTETS + MAX_KEY_BITS / 8;

/// Octets of payload of a full packet of the authors' programs.
const SEGMENT_OCTETS: u32 = 1452;

/// The client's key: the public half goes into every SYN.
#[derive(Copy, Clone, Debug)]
pub struct ClientKey<'m> {
    /// What the SYN carries.
    pub public: PublicKey<'m>,
    /// What decrypts the answer.
    pub private: &'m PrivateKey,
}

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct Config<'m> {
    /// Who this end is.
    pub host_id: HostId,
    /// Flows that clients open are taken.
    pub serves: bool,
    /// What a client needs.
    pub key: Option<ClientKey<'m>>,
    /// The longest keep-alive that this end grants, in seconds.
    pub keep_alive_cap_s: u32,
    /// The keep-alive that a client asks for, in seconds; the option is left out for 0.
    pub keep_alive_s: u32,
    /// Offer SACK, and take it when it is offered.
    pub sack: bool,
    /// The first number of every flow instead of a random one. The authors' programs begin at 0; peers that do so are taken in any case.
    /// Numbers that can be told ahead let blind attackers in.
    pub first_sequence: Option<u32>,
    /// The shift of this end's windows.
    pub window_shift: u8,
    /// How long a client waits for an answer to its SYN.
    pub opening_timeout: Duration,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Self {
            host_id: [0; HOST_ID_OCTETS],
            serves: false,
            key: None,
            keep_alive_cap_s: 24 * 3600,
            keep_alive_s: super::DEFAULT_KEEP_ALIVE_S,
            sack: true,
            first_sequence: None,
            window_shift: 4,
            opening_timeout: Duration::from_secs(30),
        }
    }
}

/// The memory that an endpoint lives in.
pub struct Memory<'m> {
    /// A place for each flow.
    pub flows: &'m mut [Flow],
    /// As many as flows.
    pub timers: &'m mut [u32],
    /// The active parts: as many as flows that do something at the same time.
    pub actives: &'m mut [Active<'m>],
    /// Finds flows by their ids: at least twice as many as flows.
    pub index: &'m mut [u32],
}

/// Names a flow as long as it lives; a later flow in the same place has another name.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowHandle {
    slot: u32,
    generation: u32,
}

/// What the application should know.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has opened a flow and proven its address.
    Incoming,
    /// The handshake is done.
    Connected,
    /// There is something to read, or the end.
    Readable,
    /// There is room again after a write that did not fit.
    Writable,
    /// The network is away; the flow waits.
    Suspended,
    /// The network is back.
    Resumed,
    /// The peer has another address.
    Moved,
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

struct Reply {
    path: PathAddress,
    octets: usize,
    datagram: [u8; REPLY_OCTETS],
}

struct Table<'a>(&'a mut [Flow]);

impl TimerOf for Table<'_> {
    fn timer(&mut self, slot: u32) -> Option<&mut Timer> {
        self.0.get_mut(slot as usize).map(|flow| &mut flow.timer)
    }
}

/// An endpoint of the `paper` suite.
///
/// Its user calls [`Endpoint::handle`] for every datagram that comes, [`Endpoint::transmit`] until it gives nothing, and that again at
/// [`Endpoint::deadline`]; [`Endpoint::poll`] tells what has happened.
pub struct Endpoint<'m> {
    config: Config<'m>,
    limits: KeepAliveLimits,
    random: Random,
    flows: &'m mut [Flow],
    timers: Timers<'m>,
    actives: &'m mut [Active<'m>],
    index: &'m mut [u32],
    index_key: u64,
    free_flow: u32,
    free_active: u32,
    events: (u32, u32),
    unproven: Vec<u32, MAX_UNPROVEN>,
    replies: Deque<Reply, REPLIES>,
    now: Instant,
    drops: [u64; PaperError::ALL.len()],
}

impl<'m> Endpoint<'m> {
    /// An endpoint with no flow. `seed` is of the system's cryptographic generator and serves once.
    pub fn new(config: Config<'m>, memory: Memory<'m>, seed: [u8; 32], now: Instant) -> Self {
        let Memory { flows, timers, actives, index } = memory;
        let mut random = Random::new(seed);
        let most = flows.len().min(timers.len()).min(index.len() / 2).min(NONE as usize - 1);
        let mut free_flow = NONE;
        for (slot, flow) in (0..most as u32).zip(flows.iter_mut()).rev() {
            flow.event_next = free_flow;
            free_flow = slot;
        }
        let mut free_active = NONE;
        for (place, active) in (0..NONE).zip(actives.iter_mut()).rev() {
            active.next_free = free_active;
            free_active = place;
        }
        index.fill(NONE);
        Self {
            limits: KeepAliveLimits::new(config.keep_alive_cap_s),
            config,
            index_key: u64::from_le_bytes(random.array()),
            random,
            flows,
            timers: Timers::new(timers),
            actives,
            index,
            free_flow,
            free_active,
            events: (NONE, NONE),
            unproven: Vec::new(),
            replies: Deque::new(),
            now,
            drops: [0; PaperError::ALL.len()],
        }
    }

    /// When [`Endpoint::transmit`] is to be called even if nothing happens; nothing for never.
    pub fn deadline(&mut self) -> Option<Instant> {
        if !self.replies.is_empty() {
            return Some(self.now);
        }
        self.timers.first(&mut Table(self.flows)).map(|(_, due)| due)
    }

    /// How many datagrams were dropped for that reason.
    pub fn drops(&self, reason: PaperError) -> u64 {
        self.drops.get(reason as usize).copied().unwrap_or(0)
    }

    /// Flows whose clients have not proven their addresses.
    pub fn unproven(&self) -> usize {
        self.unproven.len()
    }

    fn pair(&mut self, slot: u32) -> Option<(&mut Flow, &mut Active<'m>)> {
        let flow = self.flows.get_mut(slot as usize)?;
        let active = self.actives.get_mut(flow.active as usize)?;
        Some((flow, active))
    }

    /// Lets the flow be looked at no later than `at`.
    fn wake_at(&mut self, slot: u32, at: Instant) {
        let due = self.flows.get(slot as usize).map_or(NEVER, |flow| flow.timer.due);
        if at < due {
            self.timers.set(&mut Table(self.flows), slot, at);
        }
    }

    fn place_of(&self, id: u32) -> usize {
        // The client chooses the id, so where it falls must not be known to it.
        let hash = (u64::from(id) ^ self.index_key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 29) ^ self.index_key.rotate_left(31))
            .wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (hash >> 17).checked_rem(self.index.len() as u64).unwrap_or(0) as usize
    }

    /// The place in the index where an id stands, or where it would, and its slot.
    fn search(&self, id: u32) -> (usize, Option<u32>) {
        let mut place = self.place_of(id);
        for _ in 0..self.index.len() {
            let slot = self.index.get(place).copied().unwrap_or(NONE);
            match self.flows.get(slot as usize) {
                None => return (place, None),
                Some(flow) if flow.id == id => return (place, Some(slot)),
                Some(_) => place = (place + 1) % self.index.len().max(1),
            }
        }
        (place, None)
    }

    fn remove_from_index(&mut self, id: u32) {
        let (mut hole, Some(_)) = self.search(id) else { return };
        let size = self.index.len().max(1);
        let mut at = hole;
        for _ in 0..size {
            at = (at + 1) % size;
            let slot = self.index.get(at).copied().unwrap_or(NONE);
            let Some(flow) = self.flows.get(slot as usize) else { break };
            let home = self.place_of(flow.id);
            // What stands as far from its home as the hole is may fill it.
            if (at + size - home) % size >= (at + size - hole) % size {
                if let Some(place) = self.index.get_mut(hole) {
                    *place = slot;
                }
                hole = at;
            }
        }
        if let Some(place) = self.index.get_mut(hole) {
            *place = NONE;
        }
    }

    fn take_flow(&mut self, id: u32) -> Option<u32> {
        let slot = self.free_flow;
        let (place, None) = self.search(id) else { return None };
        let flow = self.flows.get_mut(slot as usize)?;
        self.free_flow = flow.event_next;
        *flow = Flow {
            generation: flow.generation.wrapping_add(1),
            timer: flow.timer,
            id,
            opened: self.now,
            heard: self.now,
            ..Flow::new()
        };
        *self.index.get_mut(place)? = slot;
        Some(slot)
    }

    /// Gives a flow's place back.
    fn free(&mut self, slot: u32) {
        self.unproven.retain(|&other| other != slot);
        self.timers.set(&mut Table(self.flows), slot, NEVER);
        self.release_active(slot);
        let Some(id) = self.flows.get(slot as usize).map(|flow| flow.id) else { return };
        self.remove_from_index(id);
        self.leave_events(slot);
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        *flow = Flow { generation: flow.generation, timer: flow.timer, ..Flow::new() };
        flow.event_next = self.free_flow;
        self.free_flow = slot;
    }

    fn leave_events(&mut self, slot: u32) {
        let (mut before, mut at) = (NONE, self.events.0);
        while let Some(next) = self.flows.get(at as usize).map(|flow| flow.event_next) {
            if at == slot {
                match self.flows.get_mut(before as usize) {
                    Some(before) => before.event_next = next,
                    None => self.events.0 = next,
                }
                if self.events.1 == slot {
                    self.events.1 = before;
                }
                return;
            }
            (before, at) = (at, next);
        }
    }

    /// The active part of a flow, taken from the pool if it sleeps.
    fn activate(&mut self, slot: u32) -> Option<()> {
        let flow = self.flows.get_mut(slot as usize)?;
        if flow.active == NONE {
            let active = self.actives.get_mut(self.free_active as usize)?;
            flow.active = self.free_active;
            self.free_active = active.next_free;
            active.clear(SEGMENT_OCTETS);
            active.recover = flow.unacknowledged;
            active.resend = flow.unacknowledged;
            active.lost_below = flow.unacknowledged;
        }
        Some(())
    }

    fn release_active(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        let place = core::mem::replace(&mut flow.active, NONE);
        if let Some(active) = self.actives.get_mut(place as usize) {
            active.next_free = self.free_active;
            self.free_active = place;
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

    fn end(&mut self, slot: u32, reason: CloseReason) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        match flow.phase {
            Phase::Free | Phase::Closed => {}
            // Nobody knows of the one, and of the other the application has been told.
            Phase::Unproven => self.free(slot),
            Phase::Opening | Phase::Open | Phase::Lingering => {
                flow.phase = Phase::Closed;
                flow.reason = reason;
                self.timers.set(&mut Table(self.flows), slot, NEVER);
                self.tell(slot, Events::CLOSED);
            }
        }
    }

    /// The next thing that the application should know.
    pub fn poll(&mut self) -> Option<(FlowHandle, Event)> {
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
            let handle = FlowHandle { slot, generation: flow.generation };
            let event = match event {
                Events::INCOMING => Event::Incoming,
                Events::CONNECTED => Event::Connected,
                Events::READABLE => Event::Readable,
                Events::WRITABLE => Event::Writable,
                Events::SUSPENDED => Event::Suspended,
                Events::RESUMED => Event::Resumed,
                Events::MOVED => Event::Moved,
                _ => Event::Closed(flow.reason),
            };
            return Some((handle, event));
        }
    }
}
