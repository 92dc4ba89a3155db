//! dtn7: at each end a daemon with TCPCL (RFC 9174), and its own tools to give it bundles and to take them.
//!
//! The daemon takes no bundle of more than 2 MB from a tool, so a file goes as bundles that say which part they are.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PERIOD, Pattern, Role, Task, ready};
use crate::compare_dtp::dtn7::installed;

/// Octets of the file in a bundle.
const PIECE: u64 = 1_900_000;

/// Octets before them: where they belong.
const HEAD: usize = 8;

/// Of the daemon's interface for tools, which is in the end's own namespace.
const WEB: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3000);

/// How long a daemon may take to its first answer.
const STARTED_WITHIN: Duration = Duration::from_secs(20);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A daemon, and the tools that speak with it.
struct Daemon {
    child: Child,
    programs: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // Its CPU time becomes this process's when it has been waited for.
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// Starts it with the arguments, and waits until it answers tools.
    fn start(arguments: &[&str]) -> io::Result<Self> {
        let programs = installed().map_err(io::Error::other)?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(programs.join("dtnd"))
            .args(["-4", "-D", "mem", "-r", "epidemic", "--disable_nd", "-i", "0", "-j", "1s"])
            .args(arguments)
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut daemon = Self { child, programs };
        let begin = Instant::now();
        while TcpStream::connect_timeout(&WEB, STARTED_WITHIN).is_err() {
            daemon.check()?;
            if begin.elapsed() > STARTED_WITHIN {
                return Err(io::Error::new(ErrorKind::TimedOut, "dtnd does not answer"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(daemon)
    }

    /// Whether it runs still.
    fn check(&mut self) -> io::Result<()> {
        self.child
            .try_wait()?
            .map_or(Ok(()), |status| Err(io::Error::other(format!("dtnd has ended ({status})"))))
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Gives it a bundle for the other end.
    fn send(&self, octets: &[u8]) -> io::Result<()> {
        let mut child =
            self.tool("dtnsend").args(["-r", "dtn://server/file"]).stdin(Stdio::piped()).spawn()?;
        // Dropped after the write, so that the tool sees the end.
        child.stdin.take().ok_or(ErrorKind::BrokenPipe)?.write_all(octets)?;
        succeeded("dtnsend", child.wait_with_output()?).map(drop)
    }

    /// Whether it has passed on all bundles: it keeps one until the other end has acknowledged it.
    fn is_empty(&self) -> io::Result<bool> {
        let listing = succeeded("dtnquery", self.tool("dtnquery").arg("bundles").output()?)?;
        Ok(listing.trim_ascii_end().ends_with(b"[]"))
    }

    /// A bundle that has come; nothing when there is none yet.
    fn receive(&self) -> io::Result<Vec<u8>> {
        let output = self.tool("dtnrecv").args(["-e", "file"]).output()?;
        succeeded("dtnrecv", output)
    }
}

/// What a tool has written, if it says that all went well.
fn succeeded(name: &str, output: std::process::Output) -> io::Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().find(|line| line.contains("rror")).unwrap_or_default();
    Err(io::Error::other(format!("{name}: {} {last}", output.status)))
}

/// Gives from when to when the transfer went: daemons run before and after it.
pub fn run(address: SocketAddr, octets: u64, role: Role) -> io::Result<(Instant, Instant)> {
    let port = format!("tcp:port={}", address.port());
    match role {
        Role::Server => {
            let mut daemon = Daemon::start(&["-n", "server", "-e", "file", "-C", &port])?;
            let begin = Instant::now();
            ready();
            take(&mut daemon, octets)?;
            Ok((begin, Instant::now()))
        }
        Role::Client(Task { download: true, .. }) => {
            Err(io::Error::new(ErrorKind::Unsupported, "dtn7's ends only upload"))
        }
        Role::Client(task) => {
            let peer = format!("tcp://{address}/server");
            let mut daemon = Daemon::start(&["-n", "client", "-C", &port, "-s", &peer])?;
            let begin = Instant::now();
            give(&mut daemon, task.octets)?;
            Ok((begin, Instant::now()))
        }
    }
}

/// Octets of the file from `offset` on.
fn content(pattern: &Pattern, offset: u64, count: u64) -> Vec<u8> {
    let mut octets = Vec::with_capacity(count as usize);
    while (octets.len() as u64) < count {
        let done = octets.len() as u64;
        octets.extend_from_slice(pattern.at(offset + done, (count - done).min(PERIOD as u64)));
    }
    octets
}

fn give(daemon: &mut Daemon, octets: u64) -> io::Result<()> {
    let pattern = Pattern::new();
    for offset in (0..octets).step_by(PIECE as usize) {
        let mut bundle = offset.to_be_bytes().to_vec();
        bundle.extend(content(&pattern, offset, PIECE.min(octets - offset)));
        daemon.check()?;
        daemon.send(&bundle)?;
    }
    while !daemon.is_empty()? {
        daemon.check()?;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn take(daemon: &mut Daemon, octets: u64) -> io::Result<()> {
    let pattern = Pattern::new();
    let mut missing: Vec<u64> = (0..octets).step_by(PIECE as usize).collect();
    while !missing.is_empty() {
        let bundle = daemon.receive()?;
        let Some((head, piece)) = bundle.split_first_chunk::<HEAD>() else {
            daemon.check()?;
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        let offset = u64::from_be_bytes(*head);
        // A bundle may come twice, as the Bundle Protocol has it.
        missing.retain(|known| *known != offset);
        if offset >= octets || piece != content(&pattern, offset, PIECE.min(octets - offset)) {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("other octets at {offset}"),
            ));
        }
    }
    Ok(())
}

/// CPU time of this process and of all that it has waited for, in seconds.
pub fn cpu_seconds() -> io::Result<f64> {
    let stat = std::fs::read_to_string(Path::new("/proc/self/stat"))?;
    cpu_ticks(&stat)
        .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "/proc/self/stat"))
}

/// The sum of utime, stime, cutime and cstime: fields 14 to 17, of which the second is a name in brackets (proc_pid_stat(5)).
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 200 0 0 11 22 33 44 20 0 1 0 5";
        assert_eq!(cpu_ticks(stat), Some(110));
        assert_eq!(cpu_ticks("7 name"), None);
    }

    #[test]
    fn pieces_are_those_of_the_file() {
        let pattern = Pattern::new();
        let whole = content(&pattern, 0, 300_000);
        assert_eq!(content(&pattern, 100_000, 150_000), whole[100_000..250_000]);
    }
}
