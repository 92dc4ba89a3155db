//! Checks each instruction by itself: codes, registers, reserved fields, targets of jumps. What depends on the way that leads to an
//! instruction is in [`super::analysis`].

use super::MAX_INSTRUCTIONS;
use super::error::{ProgramError, Refusal};
use super::instruction::*;

/// Checks all instructions, also those that are never reached.
///
/// # Errors
/// The first instruction that is wrong, and why.
pub fn check(code: &[Instruction]) -> Result<(), ProgramError> {
    if code.is_empty() {
        return Err(ProgramError::NoCode);
    }
    if code.len() > MAX_INSTRUCTIONS {
        return Err(ProgramError::TooManyInstructions { instructions: code.len() });
    }
    let second_halves = second_halves(code);
    for (at, instruction) in code.iter().enumerate() {
        let refuse = |reason| Err(ProgramError::Instruction { at, reason });
        if second_halves.get(at) == Some(&true) {
            continue;
        }
        if let Err(reason) = one(*instruction) {
            return refuse(reason);
        }
        if instruction.code == LOAD_64 {
            match code.get(at + 1) {
                Some(Instruction { code: 0, dst: 0, src: 0, offset: 0, .. }) => {}
                _ => return refuse(Refusal::HalfLoad),
            }
        }
        let length = if instruction.code == LOAD_64 { 2 } else { 1 };
        if instruction.falls_through() && at + length >= code.len() {
            return refuse(Refusal::RunsOut);
        }
        if instruction.branches() || (instruction.class() == JMP && instruction.operation() == JA) {
            match target(at, *instruction) {
                Some(to) if to < code.len() => {
                    if second_halves.get(to) == Some(&true) {
                        return refuse(Refusal::JumpInside(to));
                    }
                }
                _ => {
                    return refuse(Refusal::JumpOutside(
                        i64::try_from(at).unwrap_or(i64::MAX) + 1 + i64::from(instruction.offset),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Where a jump at `at` leads to; nothing if that is before the first instruction.
pub fn target(at: usize, instruction: Instruction) -> Option<usize> {
    (at + 1).checked_add_signed(isize::from(instruction.offset))
}

/// Which instructions are the second halves of 64-bit loads.
fn second_halves(code: &[Instruction]) -> Vec<bool> {
    let mut halves = Vec::with_capacity(code.len());
    let mut half = false;
    for instruction in code {
        halves.push(half);
        half = !half && instruction.code == LOAD_64;
    }
    halves
}

/// Whether an instruction is one, wherever it stands.
fn one(instruction: Instruction) -> Result<(), Refusal> {
    for register in [instruction.dst, instruction.src] {
        if register > FRAME {
            return Err(Refusal::Register(register));
        }
    }
    match instruction.class() {
        LD => constant_load(instruction),
        LDX => {
            memory_mode(instruction)?;
            written(instruction.dst)?;
            zero(instruction.immediate)
        }
        ST => {
            memory_mode(instruction)?;
            zero(i32::from(instruction.src))
        }
        STX => {
            memory_mode(instruction)?;
            zero(instruction.immediate)?;
            if instruction.src == FRAME { Err(Refusal::FrameUsed) } else { Ok(()) }
        }
        ALU | ALU64 => arithmetic(instruction),
        _ => jump(instruction),
    }
}

fn zero(field: i32) -> Result<(), Refusal> {
    if field == 0 { Ok(()) } else { Err(Refusal::Reserved) }
}

fn written(register: u8) -> Result<(), Refusal> {
    if register == FRAME { Err(Refusal::FrameWritten) } else { Ok(()) }
}

fn constant_load(instruction: Instruction) -> Result<(), Refusal> {
    if instruction.code == LOAD_64 {
        if instruction.src != 0 {
            return Err(Refusal::Map);
        }
        zero(i32::from(instruction.offset))?;
        return written(instruction.dst);
    }
    Err(match instruction.code & MODE {
        ABSOLUTE | INDIRECT => Refusal::Classic,
        _ => Refusal::Unknown(instruction.code),
    })
}

fn memory_mode(instruction: Instruction) -> Result<(), Refusal> {
    match (instruction.class(), instruction.code & MODE) {
        (_, MEMORY) => Ok(()),
        (STX, ATOMIC) => Err(Refusal::Atomic),
        (LDX, SIGNED_MEMORY) => Err(Refusal::Later(instruction.code)),
        _ => Err(Refusal::Unknown(instruction.code)),
    }
}

fn arithmetic(instruction: Instruction) -> Result<(), Refusal> {
    written(instruction.dst)?;
    let operation = instruction.operation();
    let bits = if instruction.class() == ALU64 { 64 } else { 32 };
    match operation {
        END => {
            if instruction.class() == ALU64 {
                return Err(Refusal::Later(instruction.code));
            }
            zero(i32::from(instruction.offset) | i32::from(instruction.src))?;
            return match instruction.immediate {
                16 | 32 | 64 => Ok(()),
                other => Err(Refusal::Swap(other)),
            };
        }
        NEG => {
            if instruction.by_register() {
                return Err(Refusal::Unknown(instruction.code));
            }
            return zero(
                i32::from(instruction.offset) | i32::from(instruction.src) | instruction.immediate,
            );
        }
        ADD..=ARSH => {}
        _ => return Err(Refusal::Unknown(instruction.code)),
    }
    if instruction.offset != 0 {
        // Signed division and moves with sign extension have an offset.
        return Err(if matches!(operation, DIV | MOD | MOV) {
            Refusal::Later(instruction.code)
        } else {
            Refusal::Reserved
        });
    }
    if instruction.by_register() {
        zero(instruction.immediate)?;
        let moved = instruction.class() == ALU64 && matches!(operation, MOV | ADD);
        if instruction.src == FRAME && !moved {
            return Err(Refusal::FrameUsed);
        }
        return Ok(());
    }
    zero(i32::from(instruction.src))?;
    match operation {
        LSH | RSH | ARSH if !(0..bits).contains(&instruction.immediate) => {
            Err(Refusal::Shift(instruction.immediate))
        }
        DIV | MOD if instruction.immediate == 0 => Err(Refusal::DivisionByZero),
        _ => Ok(()),
    }
}

fn jump(instruction: Instruction) -> Result<(), Refusal> {
    let operation = instruction.operation();
    let unconditional = matches!(operation, JA | CALL | EXIT);
    if unconditional && (instruction.class() == JMP32 || instruction.by_register()) {
        return Err(match operation {
            JA if !instruction.by_register() => Refusal::Later(instruction.code),
            _ => Refusal::Unknown(instruction.code),
        });
    }
    match operation {
        CALL if instruction.src != 0 => Err(Refusal::Call),
        CALL => Err(Refusal::Helper(instruction.immediate)),
        EXIT => zero(
            i32::from(instruction.offset)
                | i32::from(instruction.dst)
                | i32::from(instruction.src)
                | instruction.immediate,
        ),
        JA => zero(i32::from(instruction.dst) | i32::from(instruction.src) | instruction.immediate),
        JEQ..=JSLE => {
            if instruction.dst == FRAME || (instruction.by_register() && instruction.src == FRAME) {
                return Err(Refusal::FrameUsed);
            }
            if instruction.by_register() {
                zero(instruction.immediate)
            } else {
                zero(i32::from(instruction.src))
            }
        }
        _ => Err(Refusal::Unknown(instruction.code)),
    }
}
