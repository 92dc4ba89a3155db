//! Flows that outlive their process: what is kept of them, how they are made again, and what the application is told (`SPEC.md`, section 7).

use super::super::active::Active;
use super::super::flow::{NONE, Phase};
use super::super::restart::first_number;
use super::super::ticket::{Ticket, TicketStream};
use super::super::{ModernError, Role, Sealer};
use super::{Endpoint, FlowId};
use crate::node::Instant;

impl Endpoint<'_> {
    /// What has to be kept of a flow so that [`Endpoint::restore`] makes it again; nothing for one that is not open, or
    /// of which a client does not know yet whether the server has it ([`super::Event::Connected`] tells).
    ///
    /// The peer need not send again what the ticket says is delivered: all that was read, or less after [`Ticket::set_delivered`]. So a ticket is
    /// right if it is written after what the application keeps of the octets; an older ticket only makes the peer send more again.
    pub fn ticket(&self, flow: FlowId) -> Option<Ticket> {
        let slot = self.check(flow)?;
        let known = self.flows.get(slot as usize)?;
        if !matches!(known.phase, Phase::Open | Phase::Suspended) {
            return None;
        }
        let active = self.actives.get(known.active as usize);
        // The server may still forget what this client has not yet heard from.
        if active.is_some_and(|active| active.opening.is_some()) {
            return None;
        }
        let streams = match active.filter(|_| !known.resuming) {
            Some(active) => active
                .streams
                .iter()
                .flatten()
                .map(|stream| TicketStream {
                    id: stream.id,
                    delivered: stream.receive.read_offset(),
                    ended: stream.receive.end_told,
                })
                .collect(),
            None => known
                .streams
                .iter()
                .map(|stream| TicketStream {
                    id: stream.id(),
                    delivered: stream.received,
                    ended: stream.receive_ended(),
                })
                .collect(),
        };
        let opened = (known.peer_opened, known.opened_ahead);
        let (peer_opened, opened_ahead) =
            active.filter(|_| !known.resuming).map_or(opened, Active::opened_by_peer);
        Some(Ticket {
            role: known.role,
            boundaries: known.boundaries,
            counted: known.resuming,
            own_streams: known.own_streams,
            peer_streams: known.peer_streams,
            id: flow,
            id_epoch: known.id_epoch,
            datagram: known.datagram,
            own_restarts: known.own_restarts,
            peer_restarts: known.peer_restarts,
            keep_alive_s: known.keep_alive_s,
            peer_window: known.peer_window,
            opened: known.opened,
            peer_opened,
            opened_ahead,
            address: known.address,
            peer: known.peer.current,
            resume: known.resume.clone()?,
            streams,
        })
    }

    /// Makes a flow again out of its ticket, which [`Ticket::count_up`] has given and which has been written and synced since. The endpoint
    /// must have the `id_key` and the server's number that it had. The flow is [`Phase::Suspended`] until the peer has answered;
    /// [`super::Event::Restarted`] tells that it goes on. Tickets are best restored in the order of their slots, before other flows are opened.
    ///
    /// # Errors
    /// [`ModernError::Sequence`] for a ticket that was not counted up, [`ModernError::TableFull`] when the flow's place is taken or not there,
    /// [`ModernError::AddressBudget`], [`ModernError::NumbersUsedUp`].
    pub fn restore(&mut self, now: Instant, ticket: &Ticket) -> Result<FlowId, ModernError> {
        let now = self.advance(now);
        if !ticket.counted {
            return Err(ModernError::Sequence);
        }
        first_number(ticket.own_restarts, ticket.peer_restarts)?;
        let slot = ticket.id.slot;
        if self.flow(slot).is_none_or(|flow| flow.phase != Phase::Free) {
            return Err(ModernError::TableFull);
        }
        if ticket.role == Role::Server && !self.budget(&ticket.address.ip, true) {
            return Err(ModernError::AddressBudget);
        }
        if !self.take_place(slot) {
            if ticket.role == Role::Server {
                self.budget(&ticket.address.ip, false);
            }
            return Err(ModernError::TableFull);
        }
        let Some(flow) = self.flow(slot) else { return Err(ModernError::TableFull) };
        flow.phase = Phase::Suspended;
        flow.role = ticket.role;
        flow.generation = ticket.id.generation;
        flow.resume = Some(ticket.resume.clone());
        flow.peer.current = ticket.peer;
        flow.address = ticket.address;
        flow.streams = ticket.sleeping_streams();
        flow.opened = ticket.opened;
        flow.peer_opened = ticket.peer_opened;
        flow.opened_ahead = ticket.opened_ahead;
        flow.own_streams = ticket.own_streams;
        flow.peer_streams = ticket.peer_streams;
        flow.boundaries = ticket.boundaries;
        flow.datagram = ticket.datagram;
        flow.peer_window = ticket.peer_window;
        flow.keep_alive_s = ticket.keep_alive_s.max(super::LEAST_KEEP_ALIVE_S);
        flow.heard = now;
        flow.own_restarts = ticket.own_restarts;
        flow.peer_restarts = ticket.peer_restarts;
        flow.id_epoch = ticket.id_epoch;
        flow.is_known = true;
        flow.resuming = true;
        flow.try_due = true;
        self.add_idle(slot);
        self.set_ready(slot);
        Ok(ticket.id)
    }

    /// Takes that place of the table out of the list of free ones.
    fn take_place(&mut self, slot: u32) -> bool {
        let mut at = self.free_flow;
        if at == slot {
            return self.take_flow().is_some();
        }
        while let Some(flow) = self.flow(at) {
            let next = flow.ready_next;
            if next == slot {
                let after = self.flow(slot).map_or(NONE, |flow| flow.ready_next);
                if let Some(flow) = self.flow(at) {
                    flow.ready_next = after;
                }
                // To the head of the list, and off it.
                let first = core::mem::replace(&mut self.free_flow, slot);
                if let Some(flow) = self.flow(slot) {
                    flow.ready_next = first;
                }
                return self.take_flow().is_some();
            }
            at = next;
        }
        false
    }

    /// Where the application must write a stream again, from which octet on, after an end has restarted: until this is asked, writes fail with
    /// [`super::StreamError::Rewound`]. Nothing when the stream goes on by itself.
    pub fn resume_offset(&mut self, flow: FlowId, stream: u32) -> Option<u64> {
        let slot = self.check(flow)?;
        let (_, active) = self.pair(slot)?;
        let place = active.find(stream)?;
        active.streams.get_mut(place)?.as_mut()?.send.take_rewound()
    }

    /// Whether [`Endpoint::resume_offset`] has something to say.
    pub fn must_write_again(&self, flow: FlowId, stream: u32) -> bool {
        let known = self.check(flow).and_then(|slot| self.flows.get(slot as usize));
        let active = known.and_then(|known| self.actives.get(known.active as usize));
        let stream = active.and_then(|active| active.streams.get(active.find(stream)?)?.as_ref());
        stream.is_some_and(|stream| stream.send.is_rewound())
    }

    /// How often the ends of a flow have restarted: this one and its peer.
    pub fn restarts(&self, flow: FlowId) -> Option<(u32, u32)> {
        let slot = self.check(flow)?;
        let flow = self.flows.get(slot as usize)?;
        Some((flow.own_restarts, flow.peer_restarts))
    }

    /// The number that a flow's next packet has; nothing while it sleeps or waits for its peer's answer.
    pub fn next_number(&self, flow: FlowId) -> Option<u64> {
        let known = self.check(flow).and_then(|slot| self.flows.get(slot as usize))?;
        let active = self.actives.get(known.active as usize)?;
        active.sealer.as_ref().map(Sealer::next_number)
    }

    /// Whether a flow out of a ticket still waits for its peer's answer.
    pub fn is_resuming(&self, flow: FlowId) -> bool {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize));
        flow.is_some_and(|flow| flow.resuming)
    }
}
