//! Messages for the operator, on stderr: one line each, with the time in UTC. Takes those of `tracing` and of `log`.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogLevel;

/// The process already has something that takes its messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the logs of this process are already set up")]
pub struct AlreadySetUp;

/// From now on, messages of `level` and above go to stderr; in colour when that is a terminal.
///
/// # Errors
/// [`AlreadySetUp`] the second time in a process.
pub fn init(level: LogLevel) -> Result<(), AlreadySetUp> {
    init_to(level, io::stderr().is_terminal(), io::stderr)
}

/// The same with another place to write to.
///
/// # Errors
/// [`AlreadySetUp`] the second time in a process.
pub fn init_to<W>(level: LogLevel, color: bool, writer: W) -> Result<(), AlreadySetUp>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        // The module that speaks is of use to whoever looks for a fault.
        .with_target(level >= LogLevel::Debug)
        .with_ansi(color)
        .with_writer(writer)
        .try_init()
        .map_err(|_| AlreadySetUp)
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}
