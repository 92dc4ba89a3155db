//! `heddle dtp run`: a program that knows TCP alone, with its connections to some hosts over DTP.
//!
//! A library that is loaded before the program's own leads `connect` to a listener of this process on the loopback, which carries the connection over
//! DTP as a gateway does. The program keeps an ordinary TCP socket, so that each other call works as before.

use crate::Connector;
use crate::gateway::{self, KnownArgs};
use crate::{Settings, Trust, cli, keys};
use clap::Args;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, ToSocketAddrs};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The library's file.
const LIBRARY: &str = "libheddle_dtp_preload.so";

/// What tells the library which addresses go where: `ADDRESS:PORT>LOCAL_PORT`, with commas between.
const TABLE: &str = "HEDDLE_DTP_VIA";

/// For how long to let flows say goodbye after the program.
const GOODBYE: Duration = Duration::from_secs(1);

/// Arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// HOST:PORT=SERVER:PORT: connections to the first go to the gateway at the second. HOST is resolved once, at the start
    #[arg(long, required = true)]
    via: Vec<String>,
    #[command(flatten)]
    known: KnownArgs,
    /// This client's private key
    #[arg(long)]
    key: Option<PathBuf>,
    /// Silence to be borne, in seconds
    #[arg(long, default_value_t = 24 * 3600)]
    keep_alive: u64,
    /// Connections to each server at a time
    #[arg(long, default_value_t = 32, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    flows: usize,
    /// The library to load [default: beside this program or in ../lib]
    #[arg(long, env = "HEDDLE_DTP_PRELOAD")]
    library: Option<PathBuf>,
    /// The program and its arguments; it must be linked dynamically and not run with other rights than the user's
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// How a server is known, by what the command line says.
pub(crate) fn trust(args: &KnownArgs, server: &str) -> io::Result<Trust> {
    if let Some(text) = &args.server_key {
        return keys::from_text(text).map(Trust::Key);
    }
    if let Some(path) = &args.psk {
        return keys::read_private(path).map(Trust::PreShared);
    }
    let path = args.known.clone().or_else(cli::default_known);
    match path.as_deref().map_or(Ok(None), |path| keys::known_server(path, server))? {
        Some(key) => Ok(Trust::Key(key)),
        None => Err(cli::invalid(&format!("{server} is not known: give --server-key or --psk"))),
    }
}

/// Runs the program; ends this process with its status when that is not success.
pub(crate) fn run(args: &RunArgs) -> io::Result<()> {
    let library = library(args)?;
    let mut table = Vec::new();
    let mut endpoints = Vec::new();
    for via in &args.via {
        let (host, server) = via
            .split_once('=')
            .ok_or_else(|| cli::invalid(&format!("{via}: HOST:PORT=SERVER:PORT is wanted")))?;
        let settings = Settings {
            flows: args.flows,
            actives: args.flows,
            buffer: 1 << 20,
            ..Settings::default()
        };
        let mut connector = Connector::with_settings(trust(&args.known, server)?, &settings)?;
        connector.private = args.key.as_deref().map(keys::read_private).transpose()?;
        connector.keep_alive = Duration::from_secs(args.keep_alive);
        connector.follow(server)?;
        endpoints.push(connector.endpoint().clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let addresses = host
            .to_socket_addrs()
            .map_err(|error| io::Error::new(error.kind(), format!("{host}: {error}")))?;
        table.extend(addresses.map(|address| format!("{address}>{port}")));
        gateway::accept_in_background(listener, connector, server.to_owned(), args.flows)?;
    }
    let (program, rest) = args.program.split_first().ok_or_else(|| cli::invalid("no program"))?;
    // Other libraries that are to be loaded first stay.
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let status = Command::new(program)
        .args(rest)
        .env("LD_PRELOAD", preload)
        .env(TABLE, table.join(","))
        .status()
        .map_err(|error| {
            let what = format!("{}: {error}", program.to_string_lossy());
            io::Error::new(error.kind(), what)
        })?;
    for endpoint in endpoints {
        endpoint.wait_idle(GOODBYE);
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => std::process::exit(code),
        // As shells have it.
        (None, signal) => std::process::exit(128 + signal.unwrap_or(0)),
    }
}

fn library(args: &RunArgs) -> io::Result<PathBuf> {
    let candidates = match &args.library {
        Some(path) => vec![path.clone()],
        None => {
            let program = std::env::current_exe()?;
            let beside = program.with_file_name(LIBRARY);
            let above = program.parent().and_then(|parent| parent.parent());
            let lib = above.map(|above| above.join("lib").join(LIBRARY));
            [Some(beside), lib].into_iter().flatten().collect()
        }
    };
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => std::path::absolute(path),
        None => {
            let places: Vec<String> =
                candidates.iter().map(|path| path.display().to_string()).collect();
            let what = format!("the library to load is not there: {}", places.join(", "));
            Err(io::Error::new(ErrorKind::NotFound, what))
        }
    }
}
