//! When slow start ends before a queue overflows: HyStart++ (RFC 9406).

use super::congestion::AckSample;
use super::rtt::part;
use core::time::Duration;

/// A round trip that grows by an eighth says that a queue has begun, within these bounds (RFC 9406, section 4.3).
const LEAST_GROWTH: Duration = Duration::from_millis(4);
const MOST_GROWTH: Duration = Duration::from_millis(16);
const GROWTH_PART: u64 = 8;

/// Packets of a round whose round trips have to be known.
const SAMPLES: u64 = 8;

/// How much more slowly the window grows while it is not sure, and for how many rounds.
const CAUTIOUS_GROWTH: u64 = 4;
const CAUTIOUS_ROUNDS: u8 = 5;

/// What slow start does with an acknowledgement.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The window grows by that many octets.
    Grow(u64),
    /// Slow start is over.
    End,
}

/// Watches the rounds of slow start.
#[derive(Debug)]
pub(super) struct SlowStart {
    /// Octets delivered at which the round ends.
    round_end: u64,
    last_least: Duration,
    least: Duration,
    samples: u64,
    /// Conservative slow start: the round trip before it, and rounds of it so far.
    cautious: Option<(Duration, u8)>,
}

impl SlowStart {
    pub const fn new() -> Self {
        Self {
            round_end: 0,
            last_least: Duration::MAX,
            least: Duration::MAX,
            samples: 0,
            cautious: None,
        }
    }

    pub fn on_ack(&mut self, sample: &AckSample, mss: u64) -> Step {
        if sample.prior_delivered >= self.round_end {
            self.round_end = sample.delivered;
            (self.last_least, self.least, self.samples) = (self.least, Duration::MAX, 0);
            if let Some((_, rounds)) = &mut self.cautious {
                *rounds += 1;
                if *rounds >= CAUTIOUS_ROUNDS {
                    return Step::End;
                }
            }
        }
        self.least = self.least.min(sample.rtt);
        // An acknowledgement stands for many packets here.
        self.samples += sample.acked.div_ceil(mss.max(1));
        let are_known = self.samples >= SAMPLES && self.last_least != Duration::MAX;
        match self.cautious {
            None if are_known => {
                let growth = part(self.last_least, GROWTH_PART).clamp(LEAST_GROWTH, MOST_GROWTH);
                if self.least >= self.last_least.saturating_add(growth) {
                    self.cautious = Some((self.least, 0));
                }
            }
            // The growth was none: back to slow start.
            Some((before, _)) if are_known && self.least < before => self.cautious = None,
            _ => {}
        }
        let part = if self.cautious.is_some() { CAUTIOUS_GROWTH } else { 1 };
        Step::Grow(sample.acked / part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Instant;

    /// A round of ten packets, each acknowledged by itself.
    fn round(slow_start: &mut SlowStart, delivered: &mut u64, rtt_ms: u64) -> Vec<Step> {
        let prior_delivered = *delivered;
        let ack = |number: u64| {
            *delivered += 1000;
            slow_start.on_ack(
                &AckSample {
                    now: Instant::from_nanos(number),
                    acked: 1000,
                    prior_in_flight: 10_000,
                    in_flight: 10_000,
                    delivered: *delivered,
                    prior_delivered,
                    rate: None,
                    app_limited: false,
                    rtt: Duration::from_millis(rtt_ms),
                    smoothed: Duration::from_millis(rtt_ms),
                    sent: Instant::from_nanos(number),
                    marked: false,
                },
                1000,
            )
        };
        (0..10).map(ack).collect()
    }

    #[test]
    fn it_ends_five_rounds_after_the_round_trip_has_grown() {
        let (mut slow_start, mut delivered) = (SlowStart::new(), 0);
        for _ in 0..4 {
            assert_eq!(round(&mut slow_start, &mut delivered, 40), [Step::Grow(1000); 10]);
        }
        // An eighth of 40 ms is 5 ms; eight packets have to say so.
        let grown = round(&mut slow_start, &mut delivered, 45);
        assert_eq!(grown[..7], [Step::Grow(1000); 7]);
        assert_eq!(grown[7..], [Step::Grow(250); 3]);
        for _ in 0..4 {
            assert_eq!(round(&mut slow_start, &mut delivered, 46), [Step::Grow(250); 10]);
        }
        assert_eq!(round(&mut slow_start, &mut delivered, 46)[0], Step::End);
    }

    #[test]
    fn it_goes_on_when_the_round_trip_was_only_late_once() {
        let (mut slow_start, mut delivered) = (SlowStart::new(), 0);
        round(&mut slow_start, &mut delivered, 40);
        round(&mut slow_start, &mut delivered, 60);
        assert_eq!(round(&mut slow_start, &mut delivered, 41)[9], Step::Grow(1000));
        for _ in 0..20 {
            assert_eq!(round(&mut slow_start, &mut delivered, 41), [Step::Grow(1000); 10]);
        }
    }
}
