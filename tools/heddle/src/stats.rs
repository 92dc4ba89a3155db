//! `heddle stats`: what running engines have counted.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use heddle_host::control::{self, Client, ControlError};
use heddle_host::metrics::Stats;

use crate::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The engine's name; absent: every engine that runs
    name: Option<String>,
    /// Print one JSON object a line for each engine
    #[arg(long)]
    json: bool,
    /// Go on, every so many seconds, until interrupted; tables then show rates
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    watch: Option<NonZeroU32>,
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        Self::Error(error.to_string())
    }
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let Some(seconds) = args.watch else {
        let reading = read(args)?;
        show(args, &reading.stats, &HashMap::new(), out)?;
        return if reading.failed { Err(Failure::Reported) } else { Ok(()) };
    };
    let interval = Duration::from_secs(seconds.get().into());
    let mut earlier = HashMap::new();
    let mut next = Instant::now();
    loop {
        let Reading { stats, .. } = read(args)?;
        if !args.json && io::stdout().is_terminal() {
            // Cursor to the top left, and clear what is below.
            write!(out, "\x1b[H\x1b[J")?;
        }
        show(args, &stats, &earlier, out)?;
        out.flush()?;
        earlier = stats.into_iter().map(|stats| (stats.name.clone(), stats)).collect();
        // From when the last was due, so that reading takes nothing from the interval.
        next += interval;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// The engines that answered, and whether there was one that did not.
struct Reading {
    stats: Vec<Stats>,
    failed: bool,
}

/// Asks the engine that was named, or all that run. Of all, one that does not answer leaves the others their say.
fn read(args: &Args) -> Result<Reading, ControlError> {
    let ask = |name: &str| Client::connect(name)?.stats();
    if let Some(name) = &args.name {
        return Ok(Reading { stats: vec![ask(name)?], failed: false });
    }
    let mut reading = Reading { stats: Vec::new(), failed: false };
    for name in control::running()? {
        match ask(&name) {
            Ok(stats) => reading.stats.push(stats),
            Err(error) => {
                eprintln!("error: {error}");
                reading.failed = true;
            }
        }
    }
    Ok(reading)
}

fn show(
    args: &Args,
    all: &[Stats],
    earlier: &HashMap<String, Stats>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for (index, stats) in all.iter().enumerate() {
        if args.json {
            serde_json::to_writer(&mut *out, stats).map_err(io::Error::from)?;
            writeln!(out)?;
            continue;
        }
        if index > 0 {
            writeln!(out)?;
        }
        match earlier.get(&stats.name) {
            Some(earlier) => write!(out, "{}", stats.tables_since(earlier))?,
            None => write!(out, "{}", stats.tables())?,
        }
    }
    Ok(())
}
