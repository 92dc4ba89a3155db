//! `heddle testbed`: a network of namespaces up, a run over it, and down again.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rand::{RngCore, SeedableRng, rngs::StdRng};

use crate::cli_link::{self, LinkArgs};
use crate::cli_named::{self, NamedArgs};
use crate::cli_tolerant::{self, TolerantArgs};
use crate::error::{Error, Result};
use crate::hosts::receive::sha256;
use crate::layout;
use crate::network::{Network, take_down};
use crate::report::{
    Comparison, Report, SchemeReport, comparison, conditions, host_table, picture, scheme_report,
    switch_table, theory,
};
use crate::schemes::{
    Coded, CodedOptions, Progress, Ssim, Transfer, TransferResult, coded_frame_octets,
    coded_sender_rate, programs_beside_this_one, ssim_frame_octets, ssim_sender_rate, transfer,
};
use crate::shutdown::Shutdown;
use crate::topology::Topology;
use crate::units;

/// What the namespaces are called, before a hyphen and the node.
const PREFIX: &str = "hdl";

/// The rate of the slowest link when nobody names one: 16 MiB then take both schemes less than a minute.
const DEFAULT_RATE: u64 = 700_000;

/// The paper's rate of each link (section IV.E), and the larger of its two sizes of datagram.
const PAPER_RATE: u64 = 45_000;
const PAPER_PAYLOAD: usize = 1400;

/// With K = 3 a datagram of this payload is three blocks without padding.
const DEFAULT_PAYLOAD: usize = 1408;

/// What to do with a testbed.
#[derive(Clone, Debug, Subcommand)]
pub enum Args {
    /// Lay a network out in namespaces and leave it up
    Up(Layout),
    /// Lay a network out, carry a file over it, report, and take it down
    Run(RunArgs),
    /// Join three sites of named data over an IP network, report, and take it down
    Named(NamedArgs),
    /// Fetch a file over DTP and over TCP while the network goes away and comes back elsewhere, and report
    Tolerant(TolerantArgs),
    /// Join two namespaces by a link with delay, loss and a rate, until ^C
    Link(LinkArgs),
    /// Take down whatever is up
    Down,
}

/// Which network.
#[derive(Clone, Debug, clap::Args)]
pub struct Layout {
    /// A topology file; otherwise the 22 nodes of the CODED IP paper
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// The rate of the slowest link in octets a second, the others in proportion [default: 700 kB, with --paper 45 kB]
    #[arg(long, value_name = "OCTETS/S", value_parser = units::octets)]
    rate: Option<u64>,
    /// The paper's rate and datagrams: 45 kB/s a link, 1400 octets. It takes about ten minutes
    #[arg(long)]
    paper: bool,
}

/// What to carry, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// What carries it
    #[arg(value_enum, default_value = "both")]
    scheme: SchemeName,
    #[command(flatten)]
    layout: Layout,
    /// The file to carry; otherwise random octets
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// How many random octets to carry
    #[arg(long, value_name = "OCTETS", default_value = "16MiB", value_parser = units::octets)]
    size: u64,
    /// Octets of payload in a datagram [default: 1408, with --paper 1400]
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(17..=1456))]
    payload: Option<u16>,
    /// Blocks in a generation
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    generation_size: u8,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where heddle-dpdk, heddle-send and heddle-receive are; otherwise beside this program
    #[arg(long, value_name = "DIRECTORY")]
    bin_dir: Option<PathBuf>,
}

/// What carries a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum SchemeName {
    /// CODED IP
    Coded,
    /// The kernel's multicast routing along one tree
    Ssim,
    /// One after the other, over the same links
    Both,
}

/// Does what was asked.
///
/// # Errors
/// When it cannot be done, or when a host did not get the file as it was sent.
pub fn run(args: &Args) -> Result<()> {
    let shutdown = Shutdown::on_signals()?;
    match args {
        Args::Up(layout) => {
            let network =
                Network::set_up(layout::Layout::new(layout.topology()?, PREFIX), &shutdown)?;
            print!("{}", picture(&network.layout().topology));
            println!("up: namespaces {PREFIX}-*; `heddle testbed down` takes them down");
            network.leave_standing();
            Ok(())
        }
        Args::Run(args) => Run::new(args, shutdown)?.run(),
        Args::Named(args) => cli_named::run(args, PREFIX, &shutdown),
        Args::Tolerant(args) => cli_tolerant::run(args, PREFIX, &shutdown),
        Args::Link(args) => cli_link::run(args, &shutdown),
        Args::Down => {
            match take_down(PREFIX)? {
                0 => println!("nothing was up"),
                count => println!("down: {count} namespaces"),
            }
            Ok(())
        }
    }
}

impl Layout {
    fn topology(&self) -> Result<Topology> {
        let topology = match &self.topology {
            Some(path) => Topology::load(path)?,
            None => Topology::testbed_22()?,
        };
        let default = if self.paper { PAPER_RATE } else { DEFAULT_RATE };
        match (self.rate, &self.topology) {
            // A file of one's own has rates of its own.
            (None, Some(_)) => Ok(topology),
            (rate, _) => topology.at_rate(rate.unwrap_or(default)),
        }
    }
}

/// A run with everything that it needs.
struct Run<'a> {
    args: &'a RunArgs,
    shutdown: Shutdown,
    topology: Topology,
    payload: usize,
    programs: PathBuf,
    directory: tempfile::TempDir,
    file: PathBuf,
    file_octets: u64,
    sha256: String,
}

impl<'a> Run<'a> {
    fn new(args: &'a RunArgs, shutdown: Shutdown) -> Result<Self> {
        let topology = args.layout.topology()?;
        let directory = tempfile::Builder::new()
            .prefix("heddle-testbed-")
            .tempdir()
            .map_err(Error::io("make a directory for the run"))?;
        let file = match &args.file {
            Some(file) if !file.is_file() => {
                return Err(Error::Invalid(format!("{} is no regular file", file.display())));
            }
            Some(file) => file.clone(),
            None => random_file(&directory.path().join("file"), args.size)?,
        };
        let file_octets = std::fs::metadata(&file).map_err(Error::at("read", &file))?.len();
        if file_octets == 0 {
            return Err(Error::Invalid(format!("{} is empty", file.display())));
        }
        let default = if args.layout.paper { PAPER_PAYLOAD } else { DEFAULT_PAYLOAD };
        Ok(Self {
            shutdown,
            topology,
            payload: args.payload.map_or(default, usize::from),
            programs: args.bin_dir.clone().unwrap_or_else(programs_beside_this_one),
            directory,
            sha256: sha256(&file)?,
            file,
            file_octets,
            args,
        })
    }

    fn run(&self) -> Result<()> {
        let theory = theory(&self.topology)?;
        println!(
            "{}: links of {}, a file of {}, datagrams of {} octets\n\n{}",
            self.topology.name,
            units::rate(self.topology.unit_capacity() as f64),
            units::size(self.file_octets),
            self.payload,
            picture(&self.topology)
        );
        let network =
            Network::set_up(layout::Layout::new(self.topology.clone(), PREFIX), &self.shutdown)?;
        let wants = |name| self.args.scheme == name || self.args.scheme == SchemeName::Both;
        let coded = if wants(SchemeName::Coded) { Some(self.coded(&network)?) } else { None };
        let ssim = if wants(SchemeName::Ssim) { Some(self.ssim(&network)?) } else { None };
        drop(network);

        let comparison_of = |coded, ssim| Comparison::new(&theory, coded, ssim);
        let ratios =
            coded.as_ref().zip(ssim.as_ref()).map(|(coded, ssim)| comparison_of(coded, ssim));
        println!("{}", comparison(&theory, coded.as_ref(), ssim.as_ref(), ratios.as_ref()));
        println!("{}", switch_table(coded.as_ref(), ssim.as_ref()));
        let report = Report {
            conditions: conditions(
                &self.topology,
                self.file_octets,
                self.payload,
                self.args.generation_size,
            ),
            theory,
            coded,
            ssim,
            comparison: ratios,
        };
        if let Some(path) = &self.args.json {
            let text = serde_json::to_string_pretty(&report).map_err(|error| {
                Error::Invalid(format!("the figures cannot be written: {error}"))
            })?;
            std::fs::write(path, text + "\n").map_err(Error::at("write", path))?;
        }
        for (name, scheme) in [("CODED IP", &report.coded), ("SSIM", &report.ssim)] {
            if let Some(wrong) = scheme.as_ref().filter(|scheme| !scheme.all_right) {
                let hosts: Vec<&str> = wrong
                    .hosts
                    .iter()
                    .filter(|host| !host.right)
                    .map(|host| host.host.as_str())
                    .collect();
                return Err(Error::Invalid(format!(
                    "{name}: the file is not right at {}",
                    hosts.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn coded(&self, network: &Network) -> Result<SchemeReport> {
        println!("CODED IP: {} engines start", network.layout().topology.nodes().count());
        let options = CodedOptions {
            programs: self.programs.clone(),
            directory: self.directory.path().to_path_buf(),
            generation_size: self.args.generation_size,
        };
        let coded = Coded::start(network, options, &self.shutdown)?;
        let rate = coded_sender_rate(&self.topology, self.payload, self.args.generation_size);
        let result = self.transfer(network, rate)?;
        let engines = coded.stop()?;
        let k = usize::from(self.args.generation_size);
        let frame = coded_frame_octets(self.payload, k);
        // As many frames of a generation cross a cut as it has blocks.
        let mut report = scheme_report(&self.topology, result, self.payload, frame, k);
        report.engines = engines;
        Ok(self.show(report))
    }

    fn ssim(&self, network: &Network) -> Result<SchemeReport> {
        println!("SSIM: the kernel routes along one tree");
        let ssim = Ssim::start(network, self.directory.path(), &self.shutdown)?;
        let result = self.transfer(network, ssim_sender_rate(&self.topology, self.payload))?;
        ssim.stop()?;
        let frame = ssim_frame_octets(self.payload);
        Ok(self.show(scheme_report(&self.topology, result, self.payload, frame, 1)))
    }

    fn transfer(&self, network: &Network, rate: f64) -> Result<TransferResult> {
        let bar = progress_bar(self.file_octets);
        let mut told = 0;
        let what = Transfer {
            file: &self.file,
            sha256: &self.sha256,
            payload: self.payload,
            rate,
            programs: &self.programs,
            directory: self.directory.path(),
        };
        let result = transfer(network, &what, &self.shutdown, |Progress { octets, total }| {
            bar.set_position(octets);
            // Where there is no terminal: a line for each quarter.
            let quarter = octets * 4 / total.max(1);
            if bar.is_hidden() && quarter > told {
                told = quarter;
                println!("  {} of {} at every host", units::size(octets), units::size(total));
            }
        });
        bar.finish_and_clear();
        result
    }

    fn show(&self, scheme: SchemeReport) -> SchemeReport {
        println!("{}", host_table(&scheme));
        scheme
    }
}

fn progress_bar(octets: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(octets), target);
    let template =
        "  {wide_bar} {bytes} of {total_bytes} at the slowest host, {bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Octets that no two blocks of which are alike, the same in each run.
fn random_file(path: &Path, octets: u64) -> Result<PathBuf> {
    let octets = usize::try_from(octets)
        .ok()
        .filter(|octets| *octets <= 1 << 32)
        .ok_or_else(|| Error::Invalid("--size: more than 4 GiB is not for a testbed".into()))?;
    let mut file = vec![0; octets];
    StdRng::seed_from_u64(22).fill_bytes(&mut file);
    std::fs::write(path, &file).map_err(Error::at("write", path))?;
    Ok(path.to_path_buf())
}
