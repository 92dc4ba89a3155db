//! Making packets.

use super::super::active::{Active, PATHS};
use super::super::flow::{Flow, Phase};
use super::super::path::Proof;
use super::super::recovery::{Control, Sent};
use super::super::stream::Segment;
use super::super::{
    AckRange, FLOW_HEADER_OCTETS, Frame, FrameWriter, LEAST_INITIAL_OCTETS, PathAddress,
    TAG_OCTETS, data_overhead,
};
use super::{Counter, Endpoint, Transmit, seconds};
use crate::node::Instant;
use core::time::Duration;

/// Octets of a packet besides its payload.
const OVERHEAD: usize = FLOW_HEADER_OCTETS + TAG_OCTETS;

/// Keys are changed after this time at the latest.
const REKEY_AFTER_S: u32 = 3600;

/// Less room than this is not worth a piece of data.
const LEAST_PIECE: usize = 64;

impl<'m> Endpoint<'m> {
    /// Writes the next datagram to the beginning of `out`, which should have room for [`super::Config::datagram_octets`]; nothing when there is none now.
    pub fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        let now = self.advance(now);
        let sent = self.next_datagram(now, out)?;
        self.count(Counter::Sent, 1);
        self.count(Counter::SentOctets, sent.octets as u64);
        Some(sent)
    }

    fn next_datagram(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        if let Some(reply) = self.replies.pop_front() {
            let datagram = reply.datagram.get(..reply.octets)?;
            out.get_mut(..reply.octets)?.copy_from_slice(datagram);
            return Some(Transmit { path: reply.path, octets: reply.octets });
        }
        self.run_timers(now);
        while let Some(slot) = self.next_ready() {
            match self.build(slot, now, out) {
                Some((path, octets)) => {
                    // There may be more; the others come first.
                    self.set_ready(slot);
                    return Some(Transmit { path, octets });
                }
                None => self.reschedule(slot),
            }
        }
        None
    }

    fn build(&mut self, slot: u32, now: Instant, out: &mut [u8]) -> Option<(PathAddress, usize)> {
        let flow = self.flow(slot)?;
        let resuming = flow.resuming;
        match flow.phase {
            Phase::Opening => self.build_initial(slot, now, out),
            Phase::Suspended if resuming => self.build_restart(slot, now, out),
            Phase::Open | Phase::Suspended | Phase::Draining => {
                self.rekey_if_due(slot, now);
                self.build_flow_packet(slot, now, out)
            }
            Phase::Free | Phase::Asking | Phase::Unproven | Phase::Closed => None,
        }
    }

    fn rekey_if_due(&mut self, slot: u32, now: Instant) {
        let Some((flow, active)) = self.pair(slot) else { return };
        let acknowledged =
            active.recovery.largest_acked().is_some_and(|largest| largest >= active.phase_first);
        let Some(sealer) = active.sealer.as_mut() else { return };
        if acknowledged
            && (sealer.rekey_is_due()
                || seconds(now).saturating_sub(flow.rekeyed_s) >= REKEY_AFTER_S)
        {
            sealer.rekey();
            active.phase_first = sealer.next_number();
            flow.rekeyed_s = seconds(now);
            self.count(Counter::Rekeyed, 1);
        }
    }

    fn build_flow_packet(
        &mut self,
        slot: u32,
        now: Instant,
        out: &mut [u8],
    ) -> Option<(PathAddress, usize)> {
        let flow = self.flows.get_mut(slot as usize)?;
        let active = self.actives.get_mut(flow.active as usize)?;
        let mut limited = false;
        let suspended = flow.phase == Phase::Suspended;
        for place in 0..PATHS {
            let Some(path) = active.paths.get(place) else { continue };
            let asks = path.challenge_due && flow.phase != Phase::Draining;
            if !path.is_used() || !asks && path.response.is_none() {
                continue;
            }
            let random = self.random.array();
            let sent = build_on_path(flow, active, place, random, now, out);
            if sent.is_some() {
                return sent;
            }
            limited = true;
        }
        // While the network is away only probes go out.
        let sent = if suspended && !active.probe {
            None
        } else {
            build_on_current(flow, active, now, out, &mut self.ids, self.config.server, slot)
        };
        if limited && sent.is_none() {
            self.count(Counter::AmplificationLimited, 1);
        }
        sent
    }
}

/// Finishes a packet of `payload` octets over a path: seals it, takes it into the books.
#[expect(clippy::too_many_arguments, reason = "a packet in its parts")]
fn finish(
    flow: &Flow,
    active: &mut Active<'_>,
    place: usize,
    out: &mut [u8],
    payload: usize,
    eliciting: bool,
    app_limited: bool,
    mut sent: Sent,
) -> Option<(PathAddress, usize)> {
    let sealer = active.sealer.as_mut()?;
    let (number, octets) = sealer.seal(&flow.peer.current, out, payload).ok()?;
    let path = active.paths.get_mut(place)?;
    sent.octets = octets as u16;
    path.on_sent(&mut sent, eliciting, app_limited);
    let address = path.address;
    if let Some(given_up) = active.recovery.record(number, sent, eliciting) {
        super::super::active::give_back(&given_up, &mut active.streams, &mut active.control);
        if let Some(path) = active.paths.get_mut(usize::from(given_up.path)) {
            path.on_given_up(&given_up);
        }
    }
    Some((address, octets))
}

fn write_ack(active: &Active<'_>, now: Instant, writer: &mut FrameWriter) -> bool {
    let received = &active.received;
    let ranges = received
        .ranges
        .descending()
        .map(|range| AckRange { first: range.start, last: range.end.saturating_sub(1) });
    let delay = now.since(received.largest_at);
    writer.ack(ranges, delay, received.congestion_marks).is_ok()
}

/// A packet that says or asks where the ends are.
fn build_on_path(
    flow: &Flow,
    active: &mut Active<'_>,
    place: usize,
    random: [u8; 8],
    now: Instant,
    out: &mut [u8],
) -> Option<(PathAddress, usize)> {
    let path = active.paths.get(place)?;
    let allowed = usize::try_from(path.allowance()).unwrap_or(usize::MAX);
    let room = usize::from(path.datagram).min(out.len()).min(allowed);
    let buffer = out.get_mut(FLOW_HEADER_OCTETS..room.checked_sub(TAG_OCTETS)?)?;
    let mut writer = FrameWriter::new(buffer);
    let mut sent = Sent::new(now, place);
    let (challenge_due, response) = (path.challenge_due, path.response);
    if let Some(octets) = response {
        writer.frame(&Frame::PathResponse(octets)).ok()?;
    }
    let challenge = path.challenge.unwrap_or(random);
    if challenge_due && writer.frame(&Frame::PathChallenge(challenge)).is_err() {
        return None;
    }
    // The path must carry what will go over it; an answer is as long as what it answers.
    let padding = writer.room();
    writer.frame(&Frame::Padding { octets: padding }).ok()?;
    let payload = writer.octets();
    let path = active.paths.get_mut(place)?;
    path.response = None;
    if challenge_due {
        path.challenge = Some(challenge);
        path.challenge_due = false;
        path.challenged = now;
    }
    sent.control = Control::PING;
    // It is not waited for: the challenge has a time of its own.
    finish(flow, active, place, out, payload, false, false, sent)
}

/// The next packet of the flow over its path: an acknowledgement, control, data, or a probe.
fn build_on_current(
    flow: &mut Flow,
    active: &mut Active<'_>,
    now: Instant,
    out: &mut [u8],
    ids: &mut super::super::IdCipher,
    server: u16,
    slot: u32,
) -> Option<(PathAddress, usize)> {
    let place = active.current;
    let path = active.paths.get(place)?;
    let draining = flow.phase == Phase::Draining;
    let probe = active.probe;
    let ack_is_due = active.received.due.is_some_and(|due| due <= now);
    let is_open = !active.waits_for_move() && path.window_is_open() && path.paced_until() <= now;
    let may_send = active.recovery.has_room() && (probe || is_open);
    let allowed = usize::try_from(path.allowance()).unwrap_or(usize::MAX);
    let mut room = usize::from(path.datagram).min(out.len()).min(allowed);
    if probe && path.proof == Proof::Proven {
        // A probe must come through whatever the path takes.
        room = room.min(LEAST_INITIAL_OCTETS);
    }
    let restarting = active.pending.is_some() && now < active.close_waits_until;
    let close_now =
        active.close_reason.is_some() && !draining && !restarting && active.all_acknowledged();
    if close_now {
        active.control |= Control::CLOSE;
    }
    for (index, stream) in active.streams.iter().enumerate() {
        if stream.as_ref().is_some_and(|stream| stream.send.reset_to_tell().is_some())
            && !active.recovery.has_outstanding()
        {
            active.control |= Control::reset(index);
        }
    }
    let segment = if draining || !may_send {
        None
    } else {
        next_segment(flow, active, room.checked_sub(OVERHEAD)?, probe)
    };
    let control = if may_send { active.control } else { Control::empty() };
    if segment.is_none() && control.is_empty() && !ack_is_due && !(probe && may_send) {
        return None;
    }
    let end = room.checked_sub(TAG_OCTETS)?;
    let buffer = out.get_mut(FLOW_HEADER_OCTETS..end)?;
    let mut writer = FrameWriter::new(buffer);
    let mut sent = Sent::new(now, place);
    if active.received.unacknowledged > 0 || ack_is_due {
        write_ack(active, now, &mut writer);
        active.received.due = None;
        active.received.unacknowledged = 0;
    }
    if !control.is_empty() {
        write_control(flow, active, control, &mut writer, &mut sent, ids, server, slot);
    }
    if draining && sent.control.contains(Control::CLOSE) {
        active.control = Control::empty();
        if active.peer_closed {
            // The answer is on its way; should it be lost, the peer's own time-out ends the flow there.
            active.drain_until = now;
        }
    }
    let mut app_limited = true;
    if let Some((index, _)) = segment {
        app_limited = write_data(flow, active, index, probe, &mut writer, &mut sent);
    }
    let mut eliciting = sent.data || !sent.control.is_empty();
    if !eliciting && may_send && (probe || segment.is_some() || control.contains(Control::PING)) {
        writer.frame(&Frame::Ping).ok()?;
        sent.control |= Control::PING;
        active.control -= Control::PING;
        eliciting = true;
    }
    if writer.octets() == 0 {
        return None;
    }
    if probe && eliciting {
        active.probe = false;
    }
    if eliciting {
        active.busy = now;
    }
    if sent.control.contains(Control::CLOSE) && !draining {
        flow.phase = Phase::Draining;
        flow.reason.get_or_insert(super::super::CloseReason::Local);
        let wait = active
            .path()
            .map_or(Duration::ZERO, |path| path.rtt.probe_timeout(0).saturating_mul(4));
        active.drain_until = now.after(wait);
    }
    let payload = writer.octets();
    finish(flow, active, place, out, payload, eliciting, app_limited, sent)
}

/// The stream that has something to send, and what.
fn next_segment(
    flow: &Flow,
    active: &Active<'_>,
    room: usize,
    probe: bool,
) -> Option<(usize, Segment)> {
    let most = u16::try_from(room).unwrap_or(u16::MAX);
    let credit = active.total_peer_limit.saturating_sub(flow.total_sent);
    let places = active.streams.iter().enumerate();
    let streams = places.filter_map(|(index, stream)| Some((index, stream.as_ref()?)));
    let next = streams
        .clone()
        .find_map(|(index, stream)| stream.send.next(most, credit).map(|segment| (index, segment)));
    if next.is_some() || !probe {
        return next;
    }
    let mut streams = streams;
    streams.find_map(|(index, stream)| stream.send.oldest(most).map(|segment| (index, segment)))
}

/// Puts data of a stream into the packet; gives whether the application has no more.
fn write_data(
    flow: &mut Flow,
    active: &mut Active<'_>,
    index: usize,
    probe: bool,
    writer: &mut FrameWriter,
    sent: &mut Sent,
) -> bool {
    let capacity = active.send_capacity();
    let credit = active.total_peer_limit.saturating_sub(flow.total_sent);
    let Some(ring) = active.send.get(index * capacity..(index + 1) * capacity) else { return true };
    let Some(Some(stream)) = active.streams.get_mut(index) else { return true };
    let most_offset = stream.send.written();
    let overhead = data_overhead(stream.id, most_offset, writer.room());
    let Some(room) = writer.room().checked_sub(overhead).filter(|room| *room >= LEAST_PIECE) else {
        return false;
    };
    let most = u16::try_from(room).unwrap_or(u16::MAX);
    let next = stream.send.next(most, credit);
    let segment = next.or_else(|| if probe { stream.send.oldest(most) } else { None });
    let Some(segment) = segment else { return true };
    let before = stream.send.sent();
    let Segment { offset, length, last, .. } = segment;
    let written = writer.data_with(stream.id, offset, length.into(), last, |place| {
        stream.send.take(ring, segment, place);
    });
    if written.is_err() {
        return false;
    }
    flow.total_sent += stream.send.sent() - before;
    sent.stream = stream.id;
    sent.offset = offset;
    sent.length = length;
    sent.last = last;
    sent.data = true;
    let credit = active.total_peer_limit.saturating_sub(flow.total_sent);
    active.streams.iter().flatten().all(|stream| stream.send.next(u16::MAX, credit).is_none())
}

/// Writes what is to be said besides data, as far as there is room, and marks it as said.
#[expect(clippy::too_many_arguments, reason = "what a flow's ids are made from")]
fn write_control(
    flow: &mut Flow,
    active: &mut Active<'_>,
    control: Control,
    writer: &mut FrameWriter,
    sent: &mut Sent,
    ids: &super::super::IdCipher,
    server: u16,
    slot: u32,
) {
    for bit in control.bits_one_by_one() {
        let written = match bit {
            Control::PING => writer.frame(&Frame::Ping).is_ok(),
            Control::IDS => (1..=2u16).all(|ahead| {
                let content = super::super::IdContent {
                    server,
                    slot,
                    generation: flow.generation,
                    sequence: flow.sequence(ahead),
                };
                let frame = Frame::NewId {
                    sequence: content.sequence.into(),
                    retire_before: 0,
                    id: ids.seal(content),
                };
                writer.frame(&frame).is_ok()
            }),
            Control::KEEP_ALIVE => {
                writer.frame(&Frame::KeepAlive { seconds: flow.keep_alive_s.into() }).is_ok()
            }
            Control::CLOSE => {
                let reason = active.close_reason.unwrap_or(0).into();
                writer.frame(&Frame::Close { reason }).is_ok()
            }
            Control::TOTAL_WINDOW => {
                let limit = active.total_window(flow);
                active.total_limit = active.total_limit.max(limit);
                writer.frame(&Frame::TotalWindow { octets: active.total_limit }).is_ok()
            }
            _ => write_stream_control(active, bit, writer),
        };
        if written {
            active.control -= bit;
            sent.control |= bit;
        }
    }
}

fn write_stream_control(active: &mut Active<'_>, bit: Control, writer: &mut FrameWriter) -> bool {
    let capacity = active.receive_capacity();
    for (place, stream) in active.streams.iter_mut().enumerate() {
        if bit == Control::window(place) {
            let Some(stream) = stream else { return true };
            let offset = stream.receive.open_window(capacity);
            return writer.frame(&Frame::Window { stream: stream.id, offset }).is_ok();
        }
        if bit == Control::reset(place) {
            let Some(stream) = stream else { return true };
            let Some((offset, reason)) = stream.send.reset_to_tell() else { return true };
            return writer.frame(&Frame::Reset { stream: stream.id, offset, reason }).is_ok();
        }
    }
    true
}
