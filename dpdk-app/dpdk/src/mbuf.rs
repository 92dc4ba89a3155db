//! Packet buffers: owned ones to change and shared ones to read.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use dpdk_sys::rte_mbuf;

/// A buffer has no room, or no octets, for what was asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the mbuf has no room for that")
    }
}

impl std::error::Error for NoRoom {}

/// A packet buffer of one segment that nobody else can reach. Dropping it gives it back to its pool.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mbuf {
    raw: NonNull<rte_mbuf>,
}

/// A packet buffer to read and to send, shared between its clones. It goes back to its pool with the last
/// of them; a clone that a queue took is gone when the driver is done with it.
///
/// It can move to another thread, but two threads cannot use one at the same time: DPDK counts the first
/// reference without an atomic operation.
#[derive(Debug)]
#[repr(transparent)]
pub struct SharedMbuf {
    raw: NonNull<rte_mbuf>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

// SAFETY: an Mbuf is the only way to its buffer, and a pool takes buffers back from any thread.
unsafe impl Send for Mbuf {}
// SAFETY: a shared reference to an Mbuf only reads its octets and lengths, which nobody else can write.
unsafe impl Sync for Mbuf {}
// SAFETY: clones on two threads only read the buffer; with two or more references DPDK counts them
// atomically, and a thread that sees one reference is the only one that holds any.
unsafe impl Send for SharedMbuf {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Mbuf {}
    impl Sealed for super::SharedMbuf {}
}

/// A buffer that queues and rings can take: [`Mbuf`] or [`SharedMbuf`], each a pointer to an `rte_mbuf`
/// and nothing else.
pub trait Buffer: sealed::Sealed + Send + Sized {
    /// The frame's octets, from the Ethernet header on.
    fn bytes(&self) -> &[u8];
}

impl Buffer for Mbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        Mbuf::bytes(self)
    }
}

impl Buffer for SharedMbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        SharedMbuf::bytes(self)
    }
}

/// What the checks on a received buffer found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One segment, one reference: an [`Mbuf`].
    Plain,
    /// More than one segment.
    Chained,
    /// Somebody else refers to it too.
    Shared,
}

/// Looks at a buffer that came from a driver or a ring.
///
/// # Safety
/// `raw` points to a live mbuf of which the caller holds a reference.
#[inline]
pub(crate) unsafe fn shape(raw: NonNull<rte_mbuf>) -> Shape {
    // SAFETY: the mbuf is alive by the caller's word. Other holders may change the reference count, and
    // only that, at the same time, so it is read as an atomic; Acquire orders what they read before they
    // let go before what the new sole owner writes.
    let (references, segments) = unsafe {
        let count = AtomicU16::from_ptr(&raw mut (*raw.as_ptr()).refcnt);
        (count.load(Ordering::Acquire), (*raw.as_ptr()).nb_segs)
    };
    match (references, segments) {
        (1, 1) => Shape::Plain,
        (1, _) => Shape::Chained,
        _ => Shape::Shared,
    }
}

/// The octets of a single-segment mbuf.
///
/// # Safety
/// `raw` points to a live mbuf of one segment that nobody writes for as long as `'a`.
#[inline]
unsafe fn octets<'a>(raw: NonNull<rte_mbuf>) -> &'a [u8] {
    // SAFETY: DPDK and this module keep data_off + data_len within buf_len, and buf_addr points to
    // buf_len octets of a mapping that the process made, so that all of them are initialised.
    unsafe {
        let mbuf = raw.as_ptr();
        let start = (*mbuf).buf_addr.cast::<u8>().add(usize::from((*mbuf).data_off));
        std::slice::from_raw_parts(start, usize::from((*mbuf).data_len))
    }
}

/// Gives one reference back.
///
/// # Safety
/// `raw` points to a live mbuf, and the caller gives up the reference it holds.
#[inline]
pub(crate) unsafe fn release(raw: NonNull<rte_mbuf>) {
    // SAFETY: by the caller's word; the function frees the buffer with the last reference.
    unsafe { dpdk_sys::rte_pktmbuf_free(raw.as_ptr()) };
}

impl Mbuf {
    /// Takes over a buffer.
    ///
    /// # Safety
    /// `raw` points to a live mbuf of one segment whose only reference becomes the new value's.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<rte_mbuf>) -> Self {
        Self { raw }
    }

    /// The frame's octets, from the Ethernet header on, without the FCS.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mbuf is alive and has one segment, and only `&mut self` writes.
        unsafe { octets(self.raw) }
    }

    /// The frame's octets, to change in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, length) = (self.start(), usize::from(self.data_len()));
        // SAFETY: as for `octets`, and `&mut self` is the only way to the buffer.
        unsafe { std::slice::from_raw_parts_mut(start, length) }
    }

    /// Octets of the frame.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.data_len())
    }

    /// Whether the frame has no octet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.data_len() == 0
    }

    /// Octets free before the frame.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.data_off())
    }

    /// Octets free after the frame.
    #[inline]
    pub fn tailroom(&self) -> usize {
        usize::from(self.buf_len()) - usize::from(self.data_off()) - usize::from(self.data_len())
    }

    /// Adds `octets` at the tail and gives them to be filled; they hold anything.
    ///
    /// # Errors
    /// The tailroom is too short.
    #[inline]
    pub fn append(&mut self, octets: usize) -> Result<&mut [u8], NoRoom> {
        let old = self.len();
        if octets > self.tailroom() {
            return Err(NoRoom);
        }
        self.set(self.data_off(), (old + octets) as u16);
        Ok(&mut self.bytes_mut()[old..])
    }

    /// Removes `octets` from the tail.
    ///
    /// # Errors
    /// The frame is shorter than that.
    #[inline]
    pub fn trim(&mut self, octets: usize) -> Result<(), NoRoom> {
        let rest = self.len().checked_sub(octets).ok_or(NoRoom)?;
        self.set(self.data_off(), rest as u16);
        Ok(())
    }

    /// Sets the frame's length; octets that come new at the tail hold anything.
    ///
    /// # Errors
    /// The buffer ends before.
    #[inline]
    pub fn resize(&mut self, octets: usize) -> Result<(), NoRoom> {
        if octets > self.len() + self.tailroom() {
            return Err(NoRoom);
        }
        self.set(self.data_off(), octets as u16);
        Ok(())
    }

    /// Adds `octets` at the head and gives them to be filled; they hold anything.
    ///
    /// # Errors
    /// The headroom is too short.
    #[inline]
    pub fn prepend(&mut self, octets: usize) -> Result<&mut [u8], NoRoom> {
        let offset = self.headroom().checked_sub(octets).ok_or(NoRoom)?;
        self.set(offset as u16, (self.len() + octets) as u16);
        Ok(&mut self.bytes_mut()[..octets])
    }

    /// Removes `octets` from the head.
    ///
    /// # Errors
    /// The frame is shorter than that.
    #[inline]
    pub fn adj(&mut self, octets: usize) -> Result<(), NoRoom> {
        let rest = self.len().checked_sub(octets).ok_or(NoRoom)?;
        self.set((self.headroom() + octets) as u16, rest as u16);
        Ok(())
    }

    /// Makes it a buffer to share. It costs nothing.
    #[inline]
    pub fn share(self) -> SharedMbuf {
        let this = ManuallyDrop::new(self);
        SharedMbuf { raw: this.raw, not_sync: PhantomData }
    }

    #[inline]
    fn data_off(&self) -> u16 {
        // SAFETY: the mbuf is alive, and only `&mut self` writes.
        unsafe { (*self.raw.as_ptr()).data_off }
    }

    #[inline]
    fn data_len(&self) -> u16 {
        // SAFETY: the mbuf is alive, and only `&mut self` writes.
        unsafe { (*self.raw.as_ptr()).data_len }
    }

    #[inline]
    fn buf_len(&self) -> u16 {
        // SAFETY: the mbuf is alive, and nobody writes the length of a buffer that is in use.
        unsafe { (*self.raw.as_ptr()).buf_len }
    }

    #[inline]
    fn start(&mut self) -> *mut u8 {
        // SAFETY: the mbuf is alive, and data_off is at most buf_len, so the sum stays in the buffer.
        unsafe {
            let mbuf = self.raw.as_ptr();
            (*mbuf).buf_addr.cast::<u8>().add(usize::from((*mbuf).data_off))
        }
    }

    /// Sets where the frame lies. Callers keep `offset + length` within the buffer, so within 16 bits.
    #[inline]
    fn set(&mut self, offset: u16, length: u16) {
        debug_assert!(usize::from(offset) + usize::from(length) <= usize::from(self.buf_len()));
        // SAFETY: the mbuf is alive and `&mut self` is the only way to it; with one segment the frame's
        // length and the segment's are the same.
        unsafe {
            let mbuf = self.raw.as_ptr();
            (*mbuf).data_off = offset;
            (*mbuf).data_len = length;
            (*mbuf).pkt_len = u32::from(length);
        }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value held the only reference, and is gone after this.
        unsafe { release(self.raw) };
    }
}

impl SharedMbuf {
    /// The frame's octets, from the Ethernet header on, without the FCS.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mbuf is alive and has one segment, and no holder of a reference writes it.
        unsafe { octets(self.raw) }
    }
}

impl Clone for SharedMbuf {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the mbuf is alive. If this is its only reference, no other thread can be counting,
        // because the type is not Sync; with more references DPDK counts atomically.
        unsafe { dpdk_sys::rte_mbuf_refcnt_update(self.raw.as_ptr(), 1) };
        Self { raw: self.raw, not_sync: PhantomData }
    }
}

impl Drop for SharedMbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value held one reference, and is gone after this.
        unsafe { release(self.raw) };
    }
}

impl From<Mbuf> for SharedMbuf {
    #[inline]
    fn from(mbuf: Mbuf) -> Self {
        mbuf.share()
    }
}
