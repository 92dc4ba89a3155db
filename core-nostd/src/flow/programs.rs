//! Programs that rules match by: they look at the whole packet and give a number, which the rule compares.

use super::FlowError;
use crate::node::PortId;
use heapless::Vec;

/// Runs of programs for one packet in one table, at most. Rules that need a further one do not match, which is counted
/// ([`FlowError::ProgramRuns`]).
pub const MAX_PROGRAM_RUNS: usize = 32;

/// Matches when the program's verdict v has `(v ^ result) & mask == 0`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramMatch {
    /// The program's number.
    pub program: u32,
    /// The number by which its parameter is found; 0 is the empty parameter.
    pub parameter: u32,
    /// What the verdict must be.
    pub result: u64,
    /// Where its bits count.
    pub mask: u64,
}

impl ProgramMatch {
    /// Whether a packet with this verdict matches.
    pub const fn accepts(&self, verdict: u64) -> bool {
        (verdict ^ self.result) & self.mask == 0
    }
}

/// Where a program runs.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramPlace {
    /// The table whose rule asks.
    pub table: u8,
    /// The port that the packet came in on.
    pub in_port: PortId,
}

/// Runs programs on packets. One object a core.
pub trait Programs {
    /// The verdict on `packet`, a whole frame; nothing when the program is absent or has faulted, and the rule does not match then.
    /// `parameter` is a number by which the implementation finds the parameter's octets (0: the empty parameter).
    fn run(
        &mut self,
        program: u32,
        parameter: u32,
        place: ProgramPlace,
        packet: &[u8],
    ) -> Option<u64>;

    /// Notes that a packet took the way of a rule by this program's verdict.
    fn hit(&mut self, program: u32) {
        let _ = program;
    }
}

/// No programs: rules that ask for one never match.
#[derive(Copy, Clone, Debug, Default)]
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn run(&mut self, _: u32, _: u32, _: ProgramPlace, _: &[u8]) -> Option<u64> {
        None
    }
}

/// Verdicts by program and parameter: scratch memory, which would take time to make for each packet.
pub(super) type Known = Vec<(u32, u32, Option<u64>), MAX_PROGRAM_RUNS>;

/// What rules learn about one packet in one table: each program with each parameter runs once.
pub(super) struct Verdicts<'p, P> {
    programs: &'p mut P,
    place: ProgramPlace,
    packet: &'p [u8],
    known: &'p mut Known,
    /// Rules that would have needed a run too many.
    refused: u64,
}

impl<'p, P: Programs> Verdicts<'p, P> {
    pub(super) fn new(
        programs: &'p mut P,
        known: &'p mut Known,
        place: ProgramPlace,
        packet: &'p [u8],
    ) -> Self {
        known.clear();
        Self { programs, place, packet, known, refused: 0 }
    }

    /// Whether the packet is what the rule asks for.
    pub(super) fn accept(&mut self, wanted: &ProgramMatch) -> bool {
        let key = (wanted.program, wanted.parameter);
        let known = self.known.iter().find(|(program, parameter, _)| (*program, *parameter) == key);
        let verdict = match known {
            Some((_, _, verdict)) => *verdict,
            None if self.known.is_full() => {
                self.refused += 1;
                None
            }
            None => {
                let verdict = self.programs.run(key.0, key.1, self.place, self.packet);
                // There is room: it is not full.
                let _ = self.known.push((key.0, key.1, verdict));
                verdict
            }
        };
        verdict.is_some_and(|verdict| wanted.accepts(verdict))
    }

    /// What to count when rules needed too many runs.
    pub(super) fn problem(&self) -> Option<FlowError> {
        (self.refused > 0).then_some(FlowError::ProgramRuns)
    }
}
