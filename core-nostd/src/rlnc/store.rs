//! Packets as received, one row for each: `[gap][vector][payload]`.
//!
//! The payload begins at a multiple of 64 octets of the memory, right after the vector, so that both can be read as one.
//! Rows are an odd multiple of 64 octets long: rows at a power of two would compete for a few sets of the first-level cache.

use super::{RlncError, vector_octets};
use crate::gf::{Field, Rows};
use core::marker::PhantomData;

/// The sizes of a generation and where its packets lie in memory.
#[derive(Copy, Clone, Debug)]
pub(super) struct Layout<F> {
    pub k: u8,
    pub block_octets: u32,
    field: PhantomData<F>,
}

impl<F: Field> Layout<F> {
    pub const fn new(k: u8, block_octets: usize) -> Result<Self, RlncError> {
        if k == 0 {
            return Err(RlncError::KZero);
        }
        if block_octets == 0 {
            return Err(RlncError::BlockLenZero);
        }
        if block_octets > 1 << 31 || (F::BITS == 16 && !block_octets.is_multiple_of(2)) {
            return Err(RlncError::BlockLen);
        }
        Ok(Self { k, block_octets: block_octets as u32, field: PhantomData })
    }

    pub const fn block_octets(&self) -> usize {
        self.block_octets as usize
    }

    pub const fn vector_octets(&self) -> usize {
        vector_octets::<F>(self.k as usize)
    }

    /// Octets before the payload in each row.
    const fn head_octets(&self) -> usize {
        self.vector_octets().next_multiple_of(64)
    }

    const fn stride_octets(&self) -> usize {
        let lines = (self.head_octets() + self.block_octets()).div_ceil(64);
        (lines | 1) * 64
    }

    /// Octets of the memory for K packets.
    pub const fn octets(&self) -> usize {
        (self.k as usize).saturating_mul(self.stride_octets())
    }

    /// The `count` first packets of `memory`, vector and payload in one row.
    pub fn packets<'a>(&self, memory: &'a [u8], count: u8) -> Rows<'a> {
        let skip = self.head_octets() - self.vector_octets();
        self.rows(memory, count, skip, self.vector_octets() + self.block_octets())
    }

    /// The vectors of the `count` first packets.
    pub fn vectors<'a>(&self, memory: &'a [u8], count: u8) -> Rows<'a> {
        let skip = self.head_octets() - self.vector_octets();
        self.rows(memory, count, skip, self.vector_octets())
    }

    /// The payloads of the `count` first packets.
    pub fn payloads<'a>(&self, memory: &'a [u8], count: u8) -> Rows<'a> {
        self.rows(memory, count, self.head_octets(), self.block_octets())
    }

    fn rows<'a>(&self, memory: &'a [u8], count: u8, skip: usize, octets: usize) -> Rows<'a> {
        let memory = memory.get(skip..).unwrap_or_default();
        Rows::exactly(memory, octets, self.stride_octets(), count.into())
    }

    /// Where packet `index` is put: its vector and its payload.
    pub fn packet_mut<'a>(
        &self,
        memory: &'a mut [u8],
        index: u8,
    ) -> Option<(&'a mut [u8], &'a mut [u8])> {
        let row = memory
            .get_mut(self.stride_octets().checked_mul(index.into())?..)?
            .get_mut(..self.stride_octets())?;
        let (head, rest) = row.split_at_mut_checked(self.head_octets())?;
        let vector = head.get_mut(self.head_octets() - self.vector_octets()..)?;
        Some((vector, rest.get_mut(..self.block_octets())?))
    }

    /// Puts a packet of the right sizes at `index`.
    pub fn put(
        &self,
        memory: &mut [u8],
        index: u8,
        vector: &[u8],
        payload: &[u8],
    ) -> Result<(), RlncError> {
        let (vector_place, payload_place) =
            self.packet_mut(memory, index).ok_or(RlncError::MemoryTooSmall)?;
        if vector_place.len() != vector.len() {
            return Err(RlncError::VectorLength);
        }
        if payload_place.len() != payload.len() {
            return Err(RlncError::PayloadLength);
        }
        vector_place.copy_from_slice(vector);
        payload_place.copy_from_slice(payload);
        Ok(())
    }
}
