//! Messages of our experimenter: programs on a switch.

use crate::Refusal;
use crate::wire::{Reader, Write};

/// Our experimenter number.
pub const EXPERIMENTER: u32 = 0x6666_6666;

/// A message of our experimenter.
///
/// All numbers are big-endian. After the experimenter and its type:
///
/// | type | body |
/// |---|---|
/// | 0 PUT | u32 program, u32 length, octets of an ELF file |
/// | 1 DEL, 2 GET | u32 program |
/// | 3 PUT_PART | u32 program, u32 total length, u32 offset, octets; for programs that do not fit one message |
/// | 4 PARAM_SET | u32 program, u32 parameter, u32 length, octets |
/// | 5 ACK | u32 type that is acknowledged, u32 program; the transaction is that of the message acknowledged |
///
/// PUT, PUT_PART, DEL and PARAM_SET are answered by ACK or by an error; GET by PUT, or by several PUT_PARTs where the program does not fit
/// one message. All answers have the transaction of their question. Types 0 to 2 are those of older switches, which do not answer.
///
/// Programs have the numbers 0 to 255. Parts come in order, each beginning where the one before it ended; one that begins at 0 begins
/// anew. Each part is acknowledged, the last one once the program has been taken. PARAM_SET without octets takes the parameter away.
///
/// A flow that names a program, or a numbered parameter of it, that is not there is refused (BAD_MATCH/BAD_VALUE). One whose program or
/// parameter goes later stays, and matches nothing until it is put again. Another program may be put in the place of one at any time.
///
/// A multipart request of experimenter 0x66666666 and type 0 lists programs: each has u32 40 (the entry's octets), u32 program, u32 octets of
/// its ELF file, u32 zero, u64 runs, u64 hits, u64 faults.
///
/// What is wrong with a program is told by an experimenter's error (OFPET_EXPERIMENTER, OpenFlow 1.3.5, 7.4.4.15): u16 0xffff, u16 code, u32
/// experimenter, and a sentence in UTF-8. The codes are the constants here. What is wrong with a message has the errors
/// of OpenFlow: BAD_REQUEST/BAD_LEN, BAD_REQUEST/BAD_EXP_TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Here is a program.
    Put {
        /// Its number.
        program: u32,
        /// The ELF file.
        octets: Vec<u8>,
    },
    /// Delete a program.
    Delete {
        /// Its number.
        program: u32,
    },
    /// Send me a program.
    Get {
        /// Its number.
        program: u32,
    },
    /// Here is a part of a program.
    PutPart {
        /// Its number.
        program: u32,
        /// Octets of the whole program.
        total_len: u32,
        /// Where this part begins.
        offset: u32,
        /// The part.
        octets: Vec<u8>,
    },
    /// Set a parameter of a program.
    SetParameter {
        /// Its number.
        program: u32,
        /// The parameter's number.
        parameter: u32,
        /// Its value.
        octets: Vec<u8>,
    },
    /// It has been done.
    Acknowledge {
        /// The type of the message that asked for it.
        request: u32,
        /// The program.
        program: u32,
    },
}

/// Octets of the longest program that fits one PUT.
pub const MAX_PUT_OCTETS: usize = 0xffff - 24;

/// The type of errors of experimenters.
const ERROR_TYPE: u16 = 0xffff;

impl Experiment {
    /// The program is not there.
    pub const UNKNOWN_PROGRAM: Refusal = Refusal { error_type: ERROR_TYPE, code: 1 };
    /// The program is not taken: it is no program, or one that could do harm.
    pub const BAD_PROGRAM: Refusal = Refusal { error_type: ERROR_TYPE, code: 2 };
    /// A part of a program does not begin where the one before it ended.
    pub const BAD_PART: Refusal = Refusal { error_type: ERROR_TYPE, code: 3 };
    /// The program is longer than the switch takes.
    pub const TOO_LONG: Refusal = Refusal { error_type: ERROR_TYPE, code: 4 };
    /// No program or parameter can have the number.
    pub const BAD_NUMBER: Refusal = Refusal { error_type: ERROR_TYPE, code: 5 };
    /// The parameter is not taken.
    pub const BAD_PARAMETER: Refusal = Refusal { error_type: ERROR_TYPE, code: 6 };

    /// Whether it changes something at the switch.
    pub const fn changes(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::Acknowledge { .. })
    }

    /// The data of an error of our experimenter.
    pub fn error_data(text: &str) -> Vec<u8> {
        [&EXPERIMENTER.to_be_bytes(), text.as_bytes()].concat()
    }

    /// The sentence of an error of our experimenter, out of the error's data.
    pub fn error_text(refusal: Refusal, data: &[u8]) -> Option<String> {
        let text = data.strip_prefix(&EXPERIMENTER.to_be_bytes())?;
        (refusal.error_type == ERROR_TYPE).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// Reads a message from its experimenter on.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let experimenter = reader.u32()?;
        let kind = reader.u32()?;
        if experimenter != EXPERIMENTER {
            return Err(Refusal::BAD_EXPERIMENTER);
        }
        if kind > 5 {
            return Err(Refusal::BAD_EXPERIMENTER_TYPE);
        }
        let first = reader.u32()?;
        let program = first;
        let found = match kind {
            0 => Self::Put { program, octets: counted(reader)? },
            1 => Self::Delete { program },
            2 => Self::Get { program },
            3 => {
                let (total_len, offset) = (reader.u32()?, reader.u32()?);
                let octets = reader.all().to_vec();
                let end = u64::from(offset) + octets.len() as u64;
                if end > u64::from(total_len) {
                    return Err(Refusal::BAD_LEN);
                }
                Self::PutPart { program, total_len, offset, octets }
            }
            4 => {
                let parameter = reader.u32()?;
                Self::SetParameter { program, parameter, octets: counted(reader)? }
            }
            _ => Self::Acknowledge { request: first, program: reader.u32()? },
        };
        // DEL and GET may be padded, as in the messages of older controllers; nothing else has anything left.
        if !matches!(found, Self::Delete { .. } | Self::Get { .. }) {
            reader.end()?;
        }
        Ok(found)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(EXPERIMENTER);
        match self {
            Self::Put { program, octets } => {
                out.u32(0);
                out.u32(*program);
                out.u32(octets.len() as u32);
                out.put(octets);
            }
            Self::Delete { program } => {
                out.u32(1);
                out.u32(*program);
            }
            Self::Get { program } => {
                out.u32(2);
                out.u32(*program);
            }
            Self::PutPart { program, total_len, offset, octets } => {
                out.u32(3);
                out.u32(*program);
                out.u32(*total_len);
                out.u32(*offset);
                out.put(octets);
            }
            Self::SetParameter { program, parameter, octets } => {
                out.u32(4);
                out.u32(*program);
                out.u32(*parameter);
                out.u32(octets.len() as u32);
                out.put(octets);
            }
            Self::Acknowledge { request, program } => {
                out.u32(5);
                out.u32(*request);
                out.u32(*program);
            }
        }
    }
}

/// Octets whose number stands before them and must be that of all that is left.
fn counted(reader: &mut Reader<'_>) -> Result<Vec<u8>, Refusal> {
    let len = reader.u32()?;
    if u64::from(len) != reader.len() as u64 {
        return Err(Refusal::BAD_LEN);
    }
    Ok(reader.all().to_vec())
}

/// What a switch knows about a program.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramStats {
    /// Its number.
    pub program: u32,
    /// Octets of its ELF file.
    pub octets: u32,
    /// Times that it ran.
    pub runs: u64,
    /// Times that a flow matched its result.
    pub hits: u64,
    /// Times that it failed.
    pub faults: u64,
}

impl ProgramStats {
    /// Octets of an entry.
    const ENTRY_OCTETS: u32 = 40;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        if reader.u32()? != Self::ENTRY_OCTETS {
            return Err(Refusal::BAD_LEN);
        }
        let (program, octets) = (reader.u32()?, reader.u32()?);
        reader.skip(4)?;
        let (runs, hits, faults) = (reader.u64()?, reader.u64()?, reader.u64()?);
        Ok(Self { program, octets, runs, hits, faults })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(Self::ENTRY_OCTETS);
        out.u32(self.program);
        out.u32(self.octets);
        out.zeros(4);
        [self.runs, self.hits, self.faults].into_iter().for_each(|count| out.u64(count));
    }
}
