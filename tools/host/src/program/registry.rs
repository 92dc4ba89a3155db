//! All programs of a switch, on its control thread: loads and compiles them, and says what each worker has to take over.

use super::set::{Change, Counters, Loaded};
use super::{Backend, Block, MAX_PARAMETER, Program, ProgramError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// Programs of one switch, at most.
pub const MAX_PROGRAMS: usize = 256;
/// Octets of memory for the parameters of all programs on one worker, at most.
pub const MAX_PARAMETERS: usize = 64 << 20;

/// Why a request about programs fails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// The program is none.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// No backend runs it.
    #[error("no way to run the program: {0}")]
    Backend(String),
    /// There are enough.
    #[error("the switch has {MAX_PROGRAMS} programs already")]
    Full,
    /// There is none with this number.
    #[error("there is no program {0}")]
    Absent(u32),
    /// The parameter is too long.
    #[error("the parameter has {0} octets, and {MAX_PARAMETER} is the most")]
    ParameterTooLong(usize),
    /// The parameters take too much memory.
    #[error("the parameters of all programs take more than {MAX_PARAMETERS} octets of memory")]
    ParametersFull,
}

/// What is to be said of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    /// Its number.
    pub program: u32,
    /// Octets of the file that it came in.
    pub octets: usize,
    /// Instructions of it.
    pub instructions: usize,
    /// How it is run.
    pub backend: &'static str,
    /// Runs, over all workers, since it was put here first.
    pub runs: u64,
    /// Packets that took the way of a rule by its verdict.
    pub hits: u64,
    /// Runs that ended without a verdict.
    pub faults: u64,
}

#[derive(Debug)]
struct Entry {
    octets: usize,
    instructions: usize,
    backend: &'static str,
    /// One a worker.
    counters: Vec<Arc<Counters>>,
    parameters: BTreeMap<u32, usize>,
}

/// All programs of a switch.
#[derive(Debug)]
pub struct Registry {
    workers: usize,
    /// The best first.
    backends: Vec<Box<dyn Backend>>,
    programs: BTreeMap<u32, Entry>,
    /// Octets of all parameters on one worker.
    parameters: usize,
}

impl Registry {
    /// No programs yet, for this many workers. The first backend that takes a program runs it.
    pub fn new(workers: usize, backends: Vec<Box<dyn Backend>>) -> Self {
        Self { workers, backends, programs: BTreeMap::new(), parameters: 0 }
    }

    /// Takes a program, in place of the one with the same number if there is one; counters and parameters stay. Gives a change for each worker.
    ///
    /// # Errors
    /// It is no program, nothing runs it, or there are enough. Nothing has changed then.
    pub fn put(&mut self, number: u32, octets: &[u8]) -> Result<Vec<Change>, RegistryError> {
        if !self.programs.contains_key(&number) && self.programs.len() >= MAX_PROGRAMS {
            return Err(RegistryError::Full);
        }
        let program = Program::load(octets)?;
        let (backend, machines) = self.prepare(&program)?;
        let workers = self.workers;
        let empty = empty_block()?.octets();
        let entry = self.programs.entry(number).or_insert_with(|| Entry {
            octets: 0,
            instructions: 0,
            backend,
            counters: (0..workers).map(|_| Arc::default()).collect(),
            parameters: BTreeMap::new(),
        });
        if entry.parameters.is_empty() {
            entry.parameters.insert(0, empty);
            self.parameters += empty;
        }
        entry.octets = program.octets();
        entry.instructions = program.instructions();
        entry.backend = backend;
        machines
            .into_iter()
            .zip(&entry.counters)
            .map(|(machine, counters)| {
                let loaded = Loaded::new(machine, counters.clone(), empty_block()?);
                Ok(Change::Put { program: number, loaded })
            })
            .collect()
    }

    /// A machine for each worker, by the first backend that has them.
    #[allow(clippy::type_complexity)]
    fn prepare(
        &self,
        program: &Program,
    ) -> Result<(&'static str, Vec<Box<dyn super::Machine>>), RegistryError> {
        let mut reasons = Vec::new();
        for backend in &self.backends {
            let machines = backend.prepare(program).and_then(|first| {
                let others: Result<Vec<_>, String> = (1..self.workers)
                    .map(|_| first.another().map_or_else(|| backend.prepare(program), Ok))
                    .collect();
                others.map(|mut machines| {
                    machines.push(first);
                    machines
                })
            });
            match machines {
                Ok(machines) => return Ok((backend.name(), machines)),
                Err(reason) => reasons.push(format!("{}: {reason}", backend.name())),
            }
        }
        Err(RegistryError::Backend(reasons.join("; ")))
    }

    /// Deletes a program and its parameters. Gives a change for each worker.
    ///
    /// # Errors
    /// There is none with this number.
    pub fn delete(&mut self, number: u32) -> Result<Vec<Change>, RegistryError> {
        let entry = self.programs.remove(&number).ok_or(RegistryError::Absent(number))?;
        self.parameters -= entry.parameters.values().sum::<usize>();
        Ok((0..self.workers).map(|_| Change::Delete { program: number }).collect())
    }

    /// Sets a parameter of a program. Number 0, which is what rules use that name none, is empty until it is set. Gives a change for each worker.
    ///
    /// # Errors
    /// There is no such program, the parameter is too long, or there are too many.
    pub fn set_parameter(
        &mut self,
        program: u32,
        parameter: u32,
        octets: &[u8],
    ) -> Result<Vec<Change>, RegistryError> {
        let entry = self.programs.get_mut(&program).ok_or(RegistryError::Absent(program))?;
        let block = || Block::new(octets).ok_or(RegistryError::ParameterTooLong(octets.len()));
        let (new, old) =
            (block()?.octets(), entry.parameters.get(&parameter).copied().unwrap_or(0));
        if self.parameters - old + new > MAX_PARAMETERS {
            return Err(RegistryError::ParametersFull);
        }
        self.parameters = self.parameters - old + new;
        entry.parameters.insert(parameter, new);
        (0..self.workers)
            .map(|_| Ok(Change::Parameter { program, parameter, block: Box::new(block()?) }))
            .collect()
    }

    /// Deletes a parameter; number 0 becomes empty. Gives a change for each worker, none if there is no such parameter.
    pub fn delete_parameter(&mut self, program: u32, parameter: u32) -> Vec<Change> {
        if parameter == 0 {
            return self.set_parameter(program, 0, &[]).unwrap_or_default();
        }
        let Some(octets) =
            self.programs.get_mut(&program).and_then(|entry| entry.parameters.remove(&parameter))
        else {
            return Vec::new();
        };
        self.parameters -= octets;
        (0..self.workers).map(|_| Change::DeleteParameter { program, parameter }).collect()
    }

    /// Whether there is a program with this number.
    pub fn contains(&self, program: u32) -> bool {
        self.programs.contains_key(&program)
    }

    /// The numbers of a program's parameters.
    pub fn parameters(&self, program: u32) -> BTreeSet<u32> {
        self.programs
            .get(&program)
            .map(|entry| entry.parameters.keys().copied().collect())
            .unwrap_or_default()
    }

    /// What there is to say of each program.
    pub fn stats(&self) -> Vec<ProgramStats> {
        self.programs
            .iter()
            .map(|(number, entry)| {
                let sum = |counter: fn(&Counters) -> u64| {
                    entry
                        .counters
                        .iter()
                        .fold(0_u64, |sum, counters| sum.wrapping_add(counter(counters)))
                };
                ProgramStats {
                    program: *number,
                    octets: entry.octets,
                    instructions: entry.instructions,
                    backend: entry.backend,
                    runs: sum(|counters| counters.runs.load(Relaxed)),
                    hits: sum(|counters| counters.hits.load(Relaxed)),
                    faults: sum(|counters| counters.faults.load(Relaxed)),
                }
            })
            .collect()
    }
}

fn empty_block() -> Result<Block, RegistryError> {
    Block::new(&[]).ok_or(RegistryError::ParameterTooLong(0))
}
