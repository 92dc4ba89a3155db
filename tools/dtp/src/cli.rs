//! `heddle dtp`: files over a transport that outlives its network.

use crate::files::{self, Progress};
use crate::gateway;
use crate::keys;
use crate::live;
use crate::run as run_program;
use crate::session::{self, Session};
use crate::{Congestion, Connector, DtpListener, Endpoint, Settings, Steered, Trust};
use clap::{Args, Subcommand, ValueEnum};
use heddle_core::dtp::modern::{Identity, Pattern};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Serve and fetch files over DTP, which outlives outages and changes of address.
#[derive(Subcommand)]
pub enum Command {
    /// Make a key pair: KEY (private) and KEY.pub
    Keygen {
        /// The file of the private key; it must not be there yet
        key: PathBuf,
    },
    /// Serve the files of a directory
    Serve(ServeArgs),
    /// Fetch a file; a transfer that was cut off or killed goes on
    Get(GetArgs),
    /// Send a file; a transfer that was cut off or killed goes on
    Put(PutArgs),
    /// Carry TCP over DTP, for programs and servers that know TCP alone
    Gateway(gateway::GatewayArgs),
    /// Run a program whose TCP connections to some hosts go over DTP
    Run(run_program::RunArgs),
    /// List the flows of the processes that run
    Flows(live::FlowsArgs),
}

/// Control of congestion.
#[derive(Copy, Clone, ValueEnum)]
pub enum CongestionName {
    /// RFC 9438
    Cubic,
    /// Version 3
    Bbr,
}

impl From<CongestionName> for Congestion {
    fn from(name: CongestionName) -> Self {
        match name {
            CongestionName::Cubic => Self::Cubic,
            CongestionName::Bbr => Self::Bbr,
        }
    }
}

/// A number that memory is taken for.
fn from_to(least: u64, most: u64) -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(least..=most)
}

/// Arguments of `serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// The directory
    directory: PathBuf,
    /// Address and port to listen at
    #[arg(long, default_value = "[::]:4433")]
    listen: SocketAddr,
    /// The server's private key
    #[arg(long, required_unless_present = "psk")]
    key: Option<PathBuf>,
    /// A file with a key of 64 hexadecimal digits that clients share
    #[arg(long)]
    psk: Option<PathBuf>,
    /// Public keys of the clients that are let in, one a line; without it everybody is
    #[arg(long, requires = "key")]
    authorized: Option<PathBuf>,
    /// Take files too
    #[arg(long)]
    writable: bool,
    /// The longest silence that a client may ask for, in seconds
    #[arg(long, default_value_t = 7 * 24 * 3600)]
    keep_alive_cap: u64,
    /// Flows at a time
    #[arg(long, default_value_t = 1024, value_parser = from_to(1, 1 << 20))]
    flows: usize,
    /// Flows that transfer at the same time; each takes twice the buffer
    #[arg(long, default_value_t = 16, value_parser = from_to(1, 1 << 16))]
    active: usize,
    /// Octets that are buffered for a flow, each way
    #[arg(long, default_value_t = 4 << 20, value_parser = from_to(4096, 1 << 30))]
    buffer: usize,
    /// Control of congestion
    #[arg(long, value_enum, default_value_t = CongestionName::Cubic)]
    congestion: CongestionName,
    /// A directory for tickets, made if it is not there: transfers go on after a restart of this server
    #[arg(long)]
    state: Option<PathBuf>,
    /// This server's number among those that share one address behind a steering middlebox
    #[arg(long, requires = "id_key")]
    server_number: Option<u16>,
    /// The file with the key of 64 hexadecimal digits that the middlebox and its servers share for connection ids
    #[arg(long, requires = "server_number")]
    id_key: Option<PathBuf>,
    /// Print the flows and what was counted every so many seconds
    #[arg(long)]
    flows_every: Option<u64>,
}

/// Where the server is and how it is known.
#[derive(Args)]
pub struct ServerArgs {
    /// host:port
    server: String,
    /// The server's public key, 64 hexadecimal digits
    #[arg(long, conflicts_with = "psk")]
    server_key: Option<String>,
    /// A file with a key of 64 hexadecimal digits that the server shares
    #[arg(long)]
    psk: Option<PathBuf>,
    /// Known servers, one `host:port key` a line
    #[arg(long, env = "HEDDLE_KNOWN_SERVERS")]
    known: Option<PathBuf>,
    /// Trust a server that is not known, and remember its key
    #[arg(long)]
    trust_on_first_use: bool,
    /// This client's private key
    #[arg(long)]
    key: Option<PathBuf>,
    /// Silence to be borne, in seconds
    #[arg(long, default_value_t = 24 * 3600)]
    keep_alive: u64,
    /// Give up after so many seconds
    #[arg(long)]
    deadline: Option<u64>,
    /// Control of congestion
    #[arg(long, value_enum, default_value_t = CongestionName::Cubic)]
    congestion: CongestionName,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
    /// The directory for tickets, by which the same command goes on after it was killed [default: heddle/dtp in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long)]
    state: Option<PathBuf>,
    /// Print what it came to as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `get`.
#[derive(Args)]
pub struct GetArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The file's name at the server
    name: String,
    /// Where to put it; the last part of its name by default
    target: Option<PathBuf>,
}

/// Arguments of `put`.
#[derive(Args)]
pub struct PutArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The file
    source: PathBuf,
    /// Its name at the server; the last part of its own by default
    name: Option<String>,
}

/// Runs a command.
///
/// # Errors
/// In a sentence.
pub fn run(command: &Command, out: &mut impl Write) -> io::Result<()> {
    match command {
        Command::Keygen { key } => {
            let public = keys::generate(key).map_err(|error| at(key, error))?;
            writeln!(out, "{}", hex::encode(public))
        }
        Command::Serve(args) => serve(args, out),
        Command::Gateway(args) => gateway::run(args, out),
        Command::Run(args) => run_program::run(args),
        Command::Flows(args) => live::run(args, out),
        Command::Get(args) => {
            let target = match (&args.target, Path::new(&args.name).file_name()) {
                (Some(target), _) => target.clone(),
                (None, Some(name)) => name.into(),
                (None, None) => return Err(invalid("the name has no last part")),
            };
            let whole = std::path::absolute(&target)?;
            let transfer =
                ["get".as_bytes(), args.name.as_bytes(), whole.as_os_str().as_encoded_bytes()];
            let (session, deadline) = session(&args.server, &transfer)?;
            let _teller = teller(session.connector.endpoint());
            let bar = bar(&args.server);
            let report = session.run(&mut |stream| {
                let tell = &mut |progress| show(&bar, progress);
                files::get(stream, &args.name, &target, deadline, tell)
            })?;
            bar.finish_and_clear();
            match args.server.json {
                true => report.write(out),
                false => writeln!(out, "{} octets in {}", report.octets, target.display()),
            }
        }
        Command::Put(args) => {
            let name = match (&args.name, args.source.file_name()) {
                (Some(name), _) => name.clone(),
                (None, Some(name)) => name.to_string_lossy().into_owned(),
                (None, None) => return Err(invalid("the file's name has no last part")),
            };
            let whole = std::path::absolute(&args.source)?;
            let transfer =
                ["put".as_bytes(), name.as_bytes(), whole.as_os_str().as_encoded_bytes()];
            let (session, deadline) = session(&args.server, &transfer)?;
            let _teller = teller(session.connector.endpoint());
            let bar = bar(&args.server);
            let report = session.run(&mut |stream| {
                let tell = &mut |progress| show(&bar, progress);
                files::put(stream, &args.source, &name, deadline, tell)
            })?;
            bar.finish_and_clear();
            match args.server.json {
                true => report.write(out),
                false => writeln!(out, "{} octets sent as {name}", report.octets),
            }
        }
    }
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

pub(crate) fn invalid(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text.to_owned())
}

/// Without it everything works, only `flows` does not show this process.
fn teller(endpoint: &Endpoint) -> Option<live::Teller> {
    let teller = live::Teller::start(endpoint, None);
    teller.inspect_err(|error| tracing::warn!(%error, "flows are not listed")).ok()
}

fn serve(args: &ServeArgs, out: &mut impl Write) -> io::Result<()> {
    if !args.directory.is_dir() {
        return Err(invalid(&format!("{}: no directory", args.directory.display())));
    }
    let private = args.key.as_deref().map(keys::read_private).transpose()?;
    let pre_shared = args.psk.as_deref().map(keys::read_private).transpose()?;
    let authorized = match &args.authorized {
        Some(path) => keys::read_authorized(path)?,
        None => Vec::new(),
    };
    let steered = match (args.server_number, &args.id_key) {
        (Some(number), Some(path)) => {
            Some(Steered { number, id_key: keys::read_private(path)?.into() })
        }
        _ => None,
    };
    let mut patterns = Vec::new();
    if private.is_some() && args.authorized.is_some() {
        patterns.push(Pattern::KnownServerClientKey);
    } else if private.is_some() {
        patterns.extend([Pattern::KnownServer, Pattern::UnknownServer]);
    }
    if pre_shared.is_some() {
        patterns.push(Pattern::PreShared);
    }
    // The system may refuse this much, and then the process would abort.
    let octets = args.active.saturating_mul(args.buffer).saturating_mul(2);
    Vec::<u8>::new()
        .try_reserve_exact(octets)
        .map_err(|_| invalid(&format!("there is no memory for buffers of {octets} octets")))?;
    let settings = Settings {
        flows: args.flows,
        actives: args.active,
        buffer: args.buffer,
        congestion: args.congestion.into(),
        keep_alive_cap: Duration::from_secs(args.keep_alive_cap),
        identity: Identity { private, server: None, pre_shared },
        patterns,
        authorized,
        tickets: args.state.clone(),
        steered,
        ..Settings::default()
    };
    let listener = DtpListener::bind(args.listen, &settings)?;
    if let Some(private) = &private {
        writeln!(out, "key {}", hex::encode(keys::public(private)))?;
    }
    writeln!(out, "serving {} at {}", args.directory.display(), listener.local_addr())?;
    if listener.restored() > 0 {
        writeln!(out, "{} transfers of before go on", listener.restored())?;
    }
    out.flush()?;
    let _teller = teller(listener.endpoint());
    if let Some(seconds) = args.flows_every {
        let endpoint = listener.endpoint().clone();
        std::thread::Builder::new().name("flows".into()).spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(seconds.max(1)));
                for flow in endpoint.flows() {
                    let (slot, generation) = flow.id;
                    let (own, peer) = flow.restarts;
                    eprintln!(
                        "flow {slot}.{generation} {} {:?} keep-alive {} s, restarts {own} here, {peer} there",
                        flow.peer,
                        flow.phase,
                        flow.keep_alive.as_secs()
                    );
                }
                let counted = endpoint.counters().into_iter().filter(|(_, count)| *count > 0);
                let counted: Vec<String> =
                    counted.map(|(name, count)| format!("{name} {count}")).collect();
                eprintln!("{}", counted.join(", "));
            }
        })?;
    }
    loop {
        let (stream, peer) = listener.accept()?;
        let (root, writable) = (args.directory.clone(), args.writable);
        std::thread::Builder::new().name("serve".into()).spawn(move || {
            match files::serve(&stream, &root, writable) {
                Ok(request) => tracing::info!(%peer, request, "served"),
                Err(error) => tracing::warn!(%peer, %error, "not served"),
            }
        })?;
    }
}

pub(crate) fn default_known() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    Some(Path::new(&home).join(".config/heddle/known-servers"))
}

fn session(args: &ServerArgs, transfer: &[&[u8]]) -> io::Result<(Session, Option<Instant>)> {
    let deadline = args.deadline.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let addresses: Vec<SocketAddr> = args
        .server
        .to_socket_addrs()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", args.server)))?
        .collect();
    let known_path = args.known.clone().or_else(default_known);
    let known =
        known_path.as_deref().map_or(Ok(None), |path| keys::known_server(path, &args.server))?;
    let trust = match (&args.server_key, &args.psk, known) {
        (Some(text), _, _) => Trust::Key(keys::from_text(text)?),
        (_, Some(path), _) => Trust::PreShared(keys::read_private(path)?),
        (_, _, Some(key)) => Trust::Key(key),
        _ if args.trust_on_first_use => {
            let server = args.server.clone();
            Trust::Ask(Arc::new(move |key| {
                eprintln!("{server} shows the key {}: trusted from now on", hex::encode(key));
                match &known_path {
                    Some(path) => keys::remember_server(path, &server, &key)
                        .inspect_err(|error| eprintln!("cannot remember it: {error}"))
                        .is_ok(),
                    None => true,
                }
            }))
        }
        _ => {
            return Err(invalid(&format!(
                "{} is not known: give --server-key, --psk, or --trust-on-first-use to take whatever key it shows",
                args.server
            )));
        }
    };
    let transfer = [&[args.server.as_bytes()], transfer].concat();
    let tickets = session::directory(args.state.as_deref(), &transfer);
    if let Some(state) = tickets.as_deref().and_then(Path::parent) {
        session::sweep(state, SystemTime::now());
    }
    let mut settings = Settings {
        flows: 8,
        actives: 4,
        congestion: args.congestion.into(),
        tickets,
        ..Settings::default()
    };
    let mut connector = match Connector::with_settings(trust.clone(), &settings) {
        // Nobody has asked for tickets, so the transfer does without.
        Err(error) if args.state.is_none() && error.kind() != ErrorKind::ResourceBusy => {
            tracing::warn!(%error, "no tickets");
            settings.tickets = None;
            Connector::with_settings(trust, &settings)?
        }
        other => other?,
    };
    connector.private = args.key.as_deref().map(keys::read_private).transpose()?;
    connector.keep_alive = Duration::from_secs(args.keep_alive);
    connector.follow(&args.server)?;
    Ok((Session { connector, addresses, tickets: settings.tickets, deadline }, deadline))
}

fn bar(args: &ServerArgs) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let style = "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    bar.set_message(if progress.waiting { "waiting for network" } else { "" });
}
