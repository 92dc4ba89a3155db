//! The programs that one worker runs. Everything that takes time has been done elsewhere: the worker looks up, runs, counts, and exchanges
//! boxes.

use super::{Block, Machine};
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

/// A program with all that it needs on one worker.
#[derive(Debug)]
pub struct Loaded {
    pub(super) machine: Box<dyn Machine>,
    pub(super) counters: Arc<Counters>,
    pub(super) parameters: Numbered<Box<Block>>,
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
        let Loaded { machine, counters, parameters } = &mut **self.programs.get_mut(program)?;
        count(&counters.runs);
        let verdict = parameters.get_mut(parameter).and_then(|block| {
            let armed = block.arm(place, packet)?;
            let verdict = machine.run(&armed)?;
            armed.fault().is_none().then_some(verdict)
        });
        if verdict.is_none() {
            count(&counters.faults);
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
pub(super) struct Numbered<T> {
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

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match Self::index(number) {
            Some(index) => self.small.get_mut(index)?.as_mut(),
            None => self.large.get_mut(&number),
        }
    }

    pub(super) fn insert(&mut self, number: u32, value: T) -> Option<T> {
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
