//! One end of a transfer: a process in a namespace of its own, so that its CPU time is its own too.

mod dtn7;
mod ours;
mod quic;
mod tcp;

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use clap::ValueEnum;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What carries the octets.
#[derive(
    Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// Heddle's DTP with CUBIC.
    OursCubic,
    /// Heddle's DTP with BBR.
    OursBbr,
    /// The kernel's TCP with CUBIC.
    TcpCubic,
    /// The kernel's TCP with BBR.
    TcpBbr,
    /// The kernel's Multipath TCP.
    Mptcp,
    /// quinn with CUBIC.
    QuinnCubic,
    /// quinn with BBR.
    QuinnBbr,
    /// UDT, of which both ends are a program of C++.
    Udt,
    /// dtn7, a daemon of the Bundle Protocol at each end.
    Dtn7,
}

impl Contender {
    /// The word on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::OursCubic => "ours-cubic",
            Self::OursBbr => "ours-bbr",
            Self::TcpCubic => "tcp-cubic",
            Self::TcpBbr => "tcp-bbr",
            Self::Mptcp => "mptcp",
            Self::QuinnCubic => "quinn-cubic",
            Self::QuinnBbr => "quinn-bbr",
            Self::Udt => "udt",
            Self::Dtn7 => "dtn7",
        }
    }

    /// Whether it keeps its rate when packets are lost at random.
    pub const fn bears_losses(self) -> bool {
        matches!(self, Self::OursBbr | Self::TcpBbr | Self::QuinnBbr)
    }

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OursCubic => "ours, CUBIC",
            Self::OursBbr => "ours, BBR",
            Self::TcpCubic => "TCP, CUBIC",
            Self::TcpBbr => "TCP, BBR",
            Self::Mptcp => "MPTCP",
            Self::QuinnCubic => "quinn, CUBIC",
            Self::QuinnBbr => "quinn, BBR",
            Self::Udt => "UDT",
            Self::Dtn7 => "dtn7, TCPCL",
        }
    }
}

/// One end, for the bench's own use.
#[derive(clap::Args)]
pub struct Arguments {
    /// What carries.
    #[arg(long, value_enum)]
    contender: Contender,
    /// The server's address; without --connect this end is the server.
    #[arg(long)]
    address: SocketAddr,
    /// Connect to the address.
    #[arg(long)]
    connect: bool,
    /// Octets to carry.
    #[arg(long, default_value_t = 77_000_000)]
    octets: u64,
    /// From the server to the client.
    #[arg(long)]
    download: bool,
}

/// What one end says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// From before the connection was opened until everything had arrived, and the sender knew.
    pub seconds: f64,
    /// CPU time of the process and of those that it has started, in user and kernel mode.
    pub cpu_seconds: f64,
    /// When that was, in seconds of the clock that all processes share.
    #[serde(default)]
    pub done_at_s: f64,
}

/// Is one end, and says on standard output what came of it.
///
/// # Errors
/// Those of sockets, and when the octets are not those that were sent.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut start = Instant::now();
    let task = Task { octets: arguments.octets, download: arguments.download };
    let address = arguments.address;
    let role = if arguments.connect { Role::Client(task) } else { Role::Server };
    let done = match arguments.contender {
        Contender::OursCubic => ours::run(heddle_dtp::Congestion::Cubic, address, role)?,
        Contender::OursBbr => ours::run(heddle_dtp::Congestion::Bbr, address, role)?,
        Contender::TcpCubic => tcp::run(Some(b"cubic"), address, role)?,
        Contender::TcpBbr => tcp::run(Some(b"bbr"), address, role)?,
        Contender::Mptcp => tcp::run(None, address, role)?,
        Contender::QuinnCubic => quic::run(false, address, role)?,
        Contender::QuinnBbr => quic::run(true, address, role)?,
        Contender::Udt => return Err("UDT's ends are a program of their own".into()),
        Contender::Dtn7 => {
            let done;
            (start, done) = dtn7::run(address, arguments.octets, role)?;
            done
        }
    };
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let outcome = Outcome {
        seconds: done.duration_since(start).as_secs_f64(),
        cpu_seconds: match arguments.contender {
            Contender::Dtn7 => dtn7::cpu_seconds()?,
            _ => seconds(ClockId::ProcessCPUTime),
        },
        done_at_s: seconds(ClockId::Monotonic) - done.elapsed().as_secs_f64(),
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// What a server writes to standard error once clients may come.
pub const READY: &str = "ready";

fn ready() {
    eprintln!("{READY}");
}

/// Which end.
#[derive(Copy, Clone)]
enum Role {
    Server,
    Client(Task),
}

/// What the client asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Task {
    octets: u64,
    download: bool,
}

/// Octets of a request: the direction, the length.
const REQUEST_OCTETS: usize = 9;

/// What the receiver says when it has everything.
const DONE: u8 = 0x2a;

impl Task {
    fn write(self) -> [u8; REQUEST_OCTETS] {
        let mut request = [u8::from(self.download); REQUEST_OCTETS];
        if let Some(length) = request.last_chunk_mut() {
            *length = self.octets.to_be_bytes();
        }
        request
    }

    fn read(request: [u8; REQUEST_OCTETS]) -> Self {
        let [download, ..] = request;
        let octets = request.last_chunk().copied().map_or(0, u64::from_be_bytes);
        Self { octets, download: download != 0 }
    }
}

/// Octets that come again and again: a prime, so that a piece that is lost or comes twice shows.
const PERIOD: usize = 65_521;

/// What is carried.
struct Pattern(Vec<u8>);

impl Pattern {
    fn new() -> Self {
        let octet = |index: usize| ((index % PERIOD).wrapping_mul(0x9e37_79b9) >> 13) as u8;
        Self((0..2 * PERIOD).map(octet).collect())
    }

    /// The octets from `offset` on, at most `most` and [`PERIOD`].
    fn at(&self, offset: u64, most: u64) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        let length = most.min(PERIOD as u64) as usize;
        self.0.get(start..start + length).unwrap_or(&[])
    }

    fn check(&self, offset: u64, octets: &[u8]) -> io::Result<()> {
        if octets == self.at(offset, octets.len() as u64) {
            return Ok(());
        }
        Err(io::Error::new(ErrorKind::InvalidData, format!("other octets near {offset}")))
    }
}

fn send(stream: &mut impl Write, octets: u64) -> io::Result<()> {
    let pattern = Pattern::new();
    let mut offset = 0;
    while offset < octets {
        let count = stream.write(pattern.at(offset, octets - offset))?;
        offset += count as u64;
    }
    Ok(())
}

fn receive(stream: &mut impl Read, octets: u64) -> io::Result<()> {
    let pattern = Pattern::new();
    let mut buffer = vec![0; PERIOD];
    let mut offset = 0;
    while offset < octets {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        pattern.check(offset, buffer.get(..count).unwrap_or(&[]))?;
        offset += count as u64;
    }
    Ok(())
}

/// The client's part over a stream; gives when it was done.
fn client(stream: &mut (impl Read + Write), task: Task) -> io::Result<Instant> {
    stream.write_all(&task.write())?;
    if task.download {
        receive(stream, task.octets)?;
        stream.write_all(&[DONE])?;
    } else {
        send(stream, task.octets)?;
        stream.read_exact(&mut [0])?;
    }
    Ok(Instant::now())
}

/// The server's part over a stream; gives when it was done.
fn server(stream: &mut (impl Read + Write)) -> io::Result<Instant> {
    let mut request = [0; REQUEST_OCTETS];
    stream.read_exact(&mut request)?;
    let task = Task::read(request);
    if task.download {
        send(stream, task.octets)?;
        stream.read_exact(&mut [0])?;
    } else {
        receive(stream, task.octets)?;
        stream.write_all(&[DONE])?;
    }
    Ok(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        for task in
            [Task { octets: 77_000_000, download: true }, Task { octets: 1, download: false }]
        {
            assert_eq!(Task::read(task.write()), task);
        }
    }

    #[test]
    fn octets_out_of_place_are_noticed() {
        let pattern = Pattern::new();
        let mut sent = Vec::new();
        send(&mut sent, 200_000).unwrap();
        receive(&mut sent.as_slice(), 200_000).unwrap();
        sent.drain(100_000..101_000);
        assert!(receive(&mut sent.as_slice(), 199_000).is_err());
        assert!(pattern.check(5, pattern.at(5, 900)).is_ok());
    }
}
