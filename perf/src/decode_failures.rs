//! `report decode-failures`: how often K random packets do not decode, beside what theory says.

use heddle_core::gf::{Field, Gf2, Gf16, Gf256, Gf65536};
use heddle_core::rlnc::{CoefficientGenerator, Elimination, RlncError, vector_octets};
use serde::Serialize;
use std::path::PathBuf;

/// How many generations, and where to write the figures.
#[derive(clap::Args)]
pub struct Arguments {
    /// Generations for each field and size.
    #[arg(long, default_value_t = 100_000)]
    generations: u32,
    /// Write all figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The figures of one field and size.
#[derive(Serialize)]
struct Row {
    field: &'static str,
    k: u8,
    /// Share of generations that K packets with vectors uniform over the field, none of them zero, did not decode.
    failed: f64,
    /// The same in theory.
    failed_in_theory: f64,
    /// Packets beyond K until the generation decoded, on average.
    extra: f64,
    /// The same in theory.
    extra_in_theory: f64,
}

/// Counts, prints and writes.
///
/// # Errors
/// When the file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{} generations each; vectors uniform over the field, none zero",
        arguments.generations
    );
    println!("field            K   failed  in theory    extra  in theory");
    let mut rows = Vec::new();
    for k in [3, 16, 64] {
        rows.push(count::<Gf2>(k, arguments.generations)?);
        rows.push(count::<Gf16>(k, arguments.generations)?);
        rows.push(count::<Gf256>(k, arguments.generations)?);
        rows.push(count::<Gf65536>(k, arguments.generations)?);
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

fn count<F: Field>(k: u8, generations: u32) -> Result<Row, RlncError> {
    let mut generator = CoefficientGenerator::new(u64::from(k) << 8 | u64::from(F::BITS));
    let mut memory = vec![0; Elimination::<F>::memory_octets(k)];
    let mut vector = vec![0; vector_octets::<F>(k.into())];
    let (mut failed, mut extra) = (0u32, 0u64);
    for _ in 0..generations {
        let mut elimination = Elimination::<F>::new(k)?;
        let mut packets = 0u64;
        while !elimination.is_complete() {
            generator.fill::<F>(&mut vector, k.into());
            elimination.insert(&mut memory, &vector)?;
            packets += 1;
        }
        let more = packets - u64::from(k);
        failed += u32::from(more > 0);
        extra += more;
    }
    let (order, size) = (f64::from(F::BITS).exp2(), f64::from(k));
    // A random matrix is invertible with this chance; given that no row is zero it is a little higher.
    let invertible: f64 = (1..=i32::from(k)).map(|i| 1.0 - order.powi(-i)).product();
    let row = Row {
        field: F::NAME,
        k,
        failed: f64::from(failed) / f64::from(generations),
        failed_in_theory: 1.0 - invertible / (1.0 - order.powf(-size)).powf(size),
        extra: extra as f64 / f64::from(generations),
        // At rank r a vector that is not zero is innovative with the chance (q^K - q^r) / (q^K - 1).
        extra_in_theory: (1..=i32::from(k))
            .map(|i| (1.0 - order.powf(-size)) / (1.0 - order.powi(-i)) - 1.0)
            .sum(),
    };
    println!(
        "{:<12} {:>5}  {:.5}    {:.5}  {:.5}    {:.5}",
        row.field, row.k, row.failed, row.failed_in_theory, row.extra, row.extra_in_theory
    );
    Ok(row)
}
