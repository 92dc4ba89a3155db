//! The program's straight pieces, the ways between them, and which registers are still needed where.

use super::instruction::*;
use super::verify::target;

/// Some registers, a bit each.
pub type Registers = u16;

/// Instructions that run one after the other, with no way in but at the beginning and none out but at the end.
#[derive(Clone, Debug)]
pub struct Block {
    /// The first instruction.
    pub start: usize,
    /// One behind the last.
    pub end: usize,
    /// Where the last instruction jumps to, if it does: a block's number.
    pub jump: Option<usize>,
    /// The block that follows when it does not jump.
    pub fall: Option<usize>,
    /// Whether a loop comes back to here.
    pub header: bool,
    /// Registers whose values are needed from the beginning on.
    pub live: Registers,
}

impl Block {
    /// The blocks that can follow.
    pub fn successors(&self) -> impl Iterator<Item = usize> {
        self.fall.into_iter().chain(self.jump)
    }
}

/// All blocks that can be reached, in an order in which each but for the way back in a loop comes after those that lead to it.
/// The first is the program's beginning.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The blocks.
    pub blocks: Vec<Block>,
}

impl Graph {
    /// Of a program whose instructions have been checked.
    pub fn new(code: &[Instruction]) -> Self {
        let mut found = pieces(code);
        let order = order(&mut found);
        let mut place = vec![usize::MAX; found.len()];
        for (new, old) in order.iter().enumerate() {
            if let Some(place) = place.get_mut(*old) {
                *place = new;
            }
        }
        let renumber = |old: Option<usize>| old.and_then(|old| place.get(old).copied());
        let blocks = order
            .iter()
            .filter_map(|old| found.get(*old))
            .map(|block| Block {
                jump: renumber(block.jump),
                fall: renumber(block.fall),
                ..block.clone()
            })
            .collect();
        let mut graph = Self { blocks };
        graph.find_live(code);
        graph
    }

    /// Whether a block can run twice.
    pub fn has_loops(&self) -> bool {
        self.blocks.iter().any(|block| block.header)
    }

    /// What is needed after the block's last instruction.
    pub fn live_out(&self, block: &Block) -> Registers {
        block
            .successors()
            .filter_map(|next| self.blocks.get(next))
            .fold(0, |live, next| live | next.live)
    }

    fn find_live(&mut self, code: &[Instruction]) {
        // What a block needs itself, and what it needs not because it writes it first.
        let own: Vec<(Registers, Registers)> = self
            .blocks
            .iter()
            .map(|block| {
                let instructions = code.get(block.start..block.end).unwrap_or_default();
                instructions.iter().rev().fold((0, 0), |(needed, written), instruction| {
                    let (read, write) = (reads(*instruction), writes(*instruction));
                    (needed & !write | read, written | write)
                })
            })
            .collect();
        loop {
            let mut changed = false;
            for (index, (needed, written)) in own.iter().enumerate().rev() {
                let Some(block) = self.blocks.get(index) else { continue };
                let live = needed | self.live_out(block) & !written;
                if let Some(block) = self.blocks.get_mut(index)
                    && block.live != live
                {
                    block.live = live;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }
}

/// Cuts the program where jumps lead to and after each jump.
fn pieces(code: &[Instruction]) -> Vec<Block> {
    let mut leads = vec![false; code.len() + 1];
    let mut mark = |at: Option<usize>| {
        if let Some(lead) = at.and_then(|at| leads.get_mut(at)) {
            *lead = true;
        }
    };
    mark(Some(0));
    let mut half = false;
    for (at, instruction) in code.iter().enumerate() {
        if half {
            half = false;
            continue;
        }
        half = instruction.code == LOAD_64;
        let is_jump = matches!(instruction.class(), JMP | JMP32);
        if is_jump {
            mark(Some(at + 1));
            if !matches!(instruction.operation(), EXIT | AGAIN) {
                mark(target(at, *instruction));
            }
        }
    }
    let starts: Vec<usize> = (0..code.len()).filter(|at| leads.get(*at) == Some(&true)).collect();
    let mut number_at = vec![0; code.len() + 1];
    for (number, start) in starts.iter().enumerate() {
        if let Some(place) = number_at.get_mut(*start) {
            *place = number;
        }
    }
    let ends = starts.iter().skip(1).copied().chain([code.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| {
            let last = end.saturating_sub(1);
            // The second half of a 64-bit load has code 0, which neither jumps nor ends.
            let instruction = code.get(last).copied().unwrap_or_default();
            let number = |at: usize| number_at.get(at).copied();
            let jumps = instruction.branches()
                || (instruction.class() == JMP && instruction.operation() == JA);
            Block {
                start: *start,
                end,
                jump: if jumps { target(last, instruction).and_then(number) } else { None },
                fall: if instruction.falls_through() { number(end) } else { None },
                header: false,
                live: 0,
            }
        })
        .collect()
}

/// Reverse postorder of a depth-first walk, which marks the targets of edges back. The block that follows without a jump is visited
/// last, so that it comes next in the order.
fn order(blocks: &mut [Block]) -> Vec<usize> {
    #[derive(Copy, Clone, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::No; blocks.len()];
    let mut order = Vec::with_capacity(blocks.len());
    // A block and which of its ways out comes next: 0 the jump, 1 the fall.
    let mut stack = vec![(0_usize, 0_u8)];
    if let Some(first) = seen.first_mut() {
        *first = Seen::OnTheWay;
    }
    while let Some((block, step)) = stack.last_mut() {
        let next = match (*step, blocks.get(*block)) {
            (0, Some(found)) => found.jump,
            (1, Some(found)) => found.fall,
            _ => {
                if let Some(seen) = seen.get_mut(*block) {
                    *seen = Seen::Done;
                }
                order.push(*block);
                stack.pop();
                continue;
            }
        };
        *step += 1;
        let Some(next) = next else { continue };
        match seen.get(next) {
            Some(Seen::No) => {
                if let Some(seen) = seen.get_mut(next) {
                    *seen = Seen::OnTheWay;
                }
                stack.push((next, 0));
            }
            Some(Seen::OnTheWay) => {
                if let Some(header) = blocks.get_mut(next) {
                    header.header = true;
                }
            }
            _ => {}
        }
    }
    order.reverse();
    order
}

/// The bit of a register.
pub const fn bit(register: u8) -> Registers {
    1 << (register & 15)
}

/// Registers that an instruction reads.
pub fn reads(instruction: Instruction) -> Registers {
    let (dst, src) = (bit(instruction.dst), bit(instruction.src));
    let second = if instruction.by_register() { src } else { 0 };
    match instruction.class() {
        LDX => src,
        ST => dst,
        STX => dst | src,
        ALU | ALU64 => match instruction.operation() {
            MOV => second,
            // In conversions of byte order that bit says which.
            NEG | END => dst,
            _ => dst | second,
        },
        JMP | JMP32 => match instruction.operation() {
            JA | AGAIN => 0,
            EXIT => bit(0),
            _ => dst | second,
        },
        _ => 0,
    }
}

/// Registers that an instruction writes.
pub fn writes(instruction: Instruction) -> Registers {
    match instruction.class() {
        LDX | ALU | ALU64 => bit(instruction.dst),
        LD if instruction.code == LOAD_64 => bit(instruction.dst),
        _ => 0,
    }
}
