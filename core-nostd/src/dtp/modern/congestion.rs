//! How much may be on its way over a path, and how fast.

use super::bbr::Bbr;
use super::cubic::Cubic;
use crate::node::Instant;
use core::time::Duration;

/// Packets that a path begins with.
pub(super) const FIRST_WINDOW_PACKETS: u64 = 10;

/// Packets that a path has at least.
pub(super) const LEAST_WINDOW_PACKETS: u64 = 4;

/// Which control of congestion an end uses. Both ends choose for themselves.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// What an acknowledgement says about a path.
#[derive(Copy, Clone, Debug)]
pub(super) struct AckSample {
    pub now: Instant,
    /// Octets that were newly acknowledged.
    pub acked: u64,
    /// Octets on their way before the acknowledgement.
    pub prior_in_flight: u64,
    /// Octets on their way now.
    pub in_flight: u64,
    /// Octets delivered on the path since its beginning.
    pub delivered: u64,
    /// Octets that were delivered when the newest packet that is acknowledged was sent.
    pub prior_delivered: u64,
    /// Octets a second, if there was enough to measure.
    pub rate: Option<u64>,
    /// The rate was limited by what the application gave.
    pub app_limited: bool,
    pub rtt: Duration,
    pub smoothed: Duration,
    /// When the newest packet that is acknowledged was sent.
    pub sent: Instant,
    /// Packets came with the mark of congestion.
    pub marked: bool,
}

/// What a loss says about a path.
#[derive(Copy, Clone, Debug)]
pub(super) struct LossSample {
    pub now: Instant,
    pub lost: u64,
    /// When the newest packet that is lost was sent.
    pub sent: Instant,
    pub in_flight: u64,
}

#[derive(Debug)]
pub(super) enum Controller {
    Cubic(Cubic),
    Bbr(Bbr),
}

impl Controller {
    pub fn new(kind: Congestion, mss: u64) -> Self {
        match kind {
            Congestion::Cubic => Self::Cubic(Cubic::new(mss)),
            Congestion::Bbr => Self::Bbr(Bbr::new(mss)),
        }
    }

    pub fn window(&self) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.window(),
            Self::Bbr(bbr) => bbr.window(),
        }
    }

    /// Octets a second.
    pub fn pacing_rate(&self, smoothed: Duration) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.pacing_rate(smoothed),
            Self::Bbr(bbr) => bbr.pacing_rate(smoothed),
        }
    }

    pub fn on_sent(&mut self, now: Instant, in_flight: u64) {
        if let Self::Bbr(bbr) = self {
            bbr.on_sent(now, in_flight);
        }
    }

    pub fn on_ack(&mut self, sample: &AckSample) {
        match self {
            Self::Cubic(cubic) => cubic.on_ack(sample),
            Self::Bbr(bbr) => bbr.on_ack(sample),
        }
    }

    pub fn on_loss(&mut self, sample: &LossSample) {
        match self {
            Self::Cubic(cubic) => cubic.on_congestion(sample.now, sample.sent),
            Self::Bbr(bbr) => bbr.on_loss(sample),
        }
    }

    /// The path was silent for that long and answers again.
    pub fn on_outage(&mut self, outage: Duration, smoothed: Duration) {
        if outage > smoothed.saturating_mul(10) {
            match self {
                Self::Cubic(cubic) => cubic.on_outage(),
                Self::Bbr(bbr) => bbr.on_outage(),
            }
        }
    }
}

/// Octets a second that send `window` octets in `time`.
pub(super) fn rate(octets: u64, time: Duration) -> u64 {
    let nanoseconds = time.as_nanos().max(1);
    u64::try_from(u128::from(octets) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}
