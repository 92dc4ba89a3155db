//! What the commands that talk to a running switch share: the connection, and flows as text.

pub mod text;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use heddle_openflow::client::{Client, ClientError};
use heddle_openflow::{Address, Tls, TlsFiles};
use serde::Serialize;

use crate::Failure;

/// Which switch to talk to.
#[derive(clap::Args)]
pub struct Switch {
    /// Where the switch listens: tcp:HOST:PORT or tls:HOST:PORT
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        default_value = "tcp:127.0.0.1:6654",
        global = true
    )]
    switch: Address,
    /// Seconds that each answer may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=3600), global = true)]
    timeout: u64,
    /// For tls: our certificate
    #[arg(long, value_name = "FILE", requires_all = ["key", "authority"], global = true)]
    certificate: Option<PathBuf>,
    /// For tls: the certificate's key
    #[arg(long, value_name = "FILE", requires = "certificate", global = true)]
    key: Option<PathBuf>,
    /// For tls: who signs the switch's certificate
    #[arg(long, value_name = "FILE", requires = "certificate", global = true)]
    authority: Option<PathBuf>,
}

impl Switch {
    /// Connects.
    ///
    /// # Errors
    /// Why that does not work, as a sentence.
    pub fn connect(&self) -> Result<Client, Failure> {
        let files = match (&self.certificate, &self.key, &self.authority) {
            (Some(certificate), Some(key), Some(authority)) => Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                authority: authority.clone(),
            }),
            _ => None,
        };
        let tls = files.map(|files| Tls::load(&files)).transpose();
        let tls = tls.map_err(|error| Failure::Error(error.to_string()))?;
        Ok(Client::connect(&self.switch, tls.as_ref(), Duration::from_secs(self.timeout))?)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Error(error.to_string())
    }
}

/// Prints a value as JSON, for programs.
pub fn json(value: &impl Serialize, out: &mut impl Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}
