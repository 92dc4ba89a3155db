//! Programs made at random have the same verdicts and faults compiled as interpreted, and as they have by themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tools/host/tests/program/mod.rs"]
mod program;

use dpdk::Compiler;
use heddle_host::program::{Fault, Interpreter, Program};
use program::{meaning, octets, random_program, rounds, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_are_the_same(
        seeds in prop::collection::vec(any::<program::Seed>(), 0..60),
        parameter in prop::collection::vec(any::<u8>(), 10..30),
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 50..90), 1..5),
    ) {
        let code = random_program(&seeds);
        let confined = Program::load(&octets(&code)).unwrap();
        for packet in packets {
            let expected = meaning(&code, &parameter, &packet).ok_or(Fault::Outside);
            prop_assert_eq!(run(&Interpreter, &confined, &parameter, &packet), expected);
            prop_assert_eq!(run(&Compiler, &confined, &parameter, &packet), expected);
        }
    }

    #[test]
    fn damaged_programs_do_the_same_or_are_refused(
        seeds in prop::collection::vec(any::<program::Seed>(), 0..20),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        packet in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let mut octets = octets(&random_program(&seeds));
        for (place, octet) in damage {
            *place.get_mut(&mut octets) = octet;
        }
        if let Ok(confined) = Program::load(&octets) && confined.unrolled().is_some()
        {
            prop_assert_eq!(
                run(&Compiler, &confined, b"parameter", &packet),
                run(&Interpreter, &confined, b"parameter", &packet)
            );
        }
    }
}

proptest! {
    // Each becomes thousands of instructions.
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loops_do_the_same(
        seeds in prop::collection::vec(any::<program::Seed>(), 0..20),
        count in 1..100,
        parameter in prop::collection::vec(any::<u8>(), 20..30),
        packet in prop::collection::vec(any::<u8>(), 70..90),
    ) {
        let code = rounds(&random_program(&seeds), count);
        let confined = Program::load(&octets(&code)).unwrap();
        prop_assert!(confined.has_loops() && confined.unrolled().is_some());
        let expected = meaning(&code, &parameter, &packet).ok_or(Fault::Outside);
        prop_assert_eq!(run(&Interpreter, &confined, &parameter, &packet), expected);
        prop_assert_eq!(run(&Compiler, &confined, &parameter, &packet), expected);
    }
}
