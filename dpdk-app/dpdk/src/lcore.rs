//! Worker lcores: threads of EAL's own, each bound to a CPU, that run closures.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::eal::Eal;
use crate::error::Error;

/// A worker lcore that is idle. Only its owner can give it work.
#[derive(Debug)]
pub struct Lcore {
    id: u32,
    eal: Eal,
}

/// An lcore that runs a closure. Dropping it lets the closure run on, unobserved, and gives the lcore up.
#[derive(Debug)]
pub struct RunningLcore<T> {
    lcore: Lcore,
    result: Arc<Mutex<Option<std::thread::Result<T>>>>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Lcore {
    pub(crate) fn new(id: u32, eal: Eal) -> Self {
        Self { id, eal }
    }

    /// EAL's number for the lcore.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Runs `work` on the lcore.
    ///
    /// # Errors
    /// EAL does not accept work for the lcore.
    pub fn launch<T, F>(self, work: F) -> Result<RunningLcore<T>, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        // EAL must not be cleaned up under a closure that runs on unobserved.
        let eal = self.eal.clone();
        let job: Job = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(outcome);
            }
            drop(eal);
        });
        let argument = Box::into_raw(Box::new(job));
        // SAFETY: this value is the lcore's only owner, so no other thread launches on it or waits for it.
        // `argument` is a valid `*mut Job` that `run` takes back exactly once; when the launch fails
        // nothing runs, and it is taken back here.
        let status = unsafe {
            dpdk_sys::rte_eal_remote_launch(Some(run), argument.cast::<c_void>(), self.id)
        };
        if status < 0 {
            // SAFETY: EAL refused, so `argument` is still ours alone.
            drop(unsafe { Box::from_raw(argument) });
            return Err(Error::call(format!("lcore {} takes no work", self.id), status, ""));
        }
        Ok(RunningLcore { lcore: self, result })
    }
}

impl<T> RunningLcore<T> {
    /// Waits until the closure has returned, and gives the lcore back with what it returned, or with what
    /// it panicked with as [`std::thread::JoinHandle::join`] does.
    pub fn wait(self) -> (Lcore, std::thread::Result<T>) {
        // SAFETY: the lcore is in EAL's table and this value is its only owner, so nobody else waits.
        unsafe { dpdk_sys::rte_eal_wait_lcore(self.lcore.id) };
        let outcome = match self.result.lock() {
            Ok(mut slot) => slot.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        };
        let outcome = outcome.unwrap_or_else(|| Err(Box::new("the lcore returned nothing")));
        (self.lcore, outcome)
    }
}

/// What EAL calls on the lcore.
unsafe extern "C" fn run(argument: *mut c_void) -> i32 {
    // SAFETY: `launch` made the pointer from a `Box<Job>` and gave it away with the call that led here.
    let job = unsafe { Box::from_raw(argument.cast::<Job>()) };
    job();
    0
}

/// The number of the lcore that calls; nothing for a thread that is not EAL's.
pub fn current_lcore() -> Option<u32> {
    // SAFETY: the call reads a thread-local integer and has no precondition.
    let id = unsafe { dpdk_sys::rte_lcore_id() };
    (id < dpdk_sys::RTE_MAX_LCORE).then_some(id)
}
