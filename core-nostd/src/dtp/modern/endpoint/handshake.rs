//! Opening flows, at both ends (`SPEC.md`, section 2).

use super::super::active::Opening;
use super::super::flow::{Events, NONE, PeerIds};
use super::super::path::{Path, Proof};
use super::super::protect::{SleepingOpener, SleepingSealer};
use super::super::recovery::Control;
use super::super::restart::RESTART_PATTERN;
use super::super::{
    Answer, CONNECTION_ID_OCTETS, CloseReason, Handshake, Initial, KEY_OCTETS,
    LEAST_INITIAL_OCTETS, ModernError, Opener, Parameters, Pattern, Phase, Retry, RetryKey, Role,
    Sealer, SessionSecrets, Suite, TAG_OCTETS, VERSION, Versions,
};
use super::{
    Connect, Counter, DEFAULT_KEEP_ALIVE_S, Endpoint, FlowId, LEAST_KEEP_ALIVE_S, MAX_UNPROVEN,
    PathAddress, REPLY_OCTETS, Reply, UNPROVEN_BEFORE_RETRY, UNPROVEN_OF_ADDRESS, seconds,
};
use crate::node::Instant;
use core::time::Duration;
use heapless::Vec;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Octets of the largest Initial that is looked at.
pub(super) const MAX_INITIAL_OCTETS: usize = 2048;

/// An Initial is sent again after this, and then after twice as long each time up to [`super::super::rtt::MAX_PROBE`].
const FIRST_TRY: Duration = Duration::from_millis(250);

/// Initials of full size that go unanswered before smaller ones are tried.
const LARGE_TRIES: u32 = 3;

/// How often the key of tokens changes.
const RETRY_KEY_LIFETIME: Duration = Duration::from_secs(3600);

/// Where the client's own id stands in an Initial of any version.
const SOURCE_AT: usize = 4 + CONNECTION_ID_OCTETS;

impl<'m> Endpoint<'m> {
    /// Begins a flow to the server at `path`.
    ///
    /// # Errors
    /// [`ModernError::TableFull`], [`ModernError::NoActive`], or [`ModernError::Sequence`] when the pattern needs a key that is not there.
    pub fn connect(
        &mut self,
        now: Instant,
        path: PathAddress,
        connect: Connect,
    ) -> Result<FlowId, ModernError> {
        let now = self.advance(now);
        Handshake::new(connect.pattern, Role::Client, connect.identity.clone(), &[])?;
        let slot = self.take_flow().ok_or(ModernError::TableFull)?;
        let (ephemeral, destination) = (self.random.array(), self.random.array());
        let datagram = self.config.datagram_octets.max(LEAST_INITIAL_OCTETS as u16);
        let streams = self.config.streams;
        let Some(flow) = self.flow(slot) else { return Err(ModernError::TableFull) };
        flow.phase = Phase::Opening;
        flow.role = Role::Client;
        flow.is_known = true;
        flow.heard = now;
        flow.address = path;
        flow.datagram = datagram;
        flow.own_streams = streams;
        let generation = flow.generation;
        let Some(active) = self.wake(slot) else {
            self.free_flow(slot);
            return Err(ModernError::NoActive);
        };
        active.opening = Some(Opening {
            pattern: connect.pattern,
            identity: connect.identity,
            ephemeral,
            destination,
            token: Vec::new(),
            started: now,
            next_try: now,
            tries: 0,
            keep_alive_s: connect.keep_alive_s,
            server_key: None,
        });
        self.set_ready(slot);
        Ok(FlowId { slot, generation })
    }

    /// Writes the Initial of a flow to the beginning of `out`; the handshake has written its message then.
    pub(super) fn write_initial(
        &mut self,
        slot: u32,
        out: &mut [u8],
    ) -> Result<(Handshake, usize), ModernError> {
        let suites = self.config.suites;
        let window = u32::try_from(self.receive_octets / super::super::MAX_STREAMS);
        let (own_streams, boundaries) = (self.config.streams, self.config.boundaries);
        let generation = self.flow(slot).ok_or(ModernError::UnknownFlow)?.generation;
        let source = self.own_id(slot, generation, 0);
        let (flow, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        let opening = active.opening.as_ref().ok_or(ModernError::Sequence)?;
        let initial = Initial {
            pattern: opening.pattern.number(),
            suites,
            destination: opening.destination,
            source,
            token: &opening.token,
            message: &[],
        };
        let total = usize::from(flow.datagram).min(MAX_INITIAL_OCTETS);
        let out = out.get_mut(..total).ok_or(ModernError::NoRoom)?;
        let clear = initial.write_clear(out)?;
        let (head, message) = out.split_at_mut_checked(clear).ok_or(ModernError::NoRoom)?;
        let mut handshake =
            Handshake::new(opening.pattern, Role::Client, opening.identity.clone(), head)?;
        let parameters = Parameters {
            send_to: Some(source),
            keep_alive_s: Some(opening.keep_alive_s),
            receive_window: Some(window.unwrap_or(u32::MAX)),
            largest_datagram: Some(flow.datagram),
            suite: None,
            boundaries,
            streams: Some(own_streams),
        };
        // What Noise adds to the payload.
        let added = match opening.pattern {
            Pattern::KnownServer | Pattern::PreShared => KEY_OCTETS + TAG_OCTETS,
            Pattern::KnownServerClientKey => 2 * KEY_OCTETS + 2 * TAG_OCTETS,
            Pattern::UnknownServer => KEY_OCTETS,
        };
        let mut payload = [0; MAX_INITIAL_OCTETS];
        let least = message.len().saturating_sub(added);
        // A single missing octet cannot be filled: one less then.
        let octets = match parameters.write(&mut payload, least) {
            Ok(octets) if octets <= least => octets,
            _ => parameters.write(&mut payload, least.saturating_sub(2))?,
        };
        let payload = payload.get(..octets).ok_or(ModernError::NoRoom)?;
        let written = handshake.write(opening.ephemeral, payload, message)?;
        Ok((handshake, clear + written))
    }

    /// The next Initial of a flow that opens, if it is due.
    pub(super) fn build_initial(
        &mut self,
        slot: u32,
        now: Instant,
        out: &mut [u8],
    ) -> Option<(PathAddress, usize)> {
        let (ephemeral, destination) = (self.random.array(), self.random.array());
        let (flow, active) = self.pair(slot)?;
        let opening = active.opening.as_mut()?;
        if now < opening.next_try {
            return None;
        }
        let wait = FIRST_TRY * (1 << opening.tries.min(2));
        opening.next_try = now.after(wait.min(super::super::rtt::MAX_PROBE));
        opening.tries += 1;
        if opening.tries == LARGE_TRIES + 1 && usize::from(flow.datagram) > LEAST_INITIAL_OCTETS {
            // The path may not take large datagrams: another handshake, with the least.
            flow.datagram = LEAST_INITIAL_OCTETS as u16;
            (opening.ephemeral, opening.destination) = (ephemeral, destination);
            opening.token.clear();
        }
        let address = flow.address;
        match self.write_initial(slot, out) {
            Ok((_, octets)) => Some((address, octets)),
            Err(error) => {
                self.end(slot, CloseReason::Protocol(error));
                None
            }
        }
    }

    pub(super) fn reply(&mut self, path: PathAddress, datagram: &[u8]) -> Result<(), ModernError> {
        let mut reply = Reply { path, octets: datagram.len(), datagram: [0; REPLY_OCTETS] };
        let place = reply.datagram.get_mut(..datagram.len()).ok_or(ModernError::NoRoom)?;
        place.copy_from_slice(datagram);
        self.replies.push_back(reply).map_err(|_| ModernError::ReplyQueue)
    }

    fn change_retry_keys(&mut self, now: Instant) {
        if now.since(self.retry_keys_changed) >= RETRY_KEY_LIFETIME {
            self.retry_keys_changed = now;
            let [present, _] = &self.retry_keys;
            self.retry_keys = [RetryKey::new(self.random.array()), present.clone()];
        }
    }

    fn demand_token(
        &mut self,
        now: Instant,
        path: PathAddress,
        initial: &Initial,
    ) -> Result<(), ModernError> {
        let now_s = now.as_nanos() / 1_000_000_000;
        let [key, _] = &self.retry_keys;
        let token = key.token(now_s, &path.ip, path.port, &initial.destination);
        let retry =
            Retry { destination: initial.source, source: initial.destination, token: &token };
        let mut datagram = [0; REPLY_OCTETS];
        let octets = retry.write(&mut datagram)?;
        self.reply(path, datagram.get(..octets).ok_or(ModernError::NoRoom)?)?;
        self.count(Counter::Retries, 1);
        Err(ModernError::RetryDemanded)
    }

    /// Whether the token proves the address.
    fn token_is_right(&self, now: Instant, path: PathAddress, initial: &Initial) -> bool {
        let now_s = now.as_nanos() / 1_000_000_000;
        !initial.token.is_empty()
            && self.retry_keys.iter().any(|key| {
                key.verify(initial.token, now_s, &path.ip, path.port, &initial.destination).is_ok()
            })
    }

    pub(super) fn on_initial(
        &mut self,
        now: Instant,
        path: PathAddress,
        datagram: &[u8],
    ) -> Result<(), ModernError> {
        let (initial, clear) = match Initial::parse(datagram) {
            Ok((initial, clear)) if initial.pattern == RESTART_PATTERN => {
                return self.on_restart(now, path, datagram, &initial, clear);
            }
            _ if self.config.patterns.is_empty() => return Err(ModernError::Pattern),
            Err(ModernError::Version) => {
                let source = datagram.get(SOURCE_AT..).and_then(<[u8]>::first_chunk);
                let destination = *source.ok_or(ModernError::Truncated)?;
                let mut out = [0; REPLY_OCTETS];
                let octets = Versions { destination, versions: &[VERSION] }.write(&mut out)?;
                self.reply(path, out.get(..octets).unwrap_or(&[]))?;
                return Err(ModernError::Version);
            }
            other => other?,
        };
        let pattern = Pattern::from_number(initial.pattern)
            .filter(|pattern| self.config.patterns.contains(pattern))
            .ok_or(ModernError::Pattern)?;
        let both = initial.suites & self.config.suites;
        let suite = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305]
            .into_iter()
            .find(|suite| both & suite.bit() != 0)
            .ok_or(ModernError::Suite)?;
        // Of all of the message: pattern NX does not authenticate it, and an Initial that came damaged must not stand for the right one.
        let digest = self.answer_mac().chain_update(datagram).finalize().into_bytes();
        let mark = digest.first_chunk().copied().map_or(0, u16::from_le_bytes);
        let known = self.unproven.iter().copied().find(|&slot| {
            self.flows.get(slot as usize).is_some_and(|flow| {
                flow.initial_mark == mark
                    && flow.address == path
                    && flow.peer.current == initial.source
            })
        });
        if let Some(slot) = known {
            // The answer was lost: the same once more.
            return self.answer(now, slot, path, &initial, clear, pattern, suite).map(|_| ());
        }
        self.change_retry_keys(now);
        let of_address = |&&slot: &&u32| {
            self.flows.get(slot as usize).is_some_and(|flow| flow.address.ip == path.ip)
        };
        let many = self.unproven.len() >= UNPROVEN_BEFORE_RETRY
            || self.unproven.iter().filter(of_address).count() >= UNPROVEN_OF_ADDRESS;
        if many && !self.token_is_right(now, path, &initial) {
            return self.demand_token(now, path, &initial);
        }
        if self.unproven.len() >= MAX_UNPROVEN {
            // Proven addresses alone get here; who has waited the longest goes.
            if let Some(&oldest) = self.unproven.first() {
                self.count(Counter::UnprovenExpired, 1);
                self.end(oldest, CloseReason::Timeout);
            }
        }
        self.make_room(now);
        if !self.budget(&path.ip, true) {
            return Err(ModernError::AddressBudget);
        }
        let Some(slot) = self.take_flow() else {
            self.budget(&path.ip, false);
            return Err(ModernError::TableFull);
        };
        if let Some(flow) = self.flow(slot) {
            flow.phase = Phase::Unproven;
            flow.role = Role::Server;
            flow.address = path;
            flow.initial_mark = mark;
            flow.heard = now;
        }
        match self.answer(now, slot, path, &initial, clear, pattern, suite) {
            Ok(secrets) => {
                if let Some(flow) = self.flow(slot) {
                    flow.sealer =
                        Some(SleepingSealer::of(&Sealer::new(suite, secrets.server_to_client, 0)));
                    flow.opener =
                        Some(SleepingOpener::of(&Opener::new(suite, secrets.client_to_server)));
                    flow.resume = Some(secrets.resume);
                    flow.rekeyed_s = seconds(now);
                }
                // There is room: one was just made.
                let _ = self.unproven.push(slot);
                self.reschedule(slot);
                Ok(())
            }
            Err(error) => {
                self.free_flow(slot);
                Err(error)
            }
        }
    }

    /// A keyed hash of this endpoint's own.
    pub(super) fn answer_mac(&self) -> Hmac<Sha256> {
        let mut block = [0; 64];
        if let Some((key, _)) = block.split_first_chunk_mut() {
            *key = self.answer_key;
        }
        Hmac::<Sha256>::new(&block.into())
    }

    /// Runs the server's half of the handshake and puts the Answer in line. The same Initial to the same place gives the same Answer.
    #[expect(clippy::too_many_arguments, reason = "an Initial in its parts")]
    fn answer(
        &mut self,
        now: Instant,
        slot: u32,
        path: PathAddress,
        initial: &Initial,
        clear: &[u8],
        pattern: Pattern,
        suite: Suite,
    ) -> Result<SessionSecrets, ModernError> {
        let mut handshake =
            Handshake::new(pattern, Role::Server, self.config.identity.clone(), clear)?;
        let mut payload = [0; MAX_INITIAL_OCTETS];
        let octets = handshake.read(initial.message, &mut payload)?;
        if pattern == Pattern::KnownServerClientKey
            && !handshake.peer_key().is_some_and(|key| self.config.authorized.contains(&key))
        {
            return Err(ModernError::NotAuthorized);
        }
        let asked = Parameters::parse(payload.get(..octets).unwrap_or(&[]))?;
        if asked.send_to != Some(initial.source) {
            return Err(ModernError::Parameter);
        }
        let cap = self.config.keep_alive_cap_s.max(LEAST_KEEP_ALIVE_S);
        let granted = match asked.keep_alive_s {
            None | Some(0) => DEFAULT_KEEP_ALIVE_S,
            Some(seconds) => seconds,
        };
        let granted = granted.clamp(LEAST_KEEP_ALIVE_S, cap);
        let datagram = self.config.datagram_octets.max(LEAST_INITIAL_OCTETS as u16);
        let least = LEAST_INITIAL_OCTETS as u16;
        let boundaries = self.config.boundaries && asked.boundaries;
        let own_streams = self.config.streams;
        let window = u32::try_from(self.receive_octets / super::super::MAX_STREAMS);
        let flow = self.flow(slot).ok_or(ModernError::UnknownFlow)?;
        let generation = flow.generation;
        flow.keep_alive_s = granted;
        flow.peer = PeerIds { current: initial.source, spare: [None; 2], next: 1 };
        flow.datagram = datagram.min(asked.largest_datagram.unwrap_or(least));
        flow.peer_window = asked.receive_window.unwrap_or(0);
        flow.own_streams = own_streams;
        flow.peer_streams = asked.streams.unwrap_or(0);
        flow.boundaries = boundaries;
        flow.total_credit = flow.peer_window.saturating_mul(flow.places() as u32);
        let datagram_octets = flow.datagram;
        let mut mac = self.answer_mac();
        mac.update(initial.message);
        mac.update(clear);
        mac.update(&slot.to_be_bytes());
        mac.update(&generation.to_be_bytes());
        let ephemeral = mac.finalize().into_bytes().into();
        let parameters = Parameters {
            send_to: Some(self.own_id(slot, generation, 0)),
            keep_alive_s: Some(granted),
            receive_window: Some(window.unwrap_or(u32::MAX)),
            largest_datagram: Some(datagram_octets),
            suite: Some(suite),
            boundaries,
            streams: Some(own_streams),
        };
        let octets = parameters.write(&mut payload, 0)?;
        let payload = payload.get(..octets).ok_or(ModernError::NoRoom)?;
        let mut out = [0; REPLY_OCTETS];
        let head = Answer { destination: initial.source, message: &[] }.write_clear(&mut out)?;
        let place = out.get_mut(head..).ok_or(ModernError::NoRoom)?;
        let message = handshake.write(ephemeral, payload, place)?;
        let secrets = handshake.finish()?;
        let _ = now;
        self.reply(path, out.get(..head + message).ok_or(ModernError::NoRoom)?)?;
        Ok(secrets)
    }

    /// The flow of this client that an id in a handshake packet names.
    fn opening_flow(&mut self, id: &super::ConnectionId) -> Result<u32, ModernError> {
        let slot = self.flow_of(id)?;
        let opens = self.flow(slot).is_some_and(|flow| flow.phase == Phase::Opening);
        opens.then_some(slot).ok_or(ModernError::UnknownFlow)
    }

    /// The flow that an id of this end's names.
    fn flow_of(&mut self, id: &super::ConnectionId) -> Result<u32, ModernError> {
        let content = self.ids.open(id).ok_or(ModernError::UnknownFlow)?;
        let server = self.config.server;
        let flow = self.flow(content.slot).ok_or(ModernError::UnknownFlow)?;
        let right = flow.generation == content.generation && content.server == server;
        right.then_some(content.slot).ok_or(ModernError::UnknownFlow)
    }

    pub(super) fn on_answer(&mut self, now: Instant, datagram: &[u8]) -> Result<(), ModernError> {
        let answer = Answer::parse(datagram)?;
        let slot = self.flow_of(&answer.destination)?;
        if self.flow(slot).is_some_and(|flow| flow.resuming && flow.phase == Phase::Suspended) {
            return self.on_restart_answer(now, slot, &answer);
        }
        let slot = self.opening_flow(&answer.destination)?;
        // A forged Answer must not spoil the handshake, so each one is read by a handshake of its own, which writes the same message 1.
        let mut initial = [0; MAX_INITIAL_OCTETS];
        let (mut handshake, _) = self.write_initial(slot, &mut initial)?;
        let mut payload = [0; MAX_INITIAL_OCTETS];
        let octets = handshake.read(answer.message, &mut payload)?;
        let granted = Parameters::parse(payload.get(..octets).unwrap_or(&[]))?;
        let server_key = handshake.peer_key();
        let secrets = handshake.finish()?;
        let (Some(send_to), Some(suite)) = (granted.send_to, granted.suite) else {
            return Err(ModernError::Parameter);
        };
        if suite.bit() & self.config.suites == 0 {
            return Err(ModernError::Suite);
        }
        let boundaries = self.config.boundaries;
        let congestion = self.config.congestion;
        let (flow, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        let opening = active.opening.as_mut().ok_or(ModernError::Sequence)?;
        flow.keep_alive_s =
            granted.keep_alive_s.unwrap_or(DEFAULT_KEEP_ALIVE_S).max(LEAST_KEEP_ALIVE_S);
        flow.peer = PeerIds { current: send_to, spare: [None; 2], next: 1 };
        flow.datagram = flow.datagram.min(granted.largest_datagram.unwrap_or(flow.datagram));
        flow.peer_window = granted.receive_window.unwrap_or(0);
        flow.peer_streams = granted.streams.unwrap_or(0);
        flow.boundaries = boundaries && granted.boundaries;
        flow.total_credit = flow.peer_window.saturating_mul(flow.places() as u32);
        flow.heard = now;
        flow.rekeyed_s = seconds(now);
        flow.sealer = Some(SleepingSealer::of(&Sealer::new(suite, secrets.client_to_server, 0)));
        flow.opener = Some(SleepingOpener::of(&Opener::new(suite, secrets.server_to_client)));
        flow.resume = Some(secrets.resume);
        let asks = opening.pattern == Pattern::UnknownServer;
        if asks {
            opening.server_key = server_key;
            flow.phase = Phase::Asking;
            self.tell(slot, Events::SERVER_KEY);
        }
        let address = self.flow(slot).map_or(PathAddress::default(), |flow| flow.address);
        if let Some((flow, active)) = self.pair(slot) {
            let rtt = active
                .opening
                .as_ref()
                .filter(|opening| opening.tries == 1)
                .map(|opening| now.since(opening.started));
            let opening = active.opening.take();
            active.wake(flow, congestion, now);
            // Kept until the server has answered a flow packet: before that nobody knows whether it has the flow.
            active.opening = opening;
            let mut path = Path::new(address, Proof::Proven, congestion, flow.datagram, now);
            if let Some(rtt) = rtt {
                path.rtt.update(rtt, Duration::ZERO);
            }
            if let Some(place) = active.paths.first_mut() {
                *place = path;
            }
        }
        if !asks {
            self.open(slot);
        }
        self.reschedule(slot);
        Ok(())
    }

    /// The client may send on its flow. That the server has it is known when a packet of the flow comes back.
    pub(super) fn open(&mut self, slot: u32) {
        let Some((flow, active)) = self.pair(slot) else { return };
        flow.phase = Phase::Open;
        // The server waits for a packet as the proof of the address.
        active.control |= Control::PING | Control::IDS | Control::TOTAL_WINDOW;
        self.tell(slot, Events::ANSWERED);
        self.set_ready(slot);
    }

    /// Takes the key that [`super::Event::ServerKey`] has shown; the flow is open then.
    ///
    /// # Errors
    /// [`ModernError::Sequence`] when nothing was asked.
    pub fn trust(&mut self, flow: FlowId) -> Result<(), ModernError> {
        let slot = self.check(flow).ok_or(ModernError::UnknownFlow)?;
        if self.flow(slot).is_none_or(|flow| flow.phase != Phase::Asking) {
            return Err(ModernError::Sequence);
        }
        self.open(slot);
        Ok(())
    }

    pub(super) fn on_retry(&mut self, now: Instant, datagram: &[u8]) -> Result<(), ModernError> {
        let retry = Retry::parse(datagram)?;
        let slot = self.opening_flow(&retry.destination)?;
        let ephemeral = self.random.array();
        let (_, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        let opening = active.opening.as_mut().ok_or(ModernError::Sequence)?;
        // The sender must have seen the Initial, and one Retry is enough.
        if retry.source != opening.destination || !opening.token.is_empty() {
            return Err(ModernError::Token);
        }
        opening.token = Vec::from_slice(retry.token).map_err(|_| ModernError::Token)?;
        opening.ephemeral = ephemeral;
        opening.next_try = now;
        opening.tries = 0;
        self.set_ready(slot);
        Ok(())
    }

    pub(super) fn on_versions(&mut self, datagram: &[u8]) -> Result<(), ModernError> {
        let versions = Versions::parse(datagram)?;
        let slot = self.opening_flow(&versions.destination)?;
        if versions.versions.contains(&VERSION) {
            return Err(ModernError::Version);
        }
        // Anybody on the way can say so, hence it ends nothing by itself: the flow's own time-out does.
        if let Some(flow) = self.flow(slot) {
            flow.reason = Some(CloseReason::Protocol(ModernError::Version));
        }
        Ok(())
    }

    /// When places run short, the grants of the flows that have slept longest are cut; who has slept beyond that goes.
    fn make_room(&mut self, now: Instant) {
        if self.free_flows as usize > self.flows.len() / 16 {
            return;
        }
        for _ in 0..4 {
            let oldest = self.idle.0;
            if oldest == NONE {
                return;
            }
            let Some(flow) = self.flow(oldest) else { return };
            if flow.keep_alive_s > LEAST_KEEP_ALIVE_S {
                flow.keep_alive_s = LEAST_KEEP_ALIVE_S;
                self.count(Counter::GrantsShrunk, 1);
            }
            let Some(flow) = self.flow(oldest) else { return };
            if flow.expires() <= now {
                self.count(Counter::Evicted, 1);
                self.end(oldest, CloseReason::Evicted);
                continue;
            }
            // It is told, and will be the oldest no more.
            let resuming = flow.resuming;
            self.remove_idle(oldest);
            self.add_idle(oldest);
            if resuming {
                self.reschedule(oldest);
                continue;
            }
            if let Some(active) = self.wake(oldest) {
                active.control |= Control::KEEP_ALIVE;
                self.set_ready(oldest);
            }
            self.reschedule(oldest);
        }
    }
}
