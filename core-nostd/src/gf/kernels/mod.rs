//! Kernels: the loops that multiply and add octets, one set for each kind of CPU, behind one dispatch table.
//!
//! The only module of the crate with `unsafe` code. The functions of this file are safe: they check every length
//! and hand pointers to the kernel that [`active`] names.
#![allow(unsafe_code)]

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::tables::OctetMaps;
use super::{MAX_ELEMENTS, RowSet, RowsMut};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use spin::Mutex;

/// Output rows that a kernel makes in one call, at most.
pub(crate) const MAX_OUTPUTS: usize = 8;

/// Output o = (itself, when the flag, +) sum over i of map(coefficient i of row o) of source i, over so many octets: maps, outputs,
/// one pointer to a row of coefficients for each output, sources, octets, whether to accumulate.
type Combine = unsafe fn(&OctetMaps, &[*mut u8], &[*const u8], &[*const u8], usize, bool);

/// The functions of one kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The name, as [`force`] takes it.
    pub name: &'static str,
    /// Whether this CPU can run it.
    available: fn() -> bool,
    combine: Combine,
    /// Every octet of a row replaced by its map.
    scale: unsafe fn(&OctetMaps, &mut [u8], u8),
}

/// Every kernel compiled in, the fastest first.
static KERNELS: &[Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    x86_64::AVX2,
    Kernel { name: "scalar", available: || true, combine: scalar::combine, scale: scalar::scale },
];

/// The kernel for a CPU of which nothing is known.
static SCALAR: Kernel =
    Kernel { name: "scalar", available: || true, combine: scalar::combine, scale: scalar::scale };

/// One more than the place in [`KERNELS`] of the kernel in use; 0 while none is chosen.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// Held while the CPU is asked what it can do, so that only one core asks. (`spin::Once` would do, but it can panic.)
static CHOOSING: Mutex<()> = Mutex::new(());

/// The kernel that bulk operations use.
fn active() -> &'static Kernel {
    // Relaxed: the number refers to nothing but a constant table.
    let chosen = CHOSEN.load(Ordering::Relaxed);
    match chosen.checked_sub(1).and_then(|place| KERNELS.get(place)) {
        Some(kernel) => kernel,
        None => choose(),
    }
}

/// Chooses the fastest kernel that this CPU can run.
#[cold]
fn choose() -> &'static Kernel {
    let _guard = CHOOSING.lock();
    let place = KERNELS.iter().position(|kernel| (kernel.available)()).unwrap_or(0);
    CHOSEN.store(place + 1, Ordering::Relaxed);
    KERNELS.get(place).unwrap_or(&SCALAR)
}

/// No kernel of that name is compiled in, or this CPU cannot run it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UnknownKernel;

impl core::fmt::Display for UnknownKernel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no such kernel on this CPU")
    }
}

impl core::error::Error for UnknownKernel {}

/// Makes all bulk operations from now on use the kernel called `name`, or the fastest one again for `auto`.
/// Programs pass the value of their environment variable `HEDDLE_GF`.
///
/// # Errors
/// [`UnknownKernel`] when this CPU has no such kernel; nothing has changed then.
pub fn force(name: &str) -> Result<(), UnknownKernel> {
    let place = if name == "auto" {
        0
    } else {
        1 + KERNELS
            .iter()
            .position(|kernel| kernel.name == name && (kernel.available)())
            .ok_or(UnknownKernel)?
    };
    CHOSEN.store(place, Ordering::Relaxed);
    Ok(())
}

/// The name of the kernel that bulk operations use.
pub fn kernel_name() -> &'static str {
    active().name
}

/// The names of all kernels that this CPU can run, the fastest first.
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().filter(|kernel| (kernel.available)()).map(|kernel| kernel.name)
}

/// The image of one octet under the map of `c`.
#[inline]
pub fn map_octet(maps: &OctetMaps, c: u8, octet: u8) -> u8 {
    let table = &maps.nibbles[usize::from(c)];
    table[usize::from(octet & 15)] ^ table[16 + usize::from(octet >> 4)]
}

/// `dst += c * src`, as far as the shorter goes.
pub fn mul_add(maps: &OctetMaps, dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: `dst` and `src` are `len` octets at least and, by their types, do not overlap; there is one
    // source and one coefficient. `active` names only kernels that this CPU can run.
    unsafe {
        (active().combine)(maps, &[dst.as_mut_ptr()], &[&raw const c], &[src.as_ptr()], len, true)
    }
}

/// `dst = c * dst`.
pub fn scale(maps: &OctetMaps, dst: &mut [u8], c: u8) {
    // SAFETY: `active` names only kernels that this CPU can run.
    unsafe { (active().scale)(maps, dst, c) }
}

/// `dst = (dst, when accumulate, +) sum of coefficient(i) * sources[i]`.
pub fn combine<S: RowSet + ?Sized>(
    maps: &OctetMaps,
    dst: &mut [u8],
    coefficient: impl Fn(usize) -> u8,
    sources: &S,
    mut accumulate: bool,
) {
    let mut pointers = [ptr::null(); MAX_ELEMENTS];
    let mut coefficients = [0; MAX_ELEMENTS];
    let count = sources.count();
    let mut next = 0;
    // Once at least, so that `dst` becomes zero when there is no source.
    loop {
        let mut used = 0;
        while next < count {
            let Some((pointer, place)) = pointers.get_mut(used).zip(coefficients.get_mut(used))
            else {
                break;
            };
            let (c, row) = (coefficient(next), sources.row(next));
            if c != 0 && row.len() >= dst.len() {
                (*pointer, *place) = (row.as_ptr(), c);
                used += 1;
            }
            next += 1;
        }
        // SAFETY: only rows as long as `dst` were put among the pointers, one coefficient with each; `dst` is
        // borrowed alone, so no row lies in it. `active` names only kernels that this CPU can run.
        unsafe {
            (active().combine)(
                maps,
                &[dst.as_mut_ptr()],
                &[coefficients.as_ptr()],
                pointers.get(..used).unwrap_or_default(),
                dst.len(),
                accumulate,
            );
        }
        accumulate = true;
        if next >= count {
            break;
        }
    }
    // Short rows, as if zeros followed them.
    for index in 0..count {
        let (c, row) = (coefficient(index), sources.row(index));
        if c != 0 && row.len() < dst.len() {
            mul_add(maps, dst, c, row);
        }
    }
}

/// Row m of `dst` = sum of coefficient(m, i) * sources[i]. `unpacked` is room for coefficients.
pub fn product<S: RowSet + ?Sized>(
    maps: &OctetMaps,
    dst: &mut RowsMut<'_>,
    coefficient: impl Fn(usize, usize) -> u8,
    sources: &S,
    unpacked: &mut [[u8; MAX_ELEMENTS]; MAX_OUTPUTS],
) {
    let _ = unpacked;
    for (output, row) in dst.iter_mut().enumerate() {
        combine(maps, row, |index| coefficient(output, index), sources, false);
    }
}
