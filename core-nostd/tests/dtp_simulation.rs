//! Two endpoints of DTP's `modern` suite in simulated time, under everything that a network does to packets, and with processes that die
//! and go on from their tickets.
//!
//! Every run comes from a seed, which a failure prints: `DTP_SEED=n cargo test -p heddle-core --test dtp_simulation one_seed -- --nocapture`
//! plays it again, with a trace. `DTP_SEEDS=10000` sets how many seeds are run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dtp_world;

use dtp_world::{Outcome, Scenario, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn outcome(scenario: &Scenario) -> Result<Outcome, String> {
    run(scenario, false).map(|played| played.outcome)
}

#[test]
fn every_octet_once_and_in_order_or_a_named_error() {
    let seeds = number("DTP_SEEDS").unwrap_or(30);
    let first = number("DTP_FIRST").unwrap_or(0);
    let (mut complete, mut resets, mut errors, mut restarts) = (0, 0, 0, 0);
    let mut failures = Vec::new();
    for seed in first..first + seeds {
        let scenario = Scenario::random(seed);
        match run(&scenario, false) {
            Ok(played) => {
                restarts += played.restarts;
                match played.outcome {
                    Outcome::Complete => complete += 1,
                    Outcome::Reset => resets += 1,
                    Outcome::Ended(_) => errors += 1,
                }
            }
            Err(why) => failures.push(format!("seed {seed}: {why}")),
        }
    }
    println!(
        "{complete} complete, {resets} with streams reset, {errors} ended with a named error; {restarts} restarts with tickets"
    );
    let some: Vec<_> = failures.iter().take(10).collect();
    assert!(failures.is_empty(), "{} of {seeds} failed, among them {some:#?}", failures.len());
    assert!(complete * 10 >= seeds * 6, "most runs complete: {complete} of {seeds}");
}

#[test]
fn one_seed() {
    // Without a wish, one in which processes die.
    let dies = |seed: &u64| !Scenario::random(*seed).kills.is_empty();
    let seed = number("DTP_SEED").or_else(|| (1..).find(dies)).unwrap();
    let scenario = Scenario::random(seed);
    let result = run(&scenario, number("DTP_SEED").is_some());
    assert!(result.is_ok(), "seed {seed}: {result:?}\n{scenario:#?}");
    assert_eq!(run(&scenario, false), result, "a seed plays the same again");
}

#[test]
fn an_outage_of_two_hours_is_outlived() {
    let mut scenario = Scenario::calm(7);
    scenario.up = vec![300_000];
    scenario.down = vec![300_000];
    scenario.outages = vec![(0.15, 7200.0)];
    scenario.new_address_after_outage = true;
    for events in [true, false] {
        scenario.events = events;
        assert_eq!(outcome(&scenario), Ok(Outcome::Complete), "events: {events}");
    }
}

#[test]
fn a_clock_that_is_put_back_stops_nothing() {
    let mut scenario = Scenario::calm(11);
    // Once in the handshake, when the server would forget it, and once in mid-transfer.
    scenario.outages = vec![(0.015, 2.0)];
    scenario.jumps = vec![(0.012, -600.0), (2.2, -300.0)];
    for events in [false, true] {
        scenario.events = events;
        assert_eq!(outcome(&scenario), Ok(Outcome::Complete), "events: {events}");
    }
}
