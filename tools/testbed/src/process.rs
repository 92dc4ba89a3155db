//! Programs that run in the background of a testbed: engines, routing daemons, receivers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::shutdown::Shutdown;

/// How long a program may take to end after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How often something that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A program in the background. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    output: PathBuf,
}

impl Process {
    /// Starts `command` as `name` inside `namespace`, its standard output and standard error in files in `directory`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        name: &str,
        namespace: &Namespace,
        mut command: Command,
        directory: &Path,
    ) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output = directory.join(format!("{name}.out"));
        let create = |path: &PathBuf| File::create(path).map_err(Error::at("write", path));
        command.stdin(Stdio::null()).stdout(create(&output)?).stderr(create(&log)?);
        let child = spawn(&mut command, namespace)?;
        Ok(Self { name: name.to_owned(), child, log, output })
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to its standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What it has written to its standard output.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Waits until its log holds `word`.
    ///
    /// # Errors
    /// When it ends before, when that takes longer than `patience`, or at a signal.
    pub fn wait_for(&mut self, word: &str, patience: Duration, shutdown: &Shutdown) -> Result<()> {
        let start = Instant::now();
        while !self.log().contains(word) {
            shutdown.check()?;
            if let Some(status) = self.ended()? {
                return Err(self.error(format!("ended at its start ({status})")));
            }
            if start.elapsed() > patience {
                return Err(self.error(format!("was not ready within {} s", patience.as_secs())));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Waits until it ends, however long that takes.
    ///
    /// # Errors
    /// At a signal.
    pub fn wait(&mut self, shutdown: &Shutdown) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            shutdown.check()?;
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether it has ended, and how.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Error::io(format!("wait for {}", self.name)))
    }

    /// Asks it to end, waits for that, and gives what it has written to its standard output.
    ///
    /// # Errors
    /// When it does not end, or ends with an error.
    pub fn stop(mut self) -> Result<String> {
        self.signal(Signal::TERM);
        let start = Instant::now();
        loop {
            match self.ended()? {
                Some(status) if status.success() => return Ok(self.output()),
                Some(status) => return Err(self.error(format!("ended badly ({status})"))),
                None if start.elapsed() > END_WITHIN => {
                    return Err(self.error("did not end when it was told to".into()));
                }
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Kills it, as a power failure would.
    pub fn kill(mut self) {
        self.end();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn error(&self, what: String) -> Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(12)..).unwrap_or_default();
        Error::Process { name: self.name.clone(), what, log: last.join("\n") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            self.end();
        }
    }
}

/// Starts `command` inside `namespace`.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: &mut Command, namespace: &Namespace) -> Result<Child> {
    let what = format!("start {}", command.get_program().display());
    namespace.enter(|| command.spawn().map_err(Error::io(what)))
}

/// The path of a program of ours, which must be there.
///
/// # Errors
/// [`Error::MissingProgram`].
pub fn program(directory: &Path, name: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    if path.is_file() { Ok(path) } else { Err(Error::MissingProgram(path)) }
}
