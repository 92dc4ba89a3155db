//! Rings of mbufs between lcores, without locks.
//!
//! A ring has a sending and a receiving half. The receiving half has one owner; the sending half has one
//! owner too ([`ring`]) or can be cloned ([`multi_producer_ring`]).

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk_sys::{rte_mbuf, rte_ring};

use crate::eal::Eal;
use crate::error::{Error, last_errno};
use crate::logging;
use crate::mbuf::{Buffer, Mbuf, release};
use crate::queue::forget_front;

/// One thread sends.
#[derive(Debug)]
pub struct SingleProducer;

/// Several threads send.
#[derive(Debug)]
pub struct MultiProducer;

/// How many threads send into a ring.
pub trait Producer: private::Sealed + 'static {}
impl Producer for SingleProducer {}
impl Producer for MultiProducer {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::SingleProducer {}
    impl Sealed for super::MultiProducer {}
}

/// The sending half of a ring.
#[derive(Debug)]
pub struct RingSender<T: Buffer = Mbuf, P: Producer = SingleProducer> {
    inner: Arc<Inner>,
    kind: PhantomData<fn(T, P)>,
}

/// The receiving half of a ring.
#[derive(Debug)]
pub struct RingReceiver<T: Buffer = Mbuf> {
    inner: Arc<Inner>,
    kind: PhantomData<fn() -> T>,
}

/// The ring itself. What is still in it is freed when both halves are gone.
#[derive(Debug)]
pub(crate) struct Inner {
    ring: NonNull<rte_ring>,
    _eal: Eal,
}

// SAFETY: an rte_ring is made for several threads. Which of them may send and receive at the same time is
// kept by the halves: a half that is the only one of its kind is used through `&mut`.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

/// A ring for `capacity` buffers (to be exact, not a power of two) from one thread to another.
///
/// # Errors
/// `name` (unique in the process, 28 octets at most) is taken or too long, or there is not enough memory.
pub fn ring<T: Buffer>(
    eal: &Eal,
    name: &str,
    capacity: u32,
) -> Result<(RingSender<T, SingleProducer>, RingReceiver<T>), Error> {
    create(eal, name, capacity, dpdk_sys::RING_F_SP_ENQ | dpdk_sys::RING_F_SC_DEQ)
}

/// A ring for `capacity` buffers from several threads to one.
///
/// # Errors
/// As for [`ring`].
pub fn multi_producer_ring<T: Buffer>(
    eal: &Eal,
    name: &str,
    capacity: u32,
) -> Result<(RingSender<T, MultiProducer>, RingReceiver<T>), Error> {
    create(eal, name, capacity, dpdk_sys::RING_F_SC_DEQ)
}

fn create<T: Buffer, P: Producer>(
    eal: &Eal,
    name: &str,
    capacity: u32,
    flags: u32,
) -> Result<(RingSender<T, P>, RingReceiver<T>), Error> {
    let c_name = CString::new(name)
        .map_err(|_| Error::refused(format!("the ring name {name:?} holds a NUL octet")))?;
    let flags = flags | dpdk_sys::RING_F_EXACT_SZ;
    let (ring, log) = logging::capture(|| {
        // SAFETY: EAL runs and the name is NUL-terminated and copied; -1 is any NUMA node. The function
        // checks the numbers itself.
        unsafe { dpdk_sys::rte_ring_create(c_name.as_ptr(), capacity, -1, flags) }
    });
    let Some(ring) = NonNull::new(ring) else {
        let what = format!("the ring '{name}' for {capacity} mbufs cannot be made");
        return Err(Error::call(what, last_errno(), &log));
    };
    let inner = Arc::new(Inner { ring, _eal: eal.clone() });
    let sender = RingSender { inner: Arc::clone(&inner), kind: PhantomData };
    Ok((sender, RingReceiver { inner, kind: PhantomData }))
}

impl<T: Buffer, P: Producer> RingSender<T, P> {
    /// Puts buffers from the front of `buffers` into the ring, as many as it has room for, and returns
    /// their number. The rest stays in its order.
    #[inline]
    pub fn send<const N: usize>(&mut self, buffers: &mut ArrayVec<T, N>) -> usize {
        let count = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
        // SAFETY: a Buffer is one pointer to an mbuf of which it holds a reference. The ring is alive; with
        // SingleProducer this is the only sending half, with MultiProducer the ring takes several. The
        // ring takes over the first `sent` references, which `forget_front` forgets.
        unsafe {
            let pointers = buffers.as_ptr().cast::<*mut c_void>();
            let none = std::ptr::null_mut();
            let ring = self.inner.ring.as_ptr();
            let sent = dpdk_sys::rte_ring_enqueue_burst(ring, pointers, count, none) as usize;
            forget_front(buffers, sent);
            sent
        }
    }

    /// Buffers in the ring now; approximate while the other half works.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether the ring is empty now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn into_inner(self) -> Arc<Inner> {
        self.inner
    }
}

impl<T: Buffer> Clone for RingSender<T, MultiProducer> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), kind: PhantomData }
    }
}

impl<T: Buffer> RingReceiver<T> {
    /// Takes buffers out of the ring, as many as `buffers` has room for, and says how many it added.
    #[inline]
    pub fn receive<const N: usize>(&mut self, buffers: &mut ArrayVec<T, N>) -> usize {
        let length = buffers.len();
        let room = u32::try_from(buffers.remaining_capacity()).unwrap_or(u32::MAX);
        // SAFETY: this is the ring's only receiving half. A `T` is one pointer to an mbuf, so `room`
        // pointers fit after `length`; the ring holds what a half for the same `T` put in, and gives the
        // first `count` away with their references.
        unsafe {
            let places = buffers.as_mut_ptr().add(length).cast::<*mut c_void>();
            let none = std::ptr::null_mut();
            let ring = self.inner.ring.as_ptr();
            let count = dpdk_sys::rte_ring_dequeue_burst(ring, places, room, none) as usize;
            buffers.set_len(length + count);
            count
        }
    }

    /// Buffers in the ring now; approximate while the other half works.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether the ring is empty now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn into_inner(self) -> Arc<Inner> {
        self.inner
    }
}

impl Inner {
    pub(crate) fn as_ptr(&self) -> *mut rte_ring {
        self.ring.as_ptr()
    }

    fn len(&self) -> usize {
        // SAFETY: the ring is alive; the call only reads its indices.
        unsafe { dpdk_sys::rte_ring_count(self.ring.as_ptr()) as usize }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: both halves are gone, so nobody else uses the ring. Each pointer in it is an mbuf with a
        // reference that the ring owns, which is released once. The ring is freed when it is empty.
        unsafe {
            let ring = self.ring.as_ptr();
            let none = std::ptr::null_mut();
            while dpdk_sys::rte_ring_dequeue_burst(ring, &mut pointer, 1, none) == 1 {
                if let Some(mbuf) = NonNull::new(pointer.cast::<rte_mbuf>()) {
                    release(mbuf);
                }
            }
            dpdk_sys::rte_ring_free(ring);
        }
    }
}
