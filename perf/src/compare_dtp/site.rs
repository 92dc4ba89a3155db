//! A transfer between the two ends of a link, each end a process in its namespace.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heddle_testbed::link::{ADDRESSES, Link, Shape};
use heddle_testbed::namespace::{self, Namespace};
use heddle_testbed::process::spawn;
use heddle_testbed::shutdown::Shutdown;
use miette::{IntoDiagnostic, WrapErr, miette};

use super::ends::{Contender, Outcome, READY};
use super::udt;

/// The server's port.
const PORT: u16 = 4500;

/// How long an end may take after the other has ended.
const GRACE: Duration = Duration::from_secs(20);

/// What is to be carried, and how.
#[derive(Copy, Clone, Debug)]
pub struct Transfer {
    pub contender: Contender,
    pub octets: u64,
    pub download: bool,
    /// For how long it may go on.
    pub patience: Duration,
}

/// What came of it.
#[derive(Copy, Clone, Debug)]
pub struct Result {
    /// From the client's first step to its last.
    pub seconds: f64,
    /// CPU time of both ends.
    pub cpu_seconds: f64,
}

/// A process that does not outlive this one's interest in it.
struct End(Child);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Removes what runs have left that were ended before they could.
pub fn remove_leftovers() -> miette::Result<()> {
    let own = std::process::id().to_string();
    let left: Vec<Namespace> = namespace::with_prefix(PREFIX)
        .into_diagnostic()?
        .into_iter()
        .filter(|namespace| {
            let process = namespace.name().split('-').nth(2).unwrap_or_default();
            process != own && !std::path::Path::new("/proc").join(process).exists()
        })
        .collect();
    namespace::remove(&left).into_diagnostic()
}

/// What the namespaces begin with; the number of the process and that of the link follow. Not as the testbed's: it wants to be alone.
const PREFIX: &str = "heddle-dtp-";

/// A link of the bench's own.
pub fn link(number: usize, shape: &Shape) -> miette::Result<Link> {
    Link::set_up(&format!("{PREFIX}{}-{number}", std::process::id()), shape)
        .into_diagnostic()
        .wrap_err("no link")
}

fn start(transfer: &Transfer, namespace: &Namespace, connect: bool) -> miette::Result<End> {
    let [_, address] = ADDRESSES;
    let mut command = if transfer.contender == Contender::Udt {
        let program = udt::program().ok_or_else(|| miette!("there is no UDT"))?;
        if transfer.download {
            return Err(miette!("UDT's ends only upload"));
        }
        let mut command = Command::new(program);
        command.arg(if connect { "client" } else { "server" });
        command.args([&address.to_string(), &PORT.to_string(), &transfer.octets.to_string()]);
        command
    } else {
        own_end(transfer, connect)?
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(&mut command, namespace).map(End).into_diagnostic()
}

fn own_end(transfer: &Transfer, connect: bool) -> miette::Result<Command> {
    let [_, address] = ADDRESSES;
    let program = std::env::current_exe().into_diagnostic()?;
    let mut command = Command::new(program);
    command
        .args(["end", "--contender", transfer.contender.word()])
        .args(["--address", &SocketAddr::from((address, PORT)).to_string()])
        .args(["--octets", &transfer.octets.to_string()]);
    if connect {
        command.arg("--connect");
    }
    if transfer.download {
        command.arg("--download");
    }
    Ok(command)
}

/// Carries the octets. `meanwhile` is called every few milliseconds with the time since the beginning.
pub fn carry(
    link: &Link,
    transfer: &Transfer,
    shutdown: &Shutdown,
    mut meanwhile: impl FnMut(Duration) -> miette::Result<()>,
) -> miette::Result<Result> {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let name = transfer.contender.name();
    let mut server = start(transfer, link.b(), false)?;
    wait_until_ready(&mut server).wrap_err_with(|| format!("{name}: no server"))?;
    let mut client = start(transfer, link.a(), true)?;
    let begin = Instant::now();
    let mut client_done = None;
    loop {
        shutdown.check().into_diagnostic()?;
        meanwhile(begin.elapsed())?;
        if client_done.is_none() && client.0.try_wait().into_diagnostic()?.is_some() {
            client_done = Some(Instant::now());
        }
        if client_done.is_some() && server.0.try_wait().into_diagnostic()?.is_some() {
            break;
        }
        if begin.elapsed() > transfer.patience {
            return Err(miette!("not done within {} s", transfer.patience.as_secs()));
        }
        if client_done.is_some_and(|done| done.elapsed() > GRACE) {
            return Err(miette!("the server did not end after the client"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let (client, server) = (outcome(&mut client)?, outcome(&mut server)?);
    // Of this one the sender does not hear when the receiving program has all.
    let rest = match transfer.contender {
        Contender::Dtn7 => (server.done_at_s - client.done_at_s).max(0.0),
        _ => 0.0,
    };
    let cpu_seconds = client.cpu_seconds + server.cpu_seconds;
    Ok(Result { seconds: client.seconds + rest, cpu_seconds })
}

fn wait_until_ready(server: &mut End) -> miette::Result<()> {
    let stderr = server.0.stderr.as_mut().ok_or_else(|| miette!("no standard error"))?;
    let mut line = String::new();
    // Nothing follows it unless something goes wrong.
    BufReader::with_capacity(1, stderr).read_line(&mut line).into_diagnostic()?;
    match line.trim_end() {
        READY => Ok(()),
        _ => Err(miette!("{}", line.trim_end())),
    }
}

fn outcome(end: &mut End) -> miette::Result<Outcome> {
    let read = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        if let Some(pipe) = pipe {
            let _ = pipe.read_to_string(&mut text);
        }
        text
    };
    let text = read(end.0.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    let complaint = read(end.0.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    serde_json::from_str(&text).map_err(|_| miette!("{}", complaint.trim()))
}
