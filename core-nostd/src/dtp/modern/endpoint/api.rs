//! What applications do with flows and their streams.

use super::super::active::{SLEEP_AFTER, Stream};
use super::super::flow::{CloseReason, MAX_STREAMS, Phase};
use super::super::recovery::Control;
use super::super::restart::PATIENCE;
use super::super::{PathAddress, Role};
use super::{Endpoint, FlowId};
use crate::named::named_enum;

named_enum! {
    /// Why an application's request is refused.
    pub enum StreamError {
        /// The flow is gone.
        NoFlow = "no_flow",
        /// The flow has no such stream, or it is done with.
        NoStream = "no_stream",
        /// As many streams are open as the peer takes.
        TooManyStreams = "too_many_streams",
        /// All active parts are in use, or the peer has not answered since this end has restarted: try again.
        Busy = "busy",
        /// This end has finished its direction.
        Finished = "finished",
        /// The peer has given its direction up, or has restarted and what it had sent is gone.
        Reset = "reset",
        /// An end has restarted: the application must ask from where to write again ([`Endpoint::resume_offset`]).
        Rewound = "rewound",
        /// The flow does not keep the boundaries of messages: both ends have to want it.
        NoBoundaries = "no_boundaries",
        /// The message does not fit into the buffers of both ends.
        MessageTooLarge = "message_too_large",
        /// The message does not fit into the caller's buffer; it is still there.
        BufferTooSmall = "buffer_too_small",
        /// The stream ended in the middle of a message.
        MessageCut = "message_cut",
    }
}

impl<'m> Endpoint<'m> {
    /// The place of a flow that lives.
    pub(super) fn check(&self, flow: FlowId) -> Option<u32> {
        let known = self.flows.get(flow.slot as usize)?;
        (known.generation == flow.generation && known.phase != Phase::Free).then_some(flow.slot)
    }

    pub(super) fn usable(&mut self, flow: FlowId) -> Result<u32, StreamError> {
        let slot = self.check(flow).ok_or(StreamError::NoFlow)?;
        let flow = self.flow(slot).ok_or(StreamError::NoFlow)?;
        match flow.phase {
            // Where its streams stand is not known yet.
            Phase::Suspended if flow.resuming => Err(StreamError::Busy),
            Phase::Open | Phase::Suspended => Ok(slot),
            _ => Err(StreamError::NoFlow),
        }
    }

    /// Where a flow is in its life; nothing for one that is not there any more.
    pub fn phase(&self, flow: FlowId) -> Option<Phase> {
        let slot = self.check(flow)?;
        self.flows.get(slot as usize).map(|flow| flow.phase)
    }

    /// The path of a flow.
    pub fn path(&self, flow: FlowId) -> Option<PathAddress> {
        let slot = self.check(flow)?;
        self.flows.get(slot as usize).map(|flow| flow.address)
    }

    /// The keep-alive that a flow has been granted, in seconds.
    pub fn keep_alive_s(&self, flow: FlowId) -> Option<u32> {
        let slot = self.check(flow)?;
        self.flows.get(slot as usize).map(|flow| flow.keep_alive_s)
    }

    /// Whether messages keep their boundaries: both ends wanted it.
    pub fn keeps_boundaries(&self, flow: FlowId) -> bool {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize));
        flow.is_some_and(|flow| flow.boundaries)
    }

    /// The flows that live.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> {
        (0..)
            .zip(self.flows.iter())
            .filter(|(_, flow)| flow.phase != Phase::Free)
            .map(|(slot, flow)| FlowId { slot, generation: flow.generation })
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`StreamError::NoFlow`], [`StreamError::Busy`] or [`StreamError::TooManyStreams`].
    pub fn open_stream(&mut self, flow: FlowId) -> Result<u32, StreamError> {
        let slot = self.usable(flow)?;
        self.wake(slot).ok_or(StreamError::Busy)?;
        let (flow, active) = self.pair(slot).ok_or(StreamError::NoFlow)?;
        let parity = if flow.role == Role::Client { 0 } else { 1 };
        let own = active.streams.iter().flatten().filter(|stream| stream.id & 1 == parity).count();
        let free = active.streams.iter().take(active.places).position(Option::is_none);
        let place = free
            .filter(|_| own < usize::from(flow.peer_streams) && flow.opened < u32::MAX / 2)
            .ok_or(StreamError::TooManyStreams)?;
        let id = flow.opened << 1 | parity;
        flow.opened += 1;
        active.open_at(place, id, flow);
        self.set_ready(slot);
        Ok(id)
    }

    /// The streams that are open.
    pub fn streams(&self, flow: FlowId) -> [Option<u32>; MAX_STREAMS] {
        let mut ids = [None; MAX_STREAMS];
        let Some(flow) = self.check(flow).and_then(|slot| self.flows.get(slot as usize)) else {
            return ids;
        };
        match self.actives.get(flow.active as usize) {
            Some(active) => ids
                .iter_mut()
                .zip(&active.streams)
                .for_each(|(id, stream)| *id = stream.as_ref().map(|stream| stream.id)),
            None => {
                ids.iter_mut().zip(&flow.streams).for_each(|(id, stream)| *id = Some(stream.id()))
            }
        }
        ids
    }

    /// The sending half of a stream that takes octets, with its ring.
    pub(super) fn sending(
        &mut self,
        flow: FlowId,
        stream: u32,
    ) -> Result<(u32, &mut Stream, &mut [u8]), StreamError> {
        let slot = self.usable(flow)?;
        let active = self.wake(slot).ok_or(StreamError::Busy)?;
        let place = active.find(stream).ok_or(StreamError::NoStream)?;
        let capacity = active.send_capacity();
        let ring = active.send.get_mut(place * capacity..(place + 1) * capacity);
        let stream = active.streams.get_mut(place).and_then(Option::as_mut);
        let (Some(ring), Some(stream)) = (ring, stream) else { return Err(StreamError::NoStream) };
        if stream.send.is_rewound() {
            return Err(StreamError::Rewound);
        }
        if !stream.send.is_open() {
            return Err(StreamError::Finished);
        }
        Ok((slot, stream, ring))
    }

    /// Gives octets to a stream and says how many it took: 0 when there is no room, of which [`super::Event::Writable`] tells the end.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn write(
        &mut self,
        flow: FlowId,
        stream: u32,
        octets: &[u8],
    ) -> Result<usize, StreamError> {
        let (slot, stream, ring) = self.sending(flow, stream)?;
        let count = stream.send.write(ring, octets);
        stream.wants_room |= count < octets.len();
        if count > 0 {
            self.set_ready(slot);
        }
        Ok(count)
    }

    /// Octets that a stream takes now.
    pub fn room(&mut self, flow: FlowId, stream: u32) -> usize {
        let Ok(slot) = self.usable(flow) else { return 0 };
        let Some(active) = self.wake(slot) else { return 0 };
        let capacity = active.send_capacity();
        let place = active.find(stream).and_then(|place| active.streams.get_mut(place));
        place.and_then(Option::as_mut).map_or(0, |stream| {
            let room = stream.send.room(capacity);
            stream.wants_room |= room == 0;
            room
        })
    }

    /// Ends this end's direction of a stream, after what was written.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn finish(&mut self, flow: FlowId, stream: u32) -> Result<(), StreamError> {
        let slot = self.usable(flow)?;
        let active = self.wake(slot).ok_or(StreamError::Busy)?;
        let place = active.find(stream).ok_or(StreamError::NoStream)?;
        if let Some(Some(stream)) = active.streams.get_mut(place) {
            if stream.send.is_rewound() {
                return Err(StreamError::Rewound);
            }
            stream.send.finish();
        }
        self.set_ready(slot);
        Ok(())
    }

    /// Gives this end's direction of a stream up; the peer is told the reason.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn reset(&mut self, flow: FlowId, stream: u32, reason: u32) -> Result<(), StreamError> {
        let slot = self.usable(flow)?;
        let active = self.wake(slot).ok_or(StreamError::Busy)?;
        let place = active.find(stream).ok_or(StreamError::NoStream)?;
        if let Some(Some(stream)) = active.streams.get_mut(place) {
            stream.send.reset(reason.into());
            active.control |= Control::reset(place);
        }
        self.set_ready(slot);
        Ok(())
    }

    /// Takes octets that have come. `Ok(None)` is the end of the stream, `Ok(Some(0))` that nothing has come.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn read(
        &mut self,
        flow: FlowId,
        stream: u32,
        out: &mut [u8],
    ) -> Result<Option<usize>, StreamError> {
        let slot = self.check(flow).ok_or(StreamError::NoFlow)?;
        let Some((flow, active)) = self.pair(slot) else {
            // A sleeping flow has nothing to read, but a stream's end.
            let flow = self.flow(slot).ok_or(StreamError::NoFlow)?;
            if matches!(flow.phase, Phase::Closed) {
                return Err(StreamError::NoFlow);
            }
            let known = flow.streams.iter().find(|known| known.id() == stream);
            return match known {
                Some(known) if known.receive_ended() => Ok(None),
                Some(_) => Ok(Some(0)),
                None => Err(StreamError::NoStream),
            };
        };
        let phase = flow.phase;
        let place = active.find(stream).ok_or(StreamError::NoStream)?;
        let capacity = active.receive_capacity();
        let ring = active.receive.get(place * capacity..(place + 1) * capacity);
        let known = active.streams.get_mut(place).and_then(Option::as_mut);
        let (Some(ring), Some(known)) = (ring, known) else { return Err(StreamError::NoStream) };
        if known.receive.reset_reason().is_some() {
            known.receive.end_told = true;
            active.drop_done();
            active.control |= Control::TOTAL_WINDOW;
            self.set_ready(slot);
            return Err(StreamError::Reset);
        }
        let count = known.receive.read(ring, out);
        if count == 0 {
            let ended = known.receive.is_at_end();
            known.receive.end_told |= ended;
            active.drop_done();
            if !ended && phase == Phase::Closed {
                return Err(StreamError::NoFlow);
            }
            return Ok((!ended).then_some(0));
        }
        let due = known.receive.window_is_due(capacity);
        if due {
            active.control |= Control::window(place);
        }
        if active.total_window_is_due(flow) {
            active.control |= Control::TOTAL_WINDOW;
        }
        // What had not been read may have been all that kept the flow from sleeping.
        let sleeps = active.busy.after(SLEEP_AFTER);
        let may_sleep = active.is_all_read() && { flow.timer.due } > sleeps;
        if may_sleep || !active.control.is_empty() {
            self.set_ready(slot);
        }
        Ok(Some(count))
    }

    /// Octets that have come and can be read.
    pub fn readable(&self, flow: FlowId, stream: u32) -> usize {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize));
        let Some(active) = flow.and_then(|flow| self.actives.get(flow.active as usize)) else {
            return 0;
        };
        let place = active.find(stream).and_then(|place| active.streams.get(place));
        place.and_then(Option::as_ref).map_or(0, |stream| stream.receive.readable())
    }

    /// Copies octets that have come without taking them.
    pub fn peek(&self, flow: FlowId, stream: u32, out: &mut [u8]) -> usize {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize));
        let Some(active) = flow.and_then(|flow| self.actives.get(flow.active as usize)) else {
            return 0;
        };
        let capacity = active.receive_capacity();
        let Some(place) = active.find(stream) else { return 0 };
        let ring = active.receive.get(place * capacity..(place + 1) * capacity);
        let known = active.streams.get(place).and_then(Option::as_ref);
        ring.zip(known).map_or(0, |(ring, stream)| stream.receive.peek(ring, out))
    }

    /// Octets of a stream that the peer has acknowledged without a gap.
    pub fn acknowledged(&self, flow: FlowId, stream: u32) -> Option<u64> {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize))?;
        let active = self.actives.get(flow.active as usize)?;
        let place = active.find(stream)?;
        active.streams.get(place)?.as_ref().map(|stream| stream.send.freed())
    }

    /// Closes a flow: once everything written is acknowledged the peer is told, with the reason.
    pub fn close(&mut self, flow: FlowId, reason: u32) {
        let Some(slot) = self.check(flow) else { return };
        let Some(flow) = self.flow(slot) else { return };
        let (phase, resuming) = (flow.phase, flow.resuming);
        let now = self.now;
        match phase {
            Phase::Opening | Phase::Asking | Phase::Unproven => {
                self.end(slot, CloseReason::Local);
            }
            Phase::Open | Phase::Suspended => match self.wake(slot) {
                Some(active) => {
                    if active.close_reason.is_none() {
                        active.close_waits_until = now.after(PATIENCE);
                    }
                    active.close_reason.get_or_insert(reason);
                    if !resuming {
                        let streams = active.streams.iter_mut().flatten();
                        streams.for_each(|stream| stream.send.close(reason));
                    }
                    self.set_ready(slot);
                }
                None => self.end(slot, CloseReason::Local),
            },
            _ => {}
        }
    }

    /// Ends a flow at once, without a word to the peer: it is known to have forgotten it.
    pub fn give_up(&mut self, flow: FlowId) {
        if let Some(slot) = self.check(flow) {
            self.end(slot, CloseReason::Local);
        }
    }

    /// Forgets a flow that [`super::Event::Closed`] was told of, and what could still be read of it.
    pub fn forget(&mut self, flow: FlowId) {
        let Some(slot) = self.check(flow) else { return };
        if self.flow(slot).is_some_and(|flow| flow.phase == Phase::Closed) {
            self.release_active(slot);
            self.free_flow(slot);
        }
    }
}
