//! The payloads of the handshake messages: what each end wants and grants (`SPEC.md`, section 2).

use super::{CONNECTION_ID_OCTETS, ConnectionId, LEAST_INITIAL_OCTETS, ModernError, Suite};

const PADDING: u8 = 0;
const SEND_TO: u8 = 1;
const KEEP_ALIVE: u8 = 2;
const WINDOW: u8 = 3;
const LARGEST_DATAGRAM: u8 = 4;
const SUITE: u8 = 5;
const BOUNDARIES: u8 = 6;
const STREAMS: u8 = 7;

/// Octets of id and length.
const HEAD_OCTETS: usize = 2;
/// The longest padding that one parameter makes.
const MAX_PADDING_OCTETS: usize = HEAD_OCTETS + u8::MAX as usize;

/// What an end says in its handshake message.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Where the end wants its flow packets.
    pub send_to: Option<ConnectionId>,
    /// The keep-alive duration asked for (client) or granted (server), in seconds.
    pub keep_alive_s: Option<u32>,
    /// Octets of the stream that the end has room for.
    pub receive_window: Option<u32>,
    /// Octets of the largest UDP payload that the end takes.
    pub largest_datagram: Option<u16>,
    /// The suite that the server has chosen.
    pub suite: Option<Suite>,
    /// Every message on a stream is preceded by its length, so that its boundaries are kept.
    pub boundaries: bool,
    /// Streams opened by the peer that the end takes at a time.
    pub streams: Option<u8>,
}

fn put<T>(place: &mut Option<T>, value: T) -> Result<(), ModernError> {
    if place.replace(value).is_some() { Err(ModernError::Parameter) } else { Ok(()) }
}

fn exact<const OCTETS: usize>(value: &[u8]) -> Result<[u8; OCTETS], ModernError> {
    value.try_into().map_err(|_| ModernError::Parameter)
}

impl Parameters {
    /// Reads the payload of a handshake message. Ids that are not known are stepped over.
    ///
    /// # Errors
    /// [`ModernError::Parameter`] for a length that the id does not have, octets that are no parameter, an id twice, a suite that
    /// there is not, or a largest datagram below what an Initial takes.
    pub fn parse(mut payload: &[u8]) -> Result<Self, ModernError> {
        let mut parameters = Self::default();
        while let Some((&id, rest)) = payload.split_first() {
            let (&length, rest) = rest.split_first().ok_or(ModernError::Parameter)?;
            let (value, rest) =
                rest.split_at_checked(length.into()).ok_or(ModernError::Parameter)?;
            payload = rest;
            match id {
                SEND_TO => put(&mut parameters.send_to, exact(value)?)?,
                KEEP_ALIVE => {
                    put(&mut parameters.keep_alive_s, u32::from_be_bytes(exact(value)?))?;
                }
                WINDOW => put(&mut parameters.receive_window, u32::from_be_bytes(exact(value)?))?,
                LARGEST_DATAGRAM => {
                    let octets = u16::from_be_bytes(exact(value)?);
                    if usize::from(octets) < LEAST_INITIAL_OCTETS {
                        return Err(ModernError::Parameter);
                    }
                    put(&mut parameters.largest_datagram, octets)?;
                }
                SUITE => {
                    let [bit] = exact(value)?;
                    let suite = Suite::from_bit(bit).ok_or(ModernError::Parameter)?;
                    put(&mut parameters.suite, suite)?;
                }
                BOUNDARIES => {
                    let [] = exact(value)?;
                    if core::mem::replace(&mut parameters.boundaries, true) {
                        return Err(ModernError::Parameter);
                    }
                }
                STREAMS => {
                    let [streams] = exact(value)?;
                    put(&mut parameters.streams, streams)?;
                }
                _ => {}
            }
        }
        Ok(parameters)
    }

    /// Writes the parameters to the beginning of `buffer`, padded to at least `least_octets`, and gives the octets.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`].
    pub fn write(&self, buffer: &mut [u8], least_octets: usize) -> Result<usize, ModernError> {
        let mut octets = 0;
        let mut parameter = |id: u8, value: &[u8]| {
            let room = buffer.get_mut(octets..).ok_or(ModernError::NoRoom)?;
            let (head, room) = room.split_first_chunk_mut().ok_or(ModernError::NoRoom)?;
            room.get_mut(..value.len()).ok_or(ModernError::NoRoom)?.copy_from_slice(value);
            *head = [id, value.len() as u8];
            octets += HEAD_OCTETS + value.len();
            Ok::<usize, ModernError>(octets)
        };
        let mut written = 0;
        if let Some(id) = &self.send_to {
            const { assert!(CONNECTION_ID_OCTETS < 256) };
            written = parameter(SEND_TO, id)?;
        }
        if let Some(seconds) = self.keep_alive_s {
            written = parameter(KEEP_ALIVE, &seconds.to_be_bytes())?;
        }
        if let Some(octets) = self.receive_window {
            written = parameter(WINDOW, &octets.to_be_bytes())?;
        }
        if let Some(octets) = self.largest_datagram {
            written = parameter(LARGEST_DATAGRAM, &octets.to_be_bytes())?;
        }
        if let Some(suite) = self.suite {
            written = parameter(SUITE, &[suite.bit()])?;
        }
        if self.boundaries {
            written = parameter(BOUNDARIES, &[])?;
        }
        if let Some(streams) = self.streams {
            written = parameter(STREAMS, &[streams])?;
        }
        let zeros = [0; MAX_PADDING_OCTETS - HEAD_OCTETS];
        while let Some(missing @ 1..) = least_octets.checked_sub(written) {
            // A single octet cannot be filled, so the last two parameters share what is left.
            let padding = if missing == MAX_PADDING_OCTETS + 1 { missing - 2 } else { missing };
            let value = padding.saturating_sub(HEAD_OCTETS).min(zeros.len());
            written = parameter(PADDING, zeros.get(..value).unwrap_or(&[]))?;
        }
        Ok(written)
    }
}
