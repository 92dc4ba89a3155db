//! Writes confined instructions, finds registers for the checks, and keeps the paths of a program few for whoever walks them.
//!
//! librte_bpf's validator follows every path through a program and gives one up only where it has seen the very state before: the same ranges of
//! the same registers. A program with n branches can have 2^n paths, and a controller could send one that is never done. So this module keeps
//! an account of those states, as numbers that are equal where the states are, and where ways meet with different ones it makes them
//! equal: a register that nobody needs becomes zero, one that is needed goes through memory, of which the validator remembers nothing. Each
//! instruction is then evaluated once.

mod states;

use super::block::{
    AT_CONTEXT_LENGTH, AT_FAULT, AT_LENGTH, AT_PACKET, AT_SCRATCH, CONTEXT_ADDRESS,
};
use super::graph::{Registers, bit};
use super::instruction::*;
use states::{UNKNOWN, mix};

/// Places below R10 where the confined program keeps what its checks need.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum Slot {
    /// The block's address.
    Block = -8,
    /// The packet's address.
    Packet = -16,
    /// The packet's length.
    Length = -24,
    /// The length of context and parameter.
    ContextLength = -32,
    /// A register that a check has borrowed.
    Borrowed = -40,
    /// A second one.
    BorrowedToo = -48,
    /// Instructions that are left to go round loops with.
    Budget = -56,
}

const SLOTS: [Slot; 7] = [
    Slot::Block,
    Slot::Packet,
    Slot::Length,
    Slot::ContextLength,
    Slot::Borrowed,
    Slot::BorrowedToo,
    Slot::Budget,
];

/// Where a jump leads to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A block of the program.
    Block(usize),
    /// The note of a read outside.
    Outside,
    /// The note that the budget is used up.
    Budget,
    /// The note that the run has to begin again in the interpreter.
    Again,
    /// The exit.
    End,
}

/// Registers and borrowed places whose states are kept account of.
const TRACKED: usize = 13;

/// The states of registers 0 to 10 and of the two slots for borrowed registers, as numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct States {
    range: [u64; TRACKED],
    /// Loads leave one field of the register's old state as it was.
    shape: [u64; TRACKED],
}

/// A register that a check may use.
#[derive(Copy, Clone, Debug)]
pub struct Temporary {
    /// Which.
    pub register: u8,
    /// Where its value has been put meanwhile, if that is needed.
    borrowed: Option<Slot>,
}

/// What a program needs before its first instruction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    slots: u8,
}

impl Needs {
    fn add(&mut self, slot: Slot) {
        self.slots |= 1 << (-(slot as i16) / 8 - 1);
    }

    /// What either needs.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { slots: self.slots | other.slots }
    }

    fn has(self, slot: Slot) -> bool {
        self.slots >> (-(slot as i16) / 8 - 1) & 1 != 0
    }
}

/// Writes a program.
#[derive(Debug)]
pub struct Emitter {
    out: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    starts: Vec<usize>,
    states: States,
    /// The states with which other blocks are reached.
    arrivals: Vec<Vec<States>>,
    /// Registers that hold a slot's value throughout.
    held: Vec<(Slot, u8)>,
    /// What the text has turned out to need.
    needs: Needs,
    /// Registers whose values must not be lost at this moment.
    pub keep: Registers,
    /// Conditional jumps.
    branches: usize,
}

impl Temporary {
    /// Whether it holds the program's value at other times.
    pub const fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }
}

impl Emitter {
    /// Begins a text for this many blocks. `needs` is what an earlier attempt has turned out to need; registers in `unused` hold what
    /// is needed most.
    pub fn new(blocks: usize, needs: Needs, unused: Registers, budget: Option<i32>) -> Self {
        let mut free = (0..FRAME).rev().filter(|register| unused & bit(*register) != 0);
        // One register is left for the checks themselves.
        let count = free.clone().count().saturating_sub(1);
        let wanted = [Slot::Packet, Slot::Block, Slot::Length];
        let held = wanted
            .into_iter()
            .filter(|slot| needs.has(*slot))
            .take(count)
            .filter_map(|slot| free.next().map(|register| (slot, register)))
            .collect();
        let mut emitter = Self {
            out: Vec::new(),
            jumps: Vec::new(),
            starts: vec![0; blocks],
            states: States { range: [0; TRACKED], shape: [0; TRACKED] },
            arrivals: vec![Vec::new(); blocks],
            held,
            needs: Needs::default(),
            keep: 0,
            branches: 0,
        };
        emitter.prologue(needs, budget);
        emitter
    }

    /// The instruction of every text that takes the packet's address out of the block into R0. A backend may put a call of a function
    /// with R1 as its argument there, which does the same.
    pub const PACKET_LOAD: usize = 1;

    fn prologue(&mut self, needs: Needs, budget: Option<i32>) {
        let store = |slot: Slot, register| {
            Instruction::new(STX | MEMORY | DOUBLE, FRAME, register, slot as i16, 0)
        };
        self.push(store(Slot::Block, 1));
        self.push(Instruction::new(LDX | MEMORY | DOUBLE, 0, 1, AT_PACKET, 0));
        if needs.has(Slot::Packet) {
            self.push(store(Slot::Packet, 0));
        }
        self.push(Instruction::new(LDX | MEMORY | DOUBLE, 1, FRAME, Slot::Block as i16, 0));
        for (slot, at) in [(Slot::Length, AT_LENGTH), (Slot::ContextLength, AT_CONTEXT_LENGTH)] {
            if needs.has(slot) {
                // Of 32 bits: librte_bpf's validator takes a number of 64 for negative.
                self.push(Instruction::new(LDX | MEMORY | WORD, 2, 1, at, 0));
                self.push(store(slot, 2));
            }
        }
        for slot in [Slot::Borrowed, Slot::BorrowedToo] {
            if needs.has(slot) {
                self.push(store(slot, 1));
            }
        }
        if let Some(budget) = budget {
            self.push(Instruction::new(ALU64 | MOV, 2, 0, 0, budget));
            self.push(store(Slot::Budget, 2));
        }
        for (slot, register) in self.held.clone() {
            self.push(Instruction::new(LDX | MEMORY | DOUBLE, register, FRAME, slot as i16, 0));
        }
        self.push(Instruction::new(ALU | MOV, 1, 0, 0, CONTEXT_ADDRESS.cast_signed()));
    }

    /// How many instructions there are so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// What the text needs.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Conditional jumps so far.
    pub fn branches(&self) -> usize {
        self.branches
    }

    /// Registers that hold what the checks need, throughout.
    pub fn held(&self) -> Registers {
        self.held.iter().fold(0, |held, (_, register)| held | bit(*register))
    }

    /// Writes one instruction, which is no jump.
    pub fn push(&mut self, instruction: Instruction) {
        self.account(instruction);
        self.out.push(instruction);
    }

    /// `dst` = what the slot holds.
    pub fn slot(&mut self, slot: Slot, dst: u8) {
        self.needs.add(slot);
        match self.held.iter().find(|(held, _)| *held == slot) {
            Some((_, register)) => {
                let register = *register;
                self.push(Instruction::new(ALU64 | MOV | SOURCE_REGISTER, dst, register, 0, 0));
            }
            None => self.push(Instruction::new(LDX | MEMORY | DOUBLE, dst, FRAME, slot as i16, 0)),
        }
    }

    /// A register that holds the slot's value: one that does throughout, or `dst`, which then gets it.
    pub fn slot_or(&mut self, slot: Slot, dst: u8) -> u8 {
        if let Some((_, register)) = self.held.iter().find(|(held, _)| *held == slot) {
            return *register;
        }
        self.slot(slot, dst);
        dst
    }

    /// Writes a conditional jump.
    pub fn branch(&mut self, instruction: Instruction, to: Label) {
        self.branches += 1;
        let (taken, not_taken) = self.after_branch(instruction);
        self.arrive(to, taken);
        self.states = not_taken;
        self.jumps.push((self.out.len(), to));
        self.out.push(instruction);
    }

    /// Writes a conditional jump over the next instructions. Gives the states where it leads to.
    pub fn skip(&mut self, instruction: Instruction, instructions: i16) -> States {
        self.branches += 1;
        let (taken, not_taken) = self.after_branch(instruction);
        self.states = not_taken;
        self.out.push(Instruction { offset: instructions, ..instruction });
        taken
    }

    /// Goes on with other states. Gives those that there were.
    pub fn exchange(&mut self, states: States) -> States {
        std::mem::replace(&mut self.states, states)
    }

    /// Lets the conditional jump at this place come out here.
    pub fn land(&mut self, jump: usize) {
        let distance = i16::try_from(self.out.len().saturating_sub(jump + 1)).unwrap_or(i16::MAX);
        if let Some(instruction) = self.out.get_mut(jump) {
            instruction.offset = distance;
        }
    }

    /// Writes a jump.
    pub fn jump(&mut self, to: Label) {
        self.arrive(to, self.states);
        self.jumps.push((self.out.len(), to));
        self.out.push(Instruction::new(JMP | JA, 0, 0, 0, 0));
    }

    /// Writes a jump over the next instructions.
    pub fn skip_always(&mut self, instructions: i16) {
        self.out.push(Instruction::new(JMP | JA, 0, 0, instructions, 0));
    }

    /// Goes on with a block that comes next, without a jump.
    pub fn fall(&mut self, to: usize) {
        self.arrive(Label::Block(to), self.states);
    }

    fn arrive(&mut self, to: Label, states: States) {
        if let Label::Block(to) = to
            && let Some(arrivals) = self.arrivals.get_mut(to)
        {
            arrivals.push(states);
        }
    }

    /// A register for a check that is neither kept nor in `avoid`; at need one whose value is put aside.
    pub fn take(&mut self, avoid: Registers) -> Temporary {
        let taken = self.keep | self.held() | avoid;
        if let Some(register) = (0..FRAME).find(|register| taken & bit(*register) == 0) {
            self.keep |= bit(register);
            return Temporary { register, borrowed: None };
        }
        // At most four registers are to be avoided or held at once, so there is another.
        let never = self.held() | avoid;
        let in_use = self.borrowed_now();
        let slot = if in_use { Slot::BorrowedToo } else { Slot::Borrowed };
        let register = (0..FRAME).find(|register| never & bit(*register) == 0).unwrap_or(0);
        self.needs.add(slot);
        self.push(Instruction::new(STX | MEMORY | DOUBLE, FRAME, register, slot as i16, 0));
        if slot == Slot::Borrowed {
            self.keep |= BORROWED;
        }
        Temporary { register, borrowed: Some(slot) }
    }

    fn borrowed_now(&self) -> bool {
        self.keep & BORROWED != 0
    }

    /// Gives a register back.
    pub fn give(&mut self, temporary: Temporary) {
        match temporary.borrowed {
            None => self.keep &= !bit(temporary.register),
            Some(slot) => {
                self.restore(temporary);
                if slot == Slot::Borrowed {
                    self.keep &= !BORROWED;
                }
            }
        }
    }

    /// Puts a borrowed register's value back. Gives the instructions that takes.
    pub fn restore(&mut self, temporary: Temporary) -> i16 {
        match temporary.borrowed {
            None => 0,
            Some(slot) => {
                self.push(Instruction::new(
                    LDX | MEMORY | DOUBLE,
                    temporary.register,
                    FRAME,
                    slot as i16,
                    0,
                ));
                1
            }
        }
    }

    /// Begins a block. `live` are the registers that it or a later one needs; with `level` the states with which it is reached are made equal.
    pub fn begin(&mut self, block: usize, live: Registers, level: bool) {
        if let Some(start) = self.starts.get_mut(block) {
            *start = self.out.len();
        }
        let arrivals = self.arrivals.get_mut(block).map(std::mem::take).unwrap_or_default();
        let Some((first, others)) = arrivals.split_first() else { return };
        self.states = *first;
        let differs = |place: usize| {
            let of = |states: &States| {
                (states.range.get(place).copied(), states.shape.get(place).copied())
            };
            others.iter().any(|other| of(other) != of(first))
        };
        let different: Vec<usize> =
            (0..TRACKED).filter(|place| *place != 10 && differs(*place)).collect();
        for place in &different {
            self.note(*place, mix(&[UNKNOWN, block as u64, *place as u64]), 0);
        }
        if !level || different.is_empty() {
            return;
        }
        let (needed, idle): (Vec<usize>, Vec<usize>) =
            different.iter().partition(|place| **place < 10 && live >> **place & 1 != 0);
        let slots_differ = idle.iter().any(|place| *place > 10);
        let mut base = None;
        if !needed.is_empty() || slots_differ {
            let busy = live | self.held();
            // Where all are in use, one goes through memory with the others.
            let borrowed = (0..FRAME).all(|register| busy & bit(register) != 0);
            let usable = if borrowed { self.held() } else { busy };
            let register = (0..FRAME).find(|register| usable & bit(*register) == 0).unwrap_or(0);
            if borrowed {
                self.needs.add(Slot::Borrowed);
                self.push(Instruction::new(
                    STX | MEMORY | DOUBLE,
                    FRAME,
                    register,
                    Slot::Borrowed as i16,
                    0,
                ));
            }
            self.slot(Slot::Block, register);
            base = Some(register);
            let others: Vec<usize> =
                needed.iter().copied().filter(|place| *place != usize::from(register)).collect();
            for place in &others {
                let (number, at) = scratch(*place);
                self.push(Instruction::new(STX | MEMORY | DOUBLE, register, number, at, 0));
            }
            for place in &others {
                let (number, at) = scratch(*place);
                self.push(Instruction::new(ALU64 | MOV | SOURCE_REGISTER, number, register, 0, 0));
                self.push(Instruction::new(LDX | MEMORY | DOUBLE, number, number, at, 0));
            }
            if borrowed {
                self.level_borrowed(register);
            }
            for (place, slot) in [(11, Slot::Borrowed), (12, Slot::BorrowedToo)] {
                if idle.contains(&place) {
                    self.push(Instruction::new(
                        STX | MEMORY | DOUBLE,
                        FRAME,
                        register,
                        slot as i16,
                        0,
                    ));
                }
            }
        }
        for place in idle {
            let (register, _) = scratch(place);
            if place < 10 && Some(register) != base {
                self.push(Instruction::new(ALU64 | MOV, register, 0, 0, 0));
            }
        }
    }

    /// Brings the value of `register`, which holds the block's address and whose own value has been put aside, back through memory.
    fn level_borrowed(&mut self, register: u8) {
        let avoid = self.held() | bit(register);
        let other = (0..FRAME).find(|other| avoid & bit(*other) == 0).unwrap_or(0);
        let ((_, at), (_, at_other)) =
            (scratch(usize::from(register)), scratch(usize::from(other)));
        let store = |at, value| Instruction::new(STX | MEMORY | DOUBLE, register, value, at, 0);
        self.push(store(at_other, other));
        self.push(Instruction::new(LDX | MEMORY | DOUBLE, other, FRAME, Slot::Borrowed as i16, 0));
        self.push(store(at, other));
        self.push(Instruction::new(ALU64 | MOV | SOURCE_REGISTER, other, register, 0, 0));
        self.push(Instruction::new(LDX | MEMORY | DOUBLE, other, other, at_other, 0));
        self.push(Instruction::new(
            STX | MEMORY | DOUBLE,
            FRAME,
            register,
            Slot::Borrowed as i16,
            0,
        ));
        self.push(Instruction::new(LDX | MEMORY | DOUBLE, register, register, at, 0));
    }

    /// Writes what faults and the exit need, and fills in all jumps. Nothing if a jump is too far.
    ///
    /// With `apart`, for programs without loops, no jump to a block is so short that its code on x86-64 could be either of two sizes: those that
    /// would be go by way of a second jump at the text's end. librte_bpf settles sizes by trying until two attempts are equally long,
    /// which happens to be the case too early now and then, and jumps into nowhere are the result.
    pub fn finish(mut self, apart: bool) -> Option<Vec<Instruction>> {
        if apart {
            // The last block leads to the exit or to another run. What lies between is reached by a way that is never gone.
            if let Some(last) = self.out.last_mut() {
                *last = Instruction::new(JMP | JGE, 0, 0, 0, 0);
            }
            for _ in 0..BARRIER {
                self.out.push(Instruction::new(LOAD_64, 1, 0, 0, -1));
                self.out.push(Instruction::new(0, 0, 0, 0, -1));
            }
        }
        // Only what is jumped to: a validator refuses what cannot be reached.
        let used: Vec<(Label, i32)> = [(Label::Again, 3), (Label::Budget, 2), (Label::Outside, 1)]
            .into_iter()
            .filter(|(label, _)| self.jumps.iter().any(|(_, to)| to == label))
            .collect();
        let mut faults = Vec::new();
        for (nth, (label, number)) in used.iter().enumerate() {
            faults.push((*label, self.out.len()));
            self.out.push(Instruction::new(LDX | MEMORY | DOUBLE, 1, FRAME, Slot::Block as i16, 0));
            self.out.push(Instruction::new(ST | MEMORY | DOUBLE, 1, 0, AT_FAULT, *number));
            self.out.push(Instruction::new(ALU64 | MOV, 0, 0, 0, 0));
            if nth + 1 < used.len() {
                self.jumps.push((self.out.len(), Label::End));
                self.out.push(Instruction::new(JMP | JA, 0, 0, 0, 0));
            }
        }
        let end = self.out.len();
        self.out.push(Instruction::new(JMP | EXIT, 0, 0, 0, 0));
        let sizes = if apart { code_places(&self.out) } else { Vec::new() };
        let mut islands: Vec<Option<usize>> = vec![None; self.starts.len()];
        for (at, label) in std::mem::take(&mut self.jumps) {
            let mut to = match label {
                Label::Block(block) => *self.starts.get(block)?,
                Label::End => end,
                fault => faults.iter().find(|(label, _)| *label == fault)?.1,
            };
            if let (Label::Block(block), Some(here), Some(there)) =
                (label, sizes.get(at + 1), sizes.get(to))
                && there.saturating_sub(*here) < NEVER_SHORT
            {
                let island = islands.get_mut(block)?;
                let place = *island.get_or_insert(self.out.len());
                if place == self.out.len() {
                    let back = i64::try_from(to).ok()? - i64::try_from(place).ok()? - 1;
                    self.out.push(Instruction::new(JMP | JA, 0, 0, i16::try_from(back).ok()?, 0));
                }
                to = place;
            }
            let distance = i64::try_from(to).ok()? - i64::try_from(at).ok()? - 1;
            self.out.get_mut(at)?.offset = i16::try_from(distance).ok()?;
        }
        Some(self.out)
    }
}

/// The bit of [`Emitter::keep`] that says that a register has been put aside.
const BORROWED: Registers = 1 << 15;

/// Octets of x86-64 code between a jump and its target with which no size of the jump but the larger will do.
const NEVER_SHORT: usize = 128;
/// 64-bit loads, of ten octets each, that are as long as that.
const BARRIER: usize = 14;

/// Where the code of each instruction begins at the least, with librte_bpf's compiler for x86-64.
fn code_places(text: &[Instruction]) -> Vec<usize> {
    let least = |instruction: &Instruction| match instruction.class() {
        LD if instruction.code == LOAD_64 => 5,
        LD => 0,
        // A register that is moved to itself.
        ALU64 if instruction.dst == instruction.src => 0,
        ALU | JMP => 2,
        _ => 3,
    };
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut place = 0;
    for instruction in text {
        places.push(place);
        place += least(instruction);
    }
    places.push(place);
    places
}

/// A register and its word for the way through memory.
fn scratch(place: usize) -> (u8, i16) {
    let number = u8::try_from(place).unwrap_or(0);
    (number, AT_SCRATCH + 8 * i16::from(number))
}
