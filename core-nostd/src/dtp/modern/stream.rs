//! One stream: what is sent of it, what has come of it. The octets themselves stand in rings that the flow lends.

use super::ModernError;
use super::ranges::Ranges;
use core::ops::Range;

/// Gaps that are remembered on each side of a stream.
const GAPS: usize = 48;

/// Copies `octets` into a ring, so that the first stands in the place of `offset`.
fn ring_write(ring: &mut [u8], offset: u64, octets: &[u8]) {
    let length = ring.len() as u64;
    let Some(at) = offset.checked_rem(length) else { return };
    let (low, high) = ring.split_at_mut(at as usize);
    let (first, rest) = octets.split_at(octets.len().min(high.len()));
    high.iter_mut().zip(first).for_each(|(place, octet)| *place = *octet);
    low.iter_mut().zip(rest).for_each(|(place, octet)| *place = *octet);
}

/// Copies octets out of a ring, from the place of `offset` on.
fn ring_read(ring: &[u8], offset: u64, out: &mut [u8]) {
    let length = ring.len() as u64;
    let Some(at) = offset.checked_rem(length) else { return };
    let (low, high) = ring.split_at(at as usize);
    let (first, rest) = out.split_at_mut(out.len().min(high.len()));
    first.iter_mut().zip(high).for_each(|(place, octet)| *place = *octet);
    rest.iter_mut().zip(low).for_each(|(place, octet)| *place = *octet);
}

/// Whether the end of a direction has been sent.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Unsent,
    InFlight,
    Acknowledged,
}

/// A piece to put into a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub offset: u64,
    pub length: u16,
    pub last: bool,
    /// It was sent before.
    pub again: bool,
}

/// The sending half.
#[derive(Debug, Default)]
pub(super) struct SendHalf {
    /// Octets that the application has given.
    written: u64,
    /// Octets sent at least once.
    sent: u64,
    /// Octets acknowledged without a gap: their places in the ring are free.
    freed: u64,
    acked: Ranges<GAPS>,
    lost: Ranges<GAPS>,
    /// The peer takes octets below this.
    limit: u64,
    end: End,
    reset: Option<u64>,
    reset_acked: bool,
    /// The ring holds octets from here on, as far as it reaches.
    held: u64,
    /// After a restart the peer wants octets that the ring does not hold: the application must write again, from this place on.
    rewound: bool,
}

impl SendHalf {
    pub fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// A half that goes on where everything up to `offset` is acknowledged.
    pub fn at(offset: u64, limit: u64, ended: bool) -> Self {
        let end = if ended { End::Acknowledged } else { End::Open };
        let (written, sent, freed, held) = (offset, offset, offset, offset);
        Self { written, sent, freed, held, limit, end, ..Self::default() }
    }

    /// Goes on where an end that has restarted left off: the peer has everything below `offset`, and if `complete` the end too. The ring of
    /// `capacity` octets may hold what comes next; where it does not, the application has to give it again. `offset` can be beyond what was given, if an earlier process
    /// of this end has sent it.
    pub fn resume(
        &mut self,
        offset: u64,
        limit: u64,
        complete: bool,
        capacity: usize,
        restored: bool,
    ) {
        let lowest = self.held.max(self.written.saturating_sub(capacity as u64));
        let holds = !restored && !self.rewound && (lowest..=self.written).contains(&offset);
        self.acked.clear();
        self.lost.clear();
        (self.sent, self.freed, self.limit) = (offset, offset, limit);
        if complete || !holds {
            (self.written, self.held) = (offset, offset);
        }
        self.rewound = !complete && !holds && self.reset.is_none();
        self.end = match self.end {
            _ if complete => End::Acknowledged,
            End::Open => End::Open,
            _ if holds => End::Unsent,
            _ => End::Open,
        };
        self.reset_acked &= complete;
    }

    /// The application must write again.
    pub const fn is_rewound(&self) -> bool {
        self.rewound
    }

    /// Where the application must write again; it is taken as said.
    pub fn take_rewound(&mut self) -> Option<u64> {
        core::mem::take(&mut self.rewound).then_some(self.written)
    }

    /// Takes octets of the application, as many as there is room for.
    pub fn write(&mut self, ring: &mut [u8], octets: &[u8]) -> usize {
        if self.end != End::Open || self.reset.is_some() {
            return 0;
        }
        let count = self.room(ring.len()).min(octets.len());
        ring_write(ring, self.written, octets.get(..count).unwrap_or(&[]));
        self.written += count as u64;
        count
    }

    pub fn room(&self, capacity: usize) -> usize {
        capacity.saturating_sub((self.written - self.freed) as usize)
    }

    pub fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Unsent;
        }
    }

    pub fn is_open(&self) -> bool {
        self.end == End::Open && self.reset.is_none()
    }

    pub fn reset(&mut self, reason: u64) {
        if self.reset.is_none() && self.end != End::Acknowledged {
            self.reset = Some(reason);
            self.lost.clear();
        }
    }

    /// The application writes no more: the end follows, or where it would have had to write again, the news that something is missing.
    pub fn close(&mut self, reason: u32) {
        if self.rewound {
            self.rewound = false;
            self.reset(reason.into());
        } else {
            self.finish();
        }
    }

    /// The RESET that is to be told: offset and reason.
    pub fn reset_to_tell(&self) -> Option<(u64, u64)> {
        self.reset.filter(|_| !self.reset_acked).map(|reason| (self.sent, reason))
    }

    pub fn on_reset_acked(&mut self) {
        self.reset_acked = true;
    }

    /// Everything that was given is acknowledged, and the end too when there is one.
    pub fn is_quiet(&self) -> bool {
        match self.reset {
            Some(_) => self.reset_acked,
            None => {
                !self.rewound
                    && self.freed == self.written
                    && matches!(self.end, End::Open | End::Acknowledged)
            }
        }
    }

    pub fn is_done(&self) -> bool {
        self.end == End::Acknowledged && self.freed == self.written || self.reset_acked
    }

    pub const fn sent(&self) -> u64 {
        self.sent
    }

    pub const fn freed(&self) -> u64 {
        self.freed
    }

    pub const fn written(&self) -> u64 {
        self.written
    }

    pub const fn limit(&self) -> u64 {
        self.limit
    }

    pub fn raise_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// What to send next: what was lost first, then what was never sent, as far as both windows let it.
    pub fn next(&self, most: u16, credit: u64) -> Option<Segment> {
        if self.reset.is_some() {
            return None;
        }
        let (range, again) = match self.lost.first() {
            Some(lost) => (lost, true),
            None => {
                let end = self.written.min(self.limit).min(self.sent.saturating_add(credit));
                (self.sent..end.max(self.sent), false)
            }
        };
        let length = (range.end - range.start).min(most.into()) as u16;
        let offset = range.start;
        let ends = offset + u64::from(length) == self.written;
        let last = ends && matches!(self.end, End::Unsent | End::InFlight);
        // The end alone is sent when nothing else is left to send.
        if length == 0 && !(self.end == End::Unsent && last) {
            return None;
        }
        Some(Segment { offset, length, last, again })
    }

    /// The oldest octets that are not acknowledged: what a probe carries.
    pub fn oldest(&self, most: u16) -> Option<Segment> {
        if self.reset.is_some() {
            return None;
        }
        let end = self.acked.first().map_or(self.sent, |acked| acked.start);
        let length = end.saturating_sub(self.freed).min(most.into()) as u16;
        let last = self.freed + u64::from(length) == self.written && self.end == End::InFlight;
        (length > 0 || last).then_some(Segment { offset: self.freed, length, last, again: true })
    }

    /// Copies a segment's octets out and counts it as sent.
    pub fn take(&mut self, ring: &[u8], segment: Segment, out: &mut [u8]) {
        ring_read(ring, segment.offset, out);
        let end = segment.offset + u64::from(segment.length);
        self.lost.remove(segment.offset..end);
        self.sent = self.sent.max(end);
        if segment.last && self.end == End::Unsent {
            self.end = End::InFlight;
        }
    }

    /// Gives whether places in the ring have become free.
    pub fn on_acked(&mut self, range: Range<u64>, last: bool) -> bool {
        let before = self.freed;
        self.lost.remove(range.clone());
        if range.end > self.freed {
            if range.start <= self.freed {
                self.freed = self.acked.absorb(range.end);
            } else if !self.acked.insert(range.clone()) {
                // No room to remember it: the peer gets it once more.
                self.lost.insert_widening(range);
            }
        }
        if last {
            self.end = End::Acknowledged;
        }
        self.freed > before
    }

    pub fn on_lost(&mut self, range: Range<u64>, last: bool) {
        if self.reset.is_some() {
            return;
        }
        let start = range.start.max(self.freed);
        if start < range.end {
            self.lost.insert_widening(start..range.end);
            // The set may have become wider than what was lost: what is acknowledged need not go again.
            for acked in self.acked.descending() {
                self.lost.remove(acked);
            }
            self.lost.remove(0..self.freed);
        }
        if last && self.end == End::InFlight {
            self.end = End::Unsent;
        }
    }
}

/// The receiving half.
#[derive(Debug, Default)]
pub(super) struct ReceiveHalf {
    /// Octets that have come without a gap.
    next: u64,
    /// Octets that the application has taken.
    read: u64,
    ahead: Ranges<GAPS>,
    /// The stream's length, once its end has come.
    size: Option<u64>,
    /// How far the peer may send.
    limit: u64,
    /// One more than the highest octet that has come.
    highest: u64,
    reset: Option<u64>,
    /// The application knows of the end, or of the reset.
    pub end_told: bool,
}

impl ReceiveHalf {
    pub fn new(capacity: usize) -> Self {
        Self::at(0, capacity, false)
    }

    /// A half that goes on where everything up to `offset` has been read.
    pub fn at(offset: u64, capacity: usize, ended: bool) -> Self {
        Self {
            next: offset,
            read: offset,
            limit: offset + capacity as u64,
            highest: offset,
            size: ended.then_some(offset),
            end_told: ended,
            ..Self::default()
        }
    }

    /// Goes on with a peer that has restarted: it sends again what has not come without a gap.
    pub fn resume(&mut self) {
        self.ahead.clear();
        self.highest = self.next;
        if self.size != Some(self.next) {
            self.size = None;
        }
    }

    /// What was to come is gone: the peer counts it as received, and has let go of it.
    pub fn lose(&mut self, reason: u64) {
        if !self.is_complete() {
            self.reset = Some(reason);
            self.size = Some(self.next);
        }
    }

    /// Octets that have come without a gap.
    pub const fn next_offset(&self) -> u64 {
        self.next
    }

    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Octets by which a segment moves the highest octet, if it may come.
    pub fn check(&self, offset: u64, length: usize, last: bool) -> Result<u64, ModernError> {
        let end = offset + length as u64;
        if end > self.limit {
            return Err(ModernError::FlowControl);
        }
        let beyond = self.size.is_some_and(|size| end > size || last && end != size);
        if beyond || last && end < self.highest {
            return Err(ModernError::FinalSize);
        }
        Ok(end.saturating_sub(self.highest))
    }

    /// Stores a segment that was checked; false when there is no room to remember one gap more.
    pub fn accept(&mut self, ring: &mut [u8], offset: u64, octets: &[u8], last: bool) -> bool {
        let end = offset + octets.len() as u64;
        if end > self.next && self.reset.is_none() {
            if offset > self.next && !self.ahead.insert(offset..end) {
                return false;
            }
            let skip = self.next.saturating_sub(offset);
            ring_write(ring, offset + skip, octets.get(skip as usize..).unwrap_or(&[]));
            if offset <= self.next {
                self.next = self.ahead.absorb(end);
            }
        }
        if last {
            self.size = Some(end);
        }
        self.highest = self.highest.max(end);
        true
    }

    /// The peer gives up, having sent `offset` octets.
    pub fn on_reset(&mut self, offset: u64, reason: u64) -> Result<u64, ModernError> {
        let more = self.check(offset, 0, true)?;
        if self.next < offset || self.size.is_none() {
            self.reset = Some(reason);
        }
        self.size = Some(offset);
        self.highest = offset;
        Ok(more)
    }

    pub const fn reset_reason(&self) -> Option<u64> {
        self.reset
    }

    pub fn readable(&self) -> usize {
        (self.next - self.read) as usize
    }

    /// Everything has come and been read.
    pub fn is_at_end(&self) -> bool {
        self.reset.is_none() && self.size == Some(self.read)
    }

    /// Octets that the peer has sent and that have not been read; none of a stream that was reset.
    pub fn unread(&self) -> usize {
        if self.reset.is_some() { 0 } else { (self.highest - self.read) as usize }
    }

    /// Everything has come.
    pub fn is_complete(&self) -> bool {
        self.reset.is_some() || self.size == Some(self.next)
    }

    pub fn is_quiet(&self) -> bool {
        let is_open = self.size.is_none() && self.reset.is_none();
        self.read == self.next && self.ahead.is_empty() && (is_open || self.end_told)
    }

    pub const fn read_offset(&self) -> u64 {
        self.read
    }

    /// Copies octets out for the application.
    pub fn read(&mut self, ring: &[u8], out: &mut [u8]) -> usize {
        let count = self.readable().min(out.len());
        ring_read(ring, self.read, out.get_mut(..count).unwrap_or(&mut []));
        self.read += count as u64;
        count
    }

    /// Copies octets without taking them.
    pub fn peek(&self, ring: &[u8], out: &mut [u8]) -> usize {
        let count = self.readable().min(out.len());
        ring_read(ring, self.read, out.get_mut(..count).unwrap_or(&mut []));
        count
    }

    /// Whether so much has been read that the peer should hear of it.
    pub fn window_is_due(&self, capacity: usize) -> bool {
        self.size.is_none() && self.untold(capacity) as usize >= capacity / 4
    }

    /// Octets of room that the peer does not know of; none when it has no use for them.
    pub fn untold(&self, capacity: usize) -> u64 {
        let free = (self.read + capacity as u64).saturating_sub(self.limit);
        if self.size.is_none() { free } else { 0 }
    }

    /// Raises the limit to what there is room for.
    pub fn open_window(&mut self, capacity: usize) -> u64 {
        self.limit = self.limit.max(self.read + capacity as u64);
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Segments get lost, repeated and reordered; what is read is what was written.
        #[test]
        fn every_octet_once_and_in_order(fates in proptest::collection::vec((0u8..4, 1u16..40), 0..400)) {
            let text: Vec<u8> = (0..3000u32).map(|i| (i * 7 % 251) as u8).collect();
            let (mut out_ring, mut in_ring) = ([0; 256], [0; 200]);
            let (mut send, mut receive) = (SendHalf::new(200), ReceiveHalf::new(200));
            let (mut given, mut got) = (0, Vec::new());
            let mut held: Vec<(Segment, Vec<u8>)> = Vec::new();
            let mut fates = fates.into_iter();
            for _ in 0..20_000 {
                given += send.write(&mut out_ring, &text[given..]);
                if given == text.len() { send.finish(); }
                let (fate, most) = fates.next().unwrap_or((0, 40));
                let Some(segment) = send.next(most, u64::MAX).or_else(|| send.oldest(most)) else {
                    if receive.is_at_end() { break; }
                    for (segment, octets) in held.drain(..) {
                        prop_assert!(receive.accept(&mut in_ring, segment.offset, &octets, segment.last));
                        send.on_acked(segment.offset..segment.offset + u64::from(segment.length), segment.last);
                    }
                    continue;
                };
                let mut octets = vec![0; segment.length.into()];
                send.take(&out_ring, segment, &mut octets);
                prop_assert_eq!(&octets[..], &text[segment.offset as usize..][..octets.len()]);
                let range = segment.offset..segment.offset + u64::from(segment.length);
                match fate {
                    0 | 1 => {
                        receive.check(segment.offset, octets.len(), segment.last).unwrap();
                        if receive.accept(&mut in_ring, segment.offset, &octets, segment.last) {
                            send.on_acked(range, segment.last);
                        } else {
                            send.on_lost(range, segment.last);
                        }
                    }
                    2 => send.on_lost(range, segment.last),
                    _ => { send.on_lost(range, segment.last); held.push((segment, octets)); }
                }
                if fate == 1 && !held.is_empty() {
                    let (segment, octets) = held.remove(0);
                    prop_assert!(receive.check(segment.offset, octets.len(), segment.last).is_ok());
                    receive.accept(&mut in_ring, segment.offset, &octets, segment.last);
                }
                let mut buffer = [0; 50];
                let count = receive.read(&in_ring, &mut buffer);
                got.extend_from_slice(&buffer[..count]);
                if receive.window_is_due(200) { send.raise_limit(receive.open_window(200)); }
            }
            prop_assert!(got == text && receive.is_at_end() && send.is_done());
        }
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let mut receive = ReceiveHalf::new(10);
        assert_eq!(receive.check(5, 6, false), Err(ModernError::FlowControl));
        assert_eq!(receive.check(0, 10, false), Ok(10));
        assert!(receive.accept(&mut [0; 10], 2, &[1, 2, 3], true));
        assert_eq!(receive.check(0, 6, false), Err(ModernError::FinalSize));
        assert_eq!(receive.check(0, 4, true), Err(ModernError::FinalSize));
        assert_eq!(receive.on_reset(4, 0), Err(ModernError::FinalSize));
        assert_eq!(receive.on_reset(5, 9), Ok(0));
        assert_eq!(receive.reset_reason(), Some(9));
    }
}
