//! SYN and SYN+ACK.
//!
//! The payload of a SYN is the client's key: the octets of n (32 bits, little-endian), n, the octets of e
//! (32 bits, little-endian), e; n and e are big-endian. The payload of a SYN+ACK is the flow's secret, encrypted with that key.
//! Both payloads take sequence numbers, the flags take none.

use super::{DtpOption, Flags, HostId, Packet, PaperError, PublicKey};

/// The largest shift of a window (RFC 7323, 2.3); a larger one counts as this.
pub const MAX_WINDOW_SHIFT: u8 = 14;

/// The shortest keep-alive duration that is ever granted, in seconds: shorter ones would end flows in a tunnel.
pub const LEAST_KEEP_ALIVE_S: u32 = 60;

/// What is granted when nothing is asked for, in seconds: the idle time after which the authors' programs probe.
pub const DEFAULT_KEEP_ALIVE_S: u32 = 7200;

/// How long a server is willing to keep a silent flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeepAliveLimits {
    default_s: u32,
    cap_s: u32,
}

impl KeepAliveLimits {
    /// Limits with this cap in seconds; one below [`LEAST_KEEP_ALIVE_S`] is raised to it.
    pub fn new(cap_s: u32) -> Self {
        let cap_s = cap_s.max(LEAST_KEEP_ALIVE_S);
        Self { default_s: DEFAULT_KEEP_ALIVE_S.min(cap_s), cap_s }
    }

    /// The seconds that are granted to who asks for `asked_s`; nothing and 0 ask for the default.
    pub fn grant(&self, asked_s: Option<u32>) -> u32 {
        match asked_s {
            None | Some(0) => self.default_s,
            Some(asked_s) => asked_s.clamp(LEAST_KEEP_ALIVE_S, self.cap_s),
        }
    }
}

/// The options of a SYN or a SYN+ACK; of an option that is there twice, the last counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeOptions {
    /// The octets of payload that the sender takes, when it says so.
    pub max_segment_octets: Option<u16>,
    /// The shift of the sender's windows, at most [`MAX_WINDOW_SHIFT`]; 0 when it does not scale.
    pub window_shift: u8,
    /// The shift was larger and was cut down.
    pub window_shift_capped: bool,
    /// The sender understands SACK.
    pub sack_permitted: bool,
    /// The keep-alive duration asked for (SYN) or granted (SYN+ACK), in seconds.
    pub keep_alive_s: Option<u32>,
    /// The application's deadline in seconds.
    pub deadline_s: Option<u32>,
    /// The server port that the flow moves to.
    pub port: Option<u16>,
}

fn read_options(packet: &Packet) -> Result<(HostId, HandshakeOptions), PaperError> {
    let mut host_id = None;
    let mut options = HandshakeOptions::default();
    for option in packet.options() {
        match option {
            DtpOption::MaxSegmentSize { octets } => options.max_segment_octets = Some(octets),
            DtpOption::WindowScale { shift } => {
                options.window_shift = shift.min(MAX_WINDOW_SHIFT);
                options.window_shift_capped = shift > MAX_WINDOW_SHIFT;
            }
            DtpOption::SackPermitted => options.sack_permitted = true,
            DtpOption::KeepAlive { seconds } => options.keep_alive_s = Some(seconds),
            DtpOption::HostId(id) => host_id = Some(id),
            DtpOption::Port(port) => options.port = Some(port),
            DtpOption::Deadline { seconds } => options.deadline_s = Some(seconds),
            DtpOption::End
            | DtpOption::NoOperation
            | DtpOption::Sack(_)
            | DtpOption::Unknown { .. } => {}
        }
    }
    Ok((host_id.ok_or(PaperError::HostIdMissing)?, options))
}

/// A length of 32 bits, little-endian, that many octets, and the rest.
fn split_counted(octets: &[u8]) -> Result<(&[u8], &[u8]), PaperError> {
    let (length, rest) = octets.split_first_chunk().ok_or(PaperError::KeyLength)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| PaperError::KeyLength)?;
    if length == 0 {
        return Err(PaperError::KeyLength);
    }
    rest.split_at_checked(length).ok_or(PaperError::KeyLength)
}

/// What a server reads from a SYN.
#[derive(Copy, Clone, Debug)]
pub struct Syn<'a> {
    /// The flow's id.
    pub flow_id: u32,
    /// The number of the first octet of this payload: the client's initial sequence number.
    pub sequence: u32,
    /// What the client's own octets go on with.
    pub next_sequence: u32,
    /// The client.
    pub host_id: HostId,
    /// The key to encrypt the flow's secret with.
    pub key: PublicKey<'a>,
    /// What the client offers.
    pub options: HandshakeOptions,
}

impl<'a> Syn<'a> {
    /// Reads a SYN, checking every length before it is used.
    ///
    /// # Errors
    /// What [`Packet::check`] finds, [`PaperError::Flags`] when it is no SYN, [`PaperError::HostIdMissing`],
    /// [`PaperError::KeyLength`] (also for octets behind the key), or what [`PublicKey::new`] finds.
    pub fn read(packet: &Packet<'a>) -> Result<Self, PaperError> {
        packet.check()?;
        if packet.flags() != Flags::SYN {
            return Err(PaperError::Flags);
        }
        let (host_id, options) = read_options(packet)?;
        let (modulus, rest) = split_counted(packet.payload)?;
        let (exponent, rest) = split_counted(rest)?;
        if !rest.is_empty() {
            return Err(PaperError::KeyLength);
        }
        let sequence = packet.header.sequence();
        Ok(Self {
            flow_id: packet.header.flow_id(),
            sequence,
            next_sequence: sequence.wrapping_add(packet.payload.len() as u32),
            host_id,
            key: PublicKey::new(modulus, exponent)?,
            options,
        })
    }
}

/// Writes the payload of a SYN to the beginning of `buffer` and gives its octets. e is written without leading zeros.
///
/// # Errors
/// [`PaperError::NoRoom`].
pub fn write_syn_payload(key: &PublicKey, buffer: &mut [u8]) -> Result<usize, PaperError> {
    let exponent = key.exponent().to_be_bytes();
    let zeros = exponent.iter().take_while(|&&octet| octet == 0).count();
    let exponent = exponent.get(zeros..).unwrap_or(&[]);
    let mut octets = 0;
    for part in [key.modulus(), exponent] {
        let length = (part.len() as u32).to_le_bytes();
        for run in [&length[..], part] {
            let place = buffer.get_mut(octets..octets + run.len()).ok_or(PaperError::NoRoom)?;
            place.copy_from_slice(run);
            octets += run.len();
        }
    }
    Ok(octets)
}

/// What a client reads from the answer to its SYN.
#[derive(Copy, Clone, Debug)]
pub struct SynAck<'a> {
    /// What the client waits for next.
    pub next_expected: u32,
    /// The server.
    pub host_id: HostId,
    /// The flow's secret, for [`super::PrivateKey::decrypt`].
    pub encrypted_secret: &'a [u8],
    /// What the server offers and grants.
    pub options: HandshakeOptions,
}

impl<'a> SynAck<'a> {
    /// Reads a SYN+ACK that answers a SYN which ended before `next_sequence` and had a key of `key_octets`.
    ///
    /// # Errors
    /// What [`Packet::check`] finds, [`PaperError::Flags`] when it is no SYN+ACK, [`PaperError::HostIdMissing`],
    /// [`PaperError::Ack`], [`PaperError::PortZero`] or [`PaperError::KeyLength`].
    pub fn read(
        packet: &Packet<'a>,
        next_sequence: u32,
        key_octets: usize,
    ) -> Result<Self, PaperError> {
        packet.check()?;
        if packet.flags() != Flags::SYN | Flags::ACK {
            return Err(PaperError::Flags);
        }
        let (host_id, options) = read_options(packet)?;
        if packet.header.acknowledgement() != next_sequence {
            return Err(PaperError::Ack);
        }
        if options.port == Some(0) {
            return Err(PaperError::PortZero);
        }
        if packet.payload.len() != key_octets {
            return Err(PaperError::KeyLength);
        }
        Ok(Self {
            next_expected: packet.header.sequence().wrapping_add(packet.payload.len() as u32),
            host_id,
            encrypted_secret: packet.payload,
            options,
        })
    }
}
