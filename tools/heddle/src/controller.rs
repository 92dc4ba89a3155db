//! `heddle controller`: joins islands of named data by the switches before them.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use heddle_host::config::LogLevel;
use heddle_host::{logs, units};
use heddle_openflow::controller::{
    Config, EXAMPLE, FileStore, Final, MemoryStore, Mode, StateStore, run as drive,
};

use crate::Failure;
use crate::openflow::json;

/// Where switches connect to when nothing else is said.
const LISTEN: &str = "tcp:127.0.0.1:6653";

/// What stands below the options.
fn after_long_help() -> String {
    format!("A configuration:\n\n{EXAMPLE}")
}

#[derive(clap::Args)]
#[command(after_long_help = after_long_help())]
pub struct Args {
    /// The islands and all else, in TOML
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Where switches connect to: tcp:ADDRESS:PORT or tls:ADDRESS:PORT, in place of the configuration's [default: tcp:127.0.0.1:6653]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Where state is kept, in place of the configuration's; the controller may be killed at any moment
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// When flows are installed, in place of the configuration's
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// Print what was counted as JSON: at the end, and at each SIGUSR1
    #[arg(long)]
    json: bool,
}

/// When flows are installed.
#[derive(Copy, Clone, ValueEnum)]
enum ModeName {
    /// Once a name is announced
    Proactive,
    /// Once a switch has an Interest for it
    Reactive,
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure::Error(error.to_string());
    let mut config = Config::load(&args.config).map_err(|error| failure(&error))?;
    if !args.listen.is_empty() {
        config.listen.clone_from(&args.listen);
    } else if config.listen.is_empty() {
        config.listen.push(LISTEN.into());
    }
    if let Some(mode) = args.mode {
        config.mode = match mode {
            ModeName::Proactive => Mode::Proactive,
            ModeName::Reactive => Mode::Reactive,
        };
    }
    logs::init(LogLevel::Info).map_err(|error| failure(&error))?;
    let state = args.state.clone().or_else(|| config.state.clone());
    let mut store: Box<dyn StateStore> = match state {
        Some(path) => Box::new(FileStore::open(&path).map_err(|error| failure(&error))?),
        None => Box::new(MemoryStore::default()),
    };
    let stop = signal(&[signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])?;
    let show = signal(&[signal_hook::consts::SIGUSR1])?;
    let ready = |addresses: &[std::net::SocketAddr]| {
        for address in addresses {
            tracing::info!("listening at tcp:{address}");
        }
        tracing::info!("ready");
    };
    let mut written = Ok(());
    let print_now = |status: &Final| {
        if written.is_ok() {
            written = print(args.json, status, out);
        }
    };
    let status = drive(config, store.as_mut(), &stop, &show, ready, print_now)
        .map_err(|error| failure(&error))?;
    written?;
    print(args.json, &status, out)
}

fn signal(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))
            .map_err(|error| Failure::Error(format!("cannot handle signals: {error}")))?;
    }
    Ok(flag)
}

fn print(as_json: bool, status: &Final, out: &mut impl Write) -> Result<(), Failure> {
    if as_json {
        json(status, out)?;
        return Ok(out.flush()?);
    }
    writeln!(
        out,
        "{} switches, {} names, {} flows for them",
        status.switches, status.prefixes, status.flows
    )?;
    let counted = status.counters.all().into_iter().filter(|(_, count)| *count > 0);
    let rows = counted.map(|(name, count)| [name.to_owned(), units::count(count)]);
    write!(out, "{}", units::table(&["counter", "count"], rows))?;
    Ok(out.flush()?)
}
