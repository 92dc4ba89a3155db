//! What this x86-64 CPU and its operating system support.

use core::arch::x86_64::{__cpuid, __cpuid_count, __get_cpuid_max, _xgetbv};

/// State components that the operating system must keep: XMM and YMM registers.
const AVX_STATE: u64 = 0b110;
/// The same with mask registers and both parts of the ZMM registers.
const AVX512_STATE: u64 = 0b1110_0110;

/// Bits of leaf 1, ECX.
const SSSE3: u32 = 1 << 9;
const OSXSAVE: u32 = 1 << 27;
const AVX: u32 = 1 << 28;

/// Bits of leaf 7, EBX.
const AVX2: u32 = 1 << 5;
const AVX512F: u32 = 1 << 16;
const AVX512BW: u32 = 1 << 30;

/// Bits of leaf 7, ECX.
const GFNI: u32 = 1 << 8;

/// EBX and ECX of leaf 7, zero on CPUs without it.
fn leaf_7() -> (u32, u32) {
    if __get_cpuid_max(0).0 < 7 {
        return (0, 0);
    }
    let leaf = __cpuid_count(7, 0);
    (leaf.ebx, leaf.ecx)
}

/// Whether the operating system keeps all of `state` when it switches between threads.
fn keeps(state: u64) -> bool {
    if __cpuid(1).ecx & (OSXSAVE | AVX) != OSXSAVE | AVX {
        return false;
    }
    // SAFETY: OSXSAVE says that the instruction exists.
    unsafe { _xgetbv(0) & state == state }
}

pub fn has_ssse3() -> bool {
    __cpuid(1).ecx & SSSE3 != 0
}

pub fn has_avx2() -> bool {
    keeps(AVX_STATE) && leaf_7().0 & AVX2 != 0
}

pub fn has_avx2_gfni() -> bool {
    has_avx2() && leaf_7().1 & GFNI != 0
}

pub fn has_avx512bw() -> bool {
    keeps(AVX512_STATE) && leaf_7().0 & (AVX512F | AVX512BW) == AVX512F | AVX512BW
}

pub fn has_avx512_gfni() -> bool {
    has_avx512bw() && leaf_7().1 & GFNI != 0
}
