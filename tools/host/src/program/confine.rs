//! Rewrites a program so that it can read its context, its parameter and the packet and nothing else, whoever runs it.
//!
//! The program sees addresses that the machine does not have: the packet is at 0x8000_0000, the context with the parameter behind it at
//! 0x4000_0000, and addresses count modulo 2^31. Each load becomes a sum of the real address and a distance that has been compared with the length,
//! or a fault. Loads of one piece of code from one pointer share a comparison, and what has been compared on every way is not compared
//! again. The stack lies in the block ([`super::block`]) at places that [`super::analysis`] has found.
//!
//! The result is plain eBPF for both backends, so it leaves out what they do not do alike: comparisons and shifts are written such that
//! sign extension, shifts of a register by itself, division by zero (the quotient is 0, the remainder the dividend) and 32-bit
//! comparisons have one meaning.

mod operations;

use super::analysis::{Access, Base, Region};
use super::block::{
    AT_CONTEXT, AT_STACK_END, CONTEXT, CONTEXT_ADDRESS, PACKET_ADDRESS, PACKET_LENGTH,
    PACKET_POINTER, PARAMETER_POINTER,
};
use super::emit::{Emitter, Label, Needs, Slot};
use super::error::ProgramError;
use super::graph::{Block, Graph, Registers, bit, reads, writes};
use super::instruction::*;
use super::{BUDGET, MAX_BRANCHES, MAX_INSTRUCTIONS};
use std::collections::BTreeMap;

/// Octets that one comparison covers, at most.
const WIDEST: i64 = 4096;

/// Pointers whose comparisons are remembered at a time.
const REMEMBERED: usize = 64;

/// Distances from a pointer's base that have been compared on every way to here.
type Compared = BTreeMap<(Region, Base), (i64, i64)>;

/// Confines a program whose accesses are known.
///
/// # Errors
/// It becomes too long.
pub fn confine(
    code: &[Instruction],
    graph: &Graph,
    accesses: &[Option<Access>],
) -> Result<Vec<Instruction>, ProgramError> {
    let used =
        graph.blocks.iter().flat_map(|block| code.get(block.start..block.end).unwrap_or_default());
    // R0 is the exit's and R1 the context's.
    let used = used.fold(bit(0) | bit(1), |used, instruction| {
        used | reads(*instruction) | writes(*instruction)
    });
    let unused = !used & (bit(FRAME) - 1);
    // What a text needs shows when it is written: the first time is to find out.
    let mut needs = Needs::default();
    loop {
        let (found, text) = write(code, graph, accesses, needs, unused)?;
        if needs.and(found) == needs {
            return Ok(text);
        }
        needs = needs.and(found);
    }
}

fn write(
    code: &[Instruction],
    graph: &Graph,
    accesses: &[Option<Access>],
    needs: Needs,
    unused: Registers,
) -> Result<(Needs, Vec<Instruction>), ProgramError> {
    let loops = graph.has_loops();
    let costs = costs(graph);
    let asks = asks(code, graph);
    let mut compared: Vec<Option<Compared>> = vec![None; graph.blocks.len()];
    let mut writer = Writer {
        code,
        accesses,
        emitter: Emitter::new(graph.blocks.len(), needs, unused, loops.then_some(BUDGET)),
        compared: Compared::new(),
    };
    writer.emitter.fall(0);
    for (number, block) in graph.blocks.iter().enumerate() {
        let begin = (Region::Context, Base::Begin);
        writer.compared = match compared.get_mut(number).and_then(Option::take) {
            Some(known) if !block.header => known,
            _ => Compared::from([(begin, (0, CONTEXT))]),
        };
        let level = !loops && asks.get(number) == Some(&true);
        writer.emitter.begin(number, block.live, level);
        if block.header {
            writer.charge(block, costs.get(number).copied().unwrap_or(1));
        }
        writer.block(graph, number, block);
        for next in block.successors() {
            if let Some(known) = compared.get_mut(next) {
                *known = Some(match known.take() {
                    None => writer.compared.clone(),
                    Some(known) => common(&known, &writer.compared),
                });
            }
        }
        if writer.emitter.len() > MAX_INSTRUCTIONS {
            // Its full length is not known, but that it is too long is.
            return Err(ProgramError::ConfinedTooLong { instructions: writer.emitter.len() });
        }
    }
    let Writer { emitter, .. } = writer;
    if emitter.branches() > MAX_BRANCHES {
        return Err(ProgramError::TooManyBranches { branches: emitter.branches() });
    }
    let (found, length) = (emitter.needs(), emitter.len());
    let too_long = || ProgramError::ConfinedTooLong { instructions: length };
    let text = emitter.finish(!loops).ok_or_else(too_long)?;
    if text.len() > MAX_INSTRUCTIONS {
        return Err(ProgramError::ConfinedTooLong { instructions: text.len() });
    }
    Ok((found, text))
}

/// Instructions from each block's beginning to the next header of a loop or the exit, on the longest way.
fn costs(graph: &Graph) -> Vec<usize> {
    let mut costs = vec![0_usize; graph.blocks.len()];
    for (number, block) in graph.blocks.iter().enumerate().rev() {
        let longest = block.successors().map(|next| match graph.blocks.get(next) {
            Some(block) if !block.header => costs.get(next).copied().unwrap_or(0),
            _ => 0,
        });
        let cost = block.end - block.start + longest.max().unwrap_or(0);
        if let Some(place) = costs.get_mut(number) {
            *place = cost;
        }
    }
    costs
}

/// Whether there is a comparison in a block or behind it. Where there is none, no path can part any more.
fn asks(code: &[Instruction], graph: &Graph) -> Vec<bool> {
    let mut asks = vec![false; graph.blocks.len()];
    for (number, block) in graph.blocks.iter().enumerate().rev() {
        let here = code.get(block.start..block.end).unwrap_or_default().iter().any(|instruction| {
            instruction.branches()
                || instruction.class() == LDX
                || (matches!(instruction.class(), ALU | ALU64)
                    && matches!(instruction.operation(), DIV | MOD))
        });
        let later = block.successors().any(|next| asks.get(next) == Some(&true));
        if let Some(place) = asks.get_mut(number) {
            *place = here || later;
        }
    }
    asks
}

/// What both ways have compared.
fn common(one: &Compared, other: &Compared) -> Compared {
    one.iter()
        .filter_map(|(key, (from, to))| {
            let (other_from, other_to) = other.get(key)?;
            let (from, to) = (*from.max(other_from), *to.min(other_to));
            (from < to).then_some((*key, (from, to)))
        })
        .collect()
}

struct Writer<'c> {
    code: &'c [Instruction],
    accesses: &'c [Option<Access>],
    emitter: Emitter,
    compared: Compared,
}

/// `dst` = `src` (64 bits).
const fn copy(dst: u8, src: u8) -> Instruction {
    Instruction::new(ALU64 | MOV | SOURCE_REGISTER, dst, src, 0, 0)
}

/// `dst` op= `immediate`.
const fn with(class_and_operation: u8, dst: u8, immediate: i32) -> Instruction {
    Instruction::new(class_and_operation, dst, 0, 0, immediate)
}

/// `dst` op= `src`.
const fn by(class_and_operation: u8, dst: u8, src: u8) -> Instruction {
    Instruction::new(class_and_operation | SOURCE_REGISTER, dst, src, 0, 0)
}

/// A load of 64 bits.
const fn load(dst: u8, src: u8, offset: i16) -> Instruction {
    Instruction::new(LDX | MEMORY | DOUBLE, dst, src, offset, 0)
}

/// A store of 64 bits.
const fn store(dst: u8, offset: i16, src: u8) -> Instruction {
    Instruction::new(STX | MEMORY | DOUBLE, dst, src, offset, 0)
}

impl Writer<'_> {
    /// Takes a round of a loop off the budget.
    fn charge(&mut self, block: &Block, cost: usize) {
        self.emitter.keep = block.live;
        let count = self.emitter.take(0);
        let cost = i32::try_from(cost).unwrap_or(i32::MAX);
        self.emitter.push(load(count.register, FRAME, Slot::Budget as i16));
        self.emitter.push(with(ALU64 | ADD, count.register, -cost));
        self.emitter.push(store(FRAME, Slot::Budget as i16, count.register));
        self.emitter.branch(with(JMP | JSLT, count.register, 0), Label::Budget);
        self.emitter.give(count);
    }

    fn block(&mut self, graph: &Graph, number: usize, block: &Block) {
        // What is needed after each instruction, from the last on.
        let mut live = graph.live_out(block);
        let mut lives = Vec::with_capacity(block.end - block.start);
        for instruction in self.code.get(block.start..block.end).unwrap_or_default().iter().rev() {
            lives.push(live);
            live = live & !writes(*instruction) | reads(*instruction);
        }
        for (at, live) in (block.start..block.end).zip(lives.into_iter().rev()) {
            let Some(instruction) = self.code.get(at).copied() else { return };
            self.emitter.keep = live | reads(instruction) & !bit(FRAME);
            self.one(at, instruction, block, number);
            // What has this name now is another value than before.
            self.compared.retain(|(_, base), _| *base != Base::Sum(at));
        }
        if let Some(next) = block.fall {
            let last = block.end.checked_sub(1).and_then(|at| self.code.get(at));
            let jumps = last.is_some_and(|last| matches!(last.class(), JMP | JMP32));
            // A jump has taken care of both its ways.
            if !jumps {
                self.go_on(number, next);
            }
        }
    }

    fn go_on(&mut self, number: usize, next: usize) {
        if next == number + 1 {
            self.emitter.fall(next);
        } else {
            self.emitter.jump(Label::Block(next));
        }
    }

    fn one(&mut self, at: usize, instruction: Instruction, block: &Block, number: usize) {
        let access = self.accesses.get(at).copied().flatten();
        match instruction.class() {
            LD if instruction.code == LOAD_64 => {
                self.emitter.push(instruction);
                let second = self.code.get(at + 1).copied().unwrap_or_default();
                self.emitter.push(second);
            }
            // The second half has been written with the first.
            LD => {}
            LDX => self.load(at, instruction, access, block),
            ST | STX => {
                if let Some(Access::Stack(offset)) = access {
                    self.store(instruction, offset);
                }
            }
            ALU | ALU64 => self.arithmetic(instruction),
            _ => self.jump(instruction, block, number),
        }
    }

    fn store(&mut self, instruction: Instruction, offset: i64) {
        let temporary = self.emitter.take(reads(instruction));
        let base = self.emitter.slot_or(Slot::Block, temporary.register);
        self.emitter.push(Instruction { dst: base, offset: on_stack(offset), ..instruction });
        self.emitter.give(temporary);
    }

    fn load(&mut self, at: usize, instruction: Instruction, access: Option<Access>, block: &Block) {
        let dst = instruction.dst;
        let width = i64::from(instruction.width());
        match access {
            Some(Access::Stack(offset)) => {
                self.emitter.slot(Slot::Block, dst);
                self.emitter.push(Instruction {
                    src: dst,
                    offset: on_stack(offset),
                    ..instruction
                });
            }
            Some(Access::Region(Region::Context, Base::Begin, PACKET_LENGTH)) if width == 8 => {
                self.emitter.slot(Slot::Length, dst);
            }
            Some(Access::Region(Region::Context, Base::Begin, PARAMETER_POINTER)) if width == 8 => {
                let address = CONTEXT_ADDRESS.cast_signed() + CONTEXT as i32;
                self.emitter.push(with(ALU | MOV, dst, address));
            }
            Some(Access::Region(Region::Context, Base::Begin, PACKET_POINTER)) if width == 8 => {
                self.emitter.push(with(ALU | MOV, dst, PACKET_ADDRESS.cast_signed()));
            }
            Some(Access::Region(region, base, place)) => {
                let compared = self.compared.get(&(region, base)).copied();
                let covered =
                    compared.is_some_and(|(from, to)| from <= place && place + width <= to);
                let (from, to) = if covered {
                    (place, place + width)
                } else {
                    self.stretch(at, (region, base), (place, place + width), block)
                };
                let fixed = base == Base::Begin && from >= 0 && to <= WIDEST;
                // What is compared with the length holds from the beginning on.
                let from = if fixed { 0 } else { from };
                if fixed {
                    self.fixed(instruction, region, place, (!covered).then_some(to));
                } else {
                    self.moving(instruction, region, (from, to), place, covered);
                }
                if !covered && base != Base::Unnamed {
                    if self.compared.len() >= REMEMBERED {
                        self.compared.retain(|(_, base), _| *base == Base::Begin);
                    }
                    let known = self.compared.entry((region, base)).or_insert((from, to));
                    // Two ranges that do not touch say nothing of what is between them: the new one is kept.
                    *known = if known.0 <= to && from <= known.1 {
                        (known.0.min(from), known.1.max(to))
                    } else {
                        (from, to)
                    };
                }
            }
            Some(Access::Anywhere) | None => self.anywhere(instruction),
        }
    }

    /// The range that this load and later ones of the same piece of code read from the same base. All of them run or none does, so one comparison will
    /// do: where it fails, the program would have faulted anyway.
    fn stretch(
        &self,
        at: usize,
        name: (Region, Base),
        first: (i64, i64),
        block: &Block,
    ) -> (i64, i64) {
        let (mut from, mut to) = first;
        if name.1 == Base::Unnamed {
            return first;
        }
        for later in at + 1..block.end {
            if name.1 == Base::Sum(later) {
                break;
            }
            let Some(Some(Access::Region(region, base, place))) = self.accesses.get(later) else {
                continue;
            };
            let Some(instruction) = self.code.get(later) else { continue };
            let end = place + i64::from(instruction.width());
            if (*region, *base) == name
                && from.min(*place) >= first.0 - WIDEST
                && to.max(end) - from.min(*place) <= WIDEST
            {
                (from, to) = (from.min(*place), to.max(end));
            }
        }
        (from, to)
    }

    /// A load at a constant distance from a region's beginning.
    fn fixed(
        &mut self,
        instruction: Instruction,
        region: Region,
        place: i64,
        compare_to: Option<i64>,
    ) {
        let dst = instruction.dst;
        let (address, length, begin) = parts(region);
        if let Some(to) = compare_to {
            self.emitter.slot(length, dst);
            self.emitter.branch(with(JMP | JSLT, dst, to as i32), Label::Outside);
        }
        self.emitter.slot(address, dst);
        let offset = begin + place as i16;
        self.emitter.push(Instruction { src: dst, offset, ..instruction });
    }

    /// A load at an address that the program has computed from a pointer into the region.
    fn moving(
        &mut self,
        instruction: Instruction,
        region: Region,
        (from, to): (i64, i64),
        place: i64,
        covered: bool,
    ) {
        let dst = instruction.dst;
        let (address, length, begin) = parts(region);
        let temporary = self.emitter.take(bit(dst) | bit(instruction.src));
        let distance = temporary.register;
        self.emitter.push(copy(distance, instruction.src));
        // At most WIDEST and an offset of 16 bits.
        let shift = i32::from(instruction.offset) + (from - place) as i32;
        if shift != 0 {
            self.emitter.push(with(ALU64 | ADD, distance, shift));
        }
        self.emitter.push(with(ALU64 | AND, distance, i32::MAX));
        if region == Region::Context {
            self.emitter.push(with(ALU64 | XOR, distance, CONTEXT_ADDRESS.cast_signed()));
        }
        if !covered {
            self.limit(dst, length, to - from);
            self.emitter.branch(by(JMP | JSGE, distance, dst), Label::Outside);
        }
        self.emitter.slot(address, dst);
        self.emitter.push(by(ALU64 | ADD, dst, distance));
        let offset = begin + (place - from) as i16;
        self.emitter.push(Instruction { src: dst, offset, ..instruction });
        self.emitter.give(temporary);
    }

    /// `dst` = the first distance at which a read of so many octets does not fit.
    fn limit(&mut self, dst: u8, length: Slot, width: i64) {
        self.emitter.slot(length, dst);
        if width > 1 {
            self.emitter.push(with(ALU64 | ADD, dst, (1 - width) as i32));
        }
    }

    /// A load at an address that may be anything.
    fn anywhere(&mut self, instruction: Instruction) {
        let dst = instruction.dst;
        let width = i64::from(instruction.width());
        let temporary = self.emitter.take(bit(dst) | bit(instruction.src));
        let distance = temporary.register;
        self.emitter.push(copy(distance, instruction.src));
        if instruction.offset != 0 {
            self.emitter.push(with(ALU64 | ADD, distance, i32::from(instruction.offset)));
        }
        self.emitter.push(with(ALU64 | AND, distance, i32::MAX));
        self.limit(dst, Slot::Length, width);
        let in_packet = self.emitter.len();
        self.emitter.skip(by(JMP | JSLT, distance, dst), 0);
        self.emitter.push(with(ALU64 | XOR, distance, CONTEXT_ADDRESS.cast_signed()));
        self.limit(dst, Slot::ContextLength, width);
        self.emitter.branch(by(JMP | JSGE, distance, dst), Label::Outside);
        let arm = |writer: &mut Self, region| {
            let (address, _, begin) = parts(region);
            writer.emitter.slot(address, dst);
            writer.emitter.push(by(ALU64 | ADD, dst, distance));
            writer.emitter.push(Instruction { src: dst, offset: begin, ..instruction });
            // Both ways leave the same behind.
            writer.emitter.push(with(ALU64 | MOV, distance, 0));
        };
        arm(self, Region::Context);
        self.emitter.skip_always(4);
        self.emitter.land(in_packet);
        arm(self, Region::Packet);
        self.emitter.give(temporary);
    }
}

/// The slots of a region's address and length, and where in what is at the address it begins.
const fn parts(region: Region) -> (Slot, Slot, i16) {
    match region {
        Region::Packet => (Slot::Packet, Slot::Length, 0),
        Region::Context => (Slot::Block, Slot::ContextLength, AT_CONTEXT),
    }
}

/// Where in the block an octet of the stack is.
const fn on_stack(offset: i64) -> i16 {
    // From -512 to -1, as has been checked.
    AT_STACK_END + offset as i16
}
