//! Maps of pairs of octets, for GF(2^16): written once for any width of vector, as in [`simd`](super::simd).

use super::simd::Vector;

/// A linear map of pairs of octets, as four maps of octets: from the even and the odd place to the even and the odd place.
#[derive(Debug)]
pub struct PairMap {
    /// Even to even, odd to even, even to odd, odd to odd: nibble tables.
    pub nibbles: [[u8; 32]; 4],
    /// The same as bit matrices.
    pub matrices: [u64; 4],
}

/// `dst = map(src)`, or `dst += map(src)`, over pairs of octets. `src` may be `dst`. `len` is even and at least `V::OCTETS`, or at least 2
/// when V is masked.
///
/// # Safety
/// The features of V; `len` octets of `src` can be read and of `dst` also written.
#[inline(always)]
pub unsafe fn map<V: Vector>(
    map: &PairMap,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    accumulate: bool,
) {
    // SAFETY: `at` and the octets from there stay within `len`, for which the caller vouches.
    unsafe {
        let [a, b, c, d] = &map.nibbles;
        let [e, f, g, h] = map.matrices;
        let constants =
            [V::constant(a, e), V::constant(b, f), V::constant(c, g), V::constant(d, h)];
        let whole = len - len % V::OCTETS;
        let rest = len - whole;
        // First, because it may read what the loop writes.
        let mut end = V::zero();
        if rest != 0 {
            end = if V::MASKED {
                let start = if accumulate { V::load_part(dst.add(whole), rest) } else { end };
                pair_sum(V::load_part(src.add(whole), rest), constants, start)
            } else {
                let at = len - V::OCTETS;
                let start = if accumulate { V::load(dst.add(at)) } else { end };
                pair_sum(V::load(src.add(at)), constants, start)
            };
        }
        let mut at = 0;
        while at < whole {
            let start = if accumulate { V::load(dst.add(at)) } else { V::zero() };
            pair_sum(V::load(src.add(at)), constants, start).store(dst.add(at));
            at += V::OCTETS;
        }
        if rest != 0 {
            if V::MASKED {
                end.store_part(dst.add(whole), rest);
            } else {
                end.store(dst.add(len - V::OCTETS));
            }
        }
    }
}

/// # Safety
/// The features of V.
#[inline(always)]
unsafe fn pair_sum<V: Vector>(octets: V, constants: [V::Constant; 4], start: V) -> V {
    let [even_even, odd_even, even_odd, odd_odd] = constants;
    // SAFETY: the caller's own obligation.
    unsafe {
        let swapped = octets.swap_pairs();
        let even = octets.product(even_even).xor(swapped.product(odd_even));
        let odd = octets.product(odd_odd).xor(swapped.product(even_odd));
        start.xor(even.even_odd(odd))
    }
}
