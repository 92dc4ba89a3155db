//! What a forwarder changes in an Interest on its way.

use super::tlv::{element_octets, types, write, write_number};
use super::{Interest, NdnError};

/// Octets of a Nonce element.
pub const NONCE_ELEMENT_OCTETS: usize = 6;

/// What is left of an Interest's HopLimit on this node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HopLimit {
    /// The Interest has none.
    Unlimited,
    /// It may go further, with this HopLimit at this octet of [`Interest::octets`].
    Left {
        /// The new value.
        hops: u8,
        /// The place of the HopLimit's value.
        at: usize,
    },
    /// It may be delivered on this node only.
    LocalOnly,
}

/// Takes one hop off an Interest that has arrived.
///
/// # Errors
/// [`NdnError::HopLimitZero`]: it should not have been sent.
pub fn pass_hop(interest: &Interest<'_>) -> Result<HopLimit, NdnError> {
    let (Some(hops), Some(to_end)) = (interest.hop_limit, interest.hop_limit_to_end) else {
        return Ok(HopLimit::Unlimited);
    };
    match hops {
        0 => Err(NdnError::HopLimitZero),
        1 => Ok(HopLimit::LocalOnly),
        _ => {
            Ok(HopLimit::Left { hops: hops - 1, at: interest.octets.len().saturating_sub(to_end) })
        }
    }
}

/// Writes the Interest, which has no Nonce, with this one to `out`, and returns the number of octets. A digest of parameters
/// does not cover the Nonce, so it stays right.
///
/// # Errors
/// [`NdnError::ElementOrder`] when it has a Nonce, or [`NdnError::NoRoom`].
pub fn write_with_nonce(
    interest: &Interest<'_>,
    nonce: [u8; 4],
    out: &mut [u8],
) -> Result<usize, NdnError> {
    if interest.nonce.is_some() {
        return Err(NdnError::ElementOrder);
    }
    let (_, _, value) = super::tlv::header(interest.octets)?;
    let (before, after) = value
        .split_at_checked(value.len().saturating_sub(interest.nonce_to_end))
        .ok_or(NdnError::NoRoom)?;
    let value_octets = value.len() + NONCE_ELEMENT_OCTETS;
    let out = write_number(types::INTEREST.into(), out)?;
    let out = write_number(value_octets as u64, out)?;
    let out = write(before, out)?;
    let out = write(&[types::NONCE as u8, nonce.len() as u8], out)?;
    let out = write(&nonce, out)?;
    write(after, out)?;
    Ok(element_octets(types::INTEREST, value_octets))
}

#[cfg(test)]
mod tests {
    use super::super::{Link, Packet, Payload};
    use super::*;

    fn interest(octets: &[u8]) -> Interest<'_> {
        match Packet::parse(octets, Link::Datagram).unwrap().payload {
            Payload::Interest(interest) => interest,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hop_is_taken_off_where_it_stands() {
        let octets = *b"\x05\x0b\x07\x03\x08\x01a\x22\x01\x09\xfc\x01z";
        let left = pass_hop(&interest(&octets)).unwrap();
        assert_eq!(left, HopLimit::Left { hops: 8, at: 9 });
        assert_eq!(
            pass_hop(&interest(b"\x05\x08\x07\x03\x08\x01a\x22\x01\x01")),
            Ok(HopLimit::LocalOnly)
        );
        assert_eq!(
            pass_hop(&interest(b"\x05\x08\x07\x03\x08\x01a\x22\x01\x00")),
            Err(NdnError::HopLimitZero)
        );
        assert_eq!(pass_hop(&interest(b"\x05\x05\x07\x03\x08\x01a")), Ok(HopLimit::Unlimited));
    }

    #[test]
    fn a_nonce_is_added_in_its_place() {
        for octets in [
            &b"\x05\x05\x07\x03\x08\x01a"[..],
            b"\x05\x0a\x07\x03\x08\x01a\x21\x00\x22\x01\x09",
            b"\x05\x09\x07\x03\x08\x01a\x12\x00\xfc\x00",
            b"\x05\x0c\x07\x03\x08\x01a\x0c\x02\x03\xe8\x22\x01\x09",
        ] {
            let before = interest(octets);
            let mut out = [0; 64];
            let len = write_with_nonce(&before, [1, 2, 3, 4], &mut out).unwrap();
            let after = interest(&out[..len]);
            assert_eq!(after.nonce, Some([1, 2, 3, 4]));
            assert_eq!(
                (after.name, after.can_be_prefix, after.must_be_fresh, after.hop_limit),
                (before.name, before.can_be_prefix, before.must_be_fresh, before.hop_limit)
            );
            assert_eq!(len, octets.len() + NONCE_ELEMENT_OCTETS);
            assert_eq!(write_with_nonce(&after, [0; 4], &mut [0; 64]), Err(NdnError::ElementOrder));
            assert_eq!(
                write_with_nonce(&before, [0; 4], &mut out[..len - 1]),
                Err(NdnError::NoRoom)
            );
        }
    }

    #[test]
    fn a_length_grows_by_an_octet_form_when_it_must() {
        let mut octets = vec![5, 0xfc, 7, 0xfa, 8, 0xf8];
        octets.resize(254, b'x');
        let mut out = [0; 300];
        let len = write_with_nonce(&interest(&octets), [9; 4], &mut out).unwrap();
        assert_eq!(len, 254 + 6 + 2);
        assert_eq!(interest(&out[..len]).nonce, Some([9; 4]));
    }
}
