//! Type, length, value: numbers in their shortest form, elements one after the other.

use super::NdnError;

/// Element types, hexadecimal as in the packet specification.
pub(super) mod types {
    pub const IMPLICIT_DIGEST: u32 = 0x01;
    pub const PARAMETERS_DIGEST: u32 = 0x02;
    pub const INTEREST: u32 = 0x05;
    pub const DATA: u32 = 0x06;
    pub const NAME: u32 = 0x07;
    pub const GENERIC: u32 = 0x08;
    pub const NONCE: u32 = 0x0a;
    pub const LIFETIME: u32 = 0x0c;
    pub const MUST_BE_FRESH: u32 = 0x12;
    pub const META_INFO: u32 = 0x14;
    pub const CONTENT: u32 = 0x15;
    pub const SIGNATURE_INFO: u32 = 0x16;
    pub const SIGNATURE_VALUE: u32 = 0x17;
    pub const CONTENT_TYPE: u32 = 0x18;
    pub const FRESHNESS: u32 = 0x19;
    pub const FINAL_BLOCK_ID: u32 = 0x1a;
    pub const FORWARDING_HINT: u32 = 0x1e;
    pub const CAN_BE_PREFIX: u32 = 0x21;
    pub const HOP_LIMIT: u32 = 0x22;
    pub const APPLICATION_PARAMETERS: u32 = 0x24;
    pub const INTEREST_SIGNATURE_INFO: u32 = 0x2c;
    pub const INTEREST_SIGNATURE_VALUE: u32 = 0x2e;
    // NDNLPv2 counts in decimal.
    pub const FRAGMENT: u32 = 80;
    pub const SEQUENCE: u32 = 81;
    pub const FRAG_INDEX: u32 = 82;
    pub const FRAG_COUNT: u32 = 83;
    pub const PIT_TOKEN: u32 = 98;
    pub const LP_PACKET: u32 = 100;
    pub const NACK: u32 = 800;
    pub const NACK_REASON: u32 = 801;
    pub const CONGESTION_MARK: u32 = 832;
    pub const ACK: u32 = 836;
    pub const TX_SEQUENCE: u32 = 840;
    pub const NON_DISCOVERY: u32 = 844;
    pub const PREFIX_ANNOUNCEMENT: u32 = 848;
}

/// Whether an element of this type may not be skipped by who does not know it.
pub(super) const fn is_critical(kind: u32) -> bool {
    kind <= 31 || kind & 1 == 1
}

/// One element: its type and its value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The TLV-TYPE, never 0.
    pub kind: u32,
    /// The TLV-VALUE.
    pub value: &'a [u8],
    /// Type, length and value.
    pub whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// The element that `octets` begin with, and what follows it.
    ///
    /// # Errors
    /// [`NdnError::Truncated`] when it does not end there, or what is wrong with its type or length.
    pub fn first(octets: &'a [u8]) -> Result<(Self, &'a [u8]), NdnError> {
        Self::take(octets).map_err(|error| match error {
            NdnError::LengthPastEnd => NdnError::Truncated,
            other => other,
        })
    }

    /// Like [`Element::first`], inside another element: there a length too great is [`NdnError::LengthPastEnd`].
    pub(super) fn take(octets: &'a [u8]) -> Result<(Self, &'a [u8]), NdnError> {
        let (kind, length, rest) = header(octets)?;
        let length = usize::try_from(length).map_err(|_| NdnError::LengthPastEnd)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(NdnError::LengthPastEnd)?;
        let whole = octets.get(..octets.len() - rest.len()).unwrap_or_default();
        Ok((Self { kind, value, whole }, rest))
    }

    /// A value that is a number of 1, 2, 4 or 8 octets.
    pub(super) fn integer(&self, otherwise: NdnError) -> Result<u64, NdnError> {
        match *self.value {
            [a] => Ok(a.into()),
            [a, b] => Ok(u16::from_be_bytes([a, b]).into()),
            [a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Ok(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
            _ => Err(otherwise),
        }
    }
}

/// The elements in a value, one after the other. After an error there is no further one.
#[derive(Copy, Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The elements in `value`.
    pub const fn new(value: &'a [u8]) -> Self {
        Self { rest: value }
    }

    /// What has not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, NdnError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = Element::take(self.rest);
        self.rest = taken.map_or(&[][..], |(_, rest)| rest);
        Some(taken.map(|(element, _)| element))
    }
}

/// Type and length of an element, and what follows them.
pub(super) fn header(octets: &[u8]) -> Result<(u32, u64, &[u8]), NdnError> {
    let (kind, rest) = number(octets, NdnError::NonMinimalType)?;
    let kind = u32::try_from(kind).map_err(|_| NdnError::TypeTooLarge)?;
    if kind == 0 {
        return Err(NdnError::TypeZero);
    }
    let (length, rest) = number(rest, NdnError::NonMinimalLength)?;
    Ok((kind, length, rest))
}

/// A VAR-NUMBER of 1, 3, 5 or 9 octets in its shortest form.
fn number(octets: &[u8], not_shortest: NdnError) -> Result<(u64, &[u8]), NdnError> {
    let (&first, rest) = octets.split_first().ok_or(NdnError::Truncated)?;
    let (value, least, rest) = match first {
        0xfd => {
            let (octets, rest) = rest.split_first_chunk().ok_or(NdnError::Truncated)?;
            (u64::from(u16::from_be_bytes(*octets)), 0xfd, rest)
        }
        0xfe => {
            let (octets, rest) = rest.split_first_chunk().ok_or(NdnError::Truncated)?;
            (u64::from(u32::from_be_bytes(*octets)), 0x1_0000, rest)
        }
        0xff => {
            let (octets, rest) = rest.split_first_chunk().ok_or(NdnError::Truncated)?;
            (u64::from_be_bytes(*octets), 0x1_0000_0000, rest)
        }
        small => (u64::from(small), 0, rest),
    };
    if value < least { Err(not_shortest) } else { Ok((value, rest)) }
}

/// Octets of `value` as a VAR-NUMBER.
pub const fn number_octets(value: u64) -> usize {
    match value {
        0..=0xfc => 1,
        0xfd..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Writes `value` as a VAR-NUMBER in its shortest form to the front of `out`, and returns what is left of `out`.
///
/// # Errors
/// [`NdnError::NoRoom`] when `out` is too short.
pub fn write_number(value: u64, out: &mut [u8]) -> Result<&mut [u8], NdnError> {
    let octets = value.to_be_bytes();
    let (marker, used): (&[u8], usize) = match number_octets(value) {
        1 => (&[], 1),
        3 => (&[0xfd], 2),
        5 => (&[0xfe], 4),
        _ => (&[0xff], 8),
    };
    let out = write(marker, out)?;
    write(octets.get(octets.len() - used..).unwrap_or_default(), out)
}

/// Copies `octets` to the front of `out` and returns what is left of `out`.
pub(super) fn write<'o>(octets: &[u8], out: &'o mut [u8]) -> Result<&'o mut [u8], NdnError> {
    let (to, rest) = out.split_at_mut_checked(octets.len()).ok_or(NdnError::NoRoom)?;
    to.copy_from_slice(octets);
    Ok(rest)
}

/// Octets of an element with a value of `value_octets`.
pub(super) const fn element_octets(kind: u32, value_octets: usize) -> usize {
    number_octets(kind as u64) + number_octets(value_octets as u64) + value_octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_written_is_the_number_read(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut octets = [0; 9];
            let left = write_number(value, &mut octets).unwrap().len();
            prop_assert_eq!(9 - left, number_octets(value));
            let read = number(&octets[..9 - left], NdnError::NonMinimalType).unwrap();
            prop_assert_eq!(read, (value, &[][..]));
        }

        #[test]
        fn elements_of_anything_end(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut octets_seen = 0;
            for element in Elements::new(&octets).flatten() {
                octets_seen += element.whole.len();
            }
            prop_assert!(octets_seen <= octets.len());
        }
    }
}
