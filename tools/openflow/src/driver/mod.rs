//! Sockets and time for an agent: connections to controllers and from them, over TCP and TLS, IPv4 and IPv6.
//!
//! A [`Driver`] belongs to one thread, which calls [`Driver::poll`] or [`Driver::run_until`]. Nothing that one peer does keeps the others
//! waiting: sockets do not block, what is read and done for one in a turn is bounded, and so is what waits to be sent. Whoever sends
//! half a message and no more, says nothing, does not read, or says what is no OpenFlow is let go, with a log line and a counter.

mod controllers;
mod counters;
mod log;
mod peer;
mod settings;
mod target;
mod wire;

pub use counters::Counters;
pub use settings::{FailMode, Settings};

use crate::agent::{Agent, ConnectionId, Outcome};
use crate::datapath::Datapath;
use crate::{Address, Tls, TlsError, Transport};
use heddle_core::node::Instant as Moment;
use log::Log;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use peer::{Loss, Peer};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use target::{State, Target};
pub(crate) use wire::Wire;
use wire::{End, Taken};

/// Frames for controllers wait so long, at most, before they are looked for.
const TICK: Duration = Duration::from_millis(1);
/// Octets that may wait before a controller counts as congested.
const CONGESTED_OCTETS: usize = 256 * 1024;
/// How long a connection that is to be closed may take to read what was said last.
const LINGER: Duration = Duration::from_secs(2);
/// Connections that are accepted on one listener in a turn.
const ACCEPTS_A_TURN: usize = 16;

/// How long a listener is left alone that has failed.
const REST: Duration = Duration::from_millis(100);

const WAKER: Token = Token(0);

/// Why a driver cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// An address to listen at is not the switch's own, or is in use.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// An address asks for TLS.
    #[error("{0} needs a certificate, its key and an authority")]
    NoCertificate(Address),
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operating system has no more of what that needs.
    #[error("cannot wait for sockets: {0}")]
    Io(#[from] io::Error),
}

struct Listener {
    address: Address,
    socket: TcpListener,
    is_ready: bool,
    /// It is left alone until then, after a failure.
    rests_until: Option<Instant>,
}

/// The sockets of an agent.
pub struct Driver {
    agent: Agent,
    settings: Settings,
    tls: Option<Tls>,
    clock: Box<dyn Fn() -> Moment>,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    listeners: Vec<Listener>,
    targets: Vec<Target>,
    peers: BTreeMap<usize, Peer>,
    next_token: usize,
    counters: Counters,
    log: Log,
    /// Since when no controller has been there.
    alone_since: Option<Instant>,
    is_standalone: bool,
}

impl Driver {
    /// A driver for this agent, listening where it should. `clock` tells the time by which the datapath notes when flows were used.
    ///
    /// # Errors
    /// When it cannot listen, or its certificates are of no use.
    pub fn new(
        settings: Settings,
        agent: Agent,
        clock: impl Fn() -> Moment + 'static,
    ) -> Result<Self, DriverError> {
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        let all = settings.controllers.iter().chain(&settings.listen);
        if let (None, Some(address)) =
            (&tls, all.into_iter().find(|address| address.transport == Transport::Tls))
        {
            return Err(DriverError::NoCertificate(address.clone()));
        }
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut listeners = Vec::new();
        for address in &settings.listen {
            let listen_error = |source| DriverError::Listen { address: address.clone(), source };
            for socket in address.resolve().map_err(listen_error)? {
                let mut socket = TcpListener::bind(socket).map_err(listen_error)?;
                let token = Token(1 + listeners.len());
                poll.registry().register(&mut socket, token, Interest::READABLE)?;
                listeners.push(Listener {
                    address: address.clone(),
                    socket,
                    is_ready: true,
                    rests_until: None,
                });
            }
        }
        let targets =
            settings.controllers.iter().map(|one| Target::new(one.clone(), &settings)).collect();
        Ok(Self {
            agent,
            tls,
            clock: Box::new(clock),
            poll,
            events: Events::with_capacity(256),
            waker,
            next_token: 1 + listeners.len(),
            listeners,
            targets,
            peers: BTreeMap::new(),
            counters: Counters::default(),
            log: Log::new(),
            alone_since: Some(Instant::now()),
            is_standalone: false,
            settings,
        })
    }

    /// The agent.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What has become of connections.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where it listens, with the ports that the operating system has chosen where none was told.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.socket.local_addr().ok()).collect()
    }

    /// The configured controllers, and whether each is there: both sides have said hello.
    pub fn controllers(&self) -> impl Iterator<Item = (&Address, bool)> {
        self.targets.iter().map(|target| {
            let is_open = match target.state {
                State::Connected(token) => self.peers.get(&token).is_some_and(|peer| peer.is_open),
                _ => false,
            };
            (&target.address, is_open)
        })
    }

    /// Connections that are there, of either kind.
    pub fn connections(&self) -> usize {
        self.peers.len()
    }

    /// Ends [`Driver::poll`]'s wait, from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Goes on until `stop` is true; it is looked at at least every 100 ms.
    ///
    /// # Errors
    /// When the operating system fails.
    pub fn run_until(&mut self, datapath: &mut dyn Datapath, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.poll(datapath, Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Waits for something to do, at most so long, and does it.
    ///
    /// # Errors
    /// When the operating system fails.
    pub fn poll(&mut self, datapath: &mut dyn Datapath, wait: Duration) -> io::Result<()> {
        let wait = if self.has_work() { Duration::ZERO } else { wait.min(TICK) };
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        self.note_events();
        self.accept();
        let now = (self.clock)();
        self.read(now, datapath);
        let outcome = self.agent.tick(now, datapath);
        self.carry_out(outcome);
        self.write();
        let now = Instant::now();
        self.check_times(now);
        self.reach_controllers(now);
        self.check_fail_mode(now, datapath);
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.agent.is_busy()
            || self.listeners.iter().any(|one| one.is_ready && one.rests_until.is_none())
            || self.peers.values().any(|peer| self.can_read(peer))
    }

    fn can_read(&self, peer: &Peer) -> bool {
        peer.is_connected
            && peer.readable
            && peer.closing.is_none()
            && self.agent.wants_input(peer.id)
    }

    fn note_events(&mut self) {
        let mut failed = Vec::new();
        for event in &self.events {
            let Token(token) = event.token();
            if let Some(listener) = token.checked_sub(1).and_then(|at| self.listeners.get_mut(at)) {
                listener.is_ready = true;
            } else if let Some(peer) = self.peers.get_mut(&token) {
                peer.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                // A socket that is on its way tells so by this.
                if !peer.is_connected && (event.is_writable() || event.is_error()) {
                    match peer.wire.stream.take_error() {
                        Ok(None) => peer.is_connected = peer.wire.stream.peer_addr().is_ok(),
                        Ok(Some(error)) | Err(error) => failed.push((token, error)),
                    }
                }
            }
        }
        for (token, error) in failed {
            self.lose(token, Loss::Ended(error.into()));
        }
    }

    fn accept(&mut self) {
        let now = Instant::now();
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_A_TURN {
                let Some(listener) = self.listeners.get_mut(at) else { break };
                if !listener.is_ready || listener.rests_until.is_some_and(|end| now < end) {
                    break;
                }
                listener.rests_until = None;
                let transport = listener.address.transport;
                match listener.socket.accept() {
                    Ok((stream, from)) => self.take_in(stream, from, transport),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        listener.is_ready = false
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // The peer has gone before it was looked at, or there are no more descriptors.
                    Err(error) => {
                        listener.rests_until = Some(now + REST);
                        self.log.warn(|| format!("cannot take a connection: {error}"));
                        break;
                    }
                }
            }
        }
    }

    fn take_in(&mut self, stream: TcpStream, from: SocketAddr, transport: Transport) {
        let others = self.peers.iter().filter(|(_, peer)| peer.target.is_none());
        if others.clone().count() >= self.settings.max_connections {
            // Who has not said hello makes room: the one that has had longest for it.
            let mute =
                others.filter(|(_, peer)| !self.agent.is_open(peer.id)).map(|(at, _)| *at).min();
            match mute {
                Some(token) => self.lose(token, Loss::NoHello),
                None => {
                    self.counters.too_many += 1;
                    self.log.warn(|| format!("{from} is one connection too many"));
                    return;
                }
            }
        }
        let tls = match (&self.tls, transport) {
            (Some(tls), Transport::Tls) => match tls.accepting() {
                Ok(tls) => Some(tls.into()),
                Err(error) => {
                    self.counters.tls_failed += 1;
                    self.log.warn(|| format!("{from}: {error}"));
                    return;
                }
            },
            _ => None,
        };
        self.counters.accepted += 1;
        self.log.info(|| format!("{from} has connected"));
        self.begin(stream, tls, from.to_string(), None);
    }

    fn begin(
        &mut self,
        mut stream: TcpStream,
        tls: Option<rustls::Connection>,
        name: String,
        target: Option<usize>,
    ) -> Option<usize> {
        let token = self.next_token;
        self.next_token += 1;
        // Without it, small messages only take longer.
        let _ = stream.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(token), interest) {
            self.log.warn(|| format!("cannot wait for {name}: {error}"));
            return None;
        }
        let (id, hello) = self.agent.connect();
        let mut wire = Wire::new(stream, tls);
        wire.push(&hello);
        let now = Instant::now();
        let peer = Peer {
            id,
            wire,
            name,
            target,
            is_connected: target.is_none(),
            readable: true,
            since: now,
            alive: now,
            messages: 0,
            sent: 0,
            has_asked_echo: false,
            is_open: false,
            closing: None,
            has_said_all: false,
            has_heard_all: false,
        };
        self.peers.insert(token, peer);
        Some(token)
    }

    fn read(&mut self, now: Moment, datapath: &mut dyn Datapath) {
        let tokens: Vec<usize> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(peer) = self.peers.get(&token).filter(|peer| peer.is_connected) else {
                continue;
            };
            let is_closing = peer.closing.is_some() && peer.readable;
            if !is_closing && !self.can_read(peer) {
                continue;
            }
            let Some(peer) = self.peers.get_mut(&token) else { continue };
            let mut octets = Vec::new();
            let taken = peer.wire.read(&mut octets);
            peer.readable = matches!(taken, Ok(Taken::Some));
            self.counters.received_octets += octets.len() as u64;
            if is_closing {
                // What is not read would make the system forget what was said last.
                if taken.is_err() {
                    self.lose(token, Loss::Refused);
                }
                continue;
            }
            if !octets.is_empty() {
                let outcome = self.agent.receive(now, peer.id, &octets, datapath);
                self.carry_out(outcome);
            }
            match taken {
                Ok(_) => {}
                Err(End::Finished) => {
                    if let Some(peer) = self.peers.get_mut(&token) {
                        peer.has_heard_all = true;
                        peer.closing.get_or_insert(Instant::now() + LINGER);
                    }
                }
                Err(end) => self.lose(token, Loss::Ended(end)),
            }
        }
    }

    fn carry_out(&mut self, outcome: Outcome) {
        if outcome == Outcome::default() {
            return;
        }
        let tokens: BTreeMap<ConnectionId, usize> =
            self.peers.iter().map(|(token, peer)| (peer.id, *token)).collect();
        let mut slow = Vec::new();
        for (id, octets) in outcome.send {
            let Some(token) = tokens.get(&id) else { continue };
            let Some(peer) = self.peers.get_mut(token) else { continue };
            peer.wire.push(&octets);
            if peer.wire.waiting() > self.settings.max_waiting_octets {
                slow.push(*token);
            } else if peer.wire.waiting() > CONGESTED_OCTETS {
                self.agent.set_congested(id, true);
            }
        }
        for token in slow {
            self.lose(token, Loss::Slow);
        }
        for id in outcome.close {
            if let Some(peer) = tokens.get(&id).and_then(|token| self.peers.get_mut(token)) {
                peer.closing = Some(Instant::now() + LINGER);
            }
        }
    }

    fn write(&mut self) {
        let tokens: Vec<usize> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(peer) = self.peers.get_mut(&token) else { continue };
            if !peer.is_connected {
                continue;
            }
            let before = peer.wire.sent;
            let written = if peer.wire.wants_write() { peer.wire.write() } else { Ok(true) };
            self.counters.sent_octets += peer.wire.sent - before;
            if peer.wire.waiting() < CONGESTED_OCTETS / 2 {
                self.agent.set_congested(peer.id, false);
            }
            match written {
                Ok(true) if peer.closing.is_some() && !self.agent.is_at_work(peer.id) => {
                    if peer.has_heard_all {
                        self.lose(token, Loss::Ended(End::Finished));
                    } else if !peer.has_said_all {
                        peer.has_said_all = true;
                        peer.wire.finish();
                    }
                }
                Ok(_) => {}
                Err(end) => self.lose(token, Loss::Ended(end)),
            }
        }
    }
}
