//! Pools of packet buffers.

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::eal::Eal;
use crate::error::{Error, last_errno};
use crate::logging;
use crate::mbuf::Mbuf;

/// Octets of an mbuf for the frame and its tail, beside the headroom of 128: what a frame of an Ethernet
/// with an MTU of 1500 needs, and what drivers take as their least.
const DATA_OCTETS: u16 = 2048;

/// mbufs that an lcore keeps at hand, at most; small, so that small pools serve several lcores.
const CACHE_MBUFS: u32 = 32;

/// A pool of mbufs of one size. Clones are handles to the same pool. The memory is given back with the
/// last handle, provided that every mbuf has come home; a pool with mbufs still out stays, and EAL with
/// it, so that those mbufs stay valid.
#[derive(Clone, Debug)]
pub struct Mempool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pool: NonNull<dpdk_sys::rte_mempool>,
    eal: ManuallyDrop<Eal>,
}

// SAFETY: DPDK's pools are made for many threads: an lcore uses its own cache, found by its thread-local
// lcore number, and every other thread the common ring, which takes several producers and consumers.
unsafe impl Send for Inner {}
// SAFETY: as for Send; no call through a shared reference touches another lcore's cache except to count.
unsafe impl Sync for Inner {}

impl Mempool {
    /// A pool of `mbufs` buffers for frames of up to 2048 octets. Powers of two less one waste no memory.
    /// `name` is unique in the process, 26 octets at most.
    ///
    /// # Errors
    /// The name is taken or too long, or there is not enough memory.
    pub fn new(eal: &Eal, name: &str, mbufs: u32) -> Result<Self, Error> {
        let c_name = CString::new(name)
            .map_err(|_| Error::refused(format!("the pool name {name:?} holds a NUL octet")))?;
        // EAL wants a cache of at most two thirds of the pool.
        let cache = CACHE_MBUFS.min(mbufs / 4);
        let room = DATA_OCTETS + dpdk_sys::RTE_PKTMBUF_HEADROOM as u16;
        let (pool, log) = logging::capture(|| {
            // SAFETY: EAL runs and the name is NUL-terminated and copied; -1 is any NUMA node. The
            // function checks the numbers itself.
            unsafe { dpdk_sys::rte_pktmbuf_pool_create(c_name.as_ptr(), mbufs, cache, 0, room, -1) }
        });
        let Some(pool) = NonNull::new(pool) else {
            let errno = last_errno();
            let error = Error::call(
                format!("the pool '{name}' of {mbufs} mbufs cannot be made"),
                errno,
                &log,
            );
            return Err(match errno {
                libc::ENOMEM => error.advise(
                    "An mbuf takes about 2.4 KiB: ask for fewer, or give DPDK more memory.",
                ),
                libc::EEXIST => error.advise("The name is taken."),
                _ => error,
            });
        };
        Ok(Self { inner: Arc::new(Inner { pool, eal: ManuallyDrop::new(eal.clone()) }) })
    }

    /// An empty mbuf, or nothing when the pool is empty.
    #[inline]
    pub fn allocate(&self) -> Option<Mbuf> {
        // SAFETY: the pool is alive while a handle is. What the call returns is null or an mbuf with one
        // segment and one reference, which is given to nobody else.
        unsafe {
            let mbuf = dpdk_sys::rte_pktmbuf_alloc(self.inner.pool.as_ptr());
            NonNull::new(mbuf).map(|mbuf| Mbuf::from_raw(mbuf))
        }
    }

    /// Fills what room `mbufs` has with empty ones: all of it, or nothing of it.
    pub fn allocate_into<const N: usize>(&self, mbufs: &mut ArrayVec<Mbuf, N>) -> bool {
        let room = mbufs.remaining_capacity();
        let Ok(count) = u32::try_from(room) else { return false };
        let length = mbufs.len();
        // SAFETY: an Mbuf is one non-null pointer to an rte_mbuf, so the `room` places after `length` can
        // take `room` pointers. On success every one is a fresh mbuf; on failure none is counted.
        unsafe {
            let places = mbufs.as_mut_ptr().add(length).cast::<*mut dpdk_sys::rte_mbuf>();
            if dpdk_sys::rte_pktmbuf_alloc_bulk(self.inner.pool.as_ptr(), places, count) != 0 {
                return false;
            }
            mbufs.set_len(length + room);
        }
        true
    }

    /// mbufs that are free now, counting those in the lcores' caches; approximate while others work.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is alive; the call only reads counts.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.inner.pool.as_ptr()) }
    }

    /// mbufs that are out now; approximate while others work.
    pub fn in_use(&self) -> u32 {
        self.inner.in_use()
    }

    pub(crate) fn as_ptr(&self) -> *mut dpdk_sys::rte_mempool {
        self.inner.pool.as_ptr()
    }
}

impl Inner {
    fn in_use(&self) -> u32 {
        // SAFETY: the pool is alive; the call only reads counts.
        unsafe { dpdk_sys::rte_mempool_in_use_count(self.pool.as_ptr()) }
    }

    /// Whether every mbuf is home. With the last handle gone nobody can take one, so the answer, once
    /// true, stays true. The pause lets a thread that has just counted its mbuf home leave the call.
    fn all_home(&self) -> bool {
        self.in_use() == 0 && {
            std::thread::sleep(Duration::from_millis(1));
            self.in_use() == 0
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.all_home() {
            // The handle on EAL is kept for good: the mbufs that are out point into its memory.
            return;
        }
        // SAFETY: this was the last handle, no mbuf is out and none can be taken, so nothing refers to the
        // pool: drivers that allocate from it hold a handle through their port.
        unsafe { dpdk_sys::rte_mempool_free(self.pool.as_ptr()) };
        // SAFETY: `eal` is not used again after this.
        unsafe { ManuallyDrop::drop(&mut self.eal) };
    }
}
