//! Rows of equal length: the vectors and blocks that bulk operations read and write.

/// Several rows of octets that can be read by number.
pub trait RowSet {
    /// The number of rows.
    fn count(&self) -> usize;

    /// The octets of row `index`; empty past the end.
    fn row(&self, index: usize) -> &[u8];

    /// The same rows when they lie at one stride inside one slice: they can be read faster.
    fn at_stride(&self) -> Option<Rows<'_>> {
        None
    }
}

impl RowSet for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn row(&self, index: usize) -> &[u8] {
        self.get(index).copied().unwrap_or_default()
    }
}

impl<const N: usize> RowSet for [&[u8]; N] {
    fn count(&self) -> usize {
        N
    }

    fn row(&self, index: usize) -> &[u8] {
        self.get(index).copied().unwrap_or_default()
    }
}

/// How many rows of `row_octets`, each `stride_octets` after the one before, lie in `octets`.
const fn count_rows(octets: usize, row_octets: usize, stride_octets: usize) -> usize {
    if octets < row_octets {
        return 0;
    }
    match (octets - row_octets).checked_div(stride_octets) {
        Some(further) => further + 1,
        None => 0,
    }
}

/// Whether `count` rows lie in `octets`; false also when the numbers are too large to tell, or are zero.
fn holds(octets: usize, row_octets: usize, stride_octets: usize, count: usize) -> bool {
    stride_octets != 0
        && count
            .checked_sub(1)
            .and_then(|before| before.checked_mul(stride_octets)?.checked_add(row_octets))
            .is_some_and(|end| end <= octets)
}

/// Rows inside one slice, the start of each `stride_octets` after that of the one before.
#[derive(Copy, Clone, Debug)]
pub struct Rows<'a> {
    octets: &'a [u8],
    row_octets: usize,
    stride_octets: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// As many rows of `row_octets` as `octets` holds. None at all when `stride_octets` is 0.
    pub const fn new(octets: &'a [u8], row_octets: usize, stride_octets: usize) -> Self {
        let count = count_rows(octets.len(), row_octets, stride_octets);
        Self { octets, row_octets, stride_octets, count }
    }

    /// The first `count` rows, or as many as there are: `new` and `first`, without a division where all are there.
    pub(crate) fn exactly(
        octets: &'a [u8],
        row_octets: usize,
        stride_octets: usize,
        count: usize,
    ) -> Self {
        if holds(octets.len(), row_octets, stride_octets, count) {
            return Self { octets, row_octets, stride_octets, count };
        }
        Self::new(octets, row_octets, stride_octets).first(count)
    }

    /// Rows without a gap between them.
    pub const fn packed(octets: &'a [u8], row_octets: usize) -> Self {
        Self::new(octets, row_octets, row_octets)
    }

    /// The first `count` of these rows; all of them when there are fewer.
    #[must_use]
    pub const fn first(self, count: usize) -> Self {
        Self { count: if count < self.count { count } else { self.count }, ..self }
    }

    /// Octets in each row.
    pub const fn row_octets(&self) -> usize {
        self.row_octets
    }

    /// Where the first row begins and how far apart rows are.
    pub(crate) const fn start_and_stride(&self) -> (*const u8, usize) {
        (self.octets.as_ptr(), self.stride_octets)
    }

    /// The octets of row `index`, with the lifetime of the slice; empty past the end.
    pub fn get(&self, index: usize) -> &'a [u8] {
        if index >= self.count {
            return &[];
        }
        index
            .checked_mul(self.stride_octets)
            .and_then(|at| self.octets.get(at..)?.get(..self.row_octets))
            .unwrap_or_default()
    }
}

impl RowSet for Rows<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn row(&self, index: usize) -> &[u8] {
        self.get(index)
    }

    fn at_stride(&self) -> Option<Rows<'_>> {
        Some(*self)
    }
}

/// Rows inside one slice that can be written. They never overlap.
#[derive(Debug)]
pub struct RowsMut<'a> {
    octets: &'a mut [u8],
    row_octets: usize,
    stride_octets: usize,
    count: usize,
}

impl<'a> RowsMut<'a> {
    /// As many rows of `row_octets` as `octets` holds. None at all when `stride_octets` is 0 or less than
    /// `row_octets`: such rows would overlap.
    pub const fn new(octets: &'a mut [u8], row_octets: usize, stride_octets: usize) -> Self {
        let count = if stride_octets < row_octets {
            0
        } else {
            count_rows(octets.len(), row_octets, stride_octets)
        };
        Self { octets, row_octets, stride_octets, count }
    }

    /// The first `count` rows, or as many as there are, without a division where all are there.
    pub(crate) fn exactly(
        octets: &'a mut [u8],
        row_octets: usize,
        stride_octets: usize,
        count: usize,
    ) -> Self {
        if stride_octets >= row_octets && holds(octets.len(), row_octets, stride_octets, count) {
            return Self { octets, row_octets, stride_octets, count };
        }
        let rows = Self::new(octets, row_octets, stride_octets);
        Self { count: rows.count.min(count), ..rows }
    }

    /// Rows without a gap between them.
    pub const fn packed(octets: &'a mut [u8], row_octets: usize) -> Self {
        Self::new(octets, row_octets, row_octets)
    }

    /// Octets in each row.
    pub const fn row_octets(&self) -> usize {
        self.row_octets
    }

    /// The octets of row `index`, to be written; empty past the end.
    pub fn row_mut(&mut self, index: usize) -> &mut [u8] {
        if index >= self.count {
            return &mut [];
        }
        index
            .checked_mul(self.stride_octets)
            .and_then(|at| self.octets.get_mut(at..)?.get_mut(..self.row_octets))
            .unwrap_or_default()
    }

    /// Where the first row begins and how far apart rows are.
    pub(crate) fn start_and_stride(&mut self) -> (*mut u8, usize) {
        (self.octets.as_mut_ptr(), self.stride_octets)
    }

    /// Every row, to be written, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let row_octets = self.row_octets;
        // A stride of 0 has no rows; 1 keeps `chunks_mut` from refusing it.
        self.octets
            .chunks_mut(self.stride_octets.max(1))
            .take(self.count)
            .map(move |chunk| chunk.get_mut(..row_octets).unwrap_or_default())
    }
}

impl RowSet for RowsMut<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn row(&self, index: usize) -> &[u8] {
        Rows {
            octets: self.octets,
            row_octets: self.row_octets,
            stride_octets: self.stride_octets,
            count: self.count,
        }
        .get(index)
    }
}
