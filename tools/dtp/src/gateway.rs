//! `heddle dtp gateway`: between DTP and TCP, for programs that know one of them alone.
//!
//! One connection of TCP stands for one flow. What one side ends the other ends too, direction by direction; a connection that breaks resets its flow, and a
//! flow that breaks resets its connection. Whoever reads too slowly slows the writer at the other end down: no octets are held but in the buffers of sockets and flows.

use crate::keys;
use crate::{Connector, DtpListener, DtpStream, Endpoint, Settings};
use clap::Args;
use heddle_core::dtp::modern::{Identity, Pattern};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The reason of a flow whose connection to the TCP server could not be opened.
pub const REFUSED: u32 = 1;

/// The reason of a flow whose TCP connection broke.
pub const BROKEN: u32 = 2;

/// For how long a TCP server may take to answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Octets that a pump carries at a time.
const PIECE_OCTETS: usize = 1 << 16;

/// Arguments of `gateway`.
#[derive(Args)]
pub struct GatewayArgs {
    /// Take flows of DTP at this address and carry them to the TCP server of --to
    #[arg(long, requires = "to", conflicts_with = "accept")]
    listen: Option<SocketAddr>,
    /// The TCP server, host:port; resolved anew for each flow
    #[arg(long, requires = "listen")]
    to: Option<String>,
    /// Take TCP connections at this address and carry them over DTP to the server of --server
    #[arg(long, requires = "server", required_unless_present = "listen")]
    accept: Option<SocketAddr>,
    /// The gateway or server that speaks DTP, host:port
    #[arg(long, requires = "accept")]
    server: Option<String>,
    /// With --listen: the private key that clients know this gateway by. With --accept: this client's own
    #[arg(long)]
    key: Option<PathBuf>,
    /// With --listen: public keys of the clients that are let in, one a line; without it everybody is
    #[arg(long, requires = "listen", requires = "key")]
    authorized: Option<PathBuf>,
    #[command(flatten)]
    known: KnownArgs,
    /// Flows or connections at a time
    #[arg(long, default_value_t = 64, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    flows: usize,
    /// With --listen: flows that one address may have
    #[arg(long, default_value_t = 64, requires = "listen", value_parser = clap::value_parser!(u16).range(1..))]
    flows_of_address: u16,
    /// Octets that are buffered for a flow, each way
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(4096..=1 << 26))]
    buffer: usize,
    /// The longest silence that is borne, in seconds
    #[arg(long, default_value_t = 24 * 3600)]
    keep_alive: u64,
    /// Print what was counted every so many seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count_every: Option<u64>,
    /// Print it as JSON, an object a line
    #[arg(long, requires = "count_every")]
    json: bool,
}

/// How a server of DTP is known.
#[derive(Args)]
pub struct KnownArgs {
    /// The DTP server's public key, 64 hexadecimal digits
    #[arg(long, conflicts_with = "psk")]
    pub server_key: Option<String>,
    /// A file with a key of 64 hexadecimal digits that both ends share
    #[arg(long)]
    pub psk: Option<PathBuf>,
    /// Known servers, one `host:port key` a line
    #[arg(long, env = "HEDDLE_KNOWN_SERVERS")]
    pub known: Option<PathBuf>,
}

/// What a gateway counts.
#[derive(Default)]
struct Counts {
    opened: AtomicU64,
    active: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    over_limit: AtomicU64,
    to_tcp_octets: AtomicU64,
    to_dtp_octets: AtomicU64,
}

impl Counts {
    fn all(&self) -> [(&'static str, u64); 7] {
        [
            ("gateway_opened", &self.opened),
            ("gateway_active", &self.active),
            ("gateway_refused", &self.refused),
            ("gateway_broken", &self.broken),
            ("gateway_over_limit", &self.over_limit),
            ("gateway_to_tcp_octets", &self.to_tcp_octets),
            ("gateway_to_dtp_octets", &self.to_dtp_octets),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// Runs a gateway, for ever.
///
/// # Errors
/// Those of keys and sockets, in a sentence.
pub(crate) fn run(args: &GatewayArgs, out: &mut impl Write) -> io::Result<()> {
    match (args.listen, &args.to, args.accept, &args.server) {
        (Some(address), Some(to), None, _) => serve(args, address, to, out),
        (None, _, Some(address), Some(server)) => {
            let connector = connector(args, server)?;
            connector.follow(server)?;
            let listener = TcpListener::bind(address)?;
            writeln!(out, "accepting at {}", listener.local_addr()?)?;
            out.flush()?;
            let counts = Arc::new(Counts::default());
            tell(args, connector.endpoint(), &counts)?;
            accept(&listener, &connector, server, args.flows, &counts)
        }
        _ => Err(crate::cli::invalid("give --listen with --to, or --accept with --server")),
    }
}

fn serve(
    args: &GatewayArgs,
    address: SocketAddr,
    to: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let private = args.key.as_deref().map(keys::read_private).transpose()?;
    let pre_shared = args.known.psk.as_deref().map(keys::read_private).transpose()?;
    let authorized = args.authorized.as_deref().map_or(Ok(Vec::new()), keys::read_authorized)?;
    let mut patterns = Vec::new();
    match (&private, &args.authorized) {
        (Some(_), Some(_)) => patterns.push(Pattern::KnownServerClientKey),
        (Some(_), None) => patterns.extend([Pattern::KnownServer, Pattern::UnknownServer]),
        (None, _) => {}
    }
    if pre_shared.is_some() {
        patterns.push(Pattern::PreShared);
    }
    if patterns.is_empty() {
        return Err(crate::cli::invalid("a gateway that listens needs --key or --psk"));
    }
    let settings = Settings {
        identity: Identity { private, server: None, pre_shared },
        patterns,
        authorized,
        flows_of_address: args.flows_of_address,
        ..settings(args)
    };
    let listener = DtpListener::bind(address, &settings)?;
    if let Some(private) = &private {
        writeln!(out, "key {}", hex::encode(keys::public(private)))?;
    }
    writeln!(out, "listening at {} for {to}", listener.local_addr())?;
    out.flush()?;
    let counts = Arc::new(Counts::default());
    tell(args, listener.endpoint(), &counts)?;
    loop {
        let (stream, peer) = listener.accept()?;
        let (to, counts) = (to.to_owned(), Arc::clone(&counts));
        std::thread::Builder::new().name("gateway".into()).spawn(move || match open(&to) {
            Ok(tcp) => carry(&stream, &tcp, &counts),
            Err(error) => {
                tracing::warn!(%peer, %error, to, "not connected");
                counts.refused.fetch_add(1, Ordering::Relaxed);
                stream.abort(REFUSED);
            }
        })?;
    }
}

fn settings(args: &GatewayArgs) -> Settings {
    Settings {
        flows: args.flows,
        actives: args.flows,
        buffer: args.buffer,
        keep_alive_cap: Duration::from_secs(args.keep_alive),
        ..Settings::default()
    }
}

fn connector(args: &GatewayArgs, server: &str) -> io::Result<Connector> {
    let trust = crate::run::trust(&args.known, server)?;
    let mut connector = Connector::with_settings(trust, &settings(args))?;
    connector.private = args.key.as_deref().map(keys::read_private).transpose()?;
    connector.keep_alive = Duration::from_secs(args.keep_alive);
    Ok(connector)
}

fn tell(args: &GatewayArgs, endpoint: &Endpoint, counts: &Arc<Counts>) -> io::Result<()> {
    let Some(seconds) = args.count_every else { return Ok(()) };
    let (endpoint, counts, json) = (endpoint.clone(), Arc::clone(counts), args.json);
    std::thread::Builder::new().name("counts".into()).spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(seconds));
            let all = counts.all().into_iter().chain(endpoint.counters());
            if json {
                let all: Vec<String> =
                    all.map(|(name, count)| format!("\"{name}\":{count}")).collect();
                eprintln!("{{{}}}", all.join(","));
            } else {
                let all: Vec<String> = all
                    .filter(|(_, count)| *count > 0)
                    .map(|(name, count)| format!("{name} {count}"))
                    .collect();
                eprintln!("{}", all.join(", "));
            }
        }
    })?;
    Ok(())
}

/// Carries the connections that come to `listener` over DTP to `server`, for ever.
fn accept(
    listener: &TcpListener,
    connector: &Connector,
    server: &str,
    most: usize,
    counts: &Arc<Counts>,
) -> io::Result<()> {
    loop {
        let (tcp, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or the client has gone meanwhile: there will be others.
                tracing::warn!(%error, "not accepted");
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        if counts.active.load(Ordering::Acquire) >= most as u64 {
            counts.over_limit.fetch_add(1, Ordering::Relaxed);
            reset(&tcp);
            continue;
        }
        let (connector, server, counts) =
            (connector.clone(), server.to_owned(), Arc::clone(counts));
        std::thread::Builder::new().name("gateway".into()).spawn(move || {
            match connector.connect(&server[..]) {
                Ok(stream) => carry(&stream, &tcp, &counts),
                Err(error) => {
                    tracing::warn!(%peer, %error, server, "not connected");
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                    reset(&tcp);
                }
            }
        })?;
    }
}

/// Takes connections at `listener` and carries each over DTP in threads of its own.
pub(crate) fn accept_in_background(
    listener: TcpListener,
    connector: Connector,
    server: String,
    most: usize,
) -> io::Result<()> {
    let counts = Arc::new(Counts::default());
    std::thread::Builder::new()
        .name("accept".into())
        .spawn(move || accept(&listener, &connector, &server, most, &counts))?;
    Ok(())
}

fn open(to: &str) -> io::Result<TcpStream> {
    let mut result = Err(crate::cli::invalid("the name has no address"));
    for address in to.to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, CONNECT_PATIENCE);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Lets the peer see a broken connection, not one that has ended, and wakes up whoever reads or writes here.
fn reset(tcp: &TcpStream) {
    // Undoing the connection sends RST and nothing before it, as shutdown would.
    if rustix::net::connect_unspec(tcp).is_err() {
        // Kernels before 6.7 refuse it while somebody waits. The peer may see the end of the stream first then.
        let _ = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
        let _ = tcp.shutdown(Shutdown::Both);
    }
}

/// Carries octets both ways until both have ended or one is broken.
fn carry(stream: &DtpStream, tcp: &TcpStream, counts: &Counts) {
    counts.opened.fetch_add(1, Ordering::Relaxed);
    counts.active.fetch_add(1, Ordering::AcqRel);
    // Each piece goes out as it comes.
    let _ = tcp.set_nodelay(true);
    let worked = std::thread::scope(|scope| {
        let to_dtp = std::thread::Builder::new().name("to-dtp".into()).spawn_scoped(scope, || {
            let ended = pump(tcp, stream, &counts.to_dtp_octets)
                .and_then(|()| stream.shutdown(Shutdown::Write));
            if ended.is_err() {
                stream.abort(BROKEN);
                reset(tcp);
            }
            ended.is_ok()
        });
        let ended = to_dtp
            .as_ref()
            .map_or(Err(io::ErrorKind::Other.into()), |_| pump(stream, tcp, &counts.to_tcp_octets));
        let ended = match ended {
            Ok(()) => {
                // A connection that is gone by now has heard all that it wanted.
                let _ = tcp.shutdown(Shutdown::Write);
                true
            }
            Err(_) => {
                stream.abort(BROKEN);
                reset(tcp);
                false
            }
        };
        to_dtp.is_ok_and(|thread| thread.join().unwrap_or(false)) && ended
    });
    if !worked {
        counts.broken.fetch_add(1, Ordering::Relaxed);
    }
    counts.active.fetch_sub(1, Ordering::AcqRel);
}

/// Carries octets until `from` ends, and counts them.
///
/// # Errors
/// Those of either side.
pub fn pump(mut from: impl Read, mut to: impl Write, octets: &AtomicU64) -> io::Result<()> {
    let mut piece = vec![0; PIECE_OCTETS];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(piece.get(..count).unwrap_or_default())?;
        octets.fetch_add(count as u64, Ordering::Relaxed);
    }
}
