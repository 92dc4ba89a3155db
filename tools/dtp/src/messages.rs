//! Messages that keep their boundaries, on flows whose ends both want it ([`crate::Settings::boundaries`]).

use crate::asynchronous;
use crate::shared::State;
use crate::stream::{DtpStream, STREAM, closed};
use heddle_core::dtp::modern::{CloseReason, Message, StreamError};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;

/// What an error of messages alone means.
fn refused(error: StreamError) -> Option<io::Error> {
    let (kind, what) = match error {
        StreamError::NoBoundaries => {
            (ErrorKind::Unsupported, "an end does not keep the boundaries of messages")
        }
        StreamError::MessageTooLarge => {
            (ErrorKind::InvalidInput, "the message does not fit into the buffers of both ends")
        }
        StreamError::BufferTooSmall => {
            (ErrorKind::InvalidInput, "the message does not fit into the buffer, and waits")
        }
        StreamError::MessageCut => {
            (ErrorKind::UnexpectedEof, "the stream ended in the middle of a message")
        }
        StreamError::Reset => (ErrorKind::ConnectionReset, "the peer has given the stream up"),
        _ => return None,
    };
    Some(io::Error::new(kind, what))
}

impl DtpStream {
    /// Whether this stream keeps the boundaries of messages: both ends want it.
    pub fn keeps_boundaries(&self) -> bool {
        self.held.shared.lock().endpoint.keeps_boundaries(self.held.flow)
    }

    /// Octets of the longest message that can be sent: it must fit into the buffers of both ends.
    pub fn longest_message(&self) -> Option<usize> {
        self.held.shared.lock().endpoint.longest_message(self.held.flow)
    }

    /// Octets of the next message, once its length has come.
    pub fn next_message(&self) -> Option<u64> {
        self.held.shared.lock().endpoint.next_message(self.held.flow, STREAM)
    }

    /// Sends a message, which the peer takes with one [`DtpStream::recv_message`]. Octets that are written by [`io::Write`] have no
    /// boundaries; they serve to complete a message after a restart ([`crate::Rewound`]).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when an end keeps no boundaries, [`ErrorKind::InvalidInput`] for a message above
    /// [`DtpStream::longest_message`]; nothing of it is sent then. Those of writing.
    pub fn send_message(&self, message: &[u8]) -> io::Result<()> {
        self.wait(&self.write_timeout, |state| self.try_send(state, message))
    }

    /// Takes the next message and gives its octets; nothing when the peer has sent its last.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when an end keeps no boundaries; [`ErrorKind::InvalidInput`] when `out` is too short for the message,
    /// which waits for a buffer of [`DtpStream::next_message`] octets; [`ErrorKind::UnexpectedEof`] when the stream ends in the middle
    /// of one. Those of reading.
    pub fn recv_message(&self, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.wait(&self.read_timeout, |state| self.try_receive(state, out))
    }

    fn try_send(&self, state: &mut State, message: &[u8]) -> Option<io::Result<()>> {
        if let Some(error) = self.cannot_write(state) {
            return Some(Err(error));
        }
        match state.endpoint.write_message(self.held.flow, STREAM, message) {
            Ok(false) => None,
            Ok(true) => {
                self.held.shared.ring();
                Some(Ok(()))
            }
            Err(error) => refused(error).or_else(|| self.write_refused(state, error)).map(Err),
        }
    }

    fn try_receive(&self, state: &mut State, out: &mut [u8]) -> Option<io::Result<Option<usize>>> {
        if self.ended.load(Ordering::Acquire) {
            return Some(Ok(None));
        }
        let closed_reason = state.flows.get(&self.held.flow).and_then(|status| status.closed);
        let result = state.endpoint.read_message(self.held.flow, STREAM, out);
        if state.endpoint.is_ready() {
            // The peer may send more.
            self.held.shared.ring();
        }
        match result {
            Ok(Message::Whole(octets)) => Some(Ok(Some(octets))),
            Ok(Message::End) => {
                self.ended.store(true, Ordering::Release);
                Some(Ok(None))
            }
            Ok(Message::NotYet) => self.nothing_comes(state, closed_reason),
            // A flow that is gone keeps nothing.
            Err(StreamError::NoBoundaries) if closed_reason.is_some() => {
                closed_reason.map(|reason| Err(closed(reason)))
            }
            Err(error) => match refused(error) {
                Some(error) => Some(Err(error)),
                None => self.nothing_comes(state, closed_reason),
            },
        }
    }

    fn nothing_comes(
        &self,
        state: &mut State,
        closed_reason: Option<CloseReason>,
    ) -> Option<io::Result<Option<usize>>> {
        self.nothing_to_read(state, closed_reason).map(|ended| ended.map(|()| None))
    }
}

impl asynchronous::DtpStream {
    /// [`DtpStream::send_message`] that does not block.
    ///
    /// # Errors
    /// The same.
    pub async fn send_message(&self, message: &[u8]) -> io::Result<()> {
        let stream = self.get_ref();
        poll_fn(|context| stream.poll_with(context, |state| stream.try_send(state, message))).await
    }

    /// [`DtpStream::recv_message`] that does not block.
    ///
    /// # Errors
    /// The same.
    pub async fn recv_message(&self, out: &mut [u8]) -> io::Result<Option<usize>> {
        let stream = self.get_ref();
        poll_fn(|context| stream.poll_with(context, |state| stream.try_receive(state, out))).await
    }
}
