//! The controller as a process: what it listens to, and what is left of its state however it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A controller of one island whose forwarder is this machine.
struct Controller {
    child: Child,
    log: BufReader<ChildStderr>,
    announcements: SocketAddr,
}

/// A port that nobody uses just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn configuration(directory: &Path) -> (PathBuf, SocketAddr) {
    let announcements = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let text = format!(
        "gateway = \"192.0.2.1\"\nannouncements = \"{announcements}\"\nhold_ms = 0\n\
         [[island]]\nname = \"tno\"\ndatapath_id = \"1\"\nforwarder = \"127.0.0.1\"\n"
    );
    let path = directory.join("controller.toml");
    std::fs::write(&path, text).unwrap();
    (path, announcements)
}

impl Controller {
    fn start(configuration: &Path, announcements: SocketAddr, state: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_heddle"))
            .arg("controller")
            .arg("--config")
            .arg(configuration)
            .arg("--state")
            .arg(state)
            .args(["--listen", "tcp:127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut controller = Self { child, log, announcements };
        controller.wait_for("ready");
        controller
    }

    fn wait_for(&mut self, word: &str) {
        let mut all = String::new();
        while !all.contains(word) {
            let read = self.log.read_line(&mut all).unwrap();
            assert!(read > 0, "it ended: {all}");
        }
    }

    fn announce(&self, name: &str) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let text = format!(r#"[{{"name":"{name}","cost":1}}]"#);
        socket.send_to(text.as_bytes(), self.announcements).unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in good order: what it has counted.
    fn stop(self) -> Value {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The state in the file: its generation and names. It must be whole at any time.
fn read(state: &Path) -> (u64, BTreeSet<String>) {
    let text = std::fs::read(state).unwrap();
    let value: Value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
    let routes = value["routes"].as_array().unwrap();
    let names = routes.iter().map(|route| route["name"].as_str().unwrap().to_owned()).collect();
    (value["generation"].as_u64().unwrap(), names)
}

#[test]
fn state_is_whole_however_often_the_controller_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (configuration, announcements) = configuration(directory.path());
    let state = directory.path().join("state");
    let mut expected = BTreeSet::new();
    let mut last_generation = 0;
    for round in 0..12u64 {
        let controller = Controller::start(&configuration, announcements, &state);
        let (generation, names) = read(&state);
        assert!(generation > last_generation, "each start is counted");
        assert!(names.is_superset(&expected), "what was saved is known again");
        last_generation = generation;
        // It is killed at another point of its writing each time.
        let end = Instant::now() + Duration::from_millis(60 + round * 13);
        let mut number = 0;
        while Instant::now() < end {
            controller.announce(&format!("/{round}/{number}"));
            number += 1;
            let (_, names) = read(&state);
            assert!(names.is_superset(&expected), "nothing is lost while it writes");
            expected = names;
            std::thread::sleep(Duration::from_millis(2));
        }
        controller.kill();
    }
    assert!(!expected.is_empty());
    let controller = Controller::start(&configuration, announcements, &state);
    let end = controller.stop();
    assert!(end["prefixes"].as_u64().unwrap() >= expected.len() as u64);
    assert!(read(&state).1.is_superset(&expected));
}

#[test]
fn a_second_controller_may_not_have_the_same_state() {
    let directory = tempfile::tempdir().unwrap();
    let (configuration, announcements) = configuration(directory.path());
    let state = directory.path().join("state");
    let controller = Controller::start(&configuration, announcements, &state);
    let second = Command::new(env!("CARGO_BIN_EXE_heddle"))
        .arg("controller")
        .arg("--config")
        .arg(&configuration)
        .arg("--state")
        .arg(&state)
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("is in use by another controller"), "{said}");
    controller.stop();
}

#[test]
fn what_is_announced_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (configuration, announcements) = configuration(directory.path());
    let state = directory.path().join("state");
    let controller = Controller::start(&configuration, announcements, &state);
    let started = Instant::now();
    // A datagram may be lost, so it is said again.
    while !read(&state).1.contains("/tno/ping") {
        assert!(started.elapsed() < PATIENCE);
        controller.announce("/tno/ping");
        controller.announce("tno");
        std::thread::sleep(Duration::from_millis(20));
    }
    let end = controller.stop();
    assert_eq!(end["prefixes"], 1);
    assert_eq!(end["counters"]["names_announced"], 1);
    assert!(end["counters"]["names_bad"].as_u64().unwrap() >= 1);
}
