//! `heddle-perf bench named`: one lcore of a switch that matches names and rewrites addresses.
//!
//! An Interest with a name of three components comes in over UDP and IPv4; a rule for its prefix, or a program, gives it the IP and Ethernet address of
//! the gateway that the prefix lives behind. Measured are the seed's four set-ups (match and rewrite, each on or off) between ports made of rings and
//! between veth pairs, tables with a million prefixes, and programs; beside them, in the same run, DPDK's testpmd.

use std::path::PathBuf;
use std::time::Duration;

use dpdk::{Eal, EalConfig, Memory, Mempool};
use heddle_core::flow::NoPrograms;
use miette::IntoDiagnostic;

mod blast;
mod interests;
mod pages;
mod programs;
mod report;
mod rings;
mod setups;
mod tables;
mod testpmd;
mod veth;

use programs::Runs;
use report::{Bar, Figure, Report, print_head};
use rings::{FRAMES, Rings};
use tables::{Matching, Tables};

pub use blast::{BlastArguments, run as blast};
pub use report::processor;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// CPU time for each figure, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The CPU to work on. Over veth, frames are sent by another.
    #[arg(long, default_value_t = 0)]
    cpu: u32,
    /// Leave out what is measured over veth, which needs to make namespaces.
    #[arg(long)]
    without_veth: bool,
}

/// Measures, prints tables, and writes the JSON.
///
/// # Errors
/// DPDK does not start, something was lost on the way, or the file cannot be written.
pub fn run(arguments: &Arguments) -> miette::Result<()> {
    let seconds = Duration::from_secs_f64(arguments.seconds.clamp(0.01, 3600.0));
    let mut testpmd = Vec::new();
    for mode in ["io", "mac"] {
        testpmd.extend(testpmd::measure(mode, arguments.cpu, seconds)?);
    }
    let eal = EalConfig::new("heddle-perf")
        .lcores_on([arguments.cpu])
        .memory(Memory::WithoutHugepages { mib: 256 });
    let eal = Eal::init(&eal).into_diagnostic()?;
    let pool = Mempool::new(&eal, "frames", 8191).into_diagnostic()?;
    let mut report = Report {
        dpdk: eal.version(),
        processor: processor(),
        frame_octets: interests::Interest::new().octets(),
        frames: FRAMES,
        testpmd,
        rings: Vec::new(),
        scale: Vec::new(),
        veth: Vec::new(),
        bars: Vec::new(),
    };
    println!("{}, {}, one lcore", report.processor, report.dpdk);
    print_head("testpmd, net_ring, 64 octets", "of mac");
    if report.testpmd.is_empty() {
        println!("  not measured: there is no dpdk-testpmd (Debian's package dpdk has it)");
    }
    for figure in &report.testpmd {
        figure.print(report.testpmd.last());
    }
    let mut rings = Rings::new(&eal, &pool)?;
    report.rings = setups::over_rings(&mut rings, &eal, &pool, seconds)?;
    print_head(
        &format!("switch, net_ring, {} octets, 1,000 prefixes", report.frame_octets),
        "of off",
    );
    for figure in &report.rings {
        figure.print(report.rings.first());
    }
    report.scale = scale(&mut rings, &eal, &pool, seconds)?;
    print_head("switch, net_ring, match and rewrite", "of mac");
    for figure in &report.scale {
        figure.print(report.testpmd.last());
    }
    if !arguments.without_veth {
        report.veth = veth::measure(&eal, &pool, arguments.cpu, seconds)?;
        print_head("switch, net_af_packet over veth, 1,000 prefixes", "of off");
        for figure in &report.veth {
            figure.print(report.veth.first());
        }
    }
    report.bars = bars(&report);
    report.print_bars();
    arguments.json.as_deref().map_or(Ok(()), |path| report.write(path))
}

/// More prefixes than a cache holds, and rules that ask programs.
fn scale(
    rings: &mut Rings,
    eal: &Eal,
    pool: &Mempool,
    seconds: Duration,
) -> miette::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for count in [1_000, 1_000_000] {
        let mut tables = Tables::new(count as usize);
        let mut switch = tables.switch(Matching::Prefixes(count), true, NoPrograms)?;
        let mut figure = Figure::new(format!("{count} prefixes"));
        rings.measure(eal, pool, &mut switch, count, seconds, &mut figure)?;
        figures.push(figure);
    }
    for (runs, what) in [
        (Runs::Compiled, "a program, compiled by librte_bpf"),
        (Runs::Interpreted, "a program, interpreted by rbpf"),
    ] {
        let mut tables = Tables::new(1);
        let mut switch = tables.switch(Matching::Program, true, programs::programs(runs)?)?;
        let mut figure = Figure::new(what);
        rings.measure(eal, pool, &mut switch, 1_000, seconds, &mut figure)?;
        figures.push(figure);
    }
    Ok(figures)
}

/// What is asked of the figures.
fn bars(report: &Report) -> Vec<Bar> {
    let mut bars = Vec::new();
    let asked = [
        ("million packets per CPU-second, 1,000 prefixes", 15.0),
        ("million packets per CPU-second, 1,000,000 prefixes", 6.0),
        ("million packets per CPU-second, a compiled program", 8.0),
    ];
    for ((what, at_least), figure) in asked.into_iter().zip(&report.scale) {
        bars.push(Bar::new(what, at_least, figure.packets_per_cpu_second / 1e6));
    }
    if let (Some(passthrough), Some(all)) = (report.veth.first(), report.veth.last()) {
        let part = all.packets_per_cpu_second / passthrough.packets_per_cpu_second;
        bars.push(Bar::new("match and rewrite over veth, of passthrough", 0.85, part));
    }
    bars
}
