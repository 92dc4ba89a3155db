//! The Internet checksum (RFC 1071).

/// A running ones' complement sum. Parts may be added in any order, but each part except the last must be of even length.
#[derive(Copy, Clone, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// A sum of nothing.
    pub const fn new() -> Self {
        Self(0)
    }

    /// The sum and the big-endian 16-bit words of `octets`; an odd last octet counts as the high half of a word.
    #[must_use]
    pub fn with(self, octets: &[u8]) -> Self {
        // Eight octets at a time, with end-around carry: the sum of 16-bit words does not care how they are grouped (RFC 1071, 2 (C)).
        let (words, rest) = octets.as_chunks::<8>();
        let mut sum = u128::from(self.0);
        for word in words {
            sum += u128::from(u64::from_be_bytes(*word));
        }
        let mut last = [0u8; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        sum += u128::from(u64::from_be_bytes(last));
        let folded = (sum as u64 as u128) + (sum >> 64);
        Self((folded as u64).wrapping_add((folded >> 64) as u64))
    }

    /// The sum and one 16-bit word.
    #[must_use]
    pub fn with_word(self, word: u16) -> Self {
        self.with(&word.to_be_bytes())
    }

    /// The checksum: the complement of the folded sum. Over octets that hold their own right checksum it is 0.
    pub const fn finish(self) -> u16 {
        let mut sum = self.0;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }
}

/// The Internet checksum of `octets`.
pub fn internet_checksum(octets: &[u8]) -> u16 {
    Checksum::new().with(octets).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Word by word, as RFC 1071 writes it.
    fn plain(octets: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in octets.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    proptest! {
        #[test]
        fn agrees_with_the_sum_by_words(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(internet_checksum(&octets), plain(&octets));
        }

        #[test]
        fn parts_add_up(octets in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            let (a, b) = octets.split_at((cut * 2).min(octets.len() / 2 * 2));
            prop_assert_eq!(Checksum::new().with(b).with(a).finish(), plain(&octets));
        }
    }
}
