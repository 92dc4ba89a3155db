//! Why a program is refused.

use thiserror::Error;

/// Why a program cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// More octets than [`super::MAX_FILE`].
    #[error("the file has {octets} octets, and {} is the most", super::MAX_FILE)]
    TooLarge {
        /// Octets of the file.
        octets: usize,
    },
    /// Neither ELF nor instructions.
    #[error("this is no ELF file: {reason}")]
    NotElf {
        /// What is wrong with it.
        reason: String,
    },
    /// ELF of another machine or kind.
    #[error(
        "this ELF file is not for eBPF (machine {machine}, and 247 is eBPF): compile it with clang -target bpf"
    )]
    NotBpf {
        /// `e_machine` of the file.
        machine: u16,
    },
    /// No section holds code.
    #[error("the file has no section with code")]
    NoCode,
    /// The code refers to something outside it.
    #[error(
        "the code refers to `{symbol}` (relocation at octet {at} of section {section}): programs have neither maps, global variables, nor functions that are not inlined"
    )]
    Relocation {
        /// The section of the code.
        section: String,
        /// Octets from its beginning.
        at: u64,
        /// What it refers to.
        symbol: String,
    },
    /// Something about one instruction.
    #[error("instruction {at}: {reason}")]
    Instruction {
        /// Its index, from 0; a 64-bit immediate load counts as two.
        at: usize,
        /// What is wrong with it.
        reason: Refusal,
    },
    /// The instructions are cut off.
    #[error("the code has {octets} octets, which is no number of whole instructions")]
    CutOff {
        /// Octets of the code.
        octets: usize,
    },
    /// Too many instructions.
    #[error(
        "the program has {instructions} instructions, and {} is the most",
        super::MAX_INSTRUCTIONS
    )]
    TooManyInstructions {
        /// How many there are.
        instructions: usize,
    },
    /// With its bounds checks the program is too long.
    #[error(
        "with its bounds checks the program has {instructions} instructions, and {} is the most",
        super::MAX_INSTRUCTIONS
    )]
    ConfinedTooLong {
        /// How many there are.
        instructions: usize,
    },
    /// Loops in loops in loops.
    #[error("the program's loops are too involved to be followed")]
    TooInvolved,
    /// Too many branches.
    #[error(
        "with its bounds checks the program has {branches} branches, and {} is the most",
        super::MAX_BRANCHES
    )]
    TooManyBranches {
        /// How many there are.
        branches: usize,
    },
}

/// What is wrong with an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A code that this machine does not have.
    #[error("there is no instruction with code {0:#04x} here")]
    Unknown(u8),
    /// A code of a later version of the instruction set.
    #[error(
        "code {0:#04x} with these operands belongs to a later version of eBPF: compile with -mcpu=v2 or v3"
    )]
    Later(u8),
    /// A field that must be zero is not.
    #[error("a field that has no meaning here is not zero")]
    Reserved,
    /// No such register.
    #[error("there is no register R{0}")]
    Register(u8),
    /// Register 10 is written.
    #[error("R10, which points to the stack, may not be written")]
    FrameWritten,
    /// Register 10 is used for something else than addresses.
    #[error("R10, which points to the stack, may be copied, added to and read from, nothing else")]
    FrameUsed,
    /// A register is read before anything is written to it.
    #[error("R{0} is read, and on some way to here nothing has been written to it")]
    Uninitialised(u8),
    /// A shift by too much.
    #[error("a shift by {0} bits is wider than the register")]
    Shift(i32),
    /// Division by the constant zero.
    #[error("it divides by the constant zero")]
    DivisionByZero,
    /// A conversion to a byte order of an impossible width.
    #[error("bytes can be swapped in 16, 32 and 64 bits, not in {0}")]
    Swap(i32),
    /// A jump out of the program.
    #[error("the jump leads to instruction {0}, which is outside the program")]
    JumpOutside(i64),
    /// A jump into a 64-bit immediate load.
    #[error("the jump leads into the middle of a 64-bit load, at instruction {0}")]
    JumpInside(usize),
    /// The last instruction is neither a jump nor an exit.
    #[error("the program can run over its end: an exit is missing")]
    RunsOut,
    /// The second half of a 64-bit immediate load is not there.
    #[error("the second half of the 64-bit load is missing")]
    HalfLoad,
    /// The load of a map's address or the like.
    #[error("it loads the address of a map or variable, and programs have none")]
    Map,
    /// A call of a helper.
    #[error("it calls helper {0}, and programs can call none")]
    Helper(i32),
    /// A call of a function in the program.
    #[error("it calls a function: declare it inline with __attribute__((always_inline))")]
    Call,
    /// The loads of classic BPF.
    #[error("loads of classic BPF are not offered: read through the packet pointer of the context")]
    Classic,
    /// Atomic operations.
    #[error("atomic operations are not offered: a program runs alone")]
    Atomic,
    /// A store to something else than the stack.
    #[error(
        "it writes to memory that is not known to be its stack: programs match packets and do not change them"
    )]
    Store,
    /// An access to the stack at an address that depends on data.
    #[error("it reads the stack at an address that depends on data")]
    StackAddress,
    /// An access outside the stack.
    #[error("it accesses the stack from {offset} to {end}, and the stack is from -512 to 0", end = .offset + i64::from(*.width))]
    StackBounds {
        /// Where it begins, from R10.
        offset: i64,
        /// Octets.
        width: u8,
    },
    /// A read of octets of the stack that nothing wrote.
    #[error("it reads octets of the stack at {0} that have not been written on some way to here")]
    StackUninitialised(i64),
}
