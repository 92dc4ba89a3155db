//! Programs and servers that know TCP alone, with DTP between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::Parser;
use heddle_dtp::cli;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const OCTETS: usize = 3_000_000;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: cli::Command,
}

struct Told(Sender<String>);

impl Write for Told {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(octets).into_owned());
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts a gateway, which stays until the test's process ends, and gives its address.
fn gateway(arguments: &[&str]) -> SocketAddr {
    let line = Line::parse_from(["dtp", "gateway"].iter().chain(arguments));
    let (sender, told) = channel();
    std::thread::spawn(move || {
        let mut out = Told(sender.clone());
        if let Err(error) = cli::run(&line.command, &mut out) {
            let _ = sender.send(format!("failed: {error}\n"));
        }
    });
    let mut text = String::new();
    while !text.ends_with('\n') {
        text += &told.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let address = text.split(" at ").nth(1).unwrap_or_else(|| panic!("{text}"));
    address.split_whitespace().next().unwrap().parse().unwrap()
}

fn psk() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("psk");
    // A private key's file is one that its owner alone may read.
    heddle_dtp::keys::generate(&path).unwrap();
    let text = path.to_str().unwrap().to_owned();
    (directory, text)
}

/// A server that answers each connection by `answer`.
fn tcp_server(answer: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

/// From a client of TCP over DTP to a server of TCP.
fn chain(psk: &str, to: &str) -> SocketAddr {
    let server = gateway(&["--listen", "127.0.0.1:0", "--to", to, "--psk", psk]).to_string();
    gateway(&["--accept", "127.0.0.1:0", "--server", &server, "--psk", psk])
}

#[test]
fn each_direction_ends_by_itself() {
    let (_directory, psk) = psk();
    // Answers only when it has heard the end.
    let server = tcp_server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.reverse();
        stream.write_all(&all).unwrap();
    });
    let entry = chain(&psk, &server.to_string());
    let sent: Vec<u8> = (0..OCTETS).map(|place| (place * 31 % 251) as u8).collect();
    let mut client = TcpStream::connect(entry).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    got.reverse();
    assert!(got == sent);
}

#[test]
fn a_server_that_is_not_there_resets_the_connection() {
    let (_directory, psk) = psk();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let entry = chain(&psk, &gone.to_string());
    let mut client = TcpStream::connect(entry).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let error = client.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// A web server that has one page.
fn web() -> SocketAddr {
    tcp_server(|mut stream| {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {OCTETS}\r\n\r\n").unwrap();
        stream.write_all(&vec![b'x'; OCTETS]).unwrap();
    })
}

/// Runs a program, which must succeed, with its connections to an address led over DTP.
fn run(psk: &str, via: &str, program: &[&str]) {
    let mut library: PathBuf = std::env::current_exe().unwrap();
    library.set_file_name("libheddle_dtp_preload.so");
    let library = library.to_str().unwrap();
    let options = ["dtp", "run", "--via", via, "--psk", psk, "--library", library, "--"];
    let line = Line::parse_from(options.iter().chain(program));
    cli::run(&line.command, &mut Vec::new()).unwrap();
}

#[test]
fn wget_and_curl_fetch_over_dtp() {
    let (directory, psk) = psk();
    let server = gateway(&["--listen", "127.0.0.1:0", "--to", &web().to_string(), "--psk", &psk]);
    let via = format!("127.0.0.3:80={server}");
    for (name, program) in [
        ("wget", &["wget", "-q", "--tries=1", "-O"][..]),
        ("curl", &["curl", "-s", "--noproxy", "*", "-o"]),
    ] {
        let out = directory.path().join(name);
        let program = [program, &[out.to_str().unwrap(), "http://127.0.0.3/"]].concat();
        run(&psk, &via, &program);
        let got = std::fs::read(&out).unwrap();
        assert!(got.len() == OCTETS && got.iter().all(|octet| *octet == b'x'), "{name}");
    }
}

#[test]
fn an_unchanged_program_goes_over_dtp() {
    let (directory, psk) = psk();
    let web = web();
    let to = web.to_string();
    let server = gateway(&["--listen", "127.0.0.1:0", "--to", &to, "--psk", &psk]);
    let out = directory.path().join("out");
    // Nobody listens at 127.0.0.3: only DTP leads on from there.
    let program = format!(
        "import socket, urllib.request
over_dtp = urllib.request.urlopen('http://127.0.0.3:80/', timeout=120).read()
over_tcp = urllib.request.urlopen('http://{web}/', timeout=120).read()
peer = socket.create_connection(('127.0.0.3', 80), timeout=120).getpeername()
try:
    refused = socket.create_connection(('127.0.0.3', 81), timeout=120)
except ConnectionRefusedError:
    refused = None
open('{}', 'w').write(f'{{len(over_dtp)}} {{over_dtp == over_tcp}} {{peer}} {{refused}}')",
        out.display()
    );
    run(&psk, &format!("127.0.0.3:80={server}"), &["python3", "-c", &program]);
    let told = std::fs::read_to_string(&out).unwrap();
    assert_eq!(told, format!("{OCTETS} True ('127.0.0.3', 80) None"));
}
