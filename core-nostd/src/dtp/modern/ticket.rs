//! What an end writes to its disk so that a flow outlives the process (`SPEC.md`, section 7).

use super::flow::{MAX_STREAMS, SleepingStream};
use super::keys::ResumeSecret;
use super::{ConnectionId, FlowId, KEY_OCTETS, ModernError, PathAddress, Role};
use heapless::Vec;

/// Octets of a ticket.
pub const TICKET_OCTETS: usize = HEAD_OCTETS + KEY_OCTETS + MAX_STREAMS * STREAM_OCTETS;

const HEAD_OCTETS: usize = 4 + 13 * 4 + 16 + 16;
const STREAM_OCTETS: usize = 1 + 4 + 8;

/// The version of the octets.
const TICKET_VERSION: u8 = 1;

const SERVER: u8 = 1;
const BOUNDARIES: u8 = 2;
const COUNTED: u8 = 4;

const THERE: u8 = 1;
const ENDED: u8 = 2;

/// How a stream that was open stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct TicketStream {
    pub id: u32,
    /// Octets that the application has got, and keeps.
    pub delivered: u64,
    /// It has got the end too.
    pub ended: bool,
}

/// What is kept of a flow. It has the flow's secret in it: it must be sealed wherever it is written. The secret is wiped when the ticket is dropped.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub(super) role: Role,
    pub(super) boundaries: bool,
    pub(super) counted: bool,
    pub(super) own_streams: u8,
    pub(super) peer_streams: u8,
    pub(super) id: FlowId,
    pub(super) id_epoch: u16,
    pub(super) datagram: u16,
    pub(super) own_restarts: u32,
    pub(super) peer_restarts: u32,
    pub(super) keep_alive_s: u32,
    pub(super) peer_window: u32,
    pub(super) opened: u32,
    pub(super) peer_opened: u32,
    pub(super) opened_ahead: u32,
    pub(super) address: PathAddress,
    pub(super) peer: ConnectionId,
    pub(super) resume: ResumeSecret,
    pub(super) streams: Vec<TicketStream, MAX_STREAMS>,
}

struct Writer<'a> {
    place: core::slice::IterMut<'a, u8>,
}

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) {
        self.place.by_ref().zip(octets).for_each(|(place, octet)| *place = *octet);
    }

    fn word(&mut self, word: u32) {
        self.put(&word.to_be_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn chunk<const OCTETS: usize>(&mut self) -> Result<[u8; OCTETS], ModernError> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(ModernError::Ticket)?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn word(&mut self) -> Result<u32, ModernError> {
        Ok(u32::from_be_bytes(self.chunk()?))
    }

    fn half(&mut self) -> Result<u16, ModernError> {
        let [0, 0, a, b] = self.chunk()? else { return Err(ModernError::Ticket) };
        Ok(u16::from_be_bytes([a, b]))
    }
}

impl Ticket {
    /// The flow's name, which it has again after [`super::Endpoint::restore`].
    pub const fn flow(&self) -> FlowId {
        self.id
    }

    /// The end that the ticket is of.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// How often this end has restarted.
    pub const fn restarts(&self) -> u32 {
        self.own_restarts
    }

    /// The peer's address when the ticket was made.
    pub const fn address(&self) -> PathAddress {
        self.address
    }

    /// Octets of a stream that the peer need not send again.
    pub fn delivered(&self, stream: u32) -> Option<u64> {
        self.streams.iter().find(|known| known.id == stream).map(|known| known.delivered)
    }

    /// Says that the application keeps fewer octets of a stream than it has read, so that the peer sends the others again. More than has been read cannot be said.
    pub fn set_delivered(&mut self, stream: u32, offset: u64) {
        if let Some(known) = self.streams.iter_mut().find(|known| known.id == stream)
            && offset < known.delivered
        {
            known.delivered = offset;
            known.ended = false;
        }
    }

    /// The ticket that a restart begins with. It must be written and synced in the place of this one before [`super::Endpoint::restore`] gets it:
    /// a count serves once.
    ///
    /// # Errors
    /// [`ModernError::NumbersUsedUp`] after too many restarts.
    pub fn count_up(&self) -> Result<Self, ModernError> {
        let own_restarts = self.own_restarts.checked_add(1).ok_or(ModernError::NumbersUsedUp)?;
        super::restart::first_number(own_restarts, self.peer_restarts)?;
        let id_epoch = self.id_epoch.wrapping_add(1);
        Ok(Self { own_restarts, id_epoch, counted: true, ..self.clone() })
    }

    /// Writes the ticket.
    pub fn to_octets(&self) -> [u8; TICKET_OCTETS] {
        let mut octets = [0; TICKET_OCTETS];
        let mut writer = Writer { place: octets.iter_mut() };
        let flags = if self.role == Role::Server { SERVER } else { 0 }
            | if self.boundaries { BOUNDARIES } else { 0 }
            | if self.counted { COUNTED } else { 0 };
        writer.put(&[TICKET_VERSION, flags, self.own_streams, self.peer_streams]);
        for word in [
            self.id.slot,
            self.id.generation,
            self.id_epoch.into(),
            self.datagram.into(),
            self.own_restarts,
            self.peer_restarts,
            self.keep_alive_s,
            self.peer_window,
            self.opened,
            self.peer_opened,
            self.opened_ahead,
            self.address.local.into(),
            self.address.port.into(),
        ] {
            writer.word(word);
        }
        writer.put(&self.address.ip);
        writer.put(&self.peer);
        writer.put(self.resume.as_bytes());
        for stream in &self.streams {
            writer.put(&[THERE | if stream.ended { ENDED } else { 0 }]);
            writer.word(stream.id);
            writer.put(&stream.delivered.to_be_bytes());
        }
        octets
    }

    /// Reads a ticket.
    ///
    /// # Errors
    /// [`ModernError::Ticket`] for octets that [`Ticket::to_octets`] does not write.
    pub fn from_octets(octets: &[u8]) -> Result<Self, ModernError> {
        if octets.len() != TICKET_OCTETS {
            return Err(ModernError::Ticket);
        }
        let mut reader = Reader(octets);
        let [TICKET_VERSION, flags, own_streams, peer_streams] = reader.chunk()? else {
            return Err(ModernError::Ticket);
        };
        if flags & !(SERVER | BOUNDARIES | COUNTED) != 0 {
            return Err(ModernError::Ticket);
        }
        let id = FlowId { slot: reader.word()?, generation: reader.word()? };
        let (id_epoch, datagram) = (reader.half()?, reader.half()?);
        let (own_restarts, peer_restarts) = (reader.word()?, reader.word()?);
        let (keep_alive_s, peer_window) = (reader.word()?, reader.word()?);
        let (opened, peer_opened) = (reader.word()?, reader.word()?);
        let opened_ahead = reader.word()?;
        let (local, port) = (reader.half()?, reader.half()?);
        if usize::from(datagram) < super::LEAST_INITIAL_OCTETS {
            return Err(ModernError::Ticket);
        }
        let address = PathAddress { local, port, ip: reader.chunk()? };
        let peer = reader.chunk()?;
        let resume = ResumeSecret::new(reader.chunk()?);
        let mut streams = Vec::new();
        for place in 0..MAX_STREAMS {
            let [flags] = reader.chunk()?;
            let id = reader.word()?;
            let delivered = u64::from_be_bytes(reader.chunk()?);
            match flags {
                0 if id == 0 && delivered == 0 => {}
                _ if flags & !(THERE | ENDED) != 0
                    || flags & THERE == 0
                    // Empty places come last.
                    || streams.len() < place
                    || delivered >= super::VARINT_END =>
                {
                    return Err(ModernError::Ticket);
                }
                _ => {
                    // As many places as turns.
                    let ended = flags & ENDED != 0;
                    let _ = streams.push(TicketStream { id, delivered, ended });
                }
            }
        }
        Ok(Self {
            role: if flags & SERVER != 0 { Role::Server } else { Role::Client },
            boundaries: flags & BOUNDARIES != 0,
            counted: flags & COUNTED != 0,
            own_streams,
            peer_streams,
            id,
            id_epoch,
            datagram,
            own_restarts,
            peer_restarts,
            keep_alive_s,
            peer_window,
            opened,
            peer_opened,
            opened_ahead,
            address,
            peer,
            resume,
            streams,
        })
    }

    /// The streams as a flow without an active part keeps them.
    pub(super) fn sleeping_streams(&self) -> Vec<SleepingStream, MAX_STREAMS, u8> {
        // What was sent is for the peer to say, so those offsets are of no meaning yet.
        let mut streams = Vec::new();
        for stream in &self.streams {
            // As many places as streams.
            let TicketStream { id, delivered, ended } = *stream;
            let _ = streams.push(SleepingStream::new(id, 0, delivered, 0, false, ended));
        }
        streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticket() -> Ticket {
        let stream = |id, delivered| TicketStream { id, delivered, ended: id == 1 };
        Ticket {
            role: Role::Server,
            boundaries: true,
            counted: false,
            own_streams: 1,
            peer_streams: 2,
            id: FlowId { slot: 3, generation: 4 },
            id_epoch: 5,
            datagram: 1452,
            own_restarts: 6,
            peer_restarts: 7,
            keep_alive_s: 8,
            peer_window: 9,
            opened: 10,
            peer_opened: 11,
            opened_ahead: 5,
            address: PathAddress { local: 12, port: 13, ip: [14; 16] },
            peer: [15; 16],
            resume: ResumeSecret::new([16; 32]),
            streams: Vec::from_slice(&[stream(0, 1 << 40), stream(1, 17)]).unwrap(),
        }
    }

    #[test]
    fn a_ticket_comes_back_from_its_octets_and_counts_up() {
        let ticket = ticket();
        let octets = ticket.to_octets();
        let again = Ticket::from_octets(&octets).unwrap();
        assert_eq!(format!("{again:?}"), format!("{ticket:?}"));
        assert_eq!(again.resume.as_bytes(), &[16; 32]);
        let counted = again.count_up().unwrap();
        assert_eq!((counted.restarts(), counted.id_epoch, counted.counted), (7, 6, true));
        let mut last = ticket.clone();
        last.own_restarts = 1 << 22;
        assert_eq!(last.count_up().err(), Some(ModernError::NumbersUsedUp));
        let mut less = ticket;
        less.set_delivered(1, 20);
        assert_eq!(less.delivered(1), Some(17), "not more than was read");
        less.set_delivered(1, 16);
        assert_eq!((less.delivered(1), less.streams[1].ended), (Some(16), false));
    }

    proptest! {
        #[test]
        fn other_octets_are_refused_or_mean_something(at in 0..TICKET_OCTETS, bit in 0u8..8, cut in 0..TICKET_OCTETS) {
            let mut octets = ticket().to_octets();
            octets[at] ^= 1 << bit;
            if let Ok(ticket) = Ticket::from_octets(&octets) {
                prop_assert_eq!(ticket.to_octets(), octets);
            }
            prop_assert!(Ticket::from_octets(&octets[..cut]).is_err());
        }
    }
}
