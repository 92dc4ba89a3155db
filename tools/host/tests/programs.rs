//! What is refused and why, what faults and where exactly, what a switch's registry and its workers do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use heddle_core::flow::Programs;
use heddle_host::program::{
    Change, Fault, Instruction, Interpreter, MAX_FILE, MAX_PARAMETER, PATIENCE, Program,
    ProgramError, ProgramSet, Registry, RegistryError,
};
use program::{EXIT, PLACE, copy, i, load, load_octet, octets, run, set, wide};

fn refusal(code: &[Instruction]) -> String {
    Program::load(&octets(code)).expect_err("it is refused").to_string()
}

#[test]
fn what_cannot_be_a_program_is_refused_with_the_instruction_and_the_reason() {
    let cases: &[(&[Instruction], &str)] = &[
        (&[set(0, 0)], "instruction 0: the program can run over its end: an exit is missing"),
        (
            &[i(0x05, 0, 0, 5, 0), EXIT],
            "instruction 0: the jump leads to instruction 6, which is outside the program",
        ),
        (
            &[i(0x05, 0, 0, -9, 0), EXIT],
            "instruction 0: the jump leads to instruction -8, which is outside the program",
        ),
        (
            &[i(0x05, 0, 0, 1, 0), i(0x18, 0, 0, 0, 1), i(0, 0, 0, 0, 0), EXIT],
            "instruction 0: the jump leads into the middle of a 64-bit load, at instruction 2",
        ),
        (&[i(0x18, 0, 0, 0, 1)], "instruction 0: the second half of the 64-bit load is missing"),
        (
            &[i(0x18, 0, 1, 0, 1), i(0, 0, 0, 0, 0), EXIT],
            "instruction 0: it loads the address of a map or variable, and programs have none",
        ),
        (
            &[EXIT],
            "instruction 0: R0 is read, and on some way to here nothing has been written to it",
        ),
        (
            &[i(0x15, 1, 0, 1, 7), set(0, 1), EXIT],
            "instruction 2: R0 is read, and on some way to here nothing has been written to it",
        ),
        (
            &[copy(0, 3), EXIT],
            "instruction 0: R3 is read, and on some way to here nothing has been written to it",
        ),
        (&[set(10, 0), EXIT], "instruction 0: R10, which points to the stack, may not be written"),
        (
            &[i(0x2f, 0, 10, 0, 0), EXIT],
            "instruction 0: R10, which points to the stack, may be copied, added to and read from, nothing else",
        ),
        (&[set(11, 0), EXIT], "instruction 0: there is no register R11"),
        (
            &[i(0x85, 0, 0, 0, 9999), EXIT],
            "instruction 0: it calls helper 9999, and programs can call none",
        ),
        (
            &[i(0x85, 0, 1, 0, 1), EXIT],
            "instruction 0: it calls a function: declare it inline with __attribute__((always_inline))",
        ),
        (
            &[i(0x20, 0, 0, 0, 0), EXIT],
            "instruction 0: loads of classic BPF are not offered: read through the packet pointer of the context",
        ),
        (
            &[i(0xdb, 10, 1, -8, 0), EXIT],
            "instruction 0: atomic operations are not offered: a program runs alone",
        ),
        (
            &[i(0x7b, 1, 1, 0, 0), EXIT],
            "instruction 0: it writes to memory that is not known to be its stack: programs match packets and do not change them",
        ),
        (
            &[load(2, 1, 32), i(0x72, 2, 0, 0, 1), EXIT],
            "instruction 1: it writes to memory that is not known to be its stack: programs match packets and do not change them",
        ),
        (
            &[i(0x7a, 10, 0, -520, 0), EXIT],
            "instruction 0: it accesses the stack from -520 to -512, and the stack is from -512 to 0",
        ),
        (
            &[i(0x7a, 10, 0, -7, 0), EXIT],
            "instruction 0: it accesses the stack from -7 to 1, and the stack is from -512 to 0",
        ),
        (
            &[i(0x72, 10, 0, -8, 0), load(0, 10, -8), EXIT],
            "instruction 1: it reads octets of the stack at -8 that have not been written on some way to here",
        ),
        (
            &[load(3, 1, 16), copy(2, 10), i(0x0f, 2, 3, 0, 0), load(0, 2, 0), EXIT],
            "instruction 3: it reads the stack at an address that depends on data",
        ),
        (&[set(0, 1), i(0x37, 0, 0, 0, 0), EXIT], "instruction 1: it divides by the constant zero"),
        (
            &[set(0, 1), i(0x67, 0, 0, 0, 64), EXIT],
            "instruction 1: a shift by 64 bits is wider than the register",
        ),
        (
            &[set(0, 1), i(0x64, 0, 0, 0, 32), EXIT],
            "instruction 1: a shift by 32 bits is wider than the register",
        ),
        (
            &[set(0, 1), i(0xd4, 0, 0, 0, 8), EXIT],
            "instruction 1: bytes can be swapped in 16, 32 and 64 bits, not in 8",
        ),
        (
            &[i(0xff, 0, 0, 0, 0), EXIT],
            "instruction 0: there is no instruction with code 0xff here",
        ),
        (
            &[i(0xf5, 0, 0, 0, 0), EXIT],
            "instruction 0: there is no instruction with code 0xf5 here",
        ),
        (
            &[i(0x3f, 1, 1, 1, 0), EXIT],
            "instruction 0: code 0x3f with these operands belongs to a later version of eBPF: compile with -mcpu=v2 or v3",
        ),
        (
            &[i(0xb7, 0, 3, 0, 0), EXIT],
            "instruction 0: a field that has no meaning here is not zero",
        ),
    ];
    for (code, reason) in cases {
        assert_eq!(refusal(code), *reason, "{code:?}");
    }
    assert_eq!(Program::load(&[]).unwrap_err(), ProgramError::NoCode);
    assert_eq!(Program::load(&[0x95; 11]).unwrap_err(), ProgramError::CutOff { octets: 11 });
    assert_eq!(
        Program::load(&vec![0; MAX_FILE + 1]).unwrap_err(),
        ProgramError::TooLarge { octets: MAX_FILE + 1 }
    );
    let long = [vec![set(0, 1); 40_000], vec![EXIT]].concat();
    assert_eq!(
        Program::load(&octets(&long)).unwrap_err(),
        ProgramError::TooManyInstructions { instructions: 40_001 }
    );
}

#[test]
fn reads_stop_at_both_ends_to_the_octet() {
    let packet: Vec<u8> = (1..=64).collect();
    let parameter: Vec<u8> = (101..=110).collect();
    // The code of each load, its width, and where the region begins and ends: packet; context and parameter; parameter from its pointer.
    for (code, width) in [(0x71, 1), (0x69, 2), (0x61, 4), (0x79, 8)] {
        for (pointer, begin, end) in [(Some(32), 0, 64), (None, 0, 50), (Some(24), -40, 10)] {
            for offset in [
                begin - 8,
                begin - 1,
                begin,
                begin + 1,
                end - width,
                end - width + 1,
                end,
                end + 1,
                32_000,
            ] {
                let inside = begin <= offset && offset + width <= end;
                // At a constant distance, at one that is computed, and from an address of which nothing is known.
                let first = pointer.map_or(copy(2, 1), |field| load(2, 1, field));
                let constant = vec![first, i(code, 0, 2, offset as i16, 0), EXIT];
                let computed = vec![
                    first,
                    load(3, 1, 16),
                    i(0x17, 3, 0, 0, 64 - offset),
                    i(0x0f, 2, 3, 0, 0),
                    i(code, 0, 2, 0, 0),
                    EXIT,
                ];
                let unknown = vec![
                    first,
                    i(0xa7, 2, 0, 0, -1),
                    i(0xa7, 2, 0, 0, -1),
                    i(0x07, 2, 0, 0, offset),
                    i(code, 0, 2, 0, 0),
                    EXIT,
                ];
                for text in [constant, computed, unknown] {
                    let program = Program::load(&octets(&text)).unwrap();
                    let result = run(&Interpreter, &program, &parameter, &packet);
                    assert_eq!(result.is_ok(), inside, "{text:?}: {result:?}");
                    assert_eq!(
                        result.ok(),
                        program::meaning(&text, &parameter, &packet),
                        "{text:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn wild_addresses_fault() {
    let packet = [0; 60];
    for address in [
        0,
        1,
        60,
        64,
        0x3fff_ffff,
        0x5fff_fff8,
        0x7fff_ffff,
        0xffff_ffff_ffff_fff0,
        0x7fff_dead_beef,
    ] {
        let [low, high] = wide(2, address);
        let program = Program::load(&octets(&[low, high, load_octet(0, 2, 0), EXIT])).unwrap();
        let result = run(&Interpreter, &program, &[], &packet);
        let expected = if address & 0x7fff_ffff < 60 { Ok(0) } else { Err(Fault::Outside) };
        assert_eq!(result, expected, "{address:x}");
    }
    // No packet has no octets.
    let program = Program::load(&octets(&[load(2, 1, 32), load_octet(0, 2, 0), EXIT])).unwrap();
    assert_eq!(run(&Interpreter, &program, &[], &[]), Err(Fault::Outside));
}

#[test]
fn the_context_has_its_fields() {
    let fields = [(0x71, 0, 3), (0x61, 4, 8), (0x71, 8, 255), (0x61, 12, 300), (0x79, 16, 61)];
    for (code, offset, expected) in fields {
        let program = Program::load(&octets(&[i(code, 0, 1, offset, 0), EXIT])).unwrap();
        assert_eq!(run(&Interpreter, &program, &[9; 300], &[5; 61]), Ok(expected));
    }
    let first = [load(2, 1, 24), load_octet(0, 2, 299), EXIT];
    assert_eq!(run(&Interpreter, &Program::load(&octets(&first)).unwrap(), &[9; 300], &[]), Ok(9));
}

#[test]
fn division_by_zero_is_defined() {
    for (code, expected) in [(0x3f, 0), (0x3c, 0), (0x9f, -5_i64 as u64), (0x9c, 0xffff_fffb)] {
        let text = [set(0, -5), set(2, 0), i(code, 0, 2, 0, 0), EXIT];
        assert_eq!(
            run(&Interpreter, &Program::load(&octets(&text)).unwrap(), &[], &[]),
            Ok(expected)
        );
    }
}

#[test]
fn loops_have_a_budget() {
    // Sums the packet's octets up.
    let sum = [
        load(2, 1, 32),
        load(3, 1, 16),
        set(0, 0),
        i(0x15, 3, 0, 5, 0),
        load_octet(4, 2, 0),
        i(0x0f, 0, 4, 0, 0),
        i(0x07, 2, 0, 0, 1),
        i(0x07, 3, 0, 0, -1),
        i(0x55, 3, 0, -5, 0),
        EXIT,
    ];
    let program = Program::load(&octets(&sum)).unwrap();
    assert!(program.has_loops());
    assert!(program.unrolled().is_some());
    for length in [0, 1, 2, 1500, 9000] {
        assert_eq!(run(&Interpreter, &program, &[], &vec![3; length]), Ok(3 * length as u64));
    }
    let forever = Program::load(&octets(&[set(0, 0), i(0x05, 0, 0, -2, 0)])).unwrap();
    assert_eq!(run(&Interpreter, &forever, &[], &[]), Err(Fault::Budget));
}

#[test]
fn long_programs_load() {
    for instructions in [8_192, 25_600] {
        let add = i(0x07, 0, 0, 0, 3);
        let code = [vec![set(0, 0)], vec![add; instructions - 2], vec![EXIT]].concat();
        let program = Program::load(&octets(&code)).unwrap();
        assert_eq!(program.octets(), instructions * 8);
        assert_eq!(run(&Interpreter, &program, &[], &[]), Ok(3 * (instructions as u64 - 2)));
    }
}

fn apply(set: &mut ProgramSet, changes: Vec<Change>) -> usize {
    changes.into_iter().filter_map(|change| set.apply(change)).count()
}

#[test]
fn a_registry_and_a_worker() {
    let first_octet_of_the_parameter = octets(&[load(2, 1, 24), load_octet(0, 2, 0), EXIT]);
    let mut registry = Registry::new(1, vec![Box::new(Interpreter)]);
    let mut worker = ProgramSet::new();
    assert_eq!(worker.run(7, 0, PLACE, &[]), None);
    assert_eq!(registry.set_parameter(7, 1, b"x").unwrap_err(), RegistryError::Absent(7));
    assert_eq!(registry.delete(7).unwrap_err(), RegistryError::Absent(7));
    assert!(matches!(registry.put(7, &[1, 2]), Err(RegistryError::Program(_))));

    assert_eq!(apply(&mut worker, registry.put(7, &first_octet_of_the_parameter).unwrap()), 0);
    assert_eq!(apply(&mut worker, registry.set_parameter(7, 1, b"a").unwrap()), 0);
    assert_eq!(apply(&mut worker, registry.set_parameter(7, 70_000, b"b").unwrap()), 0);
    assert_eq!(worker.run(7, 0, PLACE, &[]), None);
    assert_eq!(worker.run(7, 1, PLACE, &[]), Some(u64::from(b'a')));
    assert_eq!(worker.run(7, 70_000, PLACE, &[]), Some(u64::from(b'b')));
    assert_eq!(worker.run(7, 2, PLACE, &[]), None);
    worker.hit(7);
    let stats = registry.stats();
    assert_eq!((stats[0].runs, stats[0].hits, stats[0].faults), (4, 1, 2));

    // What an exchange replaces comes back; parameters and counters stay.
    let constant = octets(&[set(0, 5), EXIT]);
    assert_eq!(apply(&mut worker, registry.put(7, &constant).unwrap()), 1);
    assert_eq!(worker.run(7, 1, PLACE, &[]), Some(5));
    assert_eq!(apply(&mut worker, registry.put(7, &first_octet_of_the_parameter).unwrap()), 1);
    assert_eq!(worker.run(7, 70_000, PLACE, &[]), Some(u64::from(b'b')));
    assert_eq!(apply(&mut worker, registry.delete_parameter(7, 70_000)), 1);
    assert_eq!(worker.run(7, 70_000, PLACE, &[]), None);
    assert_eq!(registry.stats()[0].runs, 7);
    assert_eq!(
        registry.set_parameter(7, 1, &[0; MAX_PARAMETER + 1]).unwrap_err(),
        RegistryError::ParameterTooLong(MAX_PARAMETER + 1)
    );
    assert_eq!(worker.run(7, 1, PLACE, &vec![0; 70_000]), None);

    assert_eq!(apply(&mut worker, registry.delete(7).unwrap()), 1);
    assert_eq!(worker.run(7, 1, PLACE, &[]), None);
    assert!(registry.stats().is_empty());
    // As if late: there is no such program any more, and the parameter comes back.
    let mut other = Registry::new(1, vec![Box::new(Interpreter)]);
    other.put(7, &constant).unwrap();
    assert_eq!(apply(&mut worker, other.set_parameter(7, 1, b"a").unwrap()), 1);
}

#[test]
fn a_program_that_never_comes_back_is_run_no_more() {
    let mut registry = Registry::new(1, vec![Box::new(Interpreter)]);
    let mut worker = ProgramSet::new();
    apply(&mut worker, registry.put(1, &octets(&[set(0, 0), i(0x05, 0, 0, -2, 0)])).unwrap());
    for _ in 0..PATIENCE {
        assert_eq!(worker.run(1, 0, PLACE, &[]), None);
    }
    // A million of its runs would take minutes.
    for _ in 0..1_000_000 {
        assert_eq!(worker.run(1, 0, PLACE, &[]), None);
    }
    assert_eq!(registry.stats()[0].faults, 1_000_000 + u64::from(PATIENCE));
    apply(&mut worker, registry.put(1, &octets(&[set(0, 1), EXIT])).unwrap());
    assert_eq!(worker.run(1, 0, PLACE, &[]), Some(1));
}

#[test]
fn each_worker_has_its_own() {
    let mut registry = Registry::new(3, vec![Box::new(Interpreter)]);
    let code = octets(&[load_octet(0, 1, 0), EXIT]);
    let mut workers: Vec<ProgramSet> = (0..3).map(|_| ProgramSet::new()).collect();
    for (worker, change) in workers.iter_mut().zip(registry.put(1, &code).unwrap()) {
        assert!(worker.apply(change).is_none());
    }
    // On threads of their own, as in a switch.
    std::thread::scope(|scope| {
        for worker in &mut workers {
            scope
                .spawn(|| (0..100).for_each(|_| assert_eq!(worker.run(1, 0, PLACE, &[]), Some(3))));
        }
    });
    assert_eq!(registry.stats()[0].runs, 300);
}

#[test]
fn there_are_as_many_programs_as_there_can_be() {
    let mut registry = Registry::new(1, vec![Box::new(Interpreter)]);
    let constant = octets(&[set(0, 5), EXIT]);
    for number in 0..256 {
        registry.put(number * 1000, &constant).unwrap();
    }
    assert_eq!(registry.put(1, &constant).unwrap_err(), RegistryError::Full);
    registry.put(1000, &constant).unwrap();
}
