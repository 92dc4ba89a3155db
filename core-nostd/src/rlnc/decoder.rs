//! Progressive decoding.

use super::elimination::{is_single, leading};
use super::recoder::RecoderState;
use super::store::Layout;
use super::{Arrival, BlockSet, Elimination, RlncError};
use crate::gf::{Field, RowSet, RowsMut};

/// A decoder's state: Gauss-Jordan elimination on the coding vectors with the transform beside it.
///
/// The payloads stay as received. Row j of the transform says of which packets a decodable block j is
/// the sum, so a payload is read only when its block is asked for, and once.
#[derive(Copy, Clone, Debug)]
pub struct DecoderState<F> {
    recoder: RecoderState<F>,
}

impl<F: Field> DecoderState<F> {
    /// Octets of memory for a generation of `k` blocks of `block_octets`.
    pub const fn memory_octets(k: u8, block_octets: usize) -> usize {
        match Layout::<F>::new(k, block_octets) {
            Ok(layout) => layout.octets().saturating_add(Elimination::<F>::matrix_octets(k, true)),
            Err(_) => 0,
        }
    }

    /// An empty decoder.
    ///
    /// # Errors
    /// [`RlncError::KZero`], [`RlncError::BlockLenZero`], [`RlncError::BlockLen`].
    pub const fn new(k: u8, block_octets: usize) -> Result<Self, RlncError> {
        match RecoderState::new(k, block_octets) {
            Ok(recoder) => Ok(Self { recoder }),
            Err(error) => Err(error),
        }
    }

    /// The number of blocks of the generation.
    pub const fn k(&self) -> u8 {
        self.recoder.k()
    }

    /// Octets of each block.
    pub const fn block_octets(&self) -> usize {
        self.recoder.block_octets()
    }

    /// The number of innovative packets so far.
    pub const fn rank(&self) -> u8 {
        self.recoder.rank()
    }

    /// Whether every block is decodable.
    pub const fn is_complete(&self) -> bool {
        self.recoder.is_complete()
    }

    /// The blocks that are decodable.
    pub const fn decodable(&self) -> BlockSet {
        self.recoder.elimination.decodable()
    }

    /// The same packets as a recoder: makes new packets of what has arrived, with this decoder's memory.
    pub const fn recoder(&self) -> &RecoderState<F> {
        &self.recoder
    }

    /// Takes a packet in.
    ///
    /// # Errors
    /// [`RlncError::VectorLength`], [`RlncError::VectorPadding`], [`RlncError::PayloadLength`], [`RlncError::MemoryTooSmall`].
    pub fn insert(
        &mut self,
        memory: &mut [u8],
        vector: &[u8],
        payload: &[u8],
    ) -> Result<Arrival, RlncError> {
        self.recoder.insert_tracked(memory, vector, payload, true)
    }

    /// Computes source block `block` into `output` of [`block_octets`](Self::block_octets) octets.
    ///
    /// # Errors
    /// [`RlncError::NoSuchBlock`], [`RlncError::NotDecodable`], [`RlncError::OutputLength`], [`RlncError::MemoryTooSmall`].
    pub fn block_into(&self, memory: &[u8], block: u8, output: &mut [u8]) -> Result<(), RlncError> {
        if block >= self.k() {
            return Err(RlncError::NoSuchBlock);
        }
        if !self.decodable().contains(block) {
            return Err(RlncError::NotDecodable);
        }
        if output.len() != self.block_octets() {
            return Err(RlncError::OutputLength);
        }
        let layout = &self.recoder.layout;
        let (packets, matrix) =
            memory.split_at_checked(layout.octets()).ok_or(RlncError::MemoryTooSmall)?;
        let transform = self
            .recoder
            .elimination
            .row(matrix, block, true)
            .get(layout.vector_octets()..)
            .ok_or(RlncError::MemoryTooSmall)?;
        F::dot(output, transform, &layout.payloads(packets, self.rank()));
        Ok(())
    }

    /// Computes every decodable block j into row j of `output`, leaves the other rows alone and says which they were.
    ///
    /// # Errors
    /// [`RlncError::OutputLength`] when `output` has not K rows of [`block_octets`](Self::block_octets) octets;
    /// [`RlncError::MemoryTooSmall`].
    pub fn blocks_into(
        &self,
        memory: &[u8],
        output: &mut RowsMut<'_>,
    ) -> Result<BlockSet, RlncError> {
        let k = usize::from(self.k());
        if output.count() != k || output.row_octets() != self.block_octets() {
            return Err(RlncError::OutputLength);
        }
        let layout = &self.recoder.layout;
        let (packets, matrix) =
            memory.split_at_checked(layout.octets()).ok_or(RlncError::MemoryTooSmall)?;
        let payloads = layout.payloads(packets, self.rank());
        let elimination = &self.recoder.elimination;
        let transforms = elimination.transforms(matrix).ok_or(RlncError::MemoryTooSmall)?;
        // Blocks that came as they are get copied; the others are made in one product of matrices.
        let mut sums = BlockSet::EMPTY;
        for block in self.decodable().iter() {
            let transform = transforms.get(block.into());
            match single_one::<F>(transform) {
                Some(packet) => {
                    let row = output.row_mut(block.into());
                    let payload = payloads.get(packet);
                    if row.len() == payload.len() {
                        row.copy_from_slice(payload);
                    }
                }
                None => sums.insert(block),
            }
        }
        F::product_where(output, &transforms, &payloads, |block| {
            u8::try_from(block).is_ok_and(|block| sums.contains(block))
        });
        Ok(self.decodable())
    }
}

/// The number of the packet that a transform takes as it is and alone, if it does so.
fn single_one<F: Field>(transform: &[u8]) -> Option<usize> {
    let (packet, symbol) = leading::<F>(transform)?;
    (symbol == F::ONE && is_single::<F>(transform, packet)).then_some(packet.into())
}

/// A [`DecoderState`] with its memory.
///
/// ```
/// use heddle_core::gf::Gf256;
/// use heddle_core::rlnc::{Decoder, DecoderState};
///
/// let mut memory = [0; DecoderState::<Gf256>::memory_octets(2, 5)];
/// let mut decoder = Decoder::<Gf256>::new(2, 5, &mut memory)?;
/// decoder.insert(&[1, 1], &[b'h' ^ b'w', b'e' ^ b'o', b'l' ^ b'r', 0, b'o' ^ b'd'])?;
/// decoder.insert(&[0, 1], b"world")?;
/// let mut block = [0; 5];
/// decoder.block_into(0, &mut block)?;
/// assert_eq!(&block, b"hello");
/// # Ok::<(), heddle_core::rlnc::RlncError>(())
/// ```
#[derive(Debug)]
pub struct Decoder<'m, F> {
    state: DecoderState<F>,
    memory: &'m mut [u8],
}

impl<'m, F: Field> Decoder<'m, F> {
    /// An empty decoder in `memory` of [`DecoderState::memory_octets`] octets at least.
    ///
    /// # Errors
    /// As [`DecoderState::new`], and [`RlncError::MemoryTooSmall`].
    pub fn new(k: u8, block_octets: usize, memory: &'m mut [u8]) -> Result<Self, RlncError> {
        let state = DecoderState::new(k, block_octets)?;
        if memory.len() < DecoderState::<F>::memory_octets(k, block_octets) {
            return Err(RlncError::MemoryTooSmall);
        }
        Ok(Self { state, memory })
    }

    /// The state: sizes, rank and which blocks are decodable.
    pub const fn state(&self) -> &DecoderState<F> {
        &self.state
    }

    /// See [`DecoderState::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&mut self, vector: &[u8], payload: &[u8]) -> Result<Arrival, RlncError> {
        self.state.insert(self.memory, vector, payload)
    }

    /// See [`DecoderState::block_into`].
    ///
    /// # Errors
    /// As there.
    pub fn block_into(&self, block: u8, output: &mut [u8]) -> Result<(), RlncError> {
        self.state.block_into(self.memory, block, output)
    }

    /// See [`DecoderState::blocks_into`].
    ///
    /// # Errors
    /// As there.
    pub fn blocks_into(&self, output: &mut RowsMut<'_>) -> Result<BlockSet, RlncError> {
        self.state.blocks_into(self.memory, output)
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
        self.state.recoder().recode(self.memory, coefficients, vector, payload)
    }
}
