//! Match programs: eBPF that a controller sends to a switch, which then asks it about packets.
//!
//! ```text
//!  octets ── elf ── verify, analysis ── confine ──► Program ──┬── interpret (rbpf)
//!                                                             └── a compiler of the engine's own (librte_bpf)
//! ```
//!
//! [`Program::load`] takes an ELF file or plain instructions, refuses with a sentence what cannot be a program, and rewrites the rest so that it reads
//! its context, its parameter and the packet and nothing else. What it then runs on is a [`Block`] ([`block`] has the layout,
//! which is that of older switches of this kind). A [`Backend`] makes a [`Machine`] of a program. A [`Registry`] on the control thread has all programs of
//! a switch, and hands each worker's [`ProgramSet`] what changes.
//!
//! A program has the registers, the arithmetic and the comparisons of eBPF up to version 3 of clang's instruction sets, 512 octets of stack, and
//! no calls, maps, atomic operations and loads of classic BPF. It may write to its stack only. A division by zero gives 0, its remainder the dividend.
//! A load outside ends the run without a verdict, which is a fault and counted. Loops may go round until about [`BUDGET`] instructions have run.
//! Compilers take no loops, so for them each is unrolled as far as there is room; a run that goes round more often begins again in the interpreter.
//! A program that uses up its budget [`PATIENCE`] times in a row is run no more, and that is a fault each time.
//!
//! | limit | |
//! |---|---|
//! | file | [`MAX_FILE`] octets |
//! | instructions, also with all bounds checks | [`MAX_INSTRUCTIONS`] |
//! | conditional jumps, with all bounds checks | [`MAX_BRANCHES`] |
//! | packet, parameter | [`MAX_PACKET`], [`MAX_PARAMETER`] octets |

mod analysis;
pub mod block;
mod confine;
mod elf;
mod emit;
mod error;
mod graph;
mod instruction;
mod interpret;
pub mod registry;
pub mod set;
mod unroll;
mod verify;

pub use block::{Armed, Block, Fault, MAX_PACKET, MAX_PARAMETER};
pub use error::{ProgramError, Refusal};
pub use instruction::Instruction;
pub use interpret::Interpreter;
pub use registry::{ProgramStats, Registry, RegistryError};
pub use set::{Change, PATIENCE, ProgramSet, Retired};

use std::fmt::Debug;

/// Octets of a file, at most.
pub const MAX_FILE: usize = 4 << 20;
/// Instructions, at most: jumps count 16 bits.
pub const MAX_INSTRUCTIONS: usize = 32_760;
/// Conditional jumps, at most: librte_bpf takes 15 KiB of memory for each while it loads a program.
pub const MAX_BRANCHES: usize = 8192;
/// Instructions that a program with loops may run, about.
pub const BUDGET: i32 = 65_536;

/// A program that can do no harm.
#[derive(Clone, Debug)]
pub struct Program {
    octets: usize,
    instructions: usize,
    loops: bool,
    text: Vec<Instruction>,
    unrolled: Option<Vec<Instruction>>,
}

impl Program {
    /// Takes a program from an ELF file, or from instructions alone.
    ///
    /// # Errors
    /// What is wrong with it, with the instruction's number where there is one.
    pub fn load(octets: &[u8]) -> Result<Self, ProgramError> {
        if octets.len() > MAX_FILE {
            return Err(ProgramError::TooLarge { octets: octets.len() });
        }
        let code = if octets.starts_with(&elf::MAGIC) {
            elf::code(octets)?
        } else {
            instruction::decode_all(octets).ok_or(ProgramError::CutOff { octets: octets.len() })?
        };
        verify::check(&code)?;
        let graph = graph::Graph::new(&code);
        let accesses = analysis::accesses(&code, &graph)?;
        let text = confine::confine(&code, &graph, &accesses)?;
        let unrolled = if graph.has_loops() { unroll::confined(&code, &graph) } else { None };
        Ok(Self {
            octets: octets.len(),
            instructions: code.len(),
            loops: graph.has_loops(),
            text,
            unrolled,
        })
    }

    /// Octets of the file.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Instructions of the program as it came.
    pub fn instructions(&self) -> usize {
        self.instructions
    }

    /// The confined program. R1 is the address of an [`Armed`] block; the result is the verdict, or whatever if there has been a fault.
    pub fn text(&self) -> &[Instruction] {
        &self.text
    }

    /// The confined program for a compiler: the same, or without its loops, where they can be unrolled. Such a program may ask for another
    /// run ([`Armed::begins_again`]), which only the interpreter can do.
    pub fn unrolled(&self) -> Option<&[Instruction]> {
        if self.loops { self.unrolled.as_deref() } else { Some(&self.text) }
    }

    /// Whether there are loops.
    pub fn has_loops(&self) -> bool {
        self.loops
    }

    /// The instruction of both texts that loads the packet's address from the block (`R0 = *(u64 *)R1`). A compiler may put a call in its place that
    /// does the same, when it needs to be told what the address points to. R1 to R5 are free behind it.
    pub const PACKET_LOAD: usize = emit::Emitter::PACKET_LOAD;
}

/// Makes machines of programs.
pub trait Backend: Debug + Send {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// A machine for the program.
    ///
    /// # Errors
    /// Why this backend cannot run it, as a sentence.
    fn prepare(&self, program: &Program) -> Result<Box<dyn Machine>, String>;
}

/// Something that runs one program.
pub trait Machine: Debug + Send {
    /// Runs the program. The verdict counts only if [`Armed::fault`] has nothing afterwards; nothing if the machine has stopped the program itself.
    fn run(&mut self, armed: &Armed<'_>) -> Option<u64>;

    /// Another machine for the same program, if that is less work than to prepare one.
    fn another(&self) -> Option<Box<dyn Machine>>;
}
