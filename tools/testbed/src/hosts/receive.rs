//! Joins a multicast group and writes the file that comes in.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rangemap::RangeSet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::datagram::Header;
use crate::error::{Error, Result};

/// How often the receiver looks at the clock when nothing comes, and says how far it is.
const TICK: Duration = Duration::from_millis(200);

/// Missing ranges that a result lists; the count of missing octets is whole anyway.
const MAX_MISSING_LISTED: usize = 64;

/// Receives a file from a multicast group.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "heddle-receive", version)]
pub struct Args {
    /// Where to write the file.
    pub output: PathBuf,
    /// The multicast group and UDP port.
    #[arg(long, default_value = "239.77.0.1:4077", value_name = "ADDRESS:PORT")]
    pub group: SocketAddrV4,
    /// The address of the interface to join on; otherwise the routing table decides.
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<Ipv4Addr>,
    /// Take the group from this sender only (a source-specific join).
    #[arg(long, value_name = "ADDRESS")]
    pub source: Option<Ipv4Addr>,
    /// Give up when nothing more has come for so many seconds.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = crate::units::seconds)]
    pub idle: f64,
    /// Give up when nothing at all has come for so many seconds.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", value_parser = crate::units::seconds)]
    pub wait: f64,
    /// Take no file that claims to be longer.
    #[arg(long, default_value = "4GiB", value_name = "OCTETS", value_parser = crate::units::octets)]
    pub max_size: u64,
    /// Octets that the kernel may hold for us.
    #[arg(long, default_value = "8MiB", value_name = "OCTETS", value_parser = crate::units::octets)]
    pub buffer: u64,
    /// Say on standard output, as lines of JSON, when the group is joined and how far the file is.
    #[arg(long)]
    pub status: bool,
}

/// A line of JSON that tells how far the receiver is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Status {
    /// The group is joined; what is sent from now on arrives.
    Joined,
    /// Some of the file is there.
    Receiving {
        /// Octets of the file so far.
        bytes: u64,
        /// Octets of the whole file.
        total: u64,
    },
    /// The end.
    Done(Received),
}

/// What a receiver got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Octets of the file, each counted once.
    pub bytes: u64,
    /// Octets of the whole file; 0 when nothing came.
    pub total: u64,
    /// Whether every octet came.
    pub complete: bool,
    /// Seconds from the first datagram to the last that brought something new.
    pub seconds: f64,
    /// `bytes` over `seconds`.
    pub goodput_octets_per_s: f64,
    /// SHA-256 of the file as it was written, in hexadecimal; absent when nothing came.
    pub sha256: Option<String>,
    /// Octets that did not come, in ranges `[start, end)`; the first 64 of them.
    pub missing: Vec<(u64, u64)>,
    /// Datagrams that brought something new.
    pub datagrams: u64,
    /// Datagrams that brought nothing new.
    pub duplicates: u64,
    /// Datagrams that belong to no file or another.
    pub foreign: u64,
}

/// Receives one file, and calls `tell` now and then with how far it is.
///
/// # Errors
/// When the group cannot be joined or the file not be written. A file that stays incomplete is no error.
pub fn run(args: &Args, mut tell: impl FnMut(&Status)) -> Result<Received> {
    let socket = open(args).map_err(Error::io(format!("join {}", args.group)))?;
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&args.output)
        .map_err(Error::at("write", &args.output))?;
    tell(&Status::Joined);
    let mut assembly = Assembly {
        max_size: args.max_size,
        file,
        path: &args.output,
        transfer: None,
        have: RangeSet::new(),
        got: Received::default(),
    };
    let mut datagram = vec![0; usize::from(u16::MAX)];
    let started = Instant::now();
    let (mut first, mut last): (Option<Instant>, Instant) = (None, started);
    let mut told = started;
    loop {
        let new = match socket.recv(&mut datagram) {
            Ok(len) => assembly.take(&datagram[..len])?,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                false
            }
            Err(error) => return Err(Error::io(format!("receive from {}", args.group))(error)),
        };
        let now = Instant::now();
        if new {
            first.get_or_insert(now);
            last = now;
            if assembly.is_complete() {
                break;
            }
        }
        let patience = if first.is_some() { args.idle } else { args.wait };
        if (now - last).as_secs_f64() > patience {
            break;
        }
        if now - told >= TICK && assembly.transfer.is_some() {
            told = now;
            tell(&Status::Receiving { bytes: assembly.got.bytes, total: assembly.got.total });
        }
    }
    assembly.finish(first.map_or(Duration::ZERO, |first| last - first))
}

fn open(args: &Args) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    let buffer = usize::try_from(args.buffer).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
    // Only root may pass the system's limit; what an ordinary user gets is cut to it.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, buffer).is_err() {
        socket.set_recv_buffer_size(buffer)?;
    }
    // Bound to the group, not to every address: other groups on this port are none of ours.
    socket.bind(&SockAddr::from(args.group))?;
    let interface = args.interface.unwrap_or(Ipv4Addr::UNSPECIFIED);
    match &args.source {
        Some(source) => socket.join_ssm_v4(source, args.group.ip(), &interface)?,
        None => socket.join_multicast_v4(args.group.ip(), &interface)?,
    }
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket.into())
}

/// The file as it grows.
struct Assembly<'a> {
    /// Files that claim to be longer are not ours.
    max_size: u64,
    file: File,
    path: &'a Path,
    transfer: Option<(u16, u64)>,
    have: RangeSet<u64>,
    got: Received,
}

impl Assembly<'_> {
    /// Writes what a datagram brings; says whether it brought something new. The first piece of a file decides which
    /// transfer it is.
    fn take(&mut self, datagram: &[u8]) -> Result<bool> {
        let known = Header::parse(datagram).filter(|(header, _)| header.total <= self.max_size);
        let Some((header, piece)) = known else {
            self.got.foreign += 1;
            return Ok(false);
        };
        let this = (header.transfer, header.total);
        let is_first = self.transfer.is_none();
        if *self.transfer.get_or_insert(this) != this {
            self.got.foreign += 1;
            return Ok(false);
        }
        self.got.total = header.total;
        let range = header.offset..header.offset + piece.len() as u64;
        let new: u64 = match range.is_empty() {
            true => 0,
            false => self.have.gaps(&range).map(|gap| gap.end - gap.start).sum(),
        };
        if new == 0 && !is_first {
            self.got.duplicates += 1;
            return Ok(false);
        }
        self.file.write_all_at(piece, range.start).map_err(Error::at("write", self.path))?;
        if new > 0 {
            self.have.insert(range);
        }
        self.got.bytes += new;
        self.got.datagrams += 1;
        Ok(true)
    }

    fn is_complete(&self) -> bool {
        self.transfer.is_some() && self.got.bytes == self.got.total
    }

    fn finish(mut self, took: Duration) -> Result<Received> {
        self.got.complete = self.is_complete();
        self.got.seconds = took.as_secs_f64();
        if !took.is_zero() {
            self.got.goodput_octets_per_s = self.got.bytes as f64 / self.got.seconds;
        }
        if self.got.total > 0 {
            let whole = 0..self.got.total;
            self.got.missing = self
                .have
                .gaps(&whole)
                .take(MAX_MISSING_LISTED)
                .map(|gap| (gap.start, gap.end))
                .collect();
        }
        if self.transfer.is_some() {
            self.file.flush().map_err(Error::at("write", self.path))?;
            self.got.sha256 = Some(sha256(self.path)?);
        }
        Ok(self.got)
    }
}

/// SHA-256 of a file in hexadecimal.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::at("read", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(Error::at("read", path))? {
            0 => return Ok(hash.finalize().iter().map(|octet| format!("{octet:02x}")).collect()),
            len => hash.update(&buffer[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn piece(transfer: u16, offset: u64, total: u64, data: &[u8]) -> Vec<u8> {
        [&Header { transfer, offset, total }.to_bytes()[..], data].concat()
    }

    fn assembly(path: &Path) -> Assembly<'_> {
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        Assembly {
            max_size: 1 << 20,
            file,
            path,
            transfer: None,
            have: RangeSet::new(),
            got: Received::default(),
        }
    }

    #[test]
    fn a_file_that_claims_to_be_too_long_is_not_taken() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let mut assembly = assembly(&path);
        let total = 1 << 47;
        assert!(!assembly.take(&piece(7, total - 3, total, b"ghi")).unwrap());
        assert!(assembly.take(&piece(7, 0, 3, b"abc")).unwrap());
        assert_eq!((assembly.got.foreign, assembly.is_complete()), (1, true));
    }

    #[test]
    fn pieces_in_any_order_make_the_file() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let mut assembly = assembly(&path);
        assert!(assembly.take(&piece(7, 6, 9, b"ghi")).unwrap());
        assert!(!assembly.take(&piece(7, 6, 9, b"ghi")).unwrap(), "a duplicate");
        assert!(!assembly.take(&piece(8, 0, 9, b"xyz")).unwrap(), "another transfer");
        assert!(!assembly.take(b"noise").unwrap());
        assert!(assembly.take(&piece(7, 0, 9, b"abcd")).unwrap());
        assert!(!assembly.is_complete());
        assert!(
            assembly.take(&piece(7, 3, 9, b"def")).unwrap(),
            "an overlap that brings two octets"
        );
        assert!(assembly.is_complete());
        let got = assembly.finish(Duration::from_secs(2)).unwrap();
        assert_eq!((got.bytes, got.datagrams, got.duplicates, got.foreign), (9, 3, 1, 2));
        assert_eq!(got.goodput_octets_per_s, 4.5);
        assert!(got.complete && got.missing.is_empty());
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdefghi");
        // SHA-256 of "abcdefghi", from coreutils.
        let expected = "19cc02f26df43cc571bc9ed7b0c4d29224a3ec229529221725ef76d021c8326f";
        assert_eq!(got.sha256.as_deref(), Some(expected));
    }

    #[test]
    fn missing_ranges_are_named() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let mut assembly = assembly(&path);
        assembly.take(&piece(1, 2, 10, b"cd")).unwrap();
        assembly.take(&piece(1, 6, 10, b"gh")).unwrap();
        let got = assembly.finish(Duration::ZERO).unwrap();
        assert_eq!(got.missing, [(0, 2), (4, 6), (8, 10)]);
        assert!(!got.complete);
    }

    #[test]
    fn an_empty_file_is_complete_with_its_first_datagram() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let mut assembly = assembly(&path);
        assert!(!assembly.is_complete());
        assert!(assembly.take(&piece(1, 0, 0, b"")).unwrap());
        assert!(assembly.is_complete());
    }

    #[test]
    fn a_status_line_reads_back() {
        for status in [
            Status::Joined,
            Status::Receiving { bytes: 1, total: 2 },
            Status::Done(Received::default()),
        ] {
            let line = serde_json::to_string(&status).unwrap();
            assert_eq!(serde_json::from_str::<Status>(&line).unwrap(), status, "{line}");
        }
    }
}
