//! The options behind the header: one octet of kind, one of length (both counted), and a value.
//!
//! | kind | name | length | value |
//! |---|---|---|---|
//! | 0 | end of the list | 1, no length octet | |
//! | 1 | no operation | 1, no length octet | |
//! | 2 | maximum segment size | 4 | octets, big-endian |
//! | 3 | window scale | 3 | shift |
//! | 4 | SACK permitted | 2 | |
//! | 5 | SACK | 10, 18, 26, 34 | 1 to 4 blocks of two edges, big-endian |
//! | 6 | keep-alive | 6 | seconds, big-endian |
//! | 7 | Host ID | 22 | 20 octets |
//! | 8 | port | 4 | little-endian, as the authors' programs send it |
//! | 9 | deadline | 6 | seconds, little-endian for the same reason |
//!
//! The authors leave kind 6 free; the keep-alive duration of the paper's SYN is put there. A kind that is not in the table is stepped over.

use super::PaperError;

/// Octets of a Host ID.
pub const HOST_ID_OCTETS: usize = 20;

/// Blocks that one SACK option can hold.
pub const MAX_SACK_BLOCKS: usize = 4;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAX_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const KEEP_ALIVE: u8 = 6;
const HOST_ID: u8 = 7;
const PORT: u8 = 8;
const DEADLINE: u8 = 9;

/// Octets of kind and length.
const OPTION_HEADER_OCTETS: usize = 2;
const SACK_BLOCK_OCTETS: usize = 8;

/// What names a host: 20 octets that it chose.
pub type HostId = [u8; HOST_ID_OCTETS];

/// Octets that arrived beyond a gap: sequence numbers from `left` up to, not with, `right`, modulo 2^32.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct SackBlock {
    /// The first number.
    pub left: u32,
    /// The number behind the last.
    pub right: u32,
}

/// The blocks of a SACK option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [u8]);

impl<'a> SackBlocks<'a> {
    /// Writes `blocks` to `buffer`, for [`DtpOption::Sack`].
    ///
    /// # Errors
    /// [`PaperError::OptionLength`] unless there are 1 to [`MAX_SACK_BLOCKS`]; [`PaperError::NoRoom`] when the buffer is too short.
    pub fn write(blocks: &[SackBlock], buffer: &'a mut [u8]) -> Result<Self, PaperError> {
        if blocks.is_empty() || blocks.len() > MAX_SACK_BLOCKS {
            return Err(PaperError::OptionLength);
        }
        let octets =
            buffer.get_mut(..blocks.len() * SACK_BLOCK_OCTETS).ok_or(PaperError::NoRoom)?;
        let (edges, _) = octets.as_chunks_mut::<4>();
        let numbers = blocks.iter().flat_map(|block| [block.left, block.right]);
        for (edge, number) in edges.iter_mut().zip(numbers) {
            *edge = number.to_be_bytes();
        }
        Ok(Self(octets))
    }

    /// The blocks in their order.
    pub fn iter(&self) -> impl Iterator<Item = SackBlock> + use<'a> {
        let (blocks, _) = self.0.as_chunks::<SACK_BLOCK_OCTETS>();
        blocks.iter().map(|&[a, b, c, d, e, f, g, h]| SackBlock {
            left: u32::from_be_bytes([a, b, c, d]),
            right: u32::from_be_bytes([e, f, g, h]),
        })
    }
}

/// One option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DtpOption<'a> {
    /// Kind 0: nothing behind it is read.
    End,
    /// Kind 1: padding between options.
    NoOperation,
    /// Kind 2: the longest payload that the sender takes.
    MaxSegmentSize {
        /// Octets of payload.
        octets: u16,
    },
    /// Kind 3: windows of this sender are to be shifted left by this, SYN and SYN+ACK excepted.
    WindowScale {
        /// Bits; more than 14 count as 14.
        shift: u8,
    },
    /// Kind 4: the sender understands SACK.
    SackPermitted,
    /// Kind 5: what arrived beyond a gap.
    Sack(SackBlocks<'a>),
    /// Kind 6: how long to keep the flow while nothing is heard of it; 0 asks for nothing in particular.
    KeepAlive {
        /// Seconds.
        seconds: u32,
    },
    /// Kind 7: who the sender is.
    HostId(HostId),
    /// Kind 8: the server port that the flow moves to.
    Port(u16),
    /// Kind 9: by when the application wants its data.
    Deadline {
        /// Seconds.
        seconds: u32,
    },
    /// Any other kind.
    Unknown {
        /// The kind.
        kind: u8,
        /// The octets behind kind and length.
        value: &'a [u8],
    },
}

impl DtpOption<'_> {
    /// Writes the option to the beginning of `buffer` and gives its octets.
    pub(super) fn write(&self, buffer: &mut [u8]) -> Result<usize, PaperError> {
        let mut with = |kind: u8, value: &[u8]| {
            let octets = OPTION_HEADER_OCTETS + value.len();
            let length = u8::try_from(octets).map_err(|_| PaperError::OptionLength)?;
            let (head, rest) =
                buffer.split_first_chunk_mut::<OPTION_HEADER_OCTETS>().ok_or(PaperError::NoRoom)?;
            rest.get_mut(..value.len()).ok_or(PaperError::NoRoom)?.copy_from_slice(value);
            *head = [kind, length];
            Ok(octets)
        };
        match *self {
            Self::End | Self::NoOperation => {
                let kind = if *self == Self::End { END } else { NO_OPERATION };
                *buffer.first_mut().ok_or(PaperError::NoRoom)? = kind;
                Ok(1)
            }
            Self::MaxSegmentSize { octets } => with(MAX_SEGMENT_SIZE, &octets.to_be_bytes()),
            Self::WindowScale { shift } => with(WINDOW_SCALE, &[shift]),
            Self::SackPermitted => with(SACK_PERMITTED, &[]),
            Self::Sack(blocks) => with(SACK, blocks.0),
            Self::KeepAlive { seconds } => with(KEEP_ALIVE, &seconds.to_be_bytes()),
            Self::HostId(id) => with(HOST_ID, &id),
            Self::Port(port) => with(PORT, &port.to_le_bytes()),
            Self::Deadline { seconds } => with(DEADLINE, &seconds.to_le_bytes()),
            Self::Unknown { kind, value } => with(kind, value),
        }
    }
}

/// The options in a run of octets; the last item is the end of the list or the first error.
#[derive(Clone, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Over the octets between header and payload.
    pub fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// The option at the beginning and what follows it.
    fn split(octets: &'a [u8]) -> Result<Option<(DtpOption<'a>, &'a [u8])>, PaperError> {
        let (kind, length) = match *octets {
            [] => return Ok(None),
            [END, ..] => return Ok(Some((DtpOption::End, &[]))),
            [NO_OPERATION, ref rest @ ..] => return Ok(Some((DtpOption::NoOperation, rest))),
            [_] => return Err(PaperError::OptionLength),
            [kind, length, ..] => (kind, usize::from(length)),
        };
        let (option, rest) = octets.split_at_checked(length).ok_or(PaperError::OptionLength)?;
        let (_, value) =
            option.split_at_checked(OPTION_HEADER_OCTETS).ok_or(PaperError::OptionLength)?;
        Ok(Some((Self::read(kind, value)?, rest)))
    }

    fn read(kind: u8, value: &'a [u8]) -> Result<DtpOption<'a>, PaperError> {
        Ok(match (kind, value) {
            (MAX_SEGMENT_SIZE, &[a, b]) => {
                DtpOption::MaxSegmentSize { octets: u16::from_be_bytes([a, b]) }
            }
            (WINDOW_SCALE, &[shift]) => DtpOption::WindowScale { shift },
            (SACK_PERMITTED, &[]) => DtpOption::SackPermitted,
            (SACK, blocks)
                if blocks.len().is_multiple_of(SACK_BLOCK_OCTETS)
                    && (1..=MAX_SACK_BLOCKS).contains(&(blocks.len() / SACK_BLOCK_OCTETS)) =>
            {
                DtpOption::Sack(SackBlocks(blocks))
            }
            (KEEP_ALIVE, &[a, b, c, d]) => {
                DtpOption::KeepAlive { seconds: u32::from_be_bytes([a, b, c, d]) }
            }
            (HOST_ID, id) => {
                DtpOption::HostId(id.try_into().map_err(|_| PaperError::OptionLength)?)
            }
            (PORT, &[a, b]) => DtpOption::Port(u16::from_le_bytes([a, b])),
            (DEADLINE, &[a, b, c, d]) => {
                DtpOption::Deadline { seconds: u32::from_le_bytes([a, b, c, d]) }
            }
            (MAX_SEGMENT_SIZE..=DEADLINE, _) => return Err(PaperError::OptionLength),
            _ => DtpOption::Unknown { kind, value },
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<DtpOption<'a>, PaperError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Self::split(self.0).transpose()?;
        self.0 = match &next {
            Ok((_, rest)) => rest,
            Err(_) => &[],
        };
        Some(next.map(|(option, _)| option))
    }
}
