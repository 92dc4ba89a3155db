//! The fields whose symbols fill an octet evenly: GF(2), GF(2^4) and GF(2^8) with two polynomials.

use super::kernels;
use super::tables::{OctetMaps, octet_maps};
use super::{Field, MAX_ELEMENTS, RowSet, Rows, RowsMut, sealed};

/// Writes the elements of a packed vector one to an octet; zeros after its end.
#[inline]
fn unpack<F: Field<Element = u8>>(vector: &[u8], to: &mut [u8]) {
    if F::BITS == 8 {
        let (used, rest) = to.split_at_mut(vector.len().min(to.len()));
        for (element, octet) in used.iter_mut().zip(vector) {
            *element = *octet;
        }
        rest.fill(0);
        return;
    }
    for (index, element) in to.iter_mut().enumerate() {
        *element = F::get(vector, index);
    }
}

/// Whether so few elements, one to an octet, are zero that it is not worth looking for them.
fn is_dense(vector: &[u8]) -> bool {
    // Counted in octets as far as these go, which is faster.
    let zeros: usize = vector
        .chunks(128)
        .map(|chunk| chunk.iter().map(|element| u8::from(*element == 0)).sum::<u8>())
        .map(usize::from)
        .sum();
    zeros <= vector.len() / 2
}

/// Defines a field of `$bits` bits (1, 4 or 8) that is computed by octet maps.
macro_rules! octet_field {
    ($(#[$documentation:meta])* $field:ident, $name:literal, $bits:literal, $polynomial:literal) => {
        $(#[$documentation])*
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct $field;

        impl $field {
            /// The field's multiplication, as maps of octets.
            pub const MAPS: &'static OctetMaps = {
                static MAPS: OctetMaps = octet_maps($bits, $polynomial);
                &MAPS
            };
        }

        impl sealed::Sealed for $field {}

        impl Field for $field {
            type Element = u8;

            const NAME: &'static str = $name;
            const BITS: u32 = $bits;
            const POLYNOMIAL: u32 = $polynomial;
            const ZERO: u8 = 0;
            const ONE: u8 = 1;

            #[inline]
            fn element(value: u16) -> u8 {
                (value & ((1 << $bits) - 1)) as u8
            }

            #[inline]
            fn add(a: u8, b: u8) -> u8 {
                a ^ b
            }

            #[inline]
            fn mul(a: u8, b: u8) -> u8 {
                Self::element(u16::from(kernels::map_octet(Self::MAPS, a, b)))
            }

            #[inline]
            fn inv(a: u8) -> Option<u8> {
                match Self::MAPS.inverses[usize::from(a)] {
                    0 => None,
                    inverse => Some(inverse),
                }
            }

            #[inline]
            fn get(octets: &[u8], index: usize) -> u8 {
                const PER_OCTET: usize = 8 / $bits;
                let octet = octets.get(index / PER_OCTET).copied().unwrap_or(0);
                let shift = 8 - $bits - (index & (PER_OCTET - 1)) * $bits;
                (octet >> shift) & (((1u16 << $bits) - 1) as u8)
            }

            #[inline]
            fn set(octets: &mut [u8], index: usize, value: u8) {
                const PER_OCTET: usize = 8 / $bits;
                let shift = 8 - $bits - (index & (PER_OCTET - 1)) * $bits;
                let mask = ((1u16 << $bits) - 1) as u8;
                if let Some(octet) = octets.get_mut(index / PER_OCTET) {
                    *octet = (*octet & !(mask << shift)) | ((value & mask) << shift);
                }
            }

            fn mul_add(dst: &mut [u8], c: u8, src: &[u8]) {
                kernels::mul_add(Self::MAPS, dst, c, src);
            }

            fn scale(dst: &mut [u8], c: u8) {
                kernels::scale(Self::MAPS, dst, c);
            }

            fn combine<S: RowSet + ?Sized>(
                dst: &mut [u8],
                coefficients: &[u8],
                sources: &S,
                accumulate: bool,
            ) {
                if $bits == 8
                    && let Some(rows) = sources.at_stride()
                    && is_dense(coefficients)
                    && kernels::combine_rows(Self::MAPS, dst, coefficients, rows, accumulate)
                {
                    return;
                }
                kernels::combine(
                    Self::MAPS,
                    dst,
                    |index| Self::get(coefficients, index),
                    sources,
                    accumulate,
                );
            }

            fn product_where<S: RowSet + ?Sized>(
                dst: &mut RowsMut<'_>,
                coefficients: &Rows<'_>,
                sources: &S,
                wanted: impl Fn(usize) -> bool,
            ) {
                kernels::product(
                    Self::MAPS,
                    dst,
                    |output| ($bits == 8).then(|| coefficients.get(output)),
                    |output, index| Self::get(coefficients.get(output), index),
                    sources,
                    wanted,
                );
            }

            fn add_outer(dst: &mut RowsMut<'_>, coefficients: &[u8], src: &[u8]) {
                if $bits == 8 {
                    return kernels::add_outer(Self::MAPS, dst, coefficients, src);
                }
                let mut unpacked = [0; MAX_ELEMENTS];
                let count = dst.count().min(MAX_ELEMENTS);
                let unpacked = unpacked.get_mut(..count).unwrap_or_default();
                unpack::<Self>(coefficients, unpacked);
                kernels::add_outer(Self::MAPS, dst, unpacked, src);
            }
        }
    };
}

octet_field!(
    /// GF(2): a symbol is a bit, eight to an octet.
    Gf2,
    "GF(2)",
    1,
    0b11
);
octet_field!(
    /// GF(2^4) with x^4 + x + 1 (0x13): two symbols to an octet.
    Gf16,
    "GF(2^4)",
    4,
    0x13
);
octet_field!(
    /// GF(2^8) with x^8 + x^4 + x^3 + x + 1 (0x11B), the polynomial of AES and of the instruction `gf2p8mulb`.
    Gf256,
    "GF(2^8)/11B",
    8,
    0x11B
);
octet_field!(
    /// GF(2^8) with x^8 + x^4 + x^3 + x^2 + 1 (0x11D), the polynomial of RAID-6 and most erasure codes.
    Gf256With11d,
    "GF(2^8)/11D",
    8,
    0x11D
);
