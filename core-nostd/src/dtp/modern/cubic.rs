//! CUBIC (RFC 9438), with beta 0.7 and C 0.4 segments a cubic second, and HyStart++ (RFC 9406) for its first slow start.

use super::congestion::{AckSample, FIRST_WINDOW_PACKETS, LEAST_WINDOW_PACKETS, rate};
use super::slow_start::{SlowStart, Step};
use crate::node::Instant;
use core::time::Duration;

#[derive(Debug)]
pub(super) struct Cubic {
    mss: u64,
    window: u64,
    threshold: u64,
    slow_start: SlowStart,
    /// The window at the last reduction, in octets.
    max: u64,
    /// When the present epoch of congestion avoidance began.
    epoch: Option<Instant>,
    /// Milliseconds from the epoch to the plateau.
    k_ms: u64,
    /// What Reno would have by now.
    reno: u64,
    /// Octets acknowledged that have not made up a step of `reno` or `window` yet.
    reno_rest: u64,
    rest: u64,
    /// Nothing sent before this tells of new congestion.
    recovery: Option<Instant>,
}

/// The cube root, rounded down.
fn cube_root(number: u128) -> u128 {
    let mut low = 0u128;
    let mut high = 1u128 << 42;
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle * middle <= number { low = middle } else { high = middle - 1 }
    }
    low
}

impl Cubic {
    pub fn new(mss: u64) -> Self {
        let window = FIRST_WINDOW_PACKETS * mss;
        Self {
            mss,
            window,
            threshold: u64::MAX,
            slow_start: SlowStart::new(),
            max: window,
            epoch: None,
            k_ms: 0,
            reno: window,
            reno_rest: 0,
            rest: 0,
            recovery: None,
        }
    }

    pub const fn window(&self) -> u64 {
        self.window
    }

    pub fn pacing_rate(&self, smoothed: Duration) -> u64 {
        let rate = rate(self.window, smoothed);
        if self.window < self.threshold { rate.saturating_mul(2) } else { rate / 4 * 5 }
    }

    /// W_cubic after that many milliseconds (RFC 9438, figure 1).
    fn target(&self, ms: u64) -> u64 {
        let from_plateau = (ms.min(1 << 30) as i128) - (self.k_ms as i128);
        // 0.4 segments a cubic second: 4/10 of the segment over 10^9 cubic milliseconds.
        let grown = from_plateau.pow(3) * i128::from(self.mss) * 4 / 10_000_000_000;
        (i128::from(self.max) + grown).clamp(0, i128::from(u64::MAX / 2)) as u64
    }

    pub fn on_ack(&mut self, sample: &AckSample) {
        if sample.marked {
            self.on_congestion(sample.now, sample.sent);
            return;
        }
        if self.recovery.is_some_and(|start| sample.sent <= start) {
            return;
        }
        // A window that was not used says nothing about the path (RFC 9438, 5.8).
        if sample.prior_in_flight + sample.acked / 2 < self.window / 2 {
            return;
        }
        if self.window < self.threshold {
            // Later slow starts know their threshold (RFC 9406, section 4.3).
            let step = match self.threshold {
                u64::MAX => self.slow_start.on_ack(sample, self.mss),
                _ => Step::Grow(sample.acked),
            };
            match step {
                Step::Grow(octets) => {
                    self.window = self.window.saturating_add(octets).min(self.threshold);
                }
                Step::End => {
                    self.threshold = self.window;
                    self.max = self.window;
                }
            }
            return;
        }
        let epoch = *self.epoch.get_or_insert_with(|| {
            let below = u128::from(self.max.saturating_sub(self.window));
            // K = cbrt((W_max - cwnd) / C) seconds, here in milliseconds.
            let cubed = below * 10_000_000_000 / (4 * u128::from(self.mss.max(1)));
            self.k_ms = cube_root(cubed) as u64;
            self.max = self.max.max(self.window);
            self.reno = self.window;
            sample.now
        });
        // Reno's estimate grows by alpha = 3 (1 - 0.7) / (1 + 0.7) = 9/17 segments a window, by one once it has passed the last maximum.
        let (numerator, denominator) = if self.reno < self.max { (9, 17) } else { (1, 1) };
        self.reno_rest += sample.acked * numerator;
        let step = self.window * denominator;
        while self.reno_rest >= step {
            self.reno_rest -= step;
            self.reno += self.mss;
        }
        let elapsed = sample.now.since(epoch).saturating_add(sample.smoothed);
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let target = self.target(elapsed).min(self.window / 2 * 3).max(self.window);
        // (target - cwnd) / cwnd segments for each one acknowledged.
        self.rest += sample.acked.saturating_mul(target - self.window) / self.window.max(1);
        self.window += core::mem::take(&mut self.rest);
        self.window = self.window.max(self.reno);
    }

    pub fn on_congestion(&mut self, now: Instant, sent: Instant) {
        if self.recovery.is_some_and(|start| sent <= start) {
            return;
        }
        self.recovery = Some(now);
        self.epoch = None;
        // Fast convergence: who is asked again before it was back leaves more to others (RFC 9438, 4.7).
        self.max = if self.window < self.max { self.window / 20 * 17 } else { self.window };
        self.window = (self.window / 10 * 7).max(LEAST_WINDOW_PACKETS * self.mss);
        self.threshold = self.window;
        self.reno = self.window;
        (self.rest, self.reno_rest) = (0, 0);
    }

    pub fn on_outage(&mut self) {
        let least = FIRST_WINDOW_PACKETS * self.mss;
        self.threshold = self.window.max(least);
        self.window = (self.window / 2).max(least);
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(now_ms: u64, acked: u64, in_flight: u64) -> AckSample {
        let now = Instant::from_nanos(now_ms * 1_000_000);
        AckSample {
            now,
            acked,
            prior_in_flight: in_flight,
            in_flight,
            delivered: 0,
            prior_delivered: 0,
            rate: None,
            app_limited: false,
            rtt: Duration::from_millis(100),
            smoothed: Duration::from_millis(100),
            sent: now,
            marked: false,
        }
    }

    #[test]
    fn cube_roots() {
        for number in [0, 1, 7, 8, 9, 26, 27, 1 << 60, (1 << 60) - 1, 10u128.pow(27)] {
            let root = cube_root(number);
            assert!(root.pow(3) <= number && number < (root + 1).pow(3), "{number}");
        }
    }

    #[test]
    fn the_window_comes_back_to_where_it_was_after_k() {
        let mut cubic = Cubic::new(1000);
        while cubic.window < 100_000 {
            cubic.on_ack(&sample(0, 1000, cubic.window));
        }
        cubic.on_congestion(Instant::from_nanos(1), Instant::from_nanos(1));
        assert_eq!(cubic.window, 70_000);
        // K = cbrt(100 * 0.3 / 0.4) = 4.217 s.
        let mut at = Vec::new();
        for ms in (1..8000).step_by(10) {
            cubic.on_ack(&sample(ms, cubic.window / 10, cubic.window));
            at.push((ms, cubic.window));
        }
        let near = |ms: u64| at.iter().find(|(at, _)| *at >= ms).unwrap().1;
        assert!((97_000..103_000).contains(&near(4217)), "{}", near(4217));
        assert!(near(2000) > 90_000 && near(2000) < 99_000, "concave: {}", near(2000));
        assert!(near(7900) > 110_000, "convex beyond the plateau");
    }

    #[test]
    fn one_reduction_a_round_trip_and_none_of_an_idle_window() {
        let mut cubic = Cubic::new(1000);
        cubic.on_ack(&sample(0, 1000, 0));
        assert_eq!(cubic.window, 10_000, "not used, not raised");
        cubic.on_congestion(Instant::from_nanos(100), Instant::from_nanos(50));
        cubic.on_congestion(Instant::from_nanos(110), Instant::from_nanos(90));
        assert_eq!(cubic.window, 7000);
        cubic.on_congestion(Instant::from_nanos(300), Instant::from_nanos(200));
        assert_eq!(cubic.window, 4900);
        cubic.on_congestion(Instant::from_nanos(500), Instant::from_nanos(400));
        assert_eq!(cubic.window, 4000, "never below four packets");
    }
}
