//! Why a switch did not do what it was asked for, in sentences.

use crate::{Experiment, Refusal, TlsError};
use std::io;
use std::time::Duration;

/// Why nothing came of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("cannot reach {address}: {source}")]
    Unreachable {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The address asks for TLS.
    #[error("TLS needs a certificate, its key and an authority")]
    NoCertificate,
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The connection has failed.
    #[error("the connection to the switch has failed: {0}")]
    Io(#[from] io::Error),
    /// The switch has closed the connection.
    #[error("the switch has closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("the switch has not answered within {:.1} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// Its hello names no version in common.
    #[error("the switch does not speak OpenFlow 1.3: its hello has version {0:#x} on the wire")]
    Version(u8),
    /// It has refused a request.
    #[error("the switch refuses because {} ({refusal})", .text.as_deref().or_else(|| refusal.meaning()).unwrap_or("of an error that is not OpenFlow's"))]
    Refused {
        /// Type and code.
        refusal: Refusal,
        /// What it says in its own words, where it does.
        text: Option<String>,
    },
    /// It has sent what no switch would.
    #[error("the switch has sent a message that cannot be read ({0})")]
    Malformed(Refusal),
    /// It has answered something else.
    #[error("the switch has answered something else than {0}")]
    Unexpected(&'static str),
    /// What was to be sent does not fit.
    #[error("that is too long for a message")]
    TooLong,
}

impl ClientError {
    pub(super) fn refused(refusal: Refusal, data: &[u8]) -> Self {
        Self::Refused { refusal, text: Experiment::error_text(refusal, data) }
    }

    /// Type and code, when the switch has refused a request.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }
}
