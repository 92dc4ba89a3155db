//! Writes a file as UDP datagrams to a multicast group, evenly paced.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::datagram::{HEADER_OCTETS, Header, MAX_FILE_OCTETS};
use crate::error::{Error, Result};

/// A sender that was held up catches up on at most this much; more would be a burst that fills queues on the way.
const MAX_LAG: Duration = Duration::from_millis(20);

/// The largest UDP payload over IPv4.
const MAX_PAYLOAD: usize = 65_507;

/// Sends a file to a multicast group.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "heddle-send", version)]
pub struct Args {
    /// The file to send.
    pub file: PathBuf,
    /// The multicast group and UDP port.
    #[arg(long, default_value = "239.77.0.1:4077", value_name = "ADDRESS:PORT")]
    pub group: SocketAddrV4,
    /// Octets of UDP payload a second.
    #[arg(long, value_name = "OCTETS/S", value_parser = crate::units::octets)]
    pub rate: u64,
    /// Octets of UDP payload in a datagram, the 16 of our own header included.
    #[arg(long, default_value_t = 1408, value_name = "OCTETS")]
    pub payload: usize,
    /// The address of the interface to send on; otherwise the routing table decides.
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<Ipv4Addr>,
    /// How many routers the datagrams may pass, and one more.
    #[arg(long, default_value_t = 16, value_name = "HOPS")]
    pub ttl: u32,
}

/// What the sender did; its standard output is this as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Octets of the file.
    pub bytes: u64,
    /// Datagrams that it took.
    pub datagrams: u64,
    /// Seconds from the first to the last.
    pub seconds: f64,
}

/// Sends the file.
///
/// # Errors
/// When the file cannot be read, or the network refuses a datagram.
pub fn run(args: &Args) -> Result<Sent> {
    let piece = args
        .payload
        .checked_sub(HEADER_OCTETS)
        .filter(|&piece| piece > 0 && args.payload <= MAX_PAYLOAD)
        .ok_or_else(|| {
            Error::Invalid(format!("--payload must be {} to {MAX_PAYLOAD}", HEADER_OCTETS + 1))
        })?;
    if !args.group.ip().is_multicast() {
        return Err(Error::Invalid(format!("{} is no multicast group", args.group.ip())));
    }
    let metadata = std::fs::metadata(&args.file).map_err(Error::at("read", &args.file))?;
    if !metadata.is_file() {
        return Err(Error::Invalid(format!("{} is no regular file", args.file.display())));
    }
    let mut file = File::open(&args.file).map_err(Error::at("open", &args.file))?;
    let total = metadata.len();
    if total > MAX_FILE_OCTETS {
        return Err(Error::Invalid(format!("{} is too long to send", args.file.display())));
    }
    let socket = open(args).map_err(Error::io(format!("open a socket to {}", args.group)))?;
    let transfer = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_micros()) as u16;
    let mut pacer = Pacer::new(args.rate);
    let mut datagram = vec![0; args.payload];
    let mut sent = Sent { bytes: 0, datagrams: 0, seconds: 0.0 };
    let start = Instant::now();
    loop {
        let len = usize::try_from(total - sent.bytes).unwrap_or(usize::MAX).min(piece);
        let datagram = &mut datagram[..HEADER_OCTETS + len];
        datagram[..HEADER_OCTETS]
            .copy_from_slice(&Header { transfer, offset: sent.bytes, total }.to_bytes());
        file.read_exact(&mut datagram[HEADER_OCTETS..]).map_err(Error::at("read", &args.file))?;
        pacer.wait(datagram.len());
        socket
            .send_to(datagram, args.group)
            .map_err(Error::io(format!("send to {}", args.group)))?;
        sent.bytes += len as u64;
        sent.datagrams += 1;
        // Asked at the end, so that an empty file is one datagram too.
        if sent.bytes == total {
            sent.seconds = start.elapsed().as_secs_f64();
            return Ok(sent);
        }
    }
}

fn open(args: &Args) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_multicast_ttl_v4(args.ttl)?;
    if let Some(interface) = args.interface {
        socket.set_multicast_if_v4(&interface)?;
    }
    socket.bind(&SockAddr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)))?;
    Ok(socket.into())
}

/// Spaces datagrams so that their octets make a rate.
struct Pacer {
    octets_per_s: f64,
    due: Instant,
}

impl Pacer {
    fn new(octets_per_s: u64) -> Self {
        Self { octets_per_s: octets_per_s.max(1) as f64, due: Instant::now() }
    }

    /// Returns when a datagram of `octets` may go.
    fn wait(&mut self, octets: usize) {
        let now = Instant::now();
        match self.due.checked_duration_since(now) {
            Some(early) => thread::sleep(early),
            None => self.due = self.due.max(now.checked_sub(MAX_LAG).unwrap_or(now)),
        }
        self.due += Duration::from_secs_f64(octets as f64 / self.octets_per_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pacer_keeps_its_rate() {
        let mut pacer = Pacer::new(100_000);
        let start = Instant::now();
        for _ in 0..21 {
            pacer.wait(500);
        }
        // The first goes at once: 20 gaps of 5 ms.
        assert!(start.elapsed() >= Duration::from_millis(99), "{:?}", start.elapsed());
    }

    #[test]
    fn a_pause_is_not_made_up_for_by_a_burst() {
        let mut pacer = Pacer::new(100_000);
        pacer.wait(500);
        thread::sleep(Duration::from_millis(200));
        let resumed = Instant::now();
        for _ in 0..25 {
            pacer.wait(500);
        }
        // 20 ms of lag are 4 datagrams at once, and one that is due; the others wait.
        assert!(resumed.elapsed() >= Duration::from_millis(95), "{:?}", resumed.elapsed());
    }
}
