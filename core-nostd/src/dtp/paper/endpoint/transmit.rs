//! What goes out, and when.

use super::super::{
    DtpOption, Flags, Header, PacketWriter, SackBlock, SackBlocks, write_syn_payload,
};
use super::flow::{Active, Events, Flow, NONE, Phase};
use super::{CloseReason, Endpoint, SEGMENT_OCTETS, Table, Transmit};
use crate::dtp::modern::timers::NEVER;
use crate::node::Instant;
use core::time::Duration;
use heapless::Vec;

/// Octets of the longest datagram that is sent.
pub const DATAGRAM_OCTETS: usize = super::MAX_HEADER_OCTETS + SEGMENT_OCTETS as usize;

/// How long an acknowledgement may wait for a second segment.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(200);

/// The time-out before a round trip was measured, the shortest and the longest.
const FIRST_TIMEOUT: Duration = Duration::from_millis(1500);
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);
const MOST_TIMEOUT: Duration = Duration::from_secs(64);

/// In an outage a packet goes out after 1 s, then after one more second each time, up to this.
const MOST_PROBE_PAUSE_S: u32 = 30;

/// FINs after which an end that has heard the peer's FIN waits for no acknowledgement: the authors' programs do not always send one.
const FIN_TRIES: u8 = 4;

/// How long a FIN that comes again is answered.
const LINGER: Duration = Duration::from_secs(4);

/// A flow with nothing to do keeps its active part for this long.
const SLEEP_AFTER: Duration = Duration::from_secs(1);

impl Flow {
    /// RFC 6298, section 2.
    pub(super) fn measure(&mut self, sample: Duration) {
        let sample = (sample.as_micros() as u32).max(1);
        if self.smoothed_us == 0 {
            (self.smoothed_us, self.variation_us) = (sample, sample / 2);
            return;
        }
        let difference = self.smoothed_us.abs_diff(sample);
        self.variation_us = self.variation_us / 4 * 3 + difference / 4;
        self.smoothed_us = self.smoothed_us / 8 * 7 + sample / 8;
    }

    fn timeout(&self) -> Duration {
        if self.timeouts > 0 {
            return Duration::from_secs(self.timeouts.min(MOST_PROBE_PAUSE_S).into());
        }
        if self.smoothed_us == 0 {
            return FIRST_TIMEOUT;
        }
        let micros = u64::from(self.smoothed_us) + 4 * u64::from(self.variation_us);
        Duration::from_micros(micros).clamp(LEAST_TIMEOUT, MOST_TIMEOUT)
    }
}

impl Active<'_> {
    pub(super) fn all_lost(&mut self, unacknowledged: u64, next: u64) {
        (self.resend, self.lost_below, self.recover) = (unacknowledged, next, next);
        (self.duplicates, self.recovering, self.timed) = (0, false, None);
        self.peer_beyond.clear();
    }

    /// Slow start and congestion avoidance (RFC 5681, 3.1), and the end of a recovery.
    pub(super) fn grow(&mut self, newly: u32, acknowledged: u64) {
        self.duplicates = 0;
        if self.recovering && acknowledged >= self.recover {
            self.recovering = false;
            self.window = self.threshold;
        } else if self.recovering {
            // A part was acknowledged: the next octet is lost too (RFC 6582).
            self.lost_below = self.lost_below.max(acknowledged + u64::from(SEGMENT_OCTETS));
        } else if self.window < self.threshold {
            self.window = self.window.saturating_add(newly.min(2 * SEGMENT_OCTETS));
        } else {
            let more = u64::from(SEGMENT_OCTETS) * u64::from(newly) / u64::from(self.window.max(1));
            self.window = self.window.saturating_add((more as u32).max(1));
        }
    }

    /// Three duplicate acknowledgements, or as much behind a gap, mean a loss.
    pub(super) fn find_losses(&mut self, unacknowledged: u64, next: u64) {
        let highest = self.peer_beyond.descending().next().map_or(0, |range| range.end);
        let lost_below = highest.saturating_sub(3 * u64::from(SEGMENT_OCTETS));
        let lost = self.duplicates >= 3 || lost_below > unacknowledged;
        if lost && !self.recovering && unacknowledged >= self.recover && next > unacknowledged {
            self.recovering = true;
            self.recover = next;
            let on_its_way = (next - unacknowledged) as u32;
            self.threshold = (on_its_way / 2).max(2 * SEGMENT_OCTETS);
            self.window = self.threshold;
            self.resend = unacknowledged;
            self.lost_below = (unacknowledged + u64::from(SEGMENT_OCTETS)).min(next);
            self.timed = None;
        }
        if self.recovering {
            self.lost_below = self.lost_below.max(lost_below).min(next);
        }
    }

    /// Octets that are neither known to be there nor given up.
    fn on_its_way(&self, flow: &Flow) -> u64 {
        let there = |from: u64, to: u64| -> u64 {
            let ranges = self.peer_beyond.descending();
            ranges.map(|r| r.end.min(to).saturating_sub(r.start.max(from))).sum()
        };
        let all = flow.next - flow.unacknowledged;
        let from = self.resend.max(flow.unacknowledged);
        let lost = self.lost_below.saturating_sub(from);
        let lost = lost.saturating_sub(there(from, self.lost_below.max(from)));
        let left = u64::from(self.duplicates) * u64::from(SEGMENT_OCTETS);
        let left = if self.recovering && self.peer_beyond.is_empty() { left } else { 0 };
        all.saturating_sub(lost)
            .saturating_sub(there(flow.unacknowledged, flow.next))
            .saturating_sub(left)
    }

    /// The octets to send next: (first number, octets, with the FIN, for the first time).
    fn choose(&mut self, flow: &Flow, probing: bool) -> Option<(u64, usize, bool, bool)> {
        let end = flow.unacknowledged + self.send_octets as u64;
        let segment = u64::from(SEGMENT_OCTETS);
        // What the peer has is not sent again.
        let ascending = self.peer_beyond.descending().collect::<Vec<_, 16>>();
        for range in ascending.iter().rev() {
            if range.contains(&self.resend) {
                self.resend = range.end;
            }
        }
        let fin_sent = flow.fin_queued && flow.next > end;
        let window = u64::from(self.window);
        if self.resend < self.lost_below && self.resend < flow.next {
            let first = self.resend;
            let gap = ascending.iter().rev().find(|r| r.start > first).map_or(end, |r| r.start);
            let last = gap.min(end).min(first + segment).min(flow.next);
            let octets = last.saturating_sub(first);
            if self.on_its_way(flow) + octets > window.max(segment) {
                return None;
            }
            return Some((first, octets as usize, fin_sent && first + octets >= end, false));
        }
        if fin_sent {
            return None;
        }
        let room = (flow.unacknowledged + u64::from(flow.peer_window)).saturating_sub(flow.next);
        let room = if probing { room.max(1) } else { room };
        let octets = end.saturating_sub(flow.next).min(segment).min(room);
        let fin = flow.fin_queued && flow.next + octets == end;
        // A part of a segment waits while others are on their way, unless it is all there is.
        let small = octets < segment && flow.next + octets < end && flow.next > flow.unacknowledged;
        let fits = self.on_its_way(flow) + octets <= window.max(segment);
        ((octets > 0 || fin) && fits && !small).then_some((flow.next, octets as usize, fin, true))
    }
}

impl Endpoint<'_> {
    /// Writes the next datagram to `out`, which must hold [`DATAGRAM_OCTETS`]; nothing when it does not, or there is none now.
    pub fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        self.now = self.now.max(now);
        if out.len() < DATAGRAM_OCTETS {
            return None;
        }
        if let Some(reply) = self.replies.pop_front() {
            let datagram = reply.datagram.get(..reply.octets)?;
            out.get_mut(..reply.octets)?.copy_from_slice(datagram);
            return Some(Transmit { path: reply.path, octets: reply.octets });
        }
        while let Some((slot, due)) = self.timers.first(&mut Table(self.flows)) {
            if due > self.now {
                return None;
            }
            let sent = self.work(slot, out);
            self.set_timer(slot, sent.is_some());
            if sent.is_some() {
                return sent;
            }
        }
        None
    }

    fn set_timer(&mut self, slot: u32, again: bool) {
        let Some(flow) = self.flows.get(slot as usize) else { return };
        let due = match flow.phase {
            Phase::Free | Phase::Closed => NEVER,
            _ if again => self.now,
            Phase::Unproven => flow.opened.after(super::UNPROVEN_LIFETIME),
            Phase::Opening => flow.retry_at.min(flow.opened.after(self.config.opening_timeout)),
            Phase::Lingering => flow.acknowledge_at.min(flow.opened.after(LINGER)),
            Phase::Open => {
                let expires = flow.heard.after(Duration::from_secs(flow.keep_alive_s.into()));
                let sleeps = flow.heard.after(SLEEP_AFTER);
                let sleeps =
                    if flow.active != NONE && sleeps > self.now { sleeps } else { expires };
                let due = flow.retry_at.min(flow.acknowledge_at).min(flow.probe_at);
                due.min(expires).min(sleeps)
            }
        };
        self.timers.set(&mut Table(self.flows), slot, due);
    }

    fn work(&mut self, slot: u32, out: &mut [u8]) -> Option<Transmit> {
        let now = self.now;
        let flow = self.flows.get(slot as usize)?;
        let age = now.since(flow.opened);
        let silent = now.since(flow.heard);
        match flow.phase {
            Phase::Free | Phase::Closed => return None,
            Phase::Unproven => {
                if age >= super::UNPROVEN_LIFETIME {
                    self.free(slot);
                }
                return None;
            }
            Phase::Opening if age >= self.config.opening_timeout => {
                self.end(slot, CloseReason::Timeout);
                return None;
            }
            Phase::Opening => return self.send_syn(slot, out),
            Phase::Lingering if age >= LINGER => {
                self.end(slot, CloseReason::Finished);
                return None;
            }
            Phase::Lingering => {}
            Phase::Open if silent >= Duration::from_secs(flow.keep_alive_s.into()) => {
                self.end(slot, CloseReason::Expired);
                return None;
            }
            Phase::Open => {
                if self.is_done(slot) {
                    let flow = self.flows.get_mut(slot as usize)?;
                    (flow.phase, flow.opened, flow.retry_at) = (Phase::Lingering, now, NEVER);
                } else {
                    self.time_out(slot);
                    if let Some(sent) = self.send_data(slot, out) {
                        return Some(sent);
                    }
                    self.arm(slot);
                }
            }
        }
        self.send_acknowledgement(slot, out)
    }

    fn is_done(&self, slot: u32) -> bool {
        let Some(flow) = self.flows.get(slot as usize) else { return false };
        let unsent = self.actives.get(flow.active as usize).map_or(0, |active| active.send_octets);
        let told = flow.next == flow.unacknowledged || flow.fin_tries >= FIN_TRIES;
        flow.peer_fin && flow.fin_tries > 0 && unsent == 0 && told
    }

    fn time_out(&mut self, slot: u32) {
        let now = self.now;
        let Some(flow) = self.flows.get(slot as usize) else { return };
        if flow.retry_at <= now && flow.next > flow.unacknowledged {
            let Some((flow, active)) = self.pair(slot) else { return };
            flow.timeouts += 1;
            flow.retry_at = NEVER;
            if flow.timeouts == 1 {
                let on_its_way = (flow.next - flow.unacknowledged) as u32;
                active.threshold = (on_its_way / 2).max(2 * SEGMENT_OCTETS);
            }
            active.all_lost(flow.unacknowledged, flow.next);
            active.window = SEGMENT_OCTETS;
            if flow.timeouts == 2 {
                self.tell(slot, Events::SUSPENDED);
            }
            return;
        }
        let idle = self.actives.get(flow.active as usize).is_some_and(|active| {
            active.send_octets == 0 && active.unread == 0 && active.beyond.is_empty()
        });
        let quiet = flow.next == flow.unacknowledged && !flow.fin_queued;
        if idle && quiet && now.since(flow.heard) >= SLEEP_AFTER {
            self.release_active(slot);
        }
    }

    /// A flow waits for a time-out exactly while something is on its way or the peer's window is shut.
    fn arm(&mut self, slot: u32) {
        let now = self.now;
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if flow.next == flow.unacknowledged && flow.retry_at <= now {
            flow.retry_at = NEVER;
        } else if flow.next > flow.unacknowledged && flow.retry_at == NEVER {
            flow.retry_at = now.after(flow.timeout());
        }
    }

    fn send_syn(&mut self, slot: u32, out: &mut [u8]) -> Option<Transmit> {
        let (now, key) = (self.now, self.config.key?);
        let window = self.actives.first().map_or(0, |active| active.receive.len());
        let (seconds, sack) = (self.config.keep_alive_s, self.config.sack);
        let flow = self.flows.get_mut(slot as usize)?;
        if flow.retry_at > now {
            return None;
        }
        let mut payload = [0; super::MAX_KEY_BITS / 8 + 16];
        let octets = write_syn_payload(&key.public, &mut payload).ok()?;
        let window = window.min(usize::from(u16::MAX)) as u16;
        let header = Header::new(flow.id, flow.unacknowledged as u32, 0, Flags::SYN, window);
        flow.next = flow.unacknowledged + octets as u64;
        let wait = FIRST_TIMEOUT + Duration::from_secs(flow.timeouts.into());
        flow.timeouts += 1;
        flow.retry_at = now.after(wait);
        let path = flow.path;
        let mut writer = PacketWriter::new(out, header).ok()?;
        writer.option(DtpOption::HostId(self.config.host_id)).ok()?;
        writer.option(DtpOption::WindowScale { shift: self.config.window_shift }).ok()?;
        if seconds > 0 {
            writer.option(DtpOption::KeepAlive { seconds }).ok()?;
        }
        if sack {
            writer.option(DtpOption::SackPermitted).ok()?;
        }
        let octets = writer.finish(payload.get(..octets)?).ok()?;
        Some(Transmit { path, octets })
    }

    fn send_data(&mut self, slot: u32, out: &mut [u8]) -> Option<Transmit> {
        let (now, shift) = (self.now, self.config.window_shift);
        let (flow, active) = self.pair(slot)?;
        // Nothing is on its way and the peer's window is shut: one octet asks whether it still is.
        let waiting = flow.next == flow.unacknowledged && active.send_octets > 0;
        let shut = waiting && flow.peer_window == 0;
        let probing = shut && flow.retry_at <= now;
        if shut && flow.retry_at == NEVER {
            flow.retry_at = now.after(flow.timeout());
        }
        let (first, octets, fin, fresh) = active.choose(flow, probing)?;
        let mut payload = [0; SEGMENT_OCTETS as usize];
        let payload = payload.get_mut(..octets)?;
        active.copy_to_send((first - flow.unacknowledged) as usize, payload);
        let window = (active.room() >> shift).min(usize::from(u16::MAX)) as u16;
        let flags = if fin { Flags::FIN | Flags::ACK } else { Flags::ACK };
        let (sequence, acknowledged) = (first as u32, flow.receive_next as u32);
        let header = Header::new(flow.id, sequence, acknowledged, flags, window);
        let written = PacketWriter::new(out, header).ok()?.finish(payload).ok()?;
        let end = first + octets as u64 + u64::from(fin);
        if fresh {
            flow.next = end;
            active.timed = active.timed.or(Some((end, now)));
        } else {
            active.resend = end.max(first + 1);
            active.timed = None;
        }
        flow.fin_tries = flow.fin_tries.saturating_add(u8::from(fin));
        if flow.retry_at == NEVER || probing {
            flow.retry_at = now.after(flow.timeout());
        }
        (flow.acknowledge_at, flow.unacknowledged_segments) = (NEVER, 0);
        Some(Transmit { path: flow.path, octets: written })
    }

    fn send_acknowledgement(&mut self, slot: u32, out: &mut [u8]) -> Option<Transmit> {
        let (now, shift) = (self.now, self.config.window_shift);
        let full = self.actives.first().map_or(0, |active| active.receive.len());
        let flow = self.flows.get_mut(slot as usize)?;
        let active = self.actives.get(flow.active as usize);
        let probe = flow.probe_at <= now;
        if flow.acknowledge_at > now && !probe {
            return None;
        }
        (flow.acknowledge_at, flow.unacknowledged_segments) = (NEVER, 0);
        let mut sequence = flow.next as u32;
        if probe {
            flow.timeouts = flow.timeouts.saturating_add(1);
            let pause = flow.timeouts.min(MOST_PROBE_PAUSE_S);
            flow.probe_at = now.after(Duration::from_secs(pause.into()));
            sequence = sequence.wrapping_sub(1);
        }
        let room = active.map_or(full, |active| active.room());
        let window = (room >> shift).min(usize::from(u16::MAX)) as u16;
        let header = Header::new(flow.id, sequence, flow.receive_next as u32, Flags::ACK, window);
        let mut writer = PacketWriter::new(out, header).ok()?;
        if flow.sack
            && let Some(active) = active
        {
            let blocks: Vec<SackBlock, 4> = active
                .beyond
                .descending()
                .take(4)
                .map(|range| SackBlock { left: range.start as u32, right: range.end as u32 })
                .collect();
            let mut buffer = [0; 32];
            if let Ok(blocks) = SackBlocks::write(&blocks, &mut buffer) {
                writer.option(DtpOption::Sack(blocks)).ok()?;
            }
        }
        let octets = writer.finish(&[]).ok()?;
        Some(Transmit { path: flow.path, octets })
    }
}
