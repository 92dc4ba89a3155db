//! Arithmetic and jumps, written so that all backends do them alike.

use super::super::block::{AT_SCRATCH, STACK_ADDRESS};
use super::super::emit::{Label, Slot, Temporary};
use super::super::graph::{Block, bit};
use super::super::instruction::*;
use super::{Writer, by, copy, load, store, with};

impl Writer<'_> {
    pub(super) fn arithmetic(&mut self, instruction: Instruction) {
        let Instruction { dst, src, .. } = instruction;
        let wide = instruction.class() == ALU64;
        let class = instruction.class();
        if instruction.by_register() && src == FRAME && instruction.operation() != END {
            let address = STACK_ADDRESS.cast_signed();
            self.emitter.push(with(class | instruction.operation(), dst, address));
            return;
        }
        match instruction.operation() {
            NEG => {
                self.emitter.push(with(class | XOR, dst, -1));
                self.emitter.push(with(class | ADD, dst, 1));
            }
            DIV | MOD => self.divide(instruction),
            LSH | RSH | ARSH if !wide || (instruction.by_register() && src == dst) => {
                self.shift(instruction);
            }
            _ => self.emitter.push(instruction),
        }
    }

    /// Shifts that the backends do not have, or have differently.
    fn shift(&mut self, instruction: Instruction) {
        let Instruction { dst, src, .. } = instruction;
        let by_register = instruction.by_register();
        let temporary = by_register.then(|| self.emitter.take(bit(dst) | bit(src)));
        let amount = temporary.map_or(0, |temporary| temporary.register);
        if by_register {
            self.emitter.push(copy(amount, src));
        }
        if instruction.class() == ALU64 {
            self.emitter.push(by(ALU64 | instruction.operation(), dst, amount));
        } else {
            if by_register {
                self.emitter.push(with(ALU64 | AND, amount, 31));
            }
            // On 64 bits, of which the upper half is made what it has to be first.
            let operation = instruction.operation();
            self.emitter.push(by(ALU | MOV, dst, dst));
            if operation == ARSH {
                self.emitter.push(with(ALU64 | LSH, dst, 32));
                self.emitter.push(with(ALU64 | ARSH, dst, 32));
            }
            if by_register {
                self.emitter.push(by(ALU64 | operation, dst, amount));
            } else {
                self.emitter.push(with(ALU64 | operation, dst, instruction.immediate));
            }
            self.emitter.push(by(ALU | MOV, dst, dst));
        }
        if let Some(temporary) = temporary {
            self.emitter.give(temporary);
        }
    }

    /// Division. The divisor goes through memory, so that no validator that knows both numbers divides them itself, and badly.
    fn divide(&mut self, instruction: Instruction) {
        let Instruction { dst, src, immediate, .. } = instruction;
        let temporary = self.emitter.take(bit(dst) | bit(src));
        let divisor = temporary.register;
        let width = if instruction.class() == ALU64 { DOUBLE } else { WORD };
        self.emitter.slot(Slot::Block, divisor);
        if instruction.by_register() {
            self.emitter.push(store(divisor, AT_SCRATCH, src));
        } else {
            self.emitter.push(Instruction::new(
                ST | MEMORY | DOUBLE,
                divisor,
                0,
                AT_SCRATCH,
                immediate,
            ));
        }
        self.emitter.push(Instruction::new(LDX | MEMORY | width, divisor, divisor, AT_SCRATCH, 0));
        if instruction.class() == ALU {
            // Then it is a division of 64 bits, with the same result.
            self.emitter.push(by(ALU | MOV, dst, dst));
        }
        self.emitter.skip(with(JMP | JNE, divisor, 0), 2);
        if instruction.operation() == DIV {
            self.emitter.push(with(ALU64 | MOV, dst, 0));
        } else {
            self.emitter.push(copy(dst, dst));
        }
        self.emitter.skip_always(1);
        self.emitter.push(by(ALU64 | instruction.operation(), dst, divisor));
        // Both ways leave the same behind.
        self.emitter.slot(Slot::Block, divisor);
        self.emitter.push(store(divisor, AT_SCRATCH, dst));
        self.emitter.push(load(divisor, divisor, AT_SCRATCH));
        self.emitter.push(copy(dst, divisor));
        self.emitter.give(temporary);
    }

    pub(super) fn jump(&mut self, instruction: Instruction, block: &Block, number: usize) {
        match instruction.operation() {
            EXIT => self.emitter.jump(Label::End),
            AGAIN => self.emitter.jump(Label::Again),
            JA => {
                if let Some(next) = block.jump {
                    self.go_on(number, next);
                }
            }
            _ => {
                if let (Some(taken), Some(next)) = (block.jump, block.fall) {
                    let (plain, temporaries) = self.comparison(instruction);
                    self.part(plain, &temporaries, Label::Block(taken));
                    self.go_on(number, next);
                }
            }
        }
    }

    /// Writes what must come before a comparison to make it one that the backends have and have alike; gives that.
    fn comparison(&mut self, instruction: Instruction) -> (Instruction, Vec<Temporary>) {
        let Instruction { dst, src, immediate, .. } = instruction;
        let operation = instruction.operation();
        let by_register = instruction.by_register();
        let signed = matches!(operation, JSGT | JSGE | JSLT | JSLE);
        let avoid = bit(dst) | if by_register { bit(src) } else { 0 };
        let plain = Instruction { offset: 0, ..instruction };
        if instruction.class() == JMP32 {
            let first = self.emitter.take(avoid);
            self.narrow(first.register, dst, signed);
            if !by_register && (signed || immediate >= 0) && operation != JSET {
                return (with(JMP | operation, first.register, immediate), vec![first]);
            }
            let second = self.emitter.take(avoid | bit(first.register));
            if by_register {
                self.narrow(second.register, src, signed);
            } else {
                self.emitter.push(with(ALU | MOV, second.register, immediate));
            }
            return (by(JMP | operation, first.register, second.register), vec![first, second]);
        }
        if by_register || signed {
            return (plain, Vec::new());
        }
        if operation == JSET {
            let masked = self.emitter.take(avoid);
            self.emitter.push(copy(masked.register, dst));
            self.emitter.push(with(ALU64 | AND, masked.register, immediate));
            return (with(JMP | JNE, masked.register, 0), vec![masked]);
        }
        if immediate < 0 {
            let constant = self.emitter.take(avoid);
            self.emitter.push(with(ALU64 | MOV, constant.register, immediate));
            return (by(JMP | operation, dst, constant.register), vec![constant]);
        }
        (plain, Vec::new())
    }

    /// `to` = the lower half of `from`, with its sign or without.
    fn narrow(&mut self, to: u8, from: u8, signed: bool) {
        self.emitter.push(by(ALU | MOV, to, from));
        if signed {
            self.emitter.push(with(ALU64 | LSH, to, 32));
            self.emitter.push(with(ALU64 | ARSH, to, 32));
        }
    }

    /// Writes a conditional jump behind which, on both ways, borrowed registers have their values back.
    fn part(&mut self, plain: Instruction, temporaries: &[Temporary], taken: Label) {
        let borrowed: Vec<Temporary> =
            temporaries.iter().copied().filter(Temporary::is_borrowed).collect();
        if borrowed.is_empty() {
            self.emitter.branch(plain, taken);
        } else {
            let jump = self.emitter.len();
            let states = self.emitter.skip(plain, 0);
            for temporary in &borrowed {
                self.emitter.restore(*temporary);
            }
            self.emitter.skip_always(borrowed.len() as i16 + 1);
            self.emitter.land(jump);
            let behind = self.emitter.exchange(states);
            for temporary in &borrowed {
                self.emitter.restore(*temporary);
            }
            self.emitter.jump(taken);
            self.emitter.exchange(behind);
        }
        self.emitter.keep = 0;
    }
}
