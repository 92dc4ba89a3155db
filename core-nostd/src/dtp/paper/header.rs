//! The header that every packet begins with; numbers are big-endian.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            Flow ID                            |
//! +---------------------------------------------------------------+
//! |                        Sequence number                        |
//! +---------------------------------------------------------------+
//! |                     Acknowledgement number                    |
//! +-+-----+-------+-+-+-+-+-+-+-+-+-------------------------------+
//! |C| re- | data  |F|S|R|P|A|U|A|R|                               |
//! |H|serv-| offset|I|Y|S|S|C|R|U|S|            Window             |
//! |G| ed  |(words)|N|N|T|H|K|G|T|P|                               |
//! +-+-----+-------+-+-+-+-+-+-+-+-+-------------------------------+
//! |           Checksum            |        Urgent pointer         |
//! +-------------------------------+-------------------------------+
//! |  options up to the data offset ...                            |
//! +---------------------------------------------------------------+
//! |  payload ...                                                  |
//! +---------------------------------------------------------------+
//! ```
//!
//! The checksum is never set (UDP has its own), and on an AUTH the reserved bits, PSH, URG, the checksum and
//! the urgent pointer hold anything: all of these are ignored.

use super::{DtpOption, NONCE_OCTETS, Options, PaperError, RESPONSE_OCTETS};
use bitflags::bitflags;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U16, U32},
};

/// Octets of the header without options.
pub const HEADER_OCTETS: usize = 20;

/// Octets of the header with as many options as the data offset can tell.
pub const MAX_HEADER_OCTETS: usize = 60;

const WORD_OCTETS: usize = 4;
const DATA_OFFSET: u8 = 0x0f;
const RESERVED: u8 = 0x70;
const CHANGE: u8 = 0x80;

bitflags! {
    /// The flags of a packet. CHG is the top bit of octet 12, the others are octet 13.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u16 {
        /// CHG: prove that this new address is yours.
        const CHG = 0x8000;
        /// FIN: no more data.
        const FIN = 0x80;
        /// SYN: open the flow.
        const SYN = 0x40;
        /// RST: the flow is gone.
        const RST = 0x20;
        /// PSH: hand the data on at once.
        const PSH = 0x10;
        /// ACK: the acknowledgement number counts. Data packets carry the number without it.
        const ACK = 0x08;
        /// URG: ignored.
        const URG = 0x04;
        /// AUTH: the address is proven.
        const AUTH = 0x02;
        /// RSP: the proof of an address.
        const RSP = 0x01;
    }
}

/// The fields of the header.
#[repr(C)]
#[derive(
    Copy,
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
pub struct Header {
    flow_id: U32,
    sequence: U32,
    acknowledgement: U32,
    change_and_offset: u8,
    flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

impl Header {
    /// A header without options. `window` is in units of the sender's window scale, except on SYN and SYN+ACK.
    pub fn new(
        flow_id: u32,
        sequence: u32,
        acknowledgement: u32,
        flags: Flags,
        window: u16,
    ) -> Self {
        let change = if flags.contains(Flags::CHG) { CHANGE } else { 0 };
        let [_, low] = flags.bits().to_be_bytes();
        Self {
            flow_id: U32::new(flow_id),
            sequence: U32::new(sequence),
            acknowledgement: U32::new(acknowledgement),
            change_and_offset: change | (HEADER_OCTETS / WORD_OCTETS) as u8,
            flags: low,
            window: U16::new(window),
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
    }

    /// The same header with values in the fields that nobody reads: the reserved bits (0-7), checksum and urgent pointer.
    #[must_use]
    pub fn with_ignored(self, reserved: u8, checksum: u16, urgent: u16) -> Self {
        let rest = self.change_and_offset & !RESERVED;
        Self {
            change_and_offset: rest | ((reserved << 4) & RESERVED),
            checksum: U16::new(checksum),
            urgent: U16::new(urgent),
            ..self
        }
    }

    /// The flow that the packet belongs to.
    pub fn flow_id(&self) -> u32 {
        self.flow_id.get()
    }

    /// The number of the first octet of the payload, modulo 2^32.
    pub fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// The number of the next octet that the sender waits for, modulo 2^32.
    pub fn acknowledgement(&self) -> u32 {
        self.acknowledgement.get()
    }

    /// The octets that the header says it has, options included.
    pub fn data_offset_octets(&self) -> usize {
        usize::from(self.change_and_offset & DATA_OFFSET) * WORD_OCTETS
    }

    /// The reserved bits, 0 to 7.
    pub fn reserved(&self) -> u8 {
        (self.change_and_offset & RESERVED) >> 4
    }

    /// The flags.
    pub fn flags(&self) -> Flags {
        let change = if self.change_and_offset & CHANGE == 0 { Flags::empty() } else { Flags::CHG };
        Flags::from_bits_retain(self.flags.into()) | change
    }

    /// The receive window of the sender, unscaled.
    pub fn window(&self) -> u16 {
        self.window.get()
    }

    /// The checksum field, which nobody sets on purpose.
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The urgent pointer, which means nothing.
    pub fn urgent(&self) -> u16 {
        self.urgent.get()
    }
}

/// A UDP payload taken apart.
#[derive(Copy, Clone, Debug)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    options: &'a [u8],
    /// What follows the options.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Takes header and options apart and checks their lengths.
    ///
    /// # Errors
    /// [`PaperError::HeaderTruncated`], [`PaperError::DataOffset`] or [`PaperError::OptionLength`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, PaperError> {
        let (header, _) =
            Header::read_from_prefix(datagram).map_err(|_| PaperError::HeaderTruncated)?;
        let (head, payload) =
            datagram.split_at_checked(header.data_offset_octets()).ok_or(PaperError::DataOffset)?;
        let (_, options) = head.split_at_checked(HEADER_OCTETS).ok_or(PaperError::DataOffset)?;
        Options::new(options).try_for_each(|option| option.map(|_| ()))?;
        Ok(Self { header, options, payload })
    }

    /// Checks what holds for a packet whatever flow it belongs to: its id, its flags, and the lengths of a nonce and of a response.
    ///
    /// # Errors
    /// [`PaperError::FlowIdZero`], [`PaperError::Flags`], [`PaperError::NonceLength`] or [`PaperError::ResponseLength`].
    pub fn check(&self) -> Result<(), PaperError> {
        if self.header.flow_id() == 0 {
            return Err(PaperError::FlowIdZero);
        }
        let flags = self.flags();
        let proofs = flags & (Flags::CHG | Flags::RSP | Flags::AUTH);
        let alone = |flag, others| flags.contains(flag) && flags.intersects(others);
        // On AUTH the authors' PSH and URG are noise.
        if proofs.bits().count_ones() > 1
            || alone(Flags::SYN, !(Flags::SYN | Flags::ACK))
            || alone(Flags::FIN, Flags::RST | proofs)
            || alone(Flags::RST, proofs)
            || flags.contains(Flags::AUTH) && !flags.contains(Flags::ACK)
        {
            return Err(PaperError::Flags);
        }
        if flags.contains(Flags::CHG) && self.payload.len() != NONCE_OCTETS {
            return Err(PaperError::NonceLength);
        }
        if flags.contains(Flags::RSP) && self.payload.len() != RESPONSE_OCTETS {
            return Err(PaperError::ResponseLength);
        }
        Ok(())
    }

    /// The flags.
    pub fn flags(&self) -> Flags {
        self.header.flags()
    }

    /// The options up to the end of the list.
    pub fn options(&self) -> impl Iterator<Item = DtpOption<'a>> + use<'a> {
        // `parse` has seen every one of them: none is an error here.
        Options::new(self.options).map_while(Result::ok)
    }

    /// The numbers that this packet takes: its payload, and one for a FIN.
    pub fn sequence_len(&self) -> usize {
        self.payload.len() + usize::from(self.flags().contains(Flags::FIN))
    }
}

/// Puts a packet together in a buffer: options first, then the payload.
///
/// ```
/// use heddle_core::dtp::paper::{DtpOption, Flags, Header, Packet, PacketWriter};
/// let mut buffer = [0; 64];
/// let header = Header::new(0x1234, 7, 9, Flags::ACK, 2048);
/// let mut writer = PacketWriter::new(&mut buffer, header)?;
/// writer.option(DtpOption::KeepAlive { seconds: 3600 })?;
/// let octets = writer.finish(b"data")?;
/// assert_eq!(Packet::parse(&buffer[..octets])?.payload, b"data");
/// # Ok::<(), heddle_core::dtp::paper::PaperError>(())
/// ```
#[derive(Debug)]
pub struct PacketWriter<'a> {
    header: Header,
    buffer: &'a mut [u8],
    options_octets: usize,
}

impl<'a> PacketWriter<'a> {
    /// Begins a packet with this header; the data offset is set at the end.
    ///
    /// # Errors
    /// [`PaperError::NoRoom`] when not even the header fits.
    pub fn new(buffer: &'a mut [u8], header: Header) -> Result<Self, PaperError> {
        if buffer.len() < HEADER_OCTETS {
            return Err(PaperError::NoRoom);
        }
        Ok(Self { header, buffer, options_octets: 0 })
    }

    /// Appends an option.
    ///
    /// # Errors
    /// [`PaperError::NoRoom`] when the buffer or the header is full, [`PaperError::OptionLength`] when the option's value is too
    /// long for one. What was written before stays.
    pub fn option(&mut self, option: DtpOption) -> Result<(), PaperError> {
        let room = MAX_HEADER_OCTETS - HEADER_OCTETS;
        let (_, options) =
            self.buffer.split_at_mut_checked(HEADER_OCTETS).ok_or(PaperError::NoRoom)?;
        let room = room.min(options.len());
        let free = options.get_mut(self.options_octets..room).ok_or(PaperError::NoRoom)?;
        self.options_octets += option.write(free)?;
        Ok(())
    }

    /// Pads the options with ends of the list to whole words, appends the payload, and gives the octets of the packet.
    ///
    /// # Errors
    /// [`PaperError::NoRoom`].
    pub fn finish(mut self, payload: &[u8]) -> Result<usize, PaperError> {
        let end = HEADER_OCTETS + self.options_octets;
        let offset = end.next_multiple_of(WORD_OCTETS);
        let octets = offset + payload.len();
        self.buffer.get_mut(end..offset).ok_or(PaperError::NoRoom)?.fill(0);
        self.buffer.get_mut(offset..octets).ok_or(PaperError::NoRoom)?.copy_from_slice(payload);
        let words = (offset / WORD_OCTETS) as u8;
        self.header.change_and_offset =
            (self.header.change_and_offset & !DATA_OFFSET) | (words & DATA_OFFSET);
        self.header.write_to_prefix(self.buffer).map_err(|_| PaperError::NoRoom)?;
        Ok(octets)
    }
}
