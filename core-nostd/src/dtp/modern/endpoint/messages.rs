//! Messages on streams: each is preceded by its length, and comes whole or not yet (`SPEC.md`, section 4).

use super::super::recovery::Control;
use super::super::varint;
use super::{Endpoint, FlowId, StreamError};

/// Octets of the longest length.
const LENGTH_OCTETS: usize = 8;

/// What reading a message has come to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A message of that many octets; it may have none.
    Whole(usize),
    /// No message has come in whole.
    NotYet,
    /// The peer has sent its last message.
    End,
}

/// The octets of a stream that a message takes up: its own, and its length before them.
pub const fn message_octets(length: usize) -> usize {
    length.saturating_add(varint::octets(length as u64))
}

impl Endpoint<'_> {
    fn check_boundaries(&self, flow: FlowId) -> Result<(), StreamError> {
        self.check(flow).ok_or(StreamError::NoFlow)?;
        self.keeps_boundaries(flow).then_some(()).ok_or(StreamError::NoBoundaries)
    }

    /// Octets of the longest message that a stream takes: it must fit into this end's buffer and into the peer's with its length.
    /// Nothing when the flow is not there or keeps no boundaries.
    pub fn longest_message(&mut self, flow: FlowId) -> Option<usize> {
        self.check_boundaries(flow).ok()?;
        let slot = self.usable(flow).ok()?;
        self.wake(slot)?;
        let (flow, active) = self.pair(slot)?;
        // What the peer promised holds for as many streams as there could be; fewer have more room each.
        let theirs = flow.peer_window as usize * super::super::MAX_STREAMS / active.places.max(1);
        let most = active.send_capacity().min(theirs);
        let longest = most.saturating_sub(varint::octets(most as u64));
        // Where the length of one octet more would itself be longer.
        let more = (1..LENGTH_OCTETS).rev().find(|more| message_octets(longest + more) <= most);
        Some(longest + more.unwrap_or(0))
    }

    /// Gives a message to a stream, whole or not at all: false when there is no room for all of it, of which [`super::Event::Writable`] tells the end.
    ///
    /// Octets that [`Endpoint::write`] gives have no length before them: after a restart an application completes the message that the peer
    /// has in part, from [`Endpoint::resume_offset`] on ([`message_octets`] counts), and goes on with whole ones.
    ///
    /// # Errors
    /// [`StreamError::NoBoundaries`], [`StreamError::MessageTooLarge`], and those of [`Endpoint::write`].
    pub fn write_message(
        &mut self,
        flow: FlowId,
        stream: u32,
        message: &[u8],
    ) -> Result<bool, StreamError> {
        self.check_boundaries(flow)?;
        // Before anything else is said of the flow: too large is too large whenever one tries.
        let longest = self.longest_message(flow);
        if longest.is_some_and(|longest| message.len() > longest) {
            return Err(StreamError::MessageTooLarge);
        }
        let mut length = [0; LENGTH_OCTETS];
        let octets = varint::write(message.len() as u64, &mut length);
        let length = octets.and_then(|octets| length.get(..octets));
        let length = length.ok_or(StreamError::MessageTooLarge)?;
        let (slot, stream, ring) = self.sending(flow, stream)?;
        if stream.send.room(ring.len()) < length.len() + message.len() {
            stream.wants_room = true;
            return Ok(false);
        }
        stream.send.write(ring, length);
        stream.send.write(ring, message);
        self.set_ready(slot);
        Ok(true)
    }

    /// Octets of the next message, once its length has come; the message may not have.
    pub fn next_message(&self, flow: FlowId, stream: u32) -> Option<u64> {
        self.check_boundaries(flow).ok()?;
        self.next_length(flow, stream).map(|(length, _)| length)
    }

    /// The length at the beginning of what has come, and the octets that it takes itself.
    fn next_length(&self, flow: FlowId, stream: u32) -> Option<(u64, usize)> {
        let mut head = [0; LENGTH_OCTETS];
        let held = self.peek(flow, stream, &mut head);
        let (length, rest) = varint::split(head.get(..held)?)?;
        Some((length, held - rest.len()))
    }

    /// Takes the next message if all of it has come. It is to be called until it gives [`Message::NotYet`]: only then may the peer hear of all the
    /// room that it needs for the next one.
    ///
    /// # Errors
    /// [`StreamError::NoBoundaries`]; [`StreamError::BufferTooSmall`] when `out` is shorter than the message, which stays
    /// ([`Endpoint::next_message`] tells how long it is); [`StreamError::MessageTooLarge`] for one that will never be here in whole;
    /// [`StreamError::MessageCut`] when the stream ends in the middle of one; and those of [`Endpoint::read`].
    pub fn read_message(
        &mut self,
        flow: FlowId,
        stream: u32,
        out: &mut [u8],
    ) -> Result<Message, StreamError> {
        self.check_boundaries(flow)?;
        let readable = self.readable(flow, stream);
        let next = self.next_length(flow, stream);
        let whole = next
            .and_then(|(length, head)| Some((usize::try_from(length).ok()?, head)))
            .filter(|(length, head)| length.saturating_add(*head) <= readable);
        if let Some((length, head)) = whole {
            let out = out.get_mut(..length).ok_or(StreamError::BufferTooSmall)?;
            let mut skipped = [0; LENGTH_OCTETS];
            self.read(flow, stream, skipped.get_mut(..head).unwrap_or(&mut []))?;
            if length > 0 {
                self.read(flow, stream, out)?;
            }
            return Ok(Message::Whole(length));
        }
        if readable > 0 && self.came_to_end(flow, stream) {
            self.skip(flow, stream)?;
            return Err(StreamError::MessageCut);
        }
        let capacity = self.receive_capacity(flow).unwrap_or(usize::MAX) as u64;
        if next.is_some_and(|(length, head)| length.saturating_add(head as u64) > capacity) {
            return Err(StreamError::MessageTooLarge);
        }
        let needed = next.map_or(LENGTH_OCTETS as u64, |(length, head)| length + head as u64);
        match self.read(flow, stream, &mut [])? {
            None => Ok(Message::End),
            Some(_) => {
                self.make_room_for(flow, stream, needed.min(capacity));
                Ok(Message::NotYet)
            }
        }
    }

    /// Tells the peer of room that it would hear of later, when it needs it to finish the message that is awaited.
    fn make_room_for(&mut self, flow: FlowId, stream: u32, needed: u64) {
        let Some(slot) = self.check(flow) else { return };
        let Some((flow, active)) = self.pair(slot) else { return };
        let place = active.find(stream);
        let Some((place, Some(stream))) =
            place.and_then(|place| Some((place, active.streams.get(place)?.as_ref())))
        else {
            return;
        };
        let missing = needed.saturating_sub(stream.receive.readable() as u64);
        let mut due = Control::empty();
        if stream.receive.limit() < stream.receive.next_offset() + missing {
            due |= Control::window(place);
        }
        if active.total_limit < flow.total_received + missing
            && active.total_window(flow) > active.total_limit
        {
            due |= Control::TOTAL_WINDOW;
        }
        active.control |= due;
        if !due.is_empty() {
            self.set_ready(slot);
        }
    }

    fn receive_capacity(&self, flow: FlowId) -> Option<usize> {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize))?;
        self.actives.get(flow.active as usize).map(|active| active.receive_capacity())
    }

    /// Whether everything that the peer has sent on a stream has come.
    fn came_to_end(&self, flow: FlowId, stream: u32) -> bool {
        let flow = self.check(flow).and_then(|slot| self.flows.get(slot as usize));
        let active = flow.and_then(|flow| self.actives.get(flow.active as usize));
        let stream = active.and_then(|active| active.streams.get(active.find(stream)?)?.as_ref());
        stream.is_some_and(|stream| {
            stream.receive.reset_reason().is_none() && stream.receive.is_complete()
        })
    }

    /// Takes what is left of a stream, and its end, so that its place becomes free.
    fn skip(&mut self, flow: FlowId, stream: u32) -> Result<(), StreamError> {
        let mut scrap = [0; 256];
        while self.read(flow, stream, &mut scrap)?.is_some_and(|count| count > 0) {}
        Ok(())
    }
}
