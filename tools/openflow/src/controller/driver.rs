//! Sockets and time for the controller.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use heddle_core::node::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use super::announcement::ANNOUNCEMENT_GROUP;
use super::config::Config;
use super::counters::Counters;
use super::machine::{ConnectionId, Controller};
use super::store::{StateStore, StoreError};

/// Connections at a time, at most: fewer than the files that a process may usually have open, 1024.
const MAX_CONNECTIONS: usize = 512;

/// Octets that may wait for a switch that does not read. One that has more is let go.
const MAX_PENDING_OCTETS: usize = 256 << 20;

/// Octets that are read, and datagrams that are taken, from one socket before the others have their turn.
const READ_OCTETS: usize = 1 << 16;
const MAX_DATAGRAMS: usize = 64;

/// The longest wait before a request to stop is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How long a store that could not save is left alone.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why the controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// No address to listen at.
    #[error("there is nothing to listen at: name at least one tcp:ADDRESS:PORT")]
    NothingToListenAt,
    /// Not an address.
    #[error(
        "'{0}' is nothing to listen at: it must be tcp:ADDRESS:PORT, as in tcp:0.0.0.0:6653 or tcp:[::]:6653"
    )]
    Address(String),
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried, as it follows "cannot".
        doing: String,
        /// Why not.
        source: io::Error,
    },
    /// The program cannot be sent.
    #[error("the program {0} is empty or longer than 16 MiB")]
    Program(PathBuf),
    /// The state cannot be had.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is left to say when a controller ends.
#[derive(Clone, Debug, Serialize)]
pub struct Final {
    /// What it has counted.
    pub counters: Counters,
    /// Prefixes that it knew.
    pub prefixes: usize,
    /// Flows for names that its switches had.
    pub flows: usize,
    /// Switches that were connected.
    pub switches: usize,
}

impl Final {
    /// What there is to say now.
    fn of(controller: &Controller) -> Self {
        Self {
            counters: *controller.counters(),
            prefixes: controller.rib().len(),
            flows: controller.installed_flows(),
            switches: controller.ready_switches().len(),
        }
    }
}

/// A connection's socket and what waits for it.
struct Connection {
    stream: TcpStream,
    pending: Vec<u8>,
    /// Octets at the front of `pending` that have been written.
    written: usize,
    has_ended: bool,
}

/// Runs a controller until `stop`. `ready` is called with the addresses once it listens; when `show` is set, the state of things is handed
/// to `shown`.
///
/// # Errors
/// When it cannot listen, or its program or its state cannot be read.
pub fn run(
    config: Config,
    store: &mut dyn StateStore,
    stop: &AtomicBool,
    show: &AtomicBool,
    ready: impl FnOnce(&[SocketAddr]),
    mut shown: impl FnMut(&Final),
) -> Result<Final, DriverError> {
    let program = read_program(&config)?;
    let listeners = listen(&config.listen)?;
    let announcements = config.announcements.map(listen_udp).transpose()?;
    let began = Clock::now();
    let now = || Instant::from_nanos(began.elapsed().as_nanos() as u64);
    let mut controller = Controller::new(now(), config, program, store.load()?);
    // What the last start was is known before anybody hears of this one.
    store.save(&controller.state())?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    ready(&addresses);

    let mut connections = BTreeMap::<ConnectionId, Connection>::new();
    let mut save_after = Instant::ZERO;
    let mut buffer = vec![0; READ_OCTETS];
    while !stop.load(Ordering::Relaxed) {
        let timeout = controller.deadline().map_or(LONGEST_WAIT, |deadline| {
            deadline.since(now()).min(LONGEST_WAIT).max(Duration::from_millis(1))
        });
        wait(&listeners, announcements.as_ref(), &connections, timeout)?;
        for listener in &listeners {
            accept(listener, now(), &mut controller, &mut connections);
        }
        if let Some(socket) = &announcements {
            take_datagrams(socket, &mut buffer, now(), &mut controller);
        }
        for (id, connection) in &mut connections {
            match connection.stream.read(&mut buffer) {
                Ok(0) => connection.has_ended = true,
                Ok(octets) => {
                    let octets = buffer.get(..octets).unwrap_or_default();
                    controller.receive(now(), *id, octets);
                }
                Err(error) if is_transient(&error) => {}
                Err(_) => connection.has_ended = true,
            }
        }
        connections.retain(|id, connection| {
            if connection.has_ended {
                controller.disconnect(now(), *id);
            }
            !connection.has_ended
        });
        controller.tick(now());
        if now() >= save_after
            && let Some(state) = controller.take_state(now())
        {
            // State comes first: what switches are told must not be forgotten.
            if let Err(error) = store.save(&state) {
                tracing::error!("{error}");
                save_after = now().after(SAVE_AGAIN_AFTER);
                controller.note_change(now());
            }
        }
        for (id, octets) in controller.take_output() {
            if let Some(connection) = connections.get_mut(&id) {
                connection.pending.extend(octets);
            }
        }
        connections.values_mut().for_each(Connection::flush);
        for id in controller.take_closed() {
            connections.remove(&id);
        }
        if show.swap(false, Ordering::Relaxed) {
            shown(&Final::of(&controller));
        }
    }
    store.save(&controller.state())?;
    Ok(Final::of(&controller))
}

impl Connection {
    /// Writes what the socket takes.
    fn flush(&mut self) {
        while let Some(rest) = self.pending.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => self.has_ended = true,
                Ok(octets) => {
                    self.written += octets;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.has_ended = true,
            }
            break;
        }
        self.pending.drain(..self.written);
        self.written = 0;
        self.has_ended |= self.pending.len() > MAX_PENDING_OCTETS;
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits until a socket has something, or can take something that waits for it.
fn wait(
    listeners: &[TcpListener],
    announcements: Option<&UdpSocket>,
    connections: &BTreeMap<ConnectionId, Connection>,
    timeout: Duration,
) -> Result<(), DriverError> {
    let mut sockets: Vec<PollFd<'_>> =
        listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
    sockets.extend(announcements.map(|socket| PollFd::new(socket, PollFlags::IN)));
    sockets.extend(connections.values().map(|connection| {
        let writes =
            if connection.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        PollFd::new(&connection.stream, PollFlags::IN | writes)
    }));
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(0),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut sockets, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => {
            Err(DriverError::Io { doing: "wait for switches".into(), source: errno.into() })
        }
    }
}

fn accept(
    listener: &TcpListener,
    now: Instant,
    controller: &mut Controller,
    connections: &mut BTreeMap<ConnectionId, Connection>,
) {
    while let Ok((stream, from)) = listener.accept() {
        if connections.len() >= MAX_CONNECTIONS {
            tracing::warn!("{from} is let go: there are {MAX_CONNECTIONS} connections already");
            continue;
        }
        // Messages are small, and one that waits for the next helps nobody.
        if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_err() {
            continue;
        }
        let id = controller.connect(now);
        let connection = Connection { stream, pending: Vec::new(), written: 0, has_ended: false };
        connections.insert(id, connection);
    }
}

fn take_datagrams(
    socket: &UdpSocket,
    buffer: &mut [u8],
    now: Instant,
    controller: &mut Controller,
) {
    for _ in 0..MAX_DATAGRAMS {
        let Ok((octets, from)) = socket.recv_from(buffer) else { return };
        let from = match from.ip().to_canonical() {
            IpAddr::V4(address) => address,
            // Forwarders have IPv4 addresses.
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        controller.datagram(now, from, buffer.get(..octets).unwrap_or_default());
    }
}

fn listen(addresses: &[String]) -> Result<Vec<TcpListener>, DriverError> {
    if addresses.is_empty() {
        return Err(DriverError::NothingToListenAt);
    }
    let one = |text: &String| {
        let address = text.strip_prefix("tcp:").and_then(|address| address.parse().ok());
        let address: SocketAddr = address.ok_or_else(|| DriverError::Address(text.clone()))?;
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        bind().map_err(|source| DriverError::Io { doing: format!("listen at {text}"), source })
    };
    addresses.iter().map(one).collect()
}

fn listen_udp(address: SocketAddr) -> Result<UdpSocket, DriverError> {
    let bind = || {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        if address.is_ipv4() && address.ip().is_unspecified() {
            // Where there is no network to hear a group on, announcements still come to our own address.
            if let Err(error) =
                socket.join_multicast_v4(&ANNOUNCEMENT_GROUP, &Ipv4Addr::UNSPECIFIED)
            {
                tracing::info!("announcements to {ANNOUNCEMENT_GROUP} are not heard: {error}");
            }
        }
        Ok(socket)
    };
    bind().map_err(|source| DriverError::Io { doing: format!("listen at udp:{address}"), source })
}

fn read_program(config: &Config) -> Result<Vec<u8>, DriverError> {
    const MAX_OCTETS: usize = 16 << 20;
    let Some(program) = &config.program else { return Ok(Vec::new()) };
    let mut octets = Vec::new();
    std::fs::File::open(&program.file)
        .and_then(|file| file.take(MAX_OCTETS as u64 + 1).read_to_end(&mut octets))
        .map_err(|source| DriverError::Io {
            doing: format!("read the program {}", program.file.display()),
            source,
        })?;
    if octets.is_empty() || octets.len() > MAX_OCTETS {
        return Err(DriverError::Program(program.file.clone()));
    }
    Ok(octets)
}
