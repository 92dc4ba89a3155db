//! Frames on their way to the controller.

use crate::node::PortId;

/// Why the controller gets a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// No rule but that for all others matched.
    NoMatch,
    /// A rule says so.
    Action,
    /// Its TTL has run out.
    InvalidTtl,
}

/// A frame for the controller, without its octets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Why.
    pub reason: PacketInReason,
    /// The table of the rule.
    pub table: u8,
    /// The rule's cookie.
    pub cookie: u64,
    /// Where the frame came in.
    pub port: PortId,
    /// Octets of the whole frame.
    pub total_octets: u32,
    /// Octets that are kept.
    pub kept_octets: u32,
}

impl PacketIn {
    /// A free place.
    pub const fn vacant() -> Self {
        Self {
            reason: PacketInReason::Action,
            table: 0,
            cookie: 0,
            port: PortId(0),
            total_octets: 0,
            kept_octets: 0,
        }
    }
}

/// A queue of bounded length: when it is full, frames for the controller are dropped and counted.
#[derive(Debug)]
pub struct PacketIns<'m> {
    places: &'m mut [PacketIn],
    octets: &'m mut [u8],
    first: usize,
    len: usize,
    /// The controller gets packets whose TTL has run out, cut to so many octets; nothing (the default): they are only dropped.
    pub invalid_ttl_octets: Option<u16>,
}

impl<'m> PacketIns<'m> {
    /// A queue of as many frames as there are places, each cut to its share of `octets`.
    pub const fn new(places: &'m mut [PacketIn], octets: &'m mut [u8]) -> Self {
        Self { places, octets, first: 0, len: 0, invalid_ttl_octets: None }
    }

    /// Frames that wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no frame waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a frame, of which the controller wants so many octets. False when the queue is full.
    pub(super) fn push(&mut self, mut entry: PacketIn, frame: &[u8], max_octets: usize) -> bool {
        let share = self.octets.len().checked_div(self.places.len()).unwrap_or(0);
        if self.len >= self.places.len() {
            return false;
        }
        let at = (self.first + self.len) % self.places.len();
        let kept = frame.len().min(max_octets).min(share);
        let (from, to) = (self.octets.get_mut(at * share..), self.places.get_mut(at));
        let (Some(octets), Some(place)) = (from, to) else { return false };
        for (to, from) in octets.iter_mut().zip(frame.iter().take(kept)) {
            *to = *from;
        }
        (entry.total_octets, entry.kept_octets) = (frame.len() as u32, kept as u32);
        *place = entry;
        self.len += 1;
        true
    }

    /// The frame that has waited longest, handed to `take` with its octets.
    pub fn pop<R>(&mut self, take: impl FnOnce(&PacketIn, &[u8]) -> R) -> Option<R> {
        if self.len == 0 {
            return None;
        }
        let share = self.octets.len().checked_div(self.places.len())?;
        let entry = self.places.get(self.first)?;
        let from = self.first * share;
        let octets = self.octets.get(from..from + entry.kept_octets as usize)?;
        let taken = take(entry, octets);
        self.first = (self.first + 1) % self.places.len();
        self.len -= 1;
        Some(taken)
    }
}
