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
        Self { smoothed, variation: smoothed / 2, latest: smoothed, ..Self::new() }
    }

    pub const fn is_measured(&self) -> bool {
        self.measured
    }

    pub fn update(&mut self, sample: Duration, delay: Duration) {
        self.latest = sample;
        if !self.measured {
            self.measured = true;
            (self.smoothed, self.variation, self.least) = (sample, sample / 2, sample);
            return;
        }
        self.least = self.least.min(sample);
        let delay = delay.min(MAX_ACK_DELAY);
        let adjusted = if sample >= self.least + delay { sample - delay } else { sample };
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// The probe time-out after that many without an answer.
    pub fn probe_timeout(&self, unanswered: u32) -> Duration {
        let base = self.smoothed + (self.variation * 4).max(GRANULARITY) + MAX_ACK_DELAY;
        (base * (1 << unanswered.min(6))).min(MAX_PROBE)
    }
}
