//! What time does to flows.

use super::super::active::SLEEP_AFTER;
use super::super::flow::{Events, NONE, Phase};
use super::super::path::{MAX_CHALLENGES, Proof};
use super::super::recovery::Control;
use super::super::rtt::MAX_PROBE;
use super::super::timers::NEVER;
use super::super::{CloseReason, Role};
use super::receive::detect_losses;
use super::{Counter, Endpoint, FlowId, Table};
use crate::node::Instant;
use core::time::Duration;

/// Probe time-outs without an answer after which the network counts as away.
const PROBES_BEFORE_SUSPENSION: u32 = 3;

/// Between two probes while no interface is up.
const DOWN_PROBE: Duration = Duration::from_secs(30);

/// A handshake that nobody proves is forgotten after this: no sooner than a client gives up by default, or after an outage the client would go on with
/// what the server no longer has.
const UNPROVEN_LIFETIME: Duration = Duration::from_secs(30);

/// A timer that is due already comes back no sooner than this: nothing spins.
const LEAST_WAIT: Duration = Duration::from_micros(100);

/// Flows that one call looks after at most.
const MAX_DUE: usize = 256;

impl Endpoint<'_> {
    pub(super) fn run_timers(&mut self, now: Instant) {
        for _ in 0..MAX_DUE {
            let Some((slot, due)) = self.timers.first(&mut Table(self.flows)) else { return };
            if due > now {
                return;
            }
            self.timers.set(&mut Table(self.flows), slot, NEVER);
            self.on_due(slot, now);
            let lives = self.flow(slot).is_some_and(|flow| {
                !matches!(flow.phase, Phase::Free | Phase::Closed) && flow.active != NONE
            });
            if lives {
                self.set_ready(slot);
            }
            self.reschedule(slot);
        }
    }

    /// Sets the flow's timer to the next thing that it waits for.
    pub(super) fn reschedule(&mut self, slot: u32) {
        let (now, is_up) = (self.now, self.interface_is_up);
        let due = self.next_due(slot, is_up);
        let due = if due == NEVER { NEVER } else { due.max(now.after(LEAST_WAIT)) };
        self.timers.set(&mut Table(self.flows), slot, due);
    }

    fn next_due(&mut self, slot: u32, _is_up: bool) -> Instant {
        let (timeout, now) = (self.config.opening_timeout, self.now);
        let Some(flow) = self.flows.get(slot as usize) else { return NEVER };
        let client = flow.role == Role::Client;
        let refresh = flow.heard.after(flow.keep_alive() / 2);
        if flow.resuming && flow.phase == Phase::Suspended {
            let set = flow.timer.due;
            let due = if set == NEVER { self.next_try(flow) } else { set };
            return due.min(flow.expires());
        }
        let Some(active) = self.actives.get_mut(flow.active as usize) else {
            return match flow.phase {
                Phase::Unproven => flow.heard.after(UNPROVEN_LIFETIME),
                Phase::Open if client => refresh.min(flow.expires()),
                Phase::Open | Phase::Suspended => flow.expires(),
                _ => NEVER,
            };
        };
        let mut due = NEVER;
        let mut at = |time: Instant| due = due.min(time);
        if let Some(opening) = &active.opening {
            at(opening.started.after(timeout));
        }
        match flow.phase {
            Phase::Free | Phase::Closed => return NEVER,
            Phase::Unproven => at(flow.heard.after(UNPROVEN_LIFETIME)),
            Phase::Opening => {
                if let Some(opening) = &active.opening {
                    at(opening.next_try);
                }
            }
            Phase::Asking => at(flow.expires()),
            Phase::Suspended => {
                at(flow.expires());
                at(active.next_probe);
            }
            Phase::Draining => {
                at(active.drain_until);
                if let Some(due) = active.received.due {
                    at(due);
                }
                if active.recovery.has_outstanding()
                    && let Some(path) = active.paths.get(active.current)
                {
                    at(active.recovery.last_eliciting.after(path.rtt.probe_timeout(0)));
                }
            }
            Phase::Open => {
                at(flow.expires());
                at(active.listen_until);
                if active.pending.is_some() && now < active.close_waits_until {
                    at(active.close_waits_until);
                }
                at(active.forget_key);
                if let Some(due) = active.received.due {
                    at(due);
                }
                if let Some(due) = active.loss_due {
                    at(due);
                }
                let Some(path) = active.paths.get(active.current) else { return NEVER };
                if active.recovery.has_outstanding() {
                    let wait = path.rtt.probe_timeout(active.recovery.probes);
                    at(active.recovery.last_eliciting.after(wait));
                } else if client {
                    at(refresh);
                }
                if path.window_is_open() && !active.waits_for_move() {
                    at_pacing(active, flow.total_sent, &mut at);
                }
                for path in active.paths.iter().filter(|path| path.challenge.is_some()) {
                    at(path.challenged.after(path.rtt.probe_timeout(path.challenges.into())));
                }
                if active.is_quiet() {
                    at(active.busy.after(SLEEP_AFTER));
                }
            }
        }
        due
    }

    fn on_due(&mut self, slot: u32, now: Instant) {
        let timeout = self.config.opening_timeout;
        let Some(flow) = self.flow(slot) else { return };
        let (phase, heard) = (flow.phase, flow.heard);
        let started =
            self.pair(slot).and_then(|(_, active)| Some(active.opening.as_ref()?.started));
        if started.is_some_and(|started| now >= started.after(timeout)) {
            self.end(slot, CloseReason::Timeout);
            return;
        }
        match phase {
            Phase::Free | Phase::Closed => {}
            Phase::Unproven => {
                if now >= heard.after(UNPROVEN_LIFETIME) {
                    self.count(Counter::UnprovenExpired, 1);
                    self.end(slot, CloseReason::Timeout);
                }
            }
            Phase::Asking | Phase::Open | Phase::Suspended if now >= self.expiry(slot) => {
                self.count(Counter::Expired, 1);
                self.end(slot, CloseReason::Expired);
            }
            Phase::Opening | Phase::Asking => {}
            Phase::Suspended if self.flow(slot).is_some_and(|flow| flow.resuming) => {
                self.try_restart(slot, now);
            }
            Phase::Suspended => self.probe_suspended(slot, now),
            Phase::Draining => self.on_draining(slot, now),
            Phase::Open => self.on_open_due(slot, now),
        }
    }

    fn expiry(&mut self, slot: u32) -> Instant {
        self.flow(slot).map_or(NEVER, |flow| flow.expires())
    }

    fn probe_interval(&self) -> Duration {
        if self.interface_is_up { MAX_PROBE } else { DOWN_PROBE }
    }

    fn probe_suspended(&mut self, slot: u32, now: Instant) {
        let interval = self.probe_interval();
        let Some((_, active)) = self.pair(slot) else { return };
        if now >= active.next_probe {
            // The probe before is given up, so that the books do not fill up in an outage of hours.
            active.give_up_outstanding();
            active.probe = true;
            active.next_probe = now.after(interval);
            self.count(Counter::Probes, 1);
        }
    }

    fn on_draining(&mut self, slot: u32, now: Instant) {
        let Some((_, active)) = self.pair(slot) else { return };
        if now >= active.drain_until {
            self.end(slot, CloseReason::Local);
            return;
        }
        let wait = active.path().map_or(MAX_PROBE, |path| path.rtt.probe_timeout(0));
        if active.recovery.has_outstanding() && now >= active.recovery.last_eliciting.after(wait) {
            active.give_up_outstanding();
            active.control = Control::CLOSE;
            active.probe = true;
        }
    }

    fn on_open_due(&mut self, slot: u32, now: Instant) {
        if self.flow(slot).is_some_and(|flow| flow.active == NONE) {
            // A sleeping client asks in time whether the flow still lives.
            match self.wake(slot) {
                Some(active) => active.control |= Control::PING,
                None => {
                    let again = now.after(MAX_PROBE);
                    self.timers.set(&mut Table(self.flows), slot, again);
                }
            }
            return;
        }
        let Some((flow, active)) = self.pair(slot) else { return };
        if now >= active.forget_key {
            active.forget_key = NEVER;
            if let Some(opener) = active.opener.as_mut() {
                opener.forget_previous();
            }
        }
        let refresh = flow.role == Role::Client
            && now >= flow.heard.after(flow.keep_alive() / 2)
            && !active.recovery.has_outstanding();
        if refresh || now >= active.listen_until {
            active.listen_until = NEVER;
            if !active.recovery.has_outstanding() {
                active.control |= Control::PING | active.untold_windows(flow);
            }
        }
        let mut given_up = 0;
        let current = active.current;
        for (place, path) in active.paths.iter_mut().enumerate() {
            let wait = path.rtt.probe_timeout(path.challenges.into());
            if path.challenge.is_none() || now < path.challenged.after(wait) {
                continue;
            }
            path.challenges += 1;
            if path.challenges < MAX_CHALLENGES {
                path.challenge_due = true;
                continue;
            }
            path.challenge = None;
            path.challenge_due = false;
            if path.proof == Proof::Candidate && place != current {
                // What is on its way there stays in the books until it is given up like all else.
                given_up += 1;
                if path.in_flight == 0 {
                    path.proof = Proof::None;
                }
                if active.wanted == Some(place) {
                    active.wanted = None;
                }
            }
        }
        let (mut lost, mut holes) = (0, 0);
        if active.loss_due.is_some_and(|due| now >= due) {
            (lost, holes) = detect_losses(now, active);
        }
        let wait =
            active.path().map_or(MAX_PROBE, |path| path.rtt.probe_timeout(active.recovery.probes));
        let mut probes = 0;
        if active.recovery.has_outstanding() && now >= active.recovery.last_eliciting.after(wait) {
            active.recovery.probes += 1;
            active.probe = true;
            probes = 1;
        }
        let suspends = active.recovery.probes >= PROBES_BEFORE_SUSPENSION;
        let mut sleeps = active.is_quiet() && now >= active.busy.after(SLEEP_AFTER);
        let untold = if sleeps { active.untold_windows(flow) } else { Control::empty() };
        if !untold.is_empty() {
            active.control |= untold;
            sleeps = false;
        }
        self.count(Counter::PathsGivenUp, given_up);
        self.count(Counter::Lost, lost);
        self.count(Counter::BlackHoles, holes);
        self.count(Counter::Probes, probes);
        if suspends {
            self.suspend(slot, now);
        } else if sleeps {
            self.sleep(slot);
        }
    }

    /// The network is away.
    fn suspend(&mut self, slot: u32, now: Instant) {
        let interval = self.probe_interval();
        let Some((flow, active)) = self.pair(slot) else { return };
        flow.phase = Phase::Suspended;
        active.give_up_outstanding();
        active.suspended_at = flow.heard;
        active.probe = true;
        active.next_probe = now.after(interval);
        self.count(Counter::Suspended, 1);
        self.tell(slot, Events::SUSPENDED);
    }

    /// Gives the active part back.
    fn sleep(&mut self, slot: u32) {
        let Some((flow, active)) = self.pair(slot) else { return };
        active.drop_done();
        active.sleep(flow);
        self.count(Counter::Slept, 1);
        self.release_active(slot);
        self.unready(slot);
        self.add_idle(slot);
    }

    /// The platform says whether any interface is up. When one comes up, every flow that waits is probed at once.
    pub fn set_interface(&mut self, now: Instant, is_up: bool) {
        let was_up = core::mem::replace(&mut self.interface_is_up, is_up);
        if is_up && !was_up {
            self.network_changed(now);
            return;
        }
        let now = self.advance(now);
        let interval = self.probe_interval();
        for slot in 0..self.flows.len() as u32 {
            let Some((flow, active)) = self.pair(slot) else { continue };
            if flow.phase == Phase::Suspended && !flow.resuming {
                active.next_probe = active.next_probe.max(now.after(interval));
                self.reschedule(slot);
            }
        }
    }

    /// The platform says that addresses or routes have changed: clients tell their servers where they are, and what waits is probed at once.
    pub fn network_changed(&mut self, now: Instant) {
        let now = self.advance(now);
        for slot in 0..self.flows.len() as u32 {
            let Some(flow) = self.flow(slot) else { continue };
            let client = flow.role == Role::Client;
            if flow.phase == Phase::Opening {
                if let Some((_, active)) = self.pair(slot)
                    && let Some(opening) = active.opening.as_mut()
                {
                    opening.next_try = now;
                }
                self.set_ready(slot);
                continue;
            }
            let asleep = flow.active == NONE;
            if !matches!(flow.phase, Phase::Open | Phase::Suspended)
                || asleep && !client && !flow.resuming
            {
                continue;
            }
            if flow.resuming {
                self.try_restart(slot, now);
                continue;
            }
            // Who watches both networks must not see that it is one flow.
            if client {
                flow.peer.change();
            }
            if self.wake(slot).is_none() {
                continue;
            }
            let Some((flow, active)) = self.pair(slot) else { continue };
            // A flow that was heard just now may not be concerned: what it has on its way may arrive.
            let patience = active.path().map_or(Duration::ZERO, |path| path.rtt.probe_timeout(0));
            if flow.phase == Phase::Suspended || now >= flow.heard.after(patience) {
                active.give_up_outstanding();
            }
            active.control |= Control::PING | Control::IDS;
            active.probe = true;
            active.recovery.probes = 0;
            if active.next_probe != NEVER {
                active.next_probe = now.after(MAX_PROBE);
            }
            self.count(Counter::Probes, 1);
            self.set_ready(slot);
        }
    }

    /// Probes every flow that waits for its network at once.
    pub fn probe(&mut self, now: Instant) {
        let now = self.advance(now);
        for slot in 0..self.flows.len() as u32 {
            if self.flow(slot).is_some_and(|flow| flow.resuming) {
                self.try_restart(slot, now);
                continue;
            }
            let Some((flow, active)) = self.pair(slot) else { continue };
            if flow.phase == Phase::Suspended {
                active.give_up_outstanding();
                active.probe = true;
                active.next_probe = now.after(MAX_PROBE);
                self.count(Counter::Probes, 1);
                self.set_ready(slot);
            }
        }
    }

    /// The flow goes to the peer at another address from now on: the server's name says so, or this end uses another socket.
    pub fn set_path(&mut self, now: Instant, flow: FlowId, path: super::PathAddress) {
        let now = self.advance(now);
        let Some(slot) = self.check(flow) else { return };
        let congestion = self.config.congestion;
        let Some(flow) = self.flow(slot) else { return };
        flow.address = path;
        if flow.resuming {
            self.try_restart(slot, now);
            return;
        }
        let (phase, datagram) = (flow.phase, flow.datagram);
        if !matches!(phase, Phase::Open | Phase::Suspended | Phase::Opening) {
            return;
        }
        if phase != Phase::Opening {
            flow.peer.change();
        }
        let Some(active) = self.wake(slot) else { return };
        active.give_up_outstanding();
        let known = active.paths.iter().position(|known| known.is_used() && known.address == path);
        let place = known.unwrap_or_else(|| {
            let current = active.current;
            let others = active.paths.iter().enumerate().filter(|(place, _)| *place != current);
            others
                .min_by_key(|(_, path)| (path.is_used(), path.used))
                .map_or(current, |(place, _)| place)
        });
        if let Some(slot) = active.paths.get_mut(place)
            && known.is_none()
        {
            // This end's own choice needs no proof: it is where the application has sent it.
            *slot = super::super::path::Path::new(path, Proof::Proven, congestion, datagram, now);
        }
        active.current = place;
        active.control |= Control::PING | Control::IDS;
        active.probe = phase != Phase::Opening;
        active.recovery.probes = 0;
        self.set_ready(slot);
    }
}

/// When the next paced packet may go, if there is one.
fn at_pacing(active: &super::super::Active<'_>, total_sent: u64, at: &mut impl FnMut(Instant)) {
    let credit = active.total_peer_limit.saturating_sub(total_sent);
    let waits = !active.control.is_empty()
        || active.streams.iter().flatten().any(|stream| stream.send.next(1, credit).is_some());
    if waits && let Some(path) = active.path() {
        at(path.paced_wake());
    }
}
