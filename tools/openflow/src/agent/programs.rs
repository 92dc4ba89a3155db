//! Programs that controllers have put, and parameters that flows and controllers give them.
//!
//! A flow that names a program or a numbered parameter that is not there is refused (BAD_MATCH/BAD_VALUE). When a program is deleted
//! later, flows that ask for it stay and match nothing until it is put again.

use super::wanted::WantedProgram;
use crate::datapath::Datapath;
use crate::{Body, Experiment, MAX_PUT_OCTETS, Parameter, ProgramStats, Refusal};
use heddle_core::flow::ProgramMatch;
use std::collections::{BTreeMap, HashMap};

/// The highest number of a program.
const MAX_PROGRAM: u32 = 255;
/// Octets of the longest program.
const MAX_PROGRAM_OCTETS: usize = 1 << 20;
/// Octets of all programs.
const MAX_ALL_OCTETS: usize = 32 << 20;
/// Parameters of all programs that PARAM_SET has set, and octets of all of them.
const MAX_PARAMETERS: usize = 1 << 16;
const MAX_ALL_PARAMETER_OCTETS: usize = 32 << 20;
/// Parameters from here on are those that flows carry themselves.
const FIRST_OF_FLOWS: u32 = 1 << 31;
/// Octets of a part of a program that GET is answered with.
const PART_OCTETS: usize = 32 * 1024;

/// Why an experimenter's message is refused.
#[derive(Debug)]
pub(super) struct Trouble {
    pub refusal: Refusal,
    /// What is said beyond type and code, for errors of our experimenter.
    pub text: Option<String>,
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, text: None }
    }
}

fn trouble(refusal: Refusal, text: impl Into<String>) -> Trouble {
    Trouble { refusal, text: Some(text.into()) }
}

/// A program of which parts have come: one for each connection.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    program: u32,
    total: usize,
    octets: Vec<u8>,
}

/// Programs and parameters.
#[derive(Debug, Default)]
pub(super) struct Programs {
    programs: BTreeMap<u32, Vec<u8>>,
    octets: usize,
    /// Octets of numbered parameters, by program and number.
    numbered: BTreeMap<(u32, u32), usize>,
    numbered_octets: usize,
    /// Parameters that flows carry: number and flows that use it.
    carried: HashMap<(u32, Vec<u8>), (u32, u32)>,
    carried_by_number: HashMap<u32, (u32, Vec<u8>)>,
    last_carried: u32,
}

impl Programs {
    /// Carries out a message of our experimenter. The answers to it.
    pub(super) fn handle(
        &mut self,
        message: Experiment,
        parts: &mut Option<Parts>,
        is_legacy: bool,
        datapath: &mut dyn Datapath,
    ) -> Result<Vec<Body>, Trouble> {
        let (request, program) = match message {
            Experiment::Put { program, octets } => {
                self.put(program, octets, datapath)?;
                // Older controllers do not know acknowledgements.
                if is_legacy {
                    return Ok(Vec::new());
                }
                (0, program)
            }
            Experiment::Delete { program } => {
                self.delete(program, datapath)?;
                (1, program)
            }
            Experiment::Get { program } => return self.get(program),
            Experiment::PutPart { program, total_len, offset, octets } => {
                self.check(program, total_len as usize)?;
                if let Some(whole) = collect(parts, program, total_len, offset, &octets)? {
                    self.put(program, whole, datapath)?;
                }
                (3, program)
            }
            Experiment::SetParameter { program, parameter, octets } => {
                self.set_parameter(program, parameter, &octets, datapath)?;
                (4, program)
            }
            Experiment::Acknowledge { .. } => return Err(Refusal::BAD_EXPERIMENTER_TYPE.into()),
        };
        Ok(vec![Body::Experimenter(Experiment::Acknowledge { request, program })])
    }

    fn check(&self, program: u32, octets: usize) -> Result<(), Trouble> {
        if program > MAX_PROGRAM {
            let text = format!("programs are numbered from 0 to {MAX_PROGRAM}, not {program}");
            return Err(trouble(Experiment::BAD_NUMBER, text));
        }
        let old = self.programs.get(&program).map_or(0, Vec::len);
        if octets > MAX_PROGRAM_OCTETS || self.octets - old + octets > MAX_ALL_OCTETS {
            let text = format!(
                "{octets} octets are more than there is room for: {MAX_PROGRAM_OCTETS} in a program, {MAX_ALL_OCTETS} in all"
            );
            return Err(trouble(Experiment::TOO_LONG, text));
        }
        Ok(())
    }

    fn put(
        &mut self,
        program: u32,
        octets: Vec<u8>,
        datapath: &mut dyn Datapath,
    ) -> Result<(), Trouble> {
        self.check(program, octets.len())?;
        datapath.put_program(program, &octets).map_err(|why| {
            trouble(Experiment::BAD_PROGRAM, format!("program {program} is not taken: {why}"))
        })?;
        self.octets += octets.len();
        if let Some(old) = self.programs.insert(program, octets) {
            self.octets -= old.len();
        }
        Ok(())
    }

    fn delete(&mut self, program: u32, datapath: &mut dyn Datapath) -> Result<(), Trouble> {
        let old = self.programs.remove(&program).ok_or_else(|| absent(program))?;
        self.octets -= old.len();
        datapath.delete_program(program);
        let numbers: Vec<u32> = self
            .numbered
            .range((program, 0)..=(program, u32::MAX))
            .map(|((_, at), _)| *at)
            .collect();
        for number in numbers {
            self.unset(program, number, datapath);
        }
        Ok(())
    }

    fn get(&self, program: u32) -> Result<Vec<Body>, Trouble> {
        let elf = self.programs.get(&program).ok_or_else(|| absent(program))?;
        if elf.len() <= MAX_PUT_OCTETS {
            return Ok(vec![Body::Experimenter(Experiment::Put { program, octets: elf.clone() })]);
        }
        let total_len = elf.len() as u32;
        let part = |(at, octets): (usize, &[u8])| {
            let (offset, octets) = ((at * PART_OCTETS) as u32, octets.to_vec());
            Body::Experimenter(Experiment::PutPart { program, total_len, offset, octets })
        };
        Ok(elf.chunks(PART_OCTETS).enumerate().map(part).collect())
    }

    fn set_parameter(
        &mut self,
        program: u32,
        parameter: u32,
        octets: &[u8],
        datapath: &mut dyn Datapath,
    ) -> Result<(), Trouble> {
        if !self.programs.contains_key(&program) {
            return Err(absent(program));
        }
        if !(1..FIRST_OF_FLOWS).contains(&parameter) {
            let text = format!(
                "parameters are numbered from 1 to {}, not {parameter}",
                FIRST_OF_FLOWS - 1
            );
            return Err(trouble(Experiment::BAD_NUMBER, text));
        }
        if octets.is_empty() {
            self.unset(program, parameter, datapath);
            return Ok(());
        }
        let old = self.numbered.get(&(program, parameter)).copied();
        let all = self.numbered_octets - old.unwrap_or(0) + octets.len();
        if all > MAX_ALL_PARAMETER_OCTETS
            || (old.is_none() && self.numbered.len() >= MAX_PARAMETERS)
        {
            return Err(trouble(
                Experiment::BAD_PARAMETER,
                "there is no room for a further parameter",
            ));
        }
        datapath.set_parameter(program, parameter, octets).map_err(|why| {
            trouble(Experiment::BAD_PARAMETER, format!("parameter {parameter} is not taken: {why}"))
        })?;
        self.numbered_octets = all;
        self.numbered.insert((program, parameter), octets.len());
        Ok(())
    }

    fn unset(&mut self, program: u32, parameter: u32, datapath: &mut dyn Datapath) {
        if let Some(octets) = self.numbered.remove(&(program, parameter)) {
            self.numbered_octets -= octets;
            // Taking away what is there is never refused.
            let _ = datapath.set_parameter(program, parameter, &[]);
        }
    }

    /// What the core is to compare, for one more flow. A parameter that the flow carries gets a number.
    pub(super) fn take(
        &mut self,
        wanted: &WantedProgram,
        datapath: &mut dyn Datapath,
    ) -> Result<ProgramMatch, Refusal> {
        let program = wanted.program;
        if !self.programs.contains_key(&program) {
            return Err(Refusal::MATCH_VALUE);
        }
        let parameter = match &wanted.parameter {
            Parameter::Octets(octets) if octets.is_empty() => 0,
            Parameter::Octets(octets) => {
                let key = (program, octets.clone());
                match self.carried.get_mut(&key) {
                    Some((number, users)) => {
                        *users += 1;
                        *number
                    }
                    None => {
                        let number = self.next_number();
                        let set = datapath.set_parameter(program, number, octets);
                        set.map_err(|_| Refusal::MATCH_VALUE)?;
                        self.carried_by_number.insert(number, key.clone());
                        self.carried.insert(key, (number, 1));
                        number
                    }
                }
            }
            Parameter::Number(number) if self.numbered.contains_key(&(program, *number)) => *number,
            Parameter::Number(_) => return Err(Refusal::MATCH_VALUE),
        };
        Ok(ProgramMatch { program, parameter, result: wanted.result, mask: wanted.mask })
    }

    /// The same for a flow that is there already, or not at all.
    pub(super) fn look_up(&self, wanted: &WantedProgram) -> Option<ProgramMatch> {
        let parameter = match &wanted.parameter {
            Parameter::Octets(octets) if octets.is_empty() => 0,
            Parameter::Octets(octets) => self.carried.get(&(wanted.program, octets.clone()))?.0,
            Parameter::Number(number) => *number,
        };
        let (program, result, mask) = (wanted.program, wanted.result, wanted.mask);
        Some(ProgramMatch { program, parameter, result, mask })
    }

    /// One flow fewer uses this program's parameter.
    pub(super) fn release(&mut self, (program, number): (u32, u32), datapath: &mut dyn Datapath) {
        let Some(key) = self.carried_by_number.get(&number) else { return };
        let Some((_, users)) = self.carried.get_mut(key) else { return };
        *users -= 1;
        if *users == 0 {
            self.carried.remove(key);
            self.carried_by_number.remove(&number);
            // Taking away what is there is never refused.
            let _ = datapath.set_parameter(program, number, &[]);
        }
    }

    /// Programs that the switch has, and their counters.
    pub(super) fn stats(&self, datapath: &dyn Datapath) -> Vec<ProgramStats> {
        datapath.programs()
    }

    fn next_number(&mut self) -> u32 {
        loop {
            self.last_carried = self.last_carried.wrapping_add(1) | FIRST_OF_FLOWS;
            if !self.carried_by_number.contains_key(&self.last_carried) {
                return self.last_carried;
            }
        }
    }
}

fn absent(program: u32) -> Trouble {
    trouble(Experiment::UNKNOWN_PROGRAM, format!("there is no program {program}"))
}

/// Takes a part of a program; the program, when it is whole. A part that does not fit ends the collection.
fn collect(
    parts: &mut Option<Parts>,
    program: u32,
    total: u32,
    offset: u32,
    octets: &[u8],
) -> Result<Option<Vec<u8>>, Trouble> {
    let (total, offset) = (total as usize, offset as usize);
    let mut known = match parts.take() {
        _ if offset == 0 => Parts { program, total, octets: Vec::new() },
        Some(known) => known,
        None => {
            return Err(trouble(
                Experiment::BAD_PART,
                format!("program {program} has no part before octet {offset}"),
            ));
        }
    };
    if (known.program, known.total) != (program, total) {
        let text = format!(
            "after parts of program {} with {} octets comes one of program {program} with {total}",
            known.program, known.total
        );
        return Err(trouble(Experiment::BAD_PART, text));
    }
    if known.octets.len() != offset {
        let text = format!(
            "the part of program {program} begins at octet {offset} and not at {}",
            known.octets.len()
        );
        return Err(trouble(Experiment::BAD_PART, text));
    }
    if octets.is_empty() && total > 0 {
        return Err(trouble(Experiment::BAD_PART, "a part has no octets"));
    }
    known.octets.extend_from_slice(octets);
    if known.octets.len() == total {
        return Ok(Some(known.octets));
    }
    *parts = Some(known);
    Ok(None)
}
