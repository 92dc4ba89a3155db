//! Cycles and CPU time.

use std::time::Duration;

use crate::eal::Eal;

/// The processor's time-stamp counter, calibrated by EAL.
#[derive(Copy, Clone, Debug)]
pub struct Tsc {
    hertz: u64,
    /// 2^32 x nanoseconds in a cycle.
    scale: u64,
}

impl Tsc {
    /// The counter; EAL measures its frequency when it starts.
    pub fn new(_eal: &Eal) -> Self {
        // SAFETY: rte_get_tsc_hz reads a variable that rte_eal_init has set, and an Eal proves that it ran.
        let hertz = unsafe { dpdk_sys::rte_get_tsc_hz() }.max(1);
        let scale = (u128::from(1_000_000_000u64) << 32) / u128::from(hertz);
        Self { hertz, scale: u64::try_from(scale).unwrap_or(u64::MAX) }
    }

    /// Cycles in a second.
    pub fn hertz(self) -> u64 {
        self.hertz
    }

    /// The counter now, in cycles.
    #[inline]
    pub fn cycles(self) -> u64 {
        // SAFETY: reading the time-stamp counter has no precondition.
        unsafe { dpdk_sys::rte_rdtsc() }
    }

    /// The counter now, in nanoseconds since the counter's own zero.
    #[inline]
    pub fn nanoseconds(self) -> u64 {
        self.to_nanoseconds(self.cycles())
    }

    /// What `cycles` take, in nanoseconds.
    #[inline]
    pub fn to_nanoseconds(self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64
    }
}

/// CPU time that the calling thread has used since it began.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to, and Linux has this clock for every thread.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    if status != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
