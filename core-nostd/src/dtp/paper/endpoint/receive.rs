//! What datagrams do.

use super::super::{
    Accepted, Challenge, DtpOption, Flags, FlowState, Header, NONCE_OCTETS, Packet, PacketWriter,
    PaperError, RESPONSE_OCTETS, Secret, SequenceNumber, Syn, SynAck,
};
use super::flow::{Events, NONE, Phase};
use super::transmit::ACK_DELAY;
use super::{
    CloseReason, Endpoint, MAX_UNPROVEN, REPLY_OCTETS, Reply, SEGMENT_OCTETS, UNPROVEN_OF_ADDRESS,
};
use crate::dtp::modern::PathAddress;
use crate::dtp::modern::timers::NEVER;
use crate::node::Instant;
use core::time::Duration;
use sha1::{Digest, Sha1};

/// Segments of a young flow that are acknowledged at once: its sender waits for each of them.
const QUICK_SEGMENTS: u32 = 32;

/// Nobody else can have a flow's challenge replaced by one for itself more often than this.
const CHALLENGE_PAUSE: Duration = Duration::from_secs(1);

/// The 64-bit number near `near` that is `wire` modulo 2^32.
fn widen(near: u64, wire: u32) -> u64 {
    near.saturating_add_signed(i64::from(SequenceNumber(wire).since(SequenceNumber(near as u32))))
}

impl Endpoint<'_> {
    /// Takes a datagram.
    ///
    /// # Errors
    /// Why it was dropped, which is counted too.
    pub fn handle(
        &mut self,
        now: Instant,
        path: PathAddress,
        datagram: &[u8],
    ) -> Result<(), PaperError> {
        self.now = self.now.max(now);
        let result = Packet::parse(datagram).and_then(|packet| self.on_packet(path, &packet));
        if let Err(error) = result
            && let Some(drops) = self.drops.get_mut(error as usize)
        {
            *drops += 1;
        }
        result
    }

    fn on_packet(&mut self, path: PathAddress, packet: &Packet) -> Result<(), PaperError> {
        packet.check()?;
        let slot = self.search(packet.header.flow_id()).1;
        let phase = slot.and_then(|slot| self.flows.get(slot as usize)).map(|flow| flow.phase);
        match (slot, phase) {
            (None, _) if packet.flags() == Flags::SYN => self.on_syn(None, path, packet),
            (Some(slot), Some(Phase::Unproven)) if packet.flags() == Flags::SYN => {
                self.on_syn(Some(slot), path, packet)
            }
            (Some(slot), Some(Phase::Opening)) => self.on_syn_ack(slot, path, packet),
            (Some(slot), Some(Phase::Unproven | Phase::Open | Phase::Lingering)) => {
                self.on_flow_packet(slot, path, packet)
            }
            _ => Err(PaperError::UnknownFlow),
        }
    }

    fn reply(
        &mut self,
        path: PathAddress,
        header: Header,
        options: &[DtpOption],
        payload: &[u8],
    ) -> Result<(), PaperError> {
        let mut datagram = [0; REPLY_OCTETS];
        let mut writer = PacketWriter::new(&mut datagram, header)?;
        options.iter().try_for_each(|&option| writer.option(option))?;
        let octets = writer.finish(payload)?;
        let reply = Reply { path, octets, datagram };
        self.replies.push_back(reply).map_err(|_| PaperError::ReplyQueue)
    }

    fn on_syn(
        &mut self,
        known: Option<u32>,
        path: PathAddress,
        packet: &Packet,
    ) -> Result<(), PaperError> {
        if !self.config.serves {
            return Err(PaperError::NotServing);
        }
        let syn = Syn::read(packet)?;
        let digest: [u8; 20] = Sha1::digest(packet.payload).into();
        let mark = digest.first_chunk().copied().unwrap_or_default();
        let slot = match known {
            Some(slot) => {
                // The first SYN's key stays; only its own repetition is answered again.
                let same = self.flows.get(slot as usize).is_some_and(|flow| {
                    flow.mark == mark
                        && flow.path == path
                        && flow.receive_next as u32 == syn.next_sequence
                });
                if !same {
                    return Err(PaperError::SynOnEstablished);
                }
                slot
            }
            None => self.begin_unproven(path, &syn, mark)?,
        };
        self.answer_syn(slot, &syn)
    }

    fn begin_unproven(
        &mut self,
        path: PathAddress,
        syn: &Syn,
        mark: [u8; 8],
    ) -> Result<u32, PaperError> {
        let of_address = self
            .unproven
            .iter()
            .filter_map(|&slot| self.flows.get(slot as usize))
            .filter(|flow| flow.path.ip == path.ip)
            .count();
        if of_address >= UNPROVEN_OF_ADDRESS {
            return Err(PaperError::AddressBudget);
        }
        if (self.unproven.len() >= MAX_UNPROVEN || self.free_flow == NONE)
            && let Some(&oldest) = self.unproven.first()
        {
            self.free(oldest);
        }
        let slot = self.take_flow(syn.flow_id).ok_or(PaperError::TableFull)?;
        let first = self.first_sequence();
        let secret = Secret::new(self.random.array());
        let granted = self.limits.grant(syn.options.keep_alive_s);
        let (now, sack) = (self.now, self.config.sack && syn.options.sack_permitted);
        if let Some(flow) = self.flows.get_mut(slot as usize) {
            (flow.phase, flow.server, flow.path, flow.mark) = (Phase::Unproven, true, path, mark);
            let next = first + syn.key.octets() as u64;
            (flow.unacknowledged, flow.next, flow.secret) = (next, next, secret);
            flow.receive_next = u64::from(syn.next_sequence);
            (flow.peer_shift, flow.sack, flow.keep_alive_s) =
                (syn.options.window_shift, sack, granted);
        }
        let _ = self.unproven.push(slot);
        self.wake_at(slot, now.after(super::UNPROVEN_LIFETIME));
        Ok(slot)
    }

    fn answer_syn(&mut self, slot: u32, syn: &Syn) -> Result<(), PaperError> {
        let seed = self.random.array();
        let mut encrypted = [0; super::MAX_KEY_BITS / 8];
        let flow = self.flows.get(slot as usize).ok_or(PaperError::UnknownFlow)?;
        let octets = syn.key.encrypt(&seed, &flow.secret, &mut encrypted)?;
        let sequence = (flow.next as u32).wrapping_sub(octets as u32);
        let window = self.actives.first().map_or(0, |active| active.receive.len());
        let header = Header::new(
            flow.id,
            sequence,
            syn.next_sequence,
            Flags::SYN | Flags::ACK,
            window.min(usize::from(u16::MAX)) as u16,
        );
        let (path, sack, seconds) = (flow.path, flow.sack, flow.keep_alive_s);
        let host = DtpOption::HostId(self.config.host_id);
        let shift = DtpOption::WindowScale { shift: self.config.window_shift };
        let granted = syn.options.keep_alive_s.map(|_| DtpOption::KeepAlive { seconds });
        let sack = sack.then_some(DtpOption::SackPermitted);
        let options = [
            host,
            shift,
            granted.unwrap_or(DtpOption::End),
            // Nothing is read behind an end, so the grant stands before it.
            sack.unwrap_or(DtpOption::End),
        ];
        let order: &[DtpOption] = match (granted, sack) {
            (None, Some(sack)) => &[host, shift, sack],
            _ => &options,
        };
        self.reply(path, header, order, encrypted.get(..octets).unwrap_or(&[]))
    }

    fn on_syn_ack(
        &mut self,
        slot: u32,
        path: PathAddress,
        packet: &Packet,
    ) -> Result<(), PaperError> {
        let key = self.config.key.ok_or(PaperError::KeySize)?;
        let flow = self.flows.get(slot as usize).ok_or(PaperError::UnknownFlow)?;
        if flow.path.ip != path.ip {
            return Err(PaperError::AddressNotProven);
        }
        let answer = SynAck::read(packet, flow.next as u32, key.public.octets())?;
        if flow.next == flow.unacknowledged {
            return Err(PaperError::Ack);
        }
        let secret = key.private.decrypt(answer.encrypted_secret)?;
        let now = self.now;
        let (sack, asked) = (self.config.sack, self.config.keep_alive_s);
        let (flow, active) = self.pair(slot).ok_or(PaperError::NoActive)?;
        flow.phase = Phase::Open;
        flow.secret = secret;
        flow.path = path;
        flow.path.port = answer.options.port.unwrap_or(path.port);
        flow.unacknowledged = flow.next;
        (active.recover, active.resend, active.lost_below) = (flow.next, flow.next, flow.next);
        flow.receive_next = u64::from(answer.next_expected);
        flow.peer_window = u32::from(packet.header.window());
        flow.peer_shift = answer.options.window_shift;
        flow.sack = sack && answer.options.sack_permitted;
        let default = if asked == 0 { super::super::DEFAULT_KEEP_ALIVE_S } else { asked };
        flow.keep_alive_s = answer.options.keep_alive_s.unwrap_or(default);
        (flow.heard, flow.retry_at, flow.timeouts) = (now, NEVER, 0);
        flow.acknowledge_at = now;
        // Until something is heard the server may not know of the address.
        flow.probe_at = now.after(Duration::from_secs(1));
        self.tell(slot, Events::CONNECTED);
        self.wake_at(slot, now);
        Ok(())
    }

    fn on_flow_packet(
        &mut self,
        slot: u32,
        path: PathAddress,
        packet: &Packet,
    ) -> Result<(), PaperError> {
        let window = self.actives.first().map_or(0, |active| active.receive.len());
        let flow = self.flows.get(slot as usize).ok_or(PaperError::UnknownFlow)?;
        let active = self.actives.get(flow.active as usize);
        let proven = (flow.path.ip, flow.path.port) == (path.ip, path.port);
        let state = FlowState {
            flow_id: flow.id,
            receive_next: SequenceNumber(flow.receive_next as u32),
            receive_window: active.map_or(window, |active| active.room()) as u32,
            send_unacknowledged: SequenceNumber(flow.unacknowledged as u32),
            send_next: SequenceNumber(flow.next as u32),
            sack_permitted: flow.sack,
            challenge_outstanding: flow.candidate.is_some(),
            proof_outstanding: flow.proof_outstanding,
        };
        if flow.phase == Phase::Unproven {
            let exact = packet.header.acknowledgement() == flow.next as u32;
            if !proven || !exact || packet.flags().intersects(Flags::CHG | Flags::RSP) {
                return Err(PaperError::AddressNotProven);
            }
        }
        let accepted = match state.judge(packet, proven) {
            Ok(accepted) => accepted,
            Err(error) => {
                // Who sends what there is no room for, or asks whether this end is there, hears where it stands.
                if error == PaperError::OutOfWindow && proven {
                    self.acknowledge(slot, Duration::ZERO);
                }
                return Err(error);
            }
        };
        match accepted {
            Accepted::Proof => return self.on_proof(slot, path, packet),
            _ if !proven => return self.challenge(slot, path, &accepted),
            Accepted::Prove => return self.prove(slot, path, packet),
            Accepted::Close => self.end(slot, CloseReason::Reset),
            Accepted::ChallengeReset => self.acknowledge(slot, Duration::ZERO),
            Accepted::Proven => {
                self.on_acknowledgement(slot, packet, &state);
                self.send_again(slot);
            }
            Accepted::Segment { new, fin, .. } => {
                if self.activate(slot).is_none() {
                    return Err(PaperError::NoActive);
                }
                self.become_open(slot);
                self.on_acknowledgement(slot, packet, &state);
                self.on_data(slot, packet, new, fin)?;
            }
        }
        self.heard(slot);
        Ok(())
    }

    fn become_open(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        if flow.phase == Phase::Unproven {
            flow.phase = Phase::Open;
            self.unproven.retain(|&other| other != slot);
            self.tell(slot, Events::INCOMING);
        }
    }

    fn heard(&mut self, slot: u32) {
        let now = self.now;
        let Some(flow) = self.flows.get_mut(slot as usize) else { return };
        flow.heard = now;
        flow.probe_at = NEVER;
        let back = flow.timeouts > 1;
        flow.timeouts = 0;
        if back {
            self.tell(slot, Events::RESUMED);
        }
        self.wake_at(slot, now);
    }

    pub(super) fn acknowledge(&mut self, slot: u32, delay: Duration) {
        let at = self.now.after(delay);
        if let Some(flow) = self.flows.get_mut(slot as usize) {
            flow.acknowledge_at = flow.acknowledge_at.min(at);
            self.wake_at(slot, at);
        }
    }

    /// Sends a nonce to where a good packet came from that is not where the peer is.
    fn challenge(
        &mut self,
        slot: u32,
        path: PathAddress,
        accepted: &Accepted,
    ) -> Result<(), PaperError> {
        if !matches!(accepted, Accepted::Segment { .. }) {
            return Err(PaperError::AddressNotProven);
        }
        let now = self.now;
        let nonce: [u8; NONCE_OCTETS] = self.random.array();
        let flow = self.flows.get_mut(slot as usize).ok_or(PaperError::UnknownFlow)?;
        let fresh = flow.candidate.filter(|(_, challenge)| now < challenge.expires());
        let challenge = match fresh {
            Some((candidate, challenge)) if candidate == path => challenge,
            Some((_, challenge)) if now < challenge.sent().after(CHALLENGE_PAUSE) => {
                return Err(PaperError::AddressNotProven);
            }
            _ => Challenge::new(nonce, now),
        };
        flow.candidate = Some((path, challenge));
        let header = Header::new(flow.id, 0, 0, Flags::CHG, 0);
        self.reply(path, header, &[], challenge.nonce())
    }

    /// Answers the peer's nonce. Only the peer's own address may ask: anybody else could pass the answer off as its own.
    fn prove(&mut self, slot: u32, path: PathAddress, packet: &Packet) -> Result<(), PaperError> {
        let nonce = packet.payload.first_chunk().ok_or(PaperError::NonceLength)?;
        let flow = self.flows.get_mut(slot as usize).ok_or(PaperError::UnknownFlow)?;
        let response: [u8; RESPONSE_OCTETS] = flow.secret.respond(nonce);
        flow.proof_outstanding = true;
        let header = Header::new(flow.id, 0, 0, Flags::RSP, 0);
        self.reply(path, header, &[], &response)
    }

    fn on_proof(
        &mut self,
        slot: u32,
        path: PathAddress,
        packet: &Packet,
    ) -> Result<(), PaperError> {
        let now = self.now;
        let flow = self.flows.get_mut(slot as usize).ok_or(PaperError::UnknownFlow)?;
        let (candidate, challenge) = flow.candidate.ok_or(PaperError::NoChallenge)?;
        if candidate != path {
            return Err(PaperError::AddressNotProven);
        }
        let mut outstanding = Some(challenge);
        let result = Challenge::answer(&mut outstanding, now, &flow.secret, packet.payload);
        flow.candidate = outstanding.map(|challenge| (candidate, challenge));
        result?;
        flow.path = path;
        (flow.smoothed_us, flow.variation_us) = (0, 0);
        let header = Header::new(
            flow.id,
            flow.next as u32,
            flow.receive_next as u32,
            Flags::AUTH | Flags::ACK,
            0,
        );
        self.tell(slot, Events::MOVED);
        self.send_again(slot);
        self.heard(slot);
        self.reply(path, header, &[], &[])
    }

    /// All that is on its way went to where nobody is: it goes out again at once, in slow start.
    fn send_again(&mut self, slot: u32) {
        let Some((flow, active)) = self.pair(slot) else { return };
        flow.proof_outstanding = false;
        active.all_lost(flow.unacknowledged, flow.next);
        active.window = 2 * SEGMENT_OCTETS;
        self.acknowledge(slot, Duration::ZERO);
    }

    fn on_acknowledgement(&mut self, slot: u32, packet: &Packet, state: &FlowState) {
        let now = self.now;
        let Some((flow, active)) = self.pair(slot) else { return };
        let acknowledged = widen(flow.unacknowledged, packet.header.acknowledgement());
        if acknowledged < flow.unacknowledged || acknowledged > flow.next {
            return;
        }
        // An AUTH says nothing of a window.
        let window = u32::from(packet.header.window()) << flow.peer_shift;
        let same_window = window == flow.peer_window;
        if !packet.flags().contains(Flags::AUTH) {
            flow.peer_window = window;
        }
        for block in state.sack_blocks(packet).flatten() {
            let left = widen(flow.unacknowledged, block.left);
            active.peer_beyond.insert_forgetting(left..widen(left, block.right));
        }
        let newly = acknowledged - flow.unacknowledged;
        if newly > 0 {
            flow.unacknowledged = acknowledged;
            let octets = (newly as usize).min(active.send_octets);
            active.send_start = (active.send_start + octets) % active.send.len().max(1);
            active.send_octets -= octets;
            active.peer_beyond.remove(0..acknowledged);
            active.resend = active.resend.max(acknowledged);
            flow.retry_at = NEVER;
            if let Some((end, sent)) = active.timed
                && end <= acknowledged
            {
                active.timed = None;
                flow.measure(now.since(sent));
            }
            active.grow(newly as u32, acknowledged);
            if flow.wants_room && active.send_octets <= active.send.len() / 2 {
                flow.wants_room = false;
                self.tell(slot, Events::WRITABLE);
            }
        } else if flow.next > flow.unacknowledged
            && packet.sequence_len() == 0
            && (same_window || !active.peer_beyond.is_empty())
        {
            active.duplicates += 1;
        }
        let Some((flow, active)) = self.pair(slot) else { return };
        active.find_losses(flow.unacknowledged, flow.next);
    }

    fn on_data(
        &mut self,
        slot: u32,
        packet: &Packet,
        new: core::ops::Range<usize>,
        fin: bool,
    ) -> Result<(), PaperError> {
        let taken = packet.sequence_len();
        let Some((flow, active)) = self.pair(slot) else { return Err(PaperError::NoActive) };
        let sequence = packet.header.sequence();
        if taken == 0 {
            // The number before the next one and no octet: the peer asks whether this end is there.
            if sequence == (flow.receive_next as u32).wrapping_sub(1) {
                self.acknowledge(slot, Duration::ZERO);
            }
            return Ok(());
        }
        let start = widen(flow.receive_next, sequence);
        if fin {
            flow.peer_fin_at = Some(start + packet.payload.len() as u64);
        }
        let (from, to) = (start + new.start as u64, start + new.end as u64);
        let in_order = from <= flow.receive_next;
        let before = flow.receive_next;
        if to > flow.receive_next && !flow.peer_fin {
            let ahead = from.saturating_sub(flow.receive_next) as usize;
            if !in_order && !active.beyond.insert(from..to) {
                self.acknowledge(slot, Duration::ZERO);
                return Err(PaperError::Gaps);
            }
            active.put(ahead, packet.payload.get(new).unwrap_or(&[]));
            if in_order {
                flow.receive_next = active.beyond.absorb(to);
                active.unread += (flow.receive_next - before) as usize;
            }
        }
        let ended = flow.peer_fin_at == Some(flow.receive_next) && !flow.peer_fin;
        if ended {
            flow.peer_fin = true;
            flow.receive_next += 1;
        }
        flow.segments = flow.segments.saturating_add(1);
        flow.unacknowledged_segments = flow.unacknowledged_segments.saturating_add(1);
        let at_once = !in_order
            || flow.receive_next == before
            || ended
            || flow.segments < QUICK_SEGMENTS
            || flow.unacknowledged_segments >= 2
            || !active.beyond.is_empty();
        let news = flow.receive_next > before;
        self.acknowledge(slot, if at_once { Duration::ZERO } else { ACK_DELAY });
        if news {
            self.tell(slot, Events::READABLE);
        }
        Ok(())
    }
}
