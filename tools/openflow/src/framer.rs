//! A byte stream, cut into messages.

use crate::Refusal;

/// Octets of the header that every message has.
const HEADER_OCTETS: usize = 8;

/// Collects octets until a message is whole. It holds one message of at most 65535 octets and what came with it.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    octets: Vec<u8>,
    /// Where the next message begins.
    from: usize,
}

impl Framer {
    /// Adds octets that have arrived.
    pub fn push(&mut self, octets: &[u8]) {
        self.octets.drain(..self.from);
        self.from = 0;
        self.octets.extend_from_slice(octets);
    }

    /// The next whole message, if it is all there.
    ///
    /// # Errors
    /// [`Refusal::BAD_LEN`] when the header tells fewer octets than it has itself: nothing more can be read from the stream.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, Refusal> {
        let rest = self.octets.get(self.from..).unwrap_or_default();
        let Some([_, _, high, low]) = rest.first_chunk() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if len < HEADER_OCTETS {
            return Err(Refusal::BAD_LEN);
        }
        let message = rest.get(..len);
        if message.is_some() {
            self.from += len;
        }
        Ok(message)
    }

    /// Says that no more octets come.
    ///
    /// # Errors
    /// [`Refusal::BAD_LEN`] when that is in the middle of a message.
    pub fn close(&self) -> Result<(), Refusal> {
        if self.from == self.octets.len() { Ok(()) } else { Err(Refusal::BAD_LEN) }
    }
}
