//! What an endpoint is made with.

use heddle_core::dtp::modern::{Congestion, Identity, Pattern};
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// The largest datagram that goes over an Ethernet of 1500 octets with IPv6.
const DATAGRAM: u16 = 1452;

/// What an endpoint is made with.
#[derive(Clone)]
pub struct Settings {
    /// Flows that there may be at a time.
    pub flows: usize,
    /// Flows that may do something at a time.
    pub actives: usize,
    /// Octets of the buffers of an active flow, each way.
    pub buffer: usize,
    /// Control of congestion.
    pub congestion: Congestion,
    /// The longest keep-alive that is granted to clients.
    pub keep_alive_cap: Duration,
    /// Octets of the largest datagram.
    pub datagram: u16,
    /// Flows that one address may have.
    pub flows_of_address: u16,
    /// This end's keys: a server needs one.
    pub identity: Identity,
    /// How clients may know the server; none for an endpoint that takes no flows.
    pub patterns: Vec<Pattern>,
    /// The clients that are let in by their key.
    pub authorized: Vec<[u8; 32]>,
    /// Messages keep their boundaries on flows whose peer wants it too: [`crate::DtpStream::send_message`].
    pub boundaries: bool,
    /// Where tickets are kept, so that flows outlive the process; nothing for nowhere. A directory serves one process at a time.
    pub tickets: Option<PathBuf>,
    /// What a server behind a steering middlebox has in its connection ids; nothing for a server that stands alone.
    pub steered: Option<Steered>,
}

/// How a steering middlebox tells one of its servers by the ids of its flows ([`heddle_core::dtp::modern::Steerer`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steered {
    /// This server's number; no other one behind the middlebox has it.
    pub number: u16,
    /// The key of the connection ids, which the middlebox and all its servers share. Flows out of tickets must have been made with the same
    /// number and key.
    pub id_key: Zeroizing<[u8; 32]>,
}

impl Default for Settings {
    /// For a client.
    fn default() -> Self {
        Self {
            flows: 16,
            actives: 8,
            buffer: 4 << 20,
            congestion: Congestion::Cubic,
            keep_alive_cap: Duration::from_secs(7 * 24 * 3600),
            datagram: DATAGRAM,
            flows_of_address: 256,
            identity: Identity::default(),
            patterns: Vec::new(),
            authorized: Vec::new(),
            boundaries: false,
            tickets: None,
            steered: None,
        }
    }
}
