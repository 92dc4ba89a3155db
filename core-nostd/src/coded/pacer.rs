//! Keeping a link's sending under its rate.

use crate::node::Instant;
use core::time::Duration;

/// How much unused time a link may make up for, since an engine that sleeps comes late.
const CATCH_UP: Duration = Duration::from_millis(2);

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Spaces frames on one link so that they do not exceed a rate.
#[derive(Copy, Clone, Debug)]
pub struct Pacer {
    octets_per_second: Option<u64>,
    /// When the link has carried all that it was given.
    free_at: Instant,
}

impl Pacer {
    /// A pacer for `octets_per_second` of Ethernet frames (without preamble and FCS); `None` never waits.
    pub const fn new(octets_per_second: Option<u64>) -> Self {
        Self { octets_per_second, free_at: Instant::ZERO }
    }

    /// Whether there is a rate to keep.
    pub const fn is_limited(&self) -> bool {
        self.octets_per_second.is_some()
    }

    /// When the next frame may go.
    pub const fn ready_at(&self) -> Instant {
        self.free_at
    }

    /// Whether a frame may go now.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// Notes that a frame of `octets` went out.
    pub fn sent(&mut self, now: Instant, octets: usize) {
        if let Some(nanos) = (octets as u64)
            .saturating_mul(NANOS_PER_SECOND)
            .checked_div(self.octets_per_second.unwrap_or(0))
        {
            let earliest =
                Instant::from_nanos(now.as_nanos().saturating_sub(CATCH_UP.as_nanos() as u64));
            self.free_at = self.free_at.max(earliest).after(Duration::from_nanos(nanos));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets sent in `seconds` when the engine looks every `step`.
    fn octets_sent(rate: u64, seconds: u64, step: Duration) -> u64 {
        let mut pacer = Pacer::new(Some(rate));
        let (mut now, end, mut octets) =
            (Instant::ZERO, Instant::from_nanos(seconds * NANOS_PER_SECOND), 0);
        while now < end {
            while pacer.is_ready(now) {
                pacer.sent(now, 500);
                octets += 500;
            }
            now = now.after(step);
        }
        octets
    }

    #[test]
    fn the_rate_is_kept_whether_the_engine_polls_or_sleeps() {
        for step in [Duration::from_micros(1), Duration::from_micros(500)] {
            let octets = octets_sent(1_000_000, 3, step);
            assert!((2_995_000..=3_005_000).contains(&octets), "{octets} with {step:?}");
        }
    }

    #[test]
    fn time_that_was_not_used_is_not_saved_up() {
        let mut pacer = Pacer::new(Some(1_000_000));
        let late = Instant::from_nanos(60 * NANOS_PER_SECOND);
        let mut burst = 0;
        while pacer.is_ready(late) {
            pacer.sent(late, 500);
            burst += 1;
        }
        assert!(burst <= 5, "{burst} frames at once after a minute's rest");
    }

    #[test]
    fn a_link_without_a_rate_never_waits() {
        let mut pacer = Pacer::new(None);
        pacer.sent(Instant::ZERO, 1500);
        assert!(pacer.is_ready(Instant::ZERO));
    }
}
