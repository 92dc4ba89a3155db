//! The poll-mode application that carries Heddle's protocols on DPDK.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use heddle_core::gf;
use heddle_dpdk::engine::Engine;
use heddle_dpdk::role::Role;
use heddle_host::config::Config;
use heddle_host::logs;
use heddle_host::metrics::Stats;
use miette::{IntoDiagnostic, WrapErr, miette};

/// Carries Heddle's sessions, or is an OpenFlow switch, on DPDK ports, as its configuration says, until SIGTERM or SIGINT.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The configuration.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Print the final counters as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            eprintln!("{report:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> miette::Result<()> {
    let config = Config::load(&arguments.config).map_err(|error| *error)?;
    logs::init(config.engine.log).into_diagnostic()?;
    choose_kernel()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).into_diagnostic()?;
    }
    let does_not_start = || format!("'{}' does not start", config.engine.name);
    let stats = match &config.switch {
        Some(switch) => {
            let engine = Engine::new_switch(&config, switch, &stop);
            run_engine(engine.into_diagnostic().wrap_err_with(does_not_start)?, &stop)?
        }
        None => {
            let engine = Engine::new(&config).into_diagnostic().wrap_err_with(does_not_start)?;
            tracing::info!("field arithmetic by the kernel '{}'", gf::kernel_name());
            run_engine(engine, &stop)?
        }
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&stats).into_diagnostic()?);
    } else {
        print!("{}", stats.tables());
    }
    Ok(())
}

/// Runs an engine that is ready, until it is told to stop. What it has counted.
fn run_engine<R: Role>(engine: Engine<R>, stop: &Arc<AtomicBool>) -> miette::Result<Stats> {
    tracing::info!("ready");
    // Who started us without asking to be told is not told.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    engine.run(stop).into_diagnostic()
}

/// `HEDDLE_GF` names the kernel for field arithmetic; without it the fastest is used.
fn choose_kernel() -> miette::Result<()> {
    let Ok(name) = std::env::var("HEDDLE_GF") else { return Ok(()) };
    gf::force(&name).map_err(|_| {
        let names: Vec<&str> = gf::kernel_names().collect();
        miette!(
            help = format!("this CPU can run: auto, {}", names.join(", ")),
            "the environment variable HEDDLE_GF names no kernel of this CPU: '{name}'"
        )
    })
}
