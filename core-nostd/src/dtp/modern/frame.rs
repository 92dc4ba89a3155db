//! The frames that the payload of a flow packet is made of (`SPEC.md`, section 4).

use super::varint::{self, VARINT_END};
use super::{ConnectionId, ModernError};
use core::time::Duration;

/// Ranges that one ACK can hold besides the first, at most: what a packet of the least size has room for many times over.
pub const MAX_ACK_RANGES: u64 = 64;

const PADDING: u64 = 0;
const PING: u64 = 1;
const ACK: u64 = 2;
const DATA: u64 = 4;
const LAST_DATA: u64 = 5;
const TOTAL_WINDOW: u64 = 7;
const WINDOW: u64 = 8;
const PATH_CHALLENGE: u64 = 9;
const PATH_RESPONSE: u64 = 10;
const NEW_ID: u64 = 11;
const KEEP_ALIVE: u64 = 13;
const CLOSE: u64 = 14;
const RESET: u64 = 15;

/// Packet numbers from `first` to `last`, both with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckRange {
    /// The lowest number.
    pub first: u64,
    /// The highest number.
    pub last: u64,
}

/// The ranges of an ACK, from the highest down. Between two of them at least one number is missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckRanges<'a> {
    largest: u64,
    first_run: u64,
    /// Gaps and runs, read once already.
    rest: &'a [u8],
}

impl<'a> AckRanges<'a> {
    /// The packets that are acknowledged.
    pub fn iter(&self) -> impl Iterator<Item = AckRange> + Clone + use<'a> {
        let mut next = self
            .largest
            .checked_sub(self.first_run)
            .map(|first| AckRange { first, last: self.largest });
        let mut rest = self.rest;
        core::iter::from_fn(move || {
            let range = next.take()?;
            if let Some((lower, behind)) = lower_range(range.first, rest) {
                next = Some(lower);
                rest = behind;
            }
            Some(range)
        })
    }
}

/// The next range below one that begins at `above`: `gap` + 1 numbers are missing, then come `run` + 1.
fn lower_range(above: u64, octets: &[u8]) -> Option<(AckRange, &[u8])> {
    let (gap, octets) = varint::split(octets)?;
    let (run, octets) = varint::split(octets)?;
    let last = above.checked_sub(gap.checked_add(2)?)?;
    Some((AckRange { first: last.checked_sub(run)?, last }, octets))
}

/// One frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Nothing: fills a packet up. A run of them is one frame here.
    Padding {
        /// How many octets.
        octets: usize,
    },
    /// To be acknowledged, no more.
    Ping,
    /// Packets that have opened.
    Ack {
        /// Which.
        ranges: AckRanges<'a>,
        /// How long the largest of them waited for this frame.
        delay: Duration,
        /// Packets so far that came with the ECN mark of congestion.
        congestion_marks: u64,
    },
    /// Octets of a stream.
    Data {
        /// The stream.
        stream: u32,
        /// The place of the first octet in the stream.
        offset: u64,
        /// The octets.
        octets: &'a [u8],
        /// No more follow.
        last: bool,
    },
    /// How many octets the peer may send on all streams together.
    TotalWindow {
        /// The number.
        octets: u64,
    },
    /// How far the peer may send on a stream.
    Window {
        /// The stream.
        stream: u32,
        /// The place of the first octet that is too many.
        offset: u64,
    },
    /// Says that the sender is to be heard on this path.
    PathChallenge([u8; 8]),
    /// The answer: the octets of the challenge.
    PathResponse([u8; 8]),
    /// A connection id for the peer to use.
    NewId {
        /// Which one it is, counting from 0.
        sequence: u64,
        /// Ids of a lower sequence are not to be used any more.
        retire_before: u64,
        /// The id.
        id: ConnectionId,
    },
    /// How long the sender keeps a silent flow from now on.
    KeepAlive {
        /// Seconds.
        seconds: u64,
    },
    /// The sender has done with the flow.
    Close {
        /// The application's reason, 0 for none.
        reason: u64,
    },
    /// The sender gives its direction of a stream up.
    Reset {
        /// The stream.
        stream: u32,
        /// Octets that it had sent.
        offset: u64,
        /// The application's reason.
        reason: u64,
    },
}

/// Takes parts of a frame off the front of the octets.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<u64, ModernError> {
        let (number, rest) = varint::split(self.0).ok_or(ModernError::Frame)?;
        self.0 = rest;
        Ok(number)
    }

    fn chunk<const OCTETS: usize>(&mut self) -> Result<[u8; OCTETS], ModernError> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(ModernError::Frame)?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn octets(&mut self, length: u64) -> Result<&'a [u8], ModernError> {
        let length = usize::try_from(length).map_err(|_| ModernError::Frame)?;
        let (octets, rest) = self.0.split_at_checked(length).ok_or(ModernError::Frame)?;
        self.0 = rest;
        Ok(octets)
    }

    fn padding(&mut self) -> usize {
        let octets = self.0.iter().take_while(|&&octet| octet == 0).count();
        self.0 = self.0.get(octets..).unwrap_or(&[]);
        1 + octets
    }

    fn stream(&mut self) -> Result<u32, ModernError> {
        u32::try_from(self.number()?).map_err(|_| ModernError::Frame)
    }

    fn data(&mut self, last: bool) -> Result<Frame<'a>, ModernError> {
        let stream = self.stream()?;
        let offset = self.number()?;
        let length = self.number()?;
        let octets = self.octets(length)?;
        // A stream has less than 2^62 octets: no place in it is beyond what a number can tell.
        if offset + length >= VARINT_END {
            return Err(ModernError::Frame);
        }
        Ok(Frame::Data { stream, offset, octets, last })
    }

    fn ack(&mut self) -> Result<Frame<'a>, ModernError> {
        let largest = self.number()?;
        let delay = Duration::from_micros(self.number()?);
        let count = self.number()?;
        let first_run = self.number()?;
        let mut lowest = largest.checked_sub(first_run).ok_or(ModernError::Frame)?;
        if count > MAX_ACK_RANGES {
            return Err(ModernError::Frame);
        }
        let all = self.0;
        for _ in 0..count {
            let (range, rest) = lower_range(lowest, self.0).ok_or(ModernError::Frame)?;
            lowest = range.first;
            self.0 = rest;
        }
        let rest = all.get(..all.len() - self.0.len()).ok_or(ModernError::Frame)?;
        let congestion_marks = self.number()?;
        Ok(Frame::Ack { ranges: AckRanges { largest, first_run, rest }, delay, congestion_marks })
    }

    fn frame(&mut self) -> Result<Frame<'a>, ModernError> {
        Ok(match self.number()? {
            PADDING => Frame::Padding { octets: self.padding() },
            PING => Frame::Ping,
            ACK => self.ack()?,
            DATA => self.data(false)?,
            LAST_DATA => self.data(true)?,
            TOTAL_WINDOW => Frame::TotalWindow { octets: self.number()? },
            WINDOW => Frame::Window { stream: self.stream()?, offset: self.number()? },
            PATH_CHALLENGE => Frame::PathChallenge(self.chunk()?),
            PATH_RESPONSE => Frame::PathResponse(self.chunk()?),
            NEW_ID => {
                let (sequence, retire_before) = (self.number()?, self.number()?);
                // An id that is retired by the very frame that gives it is none.
                if retire_before > sequence {
                    return Err(ModernError::Frame);
                }
                Frame::NewId { sequence, retire_before, id: self.chunk()? }
            }
            KEEP_ALIVE => Frame::KeepAlive { seconds: self.number()? },
            CLOSE => Frame::Close { reason: self.number()? },
            RESET => Frame::Reset {
                stream: self.stream()?,
                offset: self.number()?,
                reason: self.number()?,
            },
            _ => return Err(ModernError::Frame),
        })
    }
}

/// The frames of a payload in their order. After an error there is nothing more.
pub struct Frames<'a>(Reader<'a>);

impl<'a> Frames<'a> {
    /// The frames of `payload`.
    ///
    /// # Errors
    /// [`ModernError::Frame`] when it is empty.
    pub fn new(payload: &'a [u8]) -> Result<Self, ModernError> {
        if payload.is_empty() { Err(ModernError::Frame) } else { Ok(Self(Reader(payload))) }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, ModernError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let frame = self.0.frame();
        if frame.is_err() {
            self.0.0 = &[];
        }
        Some(frame)
    }
}

/// Writes frames one behind the other.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    buffer: &'a mut [u8],
    octets: usize,
}

/// The octets that DATA of `length` octets at `offset` of a stream takes besides them.
pub const fn data_overhead(stream: u32, offset: u64, length: usize) -> usize {
    1 + varint::octets(stream as u64) + varint::octets(offset) + varint::octets(length as u64)
}

impl<'a> FrameWriter<'a> {
    /// A writer to the beginning of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, octets: 0 }
    }

    /// Octets written.
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Octets that are left.
    pub const fn room(&self) -> usize {
        self.buffer.len().saturating_sub(self.octets)
    }

    fn number(&mut self, number: u64) -> Result<(), ModernError> {
        let free = self.buffer.get_mut(self.octets..).ok_or(ModernError::NoRoom)?;
        self.octets += varint::write(number, free).ok_or(ModernError::NoRoom)?;
        Ok(())
    }

    fn numbers(&mut self, numbers: &[u64]) -> Result<(), ModernError> {
        numbers.iter().try_for_each(|&number| self.number(number))
    }

    fn run(&mut self, octets: &[u8]) -> Result<(), ModernError> {
        let free = self.buffer.get_mut(self.octets..).ok_or(ModernError::NoRoom)?;
        free.get_mut(..octets.len()).ok_or(ModernError::NoRoom)?.copy_from_slice(octets);
        self.octets += octets.len();
        Ok(())
    }

    /// Either all of a frame is written or nothing.
    fn whole(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), ModernError>,
    ) -> Result<(), ModernError> {
        let before = self.octets;
        let result = write(self);
        if result.is_err() {
            self.octets = before;
        }
        result
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`], also for a number of 2^62 or more; what was written before stays.
    pub fn frame(&mut self, frame: &Frame) -> Result<(), ModernError> {
        self.whole(|writer| match *frame {
            Frame::Padding { octets } => {
                let end = writer.octets.checked_add(octets).ok_or(ModernError::NoRoom)?;
                let place = writer.buffer.get_mut(writer.octets..end).ok_or(ModernError::NoRoom)?;
                place.fill(0);
                writer.octets = end;
                Ok(())
            }
            Frame::Ping => writer.number(PING),
            Frame::Ack { ranges, delay, congestion_marks } => {
                writer.ack_of(ranges.iter(), delay, congestion_marks)
            }
            Frame::Data { stream, offset, octets, last } => {
                let kind = if last { LAST_DATA } else { DATA };
                writer.numbers(&[kind, stream.into(), offset, octets.len() as u64])?;
                writer.run(octets)
            }
            Frame::TotalWindow { octets } => writer.numbers(&[TOTAL_WINDOW, octets]),
            Frame::Window { stream, offset } => writer.numbers(&[WINDOW, stream.into(), offset]),
            Frame::PathChallenge(octets) => {
                writer.number(PATH_CHALLENGE)?;
                writer.run(&octets)
            }
            Frame::PathResponse(octets) => {
                writer.number(PATH_RESPONSE)?;
                writer.run(&octets)
            }
            Frame::NewId { sequence, retire_before, id } => {
                writer.numbers(&[NEW_ID, sequence, retire_before])?;
                writer.run(&id)
            }
            Frame::KeepAlive { seconds } => writer.numbers(&[KEEP_ALIVE, seconds]),
            Frame::Close { reason } => writer.numbers(&[CLOSE, reason]),
            Frame::Reset { stream, offset, reason } => {
                writer.numbers(&[RESET, stream.into(), offset, reason])
            }
        })
    }

    /// Appends DATA of `length` octets, which `fill` puts in their place.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`]; what was written before stays.
    pub fn data_with(
        &mut self,
        stream: u32,
        offset: u64,
        length: usize,
        last: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), ModernError> {
        self.whole(|writer| {
            let kind = if last { LAST_DATA } else { DATA };
            writer.numbers(&[kind, stream.into(), offset, length as u64])?;
            let free = writer.buffer.get_mut(writer.octets..).ok_or(ModernError::NoRoom)?;
            fill(free.get_mut(..length).ok_or(ModernError::NoRoom)?);
            writer.octets += length;
            Ok(())
        })
    }

    /// Appends an ACK of `ranges`, from the highest down; of those that are too many the lowest are left out.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`], and [`ModernError::Frame`] when there is no range, or they are not in order with a gap between any two.
    pub fn ack(
        &mut self,
        ranges: impl Iterator<Item = AckRange> + Clone,
        delay: Duration,
        congestion_marks: u64,
    ) -> Result<(), ModernError> {
        self.whole(|writer| writer.ack_of(ranges, delay, congestion_marks))
    }

    fn ack_of(
        &mut self,
        ranges: impl Iterator<Item = AckRange> + Clone,
        delay: Duration,
        congestion_marks: u64,
    ) -> Result<(), ModernError> {
        let ranges = ranges.take(1 + MAX_ACK_RANGES as usize);
        let count = ranges.clone().count().checked_sub(1).ok_or(ModernError::Frame)? as u64;
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX).min(VARINT_END - 1);
        let mut above = None;
        for AckRange { first, last } in ranges {
            let run = last.checked_sub(first).ok_or(ModernError::Frame)?;
            match above {
                None => self.numbers(&[ACK, last, delay_us, count, run])?,
                Some(above) => {
                    let gap = last.checked_add(2).and_then(|last| u64::checked_sub(above, last));
                    self.numbers(&[gap.ok_or(ModernError::Frame)?, run])?;
                }
            }
            above = Some(first);
        }
        self.number(congestion_marks)
    }
}
