//! Integers of variable length (RFC 9000, 16): the two top bits of the first octet say whether there are 1, 2, 4 or 8.

/// One more than the largest number that can be written.
pub const VARINT_END: u64 = 1 << 62;

/// Takes a number off the front; nothing when the octets end before it does.
pub(super) fn split(octets: &[u8]) -> Option<(u64, &[u8])> {
    let first = *octets.first()?;
    let (number, rest) = octets.split_at_checked(1 << (first >> 6))?;
    let rest_of_number = number.iter().skip(1);
    let number = rest_of_number.fold(u64::from(first & 0x3f), |all, &o| (all << 8) | u64::from(o));
    Some((number, rest))
}

/// The octets that a number takes.
pub(super) const fn octets(number: u64) -> usize {
    match number {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Writes a number in as few octets as it needs to the front of `out` and gives the octets; nothing when it does not fit, or is too large.
pub(super) fn write(number: u64, out: &mut [u8]) -> Option<usize> {
    if number >= VARINT_END {
        return None;
    }
    let length = octets(number);
    let prefix = (length.trailing_zeros() as u8) << 6;
    let out = out.get_mut(..length)?;
    out.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(place, octet)| *place = octet);
    *out.first_mut()? |= prefix;
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 9000, appendix A.1.
        let examples: [(u64, &[u8]); 4] = [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ];
        for (number, octets) in examples {
            assert_eq!(split(octets), Some((number, &[][..])));
            let mut out = [0; 8];
            assert_eq!(write(number, &mut out), Some(octets.len()));
            assert_eq!(out[..octets.len()], *octets);
            assert_eq!(split(&octets[..octets.len() - 1]), None);
            assert_eq!(write(number, &mut out[..octets.len() - 1]), None);
        }
        assert_eq!(split(&[0x40, 0x25]), Some((37, &[][..])), "longer than needed is allowed");
        assert_eq!(write(VARINT_END, &mut [0; 8]), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number in (0u32..62).prop_flat_map(|bits| 0..(2u64 << bits).min(VARINT_END))) {
            let mut out = [0xa5; 9];
            let length = write(number, &mut out).unwrap();
            prop_assert_eq!(length, octets(number));
            prop_assert_eq!(split(&out), Some((number, &out[length..])));
        }
    }
}
