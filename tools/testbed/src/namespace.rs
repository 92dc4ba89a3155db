//! Network namespaces: made and removed by iproute2, entered by one thread at a time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};

/// Where iproute2 keeps the names of namespaces.
const DIRECTORY: &str = "/run/netns";

/// How long the processes in a namespace get to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A named network namespace that exists, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The namespace of this name, whether it exists or not.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// The name that `ip netns` knows it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// Runs `work` on a thread of its own inside this namespace. Sockets that it opens and processes that it starts
    /// belong to the namespace; the caller's thread stays where it is.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or what `work` answers.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = self.path();
        let inside = || {
            let file = File::open(&path).map_err(Error::at("open", &path))?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
                |error| Error::io(format!("enter the namespace {}", self.name))(error.into()),
            )?;
            work()
        };
        match thread::scope(|scope| scope.spawn(inside).join()) {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Runs a program inside this namespace and waits for its end; `input` is its standard input.
    ///
    /// # Errors
    /// When the program cannot be started or fails.
    pub fn call(&self, program: &str, args: &[&str], input: &str) -> Result<String> {
        self.enter(|| call(program, args, input))
    }
}

/// Runs a program and waits for its end; `input` is its standard input, the answer its standard output.
///
/// # Errors
/// When the program cannot be started or fails.
pub fn call(program: &str, args: &[&str], input: &str) -> Result<String> {
    let command = || [&[program], args].concat().join(" ");
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::io(format!("run `{}`", command()))(error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended early says why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::io(format!("wait for `{program}`")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        command: command(),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The namespaces whose names start with `prefix`, sorted.
///
/// # Errors
/// When the directory of names cannot be read.
pub fn with_prefix(prefix: &str) -> Result<Vec<Namespace>> {
    let directory = Path::new(DIRECTORY);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::at("read", directory)(error)),
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .map(Namespace::named)
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Ends every process inside the namespaces, then removes them and with them all their interfaces.
///
/// # Errors
/// When a namespace stays.
pub fn remove(namespaces: &[Namespace]) -> Result<()> {
    if namespaces.is_empty() {
        return Ok(());
    }
    end_processes(namespaces);
    let batch: String =
        namespaces.iter().map(|namespace| format!("netns del {}\n", namespace.name)).collect();
    let result = call("ip", &["-force", "-batch", "-"], &batch);
    match namespaces.iter().find(|namespace| namespace.path().exists()) {
        Some(left) => Err(result.err().unwrap_or_else(|| {
            Error::Busy(format!("the namespace {} could not be removed", left.name))
        })),
        None => Ok(()),
    }
}

/// A namespace lives on, without a name, for as long as a process is in it: so none may stay.
fn end_processes(namespaces: &[Namespace]) {
    let inodes: Vec<_> =
        namespaces.iter().filter_map(|namespace| inode(&namespace.path())).collect();
    let deadline = Instant::now() + GRACE;
    let mut signal = Signal::TERM;
    loop {
        let inside = processes_in(&inodes);
        if inside.is_empty() || (signal == Signal::KILL && Instant::now() > deadline + GRACE) {
            return;
        }
        if Instant::now() > deadline {
            signal = Signal::KILL;
        }
        for pid in inside {
            // One that has just ended is as good as killed.
            let _ = kill_process(pid, signal);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The device and inode that tell one namespace from another.
fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn processes_in(inodes: &[(u64, u64)]) -> Vec<Pid> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != own)
        .filter(|pid| {
            inode(&PathBuf::from(format!("/proc/{pid}/ns/net")))
                .is_some_and(|inode| inodes.contains(&inode))
        })
        .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
        .collect()
}
