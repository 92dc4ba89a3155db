//! Instructions (OpenFlow 1.3.5, 7.2.4).

use crate::wire::{Reader, Write};
use crate::{Action, Refusal};

/// What a flow does with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Go on with this table.
    GotoTable(u8),
    /// Write bits of the metadata: value, mask.
    WriteMetadata(u64, u64),
    /// Add to the action set.
    WriteActions(Vec<Action>),
    /// Do at once.
    ApplyActions(Vec<Action>),
    /// Empty the action set.
    ClearActions,
    /// Go through this meter.
    Meter(u32),
}

impl Instruction {
    /// Reads instructions up to the end.
    pub(crate) fn decode_all(octets: &[u8]) -> Result<Vec<Self>, Refusal> {
        Reader::new(octets, Refusal::INSTRUCTION_LEN).list(Self::decode)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (kind, len) = (reader.u16()?, usize::from(reader.u16()?));
        if len < 8 || !len.is_multiple_of(8) {
            return Err(Refusal::INSTRUCTION_LEN);
        }
        let mut body = reader.part(len - 4, Refusal::INSTRUCTION_LEN)?;
        let instruction = match kind {
            1 => {
                let [table, _, _, _] = body.array()?;
                Self::GotoTable(table)
            }
            2 => {
                body.skip(4)?;
                Self::WriteMetadata(body.u64()?, body.u64()?)
            }
            3..=5 => {
                body.skip(4)?;
                let actions = Action::decode_all(body.all())?;
                match kind {
                    3 => Self::WriteActions(actions),
                    4 => Self::ApplyActions(actions),
                    _ if actions.is_empty() => Self::ClearActions,
                    _ => return Err(Refusal::INSTRUCTION_LEN),
                }
            }
            6 => Self::Meter(body.u32()?),
            0xffff => return Err(Refusal::INSTRUCTION_EXPERIMENTER),
            _ => return Err(Refusal::INSTRUCTION_UNKNOWN),
        };
        body.end()?;
        Ok(instruction)
    }

    pub(crate) fn encode_all(instructions: &[Self], out: &mut Vec<u8>) {
        instructions.iter().for_each(|instruction| instruction.encode(out));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.sized(2, true, |out| {
            let kind = match self {
                Self::GotoTable(_) => 1,
                Self::WriteMetadata(..) => 2,
                Self::WriteActions(_) => 3,
                Self::ApplyActions(_) => 4,
                Self::ClearActions => 5,
                Self::Meter(_) => 6,
            };
            out.u16(kind);
            out.u16(0);
            match self {
                Self::GotoTable(table) => out.u8(*table),
                Self::WriteMetadata(value, mask) => {
                    out.zeros(4);
                    out.u64(*value);
                    out.u64(*mask);
                }
                Self::WriteActions(actions) | Self::ApplyActions(actions) => {
                    out.zeros(4);
                    Action::encode_all(actions, out);
                }
                Self::ClearActions => out.zeros(4),
                Self::Meter(meter) => out.u32(*meter),
            }
        });
    }
}
