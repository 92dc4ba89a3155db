//! What the thread of an endpoint and the application both have: the protocol's state, and the bell that wakes the thread.

use crate::keeper::Keeper;
use crate::outlet::SendCounters;
use heddle_core::dtp::modern as core;
use heddle_core::dtp::modern::{CloseReason, FlowId};
use heddle_core::node::Instant;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What the application should know of a flow.
#[derive(Default)]
pub(crate) struct Status {
    pub connected: bool,
    pub suspended: bool,
    pub closed: Option<CloseReason>,
    pub server_key: Option<[u8; 32]>,
    pub changed: Arc<Condvar>,
    /// Threads that wait for it.
    pub waiting: usize,
    pub wakers: Vec<Waker>,
    /// A stream of the application's stands for it.
    pub held: bool,
    /// What the application had noted with the ticket that the flow comes from.
    pub note: Option<Vec<u8>>,
}

pub(crate) struct State {
    pub endpoint: core::Endpoint<'static>,
    pub flows: HashMap<FlowId, Status>,
    pub incoming: VecDeque<FlowId>,
    /// A client's flows out of tickets that nobody has taken.
    pub restored: VecDeque<FlowId>,
    pub accept_wakers: Vec<Waker>,
    /// The thread has ended, for that reason.
    pub failed: Option<String>,
}

pub(crate) struct Shared {
    pub state: Mutex<State>,
    pub accepted: Condvar,
    pub bell: OwnedFd,
    pub rung: AtomicBool,
    pub stop: AtomicBool,
    pub address: SocketAddr,
    pub keeper: Option<Keeper>,
    pub sending: SendCounters,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread: there is something to send.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // It can only fail when it has been rung 2^64 times.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// The time as the protocol counts it: it goes on while the machine sleeps.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
