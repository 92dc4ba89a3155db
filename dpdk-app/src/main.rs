//! The poll-mode application that carries Heddle's protocols on DPDK.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use heddle_core::gf;
use heddle_dpdk::engine::Engine;
use heddle_host::config::Config;
use heddle_host::logs;
use miette::{IntoDiagnostic, WrapErr, miette};

/// Carries Heddle's sessions on DPDK ports, as its configuration says, until SIGTERM or SIGINT.
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
    let engine = Engine::new(&config)
        .into_diagnostic()
        .wrap_err_with(|| format!("'{}' does not start", config.engine.name))?;
    tracing::info!("field arithmetic by the kernel '{}'", gf::kernel_name());
    tracing::info!("ready");
    // Who started us without asking to be told is not told.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let stats = engine.run(&stop).into_diagnostic()?;
    if arguments.json {
        println!("{}", serde_json::to_string(&stats).into_diagnostic()?);
    } else {
        print!("{}", stats.tables());
    }
    Ok(())
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
