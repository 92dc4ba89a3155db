//! What flow packets do to their flow.

use super::super::active::{Active, PATHS, give_back};
use super::super::congestion::LossSample;
use super::super::flow::{Events, Flow, NONE, Phase};
use super::super::path::{Path, Proof};
use super::super::protect::SleepingOpener;
use super::super::recovery::{Control, Sent};
use super::super::{
    AckRanges, CloseReason, Frame, Frames, ModernError, Opened, PathAddress, flow_connection_id,
};
use super::{Config, Counter, Endpoint};
use crate::node::Instant;
use core::time::Duration;

/// A path that was proven this long ago is challenged again before the flow goes back to it.
const PROOF_LASTS: Duration = Duration::from_secs(10);

/// After data, silence for this long asks whether the network is still there.
const LISTEN: Duration = Duration::from_secs(1);

/// What the frames of a packet come to.
#[derive(Default)]
struct Effects {
    /// It asks for an acknowledgement.
    eliciting: bool,
    /// It says more than where its sender is.
    beyond_probing: bool,
    data: bool,
    events: Events,
    lost: u64,
    late: u64,
    black_holes: u64,
    /// The path that was proven.
    proven: Option<usize>,
    closed: Option<u64>,
    close_acknowledged: bool,
}

/// Room in a stream's buffer for which its writer is woken up; of a small buffer a quarter does.
const WORTH_TELLING_OCTETS: usize = 512 << 10;

impl<'m> Endpoint<'m> {
    pub(super) fn on_flow_packet(
        &mut self,
        now: Instant,
        address: PathAddress,
        datagram: &mut [u8],
        marked: bool,
    ) -> Result<(), ModernError> {
        let id = flow_connection_id(datagram)?;
        let content = self.ids.open(&id).ok_or(ModernError::UnknownFlow)?;
        let (slot, server) = (content.slot, self.config.server);
        let flow = self.flow(slot).ok_or(ModernError::UnknownFlow)?;
        let lives = matches!(
            flow.phase,
            Phase::Unproven | Phase::Open | Phase::Suspended | Phase::Draining
        );
        if !lives || flow.generation != content.generation || content.server != server {
            return Err(ModernError::UnknownFlow);
        }
        if flow.resuming || (content.sequence >> 16) as u16 != flow.id_epoch {
            return self.on_other_epoch(now, content, address, datagram, marked);
        }
        let asleep = flow.active == NONE;
        let was_idle = flow.is_idle;
        let Some(active) = self.wake(slot) else { return Err(ModernError::NoActive) };
        let opener = active.opener.as_mut().ok_or(ModernError::UnknownFlow)?;
        let opened = match opener.open(datagram) {
            Ok(opened) => opened,
            Err(error) => {
                let failed = SleepingOpener::of(opener);
                if asleep {
                    // Nobody wakes a flow who cannot seal.
                    if let Some(flow) = self.flow(slot) {
                        flow.opener = Some(failed);
                    }
                    self.release_active(slot);
                    if was_idle {
                        self.add_idle(slot);
                    }
                }
                if matches!(error, ModernError::Reserved | ModernError::IntegrityLimit) {
                    self.end(slot, CloseReason::Protocol(error));
                }
                return Err(error);
            }
        };
        let octets = datagram.len();
        let payload = datagram.get(opened.payload.clone()).unwrap_or(&[]);
        let sequence = content.sequence & 0xffff;
        self.on_opened(now, (slot, sequence), address, octets, payload, &opened, marked)
    }

    #[expect(clippy::too_many_arguments, reason = "a packet in its parts")]
    pub(super) fn on_opened(
        &mut self,
        now: Instant,
        (slot, sequence): (u32, u32),
        address: PathAddress,
        octets: usize,
        payload: &[u8],
        opened: &Opened,
        marked: bool,
    ) -> Result<(), ModernError> {
        let Some(flow) = self.flow(slot) else { return Err(ModernError::UnknownFlow) };
        flow.heard = now;
        let phase = flow.phase;
        if phase == Phase::Unproven {
            self.on_proven(slot, address);
        }
        let config = self.config.clone();
        let (flow, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        active.busy = now;
        let confirmed = active.opening.take().is_some();
        if sequence > flow.ids_given.into() {
            // The peer has gone over to another id: it gets new ones to keep in store.
            flow.ids_given = u16::try_from(sequence).unwrap_or(u16::MAX);
            active.control |= Control::IDS;
        }
        if opened.rekeyed {
            let wait = active
                .path()
                .map_or(Duration::ZERO, |path| path.rtt.probe_timeout(0).saturating_mul(3));
            active.forget_key = now.after(wait);
        }
        let resumed = phase == Phase::Suspended;
        if resumed {
            flow.phase = Phase::Open;
            let away = now.since(active.suspended_at);
            if let Some(path) = active.path_mut() {
                path.controller.on_outage(away, path.rtt.smoothed);
            }
            active.recovery.probes = 0;
        }
        let place = path_place(active, &config, flow.datagram, address, now, opened.newest);
        if let Some(path) = place.and_then(|place| active.paths.get_mut(place)) {
            path.on_received(octets);
        }
        let mut effects = Effects::default();
        if confirmed {
            effects.events |= Events::CONNECTED;
        }
        let frames = Frames::new(payload).and_then(|frames| {
            frames
                .into_iter()
                .try_for_each(|frame| on_frame(now, flow, active, place, frame?, &mut effects))
        });
        if let Err(error) = frames {
            let unanswered = matches!(error, ModernError::StreamLimit | ModernError::Gaps);
            self.after_frames(slot, &effects, resumed);
            if !unanswered {
                self.end(slot, CloseReason::Protocol(error));
            }
            return Err(error);
        }
        let every = config.packets_per_acknowledgement;
        active.received.note(opened.number, now, effects.eliciting, marked, every);
        if effects.data {
            active.listen_until = now.after(LISTEN);
        }
        if opened.newest && effects.beyond_probing {
            consider_move(now, active, place);
            if resumed {
                active.old_path_is_silent = true;
            } else if active.wanted.is_none() {
                active.old_path_is_silent = false;
            }
        }
        if let Some(place) = effects.proven
            && (active.wanted == Some(place) || active.current == place)
        {
            move_to(flow, active, place, &mut effects.events);
        }
        let closes = effects.closed.is_some();
        if phase == Phase::Draining && !closes && !effects.close_acknowledged {
            // Who still sends has not heard of the end.
            active.control |= Control::CLOSE;
        }
        self.after_frames(slot, &effects, resumed);
        if let Some(reason) = effects.closed {
            self.on_peer_close(now, slot, reason);
        } else if effects.close_acknowledged {
            self.drained(slot);
        }
        self.set_ready(slot);
        Ok(())
    }

    fn after_frames(&mut self, slot: u32, effects: &Effects, resumed: bool) {
        self.count(Counter::Lost, effects.lost);
        self.count(Counter::SpuriouslyLost, effects.late);
        self.count(Counter::BlackHoles, effects.black_holes);
        let mut events = effects.events;
        if resumed {
            self.count(Counter::Resumed, 1);
            events |= Events::RESUMED;
        }
        if events.contains(Events::CONNECTED) {
            self.count(Counter::Opened, 1);
        }
        if events.contains(Events::MOVED) {
            self.count(Counter::Moved, 1);
        }
        if !events.is_empty() {
            self.tell(slot, events);
        }
        self.set_ready(slot);
    }

    /// The first packet of a client's flow has opened: it is at its address.
    fn on_proven(&mut self, slot: u32, address: PathAddress) {
        self.unproven.retain(|&other| other != slot);
        let Some((flow, active)) = self.pair(slot) else { return };
        flow.phase = Phase::Open;
        flow.is_known = true;
        if let Some(path) = active.path_mut()
            && path.address == address
        {
            path.proof = Proof::Proven;
        }
        active.control |= Control::IDS | Control::TOTAL_WINDOW;
        self.count(Counter::Opened, 1);
        self.tell(slot, Events::INCOMING);
    }

    fn on_peer_close(&mut self, now: Instant, slot: u32, reason: u64) {
        let Some((flow, active)) = self.pair(slot) else { return };
        active.peer_closed = true;
        if flow.phase == Phase::Draining {
            self.drained(slot);
            return;
        }
        flow.phase = Phase::Draining;
        flow.reason = Some(CloseReason::Peer(u32::try_from(reason).unwrap_or(u32::MAX)));
        active.control = Control::CLOSE;
        let wait = active
            .path()
            .map_or(Duration::ZERO, |path| path.rtt.probe_timeout(0).saturating_mul(3));
        active.drain_until = now.after(wait);
    }

    /// Both ends know of the end.
    fn drained(&mut self, slot: u32) {
        self.end(slot, CloseReason::Local);
    }
}

/// The place of the path that a packet came over; a new one becomes a candidate.
pub(super) fn path_place(
    active: &mut Active<'_>,
    config: &Config,
    datagram: u16,
    address: PathAddress,
    now: Instant,
    newest: bool,
) -> Option<usize> {
    let known = active.paths.iter().position(|path| path.is_used() && path.address == address);
    if known.is_some() || !newest {
        return known;
    }
    let current = active.current;
    let (place, path) = active
        .paths
        .iter_mut()
        .enumerate()
        .filter(|(place, _)| *place != current)
        .min_by_key(|(_, path)| (path.is_used(), path.used))?;
    // What is on its way over a path that is forgotten cannot be answered there any more.
    let gone = path.in_flight > 0;
    *path = Path::new(address, Proof::Candidate, config.congestion, datagram, now);
    if gone {
        active.give_up_outstanding();
        active.paths.iter_mut().for_each(|path| path.in_flight = 0);
    }
    if active.wanted == Some(place) {
        active.wanted = None;
    }
    Some(place)
}

/// The newest packet came over another path than the flow's: the peer may have moved.
pub(super) fn consider_move(now: Instant, active: &mut Active<'_>, place: Option<usize>) {
    let Some(place) = place.filter(|&place| place != active.current) else {
        active.wanted = None;
        return;
    };
    active.wanted = Some(place);
    let Some(path) = active.paths.get_mut(place) else { return };
    if path.proof == Proof::Proven && now.since(path.used) > PROOF_LASTS {
        path.proof = Proof::Candidate;
    }
    if path.challenge.is_none() {
        path.challenge_due = true;
        path.challenges = 0;
    }
    // The old path is asked too: when only that one answers, the packet was a copy sent from elsewhere.
    if let Some(path) = active.path_mut()
        && path.challenge.is_none()
    {
        path.challenge_due = true;
        path.challenges = 0;
    }
}

/// Goes over to a path that is proven.
fn move_to(flow: &mut Flow, active: &mut Active<'_>, place: usize, events: &mut Events) {
    active.wanted = None;
    active.old_path_is_silent = false;
    if active.current == place {
        return;
    }
    // What was on its way over the old path would be waited for in vain.
    active.give_up_outstanding();
    active.current = place;
    active.recovery.probes = 0;
    if let Some(path) = active.path() {
        flow.address = path.address;
    }
    flow.peer.change();
    active.control |= Control::PING | Control::IDS;
    *events |= Events::MOVED;
}

fn on_frame(
    now: Instant,
    flow: &mut Flow,
    active: &mut Active<'_>,
    place: Option<usize>,
    frame: Frame,
    effects: &mut Effects,
) -> Result<(), ModernError> {
    let probing =
        matches!(frame, Frame::Padding { .. } | Frame::PathChallenge(_) | Frame::PathResponse(_));
    effects.beyond_probing |= !probing;
    effects.eliciting |= !matches!(frame, Frame::Padding { .. } | Frame::Ack { .. });
    match frame {
        Frame::Padding { .. } | Frame::Ping => {}
        Frame::Ack { ranges, delay, congestion_marks } => {
            on_ack(now, active, ranges, delay, congestion_marks, effects)?;
        }
        Frame::Data { stream, offset, octets, last } => {
            let Some(place) = active.accept_stream(flow, stream)? else { return Ok(()) };
            let capacity = active.receive_capacity();
            let ring = active.receive.get_mut(place * capacity..(place + 1) * capacity);
            let stream = active.streams.get_mut(place).and_then(Option::as_mut);
            let (Some(ring), Some(stream)) = (ring, stream) else { return Ok(()) };
            let more = stream.receive.check(offset, octets.len(), last)?;
            if flow.total_received + more > active.total_limit {
                return Err(ModernError::FlowControl);
            }
            let before = (stream.receive.readable(), stream.receive.is_complete());
            if !stream.receive.accept(ring, offset, octets, last) {
                return Err(ModernError::Gaps);
            }
            flow.total_received += more;
            effects.data = true;
            if before != (stream.receive.readable(), stream.receive.is_complete()) {
                effects.events |= Events::READABLE;
            }
        }
        Frame::TotalWindow { octets } => {
            active.total_peer_limit = active.total_peer_limit.max(octets);
        }
        Frame::Window { stream, offset } => {
            if let Some(place) = active.accept_stream(flow, stream)?
                && let Some(Some(stream)) = active.streams.get_mut(place)
            {
                stream.send.raise_limit(offset);
            }
        }
        Frame::PathChallenge(octets) => {
            if let Some(path) = place.and_then(|place| active.paths.get_mut(place)) {
                path.response = Some(octets);
            }
        }
        Frame::PathResponse(octets) => {
            let asked = |path: &Path| path.is_used() && path.challenge == Some(octets);
            if let Some(place) = active.paths.iter().position(asked)
                && let Some(path) = active.paths.get_mut(place)
            {
                path.proof = Proof::Proven;
                path.challenge = None;
                path.challenges = 0;
                path.measure(now, now.since(path.challenged), Duration::ZERO);
                effects.proven = Some(place);
            }
        }
        Frame::NewId { sequence, id, .. } => flow.peer.offer(sequence, id),
        Frame::KeepAlive { seconds } => {
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            // The peer may cut what it granted, not raise it.
            flow.keep_alive_s = flow.keep_alive_s.min(seconds.max(super::LEAST_KEEP_ALIVE_S));
        }
        Frame::Close { reason } => effects.closed = Some(reason),
        Frame::Reset { stream, offset, reason } => {
            let Some(place) = active.accept_stream(flow, stream)? else { return Ok(()) };
            let Some(Some(stream)) = active.streams.get_mut(place) else { return Ok(()) };
            let more = stream.receive.on_reset(offset, reason)?;
            flow.total_received += more;
            effects.events |= Events::READABLE;
        }
    }
    Ok(())
}

fn on_ack(
    now: Instant,
    active: &mut Active<'_>,
    ranges: AckRanges,
    delay: Duration,
    congestion_marks: u64,
    effects: &mut Effects,
) -> Result<(), ModernError> {
    let mut newest: Option<(u64, Sent)> = None;
    let mut acked = [0u64; PATHS];
    let mut prior = [0u64; PATHS];
    prior.iter_mut().zip(&active.paths).for_each(|(prior, path)| *prior = path.in_flight);
    let capacity = active.send_capacity();
    let worth_telling = (capacity / 4).min(WORTH_TELLING_OCTETS);
    let Active { recovery, paths, streams, control, .. } = active;
    let mut largest = None;
    for range in ranges.iter() {
        largest.get_or_insert(range.last);
        let known = recovery.acknowledge(range.first..=range.last, |number, sent, late| {
            if newest.as_ref().is_none_or(|(other, _)| number > *other) {
                newest = Some((number, *sent));
            }
            if let Some(path) = paths.get_mut(usize::from(sent.path)) {
                path.on_acked(sent, late, now);
            }
            if let Some(acked) = acked.get_mut(usize::from(sent.path)) {
                *acked += u64::from(sent.octets);
            }
            effects.late += u64::from(late);
            effects.close_acknowledged |= sent.control.contains(Control::CLOSE);
            if late {
                // It need not be told again.
                *control -= sent.control & (Control::IDS | Control::KEEP_ALIVE);
            }
            for (place, stream) in streams.iter_mut().enumerate() {
                let Some(stream) = stream else { continue };
                if sent.control.contains(Control::reset(place)) {
                    stream.send.on_reset_acked();
                }
                if sent.data && stream.id == sent.stream {
                    let end = sent.offset + u64::from(sent.length);
                    if stream.send.on_acked(sent.offset..end, sent.last)
                        && stream.wants_room
                        && stream.send.room(capacity) >= worth_telling
                    {
                        stream.wants_room = false;
                        effects.events |= Events::WRITABLE;
                    }
                }
            }
        });
        if !known {
            return Err(ModernError::Acknowledgement);
        }
    }
    let Some((number, newest)) = newest else { return Ok(()) };
    recovery.probes = 0;
    let place = usize::from(newest.path);
    if let Some(path) = paths.get_mut(place) {
        if largest == Some(number) {
            path.measure(now, now.since(newest.time), delay);
        }
        let marked = congestion_marks > path.congestion_marks;
        path.congestion_marks = path.congestion_marks.max(congestion_marks);
        let acked = acked.get(place).copied().unwrap_or(0);
        let prior = prior.get(place).copied().unwrap_or(0);
        let sample = path.sample(&newest, now, acked, prior, marked);
        path.controller.on_ack(&sample);
    }
    let (lost, holes) = detect_losses(now, active);
    effects.lost += lost;
    effects.black_holes += holes;
    active.drop_done();
    Ok(())
}

/// Gives up what was sent too long before what is acknowledged; gives how many packets, and how many paths turned out to be too narrow.
pub(super) fn detect_losses(now: Instant, active: &mut Active<'_>) -> (u64, u64) {
    let Active { recovery, paths, streams, control, loss_due, .. } = active;
    *loss_due = None;
    let (mut packets, mut holes) = (0, 0);
    for (place, path) in paths.iter_mut().enumerate() {
        if path.in_flight == 0 {
            continue;
        }
        let round_trip = path.rtt.smoothed.max(path.rtt.latest);
        let (mut octets, mut newest) = (0u64, Instant::ZERO);
        let least = path.rtt.least;
        let due = recovery.detect(now, place as u8, round_trip, least, |sent| {
            give_back(sent, streams, control);
            holes += u64::from(path.on_lost(sent));
            octets += u64::from(sent.octets);
            newest = newest.max(sent.time);
            packets += 1;
        });
        if let Some(due) = due {
            *loss_due = Some(loss_due.map_or(due, |other| other.min(due)));
        }
        if octets > 0 {
            let sample = LossSample { now, lost: octets, sent: newest, in_flight: path.in_flight };
            path.controller.on_loss(&sample);
        }
    }
    (packets, holes)
}
