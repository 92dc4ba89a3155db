//! Sockets and time for the controller.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use heddle_core::node::Instant;
use mio::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use super::announcement::ANNOUNCEMENT_GROUP;
use super::config::Config;
use super::counters::Counters;
use super::machine::{ConnectionId, Controller};
use super::store::{StateStore, StoreError};
use crate::driver::Wire;
use crate::{Tls, TlsError};

/// Connections at a time, at most: fewer than the files that a process may usually have open, 1024.
const MAX_CONNECTIONS: usize = 512;

/// Octets that may wait for a switch that does not read. One that has more is let go.
const MAX_PENDING_OCTETS: usize = 256 << 20;

/// Octets of the longest datagram, and datagrams that are taken from one socket before the others have their turn.
const DATAGRAM_OCTETS: usize = 1 << 16;
const MAX_DATAGRAMS: usize = 64;

/// The longest wait before a request to stop is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How long a store that could not save is left alone.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why the controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// No address to listen at.
    #[error(
        "there is nothing to listen at: name at least one tcp:ADDRESS:PORT or tls:ADDRESS:PORT"
    )]
    NothingToListenAt,
    /// Not an address.
    #[error(
        "'{0}' is nothing to listen at: it must be tcp:ADDRESS:PORT or tls:ADDRESS:PORT, as in tcp:0.0.0.0:6653 or tls:[::]:6653"
    )]
    Address(String),
    /// TLS without certificates.
    #[error(
        "'{0}' needs certificates: the configuration must have tls = {{ certificate = FILE, key = FILE, authority = FILE }}"
    )]
    NoCertificates(String),
    /// The certificates are of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
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

/// Where switches connect to, with TLS or without.
struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
}

/// A switch's connection.
struct Connection {
    wire: Wire,
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
    let tls = config.tls.as_ref().map(Tls::load).transpose()?;
    let listeners = listen(&config.listen, tls.as_ref())?;
    let announcements = config.announcements.map(listen_udp).transpose()?;
    let began = Clock::now();
    let now = || Instant::from_nanos(began.elapsed().as_nanos() as u64);
    let mut controller = Controller::new(now(), config, program, store.load()?);
    // What the last start was is known before anybody hears of this one.
    store.save(&controller.state())?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().filter_map(|listener| listener.socket.local_addr().ok()).collect();
    ready(&addresses);

    let mut connections = BTreeMap::<ConnectionId, Connection>::new();
    let mut save_after = Instant::ZERO;
    let mut datagram = vec![0; DATAGRAM_OCTETS];
    let mut octets = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let timeout = controller.deadline().map_or(LONGEST_WAIT, |deadline| {
            deadline.since(now()).min(LONGEST_WAIT).max(Duration::from_millis(1))
        });
        wait(&listeners, announcements.as_ref(), &connections, timeout)?;
        for listener in &listeners {
            accept(listener, now(), &mut controller, &mut connections);
        }
        if let Some(socket) = &announcements {
            take_datagrams(socket, &mut datagram, now(), &mut controller);
        }
        for (id, connection) in &mut connections {
            octets.clear();
            connection.has_ended |= connection.wire.read(&mut octets).is_err();
            controller.receive(now(), *id, &octets);
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
                connection.wire.push(&octets);
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
        let is_lost = self.wire.write().is_err();
        self.has_ended |= is_lost || self.wire.waiting() > MAX_PENDING_OCTETS;
    }
}

/// Waits until a socket has something, or can take something that waits for it.
fn wait(
    listeners: &[Listener],
    announcements: Option<&UdpSocket>,
    connections: &BTreeMap<ConnectionId, Connection>,
    timeout: Duration,
) -> Result<(), DriverError> {
    let mut sockets: Vec<PollFd<'_>> =
        listeners.iter().map(|listener| PollFd::new(&listener.socket, PollFlags::IN)).collect();
    sockets.extend(announcements.map(|socket| PollFd::new(socket, PollFlags::IN)));
    sockets.extend(connections.values().map(|connection| {
        let writes =
            if connection.wire.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::new(&connection.wire.stream, PollFlags::IN | writes)
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
    listener: &Listener,
    now: Instant,
    controller: &mut Controller,
    connections: &mut BTreeMap<ConnectionId, Connection>,
) {
    while let Ok((stream, from)) = listener.socket.accept() {
        if connections.len() >= MAX_CONNECTIONS {
            tracing::warn!("{from} is let go: there are {MAX_CONNECTIONS} connections already");
            continue;
        }
        // Messages are small, and one that waits for the next helps nobody.
        if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_err() {
            continue;
        }
        let tls = match listener.tls.as_ref().map(Tls::accepting).transpose() {
            Ok(tls) => tls.map(rustls::Connection::from),
            Err(error) => {
                tracing::warn!("{from} is let go: {error}");
                continue;
            }
        };
        let id = controller.connect(now);
        let wire = Wire::new(TcpStream::from_std(stream), tls);
        connections.insert(id, Connection { wire, has_ended: false });
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

fn listen(addresses: &[String], tls: Option<&Tls>) -> Result<Vec<Listener>, DriverError> {
    if addresses.is_empty() {
        return Err(DriverError::NothingToListenAt);
    }
    let one = |text: &String| {
        let (transport, address) = text.split_once(':').unwrap_or_default();
        let address: SocketAddr =
            address.parse().map_err(|_| DriverError::Address(text.clone()))?;
        let tls = match transport {
            "tcp" => None,
            "tls" => Some(tls.ok_or_else(|| DriverError::NoCertificates(text.clone()))?),
            _ => return Err(DriverError::Address(text.clone())),
        };
        let bind = || {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(Listener { socket, tls: tls.cloned() })
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
