//! The C API of Heddle's network coding: encoding, progressive decoding and recoding of one generation.
//!
//! Functions that can fail give 0 or a positive number when all is well and a negative [`HeddleError`] otherwise. A coding vector has
//! [`heddle_vector_octets`] octets, a payload as many as a block; a pointer to one must be good for that many, and a null pointer is an error
//! wherever something is read or written. Nothing here is locked: a decoder belongs to one thread at a time.
#![allow(unsafe_code, reason = "the callers are C programs")]

mod decoder;

pub use decoder::*;

use heddle_core::gf::{self, Field, Gf2, Gf16, Gf256, Gf256With11d, Gf65536, Rows, RowsMut};
use heddle_core::rlnc::{CoefficientGenerator, Encoder, RlncError, cauchy_row, vector_octets};
use std::ffi::{CStr, c_char, c_int};

/// The field of the coefficients.
#[repr(C)]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HeddleField {
    /// GF(2).
    Gf2 = 1,
    /// GF(2^4) with the polynomial 0x13.
    Gf16 = 4,
    /// GF(2^8) with the polynomial 0x11B.
    Gf256 = 8,
    /// GF(2^16) with the polynomial 0x1100B.
    Gf65536 = 16,
    /// GF(2^8) with the polynomial 0x11D.
    Gf256With11d = 0x11D,
}

/// Why a function did nothing.
#[repr(C)]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HeddleError {
    /// A generation of no blocks.
    KZero = -1,
    /// Blocks of no octets.
    BlockLenZero = -2,
    /// A block length that the field or the implementation cannot do.
    BlockLen = -3,
    /// A coding vector of the wrong length.
    VectorLength = -4,
    /// A coding vector with bits after its last symbol.
    VectorPadding = -5,
    /// A payload of the wrong length.
    PayloadLength = -6,
    /// Too little memory.
    MemoryTooSmall = -7,
    /// An output buffer of the wrong length.
    OutputLength = -8,
    /// The wrong number of coefficients.
    CoefficientCount = -9,
    /// Coefficients that give a zero vector.
    ZeroVector = -10,
    /// A block number past the end.
    NoSuchBlock = -11,
    /// A block that is not decodable yet.
    NotDecodable = -12,
    /// No packet held.
    NothingHeld = -13,
    /// A matrix that the field is too small for.
    FieldTooSmall = -14,
    /// Blocks that are not all within one window.
    OutsideWindow = -15,
    /// A null pointer where something must be read or written.
    NullPointer = -100,
    /// No field of that number.
    NoSuchField = -101,
    /// A seed that has neither 4 nor 8 octets.
    SeedLength = -102,
    /// No kernel of that name on this CPU.
    NoSuchKernel = -103,
}

/// The number of an error, or that of success.
pub(crate) fn code<T>(outcome: Result<T, RlncError>, success: impl FnOnce(T) -> c_int) -> c_int {
    match outcome {
        Ok(value) => success(value),
        Err(error) => -c_int::from(error as u8),
    }
}

/// Calls a function generic over the field with the field that `$field` numbers.
macro_rules! with_field {
    ($field:expr, $otherwise:expr, $function:ident($($argument:expr),*)) => {
        match $field {
            1 => $function::<Gf2>($($argument),*),
            4 => $function::<Gf16>($($argument),*),
            8 => $function::<Gf256>($($argument),*),
            16 => $function::<Gf65536>($($argument),*),
            0x11D => $function::<Gf256With11d>($($argument),*),
            _ => $otherwise,
        }
    };
}
pub(crate) use with_field;

/// The octets from `start`, if it is not null.
///
/// # Safety
/// `octets` octets from `start` can be read for as long as the caller's function runs, and nobody writes them.
pub(crate) unsafe fn octets<'a>(start: *const u8, octets: usize) -> Option<&'a [u8]> {
    if start.is_null() || octets > isize::MAX as usize {
        return None;
    }
    // SAFETY: the caller vouches for the octets; the pointer is not null and the length not too large.
    Some(unsafe { std::slice::from_raw_parts(start, octets) })
}

/// The octets from `start`, to be written, if it is not null.
///
/// # Safety
/// `octets` octets from `start` can be read and written for as long as the caller's function runs, and nothing else refers to them.
pub(crate) unsafe fn octets_mut<'a>(start: *mut u8, octets: usize) -> Option<&'a mut [u8]> {
    if start.is_null() || octets > isize::MAX as usize {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { std::slice::from_raw_parts_mut(start, octets) })
}

const NULL: c_int = HeddleError::NullPointer as c_int;
const NO_FIELD: c_int = HeddleError::NoSuchField as c_int;

/// Octets of a coding vector of `k` elements of the field; 0 for an unknown field.
#[unsafe(no_mangle)]
pub extern "C" fn heddle_vector_octets(field: c_int, k: u8) -> usize {
    with_field!(field, 0, vector_octets(k.into()))
}

/// Writes the name of the kernel in use, with a zero octet at its end, into `name` of `octets` octets, as much as fits. Gives the length of the name.
///
/// # Safety
/// `name` is null or good for `octets` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_kernel_name(name: *mut c_char, octets: usize) -> usize {
    let kernel = gf::kernel_name();
    // SAFETY: the caller's own obligation.
    if let Some(to) = unsafe { octets_mut(name.cast(), octets) } {
        let end = kernel.len().min(to.len().saturating_sub(1));
        for (to, from) in to.iter_mut().zip(kernel.bytes().take(end).chain([0])) {
            *to = from;
        }
    }
    kernel.len()
}

/// Makes all functions of this process use the kernel called `name`, or the fastest one again for "auto".
///
/// # Safety
/// `name` is null or a string that ends with a zero octet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_kernel_force(name: *const c_char) -> c_int {
    if name.is_null() {
        return NULL;
    }
    // SAFETY: the caller vouches for the string.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_str().map(gf::force) {
        Ok(Ok(())) => 0,
        _ => HeddleError::NoSuchKernel as c_int,
    }
}

/// Writes the coding vector that the seed of 4 or 8 octets stands for.
///
/// # Safety
/// `seed` is good for `seed_octets`, `vector` for the octets of a vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_vector_from_seed(
    field: c_int,
    k: u8,
    seed: *const u8,
    seed_octets: usize,
    vector: *mut u8,
) -> c_int {
    fn fill<F: Field>(generator: &mut CoefficientGenerator, vector: &mut [u8], k: u8) -> c_int {
        generator.fill_non_zero::<F>(vector, k.into());
        0
    }
    let len = heddle_vector_octets(field, k);
    // SAFETY: the caller's own obligation.
    let (Some(seed), Some(vector)) =
        (unsafe { octets(seed, seed_octets) }, unsafe { octets_mut(vector, len) })
    else {
        return NULL;
    };
    let mut generator = if let Ok(seed) = <[u8; 4]>::try_from(seed) {
        CoefficientGenerator::from_seed_4(seed)
    } else if let Ok(seed) = <[u8; 8]>::try_from(seed) {
        CoefficientGenerator::from_seed_8(seed)
    } else {
        return HeddleError::SeedLength as c_int;
    };
    with_field!(field, NO_FIELD, fill(&mut generator, vector, k))
}

/// Writes row `index` of a Cauchy matrix: any `k` such rows are independent, and none has a zero.
///
/// # Safety
/// `vector` is good for the octets of a vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_cauchy_row(
    field: c_int,
    k: u8,
    index: usize,
    vector: *mut u8,
) -> c_int {
    // SAFETY: the caller's own obligation.
    let Some(vector) = (unsafe { octets_mut(vector, heddle_vector_octets(field, k)) }) else {
        return NULL;
    };
    code(with_field!(field, return NO_FIELD, cauchy_row(k, index, vector)), |()| 0)
}

/// Makes the payloads of `packets` coded packets of `k` blocks of `block_octets`, which lie `stride` apart. `vectors` has one coding vector
/// for each packet, one after the other; the payloads are written one after the other.
///
/// # Safety
/// `blocks` is good for `(k - 1) * stride + block_octets` octets, `vectors` for `packets` vectors and `payloads` for `packets * block_octets` octets, and
/// `payloads` overlaps neither.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_encode(
    field: c_int,
    k: u8,
    block_octets: usize,
    blocks: *const u8,
    stride: usize,
    packets: usize,
    vectors: *const u8,
    payloads: *mut u8,
) -> c_int {
    fn encode<F: Field>(
        blocks: &Rows<'_>,
        block_octets: usize,
        vectors: &[u8],
        payloads: &mut [u8],
    ) -> Result<(), RlncError> {
        use heddle_core::gf::RowSet;
        let encoder = Encoder::<F, _>::new(blocks, block_octets)?;
        let vectors = Rows::packed(vectors, vector_octets::<F>(blocks.count()));
        encoder.batch(&vectors, &mut RowsMut::packed(payloads, block_octets))
    }
    let sizes = || {
        let before = usize::from(k.checked_sub(1)?).checked_mul(stride)?;
        let vector = heddle_vector_octets(field, k);
        Some((
            before.checked_add(block_octets)?,
            packets.checked_mul(vector)?,
            packets.checked_mul(block_octets)?,
        ))
    };
    if block_octets == 0 {
        return HeddleError::BlockLenZero as c_int;
    }
    let Some((blocks_len, vectors_len, payloads_len)) = sizes() else {
        return if k == 0 { HeddleError::KZero } else { HeddleError::BlockLen } as c_int;
    };
    // SAFETY: the caller's own obligation.
    let (Some(blocks), Some(vectors), Some(payloads)) = (unsafe {
        (
            octets(blocks, blocks_len),
            octets(vectors, vectors_len),
            octets_mut(payloads, payloads_len),
        )
    }) else {
        return NULL;
    };
    let rows = Rows::new(blocks, block_octets, stride.max(1)).first(k.into());
    let outcome =
        with_field!(field, return NO_FIELD, encode(&rows, block_octets, vectors, payloads));
    code(outcome, |()| 0)
}
