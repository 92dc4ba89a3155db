//! The handshake by which a restarted end goes on with a flow (`SPEC.md`, section 7).

use super::super::active::Active;
use super::super::flow::{Events, Flow, Phase};
use super::super::path::{Path, Proof};
use super::super::restart::{
    ANSWER_OCTETS, Agreement, Pending, RESTART_PATTERN, Report, first_number, go_over,
};
use super::super::rtt::MAX_PROBE;
use super::super::{
    Answer, CloseReason, ConnectionId, Handshake, IdContent, Identity, Initial, KEY_OCTETS,
    LEAST_INITIAL_OCTETS, ModernError, Opener, Parameters, Pattern, ResumeSecret, Role, Sealer,
    SessionSecrets, Suite, TAG_OCTETS,
};
use super::receive::{consider_move, path_place};
use super::{Counter, Endpoint, PathAddress, seconds};
use crate::node::Instant;
use core::time::Duration;
use heapless::Vec;
use hmac::Mac;

/// A restarted end tries again after this, and later after a quarter of the time that it has tried.
const FIRST_TRY: Duration = Duration::from_millis(250);

/// A restarted server does not try more seldom than this: its client may have moved, and is heard of by then.
const SERVER_TRY: Duration = Duration::from_secs(30);

/// Between two tries, and between two refusals, there is at least this: whoever repeats packets gets no more for it.
const LEAST_TRY_MS: u32 = 100;

/// The octets of message 1 besides its payload: the ephemeral key and a tag.
const ADDED: usize = KEY_OCTETS + TAG_OCTETS;

fn milliseconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

fn handshake(role: Role, resume: &ResumeSecret, clear: &[u8]) -> Result<Handshake, ModernError> {
    let identity = Identity { pre_shared: Some(resume.pre_shared()), ..Identity::default() };
    Handshake::new(Pattern::PreShared, role, identity, clear)
}

/// Octets that this end takes on all streams together once they go on.
fn own_window(active: &Active<'_>) -> u64 {
    let unread = |stream: &super::super::active::Stream| match stream.receive.reset_reason() {
        Some(_) => 0,
        None => stream.receive.readable(),
    };
    let unread: usize = active.streams.iter().flatten().map(unread).sum();
    (active.receive_capacity() * active.places).saturating_sub(unread) as u64
}

impl<'m> Endpoint<'m> {
    /// It is time to try to go on; who has just tried waits a little.
    pub(super) fn try_restart(&mut self, slot: u32, now: Instant) {
        let Some(flow) = self.flow(slot) else { return };
        if milliseconds(now).wrapping_sub(flow.tried_ms) >= LEAST_TRY_MS {
            flow.try_due = true;
            self.set_ready(slot);
        }
    }

    /// When a flow that waits for its peer's answer tries again.
    pub(super) fn next_try(&self, flow: &Flow) -> Instant {
        let most = match flow.role {
            Role::Client if self.interface_is_up => MAX_PROBE,
            _ => SERVER_TRY,
        };
        let wait = (self.now.since(flow.heard) / 4).clamp(FIRST_TRY, most);
        self.now.after(wait)
    }

    /// Message 1 of a flow that waits for its peer. Every repetition is the same: nothing of it may change under its ephemeral key.
    fn write_restart(&self, slot: u32, out: &mut [u8]) -> Result<(Handshake, usize), ModernError> {
        let flow = self.flows.get(slot as usize).ok_or(ModernError::UnknownFlow)?;
        let resume = flow.resume.as_ref().ok_or(ModernError::UnknownFlow)?;
        let source = self.own_id(slot, flow.generation, flow.sequence(0));
        let initial = Initial {
            pattern: RESTART_PATTERN,
            suites: self.config.suites,
            destination: flow.peer.current,
            source,
            token: &[],
            message: &[],
        };
        let out = out.get_mut(..LEAST_INITIAL_OCTETS).ok_or(ModernError::NoRoom)?;
        let clear = initial.write_clear(out)?;
        let (head, message) = out.split_at_mut_checked(clear).ok_or(ModernError::NoRoom)?;
        let mut handshake = handshake(Role::Client, resume, head)?;
        let report = Report::of(flow, None, self.receive_octets);
        let window = self.receive_octets / flow.places() * flow.places();
        let parameters = Agreement::parameters(flow, source, window as u64, None);
        let mut payload = [0; LEAST_INITIAL_OCTETS];
        let octets = report.write(&mut payload)?;
        let rest = payload.get_mut(octets..).ok_or(ModernError::NoRoom)?;
        let least = message.len().saturating_sub(ADDED + octets);
        let octets = octets + parameters.write(rest, least)?;
        let payload = payload.get(..octets).ok_or(ModernError::NoRoom)?;
        let mut mac = self.answer_mac();
        mac.update(b"restart");
        mac.update(&slot.to_be_bytes());
        mac.update(&flow.generation.to_be_bytes());
        mac.update(&flow.own_restarts.to_be_bytes());
        let written = handshake.write(mac.finalize().into_bytes().into(), payload, message)?;
        Ok((handshake, clear + written))
    }

    /// The next message 1, if it is time.
    pub(super) fn build_restart(
        &mut self,
        slot: u32,
        now: Instant,
        out: &mut [u8],
    ) -> Option<(PathAddress, usize)> {
        let flow = self.flow(slot)?;
        if !core::mem::take(&mut flow.try_due) {
            return None;
        }
        flow.tried_ms = milliseconds(now);
        let address = flow.address;
        self.count(Counter::Probes, 1);
        match self.write_restart(slot, out) {
            Ok((_, octets)) => Some((address, octets)),
            Err(error) => {
                self.end(slot, CloseReason::Protocol(error));
                None
            }
        }
    }

    /// A peer that has restarted wants to go on.
    pub(super) fn on_restart(
        &mut self,
        now: Instant,
        path: PathAddress,
        datagram: &[u8],
        initial: &Initial,
        clear: &[u8],
    ) -> Result<(), ModernError> {
        let content = self.ids.open(&initial.destination).ok_or(ModernError::UnknownFlow)?;
        let (slot, server) = (content.slot, self.config.server);
        let flow = self.flow(slot).ok_or(ModernError::UnknownFlow)?;
        let lives = matches!(flow.phase, Phase::Open | Phase::Suspended);
        if !lives || flow.generation != content.generation || content.server != server {
            return Err(ModernError::UnknownFlow);
        }
        let resume = flow.resume.as_ref().ok_or(ModernError::UnknownFlow)?;
        let mut handshake = handshake(Role::Server, resume, clear)?;
        let mut payload = [0; super::handshake::MAX_INITIAL_OCTETS];
        let octets = handshake.read(initial.message, &mut payload)?;
        let payload = payload.get(..octets).unwrap_or(&[]);
        let (asked, report) = (Parameters::parse(payload)?, Report::parse(payload)?);
        if asked.send_to != Some(initial.source) || report.refused {
            return Err(ModernError::Parameter);
        }
        let digest = self.answer_mac().chain_update(datagram).finalize().into_bytes();
        let mark = digest.first_chunk().copied().unwrap_or_default();
        let flow = self.flow(slot).ok_or(ModernError::UnknownFlow)?;
        if flow.resuming && flow.role == Role::Client {
            // Both have restarted: the client's message is the one that counts, and now it is known where to send it.
            if report.restarts > flow.peer_restarts {
                flow.address = path;
                self.try_restart(slot, now);
            }
            return Err(ModernError::Sequence);
        }
        let (known, active) = (flow.peer_restarts, flow.active);
        let active = self.actives.get(active as usize);
        let pending = active.and_then(|active| active.pending.as_ref());
        if let Some(pending) = pending.filter(|pending| pending.mark == mark) {
            // The answer was lost: the same once more.
            let answer = pending.answer.clone();
            return self.reply(path, &answer);
        }
        let known = pending.map_or(known, |pending| known.max(pending.agreement.peer.restarts));
        if report.restarts <= known {
            return self.refuse_restart(now, path, initial, handshake);
        }
        self.answer_restart(slot, path, initial, handshake, asked, report, mark)
    }

    /// Says that a ticket is too old, or that somebody else goes on with it.
    fn refuse_restart(
        &mut self,
        now: Instant,
        path: PathAddress,
        initial: &Initial,
        mut handshake: Handshake,
    ) -> Result<(), ModernError> {
        if milliseconds(now).wrapping_sub(self.refused_ms) >= LEAST_TRY_MS {
            self.refused_ms = milliseconds(now);
            let mut payload = [0; 8];
            let octets = Report { refused: true, ..Report::default() }.write(&mut payload)?;
            let ephemeral = self.random.array();
            let payload = payload.get(..octets).unwrap_or(&[]);
            let answer = write_answer(&mut handshake, ephemeral, initial.source, payload)?;
            self.reply(path, &answer)?;
        }
        Err(ModernError::OldTicket)
    }

    #[expect(clippy::too_many_arguments, reason = "a message in its parts")]
    fn answer_restart(
        &mut self,
        slot: u32,
        path: PathAddress,
        initial: &Initial,
        mut handshake: Handshake,
        asked: Parameters,
        peer: Report,
        mark: [u8; 16],
    ) -> Result<(), ModernError> {
        let both = initial.suites & self.config.suites;
        let suite = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305]
            .into_iter()
            .find(|suite| both & suite.bit() != 0)
            .ok_or(ModernError::Suite)?;
        let ephemeral = self.random.array();
        let server = self.config.server;
        self.wake(slot).ok_or(ModernError::NoActive)?;
        let flow = self.flow(slot).ok_or(ModernError::UnknownFlow)?;
        let first_number = first_number(flow.own_restarts, peer.restarts)?;
        let epoch = flow.id_epoch.wrapping_add(1);
        let sequence = u32::from(epoch) << 16;
        let content = IdContent { server, slot, generation: flow.generation, sequence };
        let send_to = self.ids.seal(content);
        let (flow, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        let own = Report::of(flow, Some(active), 0);
        let window = own_window(active);
        let parameters = Agreement::parameters(flow, send_to, window, Some(suite));
        let mut payload = [0; ANSWER_OCTETS];
        let octets = own.write(&mut payload)?;
        let rest = payload.get_mut(octets..).ok_or(ModernError::NoRoom)?;
        let octets = octets + parameters.write(rest, 0)?;
        let payload = payload.get(..octets).ok_or(ModernError::NoRoom)?;
        let answer = write_answer(&mut handshake, ephemeral, initial.source, payload)?;
        let secrets = handshake.finish()?;
        let agreement = Agreement {
            own_window: window,
            own,
            ..agreement(flow, &secrets, Role::Server, suite, first_number, &asked, peer)?
        };
        active.pending =
            Some(Pending { epoch, mark, answer: answer.clone(), address: path, agreement });
        self.reschedule(slot);
        self.reply(path, &answer)
    }

    /// The peer's answer to this end's restart.
    pub(super) fn on_restart_answer(
        &mut self,
        now: Instant,
        slot: u32,
        answer: &Answer,
    ) -> Result<(), ModernError> {
        // A forged answer must not spoil the handshake, so each one is read by a handshake of its own.
        let mut initial = [0; LEAST_INITIAL_OCTETS];
        let (mut handshake, _) = self.write_restart(slot, &mut initial)?;
        let mut payload = [0; super::handshake::MAX_INITIAL_OCTETS];
        let octets = handshake.read(answer.message, &mut payload)?;
        let payload = payload.get(..octets).unwrap_or(&[]);
        let (granted, peer) = (Parameters::parse(payload)?, Report::parse(payload)?);
        let secrets = handshake.finish()?;
        if peer.refused {
            self.end(slot, CloseReason::Protocol(ModernError::OldTicket));
            return Ok(());
        }
        let suite = granted.suite.ok_or(ModernError::Parameter)?;
        if suite.bit() & self.config.suites == 0 {
            return Err(ModernError::Suite);
        }
        let receive_octets = self.receive_octets;
        let congestion = self.config.congestion;
        self.wake(slot).ok_or(ModernError::NoActive)?;
        let (flow, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        let first_number = first_number(flow.own_restarts, peer.restarts)?;
        let own = Report::of(flow, None, receive_octets);
        let agreement = Agreement {
            own_window: own_window(active),
            own,
            ..agreement(flow, &secrets, Role::Client, suite, first_number, &granted, peer)?
        };
        let path = Path::new(flow.address, Proof::Proven, congestion, flow.datagram, now);
        if let Some(place) = active.path_mut() {
            *place = path;
        }
        // Both had restarted, and the server has the client's answer first: what it had answered itself is off.
        active.pending = None;
        flow.heard = now;
        flow.phase = Phase::Open;
        self.restarted(slot, now, agreement, Events::RESUMED)
    }

    /// A packet of other keys than the present ones has come.
    pub(super) fn on_other_epoch(
        &mut self,
        now: Instant,
        content: IdContent,
        address: PathAddress,
        datagram: &mut [u8],
        marked: bool,
    ) -> Result<(), ModernError> {
        let slot = content.slot;
        let epoch = (content.sequence >> 16) as u16;
        let flow = self.flow(slot).ok_or(ModernError::UnknownFlow)?;
        let resuming = flow.resuming;
        let Some((_, active)) = self.pair(slot).filter(|(_, active)| {
            active.pending.as_ref().is_some_and(|pending| pending.epoch == epoch)
        }) else {
            if resuming {
                // The peer is there, and does not know yet: whoever has seen the id may be it, so it is asked where it is.
                if let Some(flow) = self.flow(slot) {
                    flow.address = address;
                }
                self.try_restart(slot, now);
            } else {
                self.seek_client(now, slot, address, datagram.len());
            }
            return Err(ModernError::OldKeys);
        };
        let pending = active.pending.as_mut().ok_or(ModernError::OldKeys)?;
        let opened = pending.agreement.opener.open(datagram)?;
        let pending = active.pending.take().ok_or(ModernError::OldKeys)?;
        self.confirm_path(now, slot, pending.address, address);
        let Some(flow) = self.flow(slot) else { return Err(ModernError::UnknownFlow) };
        (flow.id_epoch, flow.ids_given) = (epoch, 0);
        // Its message has served. What an answer tells of the peer's restarts does not count here: that message may still come.
        flow.peer_restarts = pending.agreement.peer.restarts;
        self.restarted(slot, now, pending.agreement, Events::empty())?;
        let octets = datagram.len();
        let payload = datagram.get(opened.payload.clone()).unwrap_or(&[]);
        let sequence = content.sequence & 0xffff;
        self.on_opened(now, (slot, sequence), address, octets, payload, &opened, marked)
    }

    /// A client has answered this server's restart and has moved before it heard anything under the new keys: so it still sends under the old ones,
    /// and what it has to hear goes to where it was. Whoever has seen the id may be it, and is challenged like any new address.
    fn seek_client(&mut self, now: Instant, slot: u32, address: PathAddress, octets: usize) {
        let config = self.config.clone();
        let Some((flow, active)) = self.pair(slot) else { return };
        let is_heard = active.opener.as_ref().is_none_or(Opener::has_opened);
        if is_heard || flow.role != Role::Server || flow.address == address {
            return;
        }
        let place = path_place(active, &config, flow.datagram, address, now, true);
        if let Some(path) = place.and_then(|place| active.paths.get_mut(place)) {
            path.on_received(octets);
            consider_move(now, active, place);
        }
        self.set_ready(slot);
        self.reschedule(slot);
    }

    /// The peer has shown what was sent to `answered`, so it is there, if that is where its packet came from.
    fn confirm_path(
        &mut self,
        now: Instant,
        slot: u32,
        answered: PathAddress,
        address: PathAddress,
    ) {
        let congestion = self.config.congestion;
        let Some((flow, active)) = self.pair(slot) else { return };
        active.give_up_outstanding();
        if answered != address {
            return;
        }
        let known = active.paths.iter().position(|path| path.is_used() && path.address == address);
        let others = active.paths.iter().enumerate();
        let oldest = others.min_by_key(|(_, path)| (path.is_used(), path.used));
        let Some(place) = known.or(oldest.map(|(place, _)| place)) else { return };
        if let Some(path) = active.paths.get_mut(place) {
            if known.is_none() {
                *path = Path::new(address, Proof::Proven, congestion, flow.datagram, now);
            }
            path.proof = Proof::Proven;
        }
        active.wanted = None;
        let moved = flow.address != address;
        active.current = place;
        flow.address = address;
        if moved {
            self.tell(slot, Events::MOVED);
            self.count(Counter::Moved, 1);
        }
    }

    /// The flow goes on with new keys.
    fn restarted(
        &mut self,
        slot: u32,
        now: Instant,
        agreement: Agreement,
        events: Events,
    ) -> Result<(), ModernError> {
        let (flow, active) = self.pair(slot).ok_or(ModernError::UnknownFlow)?;
        let result = go_over(flow, active, agreement);
        flow.rekeyed_s = seconds(now);
        if let Err(error) = result {
            self.end(slot, CloseReason::Protocol(error));
            return Err(error);
        }
        self.remove_idle(slot);
        self.count(Counter::Restarted, 1);
        self.tell(slot, events | Events::RESTARTED | Events::READABLE | Events::WRITABLE);
        self.set_ready(slot);
        self.reschedule(slot);
        Ok(())
    }
}

/// Message 2 in an Answer.
fn write_answer(
    handshake: &mut Handshake,
    ephemeral: [u8; KEY_OCTETS],
    destination: ConnectionId,
    payload: &[u8],
) -> Result<Vec<u8, ANSWER_OCTETS>, ModernError> {
    let mut out = Vec::new();
    out.resize_default(ANSWER_OCTETS).map_err(|_| ModernError::NoRoom)?;
    let head = Answer { destination, message: &[] }.write_clear(&mut out)?;
    let place = out.get_mut(head..).ok_or(ModernError::NoRoom)?;
    let message = handshake.write(ephemeral, payload, place)?;
    out.truncate(head + message);
    Ok(out)
}

/// What both messages come to, for the end with that role in the handshake.
fn agreement(
    flow: &Flow,
    secrets: &SessionSecrets,
    role: Role,
    suite: Suite,
    first_number: u64,
    said: &Parameters,
    peer: Report,
) -> Result<Agreement, ModernError> {
    let (sends, takes) = match role {
        Role::Client => (&secrets.client_to_server, &secrets.server_to_client),
        Role::Server => (&secrets.server_to_client, &secrets.client_to_server),
    };
    Ok(Agreement {
        sealer: Sealer::new(suite, sends.clone(), first_number),
        opener: Opener::new(suite, takes.clone()),
        first_number,
        send_to: said.send_to.ok_or(ModernError::Parameter)?,
        datagram: said.largest_datagram.ok_or(ModernError::Parameter)?,
        keep_alive_s: said.keep_alive_s.unwrap_or(flow.keep_alive_s).max(super::LEAST_KEEP_ALIVE_S),
        peer_window: said.receive_window.ok_or(ModernError::Parameter)?.into(),
        own_window: 0,
        peer,
        own: Report::default(),
    })
}
