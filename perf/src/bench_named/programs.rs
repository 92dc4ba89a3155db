//! The program that is asked about each Interest: whether it is one over UDP to the port of named data, whose name begins with the parameter.

use dpdk::Compiler;
use heddle_core::flow::Programs;
use heddle_host::program::{Backend, Interpreter, ProgramSet, Registry};
use miette::IntoDiagnostic;

/// The number of the program and of its parameter.
pub const PROGRAM: u32 = 1;

/// The first component of the names, as its TLV.
const PARAMETER: &[u8] = b"\x08\x06island";

/// How the program is run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Compiled by librte_bpf.
    Compiled,
    /// Interpreted by rbpf.
    Interpreted,
}

/// One worker's programs.
pub fn programs(runs: Runs) -> miette::Result<impl Programs> {
    let backend: Box<dyn Backend> = match runs {
        Runs::Compiled => Box::new(Compiler),
        Runs::Interpreted => Box::new(Interpreter),
    };
    let mut registry = Registry::new(1, vec![backend]);
    let mut set = ProgramSet::new();
    let changes = registry.put(PROGRAM, &text()).into_diagnostic()?;
    let more = registry.set_parameter(PROGRAM, PROGRAM, PARAMETER).into_diagnostic()?;
    for change in changes.into_iter().chain(more) {
        drop(set.apply(change));
    }
    Ok(set)
}

/// The instructions, eight octets each: code, registers, offset, constant.
fn text() -> Vec<u8> {
    const LOAD_BYTE: u8 = 0x71;
    const LOAD_HALF: u8 = 0x69;
    const LOAD_DOUBLE: u8 = 0x79;
    const JUMP_NOT_EQUAL: u8 = 0x55;
    const JUMP_NOT_EQUAL_REGISTER: u8 = 0x5d;
    const JUMP_LESS: u8 = 0xa5;
    const MOVE: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    let mut text = Vec::new();
    let mut put = |code: u8, to: u8, from: u8, offset: i16, constant: i32| {
        text.extend_from_slice(&[code, from << 4 | to]);
        text.extend_from_slice(&offset.to_le_bytes());
        text.extend_from_slice(&constant.to_le_bytes());
    };
    let big_endian = |value: u16| i32::from(value.to_be());
    // The context has the packet's length at 16, the parameter's address at 24 and the packet's at 32.
    put(MOVE, 0, 0, 0, 0);
    put(LOAD_DOUBLE, 7, 1, 16, 0);
    put(JUMP_LESS, 7, 0, 16, 62);
    put(LOAD_DOUBLE, 6, 1, 32, 0);
    put(LOAD_HALF, 2, 6, 12, 0);
    put(JUMP_NOT_EQUAL, 2, 0, 13, big_endian(0x0800));
    put(LOAD_BYTE, 2, 6, 23, 0);
    put(JUMP_NOT_EQUAL, 2, 0, 11, 17);
    put(LOAD_HALF, 2, 6, 36, 0);
    put(JUMP_NOT_EQUAL, 2, 0, 9, big_endian(6363));
    put(LOAD_BYTE, 2, 6, 42, 0);
    put(JUMP_NOT_EQUAL, 2, 0, 7, 5);
    put(LOAD_BYTE, 2, 6, 44, 0);
    put(JUMP_NOT_EQUAL, 2, 0, 5, 7);
    put(LOAD_DOUBLE, 3, 1, 24, 0);
    put(LOAD_DOUBLE, 4, 3, 0, 0);
    put(LOAD_DOUBLE, 5, 6, 46, 0);
    put(JUMP_NOT_EQUAL_REGISTER, 4, 5, 1, 0);
    put(MOVE, 0, 0, 0, 1);
    put(EXIT, 0, 0, 0, 0);
    text
}
