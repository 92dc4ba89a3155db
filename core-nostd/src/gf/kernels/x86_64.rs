//! Kernels for x86-64.

use super::{Kernel, OctetMaps, map_octet};
use core::arch::x86_64::{
    __cpuid, __cpuid_count, __get_cpuid_max, __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256, _xgetbv,
};

/// Nibble tables looked up 32 octets at a time.
pub const AVX2: Kernel = Kernel { name: "avx2", available: has_avx2, combine, scale };

/// Whether the CPU and the operating system support AVX2.
fn has_avx2() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const AVX: u32 = 1 << 28;
    const AVX2: u32 = 1 << 5;
    // State components 1 and 2: the XMM and YMM registers.
    const SSE_AND_AVX_STATE: u64 = 0b110;
    if __get_cpuid_max(0).0 < 7 {
        return false;
    }
    let leaf_1 = __cpuid(1).ecx;
    // SAFETY: `xgetbv` exists because OSXSAVE is set.
    leaf_1 & (OSXSAVE | AVX) == OSXSAVE | AVX
        && unsafe { _xgetbv(0) } & SSE_AND_AVX_STATE == SSE_AND_AVX_STATE
        && __cpuid_count(7, 0).ebx & AVX2 != 0
}

/// The map of one coefficient on 32 octets.
#[target_feature(enable = "avx2")]
fn map(low: __m256i, high: __m256i, octets: __m256i) -> __m256i {
    let mask = _mm256_set1_epi8(15);
    let low_half = _mm256_and_si256(octets, mask);
    let high_half = _mm256_and_si256(_mm256_srli_epi64::<4>(octets), mask);
    _mm256_xor_si256(_mm256_shuffle_epi8(low, low_half), _mm256_shuffle_epi8(high, high_half))
}

/// Both tables of coefficient `c`, each in both halves of a register.
#[target_feature(enable = "avx2")]
fn tables(maps: &OctetMaps, c: u8) -> (__m256i, __m256i) {
    let table: *const __m128i = maps.nibbles[usize::from(c)].as_ptr().cast();
    // SAFETY: the table has 32 octets, 16 for each of the two loads.
    unsafe {
        (
            _mm256_broadcastsi128_si256(_mm_loadu_si128(table)),
            _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(1))),
        )
    }
}

/// # Safety
/// The CPU has AVX2; the rest as for the scalar kernel.
#[target_feature(enable = "avx2")]
unsafe fn combine(
    maps: &OctetMaps,
    outputs: &[*mut u8],
    coefficients: &[*const u8],
    sources: &[*const u8],
    len: usize,
    accumulate: bool,
) {
    let whole = len - len % 32;
    for (output, row) in outputs.iter().zip(coefficients) {
        let mut at = 0;
        while at < whole {
            // SAFETY: the 32 octets from `at` lie within the `len` octets for which the caller vouches, and one
            // coefficient stands for each source.
            unsafe {
                let place: *mut __m256i = output.add(at).cast();
                let mut sum =
                    if accumulate { _mm256_loadu_si256(place) } else { _mm256_setzero_si256() };
                for (index, source) in sources.iter().enumerate() {
                    let (low, high) = tables(maps, *row.add(index));
                    let octets = _mm256_loadu_si256(source.add(at).cast());
                    sum = _mm256_xor_si256(sum, map(low, high, octets));
                }
                _mm256_storeu_si256(place, sum);
            }
            at += 32;
        }
        while at < len {
            // SAFETY: `at` is below `len`; the rest as above.
            unsafe {
                let mut sum = if accumulate { *output.add(at) } else { 0 };
                for (index, source) in sources.iter().enumerate() {
                    sum ^= map_octet(maps, *row.add(index), *source.add(at));
                }
                *output.add(at) = sum;
            }
            at += 1;
        }
    }
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn scale(maps: &OctetMaps, dst: &mut [u8], c: u8) {
    let (low, high) = tables(maps, c);
    let (chunks, tail) = dst.as_chunks_mut::<32>();
    for chunk in chunks {
        let place: *mut __m256i = chunk.as_mut_ptr().cast();
        // SAFETY: the chunk has 32 octets.
        unsafe { _mm256_storeu_si256(place, map(low, high, _mm256_loadu_si256(place))) };
    }
    for octet in tail {
        *octet = map_octet(maps, c, *octet);
    }
}
