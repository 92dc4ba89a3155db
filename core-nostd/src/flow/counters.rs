//! Why frames are dropped, and how many.

use super::FlowError;
use crate::ndn::NdnError;
use crate::node::Verdict;

const NDN_ERRORS_AT: usize = FlowError::NAMES.len();
const COUNTERS: usize = NDN_ERRORS_AT + NdnError::NAMES.len();

/// The names of the counters.
pub(super) const COUNTER_NAMES: [&str; COUNTERS] = {
    let mut names = [""; COUNTERS];
    let mut at = 0;
    while at < COUNTERS {
        names[at] = if at < NDN_ERRORS_AT {
            FlowError::NAMES[at]
        } else {
            NdnError::NAMES[at - NDN_ERRORS_AT]
        };
        at += 1;
    }
    names
};
/// One counter for each reason to drop.
#[derive(Debug)]
pub(super) struct Counters([u64; COUNTERS]);

impl Counters {
    pub(super) const fn new() -> Self {
        Self([0; COUNTERS])
    }

    pub(super) const fn all(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn add(&mut self, reason: FlowDrop) {
        let at = match reason {
            FlowDrop::Flow(error) => error as usize,
            FlowDrop::Ndn(error) => NDN_ERRORS_AT + error as usize,
        };
        if let Some(counter) = self.0.get_mut(at) {
            *counter += 1;
        }
    }

    pub(super) fn drop(&mut self, reason: FlowDrop) -> Verdict<FlowDrop> {
        self.add(reason);
        Verdict::Drop(reason)
    }
}

/// Why a frame was dropped: one counter for each.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FlowDrop {
    /// The rules, or the frame's headers.
    Flow(FlowError),
    /// It is no named-data packet, where it should be one.
    Ndn(NdnError),
}

impl FlowDrop {
    /// The name of the reason's counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow(error) => error.name(),
            Self::Ndn(error) => error.name(),
        }
    }
}
