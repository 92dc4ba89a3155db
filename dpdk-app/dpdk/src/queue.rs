//! The queues of a port, through which frames come and go in bursts.

use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk_sys::rte_mbuf;

use crate::device::Device;
use crate::mbuf::{Buffer, Mbuf, Shape, release, shape};

/// A receive queue of a started port. It can move to the thread that will poll it.
#[derive(Debug)]
pub struct RxQueue {
    port: u16,
    queue: u16,
    chained: u64,
    shared: u64,
    /// Keeps the port started.
    _device: Arc<Device>,
}

/// A transmit queue of a started port. It can move to the thread that will fill it.
#[derive(Debug)]
pub struct TxQueue {
    port: u16,
    queue: u16,
    /// Keeps the port started.
    _device: Arc<Device>,
}

impl RxQueue {
    pub(crate) fn new(device: &Arc<Device>, queue: u16) -> Self {
        Self { port: device.id(), queue, chained: 0, shared: 0, _device: Arc::clone(device) }
    }

    /// Takes frames that have come in, as many as `frames` has room for, and says how many it added.
    ///
    /// Frames that lie in several segments, or that their sender still refers to, are freed and counted:
    /// [`RxQueue::chained`], [`RxQueue::shared`].
    #[inline]
    pub fn receive<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) -> usize {
        let length = frames.len();
        let room = u16::try_from(frames.remaining_capacity()).unwrap_or(u16::MAX);
        // SAFETY: the port is started while this value lives, and this value is the queue's only user.
        // An Mbuf is one pointer to an rte_mbuf, so `room` pointers fit after `length`; the driver fills
        // the first `count` of them with mbufs that it gives away.
        let count = unsafe {
            let places = frames.as_mut_ptr().add(length).cast::<*mut rte_mbuf>();
            dpdk_sys::rte_eth_rx_burst(self.port, self.queue, places, room)
        };
        // SAFETY: `count` is at most `room`, and those places hold live mbufs whose references are ours.
        unsafe { adopt(frames, usize::from(count), |odd| self.count(odd)) };
        frames.len() - length
    }

    /// Frames freed because they lay in several segments.
    pub fn chained(&self) -> u64 {
        self.chained
    }

    /// Frames freed because somebody else still referred to their buffer: a sender on a port made of
    /// rings sent a [`crate::SharedMbuf`] that had clones.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    fn count(&mut self, odd: Shape) {
        match odd {
            Shape::Plain => {}
            Shape::Chained => self.chained += 1,
            Shape::Shared => self.shared += 1,
        }
    }
}

impl TxQueue {
    pub(crate) fn new(device: &Arc<Device>, queue: u16) -> Self {
        Self { port: device.id(), queue, _device: Arc::clone(device) }
    }

    /// Sends frames from the front of `frames`. What the driver takes leaves `frames`, and their number is
    /// returned; what it does not take stays, in its order, to be sent again or dropped.
    #[inline]
    pub fn send<T: Buffer, const N: usize>(&mut self, frames: &mut ArrayVec<T, N>) -> usize {
        let length = u16::try_from(frames.len()).unwrap_or(u16::MAX);
        if length == 0 {
            return 0;
        }
        // SAFETY: the port is started while this value lives, and this value is the queue's only user.
        // A Buffer is one pointer to a live mbuf of which it holds a reference. The driver takes over the
        // references of the first `sent`, which `forget_front` forgets, and leaves the others alone.
        unsafe {
            let pointers = frames.as_mut_ptr().cast::<*mut rte_mbuf>();
            let sent = dpdk_sys::rte_eth_tx_burst(self.port, self.queue, pointers, length);
            let sent = usize::from(sent);
            forget_front(frames, sent);
            sent
        }
    }
}

/// Makes `count` pointers that lie after the last element into elements. Buffers that are no [`Mbuf`] are
/// freed and shown to `refuse`.
///
/// # Safety
/// There is room for `count` more, and those places hold pointers to live mbufs, each with a reference
/// that now belongs to `frames`.
#[inline]
pub(crate) unsafe fn adopt<const N: usize>(
    frames: &mut ArrayVec<Mbuf, N>,
    count: usize,
    mut refuse: impl FnMut(Shape),
) {
    let length = frames.len();
    let mut kept = length;
    for index in length..length + count {
        // SAFETY: `index` is within the capacity and its place holds a live mbuf by the caller's word.
        // Moving a pointer down to `kept`, which is at most `index`, loses none: what lay there was moved
        // down or freed before.
        unsafe {
            let places = frames.as_mut_ptr().cast::<NonNull<rte_mbuf>>();
            let mbuf = places.add(index).read();
            match shape(mbuf) {
                Shape::Plain => {
                    places.add(kept).write(mbuf);
                    kept += 1;
                }
                odd => {
                    release(mbuf);
                    refuse(odd);
                }
            }
        }
    }
    // SAFETY: the places from `length` to `kept` hold plain mbufs that nobody else refers to.
    unsafe { frames.set_len(kept) };
}

/// Removes the first `count` elements without dropping them.
///
/// # Safety
/// `count` is at most the length, and somebody else now owns what those elements owned.
#[inline]
pub(crate) unsafe fn forget_front<T, const N: usize>(frames: &mut ArrayVec<T, N>, count: usize) {
    let rest = frames.len() - count;
    // SAFETY: the length is 0 while elements move, so none is dropped twice whatever happens; the `rest`
    // elements after the first `count` are initialised, and end up in front.
    unsafe {
        frames.set_len(0);
        if count != 0 && rest != 0 {
            let start = frames.as_mut_ptr();
            std::ptr::copy(start.add(count), start, rest);
        }
        frames.set_len(rest);
    }
}
