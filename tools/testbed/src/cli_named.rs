//! `heddle testbed named`: three sites of named data over an IP network.

use std::path::PathBuf;

use clap::ValueEnum;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hosts::receive::sha256;
use crate::report::{named_control_table, named_picture, named_table};
use crate::schemes::named::{
    ControllerKind, Matching, Mode, NamedOptions, NamedReport, Places, Sites, SwitchKind, run_named,
};
use crate::schemes::programs_beside_this_one;
use crate::shutdown::Shutdown;
use crate::units;

/// What to carry between the sites, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct NamedArgs {
    /// When the controller installs flows: before there is traffic, at the first Interest, or one after the other
    #[arg(long, value_enum, default_value = "both")]
    mode: ModeName,
    /// How switches find names; by default by a program in proactive mode, as the seed's did, and by their own look-up in reactive mode
    #[arg(long, value_enum)]
    matching: Option<MatchingName>,
    /// Whose controller
    #[arg(long, value_enum, default_value = "heddle")]
    controller: ControllerName,
    /// Whose switches
    #[arg(long, value_enum, default_value = "heddle")]
    switches: SwitchName,
    /// Octets of the file that each site publishes
    #[arg(long, value_name = "OCTETS", default_value = "10MB", value_parser = units::octets)]
    size: u64,
    /// Round trips between each pair of sites
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pings: u32,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where heddle and heddle-dpdk are; otherwise beside this program
    #[arg(long, value_name = "DIRECTORY")]
    bin_dir: Option<PathBuf>,
    /// Where tools/setup has installed the applications; otherwise in `named` beside the directory of this program
    #[arg(long, value_name = "DIRECTORY")]
    applications: Option<PathBuf>,
}

/// When flows are installed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Before there is traffic
    Proactive,
    /// At the first Interest
    Reactive,
    /// One after the other
    Both,
}

/// How switches find names.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum MatchingName {
    /// By their own look-up of prefixes
    Name,
    /// By a program that the controller sends
    Program,
}

/// Whose controller.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum ControllerName {
    /// `heddle controller`
    Heddle,
    /// The same application in os-ken
    OsKen,
}

/// Whose switches.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum SwitchName {
    /// `heddle-dpdk`
    Heddle,
    /// Open vSwitch: it knows no names, so that it asks about each Interest
    OpenVswitch,
}

/// Everything about a run, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Report {
    /// Octets of the file.
    file_octets: u64,
    /// What is added to the delay of the machine itself.
    added_delay_ms: f64,
    /// The kernel's release.
    kernel: String,
    /// CPUs that everything shares.
    cpus: usize,
    /// A report for each mode.
    modes: Vec<NamedReport>,
}

/// Runs what was asked for.
///
/// # Errors
/// When it cannot be run, or when something did not arrive as it should.
pub fn run(args: &NamedArgs, prefix: &str, shutdown: &Shutdown) -> Result<()> {
    let directory = tempfile::Builder::new()
        .prefix("heddle-testbed-")
        .tempdir()
        .map_err(Error::io("make a directory for the run"))?;
    let programs = args.bin_dir.clone().unwrap_or_else(programs_beside_this_one);
    let beside = || programs_beside_this_one().join("../named");
    let places = Places {
        applications: args.applications.clone().unwrap_or_else(beside),
        programs,
        directory: directory.path().to_path_buf(),
    };
    places.prepare()?;
    let file = directory.path().join("file");
    let octets = usize::try_from(args.size)
        .ok()
        .filter(|octets| *octets <= 1 << 30)
        .ok_or_else(|| Error::Invalid("--size: more than 1 GiB is not for a testbed".into()))?;
    let mut content = vec![0; octets];
    StdRng::seed_from_u64(6363).fill_bytes(&mut content);
    std::fs::write(&file, &content).map_err(Error::at("write", &file))?;
    let right = sha256(&file)?;

    println!(
        "three sites, a file of {} octets at each, over IP without added delay\n\n{}",
        heddle_host::units::count(args.size),
        named_picture()
    );
    let sites = Sites::set_up(prefix, shutdown)?;
    let modes: &[Mode] = match args.mode {
        ModeName::Proactive => &[Mode::Proactive],
        ModeName::Reactive => &[Mode::Reactive],
        ModeName::Both => &[Mode::Proactive, Mode::Reactive],
    };
    let mut reports = Vec::new();
    for mode in modes {
        let matching = match (args.matching, mode) {
            (Some(MatchingName::Name), _) | (None, Mode::Reactive) => Matching::Name,
            (Some(MatchingName::Program), _) | (None, Mode::Proactive) => Matching::Program,
        };
        let how = match matching {
            _ if args.switches == SwitchName::OpenVswitch => "switches ask about each Interest",
            Matching::Name => "switches look names up",
            Matching::Program => "a program of the controller's finds names",
        };
        println!("{}: {how}", mode.name());
        let options = NamedOptions {
            mode: *mode,
            matching,
            controller: match args.controller {
                ControllerName::Heddle => ControllerKind::Heddle,
                ControllerName::OsKen => ControllerKind::OsKen,
            },
            switches: match args.switches {
                SwitchName::Heddle => SwitchKind::Heddle,
                SwitchName::OpenVswitch => SwitchKind::OpenVswitch,
            },
            pings: args.pings,
        };
        let tell = |what: &str| println!("  {what}");
        let report = run_named(&sites, &places, &options, (&file, &right), shutdown, tell)?;
        println!("\n{}", named_table(&report));
        reports.push(report);
    }
    drop(sites);
    println!("{}", named_control_table(&reports));
    let report = Report {
        file_octets: args.size,
        added_delay_ms: 0.0,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .into(),
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        modes: reports,
    };
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Error::Invalid(format!("the figures cannot be written: {error}")))?;
        std::fs::write(path, text + "\n").map_err(Error::at("write", path))?;
    }
    let wrong: Vec<&str> =
        report.modes.iter().filter(|mode| !mode.right).map(|mode| mode.mode.name()).collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(format!("not everything is as it should be: {}", wrong.join(", "))))
    }
}
