//! One path of a flow: an address of each end, what is known of the way between them, and whether the peer has proven to be there.

use super::LEAST_INITIAL_OCTETS;
use super::congestion::{AckSample, Congestion, Controller, rate};
use super::recovery::Sent;
use super::rtt::Rtt;
use crate::node::Instant;
use core::time::Duration;

/// The two ends of a path as the endpoint's user numbers and writes them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathAddress {
    /// Which of the own sockets or ports it is: a number of the caller's.
    pub local: u16,
    /// The peer's port.
    pub port: u16,
    /// The peer's address; one of IPv4 is mapped into IPv6.
    pub ip: [u8; 16],
}

/// Octets that may go to an address that has not been proven, for each one received.
const AMPLIFICATION: u64 = 3;

/// Packets that may go out at once.
const BURST_PACKETS: u64 = 10;

/// The least time that pacing lets a burst last: hosts cannot wake up more often.
const BURST_TIME: Duration = Duration::from_millis(1);

/// What of the time before that was not used may be made up for.
const CATCH_UP: Duration = Duration::from_millis(2);

/// Challenges without an answer after which a path is given up.
pub(super) const MAX_CHALLENGES: u8 = 4;

/// Full packets lost in a row, while that many smaller ones came, that show that the path does not take them. Random loss does not do that.
const BLACK_HOLE: (u8, u8) = (6, 3);

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// No path stands here.
    None,
    /// The peer's address is not proven.
    Candidate,
    Proven,
}

#[derive(Debug)]
pub(super) struct Path {
    pub address: PathAddress,
    pub proof: Proof,
    /// The challenge that is outstanding.
    pub challenge: Option<[u8; 8]>,
    pub challenge_due: bool,
    pub challenged: Instant,
    pub challenges: u8,
    /// The peer's challenge that is to be answered.
    pub response: Option<[u8; 8]>,
    received: u64,
    sent: u64,
    pub rtt: Rtt,
    pub controller: Controller,
    pub in_flight: u64,
    /// When the next packet may go, but for the burst.
    next_send: Instant,
    /// Octets of the largest datagram that goes this way.
    pub datagram: u16,
    large_lost: u8,
    small_acked: u8,
    pub used: Instant,
    pub delivered: u64,
    pub delivered_time: Instant,
    first_sent: Instant,
    /// Octets delivered by when the application's lack of data no longer shows.
    app_limited_until: u64,
    pub congestion_marks: u64,
}

impl Path {
    pub fn new(
        address: PathAddress,
        proof: Proof,
        congestion: Congestion,
        datagram: u16,
        now: Instant,
    ) -> Self {
        Self {
            address,
            proof,
            challenge: None,
            challenge_due: false,
            challenged: now,
            challenges: 0,
            response: None,
            received: 0,
            sent: 0,
            rtt: Rtt::new(),
            controller: Controller::new(congestion, datagram.into()),
            in_flight: 0,
            next_send: now,
            datagram,
            large_lost: 0,
            small_acked: 0,
            used: now,
            delivered: 0,
            delivered_time: now,
            first_sent: now,
            app_limited_until: 0,
            congestion_marks: 0,
        }
    }

    /// Takes a round trip in. What was sent before the first was paced by a guess, and need not hold up what comes now.
    pub fn measure(&mut self, now: Instant, sample: Duration, delay: Duration) {
        if !self.rtt.is_measured() {
            self.next_send = self.next_send.min(now);
        }
        self.rtt.update(sample, delay);
    }

    pub fn is_used(&self) -> bool {
        self.proof != Proof::None
    }

    pub fn on_received(&mut self, octets: usize) {
        self.received = self.received.saturating_add(octets as u64);
    }

    /// Octets that may still go to the address.
    pub fn allowance(&self) -> u64 {
        if self.proof == Proof::Proven {
            return u64::MAX;
        }
        // A small first packet counts as one of the least size: else its sender could not be challenged at all.
        let received = self.received.max(LEAST_INITIAL_OCTETS as u64);
        (received * AMPLIFICATION).saturating_sub(self.sent)
    }

    /// When the next paced packet may go.
    pub fn paced_until(&self) -> Instant {
        let rate = self.controller.pacing_rate(self.rtt.smoothed).max(1);
        let burst = BURST_PACKETS * u64::from(self.datagram);
        let time = Duration::from_nanos(burst.saturating_mul(1_000_000_000) / rate).max(BURST_TIME);
        Instant::from_nanos(self.next_send.as_nanos().saturating_sub(time.as_nanos() as u64))
    }

    /// When to wake up for packets that wait for the pacer: some go at once then, for hosts wake up at a cost.
    pub fn paced_wake(&self) -> Instant {
        self.paced_until().after(BURST_TIME / 2)
    }

    pub fn window_is_open(&self) -> bool {
        self.in_flight + u64::from(self.datagram) / 2 < self.controller.window()
    }

    /// Notes a packet that goes out, and writes into it what the rate will be measured by.
    pub fn on_sent(&mut self, sent: &mut Sent, eliciting: bool, app_limited: bool) {
        let octets = u64::from(sent.octets);
        self.sent = self.sent.saturating_add(octets);
        self.used = sent.time;
        if !eliciting {
            return;
        }
        self.controller.on_sent(sent.time, self.in_flight);
        if self.in_flight == 0 {
            self.first_sent = sent.time;
            self.delivered_time = sent.time;
        }
        self.in_flight += octets;
        if app_limited {
            self.app_limited_until = self.delivered + self.in_flight;
        }
        sent.delivered = self.delivered;
        sent.delivered_time = self.delivered_time;
        sent.first_sent = self.first_sent;
        sent.app_limited = self.app_limited_until > self.delivered;
        let rate = self.controller.pacing_rate(self.rtt.smoothed).max(1);
        let time = Duration::from_nanos(octets.saturating_mul(1_000_000_000) / rate);
        // Who wakes up late makes up for it, or a rate that was measured would never be reached again.
        let earliest = sent.time.as_nanos().saturating_sub(CATCH_UP.as_nanos() as u64);
        let start = self.next_send.max(Instant::from_nanos(earliest));
        self.next_send = start.after(time);
    }

    /// Counts a packet that came.
    pub fn on_acked(&mut self, sent: &Sent, late: bool, now: Instant) {
        if !late {
            self.in_flight = self.in_flight.saturating_sub(sent.octets.into());
        }
        self.delivered += u64::from(sent.octets);
        self.delivered_time = now;
        if sent.octets >= self.datagram {
            (self.large_lost, self.small_acked) = (0, 0);
        } else if self.large_lost > 0 {
            self.small_acked = self.small_acked.saturating_add(1);
        }
    }

    /// The sample of an acknowledgement of which `newest` is the newest packet.
    pub fn sample(
        &mut self,
        newest: &Sent,
        now: Instant,
        acked: u64,
        prior_in_flight: u64,
        marked: bool,
    ) -> AckSample {
        self.first_sent = newest.time;
        let sending = newest.time.since(newest.first_sent);
        let arriving = self.delivered_time.since(newest.delivered_time);
        let time = sending.max(arriving);
        // Faster than the round trip can be is no rate but chance (delivery rate estimation, 3.3).
        let measured = !time.is_zero() && time >= self.rtt.least;
        let delivered = self.delivered - newest.delivered;
        AckSample {
            now,
            acked,
            prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivered,
            prior_delivered: newest.delivered,
            rate: measured.then(|| rate(delivered, time)),
            app_limited: newest.app_limited,
            rtt: self.rtt.latest,
            smoothed: self.rtt.smoothed,
            sent: newest.time,
            marked,
        }
    }

    /// Takes a packet off that was given up without a sign of congestion.
    pub fn on_given_up(&mut self, sent: &Sent) {
        self.in_flight = self.in_flight.saturating_sub(sent.octets.into());
    }

    /// Counts a packet that was lost. Gives true when the path turns out not to take large datagrams.
    pub fn on_lost(&mut self, sent: &Sent) -> bool {
        self.in_flight = self.in_flight.saturating_sub(sent.octets.into());
        if usize::from(sent.octets) > LEAST_INITIAL_OCTETS && sent.octets >= self.datagram {
            self.large_lost = self.large_lost.saturating_add(1);
        }
        let (lost, acked) = BLACK_HOLE;
        let hole = self.large_lost >= lost && self.small_acked >= acked;
        if hole {
            self.datagram = LEAST_INITIAL_OCTETS as u16;
            (self.large_lost, self.small_acked) = (0, 0);
        }
        hole
    }
}
