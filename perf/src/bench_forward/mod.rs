//! `heddle-perf bench forward`: one lcore of `heddle-dpdk` that recodes, between two ports made of rings.
//!
//! Frames are put into the input ring and taken out of the output ring outside the measured time. Measured is the worker's
//! whole round: taking a burst, parsing, the check for innovation, storing, recoding, sending.

use std::path::PathBuf;
use std::time::Duration;

use arrayvec::ArrayVec;
use dpdk::{
    Eal, EalConfig, Mbuf, Memory, Mempool, Port, PortConfig, RingReceiver, RingSender, Tsc,
    thread_cpu_time,
};
use heddle_core::gf;
use heddle_core::node::Instant;
use heddle_dpdk::engine::Engine;
use heddle_host::config::Config;
use miette::{IntoDiagnostic, WrapErr, miette};
use serde::Serialize;

use crate::allocations;

mod frames;
use frames::Frames;

/// Frames that are put into the input ring at a time.
const FILL: usize = 512;

/// Octets of a block.
const BLOCK_OCTETS: usize = 1400;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// CPU time for each figure, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The CPU to work on.
    #[arg(long, default_value_t = 0)]
    cpu: u32,
}

/// One row of the result.
#[derive(Debug, Serialize)]
struct Figure {
    /// K.
    generation_size: usize,
    /// N, in octets.
    block_octets: usize,
    /// Packets taken in, all of them innovative, each answered by one packet.
    packets: u64,
    /// CPU time for them.
    cpu_seconds: f64,
    packets_per_cpu_second: f64,
    /// Of the time-stamp counter.
    cycles_per_packet: f64,
    /// Octets of blocks that went out, in 10^9 bit a CPU-second.
    gigabits_per_cpu_second: f64,
    /// Allocations while packets were on their way.
    allocations: u64,
}

/// Everything that is measured, and where.
#[derive(Debug, Serialize)]
struct Report {
    kernel: String,
    dpdk: String,
    cycles_per_second: u64,
    figures: Vec<Figure>,
}

/// Measures, prints a table, and writes the JSON.
///
/// # Errors
/// DPDK does not start, something was lost on the way, or the file cannot be written.
pub fn run(arguments: &Arguments) -> miette::Result<()> {
    let eal = EalConfig::new("heddle-perf")
        .lcores_on([arguments.cpu])
        .memory(Memory::WithoutHugepages { mib: 256 });
    let eal = Eal::init(&eal).into_diagnostic()?;
    let pool = Mempool::new(&eal, "frames", 8191).into_diagnostic()?;
    let mut report = Report {
        kernel: gf::kernel_name().to_owned(),
        dpdk: eal.version(),
        cycles_per_second: Tsc::new(&eal).hertz(),
        figures: Vec::new(),
    };
    println!("one lcore, net_ring, kernel {}, {}", report.kernel, report.dpdk);
    println!("  K     N   packets per CPU-s   cycles a packet   Gbit per CPU-s   allocations");
    for generation_size in [3, 16] {
        let seconds = Duration::from_secs_f64(arguments.seconds.clamp(0.01, 3600.0));
        let figure = measure(&eal, &pool, generation_size, seconds)?;
        println!(
            "{:3}  {:4}   {:17.0}   {:15.0}   {:14.1}   {:11}",
            figure.generation_size,
            figure.block_octets,
            figure.packets_per_cpu_second,
            figure.cycles_per_packet,
            figure.gigabits_per_cpu_second,
            figure.allocations
        );
        report.figures.push(figure);
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).into_diagnostic()?;
        std::fs::write(path, text + "\n")
            .into_diagnostic()
            .wrap_err_with(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// The outer ends of the rings between which the engine works.
struct Ends {
    to_engine: RingSender<Mbuf>,
    from_engine: RingReceiver<Mbuf>,
}

fn engine(eal: &Eal, pool: &Mempool, generation_size: usize) -> miette::Result<(Engine, Ends)> {
    let ring = |name: &str| dpdk::ring(eal, &format!("{name}{generation_size}"), 2048);
    let (to_engine, input) = ring("in").into_diagnostic()?;
    let (output, from_engine) = ring("out").into_diagnostic()?;
    let (unused_output, unused_input) = ring("unused").into_diagnostic()?;
    let name = |name: &str| format!("{name}{generation_size}");
    let west = Port::from_rings(eal, &name("west"), vec![input], vec![unused_output]);
    let east = Port::from_rings(eal, &name("east"), vec![unused_input], vec![output]);
    let mut ports = Vec::new();
    for port in [west, east] {
        let port = port.and_then(|port| port.configure(&PortConfig::default(), pool)?.start());
        ports.push(port.into_diagnostic()?);
    }
    let config = Config::parse(
        r#"
        [engine]
        name = "perf"
        lcores = [0]

        [[port]]
        name = "west"
        vdev = "net_ring0"

        [[port]]
        name = "east"
        vdev = "net_ring1"

        [[session]]
        role = "forwarder"
        id = 1
        source = "10.0.0.1"
        group = "239.1.1.1"
        outputs = ["east"]
        "#,
        "bench forward",
    )
    .map_err(|error| *error)?;
    let engine = Engine::with_ports(&config, eal.clone(), pool.clone(), ports).into_diagnostic()?;
    Ok((engine, Ends { to_engine, from_engine }))
}

fn measure(
    eal: &Eal,
    pool: &Mempool,
    generation_size: usize,
    seconds: Duration,
) -> miette::Result<Figure> {
    let tsc = Tsc::new(eal);
    let (mut engine, mut ends) = engine(eal, pool, generation_size)?;
    let worker = engine.first_worker().ok_or_else(|| miette!("the engine has no worker"))?;
    let mut frames = Frames::new(generation_size, BLOCK_OCTETS);
    let (mut packets, mut cycles, mut cpu, mut allocations) = (0u64, 0u64, Duration::ZERO, 0u64);
    // The first fills warm the caches and the branch predictor up.
    let mut warm_up = 8;
    while cpu < seconds {
        let filled = fill(&mut ends, pool, &mut frames)?;
        let mut taken = 0;
        let (allocations_before, cpu_before, cycles_before) =
            (allocations::count(), thread_cpu_time(), tsc.cycles());
        while taken < filled {
            match worker.round(Instant::from_nanos(tsc.nanoseconds())) {
                0 => return Err(miette!("{} of {filled} frames did not arrive", filled - taken)),
                count => taken += count,
            }
        }
        let spent = thread_cpu_time().saturating_sub(cpu_before);
        let elapsed = tsc.cycles() - cycles_before;
        let allocated = allocations::count() - allocations_before;
        let sent = drain(&mut ends);
        if sent != filled {
            return Err(miette!("{filled} frames went in and {sent} came out"));
        }
        if warm_up > 0 {
            warm_up -= 1;
            continue;
        }
        packets += filled as u64;
        cpu += spent;
        allocations += allocated;
        // A fill in which the thread was scheduled out says nothing about cycles: count it at its CPU time.
        let cpu_cycles = (spent.as_secs_f64() * tsc.hertz() as f64) as u64;
        cycles += elapsed.min(cpu_cycles);
    }
    let seconds = cpu.as_secs_f64();
    let bits = packets as f64 * BLOCK_OCTETS as f64 * 8.0;
    Ok(Figure {
        generation_size,
        block_octets: BLOCK_OCTETS,
        packets,
        cpu_seconds: seconds,
        packets_per_cpu_second: packets as f64 / seconds,
        cycles_per_packet: cycles as f64 / packets as f64,
        gigabits_per_cpu_second: bits / seconds / 1e9,
        allocations,
    })
}

/// Puts whole generations into the engine's input, about [`FILL`] packets.
fn fill(ends: &mut Ends, pool: &Mempool, frames: &mut Frames) -> miette::Result<usize> {
    let mut filled = 0;
    while filled < FILL {
        for frame in frames.next_generation() {
            let mut one = ArrayVec::<Mbuf, 1>::new();
            let mut mbuf = pool.allocate().ok_or_else(|| miette!("the pool is empty"))?;
            mbuf.append(frame.len()).into_diagnostic()?.copy_from_slice(frame);
            one.push(mbuf);
            if ends.to_engine.send(&mut one) != 1 {
                return Err(miette!("the input ring is full"));
            }
            filled += 1;
        }
    }
    Ok(filled)
}

/// Takes and frees what the engine has sent.
fn drain(ends: &mut Ends) -> usize {
    let mut drained = 0;
    loop {
        let mut burst = ArrayVec::<Mbuf, 64>::new();
        match ends.from_engine.receive(&mut burst) {
            0 => return drained,
            count => drained += count,
        }
    }
}
