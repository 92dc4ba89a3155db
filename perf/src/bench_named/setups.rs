//! The seed's four set-ups: match and rewrite, each on or off.

use std::time::Duration;

use dpdk::{Eal, Mempool};
use heddle_core::flow::{NoPrograms, Switch};

use super::report::Figure;
use super::rings::Rings;
use super::tables::{Matching, Tables};

/// Prefixes where names are matched.
pub const PREFIXES: u32 = 1_000;

/// All set-ups are measured in turn, so often: whatever else the machine does then falls on all of them.
pub const TURNS: u32 = 5;

/// What is on, from nothing to everything.
const SET_UPS: [(bool, bool, &str); 4] = [
    (false, false, "passthrough"),
    (false, true, "rewrite"),
    (true, false, "match"),
    (true, true, "match and rewrite"),
];

/// Runs `measure` with a switch for each set-up.
pub fn each(
    mut measure: impl FnMut(&mut Switch<'_, NoPrograms>, &mut Figure) -> miette::Result<()>,
) -> miette::Result<Vec<Figure>> {
    let mut figures: Vec<_> = SET_UPS.iter().map(|(_, _, what)| Figure::new(*what)).collect();
    let mut tables: Vec<_> = SET_UPS.iter().map(|_| Tables::new(PREFIXES as usize)).collect();
    let mut switches = Vec::new();
    for (tables, (is_matching, is_rewriting, _)) in tables.iter_mut().zip(SET_UPS) {
        let matching = if is_matching { Matching::Prefixes(PREFIXES) } else { Matching::All };
        switches.push(tables.switch(matching, is_rewriting, NoPrograms)?);
    }
    for _ in 0..TURNS {
        for (switch, figure) in switches.iter_mut().zip(&mut figures) {
            measure(switch, figure)?;
        }
    }
    Ok(figures)
}

/// The four over rings.
pub fn over_rings(
    rings: &mut Rings,
    eal: &Eal,
    pool: &Mempool,
    seconds: Duration,
) -> miette::Result<Vec<Figure>> {
    each(|switch, figure| rings.measure(eal, pool, switch, PREFIXES, seconds / TURNS, figure))
}
