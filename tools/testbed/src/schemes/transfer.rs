//! One file from the sender's host to every end host, by ordinary programs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hosts::receive::{Received, Status};
use crate::layout::GROUP;
use crate::network::{Counters, Network};
use crate::process::{Process, program, spawn};
use crate::shutdown::Shutdown;
use crate::topology::SENDER;

/// How long receivers may take to join.
const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// A receiver gives up when nothing more has come for so many seconds.
const IDLE_SECONDS: &str = "3";

/// What to carry.
#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    /// The file.
    pub file: &'a Path,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'a str,
    /// Octets of payload in a datagram.
    pub payload: usize,
    /// Octets of payload that the sender writes a second.
    pub rate: f64,
    /// Where the programs are.
    pub programs: &'a Path,
    /// Where received files and logs go.
    pub directory: &'a Path,
}

/// How far a transfer is: octets of the file that the slowest host has, and of the whole file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// At the slowest host.
    pub octets: u64,
    /// In all.
    pub total: u64,
}

/// What one host got.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostResult {
    /// The host.
    pub host: String,
    /// Whether its file has the SHA-256 of the one that was sent.
    pub right: bool,
    /// The receiver's own account.
    #[serde(flatten)]
    pub received: Received,
}

/// What a transfer came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransferResult {
    /// By host, in the topology's order.
    pub hosts: Vec<HostResult>,
    /// Octets that each link delivered, in the topology's order.
    pub link_octets: Vec<u64>,
}

impl TransferResult {
    /// Whether every host has the whole file, and right.
    pub fn all_right(&self) -> bool {
        self.hosts.iter().all(|host| host.right)
    }

    /// The goodput of the host that got least, in octets a second; 0 when one has not all.
    pub fn lowest_goodput(&self) -> f64 {
        let goodput = |host: &HostResult| {
            if host.right { host.received.goodput_octets_per_s } else { 0.0 }
        };
        self.hosts.iter().map(goodput).fold(f64::INFINITY, f64::min)
    }
}

/// A receiver in its namespace. Dropping it kills it.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Carries the file, and calls `tell` now and then.
///
/// # Errors
/// When a program cannot be run, or at a signal. A host that does not get everything is no error.
pub fn transfer(
    network: &Network,
    what: &Transfer<'_>,
    shutdown: &Shutdown,
    mut tell: impl FnMut(Progress),
) -> Result<TransferResult> {
    let hosts: Vec<String> =
        network.layout().topology.hosts.iter().map(|host| host.name.clone()).collect();
    let total = std::fs::metadata(what.file).map_err(Error::at("read", what.file))?.len();
    let (to_us, statuses) = mpsc::channel();
    let mut receivers = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let mut receiver = start_receiver(network, what, host)?;
        let lines = receiver.0.stdout.take().map(BufReader::new);
        receivers.push(receiver);
        let to_us = to_us.clone();
        std::thread::spawn(move || {
            for line in
                lines.into_iter().flat_map(BufRead::lines).map_while(std::result::Result::ok)
            {
                let Ok(status) = serde_json::from_str::<Status>(&line) else { continue };
                if to_us.send((number, status)).is_err() {
                    return;
                }
            }
        });
    }
    drop(to_us);
    await_joins(&statuses, hosts.len(), shutdown)?;

    let before = network.counters()?;
    let mut sender = start_sender(network, what)?;
    let mut so_far: BTreeMap<usize, u64> = (0..hosts.len()).map(|number| (number, 0)).collect();
    let mut done: BTreeMap<usize, Received> = BTreeMap::new();
    while done.len() < hosts.len() {
        shutdown.check()?;
        match statuses.recv_timeout(Duration::from_millis(50)) {
            Ok((number, Status::Receiving { bytes, .. })) => {
                so_far.insert(number, bytes);
            }
            Ok((number, Status::Done(received))) => {
                so_far.insert(number, received.bytes);
                done.insert(number, received);
            }
            Ok((_, Status::Joined)) | Err(RecvTimeoutError::Timeout) => {}
            // A receiver that died says nothing: its host has nothing.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        tell(Progress { octets: so_far.values().copied().min().unwrap_or(0), total });
    }
    let status = sender.wait(shutdown)?;
    if !status.success() {
        // ^C at a terminal ends the sender, too.
        shutdown.check()?;
        return Err(Error::Process {
            name: "heddle-send".into(),
            what: format!("failed ({status})"),
            log: sender.log(),
        });
    }
    let after = network.counters()?;
    Ok(TransferResult {
        hosts: hosts
            .into_iter()
            .enumerate()
            .map(|(number, host)| {
                let received = done.remove(&number).unwrap_or_default();
                let right = received.complete && received.sha256.as_deref() == Some(what.sha256);
                HostResult { host, right, received }
            })
            .collect(),
        link_octets: network
            .layout()
            .topology
            .links
            .iter()
            .map(|link| {
                let octets = |counters: &Counters| {
                    counters.get(&link.name()).map_or(0, |carried| carried.octets)
                };
                octets(&after).saturating_sub(octets(&before))
            })
            .collect(),
    })
}

fn start_receiver(network: &Network, what: &Transfer<'_>, host: &str) -> Result<Receiver> {
    let mut command = Command::new(program(what.programs, "heddle-receive")?);
    command
        .arg(what.directory.join(format!("{host}.received")))
        .args(["--status", "--idle", IDLE_SECONDS, "--group", &GROUP.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    spawn(&mut command, &network.namespace(host)).map(Receiver)
}

fn start_sender(network: &Network, what: &Transfer<'_>) -> Result<Process> {
    let mut command = Command::new(program(what.programs, "heddle-send")?);
    command
        .arg(what.file)
        .args(["--rate", &format!("{:.0}", what.rate), "--payload", &what.payload.to_string()])
        .args(["--group", &GROUP.to_string()]);
    Process::start(SENDER, &network.namespace(SENDER), command, what.directory)
}

fn await_joins(
    statuses: &mpsc::Receiver<(usize, Status)>,
    hosts: usize,
    shutdown: &Shutdown,
) -> Result<()> {
    let start = Instant::now();
    let mut joined = 0;
    while joined < hosts {
        shutdown.check()?;
        match statuses.recv_timeout(Duration::from_millis(50)) {
            Ok((_, Status::Joined)) => joined += 1,
            Ok(_) | Err(RecvTimeoutError::Timeout) if start.elapsed() < JOIN_WITHIN => {}
            _ => {
                return Err(Error::Process {
                    name: "heddle-receive".into(),
                    what: format!("joined at {joined} of {hosts} hosts only"),
                    log: String::new(),
                });
            }
        }
    }
    Ok(())
}
