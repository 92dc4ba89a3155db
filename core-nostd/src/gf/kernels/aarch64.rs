//! The kernel of AArch64: nibble tables looked up 16 octets at a time with NEON, which every such CPU has.

use super::pairs::{self, PairMap};
use super::simd::{self, Strided, Vector};
use super::small::{load_small, store_small};
use super::{Kernel, OctetMaps};
use core::arch::aarch64::*;

/// The kernel for all AArch64 CPUs.
pub const NEON: Kernel = Kernel {
    name: "neon",
    available: || true,
    single,
    strided,
    product,
    outer,
    pairs,
    shortest_pairs: Neon::OCTETS,
};

/// 16 octets, multiplied with nibble tables.
#[derive(Copy, Clone)]
struct Neon(uint8x16_t);

/// # Safety
/// See [`Kernel::single`].
unsafe fn single(
    maps: &OctetMaps,
    output: *mut u8,
    row: *const u8,
    sources: &[*const u8],
    len: usize,
    accumulate: bool,
) {
    // SAFETY: the caller's own obligation; NEON is part of AArch64.
    unsafe { simd::single::<Neon, 8>(maps, output, row, sources, len, accumulate) }
}

/// # Safety
/// See [`Kernel::strided`].
unsafe fn strided(
    maps: &OctetMaps,
    output: *mut u8,
    row: *const u8,
    sources: Strided,
    len: usize,
    accumulate: bool,
) {
    // SAFETY: as above.
    unsafe { simd::single::<Neon, 8>(maps, output, row, sources, len, accumulate) }
}

/// # Safety
/// See [`Kernel::product`].
unsafe fn product(
    maps: &OctetMaps,
    outputs: &[*mut u8],
    rows: &[*const u8],
    sources: &[*const u8],
    len: usize,
) {
    // SAFETY: as above.
    unsafe { simd::product::<Neon, 4>(maps, outputs, rows, sources, len) }
}

/// # Safety
/// See [`Kernel::outer`].
unsafe fn outer(
    maps: &OctetMaps,
    first: *mut u8,
    stride: usize,
    coefficients: &[u8],
    source: *const u8,
    len: usize,
) {
    // SAFETY: as above.
    unsafe { simd::outer::<Neon>(maps, first, stride, coefficients, source, len) }
}

/// # Safety
/// See [`Kernel::pairs`].
unsafe fn pairs(map: &PairMap, dst: *mut u8, src: *const u8, len: usize, accumulate: bool) {
    // SAFETY: as above.
    unsafe { pairs::map::<Neon>(map, dst, src, len, accumulate) }
}

impl Vector for Neon {
    type Constant = (uint8x16_t, uint8x16_t);
    const OCTETS: usize = 16;
    const MASKED: bool = false;
    const PAIRED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: NEON is part of AArch64, as in all of this impl.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the octets.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for the octets.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, octets: usize) -> Self {
        // SAFETY: the caller vouches for `octets` octets.
        unsafe {
            if octets == Self::OCTETS {
                return Self::load(from);
            }
            Self(vld1q_u8(load_small(from, octets).to_le_bytes().as_ptr()))
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, octets: usize) {
        // SAFETY: the caller vouches for `octets` octets.
        unsafe {
            if octets == Self::OCTETS {
                return self.store(to);
            }
            let mut value = [0; 16];
            vst1q_u8(value.as_mut_ptr(), self.0);
            store_small(to, octets, u128::from_le_bytes(value));
        }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: as in `zero`.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn constant(nibbles: &[u8; 32], _: u64) -> Self::Constant {
        // SAFETY: two loads of 16 from a table of 32 octets.
        unsafe { (vld1q_u8(nibbles.as_ptr()), vld1q_u8(nibbles.as_ptr().add(16))) }
    }

    #[inline(always)]
    unsafe fn product(self, (low, high): Self::Constant) -> Self {
        // SAFETY: as in `zero`.
        unsafe {
            Self(veorq_u8(
                vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(15))),
                vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0)),
            ))
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: as in `zero`.
        Self(unsafe { vrev16q_u8(self.0) })
    }

    #[inline(always)]
    unsafe fn even_odd(self, odd: Self) -> Self {
        // SAFETY: as in `zero`.
        unsafe {
            let even_places = vreinterpretq_u8_u16(vdupq_n_u16(0xFF));
            Self(vbslq_u8(even_places, self.0, odd.0))
        }
    }
}
