//! The kernel for any CPU: nibble tables, one octet at a time.

use super::{OctetMaps, map_octet};

/// See [`Kernel::combine`](super::Kernel).
///
/// # Safety
/// As for every kernel: each pointer is good for `len` octets, outputs overlap nothing else, and every
/// coefficient pointer is good for as many octets as there are sources.
pub unsafe fn combine(
    maps: &OctetMaps,
    outputs: &[*mut u8],
    coefficients: &[*const u8],
    sources: &[*const u8],
    len: usize,
    accumulate: bool,
) {
    for (output, row) in outputs.iter().zip(coefficients) {
        // SAFETY: the caller vouches for `len` octets that nothing else refers to.
        let output = unsafe { core::slice::from_raw_parts_mut(*output, len) };
        // SAFETY: the caller vouches for one coefficient for each source.
        let row = unsafe { core::slice::from_raw_parts(*row, sources.len()) };
        if !accumulate {
            output.fill(0);
        }
        for (c, source) in row.iter().zip(sources) {
            // SAFETY: the caller vouches for `len` octets, none of them in an output.
            let source = unsafe { core::slice::from_raw_parts(*source, len) };
            for (o, s) in output.iter_mut().zip(source) {
                *o ^= map_octet(maps, *c, *s);
            }
        }
    }
}

/// See [`Kernel::scale`](super::Kernel).
///
/// # Safety
/// Safe code throughout; `unsafe` only so that its type is that of the other kernels.
pub unsafe fn scale(maps: &OctetMaps, dst: &mut [u8], c: u8) {
    for d in dst {
        *d = map_octet(maps, c, *d);
    }
}
