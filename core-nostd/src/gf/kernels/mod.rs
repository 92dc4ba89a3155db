//! Kernels: the loops that multiply and add octets, one set for each kind of CPU, behind one dispatch table.
//!
//! The only module of the crate with `unsafe` code. The functions of this file are safe: they check every length
//! and hand pointers to the kernel that [`active`] names.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod cpu;
mod pairs;
mod scalar;
mod simd;
mod small;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::tables::{OctetMaps, bit_matrix, nibble_table};
use super::{MAX_ELEMENTS, RowSet, Rows, RowsMut};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};
use pairs::PairMap;
use simd::Strided;
use spin::Mutex;

/// Output rows for which [`product`] gathers coefficients at a time.
const MAX_OUTPUTS: usize = 8;

/// The functions of one kernel.
///
/// Common to all: pointers stand for rows of `len` octets that can be read or, where they are outputs, also written and that
/// nothing else refers to; one coefficient can be read for each source; the CPU can run the kernel.
#[derive(Debug)]
struct Kernel {
    /// The name, as [`force`] takes it.
    name: &'static str,
    /// Whether this CPU can run it.
    available: fn() -> bool,
    /// One output of any sources.
    single: Single,
    /// The same of sources at a stride.
    strided: StridedSingle,
    /// Several outputs of the same sources.
    product: Product,
    /// Several rows, to each of which a multiple of one source is added.
    outer: Outer,
    /// One row mapped pair by pair of octets.
    pairs: Pairs,
    /// The least `len` that `pairs` takes, other than 0.
    shortest_pairs: usize,
}

/// `(maps, output, coefficients, sources, len, accumulate)`: output = (itself, when `accumulate`, +) sum of coefficient i times
/// source i. A source may be the very row of the output.
type Single = unsafe fn(&OctetMaps, *mut u8, *const u8, &[*const u8], usize, bool);

/// As [`Single`], but no source may be the row of the output.
type StridedSingle = unsafe fn(&OctetMaps, *mut u8, *const u8, Strided, usize, bool);

/// `(maps, outputs, coefficients, sources, len)`: each output = sum of coefficient i of its row times source i.
type Product = unsafe fn(&OctetMaps, &[*mut u8], &[*const u8], &[*const u8], usize);

/// `(maps, first, stride, coefficients, source, len)`: the row at `first + i * stride` += coefficient i times source.
type Outer = unsafe fn(&OctetMaps, *mut u8, usize, &[u8], *const u8, usize);

/// `(map, dst, src, len, accumulate)`: dst = (itself, when `accumulate`, +) map of src, pair by pair of octets. `src` may be `dst`;
/// `len` is even and not below `shortest_pairs`.
type Pairs = unsafe fn(&PairMap, *mut u8, *const u8, usize, bool);

/// The kernel for a CPU of which nothing is known.
const SCALAR: Kernel = Kernel {
    name: "scalar",
    available: || true,
    single: scalar::single,
    strided: scalar::strided,
    product: scalar::product,
    outer: scalar::outer,
    pairs: scalar::pairs,
    shortest_pairs: 2,
};

/// Every kernel compiled in, the fastest first.
static KERNELS: &[Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    x86_64::AVX512_GFNI,
    #[cfg(target_arch = "x86_64")]
    x86_64::AVX2_GFNI,
    #[cfg(target_arch = "x86_64")]
    x86_64::AVX512BW,
    #[cfg(target_arch = "x86_64")]
    x86_64::AVX2,
    #[cfg(target_arch = "x86_64")]
    x86_64::SSSE3,
    #[cfg(target_arch = "aarch64")]
    aarch64::NEON,
    SCALAR,
];

/// One more than the place in [`KERNELS`] of the kernel in use; 0 while none is chosen.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// Held while the CPU is asked what it can do, so that only one core asks. (`spin::Once` would do, but it can panic.)
static CHOOSING: Mutex<()> = Mutex::new(());

/// The kernel that bulk operations use.
fn active() -> &'static Kernel {
    // Relaxed: the number refers to nothing but a constant table.
    let chosen = CHOSEN.load(Ordering::Relaxed);
    match chosen.checked_sub(1).and_then(|place| KERNELS.get(place)) {
        Some(kernel) => kernel,
        None => choose(),
    }
}

/// Chooses the fastest kernel that this CPU can run.
#[cold]
fn choose() -> &'static Kernel {
    let _guard = CHOOSING.lock();
    let place = KERNELS.iter().position(|kernel| (kernel.available)()).unwrap_or(0);
    // Unless one was forced meanwhile.
    let _ = CHOSEN.compare_exchange(0, place + 1, Ordering::Relaxed, Ordering::Relaxed);
    KERNELS.get(place).unwrap_or(const { &SCALAR })
}

/// No kernel of that name is compiled in, or this CPU cannot run it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UnknownKernel;

impl core::fmt::Display for UnknownKernel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no such kernel on this CPU")
    }
}

impl core::error::Error for UnknownKernel {}

/// Makes all bulk operations from now on use the kernel called `name`, or the fastest one again for `auto`.
/// Programs pass the value of their environment variable `HEDDLE_GF`.
///
/// # Errors
/// [`UnknownKernel`] when this CPU has no such kernel; nothing has changed then.
pub fn force(name: &str) -> Result<(), UnknownKernel> {
    let place = if name == "auto" {
        0
    } else {
        1 + KERNELS
            .iter()
            .position(|kernel| kernel.name == name && (kernel.available)())
            .ok_or(UnknownKernel)?
    };
    CHOSEN.store(place, Ordering::Relaxed);
    Ok(())
}

/// The name of the kernel that bulk operations use.
pub fn kernel_name() -> &'static str {
    active().name
}

/// The names of all kernels that this CPU can run, the fastest first.
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().filter(|kernel| (kernel.available)()).map(|kernel| kernel.name)
}

/// The image of one octet under the map of `c`.
#[inline]
pub fn map_octet(maps: &OctetMaps, c: u8, octet: u8) -> u8 {
    let table = &maps.nibbles[usize::from(c)];
    table[usize::from(octet & 15)] ^ table[16 + usize::from(octet >> 4)]
}

/// `dst += c * src`, as far as the shorter goes.
pub fn mul_add(maps: &OctetMaps, dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: both rows are `len` octets at least and, by their types, do not overlap; one source, one coefficient.
    // `active` names only kernels that this CPU can run, as below.
    unsafe { (active().single)(maps, dst.as_mut_ptr(), &raw const c, &[src.as_ptr()], len, true) }
}

/// `dst = c * dst`.
pub fn scale(maps: &OctetMaps, dst: &mut [u8], c: u8) {
    let octets = dst.as_mut_ptr();
    // SAFETY: the output may be its own source; one source, one coefficient.
    unsafe {
        (active().single)(maps, octets, &raw const c, &[octets.cast_const()], dst.len(), false);
    }
}

/// Room for the pointers to sources and their coefficients, left uninitialised until used.
struct Gathered {
    pointers: [MaybeUninit<*const u8>; MAX_ELEMENTS],
    coefficients: [MaybeUninit<u8>; MAX_ELEMENTS],
    used: usize,
}

impl Gathered {
    const fn new() -> Self {
        Self {
            pointers: [const { MaybeUninit::uninit() }; MAX_ELEMENTS],
            coefficients: [const { MaybeUninit::uninit() }; MAX_ELEMENTS],
            used: 0,
        }
    }

    /// Adds a source; false when there is no room.
    #[inline(always)]
    fn push(&mut self, row: &[u8], c: u8) -> bool {
        let place = self.pointers.get_mut(self.used);
        let Some((pointer, coefficient)) = place.zip(self.coefficients.get_mut(self.used)) else {
            return false;
        };
        pointer.write(row.as_ptr());
        coefficient.write(c);
        self.used += 1;
        true
    }

    fn pointers(&self) -> &[*const u8] {
        let used = self.pointers.get(..self.used).unwrap_or_default();
        // SAFETY: `push` has written the first `used` entries.
        unsafe { used.assume_init_ref() }
    }
}

/// `dst = (dst, when accumulate, +) sum of coefficients[i] (one to an octet) * rows[i]`, for as many as there are of both.
/// False, and nothing done, when the rows are shorter than `dst`.
pub fn combine_rows(
    maps: &OctetMaps,
    dst: &mut [u8],
    coefficients: &[u8],
    rows: Rows<'_>,
    accumulate: bool,
) -> bool {
    let rows = rows.first(coefficients.len());
    if rows.row_octets() < dst.len() {
        return false;
    }
    let (first, stride) = rows.start_and_stride();
    let sources = Strided { first, stride, count: rows.count() };
    // SAFETY: `rows` has so many rows of `dst.len()` octets at least, and there is a coefficient for each; `dst` is borrowed
    // alone, so no row lies in it.
    unsafe {
        (active().strided)(
            maps,
            dst.as_mut_ptr(),
            coefficients.as_ptr(),
            sources,
            dst.len(),
            accumulate,
        );
    }
    true
}

/// `dst = (dst, when accumulate, +) sum of coefficient(i) * sources[i]`.
#[inline]
pub fn combine<S: RowSet + ?Sized>(
    maps: &OctetMaps,
    dst: &mut [u8],
    coefficient: impl Fn(usize) -> u8,
    sources: &S,
    mut accumulate: bool,
) {
    let single = active().single;
    let count = sources.count();
    let mut short_rows = false;
    let mut next = 0;
    // Once at least, so that `dst` becomes zero when there is no source.
    loop {
        let mut gathered = Gathered::new();
        while next < count {
            let (c, row) = (coefficient(next), sources.row(next));
            if c != 0 {
                if row.len() < dst.len() {
                    short_rows = true;
                } else if !gathered.push(row, c) {
                    break;
                }
            }
            next += 1;
        }
        // SAFETY: only rows as long as `dst` were gathered, one coefficient with each; `dst` is borrowed alone, so no
        // row lies in it.
        unsafe {
            single(
                maps,
                dst.as_mut_ptr(),
                gathered.coefficients.as_ptr().cast(),
                gathered.pointers(),
                dst.len(),
                accumulate,
            );
        }
        accumulate = true;
        if next >= count {
            break;
        }
    }
    if short_rows {
        // As if zeros followed them.
        for index in 0..count {
            let (c, row) = (coefficient(index), sources.row(index));
            if c != 0 && row.len() < dst.len() {
                mul_add(maps, dst, c, row);
            }
        }
    }
}

/// Row m of `dst` = sum of coefficient(m, i) * sources[i], for the rows that are `wanted`. `packed(m)` gives all
/// coefficients of row m when they stand one to an octet.
pub fn product<'c, S: RowSet + ?Sized>(
    maps: &OctetMaps,
    dst: &mut RowsMut<'_>,
    packed: impl Fn(usize) -> Option<&'c [u8]>,
    coefficient: impl Fn(usize, usize) -> u8,
    sources: &S,
    wanted: impl Fn(usize) -> bool,
) {
    let len = dst.row_octets();
    let count = sources.count();
    let mut gathered = Gathered::new();
    let whole = (0..count).all(|index| {
        let row = sources.row(index);
        row.len() >= len && gathered.push(row, 0)
    });
    if !whole {
        // Short sources, or more than one pass can take: row by row.
        for (output, row) in dst.iter_mut().enumerate().filter(|(output, _)| wanted(*output)) {
            combine(maps, row, |index| coefficient(output, index), sources, false);
        }
        return;
    }
    let kernel = active();
    let mut rows = dst.iter_mut().enumerate().filter(|(output, _)| wanted(*output));
    loop {
        let mut room = [const { MaybeUninit::<[u8; MAX_ELEMENTS]>::uninit() }; MAX_OUTPUTS];
        let mut outputs = [core::ptr::null_mut(); MAX_OUTPUTS];
        let mut coefficients = [core::ptr::null(); MAX_OUTPUTS];
        let mut used = 0;
        // The room goes first: `zip` asks the rows only when there is a place left.
        for ((room, (pointer, place)), (output, row)) in
            room.iter_mut().zip(outputs.iter_mut().zip(&mut coefficients)).zip(&mut rows)
        {
            *pointer = row.as_mut_ptr();
            *place = match packed(output) {
                Some(vector) if vector.len() >= count => vector.as_ptr(),
                _ => {
                    let room = room.write([0; MAX_ELEMENTS]);
                    for (index, to) in room.iter_mut().enumerate().take(count) {
                        *to = coefficient(output, index);
                    }
                    room.as_ptr()
                }
            };
            used += 1;
        }
        if used == 0 {
            return;
        }
        if let (Some(outputs), Some(coefficients)) = (outputs.get(..used), coefficients.get(..used))
        {
            // SAFETY: rows of `dst` have `len` octets, do not overlap and are borrowed alone; every source gathered has
            // as many; each pointer to coefficients stands for one for each source.
            unsafe { (kernel.product)(maps, outputs, coefficients, gathered.pointers(), len) };
        }
    }
}

/// Row i of `dst` += `coefficients[i]` (one to an octet) * `src`, as far as the shorter goes.
pub fn add_outer(maps: &OctetMaps, dst: &mut RowsMut<'_>, coefficients: &[u8], src: &[u8]) {
    let len = dst.row_octets().min(src.len());
    let count = dst.count().min(coefficients.len());
    let coefficients = coefficients.get(..count).unwrap_or_default();
    let (first, stride) = dst.start_and_stride();
    // SAFETY: there is a row of `len` octets at each stride, for each coefficient; `dst` is borrowed alone, so `src` is
    // not in it.
    unsafe { (active().outer)(maps, first, stride, coefficients, src.as_ptr(), len) };
}

/// `dst = (dst, when accumulate, +) map of src` (of `dst` itself when there is none), pair by pair of octets as far as the
/// shorter goes. `images` are those of the 16 single bits of a pair whose even octet is the low one.
pub fn map_pairs(images: &[u16; 16], dst: &mut [u8], src: Option<&[u8]>, accumulate: bool) {
    let octets = dst.as_mut_ptr();
    let (from, len) = match src {
        Some(src) => (src.as_ptr(), dst.len().min(src.len())),
        None => (octets.cast_const(), dst.len()),
    };
    let len = len & !1;
    if len == 0 {
        return;
    }
    let (low_bits, high_bits) = images.split_at(8);
    let part = |bits: &[u16], shift: u32| {
        let mut part = [0; 8];
        for (to, image) in part.iter_mut().zip(bits) {
            *to = (image >> shift) as u8;
        }
        part
    };
    let maps = [part(low_bits, 0), part(high_bits, 0), part(low_bits, 8), part(high_bits, 8)];
    let map = PairMap { nibbles: maps.map(nibble_table), matrices: maps.map(bit_matrix) };
    let kernel = active();
    let pairs = if len < kernel.shortest_pairs { SCALAR.pairs } else { kernel.pairs };
    // SAFETY: both rows have `len` octets, an even number and as many as the kernel takes at least; `src` is `dst` itself
    // or, by its type, apart from it.
    unsafe { pairs(&map, octets, from, len, accumulate) }
}
