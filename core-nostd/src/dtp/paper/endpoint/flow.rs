//! What is kept of a flow, and the larger part that it has only while there is something to do.

use super::super::{Challenge, SECRET_OCTETS, Secret};
use crate::dtp::modern::PathAddress;
use crate::dtp::modern::ranges::Ranges;
use crate::dtp::modern::timers::{NEVER, Timer};
use crate::node::Instant;

/// No flow, or no active part.
pub(super) const NONE: u32 = u32::MAX;

/// Where a flow is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No flow has this place.
    Free,
    /// A client waits for the answer to its SYN.
    Opening,
    /// A server waits for the packet that proves the client's address.
    Unproven,
    /// Packets come and go.
    Open,
    /// Both ends have finished; a FIN that comes again is still answered.
    Lingering,
    /// The flow is gone.
    Closed,
}

/// Why a flow is gone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both ends have finished.
    Finished,
    /// This end gave it up.
    Local,
    /// The peer has reset it.
    Reset,
    /// The SYN was not answered in time.
    Timeout,
    /// Nothing was heard for as long as the keep-alive was granted.
    Expired,
}

bitflags::bitflags! {
    /// What the application has not been told yet.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
    pub(super) struct Events: u8 {
        const INCOMING = 1;
        const CONNECTED = 2;
        const READABLE = 4;
        const WRITABLE = 8;
        const SUSPENDED = 16;
        const RESUMED = 32;
        const MOVED = 64;
        const CLOSED = 128;
    }
}

/// One place of the flow table. Sequence numbers have 64 bits here and 32 on the wire.
pub struct Flow {
    pub(super) phase: Phase,
    pub(super) server: bool,
    pub(super) generation: u32,
    pub(super) id: u32,
    pub(super) active: u32,
    pub(super) secret: Secret,
    pub(super) path: PathAddress,
    /// The oldest octet that is not acknowledged, and the next one to send.
    pub(super) unacknowledged: u64,
    pub(super) next: u64,
    pub(super) receive_next: u64,
    pub(super) peer_window: u32,
    pub(super) peer_shift: u8,
    pub(super) sack: bool,
    pub(super) wants_room: bool,
    pub(super) fin_queued: bool,
    pub(super) fin_tries: u8,
    pub(super) peer_fin: bool,
    pub(super) peer_fin_at: Option<u64>,
    pub(super) proof_outstanding: bool,
    pub(super) candidate: Option<(PathAddress, Challenge)>,
    pub(super) keep_alive_s: u32,
    pub(super) heard: Instant,
    pub(super) opened: Instant,
    pub(super) smoothed_us: u32,
    pub(super) variation_us: u32,
    pub(super) timeouts: u32,
    pub(super) retry_at: Instant,
    pub(super) acknowledge_at: Instant,
    pub(super) probe_at: Instant,
    pub(super) segments: u32,
    pub(super) unacknowledged_segments: u8,
    /// Marks a SYN, so that its repetition is known.
    pub(super) mark: [u8; 8],
    pub(super) reason: CloseReason,
    pub(super) events: Events,
    pub(super) event_next: u32,
    pub(super) has_event: bool,
    pub(super) timer: Timer,
}

// A million sleeping flows must fit into 512 MB, with their entries in the heap of timers and in the index.
const _: () = assert!(size_of::<Flow>() + 3 * size_of::<u32>() <= 512);

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
            server: false,
            generation: 0,
            id: 0,
            active: NONE,
            secret: Secret::new([0; SECRET_OCTETS]),
            path: PathAddress { local: 0, port: 0, ip: [0; 16] },
            unacknowledged: 0,
            next: 0,
            receive_next: 0,
            peer_window: 0,
            peer_shift: 0,
            sack: false,
            wants_room: false,
            fin_queued: false,
            fin_tries: 0,
            peer_fin: false,
            peer_fin_at: None,
            proof_outstanding: false,
            candidate: None,
            keep_alive_s: 0,
            heard: Instant::ZERO,
            opened: Instant::ZERO,
            smoothed_us: 0,
            variation_us: 0,
            timeouts: 0,
            retry_at: NEVER,
            acknowledge_at: NEVER,
            probe_at: NEVER,
            segments: 0,
            unacknowledged_segments: 0,
            mark: [0; 8],
            reason: CloseReason::Local,
            events: Events::empty(),
            event_next: NONE,
            has_event: false,
            timer: Timer::new(),
        }
    }
}

/// The larger part of a flow's state, from a pool of the caller's.
pub struct Active<'m> {
    pub(super) next_free: u32,
    pub(super) send: &'m mut [u8],
    pub(super) send_start: usize,
    pub(super) send_octets: usize,
    pub(super) receive: &'m mut [u8],
    pub(super) read_at: usize,
    pub(super) unread: usize,
    /// Octets that came behind a gap, and those that the peer has so.
    pub(super) beyond: Ranges<16>,
    pub(super) peer_beyond: Ranges<16>,
    pub(super) window: u32,
    pub(super) threshold: u32,
    pub(super) duplicates: u32,
    /// Until this is acknowledged, further losses are of the same event.
    pub(super) recover: u64,
    pub(super) recovering: bool,
    /// Where to send again from, and up to where what is not acknowledged counts as lost.
    pub(super) resend: u64,
    pub(super) lost_below: u64,
    pub(super) timed: Option<(u64, Instant)>,
}

impl<'m> Active<'m> {
    /// An active part with those buffers: what was written and not acknowledged, and what came and was not read.
    pub fn new(send: &'m mut [u8], receive: &'m mut [u8]) -> Self {
        Self {
            next_free: NONE,
            send,
            send_start: 0,
            send_octets: 0,
            receive,
            read_at: 0,
            unread: 0,
            beyond: Ranges::new(),
            peer_beyond: Ranges::new(),
            window: 0,
            threshold: u32::MAX,
            duplicates: 0,
            recover: 0,
            recovering: false,
            resend: 0,
            lost_below: 0,
            timed: None,
        }
    }

    pub(super) fn clear(&mut self, segment: u32) {
        (self.send_start, self.send_octets, self.read_at, self.unread) = (0, 0, 0, 0);
        self.beyond.clear();
        self.peer_beyond.clear();
        (self.window, self.threshold, self.duplicates) = (segment, u32::MAX, 0);
        (self.recover, self.recovering, self.resend, self.lost_below) = (0, false, 0, 0);
        self.timed = None;
    }

    pub(super) fn room(&self) -> usize {
        self.receive.len() - self.unread.min(self.receive.len())
    }

    /// Puts `octets` into the ring, `ahead` behind what is waited for.
    pub(super) fn put(&mut self, ahead: usize, octets: &[u8]) {
        let size = self.receive.len().max(1);
        let at = (self.read_at + self.unread + ahead) % size;
        let (first, second) = octets.split_at(octets.len().min(size - at));
        for (at, part) in [(at, first), (0, second)] {
            if let Some(place) = self.receive.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
    }

    /// Copies octets to send, `from` behind the oldest.
    pub(super) fn copy_to_send(&self, from: usize, out: &mut [u8]) {
        let size = self.send.len().max(1);
        let at = (self.send_start + from) % size;
        let octets = out.len();
        let (first, second) = out.split_at_mut(octets.min(size - at));
        for (at, part) in [(at, first), (0, second)] {
            if let Some(place) = self.send.get(at..at + part.len()) {
                part.copy_from_slice(place);
            }
        }
    }
}
