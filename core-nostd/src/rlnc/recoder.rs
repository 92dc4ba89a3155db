//! Recoding: new packets out of the packets at hand, without decoding.

use super::elimination::check_vector;
use super::store::Layout;
use super::{Arrival, CoefficientGenerator, Combinations, Elimination, RlncError};
use crate::gf::{Field, MAX_VECTOR_OCTETS, RowSet};

/// Makes one packet of any packets, held wherever: the sum of each, times its coefficient.
///
/// `coefficients` are packed, one for each row of `vectors` and of `payloads`; all rows have the lengths of
/// `vector` and `payload`.
///
/// # Errors
/// [`RlncError::CoefficientCount`]; [`RlncError::VectorLength`] and [`RlncError::PayloadLength`] when a row has another
/// length than its output; [`RlncError::ZeroVector`] when the packet must not go out (`vector` is then zero, `payload` as it was).
pub fn recode<F: Field>(
    coefficients: &[u8],
    vectors: &(impl RowSet + ?Sized),
    payloads: &(impl RowSet + ?Sized),
    vector: &mut [u8],
    payload: &mut [u8],
) -> Result<(), RlncError> {
    let count = vectors.count();
    if payloads.count() != count
        || coefficients.len() != super::vector_octets::<F>(count)
        || count == 0
    {
        return Err(RlncError::CoefficientCount);
    }
    for index in 0..count {
        if vectors.row(index).len() != vector.len() {
            return Err(RlncError::VectorLength);
        }
        if payloads.row(index).len() != payload.len() {
            return Err(RlncError::PayloadLength);
        }
    }
    F::dot(vector, coefficients, vectors);
    if vector.iter().all(|octet| *octet == 0) {
        return Err(RlncError::ZeroVector);
    }
    F::dot(payload, coefficients, payloads);
    Ok(())
}

/// The packets of one generation that are innovative, as received, in memory of the caller.
#[derive(Copy, Clone, Debug)]
pub struct RecoderState<F> {
    pub(super) layout: Layout<F>,
    pub(super) elimination: Elimination<F>,
}

impl<F: Field> RecoderState<F> {
    /// Octets of memory for a generation of `k` blocks of `block_octets`.
    pub const fn memory_octets(k: u8, block_octets: usize) -> usize {
        match Layout::<F>::new(k, block_octets) {
            Ok(layout) => layout.octets().saturating_add(Elimination::<F>::memory_octets(k)),
            Err(_) => 0,
        }
    }

    /// An empty recoder.
    ///
    /// # Errors
    /// [`RlncError::KZero`], [`RlncError::BlockLenZero`], [`RlncError::BlockLen`].
    pub const fn new(k: u8, block_octets: usize) -> Result<Self, RlncError> {
        let layout = match Layout::new(k, block_octets) {
            Ok(layout) => layout,
            Err(error) => return Err(error),
        };
        match Elimination::new(k) {
            Ok(elimination) => Ok(Self { layout, elimination }),
            Err(error) => Err(error),
        }
    }

    /// The number of blocks of the generation.
    pub const fn k(&self) -> u8 {
        self.layout.k
    }

    /// Octets of each block.
    pub const fn block_octets(&self) -> usize {
        self.layout.block_octets()
    }

    /// The number of packets held, all of them independent.
    pub const fn rank(&self) -> u8 {
        self.elimination.rank()
    }

    /// Whether no further packet can be innovative.
    pub const fn is_complete(&self) -> bool {
        self.elimination.is_complete()
    }

    /// Takes a packet in; it is kept when it is innovative.
    ///
    /// # Errors
    /// [`RlncError::VectorLength`], [`RlncError::VectorPadding`], [`RlncError::PayloadLength`], [`RlncError::MemoryTooSmall`].
    pub fn insert(
        &mut self,
        memory: &mut [u8],
        vector: &[u8],
        payload: &[u8],
    ) -> Result<Arrival, RlncError> {
        self.insert_tracked(memory, vector, payload, false)
    }

    #[inline]
    pub(super) fn insert_tracked(
        &mut self,
        memory: &mut [u8],
        vector: &[u8],
        payload: &[u8],
        tracked: bool,
    ) -> Result<Arrival, RlncError> {
        self.elimination.check(vector)?;
        if payload.len() != self.block_octets() {
            return Err(RlncError::PayloadLength);
        }
        let (packets, matrix) =
            memory.split_at_mut_checked(self.layout.octets()).ok_or(RlncError::MemoryTooSmall)?;
        let place = self.rank();
        let arrival = self.elimination.reduce(matrix, vector, tracked)?;
        if matches!(arrival, Arrival::Innovative { .. }) {
            self.layout.put(packets, place, vector, payload)?;
        }
        Ok(arrival)
    }

    /// Makes a packet with given coefficients: packed, one for each packet held, in the order of arrival.
    ///
    /// # Errors
    /// [`RlncError::NothingHeld`], [`RlncError::CoefficientCount`], [`RlncError::VectorPadding`], [`RlncError::VectorLength`],
    /// [`RlncError::PayloadLength`], [`RlncError::MemoryTooSmall`], [`RlncError::ZeroVector`].
    pub fn recode(
        &self,
        memory: &[u8],
        coefficients: &[u8],
        vector: &mut [u8],
        payload: &mut [u8],
    ) -> Result<(), RlncError> {
        self.check_coefficients(memory, coefficients)?;
        if vector.len() != self.layout.vector_octets() {
            return Err(RlncError::VectorLength);
        }
        if payload.len() != self.block_octets() {
            return Err(RlncError::PayloadLength);
        }
        F::dot(vector, coefficients, &self.layout.vectors(memory, self.rank()));
        F::dot(payload, coefficients, &self.layout.payloads(memory, self.rank()));
        Ok(())
    }

    /// Makes a packet with given coefficients, its payload right after its vector in one buffer.
    ///
    /// # Errors
    /// As [`recode`](Self::recode), with [`RlncError::OutputLength`] for a buffer of the wrong length.
    pub fn recode_packet(
        &self,
        memory: &[u8],
        coefficients: &[u8],
        packet: &mut [u8],
    ) -> Result<(), RlncError> {
        self.check_coefficients(memory, coefficients)?;
        if packet.len() != self.layout.vector_octets() + self.block_octets() {
            return Err(RlncError::OutputLength);
        }
        F::dot(packet, coefficients, &self.layout.packets(memory, self.rank()));
        Ok(())
    }

    /// Makes a packet with coefficients from `generator`, none of them zero (in GF(2): not all of them).
    ///
    /// # Errors
    /// As [`recode`](Self::recode).
    pub fn recode_random(
        &self,
        memory: &[u8],
        generator: &mut CoefficientGenerator,
        vector: &mut [u8],
        payload: &mut [u8],
    ) -> Result<(), RlncError> {
        let mut coefficients = [0; MAX_VECTOR_OCTETS];
        self.recode(memory, self.draw(generator, &mut coefficients), vector, payload)
    }

    /// Makes a packet with the next of `combinations`, its payload right after its vector in one buffer: never the same packet twice as long as
    /// the sequence lasts.
    ///
    /// # Errors
    /// As [`recode_packet`](Self::recode_packet).
    pub fn recode_packet_next(
        &self,
        memory: &[u8],
        combinations: &mut Combinations,
        packet: &mut [u8],
    ) -> Result<(), RlncError> {
        let mut coefficients = [0; MAX_VECTOR_OCTETS];
        let used = coefficients
            .get_mut(..super::vector_octets::<F>(self.rank().into()))
            .unwrap_or_default();
        combinations.next::<F>(self.rank(), used);
        self.recode_packet(memory, used, packet)
    }

    /// Makes a packet as [`recode_random`](Self::recode_random) does, its payload right after its vector in one buffer.
    ///
    /// # Errors
    /// As [`recode_packet`](Self::recode_packet).
    pub fn recode_packet_random(
        &self,
        memory: &[u8],
        generator: &mut CoefficientGenerator,
        packet: &mut [u8],
    ) -> Result<(), RlncError> {
        let mut coefficients = [0; MAX_VECTOR_OCTETS];
        self.recode_packet(memory, self.draw(generator, &mut coefficients), packet)
    }

    fn draw<'a>(
        &self,
        generator: &mut CoefficientGenerator,
        coefficients: &'a mut [u8; MAX_VECTOR_OCTETS],
    ) -> &'a [u8] {
        let held = usize::from(self.rank());
        let used = coefficients.get_mut(..super::vector_octets::<F>(held)).unwrap_or_default();
        generator.fill_non_zero::<F>(used, held);
        used
    }

    fn check_coefficients(&self, memory: &[u8], coefficients: &[u8]) -> Result<(), RlncError> {
        if memory.len() < self.layout.octets() {
            return Err(RlncError::MemoryTooSmall);
        }
        if self.rank() == 0 {
            return Err(RlncError::NothingHeld);
        }
        check_vector::<F>(coefficients, self.rank()).map_err(|error| match error {
            RlncError::VectorLength => RlncError::CoefficientCount,
            other => other,
        })?;
        // The packets held are independent, so only zero coefficients give a zero vector.
        if coefficients.iter().all(|octet| *octet == 0) {
            return Err(RlncError::ZeroVector);
        }
        Ok(())
    }
}

/// A [`RecoderState`] with its memory.
#[derive(Debug)]
pub struct Recoder<'m, F> {
    state: RecoderState<F>,
    memory: &'m mut [u8],
}

impl<'m, F: Field> Recoder<'m, F> {
    /// An empty recoder in `memory` of [`RecoderState::memory_octets`] octets at least.
    ///
    /// # Errors
    /// As [`RecoderState::new`], and [`RlncError::MemoryTooSmall`].
    pub fn new(k: u8, block_octets: usize, memory: &'m mut [u8]) -> Result<Self, RlncError> {
        let state = RecoderState::new(k, block_octets)?;
        if memory.len() < RecoderState::<F>::memory_octets(k, block_octets) {
            return Err(RlncError::MemoryTooSmall);
        }
        Ok(Self { state, memory })
    }

    /// The state: sizes and rank.
    pub const fn state(&self) -> &RecoderState<F> {
        &self.state
    }

    /// See [`RecoderState::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&mut self, vector: &[u8], payload: &[u8]) -> Result<Arrival, RlncError> {
        self.state.insert(self.memory, vector, payload)
    }

    /// See [`RecoderState::recode`].
    ///
    /// # Errors
    /// As there.
    pub fn recode(
        &self,
        coefficients: &[u8],
        vector: &mut [u8],
        payload: &mut [u8],
    ) -> Result<(), RlncError> {
        self.state.recode(self.memory, coefficients, vector, payload)
    }

    /// See [`RecoderState::recode_random`].
    ///
    /// # Errors
    /// As there.
    pub fn recode_random(
        &self,
        generator: &mut CoefficientGenerator,
        vector: &mut [u8],
        payload: &mut [u8],
    ) -> Result<(), RlncError> {
        self.state.recode_random(self.memory, generator, vector, payload)
    }
}
