//! ISA-L, when it is installed: loaded at run time, so that building needs nothing of it.

use libloading::Library;
use std::ffi::c_int;

type Encode = unsafe extern "C" fn(c_int, c_int, c_int, *mut u8, *const *const u8, *const *mut u8);
type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type Invert = unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int;

/// The functions of ISA-L's erasure code.
pub struct Isal {
    init_tables: InitTables,
    encode: Encode,
    encode_avx2: Option<Encode>,
    invert: Invert,
    _library: Library,
}

impl Isal {
    /// The installed library, if there is one.
    pub fn load() -> Option<Self> {
        // SAFETY: loading ISA-L runs no code of consequence; the types are those of its header erasure_code.h.
        unsafe {
            let library = Library::new("libisal.so.2").ok()?;
            Some(Self {
                init_tables: *library.get::<InitTables>(b"ec_init_tables\0").ok()?,
                encode: *library.get::<Encode>(b"ec_encode_data\0").ok()?,
                encode_avx2: library
                    .get::<Encode>(b"ec_encode_data_avx2\0")
                    .ok()
                    .map(|symbol| *symbol),
                invert: *library.get::<Invert>(b"gf_invert_matrix\0").ok()?,
                _library: library,
            })
        }
    }

    /// `outputs = coefficients * sources`, tables made anew, in the path that the library chooses, or in its AVX2 path.
    /// `coefficients` has a row of as many octets as there are sources for each output; all rows have `len` octets.
    pub fn encode(
        &self,
        avx2: bool,
        coefficients: &[u8],
        tables: &mut Vec<u8>,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        len: usize,
    ) {
        let (k, rows) = (sources.len(), outputs.len());
        assert!(coefficients.len() >= k * rows);
        assert!(sources.iter().all(|row| row.len() >= len));
        assert!(outputs.iter().all(|row| row.len() >= len));
        tables.resize(32 * k * rows, 0);
        let mut from = [std::ptr::null(); 256];
        for (pointer, row) in from.iter_mut().zip(sources) {
            *pointer = row.as_ptr();
        }
        let mut to = [std::ptr::null_mut(); 256];
        for (pointer, row) in to.iter_mut().zip(outputs) {
            *pointer = row.as_mut_ptr();
        }
        let encode = if avx2 { self.encode_avx2.unwrap_or(self.encode) } else { self.encode };
        // SAFETY: the tables take 32 octets for each coefficient; the pointers stand for rows of `len` octets, as asserted.
        unsafe {
            (self.init_tables)(
                k as c_int,
                rows as c_int,
                coefficients.as_ptr(),
                tables.as_mut_ptr(),
            );
            encode(
                len as c_int,
                k as c_int,
                rows as c_int,
                tables.as_mut_ptr(),
                from.as_ptr(),
                to.as_ptr(),
            );
        }
    }

    /// The inverse of a `k` by `k` matrix, which is destroyed; false when it has none.
    pub fn invert(&self, matrix: &mut [u8], inverse: &mut [u8], k: usize) -> bool {
        assert!(matrix.len() >= k * k && inverse.len() >= k * k);
        // SAFETY: both have k * k octets.
        unsafe { (self.invert)(matrix.as_mut_ptr(), inverse.as_mut_ptr(), k as c_int) == 0 }
    }
}
