//! What a forwarder changes in an Interest on its way.

use super::packet::{Packet, Payload};
use super::tlv::{element_octets, types, write, write_number};
use super::{Interest, MAX_PACKET_OCTETS, NdnError};

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

/// How a packet around an Interest without a Nonce grows in its own place.
#[derive(Copy, Clone, Debug)]
pub struct NonceGap {
    /// Octets of the packet as it is.
    old_octets: usize,
    /// Octets of the elements' values as they are: of the Interest and, around it, of the link packet.
    interest: usize,
    link: Option<usize>,
    /// Octets from where the Nonce belongs to the end.
    to_end: usize,
    growth: Growth,
}

/// Octets by which elements' headers get longer: the Interest's, the Fragment's, the link packet's.
#[derive(Copy, Clone, Debug)]
struct Growth {
    interest: usize,
    fragment: usize,
    link: usize,
}

impl NonceGap {
    /// Where the Nonce goes in a packet that is an Interest without one, bare or whole in a link packet; nothing for all others.
    ///
    /// # Errors
    /// [`NdnError::NoRoom`] when it would become longer than [`MAX_PACKET_OCTETS`].
    pub fn of(packet: &Packet<'_>) -> Result<Option<Self>, NdnError> {
        let Payload::Interest(interest) = packet.payload else { return Ok(None) };
        if interest.nonce.is_some() {
            return Ok(None);
        }
        let value_octets = |octets| super::tlv::header(octets).map(|(_, _, value)| value.len());
        let header_growth = |value: usize, more: usize| {
            element_octets(1, value + more) - element_octets(1, value) - more
        };
        let inner = value_octets(interest.octets)?;
        let mut growth =
            Growth { interest: header_growth(inner, NONCE_ELEMENT_OCTETS), fragment: 0, link: 0 };
        let mut link = None;
        if packet.octets.len() > interest.octets.len() {
            let outer = value_octets(packet.octets)?;
            let more = NONCE_ELEMENT_OCTETS + growth.interest;
            growth.fragment = header_growth(interest.octets.len(), more);
            growth.link = header_growth(outer, more + growth.fragment);
            link = Some(outer);
        }
        let gap = Self {
            old_octets: packet.octets.len(),
            interest: inner,
            link,
            to_end: interest.nonce_to_end,
            growth,
        };
        if gap.old_octets + gap.octets() > MAX_PACKET_OCTETS {
            return Err(NdnError::NoRoom);
        }
        Ok(Some(gap))
    }

    /// Octets by which the packet grows.
    pub const fn octets(&self) -> usize {
        let Growth { interest, fragment, link } = self.growth;
        NONCE_ELEMENT_OCTETS + interest + fragment + link
    }

    /// Opens the gap and fills it. `octets` is the packet with [`NonceGap::octets`] more behind it.
    ///
    /// # Errors
    /// [`NdnError::NoRoom`] when `octets` is of another length.
    pub fn fill(&self, nonce: [u8; 4], octets: &mut [u8]) -> Result<(), NdnError> {
        if octets.len() != self.old_octets + self.octets() {
            return Err(NdnError::NoRoom);
        }
        let Growth { interest, fragment, link } = self.growth;
        let more = NONCE_ELEMENT_OCTETS + interest;
        let place = self.old_octets.saturating_sub(self.to_end);
        let value_at = self.old_octets.saturating_sub(self.interest);
        let interest_octets = element_octets(types::INTEREST, self.interest);
        let interest_at = self.old_octets.saturating_sub(interest_octets);
        // From the end, so that nothing is overwritten before it has moved.
        move_back(octets, place, self.old_octets, self.octets());
        let shift = link + fragment + interest;
        let element = octets.get_mut(place + shift..).ok_or(NdnError::NoRoom)?;
        let element = write(&[types::NONCE as u8, nonce.len() as u8], element)?;
        write(&nonce, element)?;
        move_back(octets, value_at, place, shift);
        if let Some(outer) = self.link {
            let fields_at = self.old_octets.saturating_sub(outer);
            let fragment_octets = element_octets(types::FRAGMENT, interest_octets);
            let fragment_at = self.old_octets.saturating_sub(fragment_octets);
            move_back(octets, fields_at, fragment_at, link);
            let (head, rest) =
                octets.split_at_mut_checked(fragment_at + link).ok_or(NdnError::NoRoom)?;
            let head = write_number(types::LP_PACKET.into(), head)?;
            write_number((outer + more + fragment) as u64, head)?;
            let rest = write_number(types::FRAGMENT.into(), rest)?;
            write_number((interest_octets + more) as u64, rest)?;
        }
        let at = interest_at + link + fragment;
        let out = octets.get_mut(at..).ok_or(NdnError::NoRoom)?;
        let out = write_number(types::INTEREST.into(), out)?;
        write_number((self.interest + NONCE_ELEMENT_OCTETS) as u64, out)?;
        Ok(())
    }
}

/// Moves `octets[from..to]` towards the end.
fn move_back(octets: &mut [u8], from: usize, to: usize, by: usize) {
    for at in (from..to).rev() {
        let octet = octets.get(at).copied();
        if let (Some(octet), Some(place)) = (octet, octets.get_mut(at + by)) {
            *place = octet;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Link;
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

    /// Every length of names, around all lengths at which a header grows, bare and in a link packet with fields.
    #[test]
    fn a_nonce_is_added_where_the_packet_lies() {
        for name_octets in (1..600).chain(8100..8792) {
            let mut name = vec![0; 9];
            let left = write_number(name_octets as u64, &mut name).unwrap().len();
            name.truncate(9 - left);
            let component = [&[8][..], &name, &vec![b'n'; name_octets]].concat();
            let mut bare = vec![0; 9000];
            let left = {
                let out = write(&[7], &mut bare).unwrap();
                let out = write_number(component.len() as u64, out).unwrap();
                let out = write(&component, out).unwrap();
                write(b"\x0c\x02\x03\xe8", out).unwrap().len()
            };
            bare.truncate(9000 - left);
            let wrap = |kind: u32, value: &[u8]| {
                let mut out = vec![0; 10];
                let rest = write_number(kind.into(), &mut out).unwrap();
                let left = write_number(value.len() as u64, rest).unwrap().len();
                out.truncate(10 - left);
                [&out[..], value].concat()
            };
            let bare = wrap(types::INTEREST, &bare);
            let fields = b"\x62\x03abc".as_slice();
            let linked = wrap(types::LP_PACKET, &[fields, &wrap(types::FRAGMENT, &bare)].concat());
            for octets in [bare, linked] {
                let Ok(packet) = Packet::parse(&octets, Link::Datagram) else { continue };
                let gap = match NonceGap::of(&packet) {
                    Ok(gap) => gap.unwrap(),
                    Err(error) => {
                        assert_eq!(error, NdnError::NoRoom);
                        assert!(octets.len() + 16 > MAX_PACKET_OCTETS);
                        continue;
                    }
                };
                let mut grown = octets.clone();
                assert_eq!(gap.fill([1, 2, 3, 4], &mut grown), Err(NdnError::NoRoom));
                grown.resize(octets.len() + gap.octets(), 0xee);
                gap.fill([1, 2, 3, 4], &mut grown).unwrap();
                let after = Packet::parse(&grown, Link::Datagram).unwrap();
                assert_eq!(after.link.pit_token, packet.link.pit_token);
                let (Payload::Interest(old), Payload::Interest(new)) =
                    (packet.payload, after.payload)
                else {
                    panic!("no Interest");
                };
                assert_eq!((new.nonce, new.name), (Some([1, 2, 3, 4]), old.name));
                assert_eq!(new.lifetime_ms, 1000);
                assert!(NonceGap::of(&after).unwrap().is_none());
            }
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
