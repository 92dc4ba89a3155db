//! Timing on one pinned core, in CPU time of the thread.

use dpdk::thread_cpu_time;
use std::time::Duration;

/// Rounds of each measurement; its result is the median.
pub const ROUNDS: usize = 11;

/// CPU time that one contender gets in one round, about.
const SLICE: Duration = Duration::from_micros(1500);

/// Something to be timed.
pub struct Contender<'a> {
    /// What the tables call it.
    pub name: &'static str,
    /// Does the work once.
    pub run: Box<dyn FnMut() + 'a>,
    /// Octets of one run, where they are not those of the other contenders.
    pub octets: Option<usize>,
}

impl<'a> Contender<'a> {
    /// A contender called `name` whose work is `run`.
    pub fn new(name: &'static str, run: impl FnMut() + 'a) -> Self {
        Self { name, run: Box::new(run), octets: None }
    }
}

/// Keeps this thread on the CPU on which it runs now.
///
/// # Errors
/// What the operating system says.
pub fn pin_to_current_cpu() -> std::io::Result<usize> {
    // SAFETY: takes nothing and only gives a number.
    let cpu = unsafe { libc::sched_getcpu() };
    let cpu = usize::try_from(cpu).map_err(|_| std::io::Error::last_os_error())?;
    // SAFETY: a CPU set is plain bits, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a CPU set; the macro's function checks the number against its size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` lives through the call, and the size is its own.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(cpu)
}

/// The time of `repetitions` runs.
fn time(run: &mut dyn FnMut(), repetitions: u32) -> Duration {
    let start = thread_cpu_time();
    for _ in 0..repetitions {
        run();
    }
    thread_cpu_time().saturating_sub(start)
}

/// Nanoseconds of one run of each contender: the median over [`ROUNDS`] rounds, in each of which every contender has its turn.
pub fn compare(contenders: &mut [Contender<'_>]) -> Vec<f64> {
    let repetitions: Vec<u32> = contenders
        .iter_mut()
        .map(|contender| {
            let mut repetitions = 1;
            loop {
                let taken = time(&mut contender.run, repetitions);
                if taken >= SLICE / 4 || repetitions > 1 << 22 {
                    let scale = SLICE.as_secs_f64() / taken.as_secs_f64().max(1e-9);
                    return ((f64::from(repetitions) * scale) as u32).max(1);
                }
                repetitions *= 2;
            }
        })
        .collect();
    let mut times = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for ((contender, repetitions), times) in
            contenders.iter_mut().zip(&repetitions).zip(&mut times)
        {
            let taken = time(&mut contender.run, *repetitions);
            times.push(taken.as_nanos() as f64 / f64::from(*repetitions));
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
        })
        .collect()
}
