//! `heddle dtp`.

use crate::Failure;
use heddle_dtp::cli::{self, Command};
use std::io::Write;

/// Runs a command of the tolerant transport.
pub(crate) fn run(command: &Command, out: &mut impl Write) -> Result<(), Failure> {
    cli::run(command, out).map_err(|error| Failure::Error(error.to_string()))
}
