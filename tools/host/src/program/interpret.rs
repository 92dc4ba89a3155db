//! Runs programs with rbpf's interpreter, wherever there is no compiler.

use super::instruction::{DOUBLE, Instruction, LDX, MEMORY};
use super::{Armed, Backend, Machine, Program};
use rbpf::EbpfVmMbuff;
use self_cell::self_cell;
use std::collections::BTreeSet;
use std::fmt;

/// rbpf's interpreter.
#[derive(Copy, Clone, Debug, Default)]
pub struct Interpreter;

impl Backend for Interpreter {
    fn name(&self) -> &'static str {
        "interpret"
    }

    fn prepare(&self, program: &Program) -> Result<Box<dyn Machine>, String> {
        // rbpf hands over the address of octets that it takes for constant, and those have the block's address.
        let first = Instruction::new(LDX | MEMORY | DOUBLE, 1, 1, 0, 0);
        let text =
            program.text().iter().fold(Vec::from(first.encode()), |mut text, instruction| {
                text.extend(instruction.encode());
                text
            });
        Interpreted::machine(text)
            .map_err(|error| format!("rbpf does not take the program: {error}"))
    }
}

self_cell! {
    struct Vm {
        owner: Vec<u8>,
        #[not_covariant]
        dependent: EbpfVmMbuff,
    }
}

/// A program in rbpf.
struct Interpreted {
    vm: Vm,
    /// Blocks that the program may use.
    blocks: BTreeSet<(usize, usize)>,
}

// SAFETY: what keeps `EbpfVmMbuff` from being `Send` are a `Box<dyn Any>` for a calculator of stack usage and the memory of a compiled program.
// There is neither: `machine` gives no calculator and compiles nothing, nobody else reaches the machine, and all else in it is owned
// or refers to the octets that move along.
unsafe impl Send for Interpreted {}

impl Interpreted {
    fn machine(text: Vec<u8>) -> Result<Box<dyn Machine>, rbpf::lib::Error> {
        let vm = Vm::try_new(text, |text| EbpfVmMbuff::new(Some(text)))?;
        Ok(Box::new(Self { vm, blocks: BTreeSet::new() }))
    }
}

impl fmt::Debug for Interpreted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreted").finish_non_exhaustive()
    }
}

impl Machine for Interpreted {
    fn run(&mut self, armed: &Armed<'_>) -> Option<u64> {
        let block = (armed.address(), armed.address() + armed.octets());
        if self.blocks.insert(block) {
            // What blocks that are no more have left is no danger: the program computes no address from anything but this block's.
            self.vm.with_dependent_mut(|_, vm| {
                vm.register_allowed_memory(block.0 as u64..block.1 as u64)
            });
        }
        let address = (block.0 as u64).to_ne_bytes();
        self.vm.with_dependent(|_, vm| vm.execute_program(armed.packet(), &address)).ok()
    }

    fn another(&self) -> Option<Box<dyn Machine>> {
        Self::machine(self.vm.borrow_owner().clone()).ok()
    }
}
