//! Sockets and time for an agent: connections to controllers and from them, over TCP and TLS, IPv4 and IPv6.
//!
//! A [`Driver`] belongs to one thread, which calls [`Driver::poll`] or [`Driver::run_until`]. Nothing that one peer does keeps the others
//! waiting: sockets do not block, what is read and done for one in a turn is bounded, and so is what waits to be sent. Whoever sends
//! half a message and no more, says nothing, does not read, or says what is no OpenFlow is let go, with a log line and a counter.

mod counters;
mod settings;
mod target;
mod wire;

pub use counters::Counters;
pub use settings::{FailMode, Settings};

use crate::agent::{Agent, ConnectionId, Outcome};
use crate::datapath::Datapath;
use crate::{Address, Body, Message, Tls, TlsError, Transport};
use heddle_core::node::Instant as Moment;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use target::{State, Target};
use tracing::{info, warn};
use wire::{End, Taken, Wire};

/// Frames for controllers wait so long, at most, before they are looked for.
const TICK: Duration = Duration::from_millis(1);
/// Octets that may wait before a controller counts as congested.
const CONGESTED_OCTETS: usize = 256 * 1024;
/// A controller that reads fewer octets than this within the limit of silence does not count as reading.
const LEAST_READ_OCTETS: u64 = 4096;
/// How long a connection that is to be closed may take to read what was said last.
const LINGER: Duration = Duration::from_secs(2);
/// Connections that are accepted on one listener in a turn.
const ACCEPTS_A_TURN: usize = 16;
/// The transaction of our echo requests.
const ECHO_XID: u32 = 0x6865_6464;

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

/// A connection.
struct Peer {
    id: ConnectionId,
    wire: Wire,
    name: String,
    /// The controller that it was opened to, by its place in the list.
    target: Option<usize>,
    /// Whether the socket is connected: one that was opened from here is not at first.
    is_connected: bool,
    /// The socket may have something to read, or take something to send.
    readable: bool,
    since: Instant,
    /// When it was last seen to be there, and what it had said and read by then.
    alive: Instant,
    messages: u64,
    sent: u64,
    has_asked_echo: bool,
    /// Whether hello has been said.
    is_open: bool,
    /// It is closed once the other side has read all and closed too, or then.
    closing: Option<Instant>,
    has_said_all: bool,
    /// The other side has said all: it gets its last answers.
    has_heard_all: bool,
}

struct Listener {
    address: Address,
    socket: TcpListener,
    is_ready: bool,
}

/// Why a connection is let go.
enum Loss {
    Ended(End),
    NoHello,
    Silent,
    Slow,
    Refused,
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
                listeners.push(Listener { address: address.clone(), socket, is_ready: true });
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
            || self.listeners.iter().any(|listener| listener.is_ready)
            || self.peers.values().any(|peer| self.can_read(peer))
    }

    fn can_read(&self, peer: &Peer) -> bool {
        peer.readable && peer.closing.is_none() && self.agent.wants_input(peer.id)
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
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_A_TURN {
                let Some(listener) = self.listeners.get_mut(at).filter(|one| one.is_ready) else {
                    break;
                };
                let transport = listener.address.transport;
                match listener.socket.accept() {
                    Ok((stream, from)) => self.take_in(stream, from, transport),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        listener.is_ready = false
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // The peer has gone before it was looked at, or there are no more descriptors: the next turn tries again.
                    Err(error) => {
                        warn!("cannot take a connection at {}: {error}", listener.address);
                        break;
                    }
                }
            }
        }
    }

    fn take_in(&mut self, stream: TcpStream, from: SocketAddr, transport: Transport) {
        let others = self.peers.values().filter(|peer| peer.target.is_none()).count();
        if others >= self.settings.max_connections {
            self.counters.too_many += 1;
            warn!("{from} is one connection too many");
            return;
        }
        let tls = match (&self.tls, transport) {
            (Some(tls), Transport::Tls) => match tls.accepting() {
                Ok(tls) => Some(tls.into()),
                Err(error) => {
                    self.counters.tls_failed += 1;
                    warn!("{from}: {error}");
                    return;
                }
            },
            _ => None,
        };
        self.counters.accepted += 1;
        info!("{from} has connected");
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
            warn!("cannot wait for {name}: {error}");
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

    /// Lets go who has been silent for too long, and asks the others whether they are there.
    fn check_times(&mut self, now: Instant) {
        let mut lost = Vec::new();
        for (token, peer) in &mut self.peers {
            let messages = self.agent.messages(peer.id);
            if messages != peer.messages || peer.wire.sent - peer.sent >= LEAST_READ_OCTETS {
                (peer.alive, peer.messages, peer.sent) = (now, messages, peer.wire.sent);
                peer.has_asked_echo = false;
            }
            if let Some(end) = peer.closing {
                if now >= end {
                    let loss = match peer.has_heard_all {
                        true => Loss::Ended(End::Finished),
                        false => Loss::Refused,
                    };
                    lost.push((*token, loss));
                }
                continue;
            }
            if !peer.is_open && self.agent.is_open(peer.id) {
                peer.is_open = true;
                if let Some(target) = peer.target.and_then(|at| self.targets.get_mut(at)) {
                    target.succeed(&self.settings);
                    self.counters.connected += 1;
                    info!("controller {} is there", peer.name);
                }
            }
            if !peer.is_open {
                if now.duration_since(peer.since) >= self.settings.hello_limit {
                    lost.push((*token, Loss::NoHello));
                }
                continue;
            }
            let silence = now.duration_since(peer.alive);
            if silence >= self.settings.silence_limit {
                lost.push((*token, Loss::Silent));
            } else if silence >= self.settings.echo_interval && !peer.has_asked_echo {
                peer.has_asked_echo = true;
                if let Ok(echo) = Message::new(ECHO_XID, Body::EchoRequest(Vec::new())).encode() {
                    peer.wire.push(&echo);
                }
            }
        }
        for (token, loss) in lost {
            self.lose(token, loss);
        }
    }

    /// Forgets a connection.
    fn lose(&mut self, token: usize, loss: Loss) {
        let Some(mut peer) = self.peers.remove(&token) else { return };
        let (name, counters) = (&peer.name, &mut self.counters);
        match &loss {
            // Told with the wait for the next attempt.
            Loss::Ended(End::Closed(_) | End::Finished)
                if peer.target.is_some() && !peer.is_open => {}
            Loss::Ended(End::Finished) => {
                counters.closed += 1;
                info!("{name} has closed its connection");
            }
            Loss::Ended(End::Closed(why)) => {
                counters.closed += 1;
                info!("the connection to {name} has failed: {why}");
            }
            Loss::Ended(End::Tls(why)) => {
                counters.tls_failed += 1;
                warn!("no TLS with {name}: {why}");
            }
            Loss::NoHello => {
                counters.no_hello += 1;
                warn!("{name} has not said hello in time");
            }
            Loss::Silent => {
                counters.silent += 1;
                warn!("{name} has been silent for too long");
            }
            Loss::Slow => {
                counters.slow += 1;
                warn!("{name} does not read what it is sent");
            }
            Loss::Refused => {
                counters.refused += 1;
                warn!("{name} does not speak OpenFlow 1.3 as it should");
            }
        }
        self.agent.disconnect(peer.id);
        if !matches!(loss, Loss::Ended(_)) && !peer.has_said_all {
            peer.wire.finish();
        }
        // It is closed in any case.
        let _ = self.poll.registry().deregister(&mut peer.wire.stream);
        if let Some(target) = peer.target.and_then(|at| self.targets.get_mut(at)) {
            if !peer.is_open {
                counters.unreachable += 1;
            }
            let wait = target.fail(&self.settings);
            let why = match loss {
                Loss::Ended(End::Closed(why)) => why,
                Loss::Ended(End::Finished) => "it has closed the connection".to_owned(),
                _ => "it was let go".to_owned(),
            };
            warn!(
                "controller {name} is not there ({why}); next attempt in {:.1} s",
                wait.as_secs_f64()
            );
        }
    }

    /// Makes the attempts whose time has come.
    fn reach_controllers(&mut self, now: Instant) {
        for at in 0..self.targets.len() {
            let Some(target) = self.targets.get_mut(at) else { continue };
            if matches!(target.state, State::Waiting(when) if now >= when) {
                let waker = self.waker.clone();
                // A wait that is not ended ends by itself.
                target.resolve(move || drop(waker.wake()));
            }
            let State::Resolving(told) = &target.state else { continue };
            let found = match told.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => continue,
                Err(error) => Err(io::Error::other(error)),
                Ok(found) => found,
            };
            let address = target.address.clone();
            let connected = found.and_then(|found| {
                let socket = target.choose(&found).ok_or(ErrorKind::NotFound)?;
                TcpStream::connect(socket)
            });
            let tls = match (&self.tls, address.transport) {
                (Some(tls), Transport::Tls) => {
                    tls.connecting(&address.host).map(|tls| Some(tls.into()))
                }
                _ => Ok(None),
            };
            let begun = match (connected, tls) {
                (Ok(stream), Ok(tls)) => self.begin(stream, tls, address.to_string(), Some(at)),
                (Err(error), _) => self.note_failure(&address, &error.to_string()),
                (_, Err(error)) => self.note_failure(&address, &error.to_string()),
            };
            let Some(target) = self.targets.get_mut(at) else { continue };
            match begun {
                Some(token) => target.state = State::Connected(token),
                None => {
                    target.fail(&self.settings);
                }
            }
        }
    }

    fn note_failure(&mut self, address: &Address, why: &str) -> Option<usize> {
        self.counters.unreachable += 1;
        warn!("cannot reach controller {address}: {why}");
        None
    }

    fn check_fail_mode(&mut self, now: Instant, datapath: &mut dyn Datapath) {
        let is_there = self.controllers().any(|(_, is_there)| is_there);
        if is_there || self.targets.is_empty() || self.settings.fail_mode == FailMode::Secure {
            self.alone_since = None;
            if self.is_standalone {
                self.is_standalone = false;
                datapath.set_standalone(false);
                info!("a controller is there again: the switch goes by its flows");
            }
            return;
        }
        let since = *self.alone_since.get_or_insert(now);
        if !self.is_standalone && now.duration_since(since) >= self.settings.fail_after {
            self.is_standalone = true;
            self.counters.standalone += 1;
            datapath.set_standalone(true);
            warn!("no controller is there: the switch floods");
        }
    }
}
