//! What was sent and has not been answered (RACK-TLP, RFC 8985, on packet numbers as in RFC 9002).

use crate::node::Instant;
use core::ops::RangeInclusive;
use core::time::Duration;

bitflags::bitflags! {
    /// What a packet carried, besides data, that must reach the peer.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
    pub(super) struct Control: u16 {
        const PING = 1;
        const IDS = 2;
        const KEEP_ALIVE = 4;
        const CLOSE = 8;
        const TOTAL_WINDOW = 32;
        /// One bit for each place of a stream.
        const WINDOWS = 0xf << 6;
        const RESETS = 0xf << 10;
    }
}

impl Control {
    /// Each bit that is set. The names for several bits are no unit here.
    pub fn bits_one_by_one(self) -> impl Iterator<Item = Self> {
        (0..16)
            .map(move |place| Self::from_bits_truncate(self.bits() & 1 << place))
            .filter(|bit| !bit.is_empty())
    }

    pub fn window(place: usize) -> Self {
        Self::from_bits_truncate(1 << (6 + place)) & Self::WINDOWS
    }

    pub fn reset(place: usize) -> Self {
        Self::from_bits_truncate(1 << (10 + place)) & Self::RESETS
    }
}

/// What became of a packet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Fate {
    /// It asked for no acknowledgement, or was acknowledged.
    #[default]
    Settled,
    Outstanding,
    Lost,
}

/// A packet that was sent. The caller's memory holds a ring of them.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sent {
    pub(super) time: Instant,
    /// Where its data stands in the stream.
    pub(super) offset: u64,
    /// Octets delivered on the path when it was sent, and when the last of them had been.
    pub(super) delivered: u64,
    pub(super) delivered_time: Instant,
    pub(super) first_sent: Instant,
    pub(super) stream: u32,
    /// Octets of the datagram.
    pub(super) octets: u16,
    pub(super) length: u16,
    pub(super) control: Control,
    pub(super) last: bool,
    /// It carried data, even if that was the end alone.
    pub(super) data: bool,
    pub(super) app_limited: bool,
    pub(super) path: u8,
    fate: Fate,
}

impl Sent {
    /// A packet before it is known what it carries.
    pub(super) fn new(time: Instant, path: usize) -> Self {
        Self { time, path: path as u8, ..Self::default() }
    }
}

/// The packets of a flow that were sent and may still be answered.
#[derive(Debug)]
pub(super) struct Recovery<'m> {
    ring: &'m mut [Sent],
    /// The lowest number that is remembered, and the next one.
    base: u64,
    next: u64,
    outstanding: u32,
    largest_acked: Option<u64>,
    /// The reordering window, in quarters of the least round trip.
    reordering: u32,
    /// Probe time-outs since the last acknowledgement.
    pub probes: u32,
    /// When the newest packet that asks for an acknowledgement was sent.
    pub last_eliciting: Instant,
}

impl<'m> Recovery<'m> {
    pub fn new(ring: &'m mut [Sent]) -> Self {
        Self {
            ring,
            base: 0,
            next: 0,
            outstanding: 0,
            largest_acked: None,
            reordering: 1,
            probes: 0,
            last_eliciting: Instant::ZERO,
        }
    }

    /// Forgets everything; the next packet has that number.
    pub fn restart(&mut self, next: u64) {
        self.base = next;
        self.next = next;
        self.outstanding = 0;
        self.largest_acked = None;
        self.reordering = 1;
        self.probes = 0;
    }

    fn place(&mut self, number: u64) -> Option<&mut Sent> {
        if number < self.base || number >= self.next {
            return None;
        }
        let at = number.checked_rem(self.ring.len() as u64)?;
        self.ring.get_mut(at as usize)
    }

    pub const fn has_outstanding(&self) -> bool {
        self.outstanding > 0
    }

    pub const fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Whether a packet can be remembered without giving up one that is outstanding.
    pub fn has_room(&mut self) -> bool {
        if self.next - self.base < self.ring.len() as u64 {
            return true;
        }
        let base = self.base;
        self.place(base).is_some_and(|sent| sent.fate != Fate::Outstanding)
    }

    /// Remembers a packet; `eliciting` says that it asks for an acknowledgement. Gives the oldest one when it had to be given up for it.
    pub fn record(&mut self, number: u64, sent: Sent, eliciting: bool) -> Option<Sent> {
        if self.base == self.next || number != self.next {
            self.base = number;
        }
        let mut given_up = None;
        if number - self.base >= self.ring.len() as u64 {
            let base = self.base;
            given_up = self.place(base).filter(|old| old.fate == Fate::Outstanding).map(|old| *old);
            self.outstanding -= u32::from(given_up.is_some());
            self.base += 1;
        }
        self.next = number + 1;
        if eliciting {
            self.outstanding += 1;
            self.last_eliciting = sent.time;
        }
        let fate = if eliciting { Fate::Outstanding } else { Fate::Settled };
        if let Some(place) = self.place(number) {
            *place = Sent { fate, ..sent };
        }
        given_up
    }

    /// Settles the packets of an acknowledged range, from the newest down, and tells each that was waited for; true stands for one that had been given up as lost.
    /// Gives false when a number was never sent.
    pub fn acknowledge(
        &mut self,
        range: RangeInclusive<u64>,
        mut each: impl FnMut(u64, &Sent, bool),
    ) -> bool {
        let (first, last) = (*range.start(), *range.end());
        if last >= self.next {
            return false;
        }
        self.largest_acked = self.largest_acked.max(Some(last));
        let mut number = last + 1;
        while number > first.max(self.base) {
            number -= 1;
            let Some(place) = self.place(number) else { continue };
            let fate = core::mem::take(&mut place.fate);
            let sent = *place;
            match fate {
                Fate::Settled => continue,
                Fate::Outstanding => self.outstanding -= 1,
                // It was only late: wait longer next time, at most a round trip.
                Fate::Lost => self.reordering = (self.reordering * 2).min(4),
            }
            each(number, &sent, fate == Fate::Lost);
        }
        true
    }

    /// Forgets from the oldest on what cannot be answered any more.
    fn forget(&mut self, now: Instant, patience: Duration) {
        while self.base < self.next {
            let base = self.base;
            let done = match self.place(base) {
                Some(sent) if sent.fate == Fate::Outstanding => false,
                Some(sent) if sent.fate == Fate::Lost => now.since(sent.time) > patience,
                _ => true,
            };
            if !done {
                return;
            }
            self.base += 1;
        }
    }

    /// Gives up packets that were sent long enough before one that is acknowledged, tells each, and gives when the next one would be.
    pub fn detect(
        &mut self,
        now: Instant,
        path: u8,
        round_trip: Duration,
        least: Duration,
        mut each: impl FnMut(&Sent),
    ) -> Option<Instant> {
        let window =
            super::rtt::part(least.saturating_mul(self.reordering), 4).max(super::rtt::GRANULARITY);
        let patience = round_trip.saturating_add(window);
        self.forget(now, patience.saturating_mul(3).saturating_add(Duration::from_millis(100)));
        let largest = self.largest_acked?;
        let mut due: Option<Instant> = None;
        let mut gone = 0;
        for number in self.base..largest.min(self.next) {
            let Some(sent) = self.place(number) else { continue };
            if sent.fate != Fate::Outstanding || sent.path != path {
                continue;
            }
            let lost_at = sent.time.after(patience);
            if lost_at <= now {
                sent.fate = Fate::Lost;
                each(sent);
                gone += 1;
            } else {
                due = Some(due.map_or(lost_at, |due| due.min(lost_at)));
            }
        }
        self.outstanding -= gone;
        due
    }

    /// Gives up everything that is outstanding and tells each.
    pub fn give_up(&mut self, mut each: impl FnMut(&Sent)) {
        for number in self.base..self.next {
            let Some(sent) = self.place(number) else { continue };
            if sent.fate == Fate::Outstanding {
                sent.fate = Fate::Lost;
                each(sent);
            }
        }
        self.outstanding = 0;
    }

    /// Octets that are outstanding on a path, counted anew: what the path's own counter must say.
    pub fn count(&mut self, path: u8) -> u64 {
        let mut octets = 0;
        for number in self.base..self.next {
            if let Some(sent) = self.place(number)
                && sent.fate == Fate::Outstanding
                && sent.path == path
            {
                octets += u64::from(sent.octets);
            }
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(ms: u64) -> Sent {
        let time = Instant::from_nanos(ms * 1_000_000);
        Sent { time, octets: 100, ..Sent::default() }
    }

    #[test]
    fn a_packet_is_lost_a_reordering_window_after_a_later_one_came() {
        let mut ring = [Sent::default(); 8];
        let mut recovery = Recovery::new(&mut ring);
        for number in 0..4 {
            assert!(recovery.record(number, sent(number), true).is_none());
        }
        let mut acked = Vec::new();
        assert!(recovery.acknowledge(2..=2, |number, _, late| acked.push((number, late))));
        assert_eq!(acked, [(2, false)]);
        assert!(!recovery.acknowledge(4..=4, |_, _, _| ()), "never sent");
        let (rtt, least) = (Duration::from_millis(40), Duration::from_millis(40));
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut lost = Vec::new();
        // The window is a quarter of 40 ms: packet 0 is due at 50, packet 1 at 51, packet 3 came after all that is known.
        assert_eq!(recovery.detect(at(49), 0, rtt, least, |s| lost.push(s.time)), Some(at(50)));
        assert_eq!(recovery.detect(at(50), 0, rtt, least, |s| lost.push(s.time)), Some(at(51)));
        assert_eq!(lost, [at(0)]);
        // Packet 0 was only late: the window doubles.
        recovery.acknowledge(0..=0, |_, _, late| assert!(late));
        assert_eq!(recovery.detect(at(51), 0, rtt, least, |_| ()), Some(at(61)));
        recovery.give_up(|s| lost.push(s.time));
        assert_eq!(lost, [at(0), at(1), at(3)]);
        assert!(!recovery.has_outstanding());
    }

    #[test]
    fn a_full_ring_gives_the_oldest_up() {
        let mut ring = [Sent::default(); 2];
        let mut recovery = Recovery::new(&mut ring);
        recovery.record(5, sent(0), true);
        recovery.record(6, sent(1), true);
        assert!(!recovery.has_room());
        assert_eq!(recovery.record(7, sent(2), true).map(|s| s.time), Some(Instant::ZERO));
        recovery.acknowledge(6..=6, |_, _, _| ());
        assert!(recovery.has_room());
        assert!(recovery.record(8, sent(3), false).is_none());
        assert_eq!(recovery.count(0), 100);
    }
}
