//! Match programs of others, compiled and interpreted, give the verdicts that were written down for them, and hostile ones do no harm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tools/host/tests/program/mod.rs"]
mod program;

use std::path::Path;

use dpdk::Compiler;
use heddle_core::flow::ProgramPlace;
use heddle_core::node::PortId;
use heddle_host::program::{Backend, Fault, Interpreter, Program};
use program::{run, run_at};
use serde::Deserialize;

const BACKENDS: [&dyn Backend; 2] = [&Interpreter, &Compiler];

/// A run and its verdict.
#[derive(Deserialize)]
struct Case {
    id: String,
    why: String,
    program: String,
    table_id: u8,
    in_port: u8,
    param: String,
    packet: String,
    expected: String,
}

fn read(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = directory.join("../../tools/openflow/tests/cases/programs").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn programs_of_others_say_what_was_written_down() {
    let text = String::from_utf8(read("cases.jsonl")).unwrap();
    let cases: Vec<Case> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 49);
    for case in cases {
        let program = Program::load(&read(&case.program)).unwrap();
        let expected = u64::from_str_radix(case.expected.trim_start_matches("0x"), 16).unwrap();
        // Programs see OpenFlow's numbers of ports, which begin at 1.
        let place = ProgramPlace { table: case.table_id, in_port: PortId(case.in_port - 1) };
        let (parameter, packet) =
            (hex::decode(&case.param).unwrap(), hex::decode(&case.packet).unwrap());
        for backend in BACKENDS {
            let verdict = run_at(place, backend, &program, &parameter, &packet);
            assert_eq!(verdict, Ok(expected), "{} ({}), {}", case.id, case.why, backend.name());
        }
    }
}

#[test]
fn hostile_programs_are_refused_or_stopped() {
    let stopped = |name: &str, fault: Fault| {
        let program = Program::load(&read(name)).unwrap();
        for backend in BACKENDS {
            let verdict = run(backend, &program, b"parameter", &[0; 64]);
            assert_eq!(verdict, Err(fault), "{name}, {}", backend.name());
        }
    };
    stopped("hostile_loop.o", Fault::Budget);
    stopped("hostile_read.o", Fault::Outside);
    let refusal = Program::load(&read("hostile_helper.o")).unwrap_err();
    assert!(refusal.to_string().contains("helper 9999"), "{refusal}");
}
