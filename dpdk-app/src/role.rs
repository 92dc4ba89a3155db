//! What differs between the kinds of protocol state that a worker drives.

use heddle_core::coded::{CodedNode, shard};
use heddle_core::node::{Instant, Node};

use crate::outbox::Outbox;

/// Protocol state and its manner of sharing work with other workers and threads.
pub trait Role: Node + Send + 'static {
    /// The names of [`Role::further_counters`], in their order.
    const FURTHER_COUNTER_NAMES: &'static [&'static str] = &[];

    /// The worker, of `workers`, whose state a frame needs; `here` is the worker where it came in.
    fn owner(frame: &[u8], here: usize, workers: usize) -> usize;

    /// Does a bounded part of what other threads ask, between two bursts. The number of things that it did.
    fn serve(&mut self, now: Instant, outbox: &mut Outbox) -> usize {
        let _ = (now, outbox);
        0
    }

    /// Counters beside those of the node.
    fn further_counters(&self) -> &[u64] {
        &[]
    }
}

impl Role for CodedNode<'static> {
    #[inline]
    fn owner(frame: &[u8], _here: usize, workers: usize) -> usize {
        shard(frame, workers)
    }
}
