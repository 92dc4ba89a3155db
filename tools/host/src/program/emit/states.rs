//! The account of what librte_bpf's validator knows of each register: the states of [`Emitter`].

use super::super::instruction::*;
use super::{Emitter, SLOTS, Slot, States};

impl Emitter {
    pub(super) fn note(&mut self, place: usize, range: u64, shape: u64) {
        if let Some(state) = self.states.range.get_mut(place) {
            *state = range;
        }
        if let Some(state) = self.states.shape.get_mut(place) {
            *state = shape;
        }
    }

    fn range(&self, register: u8) -> u64 {
        self.states.range.get(usize::from(register)).copied().unwrap_or(0)
    }

    fn shape(&self, register: u8) -> u64 {
        self.states.shape.get(usize::from(register)).copied().unwrap_or(0)
    }

    /// Notes what an instruction makes of the states. Equal states must become equal ones and no others.
    pub(super) fn account(&mut self, instruction: Instruction) {
        let Instruction { code, dst, src, offset, .. } = instruction;
        let immediate = u64::from(instruction.immediate.cast_unsigned());
        let code_number = u64::from(code);
        match instruction.class() {
            LDX if src == FRAME => {
                let borrowed = [(11, Slot::Borrowed), (12, Slot::BorrowedToo)]
                    .into_iter()
                    .find(|(_, slot)| *slot as i16 == offset);
                match borrowed {
                    Some((place, _)) => {
                        let range = self.states.range.get(place).copied().unwrap_or(0);
                        let shape = self.states.shape.get(place).copied().unwrap_or(0);
                        self.note(usize::from(dst), range, shape);
                    }
                    None => {
                        let pointer = matches!(offset, -16 | -8);
                        let shape = if pointer { POINTER } else { offset.unsigned_abs().into() };
                        self.note(
                            usize::from(dst),
                            mix(&[SLOT, offset.unsigned_abs().into()]),
                            shape,
                        );
                    }
                }
            }
            LDX => {
                let shape = self.shape(dst);
                self.note(usize::from(dst), mix(&[code_number]), shape);
            }
            STX if dst == FRAME => {
                let place = match SLOTS.iter().find(|slot| **slot as i16 == offset) {
                    Some(Slot::Borrowed) => 11,
                    Some(Slot::BorrowedToo) => 12,
                    _ => return,
                };
                let (range, shape) = (mix(&[STORED, self.range(src)]), self.shape(src));
                self.note(place, range, shape);
            }
            ALU | ALU64 if instruction.operation() == MOV => {
                let (range, shape) = if instruction.by_register() {
                    (mix(&[code_number, self.range(src)]), self.shape(src))
                } else {
                    (mix(&[code_number, immediate]), CONSTANT + u64::from(instruction.class()))
                };
                self.note(usize::from(dst), range, shape);
            }
            ALU | ALU64 => {
                let second = match instruction.operation() {
                    NEG | END => 0,
                    _ if instruction.by_register() => {
                        mix(&[self.range(src), u64::from(src == dst)])
                    }
                    _ => 0,
                };
                let range = mix(&[code_number, immediate, self.range(dst), second]);
                let shape = self.shape(dst);
                self.note(usize::from(dst), range, shape);
            }
            LD => {
                let shape = self.shape(dst);
                self.note(
                    usize::from(dst),
                    mix(&[code_number, immediate, self.out.len() as u64]),
                    shape,
                );
            }
            _ => {}
        }
    }

    /// The states after a conditional jump: where it leads to, and behind it.
    pub(super) fn after_branch(&self, instruction: Instruction) -> (States, States) {
        let changed = |taken: u64, both: bool| {
            let mut copy = self.states;
            let register = |register| usize::from(register);
            let second = if instruction.by_register() {
                self.range(instruction.src)
            } else {
                u64::from(instruction.immediate.cast_unsigned())
            };
            let code = u64::from(instruction.code);
            if let Some(state) = copy.range.get_mut(register(instruction.dst)) {
                *state = mix(&[BRANCH, code, taken, *state, second, 0]);
            }
            if both
                && instruction.by_register()
                && let Some(state) = copy.range.get_mut(register(instruction.src))
            {
                *state = mix(&[BRANCH, code, taken, *state, self.range(instruction.dst), 1]);
            }
            copy
        };
        match instruction.operation() {
            JEQ => (changed(1, true), self.states),
            JNE => (self.states, changed(0, true)),
            JSET => (self.states, self.states),
            _ => (changed(1, false), changed(0, false)),
        }
    }
}

pub(super) const UNKNOWN: u64 = 1;
const SLOT: u64 = 2;
const STORED: u64 = 3;
const BRANCH: u64 = 4;
const POINTER: u64 = 5;
const CONSTANT: u64 = 6 << 32;

/// One number of several, which differs when they do but for rare accidents. An accident costs the validator time, nothing else.
pub(super) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, part| {
        let mixed = (sum ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    })
}
