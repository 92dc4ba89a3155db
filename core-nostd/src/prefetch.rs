//! Telling the processor what memory will be read soon.
// The one instruction for it takes a pointer.
#![allow(unsafe_code)]

/// Asks for the cache line that `place` begins in. It changes nothing that a program can see, and is nothing where there is no such instruction.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(place: &T) {
    let pointer = core::ptr::from_ref(place).cast::<i8>();
    // SAFETY: a prefetch is a hint: it reads and writes nothing, and cannot fault whatever the address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(pointer);
    }
    // SAFETY: as above; the instruction changes no register, flag or stack.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = pointer;
}
