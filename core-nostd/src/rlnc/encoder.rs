//! Encoding: packets out of the source blocks.

use super::elimination::check_vector;
use super::store::Layout;
use super::{Arrival, CoefficientGenerator, Elimination, RlncError};
use crate::gf::{Field, RowSet, Rows, RowsMut};

/// Makes packets of K source blocks that lie wherever `sources` says: [`Rows`](crate::gf::Rows) of one slice, or a slice of slices.
#[derive(Debug)]
pub struct Encoder<'s, F, S: ?Sized> {
    layout: Layout<F>,
    sources: &'s S,
}

impl<'s, F: Field, S: RowSet + ?Sized> Encoder<'s, F, S> {
    /// An encoder of the blocks `sources`: 1 to 255 rows of `block_octets` octets. A last row that is shorter counts as
    /// if zeros followed it.
    ///
    /// # Errors
    /// [`RlncError::KZero`]; [`RlncError::NoSuchBlock`] for more than 255 rows; [`RlncError::BlockLenZero`], [`RlncError::BlockLen`];
    /// [`RlncError::PayloadLength`] when a row is longer, or one before the last shorter.
    pub fn new(sources: &'s S, block_octets: usize) -> Result<Self, RlncError> {
        let k = u8::try_from(sources.count()).map_err(|_| RlncError::NoSuchBlock)?;
        let layout = Layout::new(k, block_octets)?;
        for block in 0..k {
            let octets = sources.row(block.into()).len();
            if octets > block_octets || (octets < block_octets && block + 1 < k) {
                return Err(RlncError::PayloadLength);
            }
        }
        Ok(Self { layout, sources })
    }

    /// The number of blocks.
    pub const fn k(&self) -> u8 {
        self.layout.k
    }

    /// Octets of each block.
    pub const fn block_octets(&self) -> usize {
        self.layout.block_octets()
    }

    /// Octets of each coding vector.
    pub const fn vector_octets(&self) -> usize {
        self.layout.vector_octets()
    }

    /// The payload of the packet with the coding vector `vector`.
    ///
    /// # Errors
    /// [`RlncError::VectorLength`], [`RlncError::VectorPadding`], [`RlncError::ZeroVector`], [`RlncError::PayloadLength`].
    pub fn encode(&self, vector: &[u8], payload: &mut [u8]) -> Result<(), RlncError> {
        check_vector::<F>(vector, self.k())?;
        if vector.iter().all(|octet| *octet == 0) {
            return Err(RlncError::ZeroVector);
        }
        if payload.len() != self.block_octets() {
            return Err(RlncError::PayloadLength);
        }
        F::dot(payload, vector, self.sources);
        Ok(())
    }

    /// The payloads of several packets in one go: row i of `payloads` of the coding vector in row i of `vectors`. Several of them are
    /// made in each pass over the blocks, which is up to twice as fast as one by one.
    ///
    /// # Errors
    /// [`RlncError::CoefficientCount`] when there are not as many vectors as payloads; [`RlncError::VectorLength`],
    /// [`RlncError::VectorPadding`], [`RlncError::ZeroVector`], [`RlncError::PayloadLength`].
    pub fn batch(&self, vectors: &Rows<'_>, payloads: &mut RowsMut<'_>) -> Result<(), RlncError> {
        if vectors.count() != payloads.count() {
            return Err(RlncError::CoefficientCount);
        }
        if payloads.row_octets() != self.block_octets() {
            return Err(RlncError::PayloadLength);
        }
        for index in 0..vectors.count() {
            let vector = vectors.get(index);
            check_vector::<F>(vector, self.k())?;
            if vector.iter().all(|octet| *octet == 0) {
                return Err(RlncError::ZeroVector);
            }
        }
        F::product(payloads, vectors, self.sources);
        Ok(())
    }

    /// The packet that is source block `block` itself.
    ///
    /// # Errors
    /// [`RlncError::NoSuchBlock`], [`RlncError::VectorLength`], [`RlncError::PayloadLength`].
    pub fn systematic(
        &self,
        block: u8,
        vector: &mut [u8],
        payload: &mut [u8],
    ) -> Result<(), RlncError> {
        if block >= self.k() {
            return Err(RlncError::NoSuchBlock);
        }
        if vector.len() != self.vector_octets() {
            return Err(RlncError::VectorLength);
        }
        let source = self.sources.row(block.into());
        if payload.len() != self.block_octets() || source.len() > payload.len() {
            return Err(RlncError::PayloadLength);
        }
        vector.fill(0);
        F::set(vector, block.into(), F::ONE);
        let (whole, padding) =
            payload.split_at_mut_checked(source.len()).ok_or(RlncError::PayloadLength)?;
        whole.copy_from_slice(source);
        padding.fill(0);
        Ok(())
    }

    /// A packet with coefficients from `generator`, none of them zero (in GF(2): not all of them).
    ///
    /// # Errors
    /// [`RlncError::VectorLength`], [`RlncError::PayloadLength`].
    pub fn random(
        &self,
        generator: &mut CoefficientGenerator,
        vector: &mut [u8],
        payload: &mut [u8],
    ) -> Result<(), RlncError> {
        if vector.len() != self.vector_octets() {
            return Err(RlncError::VectorLength);
        }
        generator.fill_non_zero::<F>(vector, self.k().into());
        self.encode(vector, payload)
    }
}

/// Row `index` of a Cauchy matrix for generations of `k` blocks: 1 / (x + y) with x = `k` + `index` for the row and y from 0 to
/// `k` - 1 for the columns.
///
/// No coefficient is zero and any K rows are independent, so a source that sends such rows serves every receiver that gets K of them.
/// There are 2^BITS - K rows.
///
/// # Errors
/// [`RlncError::KZero`], [`RlncError::VectorLength`], [`RlncError::FieldTooSmall`] when there is no such row.
pub fn cauchy_row<F: Field>(k: u8, index: usize, vector: &mut [u8]) -> Result<(), RlncError> {
    if k == 0 {
        return Err(RlncError::KZero);
    }
    if vector.len() != super::vector_octets::<F>(k.into()) {
        return Err(RlncError::VectorLength);
    }
    let x = usize::from(k).saturating_add(index);
    if x >> F::BITS != 0 {
        return Err(RlncError::FieldTooSmall);
    }
    vector.fill(0);
    for y in 0..k {
        // x is not below k and y is: the sum is not zero.
        let sum = F::add(F::element(x as u16), F::element(y.into()));
        F::set(vector, y.into(), F::inv(sum).unwrap_or(F::ZERO));
    }
    Ok(())
}

/// Fills the rows of `matrix` with coding vectors for generations of `k` blocks, the first `k` of them independent.
///
/// As many rows as the field has are rows of [`cauchy_row`]. The rest are random rows without a zero (in GF(2), not all zero), each drawn
/// again until it is innovative, up to rank `k`. `memory` is work space of [`Elimination::memory_octets`] octets.
///
/// # Errors
/// [`RlncError::KZero`], [`RlncError::VectorLength`] when rows of `matrix` are not vectors of `k` elements, [`RlncError::MemoryTooSmall`].
pub fn source_matrix<F: Field>(
    k: u8,
    matrix: &mut RowsMut<'_>,
    generator: &mut CoefficientGenerator,
    memory: &mut [u8],
) -> Result<(), RlncError> {
    let mut elimination = Elimination::<F>::new(k)?;
    for (index, vector) in matrix.iter_mut().enumerate() {
        match cauchy_row::<F>(k, index, vector) {
            Ok(()) => {
                elimination.insert(memory, vector)?;
            }
            Err(RlncError::FieldTooSmall) => loop {
                generator.fill_non_zero::<F>(vector, k.into());
                if elimination.is_complete()
                    || elimination.insert(memory, vector)? != Arrival::Redundant
                {
                    break;
                }
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
