//! The thread that carries frames between two TAP devices, late and not all of them.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Counts, INTERFACE, Shape};
use crate::error::{Error, Result};
use crate::namespace::Namespace;

/// Octets of the longest frame that a TAP device gives.
const FRAME_OCTETS: usize = 65_536;

/// Frames that are taken from one side before the other has its turn.
const TURN: usize = 64;

/// How long the thread waits before it looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A direction's counters, shared with whoever asks.
#[derive(Debug, Default)]
struct Shared {
    passed: AtomicU64,
    lost: AtomicU64,
    overflowed: AtomicU64,
    cut: AtomicU64,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    stop: Arc<AtomicBool>,
    is_cut: Arc<AtomicBool>,
    counts: [Arc<Shared>; 2],
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Makes a TAP device in each of the namespaces and carries frames from now on.
    pub fn start(ends: &[Namespace; 2], shape: &Shape) -> Result<Self> {
        let open = |end: &Namespace| {
            end.enter(|| tap().map_err(Error::io(format!("make a TAP device in {}", end.name()))))
        };
        let [a, b] = ends;
        let taps = [open(a)?, open(b)?];
        let (stop, is_cut) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let counts = [Arc::<Shared>::default(), Arc::default()];
        let ways = [0, 1].map(|way: u64| Way {
            shape: *shape,
            random: StdRng::seed_from_u64(shape.seed.wrapping_mul(2).wrapping_add(way)),
            free_at: Instant::now(),
            queued_octets: VecDeque::new(),
            octets_waiting: 0,
            on_their_way: VecDeque::new(),
        });
        let [first, second] = &counts;
        let thread_counts = [Arc::clone(first), Arc::clone(second)];
        let (thread_stop, thread_cut) = (Arc::clone(&stop), Arc::clone(&is_cut));
        let thread = std::thread::Builder::new()
            .name("link".into())
            .spawn(move || carry(taps, ways, &thread_counts, &thread_stop, &thread_cut))
            .map_err(Error::io("start the link's thread"))?;
        Ok(Self { stop, is_cut, counts, thread: Some(thread) })
    }

    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    pub fn counts(&self) -> [Counts; 2] {
        self.counts.each_ref().map(|shared| Counts {
            passed: shared.passed.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
            overflowed: shared.overflowed.load(Ordering::Relaxed),
            cut: shared.cut.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has said on standard error what was wrong.
            let _ = thread.join();
        }
    }
}

/// A TAP device in the namespace of this thread; without offloads, so that the kernel cuts and checks frames itself.
fn tap() -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: `ifreq` is plain old data of which all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = INTERFACE.bytes().map(|octet| octet as libc::c_char);
    // The last octet stays zero: the name is shorter than its place.
    request.ifr_name.iter_mut().zip(name).for_each(|(place, octet)| *place = octet);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, and `request` is one that lives through the call; the descriptor is open.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// What is between one end and the other.
struct Way {
    shape: Shape,
    random: StdRng,
    /// When the wire is free for the next frame.
    free_at: Instant,
    /// When each frame that waits for the wire will have left, and its octets.
    queued_octets: VecDeque<(Instant, u64)>,
    octets_waiting: u64,
    on_their_way: VecDeque<(Instant, Vec<u8>)>,
}

impl Way {
    fn take(&mut self, now: Instant, frame: &[u8], counts: &Shared) {
        while let Some(&(_, octets)) = self.queued_octets.front().filter(|(left, _)| *left <= now) {
            self.queued_octets.pop_front();
            self.octets_waiting -= octets;
        }
        let octets = frame.len() as u64;
        if self.octets_waiting + octets > self.shape.queue() && self.shape.rate_bits.is_some() {
            counts.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.free_at = self.free_at.max(now);
        if let Some(rate) = self.shape.rate_bits {
            self.free_at += Duration::from_nanos(octets * 8 * 1_000_000_000 / rate.max(1));
            self.queued_octets.push_back((self.free_at, octets));
            self.octets_waiting += octets;
        }
        // Lost on the way, not before it: the wire was taken.
        if self.random.random_bool(self.shape.loss.clamp(0.0, 1.0)) {
            counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.on_their_way.push_back((self.free_at + self.shape.delay, frame.to_vec()));
    }

    fn due(&self) -> Option<Instant> {
        self.on_their_way.front().map(|(due, _)| *due)
    }

    fn deliver(&mut self, now: Instant, to: &mut File, counts: &Shared) {
        while let Some((_, frame)) = self.on_their_way.front().filter(|(due, _)| *due <= now) {
            match to.write(frame) {
                Ok(_) => counts.passed.fetch_add(1, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The interface is down, or its queue is full.
                Err(_) => counts.cut.fetch_add(1, Ordering::Relaxed),
            };
            self.on_their_way.pop_front();
        }
    }
}

fn carry(
    mut taps: [File; 2],
    mut ways: [Way; 2],
    counts: &[Arc<Shared>; 2],
    stop: &AtomicBool,
    is_cut: &AtomicBool,
) {
    // A timer may be late by that many nanoseconds; 50 µs are the default.
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) };
    let mut buffer = vec![0; FRAME_OCTETS];
    while !stop.load(Ordering::Relaxed) {
        let due = ways.iter().filter_map(Way::due).min();
        let wait = due.map_or(LOOK_EVERY, |due| due.saturating_duration_since(Instant::now()));
        let wait = wait.min(LOOK_EVERY);
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        {
            let mut fds = taps.each_ref().map(|tap| PollFd::new(tap, PollFlags::IN));
            match poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    eprintln!("heddle: the link stops: {error}");
                    return;
                }
            }
        }
        for ((tap, way), counts) in taps.iter_mut().zip(&mut ways).zip(counts) {
            for _ in 0..TURN {
                match tap.read(&mut buffer) {
                    Ok(_) if is_cut.load(Ordering::Relaxed) => {
                        counts.cut.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(octets) => {
                        way.take(Instant::now(), buffer.get(..octets).unwrap_or(&[]), counts);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Nothing there, or the interface is down.
                    Err(_) => break,
                }
            }
        }
        let now = Instant::now();
        let [a, b] = &mut taps;
        for ((way, to), counts) in ways.iter_mut().zip([b, a]).zip(counts) {
            if is_cut.load(Ordering::Relaxed) {
                let there = way.on_their_way.len() as u64;
                way.on_their_way.clear();
                counts.cut.fetch_add(there, Ordering::Relaxed);
            }
            way.deliver(now, to, counts);
        }
    }
}
