//! What this machine can do at most: multiplications from registers, loads, copies.

use crate::timing::{Contender, compare};
use serde::Serialize;
use std::hint::black_box;

/// GB/s; nothing where the CPU lacks the instructions.
#[derive(Debug, Serialize)]
pub struct Ceiling {
    /// Multiply and add with GFNI on 64-octet registers, nothing loaded.
    pub gfni_multiply: Option<f64>,
    /// Multiply and add with AVX2 nibble tables, nothing loaded: tables and octets stay in registers.
    pub avx2_nibble_multiply: Option<f64>,
    /// The same for one output at a time: every source octet is split into nibbles for one product only.
    pub avx2_nibble_multiply_single: Option<f64>,
    /// Loads of whole lines from the first-level cache (16 KiB).
    pub load_l1: Option<f64>,
    /// The same from the second-level cache (256 KiB).
    pub load_l2: Option<f64>,
    /// `memcpy` of 1400 octets.
    pub memcpy_1400: f64,
}

/// Measures all of them.
pub fn measure() -> Ceiling {
    let mut ceiling = Ceiling {
        gfni_multiply: None,
        avx2_nibble_multiply: None,
        avx2_nibble_multiply_single: None,
        load_l1: None,
        load_l2: None,
        memcpy_1400: 0.0,
    };
    let source = vec![1u8; 1400];
    let mut target = vec![0u8; 1400];
    let copy = Contender::new("memcpy", || {
        black_box(&mut target).copy_from_slice(black_box(&source));
    });
    ceiling.memcpy_1400 = rate(copy, 1400.0);
    #[cfg(target_arch = "x86_64")]
    x86_64::measure(&mut ceiling);
    ceiling
}

fn rate(contender: Contender<'_>, octets: f64) -> f64 {
    let times = compare(&mut [contender]);
    octets / times.first().copied().unwrap_or(f64::NAN)
}

#[cfg(target_arch = "x86_64")]
pub use x86_64::{avx2, gfni};

/// No other CPU has such instructions.
#[cfg(not(target_arch = "x86_64"))]
pub fn gfni() -> Option<Contender<'static>> {
    None
}

/// No other CPU has such instructions.
#[cfg(not(target_arch = "x86_64"))]
pub fn avx2(_several: bool) -> Option<Contender<'static>> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Ceiling, rate};
    use crate::timing::Contender;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// Passes of the inner loop of each run.
    const PASSES: usize = 2000;

    pub fn measure(ceiling: &mut Ceiling) {
        ceiling.gfni_multiply = gfni().map(own_rate);
        if is_x86_feature_detected!("avx512f") {
            // Not zeros: untouched zeros would all be one page of the system.
            let lines = vec![1u8; 256 * 1024 + 64];
            for (octets, into) in
                [(16 * 1024, &mut ceiling.load_l1), (256 * 1024, &mut ceiling.load_l2)]
            {
                let start = lines.as_ptr().align_offset(64);
                let part = &lines[start..start + octets];
                // SAFETY: as above.
                let run = Contender::new("load", || unsafe { load(black_box(part)) });
                *into = Some(rate(run, 8.0 * octets as f64));
            }
        }
        ceiling.avx2_nibble_multiply = avx2(true).map(own_rate);
        ceiling.avx2_nibble_multiply_single = avx2(false).map(own_rate);
    }

    fn own_rate(contender: Contender<'_>) -> f64 {
        let octets = contender.octets.unwrap_or(0) as f64;
        rate(contender, octets)
    }

    /// Multiplications with GFNI, from registers.
    pub fn gfni() -> Option<Contender<'static>> {
        if !is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("gfni") {
            return None;
        }
        // SAFETY: the features were just detected.
        let mut contender = Contender::new("ceiling", || unsafe { gfni_multiply() });
        contender.octets = Some(PASSES * 16 * 64);
        Some(contender)
    }

    /// Multiplications with AVX2 nibble tables, from registers, for four outputs or for one.
    pub fn avx2(several: bool) -> Option<Contender<'static>> {
        if !is_x86_feature_detected!("avx2") {
            return None;
        }
        let mut contender = Contender::new("ceiling", move || {
            // SAFETY: the feature was just detected.
            unsafe { if several { nibbles::<4>() } else { nibbles::<1>() } }
        });
        contender.octets = Some(PASSES * 8 * 32);
        Some(contender)
    }

    /// 16 independent sums of products in each pass.
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn gfni_multiply() {
        let matrix = _mm512_set1_epi64(black_box(0x0102_0408_1020_4080));
        let octets = _mm512_set1_epi8(black_box(3));
        let mut sums = [_mm512_setzero_si512(); 16];
        for _ in 0..PASSES / 2 {
            // The constant changes in each pass, or the products could be computed once.
            let octets = black_box_register(octets);
            for sum in &mut sums {
                *sum = _mm512_ternarylogic_epi64::<0x96>(
                    *sum,
                    _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_xor_si512(octets, *sum), matrix),
                    _mm512_gf2p8affine_epi64_epi8::<1>(octets, *sum),
                );
            }
        }
        black_box(sums);
    }

    /// Hides a value from the optimiser without leaving its register.
    #[target_feature(enable = "avx512f")]
    fn black_box_register(mut value: __m512i) -> __m512i {
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0} */", inout(zmm_reg) value, options(pure, nomem, nostack))
        };
        value
    }

    /// Loads every line, eight sums at a time.
    #[target_feature(enable = "avx512f")]
    fn load(octets: &[u8]) {
        // Several passes in each run, or calling would cost as much as loading.
        for _ in 0..8 {
            let zero = _mm512_setzero_si512();
            let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
            let (mut e, mut f, mut g, mut h) = (zero, zero, zero, zero);
            for lines in black_box(octets).as_chunks::<512>().0 {
                let line: *const __m512i = lines.as_ptr().cast();
                // SAFETY: the eight lines of 64 octets lie within the 512.
                unsafe {
                    a = _mm512_or_si512(a, _mm512_loadu_si512(line));
                    b = _mm512_or_si512(b, _mm512_loadu_si512(line.add(1)));
                    c = _mm512_or_si512(c, _mm512_loadu_si512(line.add(2)));
                    d = _mm512_or_si512(d, _mm512_loadu_si512(line.add(3)));
                    e = _mm512_or_si512(e, _mm512_loadu_si512(line.add(4)));
                    f = _mm512_or_si512(f, _mm512_loadu_si512(line.add(5)));
                    g = _mm512_or_si512(g, _mm512_loadu_si512(line.add(6)));
                    h = _mm512_or_si512(h, _mm512_loadu_si512(line.add(7)));
                }
            }
            black_box([a, b, c, d, e, f, g, h]);
        }
    }

    /// Sums of products by nibble tables: `OUTPUTS` products of each octet that was split, eight products in each pass.
    #[target_feature(enable = "avx2")]
    fn nibbles<const OUTPUTS: usize>() {
        let low = _mm256_set1_epi8(black_box(3));
        let high = _mm256_set1_epi8(black_box(5));
        let mask = _mm256_set1_epi8(15);
        let mut octets = _mm256_set1_epi8(black_box(0x35));
        let mut sums = [_mm256_setzero_si256(); OUTPUTS];
        for _ in 0..PASSES * 8 / OUTPUTS {
            // SAFETY: no instruction at all; the octets count as new.
            unsafe {
                std::arch::asm!("/* {0} */", inout(ymm_reg) octets, options(nomem, nostack));
            }
            let low_half = _mm256_and_si256(octets, mask);
            let high_half = _mm256_and_si256(_mm256_srli_epi64::<4>(octets), mask);
            for sum in &mut sums {
                let (mut low, mut high) = (low, high);
                // SAFETY: as above; the tables count as new for each output.
                unsafe {
                    std::arch::asm!("/* {0} {1} */", inout(ymm_reg) low, inout(ymm_reg) high, options(nomem, nostack));
                }
                let product = _mm256_xor_si256(
                    _mm256_shuffle_epi8(low, low_half),
                    _mm256_shuffle_epi8(high, high_half),
                );
                *sum = _mm256_xor_si256(*sum, product);
            }
        }
        black_box(sums);
    }
}
