//! How a driver is set up.

use crate::{Address, TlsFiles};
use std::time::Duration;

/// What becomes of packets while none of the configured controllers is there (OpenFlow 1.3.5, 6.3.2).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// The switch goes by its flows.
    #[default]
    Secure,
    /// It floods, as a plain switch does. A switch for which no controllers are configured still goes by its flows.
    Standalone,
}

/// Where controllers are, and how long they are waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Controllers that the switch connects to.
    pub controllers: Vec<Address>,
    /// Where it waits for connections: addresses of its own.
    pub listen: Vec<Address>,
    /// What it does without a controller.
    pub fail_mode: FailMode,
    /// Certificates, for addresses that ask for TLS.
    pub tls: Option<TlsFiles>,
    /// Connections at a time, at most: those that others open.
    pub max_connections: usize,
    /// Octets that may wait for a controller to read them. One that lets more wait is let go.
    pub max_waiting_octets: usize,
    /// A controller that has said nothing for so long is asked for an echo.
    pub echo_interval: Duration,
    /// One that has said nothing whole for so long is let go, and so is one that reads next to nothing.
    pub silence_limit: Duration,
    /// Time that there is to connect and say hello.
    pub hello_limit: Duration,
    /// The first and the longest wait before a controller is tried again.
    pub min_delay: Duration,
    /// See [`Settings::min_delay`].
    pub max_delay: Duration,
    /// Without a controller for so long, the fail mode comes into force.
    pub fail_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controllers: Vec::new(),
            listen: Vec::new(),
            fail_mode: FailMode::Secure,
            tls: None,
            max_connections: 64,
            max_waiting_octets: 16 << 20,
            echo_interval: Duration::from_secs(5),
            silence_limit: Duration::from_secs(15),
            hello_limit: Duration::from_secs(10),
            min_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(8),
            fail_after: Duration::from_secs(3),
        }
    }
}
