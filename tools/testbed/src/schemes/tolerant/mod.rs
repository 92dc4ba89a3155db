//! A download over DTP and one over TCP, side by side, each over a link of its own that goes away and comes back elsewhere.
//!
//! The times are those of the paper's figure in proportion: on for one time, off, on for twice as long, off, and on to the end.

mod tcp;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hosts::receive::sha256;
use crate::link::{ADDRESSES, Link, Shape};
use crate::process::{Process, program};
use crate::shutdown::Shutdown;

/// Where the server listens, for either.
const PORT: u16 = 4433;

/// The delay of the links each way. A link with delay also leaves the server's end up while the client's is down, as the Internet does.
const DELAY: Duration = Duration::from_millis(10);

/// How often things are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long programs get to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Clone, Debug)]
pub struct TolerantOptions {
    /// The file.
    pub file: PathBuf,
    /// Its octets.
    pub octets: u64,
    /// Bits a second of both links.
    pub rate_bits: u64,
    /// For how long the network is there at first; the second time it is twice as long.
    pub on: Duration,
    /// For how long it is away.
    pub off: Duration,
    /// Where `heddle` is.
    pub programs: PathBuf,
    /// Where files and logs go.
    pub directory: PathBuf,
}

/// What the network is doing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// It is there.
    pub is_up: bool,
    /// Outages so far.
    pub outages: u32,
    /// The client's address.
    pub address: Ipv4Addr,
}

/// How far both are.
#[derive(Copy, Clone, Debug)]
pub struct Standing {
    /// Since the beginning.
    pub since: Duration,
    /// The network.
    pub network: Network,
    /// Octets that DTP has in the file.
    pub dtp: u64,
    /// Octets that TCP has in the file.
    pub tcp: u64,
}

/// What came of one of the two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DownloadReport {
    /// Who.
    pub name: String,
    /// From the beginning until the file was there.
    pub seconds: f64,
    /// Octets that were fetched in all.
    pub fetched_octets: u64,
    /// How often it began anew.
    pub restarts: u32,
    /// How long after the network's return the next octets came, for each outage that it met.
    pub dead_s: Vec<f64>,
    /// The file is as it was served.
    pub right: bool,
}

/// What came of both.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TolerantReport {
    /// Octets of the file.
    pub file_octets: u64,
    /// Bits a second of the links.
    pub rate_bits: u64,
    /// Seconds of each outage.
    pub off_s: f64,
    /// Outages that there were until DTP was done, and addresses that its client has had.
    pub outages: u32,
    /// DTP, TCP.
    pub downloads: Vec<DownloadReport>,
}

/// The address of the client after so many outages.
fn address(outages: u32) -> Ipv4Addr {
    match outages {
        0 => {
            let [first, _] = ADDRESSES;
            first
        }
        // Not the server's, and within the network.
        _ => Ipv4Addr::new(10, 77, 0, 100 + (outages % 100) as u8),
    }
}

/// When the network goes away or comes back, from the beginning: twice in all.
fn plan(options: &TolerantOptions) -> [Duration; 4] {
    let (on, off) = (options.on, options.off);
    [on, on + off, on * 3 + off, on * 3 + off * 2]
}

/// Notes how long after each return of the network the next octets came.
#[derive(Default)]
struct Watch {
    octets: u64,
    back: Option<Instant>,
    dead_s: Vec<f64>,
    done: Option<f64>,
}

impl Watch {
    fn look(&mut self, octets: u64) {
        if octets > self.octets
            && let Some(back) = self.back.take()
        {
            self.dead_s.push(back.elapsed().as_secs_f64());
        }
        self.octets = octets;
    }
}

/// Runs both; `tell` hears several times a second how far they are.
///
/// # Errors
/// When they cannot be run. A file that is wrong is reported, not an error.
pub fn run_tolerant(
    options: &TolerantOptions,
    prefix: &str,
    shutdown: &Shutdown,
    mut tell: impl FnMut(&Standing),
) -> Result<TolerantReport> {
    let shape = Shape { rate_bits: Some(options.rate_bits), delay: DELAY, ..Shape::default() };
    let links = [
        Link::set_up(&format!("{prefix}-dtp"), &shape)?,
        Link::set_up(&format!("{prefix}-tcp"), &shape)?,
    ];
    let [dtp_link, tcp_link] = &links;
    let right = sha256(&options.file)?;
    let targets = ["dtp", "tcp"].map(|name| options.directory.join(name));
    let [dtp_target, tcp_target] = &targets;
    let heddle = program(&options.programs, "heddle")?;
    let (_server, key) = serve(options, &heddle, dtp_link, shutdown)?;
    let tcp_server = tcp::Server::start(tcp_link.b(), &options.file)?;
    let mut dtp = get(options, &heddle, dtp_link, &key, dtp_target)?;
    let tcp = tcp::Download::start(tcp_link.a(), tcp_target, options.octets)?;

    let begin = Instant::now();
    let mut network = Network { is_up: true, outages: 0, address: address(0) };
    let mut turns = plan(options).into_iter().peekable();
    let mut watches = [Watch::default(), Watch::default()];
    let part = dtp_target.with_extension("part");
    let mut outages_met = 0;
    let patience = PATIENCE + options.off * 2 + tcp_time(options);
    loop {
        shutdown.sleep(LOOK_EVERY)?;
        if turns.next_if(|turn| begin.elapsed() >= *turn).is_some() {
            for link in &links {
                if network.is_up {
                    link.down()?;
                } else {
                    link.readdress(address(network.outages))?;
                    link.up()?;
                }
            }
            network.is_up = !network.is_up;
            if network.is_up {
                tcp.begin_anew();
                for watch in watches.iter_mut().filter(|watch| watch.done.is_none()) {
                    watch.back = Some(Instant::now());
                }
            } else {
                network.outages += 1;
                network.address = address(network.outages);
            }
        }
        let [dtp_watch, tcp_watch] = &mut watches;
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        dtp_watch.look(size(&part).max(size(dtp_target)));
        tcp_watch.look(tcp.octets());
        // The file takes its name when it is whole.
        if dtp_watch.done.is_none() && dtp_target.exists() {
            dtp_watch.done = Some(begin.elapsed().as_secs_f64());
            outages_met = network.outages;
        }
        if let Some(status) = dtp.ended()?
            && !status.success()
        {
            let (name, what) = ("heddle dtp get".into(), "failed".into());
            return Err(Error::Process { name, what, log: dtp.log() });
        }
        if tcp_watch.done.is_none() && tcp.is_done() {
            tcp_watch.done = Some(begin.elapsed().as_secs_f64());
        }
        tell(&Standing {
            since: begin.elapsed(),
            network,
            dtp: dtp_watch.octets,
            tcp: tcp_watch.octets,
        });
        if watches.iter().all(|watch| watch.done.is_some()) {
            break;
        }
        if begin.elapsed() > patience {
            let what = format!("the downloads were not done within {} s", patience.as_secs());
            return Err(Error::Invalid(what));
        }
    }
    let (restarts, fetched) = (tcp.restarts(), tcp.fetched());
    drop(tcp);
    drop(tcp_server);
    let [dtp_watch, tcp_watch] = watches;
    let report = |name: &str, watch: Watch, fetched_octets, restarts, target: &Path| {
        Ok::<_, Error>(DownloadReport {
            name: name.into(),
            seconds: watch.done.unwrap_or(f64::NAN),
            fetched_octets,
            restarts,
            dead_s: watch.dead_s,
            right: sha256(target)? == right,
        })
    };
    Ok(TolerantReport {
        file_octets: options.octets,
        rate_bits: options.rate_bits,
        off_s: options.off.as_secs_f64(),
        outages: outages_met,
        downloads: vec![
            report("DTP", dtp_watch, options.octets, 0, dtp_target)?,
            report("TCP", tcp_watch, fetched, restarts, tcp_target)?,
        ],
    })
}

/// How long TCP takes for the file once nothing disturbs it any more, and all before that; twice, to be sure.
fn tcp_time(options: &TolerantOptions) -> Duration {
    let whole = options.octets as f64 * 8.0 / options.rate_bits.max(1) as f64;
    (options.on * 3 + Duration::from_secs_f64(whole)) * 2
}

/// The server, and its public key.
fn serve(
    options: &TolerantOptions,
    heddle: &Path,
    link: &Link,
    shutdown: &Shutdown,
) -> Result<(Process, String)> {
    let key = options.directory.join("server.key");
    let text = crate::namespace::call(
        &heddle.to_string_lossy(),
        &["dtp", "keygen", &key.to_string_lossy()],
        "",
    )?;
    let [_, address] = ADDRESSES;
    let root = options.file.parent().unwrap_or(Path::new("."));
    let mut command = Command::new(heddle);
    command.args(["dtp", "serve"]).arg(root).arg("--key").arg(&key);
    command.args(["--listen", &format!("{address}:{PORT}")]);
    let mut server = Process::start("serve", link.b(), command, &options.directory)?;
    let start = Instant::now();
    while !server.output().contains("serving ") {
        shutdown.sleep(LOOK_EVERY)?;
        if server.ended()?.is_some() || start.elapsed() > PATIENCE {
            let log = server.log();
            return Err(Error::Process {
                name: "heddle dtp serve".into(),
                what: "does not run".into(),
                log,
            });
        }
    }
    Ok((server, text.trim().to_owned()))
}

fn get(
    options: &TolerantOptions,
    heddle: &Path,
    link: &Link,
    key: &str,
    target: &Path,
) -> Result<Process> {
    let [_, address] = ADDRESSES;
    let name = options.file.file_name().unwrap_or_default();
    let mut command = Command::new(heddle);
    command.args(["dtp", "get", "--quiet", "--server-key", key]);
    command.arg("--state").arg(options.directory.join("state"));
    command.arg(format!("{address}:{PORT}")).arg(name).arg(target);
    Process::start("get", link.a(), command, &options.directory)
}
