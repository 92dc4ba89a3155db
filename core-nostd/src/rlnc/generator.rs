//! Coefficients from a seed.

use crate::gf::{Field, MAX_ELEMENTS, MAX_VECTOR_OCTETS};

/// A generator of coefficients: SplitMix64, a counter that is mixed by multiplications.
///
/// It is not linear over GF(2). (Vectors from a linear generator of 64 bits of state never span more than 64
/// dimensions.) It is no source of secrets.
///
/// # From seed to coefficients
///
/// A sender that names a seed in place of a coding vector must say the same coefficients as its receiver computes. They are
/// defined as follows; all arithmetic is on 64-bit numbers, modulo 2^64.
///
/// 1. mix(x): x = (x XOR (x >> 30)) * 0xBF58476D1CE4E5B9; x = (x XOR (x >> 27)) * 0x94D049BB133111EB; the result is x XOR (x >> 31).
/// 2. A seed of 8 octets is a big-endian number s. A seed of 4 octets is a big-endian number t, and s = t + 2^32 * 0x73656564.
/// 3. counter = mix(s XOR 0x686564646C652121). Step n (from 1 on) gives mix(counter + n * 0x9E3779B97F4A7C15), and its eight
///    octets, the lowest first, are appended to the *stream*.
/// 4. The stream holds elements packed as in a coding vector: the high bits of an octet come first, of a 16-bit element the high octet.
/// 5. The coefficients are the first K elements of the stream that are not zero. In GF(2) they are the first K elements, zero or not, unless
///    all are zero: then the stream goes on at the next multiple of eight octets and the rule is applied again.
///
/// What a sparse vector takes from the stream is said at [`CoefficientGenerator::fill_sparse`].
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

    /// The generator of a seed of 4 octets, as it stands in a packet.
    pub const fn from_seed_4(seed: [u8; 4]) -> Self {
        Self::new(u32::from_be_bytes(seed) as u64 | 0x7365_6564 << 32)
    }

    /// The generator of a seed of 8 octets, as it stands in a packet.
    pub const fn from_seed_8(seed: [u8; 8]) -> Self {
        Self::new(u64::from_be_bytes(seed))
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.counter)
    }

    /// The next eight octets of the stream.
    const fn next_octets(&mut self) -> [u8; 8] {
        self.next_u64().to_le_bytes()
    }

    /// One element, uniform over the field, from the first octets of the next eight.
    pub fn element<F: Field>(&mut self) -> F::Element {
        F::get(&self.next_octets(), 0)
    }

    /// One element, uniform over the field without zero: the first that is not zero in the next eight octets, or in the eight after
    /// those, and so on.
    pub fn non_zero<F: Field>(&mut self) -> F::Element {
        loop {
            let octets = self.next_octets();
            let symbols = 64 / F::BITS as usize;
            if let Some(element) =
                (0..symbols).map(|index| F::get(&octets, index)).find(|element| *element != F::ZERO)
            {
                return element;
            }
        }
    }

    /// Fills `vector` with `elements` elements uniform over the field, not all of them zero: the stream's octets as they come, from the
    /// next eight on, with zeros for the bits after the last element. A vector of zeros is drawn again.
    pub fn fill<F: Field>(&mut self, vector: &mut [u8], elements: usize) {
        let used = super::vector_octets::<F>(elements).min(vector.len());
        let (used, rest) = vector.split_at_mut(used);
        rest.fill(0);
        if used.is_empty() {
            return;
        }
        loop {
            for chunk in used.chunks_mut(8) {
                for (octet, drawn) in chunk.iter_mut().zip(self.next_octets()) {
                    *octet = drawn;
                }
            }
            let used_bits = elements.saturating_mul(F::BITS as usize) % 8;
            if used_bits != 0
                && let Some(last) = used.last_mut()
            {
                *last &= !(0xFF >> used_bits);
            }
            if used.iter().any(|octet| *octet != 0) {
                return;
            }
        }
    }

    /// Fills `vector` with `elements` elements uniform over the field without zero: the stream's elements from the next eight octets on,
    /// with zeros left out. In GF(2), where that leaves one choice only, it does what [`fill`](Self::fill) does.
    pub fn fill_non_zero<F: Field>(&mut self, vector: &mut [u8], elements: usize) {
        if F::BITS == 1 {
            return self.fill::<F>(vector, elements);
        }
        if F::BITS == 8 {
            return self.fill_non_zero_octets(vector, elements);
        }
        vector.fill(0);
        let mut index = 0;
        while index < elements {
            let octets = self.next_octets();
            for symbol in 0..64 / F::BITS as usize {
                let element = F::get(&octets, symbol);
                if element != F::ZERO && index < elements {
                    F::set(vector, index, element);
                    index += 1;
                }
            }
        }
    }

    /// [`fill_non_zero`](Self::fill_non_zero) for elements of one octet.
    fn fill_non_zero_octets(&mut self, vector: &mut [u8], elements: usize) {
        let (used, rest) = vector.split_at_mut(elements.min(vector.len()));
        rest.fill(0);
        let mut at = 0;
        while at < used.len() {
            let octets = self.next_octets();
            let whole = used.get_mut(at..).and_then(|left| left.first_chunk_mut::<8>());
            if let Some(chunk) = whole
                && octets.iter().all(|octet| *octet != 0)
            {
                *chunk = octets;
                at += 8;
                continue;
            }
            for octet in octets {
                if octet != 0
                    && let Some(place) = used.get_mut(at)
                {
                    *place = octet;
                    at += 1;
                }
            }
        }
    }

    /// Fills `vector` with `elements` (at most 255) elements of which about `density` in 256 are not zero, one of them at least: a
    /// sparse vector. A density of 0 counts as 1.
    ///
    /// Element i may be other than zero when octet i of the stream, from the next eight on, is below `density`; when none is, this is
    /// repeated. The values of those elements then come in order as in [`fill_non_zero`](Self::fill_non_zero); in GF(2) they are one.
    pub fn fill_sparse<F: Field>(&mut self, vector: &mut [u8], elements: usize, density: u8) {
        let elements = elements.min(MAX_ELEMENTS);
        vector.fill(0);
        if elements == 0 {
            return;
        }
        let mut chosen = 0;
        while chosen == 0 {
            for first in (0..elements).step_by(8) {
                for (index, octet) in (first..elements).zip(self.next_octets()) {
                    if octet < density.max(1) {
                        F::set(vector, index, F::ONE);
                        chosen += 1;
                    }
                }
            }
        }
        if F::BITS == 1 {
            return;
        }
        let mut values = [0; MAX_VECTOR_OCTETS];
        self.fill_non_zero::<F>(&mut values, chosen);
        let mut used = 0;
        for index in 0..elements {
            if F::get(vector, index) != F::ZERO {
                F::set(vector, index, F::get(&values, used));
                used += 1;
            }
        }
    }
}
