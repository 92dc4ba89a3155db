//! What is kept of a flow while it sleeps, and the lists that it is in.

use super::keys::ResumeSecret;
use super::path::PathAddress;
use super::protect::{SleepingOpener, SleepingSealer};
use super::timers::Timer;
use super::{ConnectionId, Role};
use crate::node::Instant;
use core::time::Duration;
use heapless::Vec;

/// Streams that a flow can have open at a time, those of both ends together.
pub const MAX_STREAMS: usize = 4;

/// No flow, or no active part.
pub(super) const NONE: u32 = u32::MAX;

/// Where a flow is in its life (`SPEC.md`, section 5).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No flow has this place.
    Free,
    /// A client waits for the server's answer.
    Opening,
    /// A client waits for the application to trust the server's key.
    Asking,
    /// A server waits for the first packet that proves the client's address.
    Unproven,
    /// Packets come and go.
    Open,
    /// The network is away.
    Suspended,
    /// One end has closed the flow.
    Draining,
    /// The flow is gone; the application has not been told yet.
    Closed,
}

/// Why a flow is gone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This end's application closed it.
    Local,
    /// The peer's application closed it, for that reason.
    Peer(u32),
    /// The handshake was not answered in time.
    Timeout,
    /// Nothing was heard for as long as the keep-alive was granted.
    Expired,
    /// It had slept the longest when a new flow needed its place.
    Evicted,
    /// The peer broke the protocol, or speaks no version of it that this end knows.
    Protocol(super::ModernError),
}

bitflags::bitflags! {
    /// What the application has not been told yet; it is told in this order.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
    pub(super) struct Events: u16 {
        const INCOMING = 1;
        const SERVER_KEY = 2;
        const ANSWERED = 4;
        const CONNECTED = 8;
        const READABLE = 16;
        const WRITABLE = 32;
        const SUSPENDED = 64;
        const RESUMED = 128;
        const MOVED = 256;
        const RESTARTED = 512;
        const CLOSED = 1024;
    }
}

/// A stream with nothing on its way.
#[derive(Copy, Clone, Debug)]
pub(super) struct SleepingStream {
    pub sent: u64,
    pub received: u64,
    /// How far the peer's window reaches beyond what was sent.
    pub credit: u32,
    /// The stream's id and, in its two top bits, which directions have ended: a place of its own would cost eight octets a stream.
    id_and_ends: u32,
}

impl SleepingStream {
    const SEND_ENDED: u32 = 1 << 31;
    const RECEIVE_ENDED: u32 = 1 << 30;

    pub fn new(
        id: u32,
        sent: u64,
        received: u64,
        credit: u32,
        send_ended: bool,
        receive_ended: bool,
    ) -> Self {
        let ends = if send_ended { Self::SEND_ENDED } else { 0 }
            | if receive_ended { Self::RECEIVE_ENDED } else { 0 };
        Self {
            sent,
            received,
            credit,
            id_and_ends: id & !(Self::SEND_ENDED | Self::RECEIVE_ENDED) | ends,
        }
    }

    pub const fn id(&self) -> u32 {
        self.id_and_ends & !(Self::SEND_ENDED | Self::RECEIVE_ENDED)
    }

    pub const fn send_ended(&self) -> bool {
        self.id_and_ends & Self::SEND_ENDED != 0
    }

    pub const fn receive_ended(&self) -> bool {
        self.id_and_ends & Self::RECEIVE_ENDED != 0
    }
}

/// The connection ids that the peer has given.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct PeerIds {
    pub current: ConnectionId,
    pub spare: [Option<ConnectionId>; 2],
    /// The lowest sequence that has not been seen.
    pub next: u32,
}

impl PeerIds {
    /// Takes an id that a NEW_ID offers.
    pub fn offer(&mut self, sequence: u64, id: ConnectionId) {
        if sequence >= u64::from(self.next)
            && let Some(place) = self.spare.iter_mut().find(|place| place.is_none())
        {
            *place = Some(id);
            self.next = u32::try_from(sequence.saturating_add(1)).unwrap_or(u32::MAX);
        }
    }

    /// Goes over to an id that no path has seen, if there is one.
    pub fn change(&mut self) {
        if let Some(id) = self.spare.iter_mut().find_map(Option::take) {
            self.current = id;
        }
    }
}

/// One place of the flow table: everything that there is of a sleeping flow.
pub struct Flow {
    pub(super) phase: Phase,
    pub(super) role: Role,
    pub(super) generation: u32,
    /// The place of its active part.
    pub(super) active: u32,
    pub(super) sealer: Option<SleepingSealer>,
    pub(super) opener: Option<SleepingOpener>,
    pub(super) resume: Option<ResumeSecret>,
    pub(super) peer: PeerIds,
    pub(super) address: PathAddress,
    pub(super) streams: Vec<SleepingStream, MAX_STREAMS, u8>,
    /// Octets sent and received on all streams, and how much more the peer takes.
    pub(super) total_sent: u64,
    pub(super) total_received: u64,
    pub(super) total_credit: u32,
    /// Streams that this end and the peer have opened so far.
    pub(super) opened: u32,
    pub(super) peer_opened: u32,
    /// Streams that each end may have open.
    pub(super) own_streams: u8,
    pub(super) peer_streams: u8,
    pub(super) boundaries: bool,
    pub(super) datagram: u16,
    /// The smoothed round trip of its path, in units of 64 microseconds; 0 for not measured.
    pub(super) smoothed: u16,
    pub(super) peer_window: u32,
    pub(super) keep_alive_s: u32,
    /// When the sender's key was last changed, in seconds.
    pub(super) rekeyed_s: u32,
    pub(super) heard: Instant,
    pub(super) reason: Option<CloseReason>,
    pub(super) events: Events,
    pub(super) timer: Timer,
    /// Marks an Initial, so that its repetition is known.
    pub(super) initial_mark: u16,
    pub(super) ids_given: u16,
    /// Which keys the ids that this end gives now stand for: counted up by every restart of either end.
    pub(super) id_epoch: u16,
    /// How often each end has restarted.
    pub(super) own_restarts: u32,
    pub(super) peer_restarts: u32,
    /// When a restarted end last tried to go on, in milliseconds.
    pub(super) tried_ms: u32,
    /// Streams of the peer that it has opened out of turn: bit i is the one behind i others that come after those of `peer_opened`.
    pub(super) opened_ahead: u32,
    /// Out of a ticket: it has no keys until the peer has answered.
    pub(super) resuming: bool,
    /// It is time to try.
    pub(super) try_due: bool,
    /// Lists: flows to transmit (or free ones), flows with events, sleeping ones by age.
    pub(super) ready_next: u32,
    pub(super) event_next: u32,
    pub(super) older: u32,
    pub(super) newer: u32,
    pub(super) is_ready: bool,
    pub(super) has_event: bool,
    pub(super) is_idle: bool,
    /// The application knows of the flow.
    pub(super) is_known: bool,
}

// A million sleeping flows must fit into 512 MB, with the four octets that each has in the heap of timers.
const _: () = assert!(size_of::<Flow>() + size_of::<u32>() <= 512);

impl Default for Flow {
    fn default() -> Self {
        Self::new()
    }
}

impl Flow {
    /// A free place.
    pub const fn new() -> Self {
        Self {
            phase: Phase::Free,
            role: Role::Client,
            generation: 0,
            active: NONE,
            sealer: None,
            opener: None,
            resume: None,
            peer: PeerIds { current: [0; 16], spare: [None; 2], next: 1 },
            address: PathAddress { local: 0, port: 0, ip: [0; 16] },
            streams: Vec::new(),
            total_sent: 0,
            total_received: 0,
            total_credit: 0,
            opened: 0,
            peer_opened: 0,
            own_streams: 0,
            peer_streams: 0,
            boundaries: false,
            datagram: 1200,
            smoothed: 0,
            peer_window: 0,
            keep_alive_s: 0,
            rekeyed_s: 0,
            heard: Instant::ZERO,
            reason: None,
            events: Events::empty(),
            timer: Timer::new(),
            initial_mark: 0,
            ids_given: 0,
            id_epoch: 0,
            own_restarts: 0,
            peer_restarts: 0,
            tried_ms: 0,
            opened_ahead: 0,
            resuming: false,
            try_due: false,
            ready_next: NONE,
            event_next: NONE,
            older: NONE,
            newer: NONE,
            is_ready: false,
            has_event: false,
            is_idle: false,
            is_known: false,
        }
    }

    /// The sequence of an id, `ahead` of those that the peer has been given.
    pub(super) fn sequence(&self, ahead: u16) -> u32 {
        u32::from(self.id_epoch) << 16 | u32::from(self.ids_given.saturating_add(ahead))
    }

    pub(super) const fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_s as u64)
    }

    /// When the flow is given up if nothing is heard.
    pub(super) const fn expires(&self) -> Instant {
        self.heard.after(self.keep_alive())
    }

    /// Streams of both ends together.
    pub(super) fn places(&self) -> usize {
        usize::from(self.own_streams.saturating_add(self.peer_streams)).clamp(1, MAX_STREAMS)
    }
}
