//! The loops, written once for any width of vector.
//!
//! Every function here is inlined into one that enables the CPU features of its vector type, so that the operations of
//! [`Vector`] become single instructions. A row that is not a whole number of vectors ends in a masked vector where the
//! CPU has masks, and otherwise in a whole vector that overlaps the one before it.

use super::OctetMaps;

/// A register of octets and what kernels do with it.
pub trait Vector: Copy {
    /// What multiplies by one constant: tables or a bit matrix, in registers.
    type Constant: Copy;

    /// Octets in the register.
    const OCTETS: usize;

    /// Whether `load_part` and `store_part` are as fast as `load` and `store`.
    const MASKED: bool;

    /// Whether to take sources two at a time: for that, constants must be small.
    const PAIRED: bool;

    /// # Safety
    /// The CPU has the features of this vector type, as for every function of the trait.
    unsafe fn zero() -> Self;

    /// # Safety
    /// `OCTETS` octets from `from` can be read.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// `OCTETS` octets from `to` can be written.
    unsafe fn store(self, to: *mut u8);

    /// Loads `octets` octets, at least 1 and at most `OCTETS`; the rest is anything.
    ///
    /// # Safety
    /// `octets` octets from `from` can be read.
    unsafe fn load_part(from: *const u8, octets: usize) -> Self;

    /// Stores the first `octets` octets, at least 1 and at most `OCTETS`.
    ///
    /// # Safety
    /// `octets` octets from `to` can be written.
    unsafe fn store_part(self, to: *mut u8, octets: usize);

    /// # Safety
    /// See [`Vector::zero`].
    unsafe fn xor(self, other: Self) -> Self;

    /// # Safety
    /// See [`Vector::zero`].
    unsafe fn constant(nibbles: &[u8; 32], matrix: u64) -> Self::Constant;

    /// # Safety
    /// See [`Vector::zero`].
    unsafe fn product(self, constant: Self::Constant) -> Self;

    /// This and the products of `a` and `b`.
    ///
    /// # Safety
    /// See [`Vector::zero`].
    #[inline(always)]
    unsafe fn add_products(
        self,
        a: Self,
        constant_a: Self::Constant,
        b: Self,
        constant_b: Self::Constant,
    ) -> Self {
        // SAFETY: the caller's own obligation.
        unsafe { self.xor(a.product(constant_a)).xor(b.product(constant_b)) }
    }

    /// Octets 0 and 1 exchanged, 2 and 3, and so on.
    ///
    /// # Safety
    /// See [`Vector::zero`].
    unsafe fn swap_pairs(self) -> Self;

    /// The octets at even places of `self`, at odd places of `odd`.
    ///
    /// # Safety
    /// See [`Vector::zero`].
    unsafe fn even_odd(self, odd: Self) -> Self;
}

/// Where the rows of sources begin.
pub trait Sources: Copy {
    /// The number of sources.
    fn count(self) -> usize;

    /// The start of source `index`.
    ///
    /// # Safety
    /// `index` is below `count()`.
    unsafe fn start(self, index: usize) -> *const u8;
}

impl Sources for &[*const u8] {
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }

    #[inline(always)]
    unsafe fn start(self, index: usize) -> *const u8 {
        // SAFETY: the caller's own obligation.
        unsafe { *self.get_unchecked(index) }
    }
}

/// Rows at a stride.
#[derive(Copy, Clone, Debug)]
pub struct Strided {
    /// The start of the first row.
    pub first: *const u8,
    /// From one start to the next.
    pub stride: usize,
    /// The number of rows.
    pub count: usize,
}

impl Sources for Strided {
    #[inline(always)]
    fn count(self) -> usize {
        self.count
    }

    #[inline(always)]
    unsafe fn start(self, index: usize) -> *const u8 {
        // SAFETY: `index` is below the number of rows, so the start lies in the octets of which `first` is the start.
        unsafe { self.first.add(index * self.stride) }
    }
}

#[inline(always)]
unsafe fn constant<V: Vector>(maps: &OctetMaps, c: u8) -> V::Constant {
    let c = usize::from(c);
    // SAFETY: the caller has the features of V.
    unsafe { V::constant(&maps.nibbles[c], maps.matrices[c]) }
}

/// Loads vector `r` of `R` from `from`; when `PART`, the last one has `last` octets only.
#[inline(always)]
unsafe fn load<V: Vector, const R: usize, const PART: bool>(
    from: *const u8,
    r: usize,
    last: usize,
) -> V {
    // SAFETY: the caller vouches for R vectors of octets from `from`, the last one as long as `last` when PART.
    unsafe {
        let from = from.add(r * V::OCTETS);
        if PART && r + 1 == R { V::load_part(from, last) } else { V::load(from) }
    }
}

/// From so many vectors on, a piece of a row is long enough for prefetchers.
const LONG: usize = 8;

/// Adds the products of all sources to `R` vectors of each of `M` outputs, at octet `at` of the rows.
///
/// # Safety
/// The features of V; every source can be read for `R` vectors from `at` (see [`load`]), every row of coefficients for
/// one octet for each source.
#[allow(clippy::needless_range_loop, reason = "the loop over r ends at a constant and unrolls")]
#[inline(always)]
unsafe fn sums<V: Vector, const M: usize, const R: usize, const PART: bool>(
    maps: &OctetMaps,
    rows: &[*const u8; M],
    sources: impl Sources,
    at: usize,
    last: usize,
    mut sums: [[V; R]; M],
) -> [[V; R]; M] {
    let count = sources.count();
    // A long piece of one row at a time, for one output: then memory is read as one stream, which the prefetchers of the caches
    // follow. Otherwise two rows at a time, for one instruction less.
    let paired = if V::PAIRED && !(M == 1 && R > LONG) { count & !1 } else { 0 };
    // SAFETY: the reads are those for which the caller vouches: coefficient `index` of each row belongs to source
    // `index`, and each source is read for R vectors from `at`.
    unsafe {
        let mut index = 0;
        while index < paired {
            let (a, b) = (sources.start(index), sources.start(index + 1));
            let mut constants_a = [constant::<V>(maps, 0); M];
            let mut constants_b = constants_a;
            for m in 0..M {
                constants_a[m] = constant::<V>(maps, *rows[m].add(index));
                constants_b[m] = constant::<V>(maps, *rows[m].add(index + 1));
            }
            for r in 0..R {
                let octets_a = load::<V, R, PART>(a.add(at), r, last);
                let octets_b = load::<V, R, PART>(b.add(at), r, last);
                for ((sums, a), b) in sums.iter_mut().zip(&constants_a).zip(&constants_b) {
                    sums[r] = sums[r].add_products(octets_a, *a, octets_b, *b);
                }
            }
            index += 2;
        }
        while index < count {
            let source = sources.start(index);
            if M == 1 {
                let constant = constant::<V>(maps, *rows[0].add(index));
                for r in 0..R {
                    let octets = load::<V, R, PART>(source.add(at), r, last);
                    sums[0][r] = sums[0][r].xor(octets.product(constant));
                }
                index += 1;
                continue;
            }
            let mut octets = [V::zero(); R];
            for (r, octets) in octets.iter_mut().enumerate() {
                *octets = load::<V, R, PART>(source.add(at), r, last);
            }
            for m in 0..M {
                let constant = constant::<V>(maps, *rows[m].add(index));
                for (sum, octets) in sums[m].iter_mut().zip(&octets) {
                    *sum = sum.xor(octets.product(constant));
                }
            }
            index += 1;
        }
    }
    sums
}

/// `R` vectors at octet `at` of one output.
///
/// # Safety
/// As for [`sums`]; the output can be read and written there.
#[inline(always)]
unsafe fn single_block<V: Vector, const R: usize, const PART: bool>(
    maps: &OctetMaps,
    output: *mut u8,
    row: *const u8,
    sources: impl Sources,
    at: usize,
    last: usize,
    accumulate: bool,
) -> [V; R] {
    // SAFETY: the caller vouches for `R` vectors from `at`.
    unsafe {
        let mut start = [V::zero(); R];
        if accumulate {
            for (r, octets) in start.iter_mut().enumerate() {
                *octets = load::<V, R, PART>(output.add(at), r, last);
            }
        }
        let [sum] = sums::<V, 1, R, PART>(maps, &[row], sources, at, last, [start]);
        sum
    }
}

/// # Safety
/// `R` vectors from `to` can be written, the last as long as `last` when PART.
#[inline(always)]
unsafe fn store<V: Vector, const R: usize, const PART: bool>(
    to: *mut u8,
    octets: &[V; R],
    last: usize,
) {
    for (r, octets) in octets.iter().enumerate() {
        // SAFETY: the caller's own obligation.
        unsafe {
            let to = to.add(r * V::OCTETS);
            if PART && r + 1 == R {
                octets.store_part(to, last);
            } else {
                octets.store(to);
            }
        }
    }
}

/// Runs `$call` with the constant `$r` equal to the number `$vectors`, which is one of those listed and not above `$most`.
macro_rules! with_vectors {
    ([$($number:literal)*] up to $most:expr, $vectors:expr, $r:ident => $call:expr) => {
        match $vectors {
            $($number => {
                const $r: usize = $number;
                // Known at compile time: no code for more vectors than ever come.
                if $r <= $most {
                    $call
                }
            })*
            _ => {}
        }
    };
}

/// [`with_vectors`] for 1 to 4.
macro_rules! few_vectors {
    ($vectors:expr, $r:ident => $call:expr) => {
        with_vectors!([1 2 3 4] up to 4, $vectors, $r => $call)
    };
}

/// [`with_vectors`] for 1 to 24.
macro_rules! many_vectors {
    (up to $most:expr, $vectors:expr, $r:ident => $call:expr) => {
        with_vectors!(
            [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24] up to $most,
            $vectors,
            $r => $call
        )
    };
}

/// One output, `W` vectors at a time. The output itself may be a source.
///
/// # Safety
/// As for [`Kernel::combine`](super::Kernel), with the features of V.
#[inline(always)]
pub unsafe fn single<V: Vector, const W: usize>(
    maps: &OctetMaps,
    output: *mut u8,
    row: *const u8,
    sources: impl Sources,
    len: usize,
    accumulate: bool,
) {
    let step = W * V::OCTETS;
    let mut at = 0;
    // SAFETY: `at` and the vectors from there never pass `len`, up to which the caller vouches for all rows.
    unsafe {
        if len < V::OCTETS && !V::MASKED {
            if len > 0 {
                let sum =
                    single_block::<V, 1, true>(maps, output, row, sources, 0, len, accumulate);
                store::<V, 1, true>(output, &sum, len);
            }
            return;
        }
        // The overlapping vector at the end reads what the others write, so it is computed first and stored last.
        let overlapping = !V::MASKED && !len.is_multiple_of(V::OCTETS);
        let mut end = [V::zero()];
        if overlapping {
            let at = len - V::OCTETS;
            end = single_block::<V, 1, false>(maps, output, row, sources, at, 0, accumulate);
        }
        while len - at >= step {
            let sum = single_block::<V, W, false>(maps, output, row, sources, at, 0, accumulate);
            store::<V, W, false>(output.add(at), &sum, 0);
            at += step;
        }
        let rest = len - at;
        if V::MASKED {
            let vectors = rest.div_ceil(V::OCTETS);
            let last = rest.wrapping_sub((vectors.wrapping_sub(1)).wrapping_mul(V::OCTETS));
            many_vectors!(up to W, vectors, R => {
                let sum = single_block::<V, R, true>(maps, output, row, sources, at, last, accumulate);
                store::<V, R, true>(output.add(at), &sum, last);
            });
        } else {
            many_vectors!(up to W, rest / V::OCTETS, R => {
                let sum = single_block::<V, R, false>(maps, output, row, sources, at, 0, accumulate);
                store::<V, R, false>(output.add(at), &sum, 0);
            });
        }
        if overlapping {
            store::<V, 1, false>(output.add(len - V::OCTETS), &end, 0);
        }
    }
}

/// `R` vectors at octet `at` of all outputs, up to four outputs in each pass over the sources.
///
/// # Safety
/// As for [`Kernel::product`](super::Kernel), and `R` vectors from `at` are within the rows.
#[inline(always)]
unsafe fn product_block<V: Vector, const R: usize, const PART: bool>(
    maps: &OctetMaps,
    outputs: &[*mut u8],
    rows: &[*const u8],
    sources: impl Sources,
    at: usize,
    last: usize,
) {
    // SAFETY: the caller's own obligation.
    unsafe {
        let (fours, rest) = outputs.as_chunks::<4>();
        let (row_fours, row_rest) = rows.as_chunks::<4>();
        for (outputs, rows) in fours.iter().zip(row_fours) {
            group::<V, 4, R, PART>(maps, outputs, rows, sources, at, last);
        }
        match (rest, row_rest) {
            ([a, b, c], [d, e, f]) => {
                group::<V, 3, R, PART>(maps, &[*a, *b, *c], &[*d, *e, *f], sources, at, last);
            }
            ([a, b], [d, e]) => {
                group::<V, 2, R, PART>(maps, &[*a, *b], &[*d, *e], sources, at, last);
            }
            ([a], [d]) => group::<V, 1, R, PART>(maps, &[*a], &[*d], sources, at, last),
            _ => {}
        }
    }
}

/// # Safety
/// As for [`product_block`].
#[inline(always)]
unsafe fn group<V: Vector, const M: usize, const R: usize, const PART: bool>(
    maps: &OctetMaps,
    outputs: &[*mut u8; M],
    rows: &[*const u8; M],
    sources: impl Sources,
    at: usize,
    last: usize,
) {
    // SAFETY: the caller's own obligation.
    unsafe {
        let zeros = [[V::zero(); R]; M];
        let sums = sums::<V, M, R, PART>(maps, rows, sources, at, last, zeros);
        for (output, octets) in outputs.iter().zip(&sums) {
            store::<V, R, PART>(output.add(at), octets, last);
        }
    }
}

/// Several outputs, `W` vectors (4 at most) of each at a time.
///
/// # Safety
/// As for [`Kernel::product`](super::Kernel), with the features of V.
#[inline(always)]
pub unsafe fn product<V: Vector, const W: usize>(
    maps: &OctetMaps,
    outputs: &[*mut u8],
    rows: &[*const u8],
    sources: impl Sources,
    len: usize,
) {
    let step = W * V::OCTETS;
    let mut at = 0;
    // SAFETY: `at` and the vectors from there never pass `len`, up to which the caller vouches for all rows.
    unsafe {
        while len - at >= step {
            product_block::<V, W, false>(maps, outputs, rows, sources, at, 0);
            at += step;
        }
        let rest = len - at;
        if rest == 0 {
            return;
        }
        if V::MASKED || len < V::OCTETS {
            let vectors = rest.div_ceil(V::OCTETS);
            let last = rest - (vectors - 1) * V::OCTETS;
            few_vectors!(vectors, R => {
                product_block::<V, R, true>(maps, outputs, rows, sources, at, last);
            });
            return;
        }
        few_vectors!(rest / V::OCTETS, R => {
            product_block::<V, R, false>(maps, outputs, rows, sources, at, 0);
        });
        if !rest.is_multiple_of(V::OCTETS) {
            // Outputs are no sources, so the octets of the overlap come out the same again.
            product_block::<V, 1, false>(maps, outputs, rows, sources, len - V::OCTETS, 0);
        }
    }
}

/// Row i of `count` rows at a stride += coefficient i times `source`.
///
/// # Safety
/// As for [`Kernel::outer`](super::Kernel), with the features of V.
#[inline(always)]
pub unsafe fn outer<V: Vector>(
    maps: &OctetMaps,
    first: *mut u8,
    stride: usize,
    coefficients: &[u8],
    source: *const u8,
    len: usize,
) {
    let mut at = 0;
    while at < len {
        let vectors = (len - at).div_ceil(V::OCTETS).min(4);
        let last = (len - at).min(vectors * V::OCTETS) - (vectors - 1) * V::OCTETS;
        // SAFETY: the octets from `at` that the vectors take do not pass `len`; the caller vouches for so many in
        // `source` and in each row.
        unsafe {
            few_vectors!(vectors, R => {
                outer_block::<V, R>(maps, first.add(at), stride, coefficients, source.add(at), last);
            });
        }
        at += vectors * V::OCTETS;
    }
}

/// # Safety
/// As for [`outer`], and `R` vectors, the last of `last` octets, are within the rows.
#[inline(always)]
unsafe fn outer_block<V: Vector, const R: usize>(
    maps: &OctetMaps,
    first: *mut u8,
    stride: usize,
    coefficients: &[u8],
    source: *const u8,
    last: usize,
) {
    // SAFETY: the caller's own obligation; `index * stride` is the start of a row.
    unsafe {
        let mut octets = [V::zero(); R];
        for (r, octets) in octets.iter_mut().enumerate() {
            *octets = load::<V, R, true>(source, r, last);
        }
        for (index, c) in coefficients.iter().enumerate() {
            if *c == 0 {
                continue;
            }
            let constant = constant::<V>(maps, *c);
            let row = first.add(index * stride);
            let mut sum = octets;
            for (r, sum) in sum.iter_mut().enumerate() {
                *sum = load::<V, R, true>(row, r, last).xor(sum.product(constant));
            }
            store::<V, R, true>(row, &sum, last);
        }
    }
}
