//! One piece of a file in a UDP datagram.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |  magic, "HF"                  |  transfer                     |
//! +-------------------------------+-------------------------------+
//! |  offset of the piece in the file, 48 bits                     |
//! +                               +-------------------------------+
//! |                               |                               |
//! +-------------------------------+                               +
//! |  length of the whole file, 48 bits                            |
//! +---------------------------------------------------------------+
//! |  the piece                                                    |
//! ```
//!
//! All numbers are big-endian. `transfer` is drawn by the sender, so that a receiver does not mix two files.

/// Octets before the piece.
pub const HEADER_OCTETS: usize = 16;

/// The longest file that the header can describe, in octets.
pub const MAX_FILE_OCTETS: u64 = (1 << 48) - 1;

const MAGIC: u16 = u16::from_be_bytes(*b"HF");

/// What stands before a piece of a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The transfer that the piece belongs to.
    pub transfer: u16,
    /// Where the piece starts in the file, in octets; 48 bits.
    pub offset: u64,
    /// The length of the file in octets; 48 bits.
    pub total: u64,
}

impl Header {
    /// The header's octets.
    pub fn to_bytes(self) -> [u8; HEADER_OCTETS] {
        let word = u128::from(MAGIC) << 112
            | u128::from(self.transfer) << 96
            | u128::from(self.offset & MAX_FILE_OCTETS) << 48
            | u128::from(self.total & MAX_FILE_OCTETS);
        word.to_be_bytes()
    }

    /// The header and the piece of a datagram; nothing when it is none of ours or its piece does not lie in the file.
    pub fn parse(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, piece) = datagram.split_first_chunk::<HEADER_OCTETS>()?;
        let word = u128::from_be_bytes(*header);
        let low = |shift: u32| (word >> shift) as u64 & MAX_FILE_OCTETS;
        let header = Self { transfer: (word >> 96) as u16, offset: low(48), total: low(0) };
        let end = header.offset.checked_add(piece.len() as u64)?;
        ((word >> 112) as u16 == MAGIC && end <= header.total).then_some((header, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let header = Header { transfer: 0x0102, offset: 0x0A0B_0C0D_0E0F, total: 0x1112_1314_1516 };
        let bytes = header.to_bytes();
        assert_eq!(bytes, *b"HF\x01\x02\x0A\x0B\x0C\x0D\x0E\x0F\x11\x12\x13\x14\x15\x16");
        let datagram = [&bytes[..], b"piece"].concat();
        assert_eq!(Header::parse(&datagram), Some((header, &b"piece"[..])));
    }

    #[test]
    fn foreign_datagrams_are_refused() {
        let header = Header { transfer: 1, offset: 10, total: 14 };
        let datagram = [&header.to_bytes()[..], b"piece"].concat();
        assert_eq!(Header::parse(&datagram), None, "the piece ends after the file");
        assert!(Header::parse(&datagram[..20]).is_some());
        assert_eq!(Header::parse(&datagram[..15]), None, "the header is cut off");
        let mut other = datagram[..20].to_vec();
        other[0] = b'h';
        assert_eq!(Header::parse(&other), None, "the magic is another");
    }
}
