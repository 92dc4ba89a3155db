//! BBR, version 3 (draft-ietf-ccwg-bbr): a model of the path's bandwidth and round trip, and limits that losses teach.

use super::congestion::{AckSample, FIRST_WINDOW_PACKETS, LEAST_WINDOW_PACKETS, LossSample, rate};
use super::rtt::ACK_PAUSE;
use crate::node::Instant;
use core::time::Duration;

/// What the hosts add to the round trip of an acknowledgement by their own doing: it waits for further packets, and wake-ups are few.
const HOST_TIME: Duration = Duration::from_nanos(2 * ACK_PAUSE.as_nanos() as u64);

/// Gains are in hundredths. 2.77 = 4 ln 2 doubles the rate each round trip.
const STARTUP_PACING: u64 = 277;
const DRAIN_PACING: u64 = 50;
const UP_PACING: u64 = 125;
const DOWN_PACING: u64 = 90;
const CRUISE_PACING: u64 = 100;
const WINDOW_GAIN: u64 = 200;
const UP_WINDOW_GAIN: u64 = 225;
/// The pacing rate stays this far below the model, so that a queue can drain.
const PACING_MARGIN: u64 = 99;
/// Percent of loss in a round above which a level is too high.
const LOSS_PERCENT: u64 = 2;
/// What is kept of a level that was too high, percent.
const BETA: u64 = 70;
/// What is left free below the known limit while cruising, percent of it.
const HEADROOM: u64 = 15;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// The longest time between two probes for bandwidth.
const PROBE_BW_TIME: Duration = Duration::from_millis(2500);
/// Rounds after which a probe comes even so: as fast as Reno would be back on a path of 63 packets.
const PROBE_BW_ROUNDS: u64 = 63;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

#[derive(Debug)]
pub(super) struct Bbr {
    mss: u64,
    state: State,
    window: u64,
    /// The highest rate of the last cycle and of this one.
    bandwidths: [u64; 2],
    bandwidth_low: u64,
    inflight_high: u64,
    inflight_low: u64,
    min_rtt: Duration,
    min_rtt_at: Instant,
    probe_rtt_min: Duration,
    probe_rtt_min_at: Instant,
    probe_rtt_done: Option<Instant>,
    /// The window before ProbeRTT.
    prior_window: u64,
    /// A round ends when what was sent after this many octets had been delivered is acknowledged.
    round_end: u64,
    rounds: u64,
    rounds_at_phase: u64,
    phase_start: Instant,
    full_bandwidth: u64,
    full_rounds: u8,
    full_reached: bool,
    /// Octets lost and delivered in this round.
    round_lost: u64,
    round_delivered: u64,
    /// The highest rate that was measured in the round.
    round_bandwidth: u64,
    loss_events: u32,
    /// The round before had losses enough to end Startup.
    much_lost_before: bool,
    up_round_growth: u64,
    up_acked: u64,
    /// Octets that came beyond what the bandwidth explains: acknowledgements come in bursts.
    extra_acked: [u64; 2],
    extra_start: Option<Instant>,
    extra_octets: u64,
}

impl Bbr {
    pub fn new(mss: u64) -> Self {
        let zero = Instant::ZERO;
        Self {
            mss,
            state: State::Startup,
            window: FIRST_WINDOW_PACKETS * mss,
            bandwidths: [0; 2],
            bandwidth_low: u64::MAX,
            inflight_high: u64::MAX,
            inflight_low: u64::MAX,
            min_rtt: Duration::MAX,
            min_rtt_at: zero,
            probe_rtt_min: Duration::MAX,
            probe_rtt_min_at: zero,
            probe_rtt_done: None,
            prior_window: 0,
            round_end: 0,
            rounds: 0,
            rounds_at_phase: 0,
            phase_start: zero,
            full_bandwidth: 0,
            full_rounds: 0,
            full_reached: false,
            round_lost: 0,
            round_delivered: 0,
            round_bandwidth: 0,
            loss_events: 0,
            much_lost_before: false,
            up_round_growth: 1,
            up_acked: 0,
            extra_acked: [0; 2],
            extra_start: None,
            extra_octets: 0,
        }
    }

    pub const fn window(&self) -> u64 {
        self.window
    }

    fn max_bandwidth(&self) -> u64 {
        let [last, this] = self.bandwidths;
        last.max(this)
    }

    fn bandwidth(&self) -> u64 {
        self.max_bandwidth().min(self.bandwidth_low)
    }

    const fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup => STARTUP_PACING,
            State::Drain => DRAIN_PACING,
            State::Up => UP_PACING,
            State::Down => DOWN_PACING,
            State::Cruise | State::Refill | State::ProbeRtt => CRUISE_PACING,
        }
    }

    pub fn pacing_rate(&self, smoothed: Duration) -> u64 {
        let bandwidth = self.bandwidth();
        if bandwidth == 0 {
            // Nothing measured yet: the first window in a round trip.
            return rate(self.window, smoothed).saturating_mul(STARTUP_PACING) / 100;
        }
        let paced = bandwidth.saturating_mul(self.pacing_gain()) / 100;
        let first = rate(FIRST_WINDOW_PACKETS * self.mss, smoothed);
        let paced = paced.saturating_mul(PACING_MARGIN) / 100;
        if self.full_reached { paced } else { paced.max(first) }
    }

    fn bdp(&self, bandwidth: u64, gain: u64) -> u64 {
        if self.min_rtt == Duration::MAX || bandwidth == 0 {
            return FIRST_WINDOW_PACKETS * self.mss;
        }
        let octets = u128::from(bandwidth) * self.min_rtt.saturating_add(HOST_TIME).as_nanos()
            / 1_000_000_000;
        (octets * u128::from(gain) / 100).min(u128::from(u64::MAX / 4)) as u64
    }

    fn target_inflight(&self) -> u64 {
        self.bdp(self.bandwidth(), 100).max(LEAST_WINDOW_PACKETS * self.mss)
    }

    pub fn on_sent(&mut self, now: Instant, in_flight: u64) {
        if in_flight == 0 && self.full_reached && self.state == State::ProbeRtt {
            // An idle path has no queue: the round trip has been probed already.
            self.check_probe_rtt_done(now);
        }
    }

    fn new_phase(&mut self, state: State, now: Instant) {
        self.state = state;
        self.phase_start = now;
        self.rounds_at_phase = self.rounds;
    }

    pub fn on_ack(&mut self, sample: &AckSample) {
        let round_start = sample.prior_delivered >= self.round_end;
        self.round_delivered += sample.acked;
        self.round_bandwidth = self.round_bandwidth.max(sample.rate.unwrap_or(0));
        if round_start {
            self.round_end = sample.delivered;
            self.rounds += 1;
        }
        if let Some(rate) = sample.rate
            && (!sample.app_limited || rate >= self.max_bandwidth())
        {
            let [_, this] = &mut self.bandwidths;
            *this = (*this).max(rate);
        }
        self.update_extra_acked(sample);
        if round_start {
            self.end_round(sample);
        }
        self.check_startup(sample, round_start);
        if self.state == State::Drain && sample.in_flight <= self.target_inflight() {
            self.start_down(sample.now);
        }
        self.update_probe_bw(sample, round_start);
        self.update_min_rtt(sample);
        self.set_window(sample);
    }

    fn update_extra_acked(&mut self, sample: &AckSample) {
        let start = *self.extra_start.get_or_insert(sample.now);
        let elapsed = sample.now.since(start);
        let nanoseconds = elapsed.as_nanos().min(u128::from(u64::MAX));
        let expected = (u128::from(self.bandwidth()) * nanoseconds / 1_000_000_000) as u64;
        if self.extra_octets <= expected {
            self.extra_start = Some(sample.now);
            self.extra_octets = sample.acked;
            return;
        }
        self.extra_octets += sample.acked;
        let extra = self.extra_octets.saturating_sub(expected).min(self.window);
        let [_, this] = &mut self.extra_acked;
        *this = (*this).max(extra);
    }

    /// What the round's losses teach (the draft's BBRUpdateLatestDeliverySignals and BBRAdaptLowerBounds).
    fn end_round(&mut self, sample: &AckSample) {
        let (lost, delivered) = (self.round_lost, self.round_delivered);
        let too_high = lost * 100 > (lost + delivered) * LOSS_PERCENT;
        if lost > 0 && !matches!(self.state, State::Startup | State::Refill | State::Up) {
            // Losses while not probing: keep below, for this cycle only.
            let low = if self.bandwidth_low == u64::MAX {
                self.max_bandwidth()
            } else {
                self.bandwidth_low
            };
            let latest = self.round_bandwidth;
            if too_high {
                self.bandwidth_low = latest.max(low.saturating_mul(BETA) / 100);
                let low = self.inflight_low.min(self.window);
                self.inflight_low = delivered.max(low.saturating_mul(BETA) / 100);
            }
        }
        if too_high && self.state == State::Up {
            self.inflight_high =
                self.inflight_high.min(self.high_after_loss(sample.prior_in_flight));
            self.start_down(sample.now);
        }
        // In two rounds one after the other: a single one may have had bad luck.
        let much = too_high && self.loss_events >= 6;
        if much && self.much_lost_before && self.state == State::Startup {
            self.full_reached = true;
            self.inflight_high = self.high_after_loss(delivered);
        }
        self.much_lost_before = much;
        (self.round_lost, self.round_delivered, self.round_bandwidth, self.loss_events) =
            (0, 0, 0, 0);
        if self.state == State::Up {
            self.up_round_growth = (self.up_round_growth * 2).min(1 << 20);
        }
    }

    /// What is known to be too much, after losses. Not so little that with the headroom less than what the path has carried would be on its way: the
    /// draft goes lower, and then a path that loses 1 % at random is used by four fifths.
    fn high_after_loss(&self, in_flight: u64) -> u64 {
        in_flight.max(self.target_inflight().saturating_mul(100) / (100 - HEADROOM))
    }

    fn check_startup(&mut self, sample: &AckSample, round_start: bool) {
        if self.state != State::Startup {
            return;
        }
        if !self.full_reached && round_start && !sample.app_limited {
            let bandwidth = self.max_bandwidth();
            if bandwidth >= self.full_bandwidth.saturating_mul(125) / 100 {
                self.full_bandwidth = bandwidth;
                self.full_rounds = 0;
            } else {
                self.full_rounds += 1;
                self.full_reached = self.full_rounds >= 3;
            }
        }
        if self.full_reached {
            self.new_phase(State::Drain, sample.now);
        }
    }

    fn start_down(&mut self, now: Instant) {
        self.new_phase(State::Down, now);
        self.up_round_growth = 1;
        // A new cycle: what was measured two cycles ago no longer counts.
        let [_, this] = self.bandwidths;
        if this > 0 {
            self.bandwidths = [this, 0];
        }
        let [_, extra] = self.extra_acked;
        self.extra_acked = [extra, 0];
    }

    fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_high == u64::MAX {
            return u64::MAX;
        }
        let headroom = (self.inflight_high / 100 * HEADROOM).max(self.mss);
        self.inflight_high.saturating_sub(headroom).max(LEAST_WINDOW_PACKETS * self.mss)
    }

    fn update_probe_bw(&mut self, sample: &AckSample, round_start: bool) {
        let now = sample.now;
        let in_phase = now.since(self.phase_start);
        match self.state {
            State::Down => {
                if self.probe_is_due(in_phase) {
                    self.start_refill(now);
                } else if sample.in_flight
                    <= self.inflight_with_headroom().min(self.target_inflight())
                {
                    self.state = State::Cruise;
                }
            }
            State::Cruise if self.probe_is_due(in_phase) => self.start_refill(now),
            State::Refill if round_start && self.rounds > self.rounds_at_phase + 1 => {
                self.new_phase(State::Up, now);
                self.up_acked = 0;
            }
            State::Up => {
                self.raise_high(sample);
                let probed = in_phase > self.min_rtt
                    && sample.in_flight >= self.bdp(self.max_bandwidth(), UP_PACING);
                if probed && self.rounds > self.rounds_at_phase {
                    self.start_down(now);
                }
            }
            _ => {}
        }
    }

    fn probe_is_due(&self, in_phase: Duration) -> bool {
        let rounds = (self.target_inflight() / self.mss.max(1)).min(PROBE_BW_ROUNDS);
        in_phase > PROBE_BW_TIME || self.rounds - self.rounds_at_phase >= rounds.max(4)
    }

    fn start_refill(&mut self, now: Instant) {
        self.bandwidth_low = u64::MAX;
        self.inflight_low = u64::MAX;
        self.new_phase(State::Refill, now);
    }

    fn raise_high(&mut self, sample: &AckSample) {
        if self.inflight_high == u64::MAX || sample.prior_in_flight + 2 * self.mss < self.window {
            return;
        }
        self.up_acked += sample.acked;
        let step = (self.window / self.up_round_growth.max(1)).max(self.mss);
        while self.up_acked >= step {
            self.up_acked -= step;
            self.inflight_high += self.mss;
        }
    }

    fn update_min_rtt(&mut self, sample: &AckSample) {
        let now = sample.now;
        let expired = now.since(self.probe_rtt_min_at) > PROBE_RTT_INTERVAL;
        if sample.rtt < self.probe_rtt_min || expired {
            self.probe_rtt_min = sample.rtt;
            self.probe_rtt_min_at = now;
        } else if sample.rtt <= self.probe_rtt_min.saturating_add(HOST_TIME) {
            // No queue but what the hosts add: nothing has to be drained to see that.
            self.probe_rtt_min_at = now;
        }
        if self.probe_rtt_min < self.min_rtt || now.since(self.min_rtt_at) > MIN_RTT_WINDOW {
            self.min_rtt = self.probe_rtt_min;
            self.min_rtt_at = self.probe_rtt_min_at;
        }
        if expired && self.full_reached && self.state != State::ProbeRtt && !sample.app_limited {
            self.prior_window = self.window;
            self.new_phase(State::ProbeRtt, now);
            self.probe_rtt_done = None;
        }
        if self.state == State::ProbeRtt {
            if self.probe_rtt_done.is_none() && sample.in_flight <= self.probe_rtt_window() {
                self.probe_rtt_done = Some(now.after(PROBE_RTT_TIME.max(self.min_rtt)));
            }
            self.check_probe_rtt_done(now);
        }
    }

    fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_done.is_some_and(|done| now >= done) {
            self.probe_rtt_done = None;
            self.probe_rtt_min_at = now;
            self.window = self.window.max(self.prior_window);
            self.bandwidth_low = u64::MAX;
            self.inflight_low = u64::MAX;
            self.start_down(now);
            self.state = State::Cruise;
        }
    }

    fn probe_rtt_window(&self) -> u64 {
        self.bdp(self.bandwidth(), 50).max(LEAST_WINDOW_PACKETS * self.mss)
    }

    fn set_window(&mut self, sample: &AckSample) {
        let gain = match self.state {
            State::Up => UP_WINDOW_GAIN,
            State::Startup => STARTUP_PACING.max(WINDOW_GAIN),
            _ => WINDOW_GAIN,
        };
        let [a, b] = self.extra_acked;
        // A burst of packets goes out at once, and the end of a round must not wait for the next one.
        let quantum = 3 * (10 * self.mss);
        let most =
            self.bdp(self.bandwidth(), gain).saturating_add(a.max(b)).saturating_add(quantum);
        if self.full_reached {
            self.window = self.window.saturating_add(sample.acked).min(most);
        } else if self.window < most || sample.delivered < FIRST_WINDOW_PACKETS * self.mss {
            self.window = self.window.saturating_add(sample.acked);
        }
        let cap = match self.state {
            State::ProbeRtt => self.probe_rtt_window(),
            State::Cruise => self.inflight_with_headroom().min(self.inflight_low),
            State::Up | State::Refill => self.inflight_high,
            State::Down => self.inflight_high.min(self.inflight_low),
            State::Startup | State::Drain => u64::MAX,
        };
        self.window = self.window.min(cap).max(LEAST_WINDOW_PACKETS * self.mss);
    }

    pub fn on_loss(&mut self, sample: &LossSample) {
        self.round_lost += sample.lost;
        self.loss_events += 1;
        // Far too much in one round: a probe need not go on to the round's end.
        let all = self.round_lost + self.round_delivered;
        let too_high = self.round_lost * 100 > all * LOSS_PERCENT && self.loss_events >= 6;
        if too_high && self.state == State::Up {
            self.inflight_high = self.high_after_loss(sample.in_flight + sample.lost);
            self.start_down(sample.now);
        }
    }

    pub fn on_outage(&mut self) {
        let least = FIRST_WINDOW_PACKETS * self.mss;
        self.window = (self.window / 2).max(least);
        self.inflight_low = u64::MAX;
        self.bandwidth_low = u64::MAX;
        self.extra_start = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A bottleneck of 1.25 MB/s with a round trip of 50 ms, which loses one packet in `lose`.
    fn run(lose: u64, seconds: u64) -> (u64, Duration) {
        let (mss, bandwidth, rtt) = (1000u64, 1_250_000u64, 50_000_000u64);
        let mut bbr = Bbr::new(mss);
        let mut flying: VecDeque<(u64, u64, u64, bool)> = VecDeque::new();
        let (mut now, mut next_send, mut free_at, mut delivered) = (0u64, 0u64, 0u64, 0u64);
        let (mut sent, mut last_half, mut in_flight, mut queue) = (0u64, 0u64, 0u64, 0u64);
        while now < seconds * 1_000_000_000 {
            let can_send = in_flight + mss <= bbr.window();
            let arrival = flying.front().map(|packet| packet.0);
            if can_send
                && next_send <= arrival.unwrap_or(u64::MAX).max(now)
                && next_send.max(now) <= arrival.unwrap_or(u64::MAX)
            {
                now = now.max(next_send);
                sent += 1;
                free_at = free_at.max(now) + mss * 1_000_000_000 / bandwidth;
                queue = queue.max(free_at - now);
                flying.push_back((
                    free_at + rtt,
                    now,
                    delivered,
                    lose != 0 && sent.is_multiple_of(lose),
                ));
                in_flight += mss;
                next_send =
                    now + mss * 1_000_000_000 / bbr.pacing_rate(Duration::from_nanos(rtt)).max(1);
                continue;
            }
            let (at, sent_at, prior, lost) = flying.pop_front().unwrap();
            now = now.max(at);
            let at = Instant::from_nanos(now);
            in_flight -= mss;
            if lost {
                bbr.on_loss(&LossSample {
                    now: at,
                    lost: mss,
                    sent: Instant::from_nanos(sent_at),
                    in_flight,
                });
                continue;
            }
            delivered += mss;
            if now > seconds * 500_000_000 {
                last_half += mss;
            }
            let took = Duration::from_nanos(now - sent_at);
            bbr.on_ack(&AckSample {
                now: at,
                acked: mss,
                prior_in_flight: in_flight + mss,
                in_flight,
                delivered,
                prior_delivered: prior,
                rate: Some(rate(delivered - prior, took)),
                app_limited: false,
                rtt: took,
                smoothed: took,
                sent: Instant::from_nanos(sent_at),
                marked: false,
            });
        }
        (last_half * 2 / seconds, Duration::from_nanos(queue))
    }

    #[test]
    fn the_bottleneck_is_used_with_and_without_loss() {
        let (clean, queue) = run(0, 20);
        assert!(clean > 1_250_000 * 85 / 100, "{clean} octets/s");
        assert!(queue < Duration::from_millis(200), "{queue:?}");
        let (lossy, _) = run(100, 20);
        assert!(lossy > 1_250_000 * 80 / 100, "{lossy} octets/s at 1 % loss");
    }
}
