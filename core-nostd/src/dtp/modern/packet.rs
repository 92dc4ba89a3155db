//! The packets of the handshake, and the part of a flow packet that is read before any key (`SPEC.md`, section 1).

use super::ModernError;

/// Octets of a connection id.
pub const CONNECTION_ID_OCTETS: usize = 16;

/// The version that this module speaks.
pub const VERSION: u8 = 1;

/// Octets that an Initial has at least.
pub const LEAST_INITIAL_OCTETS: usize = 1200;

/// Octets before the payload of a flow packet: first octet, connection id, packet number.
pub const FLOW_HEADER_OCTETS: usize = 1 + CONNECTION_ID_OCTETS + 8;

const INITIAL: u8 = 0x81;
const ANSWER: u8 = 0x82;
const RETRY: u8 = 0x83;
const VERSIONS: u8 = 0x84;
pub(super) const FLOW: u8 = 0x40;
const FLOW_MASK: u8 = 0xc0;

/// What names a flow at one of its ends, on one path.
pub type ConnectionId = [u8; CONNECTION_ID_OCTETS];

/// What the first octet of a datagram says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first handshake message.
    Initial,
    /// The second handshake message.
    Answer,
    /// A token to show.
    Retry,
    /// The versions of the server.
    Versions,
    /// A packet of a flow.
    Flow,
}

impl Kind {
    /// The kind of a datagram.
    ///
    /// # Errors
    /// [`ModernError::Truncated`] when it is empty, [`ModernError::Kind`] when it is none of this suite's.
    pub fn of(datagram: &[u8]) -> Result<Self, ModernError> {
        match datagram.first() {
            None => Err(ModernError::Truncated),
            Some(&INITIAL) => Ok(Self::Initial),
            Some(&ANSWER) => Ok(Self::Answer),
            Some(&RETRY) => Ok(Self::Retry),
            Some(&VERSIONS) => Ok(Self::Versions),
            Some(first) if first & FLOW_MASK == FLOW => Ok(Self::Flow),
            Some(_) => Err(ModernError::Kind),
        }
    }
}

/// The connection id of a flow packet, which is in the clear.
///
/// # Errors
/// [`ModernError::Kind`] when it is no flow packet, [`ModernError::Truncated`] when it cannot hold header and tag.
pub fn flow_connection_id(datagram: &[u8]) -> Result<ConnectionId, ModernError> {
    if Kind::of(datagram)? != Kind::Flow {
        return Err(ModernError::Kind);
    }
    if datagram.len() < FLOW_HEADER_OCTETS + super::TAG_OCTETS {
        return Err(ModernError::Truncated);
    }
    datagram.get(1..).and_then(<[u8]>::first_chunk).copied().ok_or(ModernError::Truncated)
}

/// Takes octets off the front of a datagram.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(datagram: &'a [u8], first: u8) -> Result<Self, ModernError> {
        let mut reader = Self(datagram);
        if reader.octet()? == first { Ok(reader) } else { Err(ModernError::Kind) }
    }

    fn octet(&mut self) -> Result<u8, ModernError> {
        let (&octet, rest) = self.0.split_first().ok_or(ModernError::Truncated)?;
        self.0 = rest;
        Ok(octet)
    }

    fn id(&mut self) -> Result<ConnectionId, ModernError> {
        let (id, rest) = self.0.split_first_chunk().ok_or(ModernError::Truncated)?;
        self.0 = rest;
        Ok(*id)
    }

    fn counted(&mut self) -> Result<&'a [u8], ModernError> {
        let length = usize::from(self.octet()?);
        let (octets, rest) = self.0.split_at_checked(length).ok_or(ModernError::Truncated)?;
        self.0 = rest;
        Ok(octets)
    }
}

/// Writes runs of octets one behind the other and gives their number.
fn write(buffer: &mut [u8], runs: &[&[u8]]) -> Result<usize, ModernError> {
    let mut octets = 0;
    for run in runs {
        let place = buffer.get_mut(octets..octets + run.len()).ok_or(ModernError::NoRoom)?;
        place.copy_from_slice(run);
        octets += run.len();
    }
    Ok(octets)
}

fn length(octets: &[u8]) -> Result<u8, ModernError> {
    u8::try_from(octets.len()).map_err(|_| ModernError::NoRoom)
}

/// The packet that opens a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Initial<'a> {
    /// The number of the handshake pattern.
    pub pattern: u8,
    /// The bits of the suites that the client offers.
    pub suites: u8,
    /// A random id, until the server has given its own.
    pub destination: ConnectionId,
    /// Where the client wants its packets.
    pub source: ConnectionId,
    /// The token of a Retry; empty at first.
    pub token: &'a [u8],
    /// Noise message 1.
    pub message: &'a [u8],
}

impl<'a> Initial<'a> {
    /// Takes an Initial apart. The second part is its octets up to the message: what the prologue of the handshake holds.
    ///
    /// # Errors
    /// [`ModernError::Kind`], [`ModernError::Truncated`], [`ModernError::Version`] or [`ModernError::InitialTooShort`].
    pub fn parse(datagram: &'a [u8]) -> Result<(Self, &'a [u8]), ModernError> {
        let mut reader = Reader::new(datagram, INITIAL)?;
        let version = reader.octet()?;
        // Whoever speaks to us must be worth three times its octets, whatever version it has.
        if datagram.len() < LEAST_INITIAL_OCTETS {
            return Err(ModernError::InitialTooShort);
        }
        if version != VERSION {
            return Err(ModernError::Version);
        }
        let (pattern, suites) = (reader.octet()?, reader.octet()?);
        let (destination, source) = (reader.id()?, reader.id()?);
        let token = reader.counted()?;
        let message = reader.0;
        let clear = datagram.len() - message.len();
        let clear = datagram.get(..clear).ok_or(ModernError::Truncated)?;
        Ok((Self { pattern, suites, destination, source, token, message }, clear))
    }

    /// Writes everything but the message to the beginning of `buffer` and gives its octets; the message goes right behind.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`].
    pub fn write_clear(&self, buffer: &mut [u8]) -> Result<usize, ModernError> {
        let head = [INITIAL, VERSION, self.pattern, self.suites];
        let runs: [&[u8]; 5] =
            [&head, &self.destination, &self.source, &[length(self.token)?], self.token];
        write(buffer, &runs)
    }
}

/// The server's packet with Noise message 2.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The client's id.
    pub destination: ConnectionId,
    /// Noise message 2.
    pub message: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Takes an Answer apart.
    ///
    /// # Errors
    /// [`ModernError::Kind`] or [`ModernError::Truncated`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ModernError> {
        let mut reader = Reader::new(datagram, ANSWER)?;
        Ok(Self { destination: reader.id()?, message: reader.0 })
    }

    /// Writes everything but the message to the beginning of `buffer` and gives its octets.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`].
    pub fn write_clear(&self, buffer: &mut [u8]) -> Result<usize, ModernError> {
        write(buffer, &[&[ANSWER], &self.destination])
    }
}

/// The server's demand for a proof of the client's address.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Retry<'a> {
    /// The client's id.
    pub destination: ConnectionId,
    /// The destination of the Initial: shows that the sender of the Retry saw it.
    pub source: ConnectionId,
    /// The token to send back.
    pub token: &'a [u8],
}

impl<'a> Retry<'a> {
    /// Takes a Retry apart.
    ///
    /// # Errors
    /// [`ModernError::Kind`], [`ModernError::Truncated`], or [`ModernError::Token`] when the token is empty or octets follow it.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ModernError> {
        let mut reader = Reader::new(datagram, RETRY)?;
        let (destination, source) = (reader.id()?, reader.id()?);
        let token = reader.counted()?;
        if token.is_empty() || !reader.0.is_empty() {
            return Err(ModernError::Token);
        }
        Ok(Self { destination, source, token })
    }

    /// Writes the packet to the beginning of `buffer` and gives its octets.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`].
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, ModernError> {
        let length = [length(self.token)?];
        write(buffer, &[&[RETRY], &self.destination, &self.source, &length, self.token])
    }
}

/// The server's answer to a version that it does not speak.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Versions<'a> {
    /// The client's id.
    pub destination: ConnectionId,
    /// The versions that the server speaks.
    pub versions: &'a [u8],
}

impl<'a> Versions<'a> {
    /// Takes the packet apart.
    ///
    /// # Errors
    /// [`ModernError::Kind`], [`ModernError::Truncated`], or [`ModernError::Version`] when there is none or octets follow them.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ModernError> {
        let mut reader = Reader::new(datagram, VERSIONS)?;
        let destination = reader.id()?;
        let versions = reader.counted()?;
        if versions.is_empty() || !reader.0.is_empty() {
            return Err(ModernError::Version);
        }
        Ok(Self { destination, versions })
    }

    /// Writes the packet to the beginning of `buffer` and gives its octets.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`].
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, ModernError> {
        let count = [length(self.versions)?];
        write(buffer, &[&[VERSIONS], &self.destination, &count, self.versions])
    }
}
