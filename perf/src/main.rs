//! Benchmarks, comparisons and reports.

mod allocations;
mod bench_forward;
mod bench_named;
mod compare_dtp;
mod compare_rlnc;
mod decode_failures;
mod timing;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Measures Heddle and its peers.
#[derive(Parser)]
#[command(name = "heddle-perf", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare a part of Heddle with its peers.
    #[command(subcommand)]
    Compare(Compare),
    /// Report what a part of Heddle does over many random cases.
    #[command(subcommand)]
    Report(Report),
    /// Send frames into an interface, for `bench named`.
    #[command(hide = true)]
    Blast(bench_named::BlastArguments),
    /// Be one end of a transfer, for `compare dtp`.
    #[command(hide = true)]
    End(compare_dtp::EndArguments),
    /// Measure a part of Heddle.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// One lcore that recodes, between two ports made of rings.
    Forward(bench_forward::Arguments),
    /// One lcore of a switch that matches names, between rings and between veth pairs, beside testpmd.
    Named(bench_named::Arguments),
}

#[derive(Subcommand)]
enum Report {
    /// How often K random packets do not decode, for each field, beside theory.
    DecodeFailures(decode_failures::Arguments),
}

#[derive(Subcommand)]
enum Compare {
    /// Network coding: with the crates rlnc, rlnc-simdx and reed-solomon-simd and with ISA-L, on one pinned core.
    Rlnc(compare_rlnc::Arguments),
    /// DTP: with TCP, MPTCP, quinn and UDT, between two namespaces, with outages and without.
    Dtp(compare_dtp::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Report(Report::DecodeFailures(arguments)) => decode_failures::run(&arguments),
        Command::Compare(Compare::Rlnc(arguments)) => compare_rlnc::run(&arguments),
        Command::Compare(Compare::Dtp(arguments)) => {
            compare_dtp::run(&arguments).map_err(|report| format!("{report:?}").into())
        }
        Command::Blast(arguments) => bench_named::blast(&arguments).map_err(Into::into),
        Command::End(arguments) => compare_dtp::end(&arguments),
        Command::Bench(Bench::Named(arguments)) => {
            bench_named::run(&arguments).map_err(|report| format!("{report:?}").into())
        }
        Command::Bench(Bench::Forward(arguments)) => {
            bench_forward::run(&arguments).map_err(|report| format!("{report:?}").into())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heddle-perf: {error}");
            ExitCode::FAILURE
        }
    }
}
