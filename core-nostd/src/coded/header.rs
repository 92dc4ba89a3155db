//! The CODED IP header of the paper (section III.A, figure 1), right after the IP header:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   PROTOCOL    |  SESSION_ID   |          SESSION_LEN          |
//! +---------------+---------------+---------------+---------------+
//! |            GEN_ID             |   GEN_SIZE    |   BLOCK_LEN   |
//! +---------------+---------------+---------------+---------------+
//! |  CODING VECTOR, GEN_SIZE octets ...                           |
//! +---------------------------------------------------------------+
//! |  coded block, 8 * BLOCK_LEN octets ...                        |
//! +---------------------------------------------------------------+
//! ```
//!
//! The paper gives BLOCK_LEN eight bits and uses blocks of 400 and 467 octets, so it counts units of
//! [`BLOCK_LEN_UNIT_OCTETS`] here. The field of the coding vector is GF(2^8) with polynomial 0x11B.

use super::CodedError;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U16};

/// Octets of the header without the coding vector.
pub const CODED_HEADER_OCTETS: usize = 8;

/// Octets that one unit of BLOCK_LEN stands for.
pub const BLOCK_LEN_UNIT_OCTETS: usize = 8;

/// The longest block that BLOCK_LEN can tell, in octets.
pub const MAX_BLOCK_OCTETS: usize = BLOCK_LEN_UNIT_OCTETS * u8::MAX as usize;

/// The fields before the coding vector. Relays copy them as they are (section III.A).
#[repr(C)]
#[derive(
    Copy,
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
pub struct CodedHeader {
    /// PROTOCOL: the protocol field of the original IP header.
    pub protocol: u8,
    /// SESSION_ID: the content distribution session, one of those of its source and group.
    pub session_id: u8,
    session_len: U16,
    gen_id: U16,
    /// GEN_SIZE: the blocks of the generation, K.
    pub gen_size: u8,
    /// BLOCK_LEN in units of [`BLOCK_LEN_UNIT_OCTETS`].
    pub block_len_units: u8,
}

impl CodedHeader {
    /// The header of no generation.
    pub(super) const VACANT: Self = Self {
        protocol: 0,
        session_id: 0,
        session_len: U16::ZERO,
        gen_id: U16::ZERO,
        gen_size: 0,
        block_len_units: 0,
    };

    /// A header of these values.
    pub fn new(
        protocol: u8,
        session_id: u8,
        session_len: u16,
        gen_id: u16,
        gen_size: u8,
        block_len_units: u8,
    ) -> Self {
        Self {
            protocol,
            session_id,
            session_len: U16::new(session_len),
            gen_id: U16::new(gen_id),
            gen_size,
            block_len_units,
        }
    }

    /// SESSION_LEN: generations of the session in all, 0 for an open stream.
    pub fn session_len(&self) -> u16 {
        self.session_len.get()
    }

    /// GEN_ID: the generation, compared as a serial number (RFC 1982).
    pub fn gen_id(&self) -> u16 {
        self.gen_id.get()
    }

    /// K, the number of blocks and of octets in the coding vector.
    pub fn generation_size(&self) -> usize {
        usize::from(self.gen_size)
    }

    /// N, the octets of the coded block.
    pub fn block_octets(&self) -> usize {
        usize::from(self.block_len_units) * BLOCK_LEN_UNIT_OCTETS
    }

    /// Checks an IP payload and takes it apart: the header, and coding vector and block as one run of K + N octets.
    ///
    /// # Errors
    /// What is wrong with it: [`CodedError::HeaderTruncated`], [`CodedError::GenSizeZero`],
    /// [`CodedError::BlockLenZero`], [`CodedError::VectorTruncated`], [`CodedError::BlockLen`] or [`CodedError::GenId`].
    pub fn parse(ip_payload: &[u8]) -> Result<(Self, &[u8]), CodedError> {
        let (header, row) =
            Self::read_from_prefix(ip_payload).map_err(|_| CodedError::HeaderTruncated)?;
        let k = header.generation_size();
        if k == 0 {
            return Err(CodedError::GenSizeZero);
        }
        if header.block_len_units == 0 {
            return Err(CodedError::BlockLenZero);
        }
        if row.len() < k {
            return Err(CodedError::VectorTruncated);
        }
        if row.len() != k + header.block_octets() {
            return Err(CodedError::BlockLen);
        }
        if header.session_len() != 0 && header.gen_id() > header.session_len() {
            return Err(CodedError::GenId);
        }
        Ok((header, row))
    }
}

/// Units of BLOCK_LEN for a block of `octets`, rounded up; none when BLOCK_LEN cannot tell it.
pub fn block_len_units(octets: usize) -> Option<u8> {
    u8::try_from(octets.div_ceil(BLOCK_LEN_UNIT_OCTETS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_paper_in_units() {
        assert_eq!(block_len_units(400), Some(50));
        assert_eq!(block_len_units(467), Some(59)); // 472 octets
        assert_eq!(block_len_units(476), Some(60)); // 480 octets
        assert_eq!(block_len_units(MAX_BLOCK_OCTETS), Some(255));
        assert_eq!(block_len_units(MAX_BLOCK_OCTETS + 1), None);
    }

    #[test]
    fn the_fields_lie_where_the_paper_draws_them() {
        let header = CodedHeader::new(17, 2, 0x0304, 0x0506, 3, 60);
        assert_eq!(header.as_bytes(), [17, 2, 3, 4, 5, 6, 3, 60]);
    }
}
