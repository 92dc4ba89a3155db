//! The functions that the compiler expects of any environment, for one that has no C library.

use core::arch::asm;

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, octets: usize) -> *mut u8 {
    // SAFETY: the caller vouches for both ranges; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") octets => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, octets: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= octets {
        // SAFETY: copying upwards never reads what it has written, as `to` does not begin within the source.
        return unsafe { memcpy(to, from, octets) };
    }
    // SAFETY: the caller vouches for both ranges; this copies downwards, and then restores the direction flag.
    unsafe {
        asm!(
            "std",
            "rep movsb",
            "cld",
            inout("rcx") octets => _,
            inout("rdi") to.wrapping_add(octets).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(octets).wrapping_sub(1) => _,
            options(nostack)
        );
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, octet: i32, octets: usize) -> *mut u8 {
    // SAFETY: the caller vouches for the range; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep stosb", inout("rcx") octets => _, inout("rdi") to => _, in("al") octet as u8, options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, octets: usize) -> i32 {
    for at in 0..octets {
        // SAFETY: `at` is below `octets`, for which the caller vouches in both ranges. The read is volatile so that this
        // loop is not replaced by a call of the function that it is.
        let (a, b) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if a != b {
            return 1;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, octets: usize) -> i32 {
    for at in 0..octets {
        // SAFETY: as in `bcmp`.
        let (a, b) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}
