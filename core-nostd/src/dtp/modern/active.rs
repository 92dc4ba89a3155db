//! The part of a flow that it has only while there is something to do: keys ready for use, streams with their rings, paths, what is on its way.

use super::flow::{Flow, MAX_STREAMS, NONE, SleepingStream};
use super::path::{Path, PathAddress, Proof};
use super::protect::{Opener, Sealer, SleepingOpener, SleepingSealer};
use super::ranges::Ranges;
use super::recovery::{Control, Recovery, Sent};
use super::restart::Pending;
use super::rtt::{ACK_PAUSE, MAX_ACK_DELAY, Rtt};
use super::stream::{ReceiveHalf, SendHalf};
use super::timers::NEVER;
use super::{
    Congestion, ConnectionId, Identity, KEY_OCTETS, ModernError, Pattern, Role, TOKEN_OCTETS,
};
use crate::node::Instant;
use core::time::Duration;
use heapless::Vec;

/// Paths of which the state is kept.
pub(super) const PATHS: usize = 4;

/// Ranges of packet numbers that an acknowledgement tells at most.
const ACK_RANGES: usize = 32;

/// The first packets, by which the sender finds out what the path carries, are acknowledged by twos.
const EARLY: u8 = 128;
const EARLY_EVERY: u8 = 2;

/// A flow with nothing to do keeps its active part for this long.
pub(super) const SLEEP_AFTER: Duration = Duration::from_secs(1);

/// A handshake that this end has begun.
pub(super) struct Opening {
    pub pattern: Pattern,
    pub identity: Identity,
    pub ephemeral: [u8; KEY_OCTETS],
    pub destination: ConnectionId,
    pub token: Vec<u8, TOKEN_OCTETS>,
    pub started: Instant,
    pub next_try: Instant,
    pub tries: u32,
    pub keep_alive_s: u32,
    pub server_key: Option<[u8; KEY_OCTETS]>,
}

pub(super) struct Stream {
    pub id: u32,
    pub send: SendHalf,
    pub receive: ReceiveHalf,
    /// The application got less room than it wanted.
    pub wants_room: bool,
}

/// Which packets have come, and when that is to be told.
#[derive(Default)]
pub(super) struct Received {
    pub ranges: Ranges<ACK_RANGES>,
    pub largest: u64,
    pub largest_at: Instant,
    pub unacknowledged: u8,
    /// Packets that asked for an acknowledgement, as far as they are counted: the first ones get theirs soon.
    pub early: u8,
    pub due: Option<Instant>,
    pub congestion_marks: u64,
}

impl Received {
    /// Notes a packet; `eliciting` says that it asks for an acknowledgement.
    pub fn note(&mut self, number: u64, now: Instant, eliciting: bool, marked: bool, every: u8) {
        let first = self.ranges.is_empty();
        let in_order = first || number == self.largest + 1;
        if first || number > self.largest {
            (self.largest, self.largest_at) = (number, now);
        }
        self.ranges.insert_forgetting(number..number + 1);
        self.congestion_marks += u64::from(marked);
        if eliciting {
            self.unacknowledged = self.unacknowledged.saturating_add(1);
            let every = if self.early < EARLY { every.min(EARLY_EVERY) } else { every };
            self.early = self.early.saturating_add(1);
            let at_once = !in_order || marked || self.unacknowledged >= every;
            let due = match self.unacknowledged {
                _ if at_once => now,
                ..2 => now.after(MAX_ACK_DELAY),
                2.. => now.after(ACK_PAUSE),
            };
            self.due = Some(self.due.map_or(due, |other| other.min(due)));
        }
    }
}

/// The larger part of a flow's state, from a pool of the caller's.
pub struct Active<'m> {
    pub(super) owner: u32,
    pub(super) next_free: u32,
    pub(super) sealer: Option<Sealer>,
    pub(super) opener: Option<Opener>,
    pub(super) opening: Option<Opening>,
    pub(super) received: Received,
    pub(super) recovery: Recovery<'m>,
    pub(super) paths: [Path; PATHS],
    pub(super) current: usize,
    pub(super) streams: [Option<Stream>; MAX_STREAMS],
    /// Streams of the peer's that have been opened, by their order.
    pub(super) peer_opened: Ranges<8>,
    pub(super) send: &'m mut [u8],
    pub(super) receive: &'m mut [u8],
    pub(super) places: usize,
    /// What is to be sent besides data.
    pub(super) control: Control,
    /// A probe is due.
    pub(super) probe: bool,
    pub(super) loss_due: Option<Instant>,
    pub(super) next_probe: Instant,
    pub(super) suspended_at: Instant,
    pub(super) total_limit: u64,
    pub(super) total_peer_limit: u64,
    /// The first packet of the sender's present key.
    pub(super) phase_first: u64,
    pub(super) forget_key: Instant,
    pub(super) drain_until: Instant,
    pub(super) close_reason: Option<u32>,
    /// A peer that has restarted could not read CLOSE before it has gone over: until then it waits.
    pub(super) close_waits_until: Instant,
    pub(super) peer_closed: bool,
    /// When something was last done.
    pub(super) busy: Instant,
    /// Data came and none has since: the network may have gone with what was to come.
    pub(super) listen_until: Instant,
    /// The path that the peer has moved to, until it has proven to be there.
    pub(super) wanted: Option<usize>,
    /// After silence the peer was heard from `wanted`: at the old address there is nobody to send data to.
    pub(super) old_path_is_silent: bool,
    /// The peer has restarted, and has been answered.
    pub(super) pending: Option<Pending>,
}

impl<'m> Active<'m> {
    /// An active part that nobody has, with a ring for what is sent, one for what is received, and room for packets on their way.
    pub fn new(send: &'m mut [u8], receive: &'m mut [u8], sent: &'m mut [Sent]) -> Self {
        let path = || {
            Path::new(PathAddress::default(), Proof::None, Congestion::Cubic, 1200, Instant::ZERO)
        };
        Self {
            owner: NONE,
            next_free: NONE,
            sealer: None,
            opener: None,
            opening: None,
            received: Received::default(),
            recovery: Recovery::new(sent),
            paths: [path(), path(), path(), path()],
            current: 0,
            streams: [const { None }; MAX_STREAMS],
            peer_opened: Ranges::new(),
            send,
            receive,
            places: 1,
            control: Control::empty(),
            probe: false,
            loss_due: None,
            next_probe: NEVER,
            suspended_at: Instant::ZERO,
            total_limit: 0,
            total_peer_limit: 0,
            phase_first: 0,
            forget_key: NEVER,
            drain_until: NEVER,
            close_reason: None,
            close_waits_until: Instant::ZERO,
            peer_closed: false,
            busy: Instant::ZERO,
            listen_until: NEVER,
            wanted: None,
            old_path_is_silent: false,
            pending: None,
        }
    }

    /// Forgets what another flow has left.
    pub(super) fn clear(&mut self, owner: u32, now: Instant) {
        self.owner = owner;
        self.sealer = None;
        self.opener = None;
        self.opening = None;
        self.received = Received::default();
        self.recovery.restart(0);
        self.paths.iter_mut().for_each(|path| path.proof = Proof::None);
        self.current = 0;
        self.streams = [const { None }; MAX_STREAMS];
        self.peer_opened.clear();
        self.control = Control::empty();
        self.probe = false;
        self.loss_due = None;
        self.next_probe = NEVER;
        self.suspended_at = now;
        self.forget_key = NEVER;
        self.drain_until = NEVER;
        self.close_reason = None;
        self.close_waits_until = Instant::ZERO;
        self.peer_closed = false;
        self.busy = now;
        self.listen_until = NEVER;
        self.wanted = None;
        self.old_path_is_silent = false;
        self.pending = None;
    }

    /// Brings a sleeping flow's state in.
    pub(super) fn wake(&mut self, flow: &Flow, congestion: Congestion, now: Instant) {
        self.sealer = flow.sealer.as_ref().map(SleepingSealer::wake);
        self.opener = flow.opener.as_ref().map(SleepingOpener::wake);
        let next = self.sealer.as_ref().map_or(0, Sealer::next_number);
        self.recovery.restart(next);
        self.phase_first = next;
        self.places = flow.places();
        let proof = if flow.phase == super::Phase::Unproven && flow.role == Role::Server {
            Proof::Candidate
        } else {
            Proof::Proven
        };
        let mut path = Path::new(flow.address, proof, congestion, flow.datagram, now);
        if flow.smoothed > 0 {
            path.rtt = Rtt::known(Duration::from_micros(u64::from(flow.smoothed) << 6));
        }
        if let Some(place) = self.paths.first_mut() {
            *place = path;
        }
        let capacity = self.receive_capacity();
        for (place, sleeping) in self.streams.iter_mut().zip(&flow.streams) {
            let limit = sleeping.sent + u64::from(sleeping.credit);
            *place = Some(Stream {
                id: sleeping.id(),
                send: SendHalf::at(sleeping.sent, limit, sleeping.send_ended()),
                receive: ReceiveHalf::at(sleeping.received, capacity, sleeping.receive_ended()),
                wants_room: false,
            });
        }
        self.peer_opened.insert(0..flow.peer_opened.into());
        let ahead = u64::from(flow.peer_opened) + 1;
        (0..32).filter(|bit| flow.opened_ahead >> bit & 1 != 0).for_each(|bit| {
            self.peer_opened.insert(ahead + bit..ahead + bit + 1);
        });
        self.total_peer_limit = flow.total_sent + u64::from(flow.total_credit);
        self.total_limit = flow.total_received + (capacity * self.places) as u64;
    }

    /// Streams that the peer has opened: how many without a gap, and which of the 32 behind the gap.
    pub(super) fn opened_by_peer(&self) -> (u32, u32) {
        let first = self.peer_opened.first().filter(|range| range.start == 0);
        let count = first.map_or(0, |range| range.end);
        let is_open = |order| self.peer_opened.descending().any(|range| range.contains(&order));
        let bits = (0..32).filter(|bit| is_open(count + 1 + bit));
        (count as u32, bits.fold(0, |ahead, bit| ahead | 1 << bit))
    }

    /// Whether the application has read all that has come.
    pub(super) fn is_all_read(&self) -> bool {
        self.streams.iter().flatten().all(|stream| stream.receive.readable() == 0)
    }

    /// Whether nothing but what a sleeping flow keeps would be lost.
    pub(super) fn is_quiet(&self) -> bool {
        let streams_are_quiet = self.streams.iter().flatten().all(|stream| {
            stream.send.is_quiet()
                && stream.send.reset_to_tell().is_none()
                && stream.receive.is_quiet()
        });
        streams_are_quiet
            && self.opening.is_none()
            && self.pending.is_none()
            && !self.recovery.has_outstanding()
            && self.control.is_empty()
            && !self.probe
            && self.received.due.is_none()
            && self.forget_key == NEVER
            && self.peer_opened.descending().all(|range| range.start == 0)
            && self.paths.iter().all(|path| path.challenge.is_none() && path.response.is_none())
    }

    /// Puts into the flow what it keeps while it sleeps.
    pub(super) fn sleep(&mut self, flow: &mut Flow) {
        flow.sealer = self.sealer.as_ref().map(SleepingSealer::of);
        flow.opener = self.opener.as_ref().map(SleepingOpener::of);
        let credit =
            |limit: u64, sent: u64| u32::try_from(limit.saturating_sub(sent)).unwrap_or(u32::MAX);
        flow.streams.clear();
        for stream in self.streams.iter().flatten() {
            let sleeping = SleepingStream::new(
                stream.id,
                stream.send.sent(),
                stream.receive.read_offset(),
                credit(stream.send.limit(), stream.send.sent()),
                !stream.send.is_open(),
                stream.receive.end_told,
            );
            // As many places as there are streams.
            let _ = flow.streams.push(sleeping);
        }
        flow.total_credit = credit(self.total_peer_limit, flow.total_sent);
        (flow.peer_opened, flow.opened_ahead) = self.opened_by_peer();
        if let Some(path) = self.paths.get(self.current) {
            flow.address = path.address;
            flow.datagram = path.datagram;
            let units = path.rtt.smoothed.as_micros() >> 6;
            flow.smoothed = u16::try_from(units).unwrap_or(u16::MAX).max(1);
        }
    }

    pub(super) fn receive_capacity(&self) -> usize {
        self.receive.len() / self.places.max(1)
    }

    pub(super) fn send_capacity(&self) -> usize {
        self.send.len() / self.places.max(1)
    }

    /// Octets that the peer may send on all streams together, by what has been read.
    pub(super) fn total_window(&self, flow: &Flow) -> u64 {
        let unread: usize =
            self.streams.iter().flatten().map(|stream| stream.receive.unread()).sum();
        let capacity = (self.receive_capacity() * self.places) as u64;
        (flow.total_received + capacity).saturating_sub(unread as u64)
    }

    /// Whether so much has been read on all streams that the peer should hear of it.
    pub(super) fn total_window_is_due(&self, flow: &Flow) -> bool {
        let free = self.total_window(flow).saturating_sub(self.total_limit);
        free as usize >= self.receive_capacity() * self.places / 4
    }

    /// Windows of which the peer does not know all. They must be told before the flow sleeps, for it remembers nothing of them: of one that
    /// sleeps between a few octets and the next few, the peer would hear of no more room, and stand still in the end.
    pub(super) fn untold_windows(&self, flow: &Flow) -> Control {
        let capacity = self.receive_capacity();
        let mut untold = Control::empty();
        if self.total_window(flow) > self.total_limit {
            untold |= Control::TOTAL_WINDOW;
        }
        for (place, stream) in self.streams.iter().enumerate() {
            if stream.as_ref().is_some_and(|stream| stream.receive.untold(capacity) > 0) {
                untold |= Control::window(place);
            }
        }
        untold
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.paths.get(self.current)
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut Path> {
        self.paths.get_mut(self.current)
    }

    /// The place of a stream that is open.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        let is = |stream: &Option<Stream>| stream.as_ref().is_some_and(|stream| stream.id == id);
        self.streams.iter().position(is)
    }

    /// The place of a stream that a frame of the peer's names, which may open it; nothing for one that is closed.
    pub(super) fn accept_stream(
        &mut self,
        flow: &Flow,
        id: u32,
    ) -> Result<Option<usize>, ModernError> {
        if let Some(place) = self.find(id) {
            return Ok(Some(place));
        }
        let own = flow.role as u32 == id & 1;
        let order = u64::from(id >> 1);
        if own {
            // One of this end's: either done with or never opened.
            return if order < flow.opened.into() { Ok(None) } else { Err(ModernError::Stream) };
        }
        if self.peer_opened.descending().any(|range| range.contains(&order)) {
            return Ok(None);
        }
        let of_peer = |stream: &&Stream| stream.id & 1 == id & 1;
        let open = self.streams.iter().flatten().filter(of_peer).count();
        let free = self.streams.iter().take(self.places).position(Option::is_none);
        let Some(place) = free.filter(|_| open < usize::from(flow.own_streams)) else {
            return Err(ModernError::StreamLimit);
        };
        if !self.peer_opened.insert(order..order + 1) {
            return Err(ModernError::StreamLimit);
        }
        self.open_at(place, id, flow);
        Ok(Some(place))
    }

    pub(super) fn open_at(&mut self, place: usize, id: u32, flow: &Flow) {
        let receive = ReceiveHalf::new(self.receive_capacity().min(self.first_window()));
        let send = SendHalf::new(flow.peer_window.into());
        self.control |= Control::window(place);
        if let Some(slot) = self.streams.get_mut(place) {
            *slot = Some(Stream { id, send, receive, wants_room: false });
        }
    }

    /// The window that a handshake promises for every stream, before the number of streams is known.
    pub(super) fn first_window(&self) -> usize {
        self.receive.len() / MAX_STREAMS
    }

    /// Lets go of streams that are done with on both sides.
    pub(super) fn drop_done(&mut self) {
        for place in &mut self.streams {
            let done = |stream: &Stream| stream.send.is_done() && stream.receive.end_told;
            if place.as_ref().is_some_and(done) {
                *place = None;
            }
        }
    }

    /// Whether data waits for the proof that the peer is where it was heard last.
    pub(super) const fn waits_for_move(&self) -> bool {
        self.old_path_is_silent && self.wanted.is_some()
    }

    /// Whether everything that the application gave is acknowledged.
    pub(super) fn all_acknowledged(&self) -> bool {
        self.streams.iter().flatten().all(|stream| stream.send.is_quiet())
    }

    /// Everything that is outstanding counts as lost, without a word on congestion: the network is away.
    pub(super) fn give_up_outstanding(&mut self) {
        let Self { recovery, paths, streams, control, .. } = self;
        recovery.give_up(|sent| {
            give_back(sent, streams, control);
            if let Some(path) = paths.get_mut(usize::from(sent.path)) {
                path.on_given_up(sent);
            }
        });
    }
}

/// Puts what a lost packet carried back to what is to be sent.
pub(super) fn give_back(
    sent: &Sent,
    streams: &mut [Option<Stream>; MAX_STREAMS],
    control: &mut Control,
) {
    *control |= sent.control & !Control::PING;
    if sent.data
        && let Some(stream) = streams.iter_mut().flatten().find(|stream| stream.id == sent.stream)
    {
        let end = sent.offset + u64::from(sent.length);
        stream.send.on_lost(sent.offset..end, sent.last);
    }
}
