//! Transfers in whose middle the network goes away and comes back with another address.

use std::net::Ipv4Addr;
use std::time::Duration;

use heddle_testbed::link::{Link, Shape};
use heddle_testbed::shutdown::Shutdown;
use miette::IntoDiagnostic;

use super::dtn7;
use super::ends::Contender;
use super::report::{Bar, Case, Figure, median};
use super::site::{self, Transfer};

/// The rate: a transfer takes some seconds, and several at a time leave a CPU its rest.
const RATE_BITS: u64 = 50_000_000;

/// The delay each way. A link with delay also leaves the server's end up while the client's is down, as the Internet does.
const DELAY: Duration = Duration::from_millis(5);

/// Transfers at a time: most of the time they wait.
const AT_A_TIME: usize = 5;

/// The dead time that is borne.
const MOST_DEAD_S: f64 = 0.5;

/// Who is beside ours, once each.
const PEERS: [Contender; 5] = [
    Contender::TcpCubic,
    Contender::Mptcp,
    Contender::QuinnCubic,
    Contender::OursBbr,
    Contender::Dtn7,
];

/// The address after the outage.
const OTHER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 77);

/// Carries `octets` in each of the runs, ours and once each peer; gives what they did and whether ours was fast enough each time.
pub fn measure(
    octets: u64,
    runs: usize,
    outage: Duration,
    download: bool,
    shutdown: &Shutdown,
) -> miette::Result<(Case, Vec<Bar>)> {
    let way = if download { "download" } else { "upload" };
    let mut case = Case {
        name: format!("an outage of {} s, then a new address, {way}, 50 Mbit/s", outage.as_secs()),
        octets,
        figures: Vec::new(),
    };
    case.print_head(runs);
    let transfer = |contender| Transfer {
        contender,
        octets,
        download,
        patience: outage + Duration::from_secs(90 + octets / 1_000_000),
    };
    let ours = transfer(Contender::OursCubic);
    let mut figure = Figure::new(ours.contender.name());
    let whole = undisturbed(&ours, shutdown)?;
    let mut left = runs;
    while left > 0 {
        let now = left.min(AT_A_TIME);
        let results = at_once(&vec![ours; now], outage, shutdown)?;
        for run in results {
            if let Ok(run) = &run {
                figure.dead_s.push(run.seconds - whole - outage.as_secs_f64());
            }
            figure.add(octets, run);
        }
        left -= now;
    }
    Case::print(&figure);
    let done = figure.dead_s.iter().filter(|dead| **dead < MOST_DEAD_S).count();
    let what = format!("{}: runs of {runs} dead for less than {MOST_DEAD_S} s", case.name);
    let mut bars = vec![Bar::at_least(what, runs as f64, done as f64)];
    if let Some(worst) = figure.dead_s.iter().copied().reduce(f64::max) {
        bars.push(Bar::at_most(
            format!("{}: the longest dead time, s", case.name),
            MOST_DEAD_S,
            worst,
        ));
    }
    case.figures.push(figure);
    let peers: Vec<Transfer> = PEERS
        .into_iter()
        // Its ends only upload.
        .filter(|peer| *peer != Contender::Dtn7 || !download && dtn7::programs().is_some())
        .map(transfer)
        .collect();
    // Whoever does not get through an undisturbed network either is told of, and the others go on.
    let (mut fit, mut wholes) = (Vec::new(), Vec::new());
    for peer in peers {
        match undisturbed(&peer, shutdown) {
            Ok(whole) => {
                fit.push(peer);
                wholes.push(whole);
            }
            Err(report) => {
                shutdown.check().into_diagnostic()?;
                let mut figure = Figure::new(peer.contender.name());
                figure.add(octets, Err(report));
                Case::print(&figure);
                case.figures.push(figure);
            }
        }
    }
    for ((peer, whole), run) in fit.iter().zip(wholes).zip(at_once(&fit, outage, shutdown)?) {
        let mut figure = Figure::new(peer.contender.name());
        if let Ok(run) = &run {
            figure.dead_s.push(run.seconds - whole - outage.as_secs_f64());
        }
        figure.add(octets, run);
        Case::print(&figure);
        case.figures.push(figure);
    }
    Ok((case, bars))
}

fn shape() -> Shape {
    Shape { rate_bits: Some(RATE_BITS), delay: DELAY, ..Shape::default() }
}

/// How long a transfer takes when nothing happens: the median of three.
fn undisturbed(transfer: &Transfer, shutdown: &Shutdown) -> miette::Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let link = site::link(0, &shape())?;
        seconds.push(site::carry(&link, transfer, shutdown, |_| Ok(()))?.seconds);
    }
    Ok(median(&seconds).unwrap_or(f64::NAN))
}

/// Each transfer over a link of its own, all at the same time.
fn at_once(
    transfers: &[Transfer],
    outage: Duration,
    shutdown: &Shutdown,
) -> miette::Result<Vec<miette::Result<site::Result>>> {
    let links: Vec<Link> = (0..transfers.len())
        .map(|number| site::link(number, &shape()))
        .collect::<miette::Result<_>>()?;
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = links
            .iter()
            .zip(transfers)
            .map(|(link, transfer)| {
                scope.spawn(move || with_outage(link, transfer, outage, shutdown))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    shutdown.check().into_diagnostic()?;
    Ok(results)
}

fn with_outage(
    link: &Link,
    transfer: &Transfer,
    outage: Duration,
    shutdown: &Shutdown,
) -> miette::Result<site::Result> {
    // In its middle, about.
    let begins = Duration::from_secs_f64(transfer.octets as f64 * 8.0 / RATE_BITS as f64 / 2.0);
    let (mut is_down, mut is_back) = (false, false);
    site::carry(link, transfer, shutdown, |since| {
        if !is_down && since >= begins {
            is_down = true;
            link.down().into_diagnostic()?;
        }
        if is_down && !is_back && since >= begins + outage {
            is_back = true;
            link.readdress(OTHER_ADDRESS).into_diagnostic()?;
            link.up().into_diagnostic()?;
        }
        Ok(())
    })
}
