//! Puts the fragments of packets together, on memory of the caller.

use super::packet::Payload;
use super::{LpHeader, MAX_PACKET_OCTETS, NdnError};
use crate::node::Instant;
use core::time::Duration;

/// Fragments that a packet may come in here, at most: fragments of 138 octets make the longest packet.
pub const MAX_PIECES: usize = 64;

/// Octets that a [`Reassembler`] with so many places needs.
pub const fn reassembly_octets(places: usize) -> usize {
    (places + 1) * MAX_PACKET_OCTETS
}

/// A place for a packet of which fragments are missing.
#[derive(Clone, Debug)]
pub struct Partial {
    face: u32,
    message: u64,
    count: u64,
    /// Octets received of all pieces together.
    used: u16,
    /// A bit for each piece received; none when the place is free.
    received: u64,
    until: Instant,
    /// Where each piece lies: offset and octets.
    pieces: [(u16, u16); MAX_PIECES],
}

impl Partial {
    /// A free place.
    pub const fn vacant() -> Self {
        Self {
            face: 0,
            message: 0,
            count: 0,
            used: 0,
            received: 0,
            until: Instant::ZERO,
            pieces: [(0, 0); MAX_PIECES],
        }
    }
}

/// Puts packets together. When all places are in use, the packet that is nearest to its end gives way.
#[derive(Debug)]
pub struct Reassembler<'m> {
    partials: &'m mut [Partial],
    /// [`MAX_PACKET_OCTETS`] for each place.
    octets: &'m mut [u8],
    /// The packet that was finished last.
    whole: &'m mut [u8],
    lifetime: Duration,
}

impl<'m> Reassembler<'m> {
    /// State in these places and [`reassembly_octets`]. A packet whose fragments are not all there `lifetime` after
    /// the first of them is given up.
    ///
    /// # Errors
    /// [`NdnError::NoRoom`] with fewer octets or no place.
    pub fn new(
        partials: &'m mut [Partial],
        octets: &'m mut [u8],
        lifetime: Duration,
    ) -> Result<Self, NdnError> {
        if partials.is_empty() || octets.len() < reassembly_octets(partials.len()) {
            return Err(NdnError::NoRoom);
        }
        let (whole, octets) =
            octets.split_at_mut_checked(MAX_PACKET_OCTETS).ok_or(NdnError::NoRoom)?;
        Ok(Self { partials, octets, whole, lifetime })
    }

    /// Takes one fragment. When it was the last one missing, the packet is checked and handed out.
    ///
    /// # Errors
    /// Why the fragment does not count, or what is wrong with the whole packet.
    pub fn take(
        &mut self,
        now: Instant,
        face: u32,
        header: &LpHeader<'_>,
        fragment: &[u8],
    ) -> Result<Option<Payload<'_>>, NdnError> {
        let (index, count) = (header.index(), header.count());
        if count > MAX_PIECES as u64 {
            return Err(NdnError::FragmentCountLimit);
        }
        let sequence = header.sequence.ok_or(NdnError::FragmentSequenceMissing)?;
        let message = sequence.checked_sub(index).ok_or(NdnError::FragmentSequenceUnderflow)?;
        let at = self.place(now, face, message, count);
        let Self { partials, octets, whole, .. } = self;
        let partial = partials.get_mut(at).ok_or(NdnError::NoRoom)?;
        let octets = octets.chunks_exact_mut(MAX_PACKET_OCTETS).nth(at).ok_or(NdnError::NoRoom)?;
        if partial.count != count {
            return Err(NdnError::FragmentCountChanged);
        }
        let bit = 1u64.checked_shl(index as u32).ok_or(NdnError::FragmentIndexRange)?;
        if partial.received & bit != 0 {
            return Err(NdnError::FragmentRepeated);
        }
        let from = usize::from(partial.used);
        let Some(to) = octets.get_mut(from..from + fragment.len()) else {
            partial.received = 0;
            return Err(NdnError::PacketTooLarge);
        };
        to.copy_from_slice(fragment);
        if let Some(piece) = partial.pieces.get_mut(index as usize) {
            *piece = (partial.used, fragment.len() as u16);
        }
        partial.used += fragment.len() as u16;
        partial.received |= bit;
        if u64::from(partial.received.count_ones()) < count {
            return Ok(None);
        }
        partial.received = 0;
        let mut length = 0;
        for (from, len) in partial.pieces.iter().take(count as usize) {
            let (from, len) = (usize::from(*from), usize::from(*len));
            let piece = octets.get(from..from + len).ok_or(NdnError::PacketTooLarge)?;
            let to = whole.get_mut(length..length + len).ok_or(NdnError::PacketTooLarge)?;
            to.copy_from_slice(piece);
            length += len;
        }
        Payload::network(whole.get(..length).unwrap_or_default()).map(Some)
    }

    /// The place of the packet, which it gets if it has none.
    fn place(&mut self, now: Instant, face: u32, message: u64, count: u64) -> usize {
        let is_live = |partial: &Partial| partial.received != 0 && now <= partial.until;
        if let Some(at) = self.partials.iter().position(|partial| {
            is_live(partial) && partial.face == face && partial.message == message
        }) {
            return at;
        }
        let ends = |partial: &Partial| if is_live(partial) { partial.until } else { Instant::ZERO };
        let at = self
            .partials
            .iter()
            .enumerate()
            .min_by_key(|(_, partial)| ends(partial))
            .map_or(0, |(at, _)| at);
        if let Some(partial) = self.partials.get_mut(at) {
            *partial = Partial {
                face,
                message,
                count,
                until: now.after(self.lifetime),
                ..Partial::vacant()
            };
        }
        at
    }
}
