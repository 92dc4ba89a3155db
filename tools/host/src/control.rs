//! Finds the engines that run on this machine and asks them: a client of DPDK's telemetry socket.
//!
//! An engine called `E` runs with EAL's file prefix `heddle-E`. EAL then listens on a socket of packets in
//! `/var/run/dpdk/heddle-E`; it greets each client with one JSON object and answers each command with one.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::Deserialize;
use serde_json::Value;

use crate::metrics::Stats;

/// The command that an engine answers with its [`Stats`].
pub const STATS_COMMAND: &str = "/heddle/stats";

/// What the names of all engines' file prefixes start with.
const PREFIX: &str = "heddle-";

/// The socket in the directory of a file prefix.
const SOCKET: &str = "dpdk_telemetry.v2";

/// How long an engine may take for an answer, unless told otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// An answer of more octets is refused. DPDK itself stops at 16 KiB.
const MAX_ANSWER_OCTETS: usize = 1 << 20;

/// EAL's file prefix for the engine called `name`.
pub fn file_prefix(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Why an engine cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No engine runs at all.
    #[error("no engine is running: nothing listens below {}", .directory.display())]
    NoneRunning {
        /// Where EAL keeps the sockets of this user's processes.
        directory: PathBuf,
    },
    /// Engines run, but not this one.
    #[error("no engine called `{name}` is running; running: {}", .running.join(", "))]
    NotRunning {
        /// The name that was asked for.
        name: String,
        /// The names of those that run.
        running: Vec<String>,
    },
    /// The operating system refused.
    #[error("cannot {what} {}: {source}", .path.display())]
    System {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The engine took too long.
    #[error("the engine at {} did not answer within {:.1} s", .path.display(), .timeout.as_secs_f64())]
    TimedOut {
        /// The engine's socket.
        path: PathBuf,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// The engine hung up.
    #[error("the engine at {} closed the connection: it is stopping, or too many clients ask it", .path.display())]
    Closed {
        /// The engine's socket.
        path: PathBuf,
    },
    /// The answer cannot be understood.
    #[error("the engine at {} answered `{command}` with something else than expected: {why}", .path.display())]
    Answer {
        /// The engine's socket.
        path: PathBuf,
        /// What it was asked; `connect` for its greeting.
        command: String,
        /// What is wrong with the answer.
        why: String,
    },
}

/// The directory below which EAL keeps the sockets of this user's processes.
pub fn runtime_directory() -> PathBuf {
    let directory = |variable| std::env::var_os(variable).map(PathBuf::from);
    let base = if let Some(directory) = directory("RUNTIME_DIRECTORY") {
        directory
    } else if rustix::process::getuid().is_root() {
        PathBuf::from("/var/run")
    } else {
        directory("XDG_RUNTIME_DIR").unwrap_or_else(|| PathBuf::from("/tmp"))
    };
    base.join("dpdk")
}

/// The greeting: what a telemetry socket says of its process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Info {
    /// DPDK's version in words.
    pub version: String,
    /// The process.
    pub pid: u32,
}

/// A connection to one running engine.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    path: PathBuf,
    timeout: Duration,
    info: Info,
}

impl Client {
    /// Connects to the engine called `name`; each answer may take [`TIMEOUT`].
    ///
    /// # Errors
    /// [`ControlError::NoneRunning`] or [`ControlError::NotRunning`] when nothing listens, else what went wrong.
    pub fn connect(name: &str) -> Result<Self, ControlError> {
        Self::connect_below(&runtime_directory(), name)
    }

    /// The same for engines whose sockets are below `directory`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_below(directory: &Path, name: &str) -> Result<Self, ControlError> {
        let path = directory.join(file_prefix(name)).join(SOCKET);
        match Self::open(&path, TIMEOUT) {
            Err(ControlError::System { source, .. }) if nobody_listens(&source) => {
                Err(not_running(directory, name)?)
            }
            result => result,
        }
    }

    /// Connects to the socket at `path`; each answer may take `timeout`, and so may the greeting.
    ///
    /// # Errors
    /// Nothing listens at `path`, or what does is no telemetry socket.
    pub fn open(path: &Path, timeout: Duration) -> Result<Self, ControlError> {
        let failed = |what| {
            move |errno: Errno| ControlError::System {
                what,
                path: path.into(),
                source: errno.into(),
            }
        };
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(failed("make a socket for"))?;
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, direction, Some(timeout))
                .map_err(failed("set the time-out of"))?;
        }
        let address = SocketAddrUnix::new(path).map_err(failed("connect to"))?;
        rustix::net::connect(&socket, &address).map_err(failed("connect to"))?;
        let info = Info { version: String::new(), pid: 0 };
        let mut client = Self { socket, path: path.into(), timeout, info };
        client.info = client.read("connect")?;
        Ok(client)
    }

    /// What the engine said of itself when the connection was made.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The engine's answer to `command`, for example `/ethdev/list`.
    ///
    /// # Errors
    /// The engine is gone, takes too long, or does not know the command.
    pub fn ask(&self, command: &str) -> Result<Value, ControlError> {
        rustix::io::retry_on_intr(|| {
            rustix::net::send(&self.socket, command.as_bytes(), SendFlags::NOSIGNAL)
        })
        .map_err(|errno| self.failed("ask", errno))?;
        // The answer is an object whose only key is the command.
        let mut answer: Value = self.read(command)?;
        match answer.get_mut(command).map(Value::take) {
            Some(Value::Null) => Err(self.unexpected(command, "it does not know the command")),
            Some(value) => Ok(value),
            None => Err(self.unexpected(command, "it is the answer to another command")),
        }
    }

    /// The engine's counters.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn stats(&self) -> Result<Stats, ControlError> {
        let answer = self.ask(STATS_COMMAND)?;
        serde_json::from_value(answer).map_err(|error| self.unexpected(STATS_COMMAND, error))
    }

    /// One packet from the socket, as JSON.
    fn read<T: for<'de> Deserialize<'de>>(&self, command: &str) -> Result<T, ControlError> {
        let mut buffer = vec![0; MAX_ANSWER_OCTETS];
        // With TRUNC the kernel gives the packet's true length.
        let (read, len) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.socket, buffer.as_mut_slice(), RecvFlags::TRUNC)
        })
        .map_err(|errno| self.failed("read from", errno))?;
        if len == 0 {
            return Err(ControlError::Closed { path: self.path.clone() });
        }
        let answer = match buffer.get(..read) {
            Some(answer) if len == read => answer,
            _ => return Err(self.unexpected(command, format!("it has {len} octets"))),
        };
        // EAL ends some answers with a NUL.
        let answer = answer.strip_suffix(&[0]).unwrap_or(answer);
        serde_json::from_slice(answer).map_err(|error| self.unexpected(command, error))
    }

    fn failed(&self, what: &'static str, errno: Errno) -> ControlError {
        let path = self.path.clone();
        match errno {
            Errno::AGAIN => ControlError::TimedOut { path, timeout: self.timeout },
            Errno::PIPE | Errno::CONNRESET => ControlError::Closed { path },
            errno => ControlError::System { what, path, source: errno.into() },
        }
    }

    fn unexpected(&self, command: &str, why: impl ToString) -> ControlError {
        ControlError::Answer {
            path: self.path.clone(),
            command: command.to_owned(),
            why: why.to_string(),
        }
    }
}

/// Whether the error says that no process has the socket open: a killed engine leaves its file behind.
fn nobody_listens(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn not_running(directory: &Path, name: &str) -> Result<ControlError, ControlError> {
    let running = running_below(directory)?;
    Ok(ControlError::NotRunning { name: name.to_owned(), running })
}

/// The names of the engines that run on this machine, for this user, in alphabetical order; at least one.
///
/// # Errors
/// [`ControlError::NoneRunning`], or that the sockets cannot be looked for.
pub fn running() -> Result<Vec<String>, ControlError> {
    running_below(&runtime_directory())
}

/// The same for engines whose sockets are below `directory`.
///
/// # Errors
/// As [`running`].
pub fn running_below(directory: &Path) -> Result<Vec<String>, ControlError> {
    let failed = |source| ControlError::System { what: "list", path: directory.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        result => Some(result.map_err(failed)?),
    };
    let mut names = Vec::new();
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(failed)?;
        let file_name = entry.file_name();
        let Some(name) = file_name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        // One that is there but does not answer still runs; asking it will say so.
        match Client::open(&entry.path().join(SOCKET), TIMEOUT) {
            Err(ControlError::System { source, .. }) if nobody_listens(&source) => {}
            _ => names.push(name.to_owned()),
        }
    }
    if names.is_empty() {
        return Err(ControlError::NoneRunning { directory: directory.to_owned() });
    }
    names.sort_unstable();
    Ok(names)
}
