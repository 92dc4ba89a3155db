//! Opening streams, to whichever of a server's addresses answers first.

use crate::endpoint::Endpoint;
use crate::settings::Settings;
use crate::shared::{State, Status, now};
use crate::socket::path_of;
use crate::stream::{DtpStream, Held, closed};
use heddle_core::dtp::modern::{CloseReason, Connect, FlowId, Identity, ModernError, Pattern};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::{Duration, Instant};

/// An address that does not answer gets a rival after this (RFC 8305, 5).
const RIVAL_AFTER: Duration = Duration::from_millis(250);

/// For how long a client waits for a place for another flow.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

/// How a client knows its server.
#[derive(Clone)]
pub enum Trust {
    /// By its public key.
    Key([u8; 32]),
    /// By a key that both hold.
    PreShared([u8; 32]),
    /// By the key that it shows, if this function says so.
    Ask(Arc<dyn Fn([u8; 32]) -> bool + Send + Sync>),
}

/// Opens streams.
#[derive(Clone)]
pub struct Connector {
    endpoint: Endpoint,
    /// How the server is known.
    pub trust: Trust,
    /// This client's own private key, for servers that let in by key.
    pub private: Option<[u8; 32]>,
    /// The keep-alive to ask for.
    pub keep_alive: Duration,
}

impl Connector {
    /// A connector with a socket of its own.
    ///
    /// # Errors
    /// Those of sockets.
    pub fn new(trust: Trust) -> io::Result<Self> {
        Self::with_settings(trust, &Settings::default())
    }

    /// The same, with settings.
    ///
    /// # Errors
    /// Those of sockets.
    pub fn with_settings(trust: Trust, settings: &Settings) -> io::Result<Self> {
        let endpoint = Endpoint::start(None, settings)?;
        let keep_alive = Duration::from_secs(24 * 3600);
        Ok(Self { endpoint, trust, private: None, keep_alive })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Begins a flow; `changed` is told when something happens to it.
    fn begin(&self, address: SocketAddr, changed: &Arc<Condvar>) -> io::Result<FlowId> {
        let (pattern, server, pre_shared) = match (&self.trust, self.private) {
            (Trust::Key(key), None) => (Pattern::KnownServer, Some(*key), None),
            (Trust::Key(key), Some(_)) => (Pattern::KnownServerClientKey, Some(*key), None),
            (Trust::PreShared(key), _) => (Pattern::PreShared, None, Some(*key)),
            (Trust::Ask(_), _) => (Pattern::UnknownServer, None, None),
        };
        let identity = Identity { private: self.private, server, pre_shared };
        let keep_alive_s = u32::try_from(self.keep_alive.as_secs()).unwrap_or(u32::MAX);
        let connect = Connect { pattern, identity, keep_alive_s };
        let patience = Instant::now() + BUSY_PATIENCE;
        let (mut state, flow) = loop {
            let mut state = self.endpoint.shared().lock();
            if let Some(failed) = &state.failed {
                return Err(io::Error::other(failed.clone()));
            }
            match state.endpoint.connect(now(), path_of(address), connect.clone()) {
                Ok(flow) => break (state, flow),
                // Flows that say goodbye still have their places.
                Err(ModernError::NoActive | ModernError::TableFull)
                    if Instant::now() < patience =>
                {
                    drop(state);
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => {
                    let message = format!("cannot open a flow: {}", error.name());
                    return Err(io::Error::other(message));
                }
            }
        };
        let changed = Arc::clone(changed);
        state.flows.insert(flow, Status { held: true, changed, ..Status::default() });
        drop(state);
        self.endpoint.shared().ring();
        Ok(flow)
    }

    /// Opens a stream to whichever of the addresses answers first; each further one is tried a quarter of a second after the one before.
    ///
    /// # Errors
    /// Those of name resolution and sockets; [`ErrorKind::TimedOut`] when nobody answers, [`ErrorKind::PermissionDenied`] when the server's key is not trusted.
    pub fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<DtpStream> {
        let mut waiting = interleaved(addresses.to_socket_addrs()?.collect()).into_iter();
        let shared = self.endpoint.shared();
        let mut rivals: Vec<Held> = Vec::new();
        let mut error = io::Error::new(ErrorKind::InvalidInput, "no address");
        let mut next = Instant::now();
        let changed = Arc::new(Condvar::new());
        loop {
            if rivals.is_empty() || Instant::now() >= next {
                match waiting.next() {
                    Some(address) => {
                        rivals.push(Held {
                            shared: Arc::clone(shared),
                            endpoint: self.endpoint.clone(),
                            flow: self.begin(address, &changed)?,
                        });
                        next = Instant::now() + RIVAL_AFTER;
                    }
                    None if rivals.is_empty() => return Err(error),
                    None => {}
                }
            }
            let mut state = shared.lock();
            let mut winner = None;
            let mut gone = Vec::new();
            for (place, rival) in rivals.iter().enumerate() {
                match self.progress(&mut state, rival.flow) {
                    Ok(true) => winner = Some(place),
                    Ok(false) => {}
                    Err(why) => {
                        error = why;
                        gone.push(place);
                    }
                }
            }
            if winner.is_none() && gone.is_empty() {
                let wait = match waiting.len() {
                    0 => RIVAL_AFTER,
                    _ => next.saturating_duration_since(Instant::now()),
                };
                waits(&mut state, &rivals, 1);
                let (mut state, _) =
                    changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
                waits(&mut state, &rivals, -1);
                continue;
            }
            drop(state);
            if let Some(place) = winner {
                let held = rivals.swap_remove(place);
                held.shared.ring();
                return Ok(DtpStream::new(held));
            }
            gone.into_iter().rev().for_each(|place| drop(rivals.swap_remove(place)));
        }
    }

    /// Whether a flow is open by now; asks the application about a key on the way.
    fn progress(&self, state: &mut State, flow: FlowId) -> io::Result<bool> {
        let Some(status) = state.flows.get_mut(&flow) else {
            return Err(closed(CloseReason::Local));
        };
        if let Some(key) = status.server_key.take() {
            let trusted = matches!(&self.trust, Trust::Ask(ask) if ask(key));
            if !trusted {
                let message = "the server's key is not trusted";
                return Err(io::Error::new(ErrorKind::PermissionDenied, message));
            }
            // It has just been asked.
            let _ = state.endpoint.trust(flow);
            self.endpoint.shared().ring();
        }
        let Some(status) = state.flows.get(&flow) else { return Ok(false) };
        if let Some(reason) = status.closed {
            return Err(closed(reason));
        }
        if status.connected {
            return match state.endpoint.open_stream(flow) {
                Ok(_) => Ok(true),
                Err(error) => Err(io::Error::other(format!("no stream: {}", error.name()))),
            };
        }
        Ok(false)
    }
}

/// Notes that a thread waits for all of the flows, or does no longer.
fn waits(state: &mut State, rivals: &[Held], by: isize) {
    for rival in rivals {
        if let Some(status) = state.flows.get_mut(&rival.flow) {
            status.waiting = status.waiting.saturating_add_signed(by);
        }
    }
}

/// IPv6 and IPv4 in turn, beginning with what the system put first.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut mixed = Vec::new();
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            return mixed;
        }
        mixed.extend(a.into_iter().chain(b));
    }
}
