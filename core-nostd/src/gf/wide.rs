//! GF(2^16): symbols of two octets.

use super::kernels;
use super::tables::{invert, multiply};
use super::{Field, RowSet, Rows, RowsMut, sealed};

const POLYNOMIAL: u32 = 0x1100B;

/// GF(2^16) with x^16 + x^12 + x^3 + x + 1 (0x1100B); the symbol's low octet comes first when `LITTLE_ENDIAN`.
///
/// Rows have an even number of octets; an odd octet at the end is left alone.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Wide<const LITTLE_ENDIAN: bool>;

/// GF(2^16), symbols high octet first.
pub type Gf65536 = Wide<false>;
/// GF(2^16), symbols low octet first.
pub type Gf65536Le = Wide<true>;

impl<const LITTLE_ENDIAN: bool> Wide<LITTLE_ENDIAN> {
    /// The products of `c` with the 16 single bits of a symbol, as the little-endian numbers that its octets form.
    fn images(c: u16) -> [u16; 16] {
        let mut shifted = u32::from(c);
        let mut images = [0; 16];
        for image in &mut images {
            *image = if LITTLE_ENDIAN { shifted as u16 } else { (shifted as u16).swap_bytes() };
            shifted = multiply(shifted, 2, 16, POLYNOMIAL);
        }
        if !LITTLE_ENDIAN {
            // The octet that comes first holds the high bits.
            images.rotate_left(8);
        }
        images
    }

    const fn load(octets: [u8; 2]) -> u16 {
        if LITTLE_ENDIAN { u16::from_le_bytes(octets) } else { u16::from_be_bytes(octets) }
    }

    const fn store(symbol: u16) -> [u8; 2] {
        if LITTLE_ENDIAN { symbol.to_le_bytes() } else { symbol.to_be_bytes() }
    }
}

impl<const LITTLE_ENDIAN: bool> sealed::Sealed for Wide<LITTLE_ENDIAN> {}

impl<const LITTLE_ENDIAN: bool> Field for Wide<LITTLE_ENDIAN> {
    type Element = u16;

    const NAME: &'static str = "GF(2^16)";
    const BITS: u32 = 16;
    const POLYNOMIAL: u32 = POLYNOMIAL;
    const ZERO: u16 = 0;
    const ONE: u16 = 1;

    #[inline]
    fn element(value: u16) -> u16 {
        value
    }

    #[inline]
    fn add(a: u16, b: u16) -> u16 {
        a ^ b
    }

    fn mul(a: u16, b: u16) -> u16 {
        multiply(a.into(), b.into(), 16, POLYNOMIAL) as u16
    }

    fn inv(a: u16) -> Option<u16> {
        (a != 0).then(|| invert(a.into(), 16, POLYNOMIAL) as u16)
    }

    #[inline]
    fn get(octets: &[u8], index: usize) -> u16 {
        let (symbols, _) = octets.as_chunks::<2>();
        symbols.get(index).map_or(0, |symbol| Self::load(*symbol))
    }

    #[inline]
    fn set(octets: &mut [u8], index: usize, value: u16) {
        let (symbols, _) = octets.as_chunks_mut::<2>();
        if let Some(symbol) = symbols.get_mut(index) {
            *symbol = Self::store(value);
        }
    }

    fn mul_add(dst: &mut [u8], c: u16, src: &[u8]) {
        kernels::map_pairs(&Self::images(c), dst, Some(src), true);
    }

    fn scale(dst: &mut [u8], c: u16) {
        kernels::map_pairs(&Self::images(c), dst, None, false);
    }

    fn combine<S: RowSet + ?Sized>(
        dst: &mut [u8],
        coefficients: &[u8],
        sources: &S,
        accumulate: bool,
    ) {
        if !accumulate {
            dst.fill(0);
        }
        for index in 0..sources.count() {
            let c = Self::get(coefficients, index);
            if c != 0 {
                Self::mul_add(dst, c, sources.row(index));
            }
        }
    }

    fn product_where<S: RowSet + ?Sized>(
        dst: &mut RowsMut<'_>,
        coefficients: &Rows<'_>,
        sources: &S,
        wanted: impl Fn(usize) -> bool,
    ) {
        for (output, row) in dst.iter_mut().enumerate() {
            if wanted(output) {
                Self::combine(row, coefficients.get(output), sources, false);
            }
        }
    }

    fn add_outer(dst: &mut RowsMut<'_>, coefficients: &[u8], src: &[u8]) {
        for (index, row) in dst.iter_mut().enumerate() {
            let c = Self::get(coefficients, index);
            if c != 0 {
                Self::mul_add(row, c, src);
            }
        }
    }
}
