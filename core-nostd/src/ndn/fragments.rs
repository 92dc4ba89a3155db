//! Fragments that follow their first one without being put together.

use super::{LpHeader, NdnError};
use crate::node::Instant;
use core::time::Duration;

/// Places that one packet's state can be in: so many are looked at for each fragment.
const WAYS: usize = 8;

/// A place for what was decided about one packet, on memory of the caller.
#[derive(Copy, Clone, Debug)]
pub struct FragmentFlow<T> {
    face: u32,
    message: u64,
    count: u64,
    /// Fragments still to come; 0 when the place is free.
    left: u64,
    until: Instant,
    decision: T,
}

impl<T> FragmentFlow<T> {
    /// A free place.
    pub const fn vacant(decision: T) -> Self {
        Self { face: 0, message: 0, count: 0, left: 0, until: Instant::ZERO, decision }
    }
}

/// One fragment: where it came from and which of which packet it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    face: u32,
    /// The Sequence of the packet's first fragment.
    message: u64,
    count: u64,
}

impl Piece {
    /// The piece that a link packet from `face` with this header is.
    ///
    /// # Errors
    /// [`NdnError::FragmentSequenceMissing`] when it has no Sequence, or [`NdnError::FragmentSequenceUnderflow`].
    pub fn new(face: u32, header: &LpHeader<'_>) -> Result<Self, NdnError> {
        let sequence = header.sequence.ok_or(NdnError::FragmentSequenceMissing)?;
        let message =
            sequence.checked_sub(header.index()).ok_or(NdnError::FragmentSequenceUnderflow)?;
        Ok(Self { face, message, count: header.count() })
    }
}

/// What was decided about packets whose first fragment has passed, until the last has or time is over. Bounded: when there is no
/// place left, the packet that is nearest to its end gives way.
#[derive(Debug)]
pub struct FragmentFlows<'m, T> {
    places: &'m mut [FragmentFlow<T>],
    lifetime: Duration,
    secret: u64,
}

impl<'m, T: Copy> FragmentFlows<'m, T> {
    /// State in these places, best a multiple of 8 of them. A packet is forgotten `lifetime` after its first fragment. Who does
    /// not know `secret` cannot choose packets whose places collide.
    pub const fn new(places: &'m mut [FragmentFlow<T>], lifetime: Duration, secret: u64) -> Self {
        Self { places, lifetime, secret }
    }

    /// Keeps what was decided about the packet whose first fragment this is.
    pub fn begin(&mut self, now: Instant, piece: Piece, decision: T) {
        let until = now.after(self.lifetime);
        let flow = FragmentFlow {
            face: piece.face,
            message: piece.message,
            count: piece.count,
            left: piece.count.saturating_sub(1),
            until,
            decision,
        };
        let ways = self.ways(&piece);
        let is_same =
            |way: &FragmentFlow<T>| way.face == piece.face && way.message == piece.message;
        let at = ways.iter().position(|way| way.left > 0 && is_same(way)).or_else(|| {
            let ends =
                |way: &FragmentFlow<T>| if way.left == 0 { Instant::ZERO } else { way.until };
            (0..ways.len()).min_by_key(|at| ways.get(*at).map(ends))
        });
        if let Some(way) = at.and_then(|at| ways.get_mut(at)) {
            *way = flow;
        }
    }

    /// What was decided about the packet that this later fragment belongs to.
    ///
    /// # Errors
    /// [`NdnError::FragmentWithoutFirst`] or [`NdnError::FragmentCountChanged`].
    pub fn follow(&mut self, now: Instant, piece: Piece) -> Result<T, NdnError> {
        let way = self
            .ways(&piece)
            .iter_mut()
            .find(|way| {
                way.left > 0
                    && way.face == piece.face
                    && way.message == piece.message
                    && now <= way.until
            })
            .ok_or(NdnError::FragmentWithoutFirst)?;
        if way.count != piece.count {
            return Err(NdnError::FragmentCountChanged);
        }
        way.left -= 1;
        Ok(way.decision)
    }

    fn ways(&mut self, piece: &Piece) -> &mut [FragmentFlow<T>] {
        let key = piece.message ^ (u64::from(piece.face) << 40) ^ self.secret;
        let product = u128::from(key) * u128::from(self.secret | 1) * 0x9E37_79B9_7F4A_7C15;
        let hash = (product as u64) ^ ((product >> 64) as u64);
        let sets = (self.places.len() / WAYS).max(1) as u64;
        let from = (hash % sets) as usize * WAYS;
        let to = (from + WAYS).min(self.places.len());
        self.places.get_mut(from..to).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn piece(face: u32, sequence: u64, index: u64, count: u64) -> Piece {
        let header = LpHeader {
            sequence: Some(sequence),
            frag_index: Some(index),
            frag_count: Some(count),
            ..LpHeader::default()
        };
        Piece::new(face, &header).unwrap()
    }

    #[test]
    fn later_fragments_follow_the_first_of_their_face() {
        let mut places = [FragmentFlow::vacant(0); 16];
        let mut flows = FragmentFlows::new(&mut places, SECOND, 7);
        let now = Instant::from_nanos(5);
        flows.begin(now, piece(1, 10, 0, 3), 'a' as u32);
        flows.begin(now, piece(2, 10, 0, 3), 'b' as u32);
        assert_eq!(flows.follow(now, piece(1, 12, 2, 3)), Ok('a' as u32));
        assert_eq!(flows.follow(now, piece(2, 11, 1, 3)), Ok('b' as u32));
        assert_eq!(flows.follow(now, piece(1, 11, 1, 4)), Err(NdnError::FragmentCountChanged));
        assert_eq!(flows.follow(now, piece(1, 11, 1, 3)), Ok('a' as u32));
        assert_eq!(flows.follow(now, piece(1, 11, 1, 3)), Err(NdnError::FragmentWithoutFirst));
        assert_eq!(flows.follow(now, piece(3, 11, 1, 3)), Err(NdnError::FragmentWithoutFirst));
    }

    #[test]
    fn state_is_bounded_and_ends() {
        let mut places = [FragmentFlow::vacant(0u64); 8];
        let mut flows = FragmentFlows::new(&mut places, SECOND, 7);
        for message in 0..20u64 {
            flows.begin(Instant::from_nanos(message), piece(1, message * 2, 0, 2), message);
        }
        let now = Instant::from_nanos(20);
        let alive: Vec<_> = (0..20u64)
            .filter(|message| flows.follow(now, piece(1, message * 2 + 1, 1, 2)) == Ok(*message))
            .collect();
        assert_eq!(alive, [12, 13, 14, 15, 16, 17, 18, 19]);
        flows.begin(now, piece(1, 100, 0, 2), 1);
        let late = now.after(2 * SECOND);
        assert_eq!(flows.follow(late, piece(1, 101, 1, 2)), Err(NdnError::FragmentWithoutFirst));
    }

    #[test]
    fn no_place_at_all_is_no_panic() {
        let mut flows: FragmentFlows<'_, u8> = FragmentFlows::new(&mut [], SECOND, 7);
        flows.begin(Instant::ZERO, piece(1, 1, 0, 2), 1);
        assert!(flows.follow(Instant::ZERO, piece(1, 2, 1, 2)).is_err());
    }
}
