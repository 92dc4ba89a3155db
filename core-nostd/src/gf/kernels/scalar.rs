//! The kernel for any CPU: nibble tables, one octet at a time.

use super::pairs::PairMap;
use super::simd::Strided;
use super::{OctetMaps, map_octet};

/// See [`Kernel::single`](super::Kernel).
///
/// # Safety
/// As there.
pub unsafe fn single(
    maps: &OctetMaps,
    output: *mut u8,
    row: *const u8,
    sources: &[*const u8],
    len: usize,
    accumulate: bool,
) {
    // SAFETY: the caller vouches for one coefficient for each source.
    let row = unsafe { core::slice::from_raw_parts(row, sources.len()) };
    for at in 0..len {
        // SAFETY: `at` is below `len`, for which the caller vouches in output and sources.
        unsafe {
            let output = output.add(at);
            let mut sum = if accumulate { output.read() } else { 0 };
            for (c, source) in row.iter().zip(sources) {
                sum ^= map_octet(maps, *c, source.add(at).read());
            }
            output.write(sum);
        }
    }
}

/// See [`Kernel::strided`](super::Kernel).
///
/// # Safety
/// As there.
pub unsafe fn strided(
    maps: &OctetMaps,
    output: *mut u8,
    row: *const u8,
    sources: Strided,
    len: usize,
    accumulate: bool,
) {
    if !accumulate {
        // SAFETY: the caller vouches for `len` octets that nothing else refers to.
        unsafe { output.write_bytes(0, len) };
    }
    for index in 0..sources.count {
        // SAFETY: the caller vouches for one coefficient and `len` octets for each source.
        unsafe {
            let source = sources.first.add(index * sources.stride);
            single(maps, output, row.add(index), &[source], len, true);
        }
    }
}

/// See [`Kernel::product`](super::Kernel).
///
/// # Safety
/// As there.
pub unsafe fn product(
    maps: &OctetMaps,
    outputs: &[*mut u8],
    rows: &[*const u8],
    sources: &[*const u8],
    len: usize,
) {
    for (output, row) in outputs.iter().zip(rows) {
        // SAFETY: the caller's obligations for all outputs hold for each.
        unsafe { single(maps, *output, *row, sources, len, false) };
    }
}

/// See [`Kernel::outer`](super::Kernel).
///
/// # Safety
/// As there.
pub unsafe fn outer(
    maps: &OctetMaps,
    first: *mut u8,
    stride: usize,
    coefficients: &[u8],
    source: *const u8,
    len: usize,
) {
    for (index, c) in coefficients.iter().enumerate() {
        if *c != 0 {
            // SAFETY: the caller vouches for a row of `len` octets at every stride, one for each coefficient.
            unsafe { single(maps, first.add(index * stride), c, &[source], len, true) };
        }
    }
}

/// See [`Kernel::pairs`](super::Kernel).
///
/// # Safety
/// As there.
pub unsafe fn pairs(map: &PairMap, dst: *mut u8, src: *const u8, len: usize, accumulate: bool) {
    let image = |table: &[u8; 32], octet: u8| {
        table[usize::from(octet & 15)] ^ table[16 + usize::from(octet >> 4)]
    };
    let [even_even, odd_even, even_odd, odd_odd] = &map.nibbles;
    for pair in 0..len / 2 {
        // SAFETY: the pair lies within `len` octets, for which the caller vouches.
        unsafe {
            let dst = dst.add(2 * pair).cast::<[u8; 2]>();
            let [even, odd] = src.add(2 * pair).cast::<[u8; 2]>().read();
            let [old_even, old_odd] = if accumulate { dst.read() } else { [0; 2] };
            dst.write([
                old_even ^ image(even_even, even) ^ image(odd_even, odd),
                old_odd ^ image(even_odd, even) ^ image(odd_odd, odd),
            ]);
        }
    }
}
