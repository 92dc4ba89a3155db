//! Gaussian elimination on coding vectors.

use super::{RlncError, vector_octets};
use crate::gf::{Field, MAX_VECTOR_OCTETS, RowSet, Rows, RowsMut};
use core::marker::PhantomData;

/// A set of block numbers from 0 to 255.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockSet([u64; 4]);

impl BlockSet {
    /// The set with no block in it.
    pub const EMPTY: Self = Self([0; 4]);

    /// The blocks 0 to `count` - 1.
    pub fn first(count: u8) -> Self {
        let mut set = Self::EMPTY;
        let mut left = u32::from(count);
        for word in &mut set.0 {
            *word = match left {
                64.. => u64::MAX,
                _ => (1 << left) - 1,
            };
            left = left.saturating_sub(64);
        }
        set
    }

    /// Adds `block`.
    #[inline(always)]
    pub fn insert(&mut self, block: u8) {
        // All words are written, so that the set stays in registers.
        for (word, index) in self.0.iter_mut().zip(0..) {
            *word |= u64::from(block >> 6 == index) << (block & 63);
        }
    }

    /// Whether `block` is in the set.
    #[inline]
    pub fn contains(&self, block: u8) -> bool {
        self.0.get(usize::from(block >> 6)).is_some_and(|word| word >> (block & 63) & 1 != 0)
    }

    /// The number of blocks in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no block is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The set of one block.
    #[inline]
    pub(super) fn single(block: u8) -> Self {
        let mut set = Self::EMPTY;
        set.insert(block);
        set
    }

    /// The highest block in the set.
    pub fn last(&self) -> Option<u8> {
        let mut last = None;
        for (word, base) in self.0.into_iter().zip([0u8, 64, 128, 192]) {
            if let Some(bit) = word.checked_ilog2() {
                last = Some(base | bit as u8);
            }
        }
        last
    }

    /// The blocks of this set and of `other`.
    #[must_use]
    #[inline]
    pub fn with(&self, other: &Self) -> Self {
        let mut result = *self;
        for (word, more) in result.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        result
    }

    /// The blocks of this set that are not in `other`.
    #[must_use]
    #[inline]
    pub fn without(&self, other: &Self) -> Self {
        let mut result = *self;
        for (word, taken) in result.0.iter_mut().zip(other.0) {
            *word &= !taken;
        }
        result
    }

    /// The blocks, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        self.0.into_iter().zip([0u8, 64, 128, 192]).flat_map(|(word, base)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(base | bit as u8)
            })
        })
    }
}

/// What an arriving coding vector was worth.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is independent of all before it.
    Innovative {
        /// The rank with it.
        rank: u8,
        /// The source blocks that it has made decodable: each is reported once.
        decoded: BlockSet,
    },
    /// It is a combination of those before it, or zero.
    Redundant,
}

/// Coding vectors in reduced row-echelon form, in memory of the caller.
///
/// Enough for a forwarder's question: is this packet innovative? The state is small and can be copied;
/// the memory of [`memory_octets`](Self::memory_octets) octets goes with it and need not be cleared.
///
/// ```
/// use heddle_core::gf::Gf256;
/// use heddle_core::rlnc::{Arrival, Elimination};
///
/// let mut memory = [0; Elimination::<Gf256>::memory_octets(2)];
/// let mut elimination = Elimination::<Gf256>::new(2)?;
/// assert!(matches!(
///     elimination.insert(&mut memory, &[3, 5])?,
///     Arrival::Innovative { rank: 1, .. }
/// ));
/// assert_eq!(elimination.insert(&mut memory, &[3, 5])?, Arrival::Redundant);
/// # Ok::<(), heddle_core::rlnc::RlncError>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct Elimination<F> {
    k: u8,
    rank: u8,
    /// Columns that have a row; row p holds the vector whose first symbol that is not zero, a one, is at p.
    pivots: BlockSet,
    /// Columns whose row is the unit vector.
    decodable: BlockSet,
    field: PhantomData<F>,
}

/// Octets of one row of the matrix that holds `width` octets of use: short rows do not straddle a cache line, long
/// ones begin at one.
const fn row_stride(width: usize) -> usize {
    match width {
        0..=32 => width.next_power_of_two(),
        _ => width.next_multiple_of(64),
    }
}

impl<F: Field> Elimination<F> {
    /// Octets of memory for a generation of `k` blocks.
    pub const fn memory_octets(k: u8) -> usize {
        Self::matrix_octets(k, false)
    }

    /// Octets of the matrix of K rows and one to work in, with the transform beside the vectors when `tracked`.
    pub(super) const fn matrix_octets(k: u8, tracked: bool) -> usize {
        let vector = vector_octets::<F>(k as usize);
        row_stride(if tracked { 2 * vector } else { vector }) * (k as usize + 1)
    }

    /// An empty elimination for a generation of `k` blocks.
    ///
    /// # Errors
    /// [`RlncError::KZero`].
    pub const fn new(k: u8) -> Result<Self, RlncError> {
        if k == 0 {
            return Err(RlncError::KZero);
        }
        Ok(Self {
            k,
            rank: 0,
            pivots: BlockSet::EMPTY,
            decodable: BlockSet::EMPTY,
            field: PhantomData,
        })
    }

    /// The number of blocks of the generation.
    pub const fn k(&self) -> u8 {
        self.k
    }

    /// The number of independent vectors so far.
    pub const fn rank(&self) -> u8 {
        self.rank
    }

    /// Whether the vectors determine every block.
    pub const fn is_complete(&self) -> bool {
        self.rank == self.k
    }

    /// The blocks whose unit vector is in the span of the vectors so far.
    pub const fn decodable(&self) -> BlockSet {
        self.decodable
    }

    /// Takes a coding vector in.
    ///
    /// # Errors
    /// [`RlncError::VectorLength`], [`RlncError::VectorPadding`], [`RlncError::MemoryTooSmall`].
    pub fn insert(&mut self, memory: &mut [u8], vector: &[u8]) -> Result<Arrival, RlncError> {
        self.check(vector)?;
        self.reduce(memory, vector, false)
    }

    /// Whether `vector` has the right form.
    pub(super) fn check(&self, vector: &[u8]) -> Result<(), RlncError> {
        check_vector::<F>(vector, self.k)
    }

    /// The row of the matrix with pivot `block`, as `tracked` says.
    pub(super) fn row<'a>(&self, memory: &'a [u8], block: u8, tracked: bool) -> &'a [u8] {
        let width = self.width(tracked);
        Rows::new(memory, width, row_stride(width)).get(block.into())
    }

    /// The transforms of all rows of a tracked matrix, row p that of the row with pivot p.
    pub(super) fn transforms<'a>(&self, memory: &'a [u8]) -> Option<Rows<'a>> {
        let vector = vector_octets::<F>(self.k.into());
        let transforms = Rows::new(memory.get(vector..)?, vector, row_stride(2 * vector));
        (transforms.count() >= self.k.into()).then(|| transforms.first(self.k.into()))
    }

    fn width(&self, tracked: bool) -> usize {
        let vector = vector_octets::<F>(self.k.into());
        if tracked { 2 * vector } else { vector }
    }

    /// Takes a vector in whose form is right. When `tracked`, each row goes on after its vector with the coefficients
    /// that make it of the innovative arrivals, in their order.
    #[inline]
    pub(super) fn reduce(
        &mut self,
        memory: &mut [u8],
        vector: &[u8],
        tracked: bool,
    ) -> Result<Arrival, RlncError> {
        let k = usize::from(self.k);
        let width = self.width(tracked);
        let stride = row_stride(width);
        let (matrix, work) =
            memory.split_at_mut_checked(stride * k).ok_or(RlncError::MemoryTooSmall)?;
        let work = work.get_mut(..width).ok_or(RlncError::MemoryTooSmall)?;
        let Some((first, symbol)) = leading::<F>(vector) else {
            return Ok(Arrival::Redundant);
        };
        if self.is_complete() {
            return Ok(Arrival::Redundant);
        }
        if self.rank == 0 {
            // Rows without a pivot are zero: so they do no harm in sums.
            matrix.fill(0);
        }

        // A source block itself, or a multiple of it, while all rows are such: nothing to eliminate.
        if self.pivots == self.decodable && is_single::<F>(vector, first) {
            if self.pivots.contains(first) {
                return Ok(Arrival::Redundant);
            }
            let row = row_mut(matrix, width, stride, first);
            F::set(row, first.into(), F::ONE);
            if let Some(transform) = row.get_mut(vector.len()..) {
                F::set(transform, self.rank.into(), F::inv(symbol).unwrap_or(F::ONE));
            }
            return Ok(self.grow(first, BlockSet::single(first)));
        }

        let (work_vector, work_transform) =
            work.split_at_mut_checked(vector.len()).ok_or(RlncError::MemoryTooSmall)?;
        if work_vector.len() == vector.len() {
            work_vector.copy_from_slice(vector);
        }
        work_transform.fill(0);
        F::set(work_transform, self.rank.into(), F::ONE);

        // A row has zero at the pivots of all others. So what to add of each row is known at once: the vector's own symbol
        // at the row's pivot.
        let used = self.pivots.last().map_or(0, |last| usize::from(last) + 1);
        let rows = Rows::exactly(matrix, width, stride, used);
        let coefficients = vector.get(..vector_octets::<F>(used)).unwrap_or_default();
        F::combine(work, coefficients, &rows, true);

        let Some((pivot, symbol)) = leading::<F>(work.get(..vector.len()).unwrap_or_default())
        else {
            return Ok(Arrival::Redundant);
        };
        if symbol != F::ONE
            && let Some(inverse) = F::inv(symbol)
        {
            F::scale(work, inverse);
        }

        // Clear the new pivot's column in the rows before it. (Rows that are unit vectors are zero there.)
        let mut candidates = self.pivots.without(&self.decodable);
        if !candidates.is_empty() {
            let mut coefficients = [0; MAX_VECTOR_OCTETS];
            gather::<F>(matrix, stride, (&candidates, used), pivot, &mut coefficients);
            let coefficients = coefficients.get(..vector_octets::<F>(used)).unwrap_or_default();
            F::add_outer(&mut RowsMut::exactly(matrix, width, stride, used), coefficients, work);
        }
        let row = row_mut(matrix, width, stride, pivot);
        if row.len() == work.len() {
            row.copy_from_slice(work);
        }
        candidates.insert(pivot);
        let mut pivots = self.pivots;
        pivots.insert(pivot);
        let free = BlockSet::first(self.k).without(&pivots);
        let decoded = units::<F>(matrix, stride, candidates, &free);
        Ok(self.grow(pivot, decoded))
    }

    /// Counts a new row with its pivot, and the rows that have become unit vectors.
    #[inline(always)]
    fn grow(&mut self, pivot: u8, decoded: BlockSet) -> Arrival {
        self.pivots.insert(pivot);
        self.decodable = self.decodable.with(&decoded);
        self.rank = self.rank.saturating_add(1);
        Arrival::Innovative { rank: self.rank, decoded }
    }
}

/// Whether `first`, the first symbol of `vector` that is not zero, is also the last.
#[inline]
pub(super) fn is_single<F: Field>(vector: &[u8], first: u8) -> bool {
    let bits = F::BITS as usize;
    let octet = usize::from(first) * bits / 8;
    let after = octet + bits.div_ceil(8);
    let within =
        (usize::from(first) + 1..after * 8 / bits).all(|index| F::get(vector, index) == F::ZERO);
    within && vector.get(after..).is_none_or(|rest| first_octet(rest).is_none())
}

/// The place of the first octet that is not zero.
#[inline]
fn first_octet(octets: &[u8]) -> Option<usize> {
    let (words, rest) = octets.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        if word != 0 {
            return Some(8 * index + word.trailing_zeros() as usize / 8);
        }
    }
    let place = rest.iter().position(|octet| *octet != 0)?;
    Some(8 * words.len() + place)
}

/// The first symbol that is not zero, and its number.
#[inline]
pub(super) fn leading<F: Field>(vector: &[u8]) -> Option<(u8, F::Element)> {
    let bits = F::BITS as usize;
    let first = first_octet(vector)? * 8 / bits;
    (first..first + (8 / bits).max(1)).find_map(|index| {
        let symbol = F::get(vector, index);
        (symbol != F::ZERO).then_some((index as u8, symbol))
    })
}

/// Row `index` of the matrix, to be written.
fn row_mut(matrix: &mut [u8], width: usize, stride: usize, index: u8) -> &mut [u8] {
    matrix
        .get_mut(stride * usize::from(index)..)
        .and_then(|rest| rest.get_mut(..width))
        .unwrap_or_default()
}

/// Symbol `column` of the `rows`, each at its row's place, where all others have zero in that column. `count` is one more than the last.
fn gather<F: Field>(
    matrix: &[u8],
    stride: usize,
    (rows, count): (&BlockSet, usize),
    column: u8,
    to: &mut [u8],
) {
    let column = usize::from(column);
    // One row after the other is faster than a set of them, unless it has few.
    if F::BITS == 8 && rows.len() > count / 4 {
        for (row, to) in matrix.chunks(stride.max(1)).take(count).zip(to) {
            *to = row.get(column).copied().unwrap_or(0);
        }
        return;
    }
    for row in rows.iter() {
        let octets = matrix.get(stride * usize::from(row)..).unwrap_or_default();
        F::set(to, row.into(), F::get(octets, column));
    }
}

/// Those of the rows `candidates` that are unit vectors. A row is zero at the pivots of others anyway, so the columns without a pivot, `free`,
/// decide.
fn units<F: Field>(
    matrix: &[u8],
    stride: usize,
    candidates: BlockSet,
    free: &BlockSet,
) -> BlockSet {
    let Some(one) = free.last() else {
        return candidates;
    };
    let one = usize::from(one);
    let mut units = BlockSet::EMPTY;
    // Most rows are not: one column tells.
    let mut check = |row: u8, octets: &[u8]| {
        if F::get(octets, one) == F::ZERO
            && candidates.contains(row)
            && free.iter().all(|column| F::get(octets, column.into()) == F::ZERO)
        {
            units.insert(row);
        }
    };
    let count = candidates.last().map_or(0, |last| usize::from(last) + 1);
    if candidates.len() > count / 4 {
        for (row, octets) in (0u8..).zip(matrix.chunks(stride.max(1)).take(count)) {
            check(row, octets);
        }
    } else {
        for row in candidates.iter() {
            check(row, matrix.get(stride * usize::from(row)..).unwrap_or_default());
        }
    }
    units
}

/// Whether `vector` has the length of `k` symbols and nothing after the last of them.
pub(super) fn check_vector<F: Field>(vector: &[u8], k: u8) -> Result<(), RlncError> {
    if vector.len() != vector_octets::<F>(k.into()) {
        return Err(RlncError::VectorLength);
    }
    let used_bits = usize::from(k) * F::BITS as usize % 8;
    match vector.last() {
        Some(last) if used_bits != 0 && last << used_bits != 0 => Err(RlncError::VectorPadding),
        _ => Ok(()),
    }
}
