//! What differs between the kinds of protocol state that a worker drives.

use heddle_core::coded::{CodedNode, shard};
use heddle_core::node::{Instant, Node};

use crate::outbox::Outbox;

/// Protocol state and its manner of sharing work with other workers and threads.
pub trait Role: Node + Send + 'static {
    /// The names of [`Role::further_counters`], in their order.
    const FURTHER_COUNTER_NAMES: &'static [&'static str] = &[];

    /// Whether every worker's state can take every frame, so that [`Role::owner`] is not asked, and frames are handed over in bursts.
    const TAKES_ALL: bool;

    /// The worker, of `workers`, whose state a frame needs.
    fn owner(frame: &[u8], workers: usize) -> usize;

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
    const TAKES_ALL: bool = false;

    #[inline]
    fn owner(frame: &[u8], workers: usize) -> usize {
        shard(frame, workers)
    }
}
