//! The round trip of a path (RFC 9002, section 5).

use core::time::Duration;

/// Timers go no finer than this: hosts are not punctual.
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// The round trip before one was measured: gives a first probe time-out of 1 s.
const FIRST: Duration = Duration::from_millis(333);

/// A probe time-out is at most this: the probe interval of an outage.
pub(super) const MAX_PROBE: Duration = Duration::from_secs(1);

/// The longest that an acknowledgement waits.
pub(super) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// How long an acknowledgement of two packets or more waits for further ones: what hosts can do with one wake-up.
pub(super) const ACK_PAUSE: Duration = Duration::from_millis(1);

/// Nanoseconds of a time; 584 years are more than any of these.
const fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

/// A part of a time. The division that times have themselves checks what cannot be, and could panic.
pub(super) const fn part(time: Duration, parts: u64) -> Duration {
    match nanoseconds(time).checked_div(parts) {
        Some(part) => Duration::from_nanos(part),
        None => time,
    }
}

/// What is left of a time without another.
const fn less(time: Duration, other: Duration) -> Duration {
    Duration::from_nanos(nanoseconds(time).saturating_sub(nanoseconds(other)))
}

/// A mean in which the newest counts as one of `count`.
const fn mean(before: Duration, newest: Duration, count: u64) -> Duration {
    let sum = nanoseconds(before).saturating_mul(count.saturating_sub(1));
    part(Duration::from_nanos(sum.saturating_add(nanoseconds(newest))), count)
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Rtt {
    pub smoothed: Duration,
    pub variation: Duration,
    pub least: Duration,
    pub latest: Duration,
    measured: bool,
}

impl Rtt {
    pub const fn new() -> Self {
        let variation = Duration::from_micros(166_500);
        Self { smoothed: FIRST, variation, least: Duration::ZERO, latest: FIRST, measured: false }
    }

    /// Begins with a round trip that is known from before.
    pub fn known(smoothed: Duration) -> Self {
        Self { smoothed, variation: part(smoothed, 2), latest: smoothed, ..Self::new() }
    }

    pub const fn is_measured(&self) -> bool {
        self.measured
    }

    pub fn update(&mut self, sample: Duration, delay: Duration) {
        self.latest = sample;
        if !self.measured {
            self.measured = true;
            (self.smoothed, self.variation, self.least) = (sample, part(sample, 2), sample);
            return;
        }
        self.least = self.least.min(sample);
        let delay = delay.min(MAX_ACK_DELAY);
        // A delay that would make it less than the least cannot have been.
        let adjusted = less(sample, delay);
        let adjusted = if adjusted >= self.least { adjusted } else { sample };
        let change = less(self.smoothed.max(adjusted), self.smoothed.min(adjusted));
        self.variation = mean(self.variation, change, 4);
        self.smoothed = mean(self.smoothed, adjusted, 8);
    }

    /// The probe time-out after that many without an answer.
    pub fn probe_timeout(&self, unanswered: u32) -> Duration {
        let variation = self.variation.saturating_mul(4).max(GRANULARITY);
        let base = self.smoothed.saturating_add(variation).saturating_add(MAX_ACK_DELAY);
        base.saturating_mul(1 << unanswered.min(6)).min(MAX_PROBE)
    }
}
