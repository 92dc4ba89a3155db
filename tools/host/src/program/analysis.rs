//! What is known of registers and of the stack at each instruction, whichever way has led there: abstract interpretation.
//!
//! It finds reads of what has never been written, tells apart the pointers that the bounds checks of [`super::confine`] are made for,
//! and finds the place of each access to the stack.

use super::error::{ProgramError, Refusal};
use super::graph::{Graph, bit, reads};
use super::instruction::*;
use std::collections::BTreeSet;

/// Octets of a program's stack.
pub const STACK: i64 = 512;
/// How often a block may be looked at again, on average, before its loops are too involved. Each time something less is known.
const VISITS: usize = 64;
/// Double words of it.
const SLOTS: usize = 64;

/// What a pointer points into.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// The context and the parameter behind it.
    Context,
    /// The packet.
    Packet,
}

/// One value that a program computes, unknown but the same wherever it has this name.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// The beginning of the region.
    Begin,
    /// What the instruction with this index has added up.
    Sum(usize),
    /// What a register (or with 16 and more, a slot of the stack) holds where ways meet at this block.
    Meeting(usize, usize),
    /// A value with no name.
    Unnamed,
}

/// What is known of a register or of a slot of the stack.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// On some way nothing has been written to it.
    Uninitialised,
    /// Any number.
    Number,
    /// This number.
    Constant(u64),
    /// A pointer: its base and octets from there.
    Pointer(Region, Base, i64),
    /// A pointer into the stack, octets from R10.
    Stack(i64),
    /// A pointer into the stack that depends on data.
    SomewhereOnStack,
}

/// What a load or store accesses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The stack at this distance from R10.
    Stack(i64),
    /// A region: its base and octets from there.
    Region(Region, Base, i64),
    /// An address that has been computed: it may be in either region, or nowhere.
    Anywhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    registers: [Value; 11],
    slots: [Value; SLOTS],
    /// Which octets of the stack have been written on every way, from the lowest on.
    written: [u64; 8],
}

/// Finds what each load and store accesses: an entry an instruction.
///
/// # Errors
/// Something is read before it is written, or memory is accessed that a program has no business with.
pub fn accesses(code: &[Instruction], graph: &Graph) -> Result<Vec<Option<Access>>, ProgramError> {
    let mut begin = State {
        registers: [Value::Uninitialised; 11],
        slots: [Value::Uninitialised; SLOTS],
        written: [0; 8],
    };
    begin.set(1, Value::Pointer(Region::Context, Base::Begin, 0));
    begin.set(FRAME, Value::Stack(0));
    let mut states: Vec<Option<State>> = vec![None; graph.blocks.len()];
    if let Some(first) = states.first_mut() {
        *first = Some(begin);
    }
    // Until nothing changes: states only lose knowledge, so it ends.
    let mut waiting = BTreeSet::from([0]);
    let mut visits = graph.blocks.len() * VISITS;
    while let Some(number) = waiting.pop_first() {
        visits = visits.checked_sub(1).ok_or(ProgramError::TooInvolved)?;
        let (Some(block), Some(Some(state))) = (graph.blocks.get(number), states.get(number))
        else {
            continue;
        };
        let mut state = state.clone();
        for at in block.start..block.end {
            if let Some(instruction) = code.get(at) {
                // What is wrong is said below, when all ways are known.
                let _ = state.step(at, *instruction, code.get(at + 1).copied());
            }
        }
        for next in block.successors() {
            let Some(known) = states.get_mut(next) else { continue };
            if meet(known, &state, next) {
                waiting.insert(next);
            }
        }
    }
    let mut found = vec![None; code.len()];
    for (block, state) in graph.blocks.iter().zip(states) {
        let Some(mut state) = state else { continue };
        for at in block.start..block.end {
            let Some(instruction) = code.get(at) else { continue };
            let access = state
                .step(at, *instruction, code.get(at + 1).copied())
                .map_err(|reason| ProgramError::Instruction { at, reason })?;
            if let Some(place) = found.get_mut(at) {
                *place = access;
            }
        }
    }
    Ok(found)
}

/// Takes what one more way says into what is known at a block; whether that changed it.
fn meet(known: &mut Option<State>, new: &State, block: usize) -> bool {
    // A value that has its name from an earlier round through here is not the one that has it now, but for its own place.
    let renamed = |place: usize, value: Value| match value {
        Value::Pointer(region, Base::Meeting(at, named), _) if at == block && named != place => {
            Value::Pointer(region, Base::Unnamed, 0)
        }
        other => other,
    };
    let mut new = new.clone();
    for (place, value) in new.values().enumerate() {
        *value = renamed(place, *value);
    }
    let Some(known) = known else {
        *known = Some(new);
        return true;
    };
    let before = known.clone();
    for (place, (value, other)) in known.values().zip(new.values()).enumerate() {
        *value = merge(*value, *other, Base::Meeting(block, place));
    }
    for (written, other) in known.written.iter_mut().zip(new.written) {
        *written &= other;
    }
    *known != before
}

fn merge(one: Value, other: Value, name: Base) -> Value {
    match (one, other) {
        _ if one == other => one,
        (Value::Uninitialised, _) | (_, Value::Uninitialised) => Value::Uninitialised,
        (Value::Stack(_) | Value::SomewhereOnStack, _)
        | (_, Value::Stack(_) | Value::SomewhereOnStack) => Value::SomewhereOnStack,
        (Value::Pointer(region, ..), Value::Pointer(with, ..)) if region == with => {
            Value::Pointer(region, name, 0)
        }
        _ => Value::Number,
    }
}

impl State {
    fn values(&mut self) -> impl Iterator<Item = &mut Value> {
        self.registers.iter_mut().chain(self.slots.iter_mut())
    }

    fn get(&self, register: u8) -> Value {
        self.registers.get(usize::from(register)).copied().unwrap_or(Value::Uninitialised)
    }

    fn set(&mut self, register: u8, value: Value) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = value;
        }
    }

    /// What an instruction does.
    fn step(
        &mut self,
        at: usize,
        instruction: Instruction,
        next: Option<Instruction>,
    ) -> Result<Option<Access>, Refusal> {
        let mut wrong = None;
        for register in 0..=FRAME {
            if reads(instruction) & bit(register) != 0 && self.get(register) == Value::Uninitialised
            {
                wrong = Some(Refusal::Uninitialised(register));
            }
        }
        let mut access = None;
        match instruction.class() {
            LD if instruction.code == LOAD_64 => {
                let high = next.map_or(0, |next| next.immediate.cast_unsigned());
                let low = instruction.immediate.cast_unsigned();
                self.set(instruction.dst, Value::Constant(u64::from(high) << 32 | u64::from(low)));
            }
            LDX => match self.load(instruction) {
                Ok((what, value)) => {
                    access = Some(what);
                    self.set(instruction.dst, value);
                }
                Err(reason) => {
                    self.set(instruction.dst, Value::Number);
                    wrong = wrong.or(Some(reason));
                }
            },
            ST | STX => match self.store(instruction) {
                Ok(what) => access = Some(what),
                Err(reason) => wrong = wrong.or(Some(reason)),
            },
            ALU | ALU64 => {
                let value = self.compute(at, instruction);
                self.set(instruction.dst, value);
            }
            _ => {}
        }
        match wrong {
            Some(reason) => Err(reason),
            None => Ok(access),
        }
    }

    fn load(&self, instruction: Instruction) -> Result<(Access, Value), Refusal> {
        let offset = i64::from(instruction.offset);
        let width = instruction.width();
        match self.get(instruction.src) {
            Value::Stack(from) => {
                let place = stack_place(from.wrapping_add(offset), width)?;
                if !(0..width).all(|octet| self.is_written(place + usize::from(octet))) {
                    return Err(Refusal::StackUninitialised(from.wrapping_add(offset)));
                }
                let whole = width == 8 && place.is_multiple_of(8);
                let value = self.slots.get(place / 8).copied().filter(|_| whole);
                Ok((Access::Stack(from.wrapping_add(offset)), value.unwrap_or(Value::Number)))
            }
            Value::SomewhereOnStack => Err(Refusal::StackAddress),
            Value::Pointer(region, base, delta) => {
                let place = delta.wrapping_add(offset);
                let value = match (region, base, width, place) {
                    (Region::Context, Base::Begin, 8, super::block::PARAMETER_POINTER) => {
                        Value::Pointer(Region::Context, Base::Begin, super::block::CONTEXT)
                    }
                    (Region::Context, Base::Begin, 8, super::block::PACKET_POINTER) => {
                        Value::Pointer(Region::Packet, Base::Begin, 0)
                    }
                    _ => Value::Number,
                };
                Ok((Access::Region(region, base, place), value))
            }
            Value::Number | Value::Constant(_) | Value::Uninitialised => {
                Ok((Access::Anywhere, Value::Number))
            }
        }
    }

    fn store(&mut self, instruction: Instruction) -> Result<Access, Refusal> {
        let width = instruction.width();
        let Value::Stack(from) = self.get(instruction.dst) else {
            return Err(Refusal::Store);
        };
        let offset = from.wrapping_add(i64::from(instruction.offset));
        let place = stack_place(offset, width)?;
        for octet in 0..usize::from(width) {
            if let Some(word) = self.written.get_mut((place + octet) / 64) {
                *word |= 1 << ((place + octet) % 64);
            }
        }
        let whole = width == 8 && place.is_multiple_of(8);
        let value = match instruction.class() {
            STX if whole => self.get(instruction.src),
            ST if whole => Value::Constant(i64::from(instruction.immediate).cast_unsigned()),
            _ => Value::Number,
        };
        for slot in place / 8..=(place + usize::from(width) - 1) / 8 {
            if let Some(slot) = self.slots.get_mut(slot) {
                *slot = value;
            }
        }
        Ok(Access::Stack(offset))
    }

    fn is_written(&self, octet: usize) -> bool {
        self.written.get(octet / 64).is_some_and(|word| word >> (octet % 64) & 1 != 0)
    }

    /// The value that arithmetic gives.
    fn compute(&mut self, at: usize, instruction: Instruction) -> Value {
        if instruction.class() == ALU {
            let constant = instruction.operation() == MOV && !instruction.by_register();
            return if constant {
                Value::Constant(u64::from(instruction.immediate.cast_unsigned()))
            } else {
                Value::Number
            };
        }
        let one = self.get(instruction.dst);
        let other = if instruction.by_register() {
            self.get(instruction.src)
        } else {
            Value::Constant(i64::from(instruction.immediate).cast_unsigned())
        };
        match instruction.operation() {
            MOV => other,
            ADD => match (one, other) {
                (Value::Constant(one), Value::Constant(other)) => {
                    Value::Constant(one.wrapping_add(other))
                }
                (value, Value::Constant(by)) | (Value::Constant(by), value) => {
                    self.moved(at, value, by.cast_signed())
                }
                (Value::Pointer(region, ..), Value::Number)
                | (Value::Number, Value::Pointer(region, ..)) => self.sum(at, region),
                (Value::Stack(_) | Value::SomewhereOnStack, _)
                | (_, Value::Stack(_) | Value::SomewhereOnStack) => Value::SomewhereOnStack,
                _ => Value::Number,
            },
            SUB => match (one, other) {
                (Value::Constant(one), Value::Constant(other)) => {
                    Value::Constant(one.wrapping_sub(other))
                }
                (value, Value::Constant(by)) => {
                    self.moved(at, value, by.cast_signed().wrapping_neg())
                }
                (Value::Pointer(region, ..), Value::Number) => self.sum(at, region),
                (Value::Stack(_) | Value::SomewhereOnStack, Value::Number) => {
                    Value::SomewhereOnStack
                }
                _ => Value::Number,
            },
            _ => Value::Number,
        }
    }

    /// A value and a constant added.
    fn moved(&mut self, at: usize, value: Value, by: i64) -> Value {
        /// Further from its base a pointer gets a new name, so that no sum of distances overflows.
        const FAR: i64 = 1 << 30;
        match value {
            Value::Pointer(region, base, delta) => match delta.checked_add(by) {
                Some(delta) if (-FAR..FAR).contains(&delta) => Value::Pointer(region, base, delta),
                _ => self.sum(at, region),
            },
            Value::Stack(from) => match from.checked_add(by) {
                Some(from) if (-FAR..FAR).contains(&from) => Value::Stack(from),
                _ => Value::SomewhereOnStack,
            },
            Value::SomewhereOnStack => Value::SomewhereOnStack,
            _ => Value::Number,
        }
    }

    /// A pointer with a name of its own. Older values of that name lose it.
    fn sum(&mut self, at: usize, region: Region) -> Value {
        for value in self.values() {
            if let Value::Pointer(region, Base::Sum(named), _) = *value
                && named == at
            {
                *value = Value::Pointer(region, Base::Unnamed, 0);
            }
        }
        Value::Pointer(region, Base::Sum(at), 0)
    }
}

/// Octets from the lowest of the stack.
fn stack_place(offset: i64, width: u8) -> Result<usize, Refusal> {
    let outside = Refusal::StackBounds { offset, width };
    match usize::try_from(offset.saturating_add(STACK)) {
        Ok(place) if offset.saturating_add(i64::from(width)) <= 0 => Ok(place),
        _ => Err(outside),
    }
}
