//! `heddle stats` against sockets that behave like those of running engines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as StdCommand, Stdio};
use std::thread;

use assert_cmd::Command;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, accept, bind, listen, recv,
    send, socket,
};

/// Serves clients for as long as the test runs. Each answer shows one frame more, and a second.
fn engine(directory: &Path, name: &'static str) {
    let directory = directory.join("dpdk").join(format!("heddle-{name}"));
    fs::create_dir_all(&directory).unwrap();
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(directory.join("dpdk_telemetry.v2")).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 8).unwrap();
    thread::spawn(move || {
        let mut frames = 0;
        loop {
            let client = accept(&listener).unwrap();
            let greeting = br#"{"version":"DPDK 22.11.11","pid":7,"max_output_len":16384}"#;
            // A client that only looked whether somebody listens may be gone already.
            let _ = send(&client, greeting, SendFlags::NOSIGNAL);
            let mut command = [0; 100];
            if recv(&client, &mut command, RecvFlags::empty()).is_ok_and(|(len, _)| len > 0) {
                frames += 1;
                let answer = format!(
                    r#"{{"/heddle/stats":{{"name":"{name}","uptime_s":{frames},"ports":{{"a":{{"rx_frames":{frames},
                    "rx_octets":0,"tx_frames":0,"tx_octets":0,"tx_dropped":0}}}},"counters":{{"innovative":5}}}}}}"#
                );
                let _ = send(&client, answer.as_bytes(), SendFlags::NOSIGNAL);
            }
        }
    });
}

fn heddle(directory: &Path, args: &[&str]) -> (bool, String, String) {
    let output = Command::cargo_bin("heddle")
        .unwrap()
        .env("RUNTIME_DIRECTORY", directory)
        .arg("stats")
        .args(args)
        .output()
        .unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

const TABLES: &str = "\
port  rx frames   rx  tx frames   tx  tx dropped
a             1  0 B          0  0 B           0

counter     count
innovative      5
";

#[test]
fn an_engine_is_shown_in_tables() {
    let directory = tempfile::tempdir().unwrap();
    engine(directory.path(), "E");
    let (ok, stdout, stderr) = heddle(directory.path(), &["E"]);
    assert!(ok, "{stderr}");
    assert_eq!(stdout, format!("E, up for 1 s\n\n{TABLES}"));
}

#[test]
fn all_engines_are_shown_unless_one_is_named() {
    let directory = tempfile::tempdir().unwrap();
    engine(directory.path(), "b");
    engine(directory.path(), "a");
    let (ok, stdout, stderr) = heddle(directory.path(), &[]);
    assert!(ok, "{stderr}");
    assert_eq!(stdout, format!("a, up for 1 s\n\n{TABLES}\nb, up for 1 s\n\n{TABLES}"));
    let (ok, stdout, _) = heddle(directory.path(), &["--json"]);
    assert!(ok);
    let names: Vec<String> = stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].to_string())
        .collect();
    assert_eq!(names, ["\"a\"", "\"b\""]);
}

#[test]
fn watching_goes_on_and_shows_rates() {
    let directory = tempfile::tempdir().unwrap();
    engine(directory.path(), "E");
    let mut child = StdCommand::new(env!("CARGO_BIN_EXE_heddle"))
        .env("RUNTIME_DIRECTORY", directory.path())
        .args(["stats", "E", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ports: Vec<String> = lines
        .map(|line| line.unwrap())
        .filter(|line| line.starts_with("a "))
        .take(2)
        .map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ports, ["a 1 0", "a 1 /s"]);
}

#[test]
fn an_engine_that_does_not_run_is_an_error_that_names_those_that_do() {
    let directory = tempfile::tempdir().unwrap();
    let (ok, stdout, stderr) = heddle(directory.path(), &["E"]);
    assert!(!ok && stdout.is_empty());
    let dpdk = directory.path().join("dpdk");
    let expected =
        format!("error: no engine is running: nothing listens below {}\n", dpdk.display());
    assert_eq!(stderr, expected);
    engine(directory.path(), "F");
    let (ok, stdout, stderr) = heddle(directory.path(), &["E"]);
    assert!(!ok && stdout.is_empty());
    assert_eq!(stderr, "error: no engine called `E` is running; running: F\n");
}
