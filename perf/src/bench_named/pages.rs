//! Memory in large pages, as a switch with many rules should have it.

/// A vector of `count` times `value`, in transparent huge pages where the kernel gives them.
pub fn huge<T: Clone>(count: usize, value: &T) -> Vec<T> {
    const PAGE_OCTETS: usize = 2 << 20;
    let mut places = Vec::<T>::with_capacity(count);
    let from = places.as_ptr().addr().next_multiple_of(PAGE_OCTETS);
    let end = places.as_ptr().addr() + count * size_of::<T>();
    if end > from + PAGE_OCTETS {
        let pointer = places.as_mut_ptr().with_addr(from).cast();
        // SAFETY: the range lies within memory that the vector owns, and the advice changes how it is mapped, not what is in it.
        unsafe { libc::madvise(pointer, end - from, libc::MADV_HUGEPAGE) };
    }
    places.resize(count, value.clone());
    places
}
