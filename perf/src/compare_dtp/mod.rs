//! `compare dtp`: DTP beside TCP, MPTCP, quinn, UDT and dtn7, between two network namespaces, each end a process of its own.

mod dtn7;
mod ends;
mod figure;
mod flows;
mod outages;
mod report;
mod site;
mod udt;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use heddle_testbed::link::Shape;
use heddle_testbed::shutdown::Shutdown;
use miette::IntoDiagnostic;

use crate::bench_named::processor;
use ends::Contender;
use report::{Bar, Case, Figure, Report, median};
use site::Transfer;

pub use ends::{Arguments as EndArguments, run as end};

/// What is carried: the smallest file of the paper's figure.
const OCTETS: u64 = 77_000_000;

/// Flows at a time.
const FLOWS: usize = 10_000;

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these cases.
    #[arg(long, value_enum, value_name = "CASE")]
    only: Vec<CaseName>,
    /// Runs of each contender in each case; of those with an outage ours has twice as many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Octets to carry.
    #[arg(long, default_value_t = OCTETS, value_parser = clap::value_parser!(u64).range(1_000_000..=10_000_000_000))]
    octets: u64,
}

/// What the network is like.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum CaseName {
    /// 1 Gbit/s.
    Gigabit,
    /// As fast as the machine can.
    Unlimited,
    /// 100 Mbit/s, a round trip of 50 ms, 1 % of the packets lost.
    Lossy,
    /// Outages of 20 s and 60 s, after each a new address, up and down.
    Outages,
    /// The paper's figure, a hundred times faster: outages while files of three sizes are fetched, TCP beginning anew.
    Figure,
    /// Ten thousand flows at a time over one server thread.
    Flows,
    /// An outage of 10 minutes; only when it is asked for.
    LongOutage,
}

impl CaseName {
    const fn title(self) -> &'static str {
        match self {
            Self::Gigabit => "1 Gbit/s",
            Self::Unlimited => "no limit",
            Self::Lossy => "100 Mbit/s, round trip 50 ms, 1 % lost",
            Self::Outages => "outages with a new address, 50 Mbit/s",
            Self::Figure => "the paper's figure",
            Self::Flows => "ten thousand flows",
            Self::LongOutage => "an outage of 10 minutes, 50 Mbit/s",
        }
    }
}

/// Measures, prints tables, and writes the JSON.
///
/// # Errors
/// When there can be no namespaces, or the file cannot be written.
pub fn run(arguments: &Arguments) -> miette::Result<()> {
    let shutdown = Shutdown::on_signals().into_diagnostic()?;
    site::remove_leftovers()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut report = Report {
        processor: processor(),
        cpus: std::thread::available_parallelism().map_or(1, Into::into),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        load_before: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        runs: arguments.runs as usize,
        cases: Vec::new(),
        figure: Vec::new(),
        flows: None,
        bars: Vec::new(),
    };
    let Report { processor, cpus, kernel, load_before, .. } = &report;
    println!("{processor}, {cpus} CPUs, Linux {kernel}, load before {load_before:.1}");
    for name in CaseName::value_variants() {
        let wanted = match arguments.only.as_slice() {
            [] => *name != CaseName::LongOutage,
            only => only.contains(name),
        };
        if !wanted {
            continue;
        }
        match name {
            CaseName::Gigabit | CaseName::Unlimited | CaseName::Lossy => {
                let case = rates(*name, arguments, &shutdown)?;
                report.bars.extend(bars(*name, &case));
                report.cases.push(case);
            }
            CaseName::Outages => {
                let runs = 2 * report.runs;
                for outage_s in [20, 60] {
                    let outage = Duration::from_secs(outage_s);
                    for download in [false, true] {
                        let (case, bar) =
                            outages::measure(arguments.octets, runs, outage, download, &shutdown)?;
                        report.cases.push(case);
                        report.bars.extend(bar);
                    }
                }
            }
            CaseName::Figure => {
                let (rows, bar) = figure::measure(&shutdown)?;
                report.figure = rows;
                report.bars.push(bar);
            }
            CaseName::Flows => {
                let (flows, bars) = flows::measure(FLOWS, &shutdown)?;
                report.flows = Some(flows);
                report.bars.extend(bars);
            }
            CaseName::LongOutage => {
                let outage = Duration::from_secs(600);
                let (case, bar) = outages::measure(arguments.octets, 1, outage, true, &shutdown)?;
                report.cases.push(case);
                report.bars.extend(bar);
            }
        }
    }
    report.print_bars();
    arguments.json.as_deref().map_or(Ok(()), |path| report.write(path))
}

/// All contenders over one link, in turns.
fn rates(name: CaseName, arguments: &Arguments, shutdown: &Shutdown) -> miette::Result<Case> {
    let shape = match name {
        CaseName::Gigabit => Shape { rate_bits: Some(1_000_000_000), ..Shape::default() },
        CaseName::Lossy => Shape {
            rate_bits: Some(100_000_000),
            delay: Duration::from_millis(25),
            loss: 0.01,
            ..Shape::default()
        },
        _ => Shape::default(),
    };
    let contenders: Vec<Contender> = Contender::value_variants()
        .iter()
        .copied()
        .filter(|contender| match contender {
            Contender::Udt => udt::program().is_some(),
            Contender::Dtn7 => dtn7::programs().is_some(),
            _ => true,
        })
        .collect();
    let mut case = Case {
        name: name.title().to_owned(),
        octets: arguments.octets,
        figures: contenders.iter().map(|contender| Figure::new(contender.name())).collect(),
    };
    case.print_head(arguments.runs as usize);
    let patience = Duration::from_secs(60 + arguments.octets / 500_000);
    for run in 0..arguments.runs as usize {
        for (contender, figure) in contenders.iter().zip(&mut case.figures) {
            // Once is enough to know: of who fails, and of who takes minutes since losses stop it.
            let is_slow = name == CaseName::Lossy && !contender.bears_losses();
            if run > 0 && (is_slow || !figure.failures.is_empty()) {
                continue;
            }
            let transfer = Transfer {
                contender: *contender,
                octets: arguments.octets,
                download: false,
                patience,
            };
            let link = site::link(0, &Shape { seed: run as u64 + 1, ..shape })?;
            figure.add(arguments.octets, site::carry(&link, &transfer, shutdown, |_| Ok(())));
            shutdown.check().into_diagnostic()?;
        }
    }
    case.figures.iter().for_each(Case::print);
    Ok(case)
}

/// The better of the rates of two figures.
fn best(case: &Case, contenders: &[Contender], of: fn(&Figure) -> &[f64]) -> Option<f64> {
    let figures = contenders.iter().filter_map(|contender| case.figure(contender.name()));
    figures
        .filter(|figure| figure.is_whole())
        .filter_map(|figure| median(of(figure)))
        .reduce(f64::max)
}

/// What is asked of a case.
fn bars(name: CaseName, case: &Case) -> Vec<Bar> {
    use Contender::{OursBbr, OursCubic, QuinnBbr, QuinnCubic, TcpBbr, TcpCubic};
    let rate = |contenders: &[Contender]| best(case, contenders, |figure| &figure.mbit_per_s);
    let cpu = |contender: Contender| best(case, &[contender], |figure| &figure.cpu_s_per_gb);
    let (Some(ours), title) = (rate(&[OursCubic, OursBbr]), name.title()) else {
        return vec![Bar::at_least(format!("{}: ours carries everything", name.title()), 1.0, 0.0)];
    };
    let mut bars = Vec::new();
    match name {
        CaseName::Gigabit => {
            if let Some(tcp) = rate(&[TcpCubic, TcpBbr]) {
                bars.push(Bar::at_least(format!("{title}: rate, of TCP"), 0.95, ours / tcp));
            }
            if let (Some(ours), Some(quinn)) = (cpu(OursCubic), cpu(QuinnCubic)) {
                let what = format!("{title}: CPU s/GB, of quinn's (both CUBIC)");
                bars.push(Bar::at_most(what, 0.8, ours / quinn));
            }
        }
        CaseName::Unlimited => {
            if let Some(quinn) = rate(&[QuinnCubic, QuinnBbr]) {
                bars.push(Bar::at_least(format!("{title}: rate, of quinn"), 1.0, ours / quinn));
            }
        }
        CaseName::Lossy => {
            if let (Some(ours), Some(tcp)) = (rate(&[OursBbr]), rate(&[TcpBbr])) {
                let what = format!("{title}: rate, of TCP (both BBR)");
                bars.push(Bar::at_least(what, 0.95, ours / tcp));
            }
        }
        CaseName::Outages | CaseName::Figure | CaseName::Flows | CaseName::LongOutage => {}
    }
    bars
}
