//! Programs made at random mean the same confined and interpreted as they do by themselves; octets made at random do no harm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use heddle_host::program::{Fault, Interpreter, Program};
use program::{meaning, octets, random_program, run};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

#[test]
fn confined_programs_mean_what_they_meant() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let given = (
        prop::collection::vec(any::<program::Seed>(), 0..60),
        prop::collection::vec(any::<u8>(), 10..30),
        prop::collection::vec(any::<u8>(), 55..90),
    );
    let (verdicts, faults) = (Cell::new(0), Cell::new(0));
    let checked = runner.run(&given, |(seeds, parameter, packet)| {
        let code = random_program(&seeds);
        let confined = Program::load(&octets(&code)).unwrap();
        let expected = meaning(&code, &parameter, &packet).ok_or(Fault::Outside);
        let counter = if expected.is_ok() { &verdicts } else { &faults };
        counter.set(counter.get() + 1);
        prop_assert_eq!(run(&Interpreter, &confined, &parameter, &packet), expected);
        Ok(())
    });
    checked.unwrap();
    assert!(verdicts.get() > 500 && faults.get() > 200, "{verdicts:?} verdicts, {faults:?} faults");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_programs_are_refused_or_stay_inside(
        seeds in prop::collection::vec(any::<program::Seed>(), 0..20),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        packet in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let mut octets = octets(&random_program(&seeds));
        for (place, octet) in damage {
            *place.get_mut(&mut octets) = octet;
        }
        if let Ok(confined) = Program::load(&octets) {
            // `run` wants each program to stop itself: the interpreter's own checks find nothing.
            let _ = run(&Interpreter, &confined, b"parameter", &packet);
        }
    }
}
