//! Match programs compiled by librte_bpf.
//!
//! The library validates a program and compiles it for x86-64 or AArch64. Its validator wants to know what each address points to. The block is the
//! program's argument; the packet's address, which is in the block, comes from a call of a function that is declared to return one. Both are
//! declared larger than anything is: that no load goes outside is what [`heddle_host::program`] has seen to, with comparisons in the
//! text itself, and the validator only confirms the text's form (no loops, all jumps inside, registers written before they are read).
//!
//! What 22.11 compiles wrongly is not in confined programs: tests of a register with a constant below 128, shifts of R0 to R9 by themselves,
//! divisions of R0 and R3 by themselves, divisions of 32 bits by a register (they clear half of R0), jumps whose size depends on that of others, and
//! jumps 128 octets backwards. Shifts of 32 bits, of which it lacks some, are written with 64.

use crate::error::{Error, last_errno};
use crate::logging;
use dpdk_sys::{
    ebpf_insn, rte_bpf, rte_bpf_arg, rte_bpf_arg_type, rte_bpf_jit, rte_bpf_prm, rte_bpf_xsym,
    rte_bpf_xtype,
};
use heddle_host::program::{Armed, Backend, Instruction, Interpreter, Machine, Program};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// Octets that blocks and packets are declared to have: more than a distance in a confined program can be, which is 31 bits and an offset.
const DECLARED: usize = (1 << 31) + (1 << 16);

/// The code of a call.
const CALL: u8 = 0x85;

/// Compiles programs with librte_bpf. It needs no EAL.
#[derive(Copy, Clone, Debug, Default)]
pub struct Compiler;

impl Backend for Compiler {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn prepare(&self, program: &Program) -> Result<Box<dyn Machine>, String> {
        let Some(text) = program.unrolled() else {
            return Err(
                "the program's loops are too long to be unrolled for the compiler".to_owned()
            );
        };
        let compiled = Compiled::new(text).map_err(|error| error.to_string())?;
        if program.has_loops() {
            let interpreted = Interpreter.prepare(program)?;
            return Ok(Box::new(Unrolled { compiled, interpreted }));
        }
        Ok(Box::new(compiled))
    }
}

/// The code of a compiled program.
#[derive(Debug)]
struct Code {
    bpf: NonNull<rte_bpf>,
    function: unsafe extern "C" fn(*mut c_void) -> u64,
}

// SAFETY: the handle refers to memory of its own that is never written again and that any thread may free; the function is code in it.
unsafe impl Send for Code {}
// SAFETY: the function writes to its stack and to the block that it is given only, so several threads may run it at once.
unsafe impl Sync for Code {}

/// One compiled program.
#[derive(Clone, Debug)]
struct Compiled {
    code: Arc<Code>,
}

impl Compiled {
    /// Compiles one of a [`Program`]'s texts.
    fn new(text: &[Instruction]) -> Result<Self, Error> {
        let text: Vec<ebpf_insn> = text
            .iter()
            .enumerate()
            .map(|(at, instruction)| {
                if at == Program::PACKET_LOAD {
                    native(Instruction { code: CALL, ..Instruction::default() })
                } else {
                    native(*instruction)
                }
            })
            .collect();
        let pointer =
            rte_bpf_arg { type_: rte_bpf_arg_type::RTE_BPF_ARG_PTR, size: DECLARED, buf_size: 0 };
        let symbol = first_word(pointer);
        let parameters = rte_bpf_prm {
            ins: text.as_ptr(),
            nb_ins: u32::try_from(text.len())
                .map_err(|_| Error::refused("the program is too long"))?,
            xsym: &raw const symbol,
            nb_xsym: 1,
            prog_arg: pointer,
        };
        let (loaded, log) = logging::capture(|| {
            // SAFETY: the parameters, the instructions and the symbol live until after the call, which copies them; the counts are right. The
            // symbol is a function with the arguments that programs pass. The instructions are a confined program's, so the validator
            // meets no division of two constants (it would do that division, also INT64_MIN / -1) and no more states than it has room for.
            let bpf = unsafe { dpdk_sys::rte_bpf_load(&raw const parameters) };
            NonNull::new(bpf).ok_or_else(last_errno)
        });
        let bpf = loaded
            .map_err(|errno| Error::call("librte_bpf does not take the program", errno, &log))?;
        let mut jit = rte_bpf_jit { func: None, sz: 0 };
        // SAFETY: the handle is the one just made and `jit` a place for the answer.
        unsafe { dpdk_sys::rte_bpf_get_jit(bpf.as_ptr(), &raw mut jit) };
        match jit.func {
            Some(function) => Ok(Self { code: Arc::new(Code { bpf, function }) }),
            None => {
                // SAFETY: the handle is the one just made, and nobody else has it.
                unsafe { dpdk_sys::rte_bpf_destroy(bpf.as_ptr()) };
                Err(Error::refused("librte_bpf has no compiler for this machine"))
            }
        }
    }
}

impl Machine for Compiled {
    fn run(&mut self, armed: &Armed<'_>) -> Option<u64> {
        let block = std::ptr::with_exposed_provenance_mut::<c_void>(armed.address());
        // SAFETY: the function is the compiled text of a confined program, and its code lives as long as `self`. Such a program
        // - reads the block and writes to the words of the checks, the fault and the stack in it, all within `armed.octets()`; the words are
        //   atomic to this program's eyes, `armed` has the block for itself, and the address has exposed provenance;
        // - reads the packet at the address and up to the length that are in the block: those of `armed.packet()`, which `armed` borrows;
        // - has no loop, so that it comes back, and keeps the registers that the C calling convention says.
        Some(unsafe { (self.code.function)(block) })
    }

    fn another(&self) -> Option<Box<dyn Machine>> {
        Some(Box::new(self.clone()))
    }
}

/// A compiled program whose loops are unrolled, and the program itself for runs that they are not long enough for.
#[derive(Debug)]
struct Unrolled {
    compiled: Compiled,
    interpreted: Box<dyn Machine>,
}

impl Machine for Unrolled {
    fn run(&mut self, armed: &Armed<'_>) -> Option<u64> {
        let verdict = self.compiled.run(armed);
        if armed.begins_again() { self.interpreted.run(armed) } else { verdict }
    }

    fn another(&self) -> Option<Box<dyn Machine>> {
        let interpreted = self.interpreted.another()?;
        Some(Box::new(Self { compiled: self.compiled.clone(), interpreted }))
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the handle came from rte_bpf_load and is destroyed only here; the function is not running, as that borrows `self`.
        unsafe { dpdk_sys::rte_bpf_destroy(self.bpf.as_ptr()) };
    }
}

/// An instruction as librte_bpf has it.
fn native(instruction: Instruction) -> ebpf_insn {
    let Instruction { code, dst, src, offset, immediate } = instruction;
    ebpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: ebpf_insn::new_bitfield_1(dst, src),
        off: offset,
        imm: immediate,
    }
}

/// The function that gives the packet's address, with what it returns.
fn first_word(pointer: rte_bpf_arg) -> rte_bpf_xsym {
    let undefined =
        rte_bpf_arg { type_: rte_bpf_arg_type::RTE_BPF_ARG_UNDEF, size: 0, buf_size: 0 };
    let raw = rte_bpf_arg { type_: rte_bpf_arg_type::RTE_BPF_ARG_RAW, size: 8, buf_size: 0 };
    rte_bpf_xsym {
        name: c"packet".as_ptr(),
        type_: rte_bpf_xtype::RTE_BPF_XTYPE_FUNC,
        __bindgen_anon_1: dpdk_sys::rte_bpf_xsym__bindgen_ty_1 {
            func: dpdk_sys::rte_bpf_xsym__bindgen_ty_1__bindgen_ty_1 {
                val: Some(dpdk_sys::dpdk_sys_first_word),
                nb_args: 1,
                args: [raw, undefined, undefined, undefined, undefined],
                ret: pointer,
            },
        },
    }
}
