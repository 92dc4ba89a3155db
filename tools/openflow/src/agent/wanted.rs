//! What flows and filters ask of packets, in the terms of the core, and which flows a filter means.

use super::translate;
use crate::port::{GroupId, PortNumber};
use crate::wire::Reader;
use crate::{ALL_TABLES, Action, Instruction, Match, Oxm, Parameter, Refusal};
use heddle_core::flow::Fields;

/// A match in the core's terms.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Zero where the masks are.
    pub values: Fields,
    pub masks: Fields,
    /// A prefix of the packet's name.
    pub name: Option<Vec<u8>>,
    pub program: Option<WantedProgram>,
}

/// A program whose verdict is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedProgram {
    pub program: u32,
    pub parameter: Parameter,
    pub result: u64,
    pub mask: u64,
}

impl Wanted {
    /// Reads a match; the match of older switches only where it `is_legacy`.
    pub(super) fn new(matching: &Match, is_legacy: bool) -> Result<Self, Refusal> {
        let mut wanted = Self::default();
        for oxm in &matching.fields {
            match oxm {
                Oxm::Basic { field, value, mask } => {
                    let ones = vec![0xff; value.len()];
                    translate::set(&mut wanted.values, *field, value)?;
                    translate::set(&mut wanted.masks, *field, mask.as_deref().unwrap_or(&ones))?;
                }
                Oxm::Name(name) => wanted.name = Some(name.clone()),
                Oxm::NdnKind(kind) => {
                    (wanted.values.ndn_kind, wanted.masks.ndn_kind) = (*kind, u8::MAX);
                }
                Oxm::Program { program, result, masks, parameter } => {
                    let (program_mask, mask) = masks.unwrap_or((u32::MAX, u64::MAX));
                    if program_mask != u32::MAX {
                        return Err(Refusal::MATCH_MASK);
                    }
                    let parameter = parameter.clone();
                    let (program, result) = (*program, result & mask);
                    wanted.program = Some(WantedProgram { program, parameter, result, mask });
                }
                Oxm::LegacyProgram { program, result, mask, parameter } if is_legacy => {
                    wanted.program = Some(WantedProgram {
                        program: *program,
                        parameter: Parameter::Octets(parameter.clone()),
                        result: result & mask,
                        mask: *mask,
                    });
                }
                Oxm::LegacyProgram { .. } => return Err(Refusal::MATCH_FIELD),
            }
        }
        wanted.values = wanted.values.masked(&wanted.masks);
        Ok(wanted)
    }

    /// Whether another asks for all that this one asks for, and perhaps more.
    fn covers(&self, other: &Self) -> bool {
        let has_name = match (&self.name, &other.name) {
            (None, _) => true,
            (Some(name), Some(other)) => other.starts_with(name),
            (Some(_), None) => false,
        };
        let has_program = match (&self.program, &other.program) {
            (None, _) => true,
            (Some(program), Some(other)) => {
                (program.program, &program.parameter) == (other.program, &other.parameter)
                    && program.mask & other.mask == program.mask
                    && other.result & program.mask == program.result
            }
            (Some(_), None) => false,
        };
        has_name
            && has_program
            && self.masks.masked(&other.masks) == self.masks
            && other.values.masked(&self.masks) == self.values
    }

    /// Whether one packet could match both, as far as fields and names tell.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let both = self.masks.masked(&other.masks);
        let names = match (&self.name, &other.name) {
            (Some(a), Some(b)) => a.starts_with(b) || b.starts_with(a),
            _ => true,
        };
        names && self.values.masked(&both) == other.values.masked(&both)
    }
}

/// Which flows are meant.
#[derive(Clone, Debug)]
pub(super) struct Which {
    /// One, or [`ALL_TABLES`].
    pub table: u8,
    pub wanted: Wanted,
    /// Whether the flows were found by exactly this match, so that it need not be compared.
    pub is_strict: bool,
    /// The cookie, and the bits of it that count.
    pub cookie: (u64, u64),
    pub out_port: PortNumber,
    pub out_group: GroupId,
}

impl Which {
    /// Whether a flow of this cookie, match and instructions (as they are in messages) is meant. It is in a table that is meant.
    pub(super) fn means(
        &self,
        cookie: u64,
        matching: &[u8],
        instructions: &[u8],
        is_legacy: bool,
    ) -> bool {
        let (wanted, mask) = self.cookie;
        if cookie & mask != wanted & mask {
            return false;
        }
        let asks_nothing = self.wanted.masks == Fields::NONE
            && self.wanted.name.is_none()
            && self.wanted.program.is_none();
        if !self.is_strict && !asks_nothing {
            match read_match(matching).and_then(|matching| Wanted::new(&matching, is_legacy)) {
                Ok(flow) if self.wanted.covers(&flow) => {}
                _ => return false,
            }
        }
        if self.out_port == PortNumber::ANY && self.out_group == GroupId::ANY {
            return true;
        }
        let instructions = Instruction::decode_all(instructions).unwrap_or_default();
        let sends = |action: &Action| matches!(action, Action::Output { port, .. } if *port == self.out_port);
        (self.out_port == PortNumber::ANY || actions(&instructions).any(sends))
            && (self.out_group == GroupId::ANY
                || groups(&instructions).any(|group| group == self.out_group))
    }

    pub(super) const fn has_table(&self, table: u8) -> bool {
        self.table == ALL_TABLES || self.table == table
    }
}

/// A match as it is in a message, with type, length and padding.
pub(super) fn read_match(octets: &[u8]) -> Result<Match, Refusal> {
    Match::decode(&mut Reader::new(octets, Refusal::MATCH_LEN))
}

/// All actions of instructions.
pub(super) fn actions(instructions: &[Instruction]) -> impl Iterator<Item = &Action> {
    instructions.iter().flat_map(|instruction| match instruction {
        Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => &actions[..],
        _ => &[],
    })
}

/// The groups that instructions use.
pub(super) fn groups(instructions: &[Instruction]) -> impl Iterator<Item = GroupId> {
    actions(instructions).filter_map(|action| match action {
        Action::Group(group) => Some(*group),
        _ => None,
    })
}
