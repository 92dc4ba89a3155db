//! The flows of running processes: each process of `heddle dtp` tells them at a Unix socket of its own in the runtime directory, as lines of JSON.
//!
//! Whoever connects gets the flows and is let go; nothing is read. The directory is its owner's alone.

use crate::Endpoint;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Nobody waits longer for the other one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Octets of the longest answer: a million flows have less.
const MOST_OCTETS: u64 = 256 << 20;

/// A flow of a running process.
#[derive(Serialize, Deserialize, Debug, PartialEq, Eq)]
pub struct LiveFlow {
    /// The process.
    pub pid: u32,
    /// The flow's place.
    pub place: u32,
    /// The count of flows in that place.
    pub generation: u32,
    /// Where the peer is.
    pub peer: SocketAddr,
    /// Where the flow is in its life.
    pub phase: LivePhase,
    /// For how long silence is borne.
    pub keep_alive_s: u64,
    /// Octets that the peer has acknowledged; nothing while the flow sleeps.
    pub acknowledged_octets: Option<u64>,
    /// Restarts of the process's end since the flow was opened.
    pub own_restarts: u32,
    /// Restarts of the peer.
    pub peer_restarts: u32,
}

/// Where a flow is in its life.
#[derive(Copy, Clone, Serialize, Deserialize, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LivePhase {
    /// It is not open yet.
    Opening,
    /// Packets come and go.
    Active,
    /// It is open, and has nothing to say.
    Asleep,
    /// It waits for the network.
    Suspended,
    /// It says goodbye.
    Closing,
}

/// Arguments of `flows`.
#[derive(Args)]
pub struct FlowsArgs {
    /// Print each flow as a line of JSON
    #[arg(long)]
    json: bool,
    /// The directory of the processes' sockets [default: heddle/dtp in $XDG_RUNTIME_DIR, or heddle-dtp-UID in the directory for temporary files]
    #[arg(long)]
    runtime: Option<PathBuf>,
}

fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("heddle/dtp"),
        _ => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("heddle-dtp-{user}"))
        }
    }
}

/// The directory must be this user's alone: others could put sockets there.
fn must_be_ours(directory: &Path) -> io::Result<()> {
    let data = fs::symlink_metadata(directory)?;
    if data.is_dir() && data.uid() == rustix::process::getuid().as_raw() && data.mode() & 0o077 == 0
    {
        return Ok(());
    }
    let what = format!("{}: not a directory of this user's alone", directory.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, what))
}

/// The socket at which the flows of an endpoint are told to who asks; it goes with this. The endpoint lives as long as the process from then on.
pub(crate) struct Teller(PathBuf);

impl Teller {
    /// Begins; in the default directory if none is given.
    pub fn start(endpoint: &Endpoint, at: Option<&Path>) -> io::Result<Self> {
        let directory = at.map_or_else(directory, Path::to_owned);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        must_be_ours(&directory)?;
        let path = directory.join(format!("{}.sock", std::process::id()));
        // A process of before had the same number.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let endpoint = endpoint.clone();
        std::thread::Builder::new().name("flows".into()).spawn(move || {
            for stream in listener.incoming() {
                // One that does not read is let go after a while.
                if let Err(error) = stream.and_then(|stream| tell(&endpoint, stream)) {
                    tracing::debug!(%error, "flows not told");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        })?;
        Ok(Self(path))
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn tell(endpoint: &Endpoint, mut stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = Vec::new();
    for flow in endpoint.flows() {
        let flow = LiveFlow {
            pid: std::process::id(),
            place: flow.id.0,
            generation: flow.id.1,
            peer: flow.peer,
            phase: flow.live_phase(),
            keep_alive_s: flow.keep_alive.as_secs(),
            acknowledged_octets: flow.acknowledged,
            own_restarts: flow.restarts.0,
            peer_restarts: flow.restarts.1,
        };
        serde_json::to_writer(&mut text, &flow)?;
        text.push(b'\n');
    }
    stream.write_all(&text)
}

fn ask(path: &Path) -> io::Result<Vec<LiveFlow>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(MOST_OCTETS).read_to_string(&mut text)?;
    let parse = |line| serde_json::from_str(line).map_err(io::Error::from);
    text.lines().map(parse).collect()
}

/// Prints the flows of the processes that run.
pub(crate) fn run(args: &FlowsArgs, out: &mut impl Write) -> io::Result<()> {
    let directory = args.runtime.clone().unwrap_or_else(directory);
    let mut flows = Vec::new();
    match must_be_ours(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        other => {
            other?;
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                if !entry.file_type()?.is_socket() {
                    continue;
                }
                match ask(&entry.path()) {
                    Ok(more) => flows.extend(more),
                    // Its process was killed.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                        let _ = fs::remove_file(entry.path());
                    }
                    Err(error) => eprintln!("{}: {error}", entry.path().display()),
                }
            }
        }
    }
    flows.sort_by_key(|flow| (flow.pid, flow.place));
    if args.json {
        for flow in &flows {
            serde_json::to_writer(&mut *out, flow)?;
            writeln!(out)?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{:>8} {:>12} {:<9} {:>12} {:>14} {:>8} peer",
        "process", "flow", "phase", "keep-alive/s", "octets", "restarts"
    )?;
    for flow in &flows {
        let id = format!("{}.{}", flow.place, flow.generation);
        let phase = format!("{:?}", flow.phase).to_lowercase();
        let octets = flow.acknowledged_octets.map_or("-".into(), |octets| octets.to_string());
        let restarts = format!("{}/{}", flow.own_restarts, flow.peer_restarts);
        writeln!(
            out,
            "{:>8} {id:>12} {phase:<9} {:>12} {octets:>14} {restarts:>8} {}",
            flow.pid, flow.keep_alive_s, flow.peer
        )?;
    }
    Ok(())
}
