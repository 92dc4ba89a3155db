//! What can go wrong in a testbed, as sentences.

use std::io;
use std::path::{Path, PathBuf};

/// What every fallible call of this crate answers.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the testbed could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The topology file does not describe a network that can be laid out.
    #[error("topology {file}: {reason}")]
    Topology {
        /// The file, or the name of a built-in topology.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, as it follows "cannot".
        doing: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A program that the testbed calls failed.
    #[error("`{command}` failed ({status}){}", tail(.output))]
    Command {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The last of what it wrote to its standard error.
        output: String,
    },
    /// A program that should go on running ended, or did not get ready.
    #[error("{name} {what}{}", tail(.log))]
    Process {
        /// The process by its part in the network.
        name: String,
        /// What it did, as it follows the name.
        what: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program of the testbed is not where it should be.
    #[error("{} is not there; build it (`cargo build --release`) or name its directory with --bin-dir", .0.display())]
    MissingProgram(PathBuf),
    /// The user lacks the right to make network namespaces.
    #[error("network namespaces need root; run it with sudo")]
    NotRoot,
    /// Something of this name is there already.
    #[error("{0}")]
    Busy(String),
    /// A value that was given does not fit.
    #[error("{0}")]
    Invalid(String),
    /// SIGINT, SIGTERM or SIGHUP came; everything was taken down.
    #[error("interrupted; the network was taken down")]
    Interrupted,
}

impl Error {
    /// An operating system error with what was being done, as it follows "cannot".
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// An operating system error at `path`.
    pub fn at<'a>(verb: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { doing: format!("{verb} {}", path.display()), source }
    }
}

fn tail(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { String::new() } else { format!(":\n{text}") }
}
