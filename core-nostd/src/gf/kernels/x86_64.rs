//! Vectors of x86-64 and the kernels made of them.

use super::pairs::{self, PairMap};
use super::simd::{self, Strided, Vector};
use super::small::{load_small, store_small};
use super::{Kernel, OctetMaps, cpu};
use core::arch::x86_64::*;

/// Defines the functions of one kernel and its entry in the dispatch table: the loops of [`simd`] for `$vector`, inlined where
/// `$features` are enabled, with so many vectors at a time for one output and for several.
macro_rules! kernel {
    ($constant:ident, $module:ident, $name:literal, $vector:ty, $features:literal, $available:path, $single:literal, $several:literal) => {
        #[doc = concat!("The kernel for CPUs with ", $features, ".")]
        pub const $constant: Kernel = Kernel {
            name: $name,
            available: $available,
            single: $module::single,
            strided: $module::strided,
            product: $module::product,
            outer: $module::outer,
            pairs: $module::pairs,
            shortest_pairs: if <$vector>::MASKED { 2 } else { <$vector>::OCTETS },
        };

        mod $module {
            use super::*;

            /// # Safety
            /// See [`Kernel::single`]; the CPU has the features.
            #[target_feature(enable = $features)]
            pub unsafe fn single(
                maps: &OctetMaps,
                output: *mut u8,
                row: *const u8,
                sources: &[*const u8],
                len: usize,
                accumulate: bool,
            ) {
                // SAFETY: the caller's own obligation; the features are enabled here.
                unsafe {
                    simd::single::<$vector, $single>(maps, output, row, sources, len, accumulate)
                }
            }

            /// # Safety
            /// See [`Kernel::strided`]; the CPU has the features.
            #[target_feature(enable = $features)]
            pub unsafe fn strided(
                maps: &OctetMaps,
                output: *mut u8,
                row: *const u8,
                sources: Strided,
                len: usize,
                accumulate: bool,
            ) {
                // SAFETY: as above.
                unsafe {
                    simd::single::<$vector, $single>(maps, output, row, sources, len, accumulate)
                }
            }

            /// # Safety
            /// See [`Kernel::product`]; the CPU has the features.
            #[target_feature(enable = $features)]
            pub unsafe fn product(
                maps: &OctetMaps,
                outputs: &[*mut u8],
                rows: &[*const u8],
                sources: &[*const u8],
                len: usize,
            ) {
                // SAFETY: as above.
                unsafe { simd::product::<$vector, $several>(maps, outputs, rows, sources, len) }
            }

            /// # Safety
            /// See [`Kernel::outer`]; the CPU has the features.
            #[target_feature(enable = $features)]
            pub unsafe fn outer(
                maps: &OctetMaps,
                first: *mut u8,
                stride: usize,
                coefficients: &[u8],
                source: *const u8,
                len: usize,
            ) {
                // SAFETY: as above.
                unsafe { simd::outer::<$vector>(maps, first, stride, coefficients, source, len) }
            }

            /// # Safety
            /// See [`Kernel::pairs`]; the CPU has the features.
            #[target_feature(enable = $features)]
            pub unsafe fn pairs(
                map: &PairMap,
                dst: *mut u8,
                src: *const u8,
                len: usize,
                accumulate: bool,
            ) {
                // SAFETY: as above.
                unsafe { pairs::map::<$vector>(map, dst, src, len, accumulate) }
            }
        }
    };
}

kernel!(SSSE3, ssse3, "ssse3", Ssse3, "ssse3", cpu::has_ssse3, 4, 2);
kernel!(AVX2, avx2, "avx2", Avx2, "avx2", cpu::has_avx2, 4, 2);
kernel!(AVX2_GFNI, avx2_gfni, "avx2-gfni", Avx2Gfni, "avx2,gfni", cpu::has_avx2_gfni, 8, 2);
kernel!(AVX512BW, avx512bw, "avx512bw", Avx512Bw, "avx512f,avx512bw", cpu::has_avx512bw, 4, 4);
kernel!(
    AVX512_GFNI,
    avx512_gfni,
    "avx512-gfni",
    Avx512Gfni,
    "avx512f,avx512bw,gfni",
    cpu::has_avx512_gfni,
    24,
    4
);

/// 16 octets, multiplied with nibble tables.
#[derive(Copy, Clone)]
struct Ssse3(__m128i);

/// 32 octets, multiplied with nibble tables.
#[derive(Copy, Clone)]
struct Avx2(__m256i);

/// 32 octets, multiplied by bit matrices.
#[derive(Copy, Clone)]
struct Avx2Gfni(__m256i);

/// 64 octets, multiplied with nibble tables.
#[derive(Copy, Clone)]
struct Avx512Bw(__m512i);

/// 64 octets, multiplied by bit matrices.
#[derive(Copy, Clone)]
struct Avx512Gfni(__m512i);

/// The low half of each octet.
const LOW: i8 = 15;

/// For a byte shuffle: the other octet of the pair, in 16 octets.
static SWAP: u128 = 0x0E0F_0C0D_0A0B_0809_0607_0405_0203_0001;

/// Up to 16 octets from `from`.
///
/// # Safety
/// `octets` octets from `from` can be read.
#[inline(always)]
unsafe fn load_16(from: *const u8, octets: usize) -> __m128i {
    // SAFETY: the caller's own obligation.
    unsafe {
        if octets == 16 {
            return _mm_loadu_si128(from.cast());
        }
        let value = load_small(from, octets);
        _mm_loadu_si128((&raw const value).cast())
    }
}

/// The first octets, up to 16, to `to`.
///
/// # Safety
/// `octets` octets from `to` can be written.
#[inline(always)]
unsafe fn store_16(vector: __m128i, to: *mut u8, octets: usize) {
    // SAFETY: the caller's own obligation.
    unsafe {
        if octets == 16 {
            return _mm_storeu_si128(to.cast(), vector);
        }
        let mut value = 0u128;
        _mm_storeu_si128((&raw mut value).cast(), vector);
        store_small(to, octets, value);
    }
}

impl Vector for Ssse3 {
    type Constant = (__m128i, __m128i);
    const OCTETS: usize = 16;
    const MASKED: bool = false;
    const PAIRED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has SSSE3, as in all of this impl.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the octets.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for the octets.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, octets: usize) -> Self {
        // SAFETY: the caller vouches for `octets` octets.
        Self(unsafe { load_16(from, octets) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, octets: usize) {
        // SAFETY: the caller vouches for `octets` octets.
        unsafe { store_16(self.0, to, octets) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: as in `zero`.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn constant(nibbles: &[u8; 32], _: u64) -> Self::Constant {
        let table: *const __m128i = nibbles.as_ptr().cast();
        // SAFETY: two loads of 16 from a table of 32 octets.
        unsafe { (_mm_loadu_si128(table), _mm_loadu_si128(table.add(1))) }
    }

    #[inline(always)]
    unsafe fn product(self, (low, high): Self::Constant) -> Self {
        // SAFETY: as in `zero`.
        unsafe {
            let mask = _mm_set1_epi8(LOW);
            let low_half = _mm_and_si128(self.0, mask);
            let high_half = _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask);
            Self(_mm_xor_si128(_mm_shuffle_epi8(low, low_half), _mm_shuffle_epi8(high, high_half)))
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: as in `zero`.
        unsafe { Self(_mm_or_si128(_mm_srli_epi16::<8>(self.0), _mm_slli_epi16::<8>(self.0))) }
    }

    #[inline(always)]
    unsafe fn even_odd(self, odd: Self) -> Self {
        // SAFETY: as in `zero`.
        unsafe {
            let even_places = _mm_set1_epi16(0xFF);
            Self(_mm_or_si128(
                _mm_and_si128(even_places, self.0),
                _mm_andnot_si128(even_places, odd.0),
            ))
        }
    }
}

/// What both vectors of 32 octets share.
macro_rules! vector_of_32 {
    () => {
        const OCTETS: usize = 32;
        const MASKED: bool = false;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the caller has AVX2, as in all of this impl.
            Self(unsafe { _mm256_setzero_si256() })
        }

        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for the octets.
            Self(unsafe { _mm256_loadu_si256(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller vouches for the octets.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn load_part(from: *const u8, octets: usize) -> Self {
            // SAFETY: the caller vouches for `octets` octets; both halves stay within them.
            unsafe {
                let low = load_16(from, octets.min(16));
                let high = match octets.checked_sub(16) {
                    Some(further) => load_16(from.add(16), further),
                    None => _mm_setzero_si128(),
                };
                Self(_mm256_set_m128i(high, low))
            }
        }

        #[inline(always)]
        unsafe fn store_part(self, to: *mut u8, octets: usize) {
            // SAFETY: the caller vouches for `octets` octets; both halves stay within them.
            unsafe {
                store_16(_mm256_castsi256_si128(self.0), to, octets.min(16));
                if let Some(further) = octets.checked_sub(16) {
                    store_16(_mm256_extracti128_si256::<1>(self.0), to.add(16), further);
                }
            }
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: as in `zero`.
            Self(unsafe { _mm256_xor_si256(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn swap_pairs(self) -> Self {
            // SAFETY: as in `zero`.
            unsafe {
                Self(_mm256_or_si256(
                    _mm256_srli_epi16::<8>(self.0),
                    _mm256_slli_epi16::<8>(self.0),
                ))
            }
        }

        #[inline(always)]
        unsafe fn even_odd(self, odd: Self) -> Self {
            // SAFETY: as in `zero`.
            unsafe {
                let odd_places = _mm256_set1_epi16(0xFF00u16 as i16);
                Self(_mm256_blendv_epi8(self.0, odd.0, odd_places))
            }
        }
    };
}

impl Vector for Avx2 {
    type Constant = (__m256i, __m256i);
    const PAIRED: bool = false;
    vector_of_32!();

    #[inline(always)]
    unsafe fn constant(nibbles: &[u8; 32], _: u64) -> Self::Constant {
        let table: *const __m128i = nibbles.as_ptr().cast();
        // SAFETY: two loads of 16 from a table of 32 octets.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table)),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(1))),
            )
        }
    }

    #[inline(always)]
    unsafe fn product(self, (low, high): Self::Constant) -> Self {
        // SAFETY: as in `zero`.
        unsafe {
            let mask = _mm256_set1_epi8(LOW);
            let low_half = _mm256_and_si256(self.0, mask);
            let high_half = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask);
            Self(_mm256_xor_si256(
                _mm256_shuffle_epi8(low, low_half),
                _mm256_shuffle_epi8(high, high_half),
            ))
        }
    }
}

impl Vector for Avx2Gfni {
    type Constant = __m256i;
    const PAIRED: bool = false;
    vector_of_32!();

    #[inline(always)]
    unsafe fn constant(_: &[u8; 32], matrix: u64) -> Self::Constant {
        // SAFETY: as in `zero`.
        unsafe { _mm256_set1_epi64x(matrix as i64) }
    }

    #[inline(always)]
    unsafe fn product(self, matrix: Self::Constant) -> Self {
        // SAFETY: the caller has GFNI too.
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0, matrix) })
    }
}

/// What both vectors of 64 octets share.
macro_rules! vector_of_64 {
    () => {
        const OCTETS: usize = 64;
        const MASKED: bool = true;
        const PAIRED: bool = true;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the caller has AVX-512F and BW, as in all of this impl.
            Self(unsafe { _mm512_setzero_si512() })
        }

        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for the octets.
            Self(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller vouches for the octets.
            unsafe { _mm512_storeu_si512(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn load_part(from: *const u8, octets: usize) -> Self {
            // SAFETY: the caller vouches for the octets that the mask lets through.
            Self(unsafe { _mm512_maskz_loadu_epi8(first_octets(octets), from.cast()) })
        }

        #[inline(always)]
        unsafe fn store_part(self, to: *mut u8, octets: usize) {
            // SAFETY: the caller vouches for the octets that the mask lets through.
            unsafe { _mm512_mask_storeu_epi8(to.cast(), first_octets(octets), self.0) }
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: as in `zero`.
            Self(unsafe { _mm512_xor_si512(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn add_products(
            self,
            a: Self,
            constant_a: Self::Constant,
            b: Self,
            constant_b: Self::Constant,
        ) -> Self {
            // One instruction adds three terms: 0x96 is the truth table of their sum.
            // SAFETY: as in `zero`.
            unsafe {
                Self(_mm512_ternarylogic_epi64::<0x96>(
                    self.0,
                    a.product(constant_a).0,
                    b.product(constant_b).0,
                ))
            }
        }

        #[inline(always)]
        unsafe fn swap_pairs(self) -> Self {
            // SAFETY: as in `zero`; SWAP has the 16 octets that are loaded.
            unsafe {
                let places = _mm512_broadcast_i32x4(_mm_loadu_si128((&raw const SWAP).cast()));
                Self(_mm512_shuffle_epi8(self.0, places))
            }
        }

        #[inline(always)]
        unsafe fn even_odd(self, odd: Self) -> Self {
            // SAFETY: as in `zero`.
            Self(unsafe { _mm512_mask_blend_epi8(0xAAAA_AAAA_AAAA_AAAA, self.0, odd.0) })
        }
    };
}

/// The mask of the first `octets` octets, from 1 to 64.
#[inline(always)]
fn first_octets(octets: usize) -> u64 {
    u64::MAX >> (64usize.wrapping_sub(octets) & 63)
}

impl Vector for Avx512Bw {
    type Constant = (__m512i, __m512i);
    vector_of_64!();

    #[inline(always)]
    unsafe fn constant(nibbles: &[u8; 32], _: u64) -> Self::Constant {
        let table: *const __m128i = nibbles.as_ptr().cast();
        // SAFETY: two loads of 16 from a table of 32 octets.
        unsafe {
            (
                _mm512_broadcast_i32x4(_mm_loadu_si128(table)),
                _mm512_broadcast_i32x4(_mm_loadu_si128(table.add(1))),
            )
        }
    }

    #[inline(always)]
    unsafe fn product(self, (low, high): Self::Constant) -> Self {
        // SAFETY: as in `zero`.
        unsafe {
            let mask = _mm512_set1_epi8(LOW);
            let low_half = _mm512_and_si512(self.0, mask);
            let high_half = _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), mask);
            Self(_mm512_xor_si512(
                _mm512_shuffle_epi8(low, low_half),
                _mm512_shuffle_epi8(high, high_half),
            ))
        }
    }
}

impl Vector for Avx512Gfni {
    type Constant = __m512i;
    vector_of_64!();

    #[inline(always)]
    unsafe fn constant(_: &[u8; 32], matrix: u64) -> Self::Constant {
        // SAFETY: as in `zero`.
        unsafe { _mm512_set1_epi64(matrix as i64) }
    }

    #[inline(always)]
    unsafe fn product(self, matrix: Self::Constant) -> Self {
        // SAFETY: the caller has GFNI too.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix) })
    }
}
