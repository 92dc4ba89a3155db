//! Arithmetic in finite fields of characteristic 2, on single elements and in bulk on octets.
//!
//! A field is a type that implements [`Field`]; everything in [`rlnc`](crate::rlnc) is generic over it.
//! Rows of symbols are plain octets. An octet holds eight symbols of [`Gf2`], two of [`Gf16`] or one of
//! [`Gf256`], the first in its high bits; a symbol of [`Gf65536`] takes two octets, high octet first.
//! Coefficients come packed in the same way ("coding vector").
//!
//! Bulk operations run on one of several kernels, chosen once for the CPU at hand: [`kernel_name`], [`force`].

mod fields;
pub(crate) mod kernels;
mod rows;
pub mod tables;
mod wide;

pub use fields::{Gf2, Gf16, Gf256, Gf256With11d};
pub use kernels::{UnknownKernel, force, kernel_name, kernel_names};
pub use rows::{RowSet, Rows, RowsMut};
pub use wide::{Gf65536, Gf65536Le, Wide};

/// The most elements that one coding vector can have.
pub const MAX_ELEMENTS: usize = 255;

/// The octets that the longest coding vector takes in any field.
pub const MAX_VECTOR_OCTETS: usize = 2 * MAX_ELEMENTS;

mod sealed {
    /// Keeps [`Field`](super::Field) to the fields that the kernels know.
    pub trait Sealed {}
}

/// A finite field GF(2^[`BITS`](Field::BITS)).
///
/// Bulk operations treat octets as packed symbols (see the module). A source that is shorter than the
/// destination counts as if zeros followed it; a longer one counts as far as the destination goes.
pub trait Field:
    sealed::Sealed + Copy + Default + Eq + core::fmt::Debug + Send + Sync + 'static
{
    /// One element.
    type Element: Copy + Eq + Default + core::fmt::Debug + Into<u16>;

    /// The field's name, for messages.
    const NAME: &'static str;
    /// Bits of one symbol: the field has 2^`BITS` elements.
    const BITS: u32;
    /// The reduction polynomial, one bit for each coefficient.
    const POLYNOMIAL: u32;
    /// The neutral element of addition.
    const ZERO: Self::Element;
    /// The neutral element of multiplication.
    const ONE: Self::Element;

    /// The element whose bits are the low `BITS` bits of `value`.
    fn element(value: u16) -> Self::Element;

    /// The sum, which is also the difference.
    fn add(a: Self::Element, b: Self::Element) -> Self::Element;

    /// The product.
    fn mul(a: Self::Element, b: Self::Element) -> Self::Element;

    /// The inverse; zero has none.
    fn inv(a: Self::Element) -> Option<Self::Element>;

    /// Symbol `index` of packed `octets`; zero past the end.
    fn get(octets: &[u8], index: usize) -> Self::Element;

    /// Sets symbol `index` of packed `octets`; does nothing past the end.
    fn set(octets: &mut [u8], index: usize, value: Self::Element);

    /// `dst += c * src`.
    fn mul_add(dst: &mut [u8], c: Self::Element, src: &[u8]);

    /// `dst = c * dst`.
    fn scale(dst: &mut [u8], c: Self::Element);

    /// `dst += sum of coefficients[i] * sources[i]`, or without `+` when not `accumulate`.
    ///
    /// `coefficients` are packed; where they end before the sources do, the rest counts as zero.
    fn combine<S: RowSet + ?Sized>(
        dst: &mut [u8],
        coefficients: &[u8],
        sources: &S,
        accumulate: bool,
    );

    /// `dst = sum of coefficients[i] * sources[i]`.
    fn dot<S: RowSet + ?Sized>(dst: &mut [u8], coefficients: &[u8], sources: &S) {
        Self::combine(dst, coefficients, sources, false);
    }

    /// Row m of `dst` = sum of element i of row m of `coefficients` * `sources[i]`: a product of matrices,
    /// several rows in each pass over the sources.
    fn product<S: RowSet + ?Sized>(dst: &mut RowsMut<'_>, coefficients: &Rows<'_>, sources: &S) {
        Self::product_where(dst, coefficients, sources, |_| true);
    }

    /// The same for the rows of `dst` that are `wanted`; the others are left alone.
    fn product_where<S: RowSet + ?Sized>(
        dst: &mut RowsMut<'_>,
        coefficients: &Rows<'_>,
        sources: &S,
        wanted: impl Fn(usize) -> bool,
    );

    /// Row i of `dst` += `coefficients[i] * src`.
    fn add_outer(dst: &mut RowsMut<'_>, coefficients: &[u8], src: &[u8]);
}

/// The octets that a coding vector of `elements` elements takes in the field `F`.
pub const fn vector_octets<F: Field>(elements: usize) -> usize {
    elements.saturating_mul(F::BITS as usize).div_ceil(8)
}
