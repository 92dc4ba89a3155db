//! Coefficients from a seed.

use crate::gf::Field;

/// A generator of coefficients: SplitMix64, a counter that is mixed by multiplications.
///
/// It is not linear over GF(2). (Vectors from a linear generator of 64 bits of state never span more than 64
/// dimensions.) It is no source of secrets.
#[derive(Copy, Clone, Debug)]
pub struct CoefficientGenerator {
    counter: u64,
}

/// One round of mixing: every bit of the result depends on every bit of `x`.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl CoefficientGenerator {
    /// A generator whose output is determined by `seed`.
    pub const fn new(seed: u64) -> Self {
        // Mixed first, so that seeds that differ by a multiple of the counter's step do not give one sequence shifted.
        Self { counter: mix(seed ^ 0x6865_6464_6C65_2121) }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.counter)
    }

    /// The next element, uniform over the field.
    pub fn element<F: Field>(&mut self) -> F::Element {
        F::element((self.next_u64() >> 48) as u16)
    }

    /// The next element, uniform over the field without zero.
    pub fn non_zero<F: Field>(&mut self) -> F::Element {
        loop {
            // The four 16-bit parts one after the other; one draw in two is not zero even in GF(2).
            let mut bits = self.next_u64();
            for _ in 0..4 {
                let element = F::element(bits as u16);
                if element != F::ZERO {
                    return element;
                }
                bits >>= 16;
            }
        }
    }

    /// Fills `vector` with `elements` elements uniform over the field, not all of them zero.
    pub fn fill<F: Field>(&mut self, vector: &mut [u8], elements: usize) {
        if elements == 0 || vector.is_empty() {
            return;
        }
        let mut any = false;
        while !any {
            vector.fill(0);
            for index in 0..elements {
                let element = self.element::<F>();
                any |= element != F::ZERO;
                F::set(vector, index, element);
            }
        }
    }

    /// Fills `vector` with `elements` elements uniform over the field without zero. In GF(2), where that
    /// leaves one choice only, it does what [`fill`](Self::fill) does.
    pub fn fill_non_zero<F: Field>(&mut self, vector: &mut [u8], elements: usize) {
        if F::BITS == 1 {
            return self.fill::<F>(vector, elements);
        }
        vector.fill(0);
        for index in 0..elements {
            F::set(vector, index, self.non_zero::<F>());
        }
    }
}
