//! Combinations that do not repeat.

use super::CoefficientGenerator;
use crate::gf::Field;

/// A prime above 2^63: it has no factor in common with any number of combinations counted here.
const STEP: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// A sequence of coefficients for recoding, of which no two give the same packet or a multiple of it.
///
/// The first coefficient is one and the others run through all that are not zero, in an order that looks random; past the first few,
/// whose combinations number about 2^63, they are random. A sequence counts for one set of packets; when a further
/// packet is held, every new combination has a part of it and so differs from those before. In GF(2) the coefficients run through all that are
/// not all zero.
///
/// After the last combination the sequence begins again. There are (q - 1)^(r - 1) of r packets in a field of q elements: one of one packet, 255
/// of two in GF(2^8).
#[derive(Copy, Clone, Debug)]
pub struct Combinations {
    generator: CoefficientGenerator,
    /// For how many packets the rest of the state counts.
    held: u8,
    start: u64,
    taken: u64,
}

impl Combinations {
    /// A sequence that is determined by `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { generator: CoefficientGenerator::new(seed), held: 0, start: 0, taken: 0 }
    }

    /// Fills `coefficients` with the next combination of `held` packets.
    pub fn next<F: Field>(&mut self, held: u8, coefficients: &mut [u8]) {
        if self.held != held {
            self.held = held;
            self.start = self.generator.next_u64();
            self.taken = 0;
        }
        self.generator.fill_non_zero::<F>(coefficients, held.into());
        // In GF(2) all combinations of bits but none, else every choice of digits from 1 on behind a leading one.
        let (base, first) = match F::BITS {
            1 => (2u64, 0),
            bits => ((1u64 << bits) - 1, 1),
        };
        let mut count = 1u64;
        let mut end = first;
        while end < held
            && let Some(more) = count.checked_mul(base)
            && more < 1 << 63
        {
            count = more;
            end += 1;
        }
        let (count, offset) = match F::BITS {
            1 => (count.saturating_sub(1).max(1), 1),
            _ => (count, 0),
        };
        // One factor is below 2^63 and has nothing in common with the step, so `count` steps give `count` places.
        let place = (u128::from(self.start) + u128::from(self.taken) * u128::from(STEP))
            % u128::from(count);
        let mut digits = place as u64 + offset;
        self.taken = self.taken.wrapping_add(1) % count;
        if first == 1 {
            F::set(coefficients, 0, F::ONE);
        }
        for index in first..end {
            let digit = digits % base;
            digits /= base;
            F::set(coefficients, index.into(), F::element((digit + u64::from(first)) as u16));
        }
    }
}
