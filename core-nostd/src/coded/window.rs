//! Which GEN_IDs of a session are believable.
//!
//! The paper lets any new GEN_ID open a generation and flushes the oldest one for it (figure 2), so
//! whoever makes GEN_IDs up could flush every real generation. Here a session has a window around the
//! GEN_IDs that it has been carrying. The window follows the traffic in small steps, and it moves to
//! another place only when nothing has come where it is for a while and a run of packets agrees on that
//! place: a source that restarts looks like that, a flood of made-up GEN_IDs beside the real ones does not.

use crate::node::Instant;
use core::time::Duration;

/// How far ahead of the newest GEN_ID is believable: what may get lost at a stretch.
const REACH_AHEAD: i16 = 16;

/// The window never moves further for one packet.
const MAX_STEP: i16 = 4;

/// Packets, near one another in GEN_ID, that it takes to move the window to where they are.
const VOTES_TO_MOVE: u8 = 8;

/// How long nothing believable must have come before the window moves.
const QUIET: Duration = Duration::from_millis(500);

/// How a GEN_ID lies to the window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Near what the session carries.
    Believable,
    /// Behind the window: too late to matter.
    Late,
    /// Ahead of the window, further than the session can have advanced.
    Implausible,
}

/// The window of one session.
#[derive(Copy, Clone, Debug)]
pub struct GenerationWindow {
    known: bool,
    newest: u16,
    believed_at: Instant,
    candidate: u16,
    votes: u8,
}

impl GenerationWindow {
    /// A window that the first packet will place.
    pub const UNKNOWN: Self =
        Self { known: false, newest: 0, believed_at: Instant::ZERO, candidate: 0, votes: 0 };

    /// Judges `gen_id`, which comes `now`, and follows it. `reach_behind` is how far behind the newest GEN_ID a generation can still be of use.
    pub fn admit(&mut self, now: Instant, gen_id: u16, reach_behind: u16) -> Admission {
        if !self.known {
            self.known = true;
            self.newest = gen_id;
            self.believed_at = now;
            return Admission::Believable;
        }
        let ahead = serial_distance(self.newest, gen_id);
        let believable =
            if ahead > 0 { ahead <= REACH_AHEAD } else { ahead.unsigned_abs() < reach_behind };
        if believable {
            self.newest = self.newest.wrapping_add_signed(ahead.clamp(0, MAX_STEP));
            self.believed_at = now;
            self.votes = 0;
            return Admission::Believable;
        }
        if self.elect(gen_id) && now.since(self.believed_at) >= QUIET {
            self.newest = gen_id;
            self.believed_at = now;
            self.votes = 0;
            return Admission::Believable;
        }
        if ahead < 0 { Admission::Late } else { Admission::Implausible }
    }

    /// A majority vote among the GEN_IDs outside the window: those near the candidate support it, others take its votes.
    fn elect(&mut self, gen_id: u16) -> bool {
        let near = self.votes > 0
            && serial_distance(self.candidate, gen_id).unsigned_abs() <= MAX_STEP.unsigned_abs();
        if near {
            self.candidate = gen_id;
            self.votes = (self.votes + 1).min(VOTES_TO_MOVE);
        } else if self.votes > 1 {
            self.votes -= 1;
        } else {
            self.candidate = gen_id;
            self.votes = 1;
        }
        self.votes == VOTES_TO_MOVE
    }
}

/// How far `to` is after `from` as serial numbers (RFC 1982, 3.2); negative when it is before.
const fn serial_distance(from: u16, to: u16) -> i16 {
    to.wrapping_sub(from).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: u16 = 150;

    /// Packet `number` of a session that has a thousand a second.
    fn at_packet(number: u64) -> Instant {
        Instant::from_nanos(number * 1_000_000)
    }

    fn at(newest: u16) -> GenerationWindow {
        let mut window = GenerationWindow::UNKNOWN;
        assert_eq!(window.admit(Instant::ZERO, newest, REACH), Admission::Believable);
        window
    }

    #[test]
    fn zero_follows_65535() {
        let mut window = at(65_530);
        for gen_id in (65_531..=65_535).chain(0..5) {
            assert_eq!(window.admit(Instant::ZERO, gen_id, REACH), Admission::Believable);
        }
        assert_eq!(window.newest, 4);
    }

    #[test]
    fn both_ends_of_the_window() {
        for (gen_id, verdict) in [
            (1000 - 149, Admission::Believable),
            (1000 - 150, Admission::Late),
            (1016, Admission::Believable),
            (1017, Admission::Implausible),
        ] {
            assert_eq!(at(1000).admit(Instant::ZERO, gen_id, REACH), verdict, "{gen_id}");
        }
    }

    #[test]
    fn a_source_that_restarts_elsewhere_is_followed_after_a_while() {
        let mut window = at(40_000);
        let verdict = |packet: u64| window.admit(at_packet(packet), 10 + packet as u16, REACH);
        let verdicts: Vec<Admission> = (1..600).map(verdict).collect();
        let refused = verdicts.iter().filter(|v| **v != Admission::Believable).count();
        assert_eq!(refused, 499);
        // After a rest only the agreement takes its packets.
        let mut window = at(40_000);
        let verdict = |packet: u64| window.admit(at_packet(2000 + packet), packet as u16, REACH);
        let refused = (0..20).map(verdict).filter(|v| *v != Admission::Believable).count();
        assert_eq!(refused, usize::from(VOTES_TO_MOVE) - 1);
    }

    #[test]
    fn made_up_ids_in_a_row_do_not_move_it_while_real_ones_come() {
        let mut window = at(0);
        let mut made_up = 20_000u16;
        for gen_id in 1..2_000u16 {
            let now = at_packet(gen_id.into());
            for _ in 0..12 {
                made_up += 1;
                assert_ne!(window.admit(now, made_up, REACH), Admission::Believable);
            }
            assert_eq!(window.admit(now, gen_id, REACH), Admission::Believable, "{gen_id}");
        }
    }

    #[test]
    fn random_ids_do_not_drag_it_away() {
        let mut window = at(0);
        let mut random = 12_345u32;
        for gen_id in 1..20_000u16 {
            let now = at_packet(gen_id.into());
            for _ in 0..10 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                window.admit(now, (random >> 16) as u16, REACH);
            }
            assert_eq!(window.admit(now, gen_id, REACH), Admission::Believable, "{gen_id}");
        }
    }
}
