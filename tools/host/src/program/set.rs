//! The programs that one worker runs. Everything that takes time has been done elsewhere: the worker looks up, runs, counts, and exchanges
//! boxes.

use super::{Block, Fault, Machine};
use heddle_core::flow::{ProgramPlace, Programs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one worker has counted of one program. The worker alone writes; anybody may read.
#[derive(Debug, Default)]
pub struct Counters {
    /// Runs that have begun.
    pub runs: AtomicU64,
    /// Packets that took the way of a rule by this program's verdict.
    pub hits: AtomicU64,
    /// Runs that ended without a verdict.
    pub faults: AtomicU64,
}

fn count(counter: &AtomicU64) {
    // One writer, so this loses nothing and costs no locked instruction.
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// Something that a worker has to take over between two packets.
#[derive(Debug)]
pub enum Change {
    /// A program is new, or another one in place of the old. Parameters stay.
    Put {
        /// Its number.
        program: u32,
        /// It.
        loaded: Box<Loaded>,
    },
    /// A program is gone, with its parameters.
    Delete {
        /// Its number.
        program: u32,
    },
    /// A parameter is new or another.
    Parameter {
        /// Of which program.
        program: u32,
        /// Its number.
        parameter: u32,
        /// It.
        block: Box<Block>,
    },
    /// A parameter is gone; number 0 is empty again.
    DeleteParameter {
        /// Of which program.
        program: u32,
        /// Its number.
        parameter: u32,
    },
}

/// Runs in a row that use up their budget before a program is run no more, until another takes its place.
pub const PATIENCE: u32 = 16;

/// A program with all that it needs on one worker.
#[derive(Debug)]
pub struct Loaded {
    machine: Box<dyn Machine>,
    counters: Arc<Counters>,
    parameters: Numbered<Box<Block>>,
    /// Runs in a row that have used up their budget.
    tardy: u32,
}

impl Loaded {
    /// A program whose parameter 0 is this one.
    pub(super) fn new(
        machine: Box<dyn Machine>,
        counters: Arc<Counters>,
        empty: Block,
    ) -> Box<Self> {
        let mut parameters = Numbered::default();
        parameters.insert(0, Box::new(empty));
        Box::new(Self { machine, counters, parameters, tardy: 0 })
    }

    fn run(&mut self, parameter: u32, place: ProgramPlace, packet: &[u8]) -> Option<u64> {
        if self.tardy >= PATIENCE {
            return None;
        }
        let armed = self.parameters.get_mut(parameter)?.arm(place, packet)?;
        let verdict = self.machine.run(&armed)?;
        let fault = armed.fault();
        self.tardy = if fault == Some(Fault::Budget) { self.tardy + 1 } else { 0 };
        fault.is_none().then_some(verdict)
    }
}

/// What a worker needs no more. Dropping it frees memory, which is for another thread to do.
#[derive(Debug)]
pub enum Retired {
    /// A program.
    Program(Box<Loaded>),
    /// A parameter.
    Parameter(Box<Block>),
}

/// The programs of one worker.
#[derive(Debug, Default)]
pub struct ProgramSet {
    programs: Numbered<Box<Loaded>>,
}

impl ProgramSet {
    /// No programs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over a change. What it replaces, or cannot use, comes back.
    pub fn apply(&mut self, change: Change) -> Option<Retired> {
        match change {
            Change::Put { program, mut loaded } => {
                if let Some(old) = self.programs.get_mut(program) {
                    // The old one's parameters go on, and the new one's empty ones go back with it.
                    std::mem::swap(&mut old.parameters, &mut loaded.parameters);
                }
                self.programs.insert(program, loaded).map(Retired::Program)
            }
            Change::Delete { program } => self.programs.remove(program).map(Retired::Program),
            Change::Parameter { program, parameter, block } => match self.programs.get_mut(program)
            {
                Some(loaded) => loaded.parameters.insert(parameter, block).map(Retired::Parameter),
                None => Some(Retired::Parameter(block)),
            },
            Change::DeleteParameter { program, parameter } => {
                let loaded = self.programs.get_mut(program)?;
                loaded.parameters.remove(parameter).map(Retired::Parameter)
            }
        }
    }
}

impl Programs for ProgramSet {
    fn run(
        &mut self,
        program: u32,
        parameter: u32,
        place: ProgramPlace,
        packet: &[u8],
    ) -> Option<u64> {
        let loaded = self.programs.get_mut(program)?;
        count(&loaded.counters.runs);
        let verdict = loaded.run(parameter, place, packet);
        if verdict.is_none() {
            count(&loaded.counters.faults);
        }
        verdict
    }

    fn hit(&mut self, program: u32) {
        if let Some(loaded) = self.programs.get_mut(program) {
            count(&loaded.counters.hits);
        }
    }
}

/// Things by number: small numbers by index, others by search.
#[derive(Debug)]
struct Numbered<T> {
    small: Vec<Option<T>>,
    large: BTreeMap<u32, T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { small: Vec::new(), large: BTreeMap::new() }
    }
}

/// Numbers below are an index.
const SMALL: usize = 256;

impl<T> Numbered<T> {
    fn index(number: u32) -> Option<usize> {
        usize::try_from(number).ok().filter(|number| *number < SMALL)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match Self::index(number) {
            Some(index) => self.small.get_mut(index)?.as_mut(),
            None => self.large.get_mut(&number),
        }
    }

    fn insert(&mut self, number: u32, value: T) -> Option<T> {
        let Some(index) = Self::index(number) else { return self.large.insert(number, value) };
        if self.small.len() <= index {
            self.small.resize_with(SMALL, || None);
        }
        self.small.get_mut(index)?.replace(value)
    }

    fn remove(&mut self, number: u32) -> Option<T> {
        match Self::index(number) {
            Some(index) => self.small.get_mut(index)?.take(),
            None => self.large.remove(&number),
        }
    }
}
