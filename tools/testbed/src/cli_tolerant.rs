//! `heddle testbed tolerant`: a download over DTP beside one over TCP, while the network goes away and comes back elsewhere.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use heddle_host::units::listing;
use rand::{RngCore, SeedableRng, rngs::StdRng};

use crate::error::{Error, Result};
use crate::schemes::programs_beside_this_one;
use crate::schemes::tolerant::{Standing, TolerantOptions, TolerantReport, run_tolerant};
use crate::shutdown::Shutdown;
use crate::units;

/// Columns of a bar.
const BAR: usize = 24;

/// What to carry, and what happens meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub struct TolerantArgs {
    /// Octets of the file
    #[arg(long, value_name = "OCTETS", default_value = "40MB", value_parser = units::octets)]
    size: u64,
    /// The rate of the links
    #[arg(long, value_name = "RATE", default_value = "20mbit", value_parser = units::bit_rate)]
    rate: u64,
    /// For how long the network is there at first; the second time it is twice as long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    on: Duration,
    /// For how long it is away, twice
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = units::duration)]
    off: Duration,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where heddle is; otherwise beside this program
    #[arg(long, value_name = "DIRECTORY")]
    bin_dir: Option<PathBuf>,
}

/// Runs what was asked for.
///
/// # Errors
/// When it cannot be run, or when DTP's file is not as it should be.
pub fn run(args: &TolerantArgs, prefix: &str, shutdown: &Shutdown) -> Result<()> {
    let directory = tempfile::Builder::new()
        .prefix("heddle-testbed-")
        .tempdir()
        .map_err(Error::io("make a directory for the run"))?;
    let octets = usize::try_from(args.size)
        .ok()
        .filter(|octets| *octets <= 1 << 30)
        .ok_or_else(|| Error::Invalid("--size: more than 1 GiB is not for a testbed".into()))?;
    let root = directory.path().join("served");
    std::fs::create_dir(&root).map_err(Error::at("make", &root))?;
    let file = root.join("file");
    let mut content = vec![0; octets];
    StdRng::seed_from_u64(4433).fill_bytes(&mut content);
    std::fs::write(&file, &content).map_err(Error::at("write", &file))?;
    println!(
        "a file of {} over two links of {} Mbit/s, one for DTP, one for TCP\n\
         both are there for {:.1} s, away for {:.1} s, there for {:.1} s at another address, away again, and back at a third\n\
         TCP begins anew each time, at the moment of the network's return\n",
        units::size(args.size),
        args.rate as f64 / 1e6,
        args.on.as_secs_f64(),
        args.off.as_secs_f64(),
        2.0 * args.on.as_secs_f64(),
    );
    let options = TolerantOptions {
        file,
        octets: args.size,
        rate_bits: args.rate,
        on: args.on,
        off: args.off,
        programs: args.bin_dir.clone().unwrap_or_else(programs_beside_this_one),
        directory: directory.path().to_path_buf(),
    };
    let mut show = Show::new(args.size);
    let report = run_tolerant(&options, prefix, shutdown, |standing| show.show(standing));
    show.end();
    let report = report?;
    println!("\n{}", table(&report));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Error::Invalid(format!("the figures cannot be written: {error}")))?;
        std::fs::write(path, text + "\n").map_err(Error::at("write", path))?;
    }
    match report.downloads.iter().find(|download| !download.right) {
        Some(download) => {
            Err(Error::Invalid(format!("{}'s file is not what was sent", download.name)))
        }
        None => Ok(()),
    }
}

/// How far both are: one line that changes on a terminal, a line every other second elsewhere.
struct Show {
    octets: u64,
    is_terminal: bool,
    next: Duration,
    was_up: bool,
}

impl Show {
    fn new(octets: u64) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { octets, is_terminal, next: Duration::ZERO, was_up: true }
    }

    fn show(&mut self, standing: &Standing) {
        let changed = standing.network.is_up != self.was_up;
        self.was_up = standing.network.is_up;
        if standing.since < self.next && !changed {
            return;
        }
        let every = if self.is_terminal { 100 } else { 2000 };
        self.next = standing.since + Duration::from_millis(every);
        let address = standing.network.address;
        let network =
            if standing.network.is_up { address.to_string() } else { "no network".into() };
        let line = format!(
            "{:5.1} s  {network:<12}  DTP {}  TCP {}",
            standing.since.as_secs_f64(),
            self.bar(standing.dtp),
            self.bar(standing.tcp)
        );
        if self.is_terminal {
            // What the network did stays on the screen.
            print!("\r\x1b[K{line}{}", if changed { "\n" } else { "" });
            let _ = std::io::stdout().flush();
        } else {
            println!("{line}");
        }
    }

    fn bar(&self, octets: u64) -> String {
        let part = octets as f64 / self.octets.max(1) as f64;
        let full = ((part * BAR as f64) as usize).min(BAR);
        format!("[{}{}] {:3.0} %", "#".repeat(full), "-".repeat(BAR - full), part * 100.0)
    }

    fn end(&self) {
        if self.is_terminal {
            println!();
        }
    }
}

fn table(report: &TolerantReport) -> String {
    let rows = report.downloads.iter().map(|download| {
        let dead: Vec<String> =
            download.dead_s.iter().map(|dead| format!("{:.0} ms", dead * 1e3)).collect();
        let rate = report.file_octets as f64 * 8.0 / download.seconds / 1e6;
        [
            download.name.clone(),
            format!("{:.1} s", download.seconds),
            format!("{rate:.2} Mbit/s"),
            units::size(download.fetched_octets),
            download.restarts.to_string(),
            dead.join(", "),
            if download.right { "right" } else { "WRONG" }.to_owned(),
        ]
    });
    let header = [
        "",
        "time",
        "rate",
        "fetched",
        "began anew",
        "from the network's return to octets",
        "SHA-256",
    ];
    listing(&header, rows)
}
