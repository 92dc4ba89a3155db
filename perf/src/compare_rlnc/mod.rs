//! `compare rlnc`: our network coding beside its peers and beside what the machine can do at most.
//!
//! All contenders of one row of a table take turns in every round on one pinned core; figures are medians of CPU time of the thread.

mod bars;
mod ceiling;
mod contenders;
mod isal;

use crate::timing::{Contender, ROUNDS, compare, pin_to_current_cpu};
use contenders::{Aligned, Input, Packets};
use heddle_core::gf::{self, Rows};
use isal::Isal;
use serde::Serialize;
use std::path::PathBuf;

/// Numbers of blocks.
const SIZES: [usize; 5] = [3, 16, 32, 64, 128];
/// Octets of blocks.
const BLOCKS: [usize; 3] = [476, 1400, 8192];

/// What to compare and where to write it.
#[derive(clap::Args)]
pub struct Arguments {
    /// Write all figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only operations whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// One row of a table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The operation.
    pub operation: &'static str,
    /// The kernel of ours.
    pub kernel: &'static str,
    /// Blocks.
    pub k: usize,
    /// Octets of each.
    pub n: usize,
    /// Contender and GB/s of source octets: consumed by encoders (K x N for each packet made), restored by decoders.
    pub rates: Vec<(&'static str, f64)>,
}

impl Row {
    /// The rate of the contender `name`.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.rates.iter().find(|(contender, _)| *contender == name).map(|(_, rate)| *rate)
    }
}

/// Everything that was measured.
#[derive(Serialize)]
struct Report<'a> {
    rounds: usize,
    kernel: &'static str,
    ceiling_gb_per_s: &'a ceiling::Ceiling,
    rows: &'a [Row],
    bars: &'a [bars::Bar],
}

/// Measures, prints and writes.
///
/// # Errors
/// When the core cannot be pinned or the file not be written.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let cpu = pin_to_current_cpu()?;
    if let Ok(name) = std::env::var("HEDDLE_GF") {
        gf::force(&name).map_err(|error| format!("HEDDLE_GF={name}: {error}"))?;
    }
    let isal = Isal::load();
    println!("CPU {cpu}, kernel {}, medians of {ROUNDS} rounds, CPU time", gf::kernel_name());
    if isal.is_none() {
        println!("ISA-L (libisal.so.2) is not installed: compared without it");
    }
    let ceiling = ceiling::measure();
    print_ceiling(&ceiling);

    let mut measurement = Measurement { only: arguments.only.clone(), rows: Vec::new() };
    for n in BLOCKS {
        for k in SIZES {
            measurement.generation(k, n, isal.as_ref());
        }
    }
    measurement.avx2(isal.as_ref());
    let bars = bars::judge(&measurement.rows);
    println!("\nBars");
    for bar in &bars {
        println!("{bar}");
    }
    if let Some(path) = &arguments.json {
        let report = Report {
            rounds: ROUNDS,
            kernel: gf::kernel_name(),
            ceiling_gb_per_s: &ceiling,
            rows: &measurement.rows,
            bars: &bars,
        };
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

fn print_ceiling(ceiling: &ceiling::Ceiling) {
    let rates = [
        ("multiply and add, GFNI, 64 octets", ceiling.gfni_multiply),
        ("multiply and add, AVX2 nibble tables, 4 outputs", ceiling.avx2_nibble_multiply),
        ("multiply and add, AVX2 nibble tables, 1 output", ceiling.avx2_nibble_multiply_single),
        ("load from L1", ceiling.load_l1),
        ("load from L2", ceiling.load_l2),
        ("memcpy of 1400 octets", Some(ceiling.memcpy_1400)),
    ];
    println!("\nCeiling of this machine, GB/s");
    for (name, rate) in rates {
        match rate {
            Some(rate) => println!("  {name:<50} {rate:7.1}"),
            None => println!("  {name:<50}       -"),
        }
    }
}

struct Measurement {
    only: Option<String>,
    rows: Vec<Row>,
}

impl Measurement {
    fn wanted(&self, operation: &str) -> bool {
        self.only.as_ref().is_none_or(|only| operation.contains(only.as_str()))
    }

    /// Times the contenders and keeps and prints what they did.
    fn row(
        &mut self,
        operation: &'static str,
        (k, n): (usize, usize),
        octets: usize,
        mut contenders: Vec<Contender<'_>>,
    ) {
        let times = compare(&mut contenders);
        let rates: Vec<(&'static str, f64)> = contenders
            .iter()
            .zip(times)
            .map(|(contender, nanoseconds)| {
                (contender.name, contender.octets.unwrap_or(octets) as f64 / nanoseconds)
            })
            .collect();
        print!("{operation:<22} N={n:<5} K={k:<4}");
        for (name, rate) in &rates {
            print!(" {name} {rate:.3}");
        }
        println!();
        self.rows.push(Row { operation, kernel: gf::kernel_name(), k, n, rates });
    }

    /// All operations on one size of generation.
    fn generation(&mut self, k: usize, n: usize, isal: Option<&Isal>) {
        let octets = Aligned::random(k * n, 7);
        let rows = Rows::packed(octets.get(), n);
        let slices: Vec<&[u8]> = (0..k).map(|index| rows.get(index)).collect();
        let input = Input { k, n, rows: &rows, slices: &slices, isal };
        if self.wanted("encode") {
            self.row("encode", (k, n), k * n, contenders::encode(&input));
        }
        if self.wanted("encode batch") {
            let mut contenders = contenders::batch(&input);
            contenders.extend(ceiling::gfni());
            self.row("encode batch", (k, n), k * k * n, contenders);
        }
        // As frames in a pool of mbufs lie.
        let stride = n.next_multiple_of(2048);
        let spread_octets = Aligned::random(k * stride, 7);
        let spread = Rows::new(spread_octets.get(), n, stride);
        if self.wanted("encode, 2 KiB apart") {
            let mut packed = contenders::ours_given(&rows, k, n);
            packed.name = "ours, packed";
            let contenders = vec![contenders::ours_given(&spread, k, n), packed];
            self.row("encode, 2 KiB apart", (k, n), k * n, contenders);
        }
        if self.wanted("batch, 2 KiB apart") {
            let mut packed = contenders::ours_batch(&rows, k, n);
            packed.name = "ours, packed";
            let contenders = vec![contenders::ours_batch(&spread, k, n), packed];
            self.row("batch, 2 KiB apart", (k, n), k * k * n, contenders);
        }
        let random = Packets::new(&input, false);
        if self.wanted("recode") {
            self.row("recode", (k, n), k * n, contenders::recode(&input, &random));
        }
        if self.wanted("decode random") {
            let contenders = contenders::decode(&input, &random, false);
            self.row("decode random", (k, n), k * n, contenders);
        }
        if self.wanted("decode 10 % lost") {
            let packets = Packets::new(&input, true);
            let contenders = contenders::decode(&input, &packets, true);
            self.row("decode 10 % lost", (k, n), k * n, contenders);
        }
    }

    /// Our AVX2 kernel beside ISA-L's.
    fn avx2(&mut self, isal: Option<&Isal>) {
        let before = gf::kernel_name();
        if !self.wanted("encode, AVX2") || gf::force("avx2").is_err() {
            return;
        }
        for k in SIZES {
            let n = 1400;
            let octets = Aligned::random(k * n, 7);
            let rows = Rows::packed(octets.get(), n);
            let slices: Vec<&[u8]> = (0..k).map(|index| rows.get(index)).collect();
            let input = Input { k, n, rows: &rows, slices: &slices, isal };
            let mut contenders = contenders::encode(&input);
            contenders.retain(|contender| ["ours", "ISA-L, AVX2"].contains(&contender.name));
            contenders.extend(ceiling::avx2(false));
            self.row("encode, AVX2", (k, n), k * n, contenders);
            let mut contenders = vec![contenders::ours_batch(&rows, k, n)];
            contenders.extend(ceiling::avx2(true));
            self.row("batch, AVX2", (k, n), k * k * n, contenders);
        }
        // It was available before.
        let _ = gf::force(before);
    }
}
