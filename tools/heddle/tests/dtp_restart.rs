//! `kill -9` in the middle of transfers over DTP: real processes in a network namespace of their own, slow enough to be killed in time. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_dtp::{Connector, DtpStream, Settings, Trust};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const OCTETS: u64 = 16_000_000;

/// What may come twice: what was on its way or not committed yet when the process was killed. Commits are a quarter of a second apart, more on a slow disk; this is two
/// seconds of it.
const SLACK: u64 = 6_000_000;

/// Runs a command in the namespace of this thread.
fn sh(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output().expect(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Puts this thread, and the processes that it starts, into a network namespace of their own, which ends with them.
fn enter_new_namespace() {
    // SAFETY: a network namespace holds no memory and no descriptor of this process's: nothing that other code relies on changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace needs root");
    sh("ip link set lo up");
    sh("tc qdisc add dev lo root tbf rate 25mbit burst 32kb latency 50ms");
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Victim {
    Client,
    Server,
    Both,
}

use Victim::{Both, Client, Server};

struct Place {
    directory: tempfile::TempDir,
    upload: bool,
    server_keeps_tickets: bool,
}

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    /// `kill -9`.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Place {
    fn new(upload: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory, upload, server_keeps_tickets: true };
        for name in ["root", "here"] {
            std::fs::create_dir(place.path(name)).unwrap();
        }
        std::fs::write(place.path("psk"), "07".repeat(32)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(place.path("psk"), mode).unwrap();
        std::fs::write(place.source(), data()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn source(&self) -> PathBuf {
        self.path(if self.upload { "here/data" } else { "root/data" })
    }

    fn target(&self) -> PathBuf {
        self.path(if self.upload { "root/data" } else { "here/data" })
    }

    fn heddle(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command.arg("dtp").args(arguments).arg("--psk").arg(self.path("psk"));
        command.current_dir(self.path("here")).stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("HEDDLE_LOG", "info");
        command
    }

    fn server(&self) -> Process {
        let mut command = self.heddle(&["serve", "--listen", "127.0.0.1:4433", "--writable"]);
        command.args(["--buffer", "1000000"]).arg(self.path("root"));
        if self.server_keeps_tickets {
            command.arg("--state").arg(self.path("server-state"));
        }
        let mut server = Process(command.spawn().unwrap());
        // It says when it listens; what it says later fits into the pipe.
        let mut line = String::new();
        let mut out = BufReader::new(server.0.stdout.as_mut().unwrap());
        while !line.contains("serving") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "the server has ended");
        }
        server
    }

    fn client(&self) -> Process {
        let verb = if self.upload { "put" } else { "get" };
        let mut command = self.heddle(&[verb, "127.0.0.1:4433", "data", "--quiet", "--json"]);
        command.args(["--deadline", "120"]).arg("--state").arg(self.path("client-state"));
        Process(command.spawn().unwrap())
    }

    /// Octets of the file that its receiver has.
    fn there(&self) -> u64 {
        let mut part = self.target().into_os_string();
        part.push(".part");
        let parts = [Path::new(&part).metadata(), self.target().metadata()];
        parts.into_iter().flatten().map(|data| data.len()).max().unwrap_or(0)
    }

    fn wait_for(&self, octets: u64, client: &mut Process) {
        let end = Instant::now() + Duration::from_secs(100);
        while self.there() < octets {
            assert!(Instant::now() < end, "{} octets are there", self.there());
            assert!(client.0.try_wait().unwrap().is_none(), "the client has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_right(&self) {
        assert!(std::fs::read(self.target()).unwrap() == data());
    }
}

fn data() -> Vec<u8> {
    (0..OCTETS).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

/// What the client says at its end.
fn report(client: &mut Process) -> serde_json::Value {
    let mut text = String::new();
    let out: &mut ChildStdout = client.0.stdout.as_mut().unwrap();
    out.read_to_string(&mut text).unwrap();
    assert!(client.0.wait().unwrap().success(), "{text}");
    serde_json::from_str(&text).expect(&text)
}

/// Kills the victims one after the other, at even distances, and starts the same commands again.
fn transfer(upload: bool, victims: &[Victim]) {
    enter_new_namespace();
    let place = Place::new(upload);
    let mut server = place.server();
    let mut client = place.client();
    let step = OCTETS / (victims.len() as u64 + 1);
    let mut there_at_last_start = 0;
    for (turn, victim) in (1..).zip(victims) {
        place.wait_for(step * turn, &mut client);
        if matches!(victim, Server | Both) {
            server.kill();
        }
        if matches!(victim, Client | Both) {
            client.kill();
            there_at_last_start = place.there();
        }
        if matches!(victim, Server | Both) {
            server = place.server();
        }
        if matches!(victim, Client | Both) {
            client = place.client();
        }
    }
    let report = report(&mut client);
    place.is_right();
    println!("{report}");
    let count = |which: [Victim; 2]| victims.iter().filter(|victim| which.contains(victim)).count();
    assert_eq!(report["octets"], OCTETS);
    // A flow that was opened after a restart would have another id.
    assert_eq!(report["flow"], "0.1");
    assert_eq!(report["restarts"], count([Client, Both]));
    assert_eq!(report["resumed"], count([Client, Both]) > 0);
    assert!(report["peer_restarts"].as_u64().unwrap() as usize <= count([Server, Both]));
    if count([Client, Both]) == 0 {
        assert_eq!(report["peer_restarts"], count([Server, Server]));
    }
    // Headers and acknowledgements are a twentieth.
    let moved = report[if upload { "sent_octets" } else { "received_octets" }].as_u64().unwrap();
    let servers = count([Server, Server]) as u64;
    let most = (OCTETS - there_at_last_start + SLACK * (1 + servers)) * 21 / 20;
    assert!(moved < most, "{moved} octets in the last process, {there_at_last_start} were there");
    let left: Vec<_> = std::fs::read_dir(place.path("client-state")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // The server hears of the end, and has no more tickets then.
    let end = Instant::now() + Duration::from_secs(20);
    let tickets = || {
        let entries = std::fs::read_dir(place.path("server-state")).unwrap();
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("flow"))
            .count()
    };
    while tickets() > 0 {
        assert!(Instant::now() < end, "the server still has a ticket");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
}

#[test]
fn a_download_whose_client_is_killed_goes_on() {
    transfer(false, &[Client, Client]);
}

#[test]
fn a_download_whose_server_is_killed_goes_on() {
    transfer(false, &[Server, Server]);
}

#[test]
fn a_download_of_which_both_ends_are_killed_goes_on() {
    transfer(false, &[Both, Client, Both]);
}

#[test]
fn an_upload_whose_client_is_killed_goes_on() {
    transfer(true, &[Client, Client]);
}

#[test]
fn an_upload_whose_server_is_killed_goes_on() {
    transfer(true, &[Server, Server]);
}

#[test]
fn an_upload_of_which_both_ends_are_killed_goes_on() {
    transfer(true, &[Both, Server, Both]);
}

#[test]
fn a_server_that_has_forgotten_the_flow_gets_a_new_one() {
    enter_new_namespace();
    let mut place = Place::new(false);
    place.server_keeps_tickets = false;
    let mut server = place.server();
    let mut client = place.client();
    place.wait_for(OCTETS / 2, &mut client);
    client.kill();
    server.kill();
    let there = place.there();
    server = place.server();
    client = place.client();
    let report = report(&mut client);
    place.is_right();
    assert_eq!(report["resumed"], false);
    assert_ne!(report["flow"], "0.1");
    let received = report["received_octets"].as_u64().unwrap();
    assert!(received < (OCTETS - there + SLACK) * 21 / 20, "what is there of the file counts");
    drop(server);
}

#[test]
fn a_server_that_has_forgotten_everything_is_asked_anew() {
    enter_new_namespace();
    let mut place = Place::new(true);
    place.server_keeps_tickets = false;
    let mut server = place.server();
    let mut client = place.client();
    place.wait_for(OCTETS / 2, &mut client);
    server.kill();
    let there = place.there();
    server = place.server();
    let report = report(&mut client);
    place.is_right();
    let sent = report["sent_octets"].as_u64().unwrap();
    assert_ne!(report["flow"], "0.1");
    // The new flow begins with what is there; what the old one's buffer held went to nobody.
    assert!(sent < (OCTETS + SLACK) * 21 / 20, "{sent} octets sent, {there} were there");
    drop(server);
}

/// A program of its own that sends without a thought of restarts.
#[test]
fn who_cannot_write_again_is_told_that_octets_are_gone() {
    enter_new_namespace();
    let place = Place::new(true);
    let mut server = place.server();
    let settings = Settings { buffer: 100_000, ..Settings::default() };
    let connector = Connector::with_settings(Trust::PreShared([7; 32]), &settings).unwrap();
    let address: std::net::SocketAddr = "127.0.0.1:4433".parse().unwrap();
    let stream = connector.connect(address).unwrap();
    let mut writer: &DtpStream = &stream;
    writeln!(writer, "PUT {OCTETS} data").unwrap();
    (&stream).read_exact(&mut [0; 5]).unwrap();
    let ticket = place.path("server-state/flow-0-1");
    let of_the_beginning = std::fs::read(&ticket).unwrap();
    let data = data();
    let (first, rest) = data.split_at(OCTETS as usize / 4);
    writer.write_all(first).unwrap();
    server.kill();
    // The server comes back with what it had when the transfer began.
    std::fs::write(&ticket, of_the_beginning).unwrap();
    server = place.server();
    let error = writer.write_all(rest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
    drop(server);
}
