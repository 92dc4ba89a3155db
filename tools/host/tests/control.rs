//! The client against a socket that behaves like EAL's, and against ones that do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use heddle_host::control::{Client, ControlError, running_below};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, accept, bind, listen, recv,
    send, socket,
};

const GREETING: &str = r#"{"version":"DPDK 22.11.11","pid":7,"max_output_len":16384}"#;
const STATS: &str =
    r#"{"/heddle/stats":{"name":"E","uptime_s":1,"ports":{},"counters":{"drops":2}}}"#;

fn socket_of(directory: &Path, name: &str) -> PathBuf {
    let directory = directory.join(format!("heddle-{name}"));
    fs::create_dir_all(&directory).unwrap();
    directory.join("dpdk_telemetry.v2")
}

fn listener(path: &Path) -> OwnedFd {
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    listener
}

/// Serves one client: greets it, and answers each command in turn. Gives back the commands that came.
fn serve(path: &Path, answers: &'static [&'static str]) -> JoinHandle<Vec<String>> {
    let listener = listener(path);
    thread::spawn(move || {
        let client = accept(&listener).unwrap();
        send(&client, GREETING.as_bytes(), SendFlags::empty()).unwrap();
        let mut commands = Vec::new();
        for answer in answers {
            let mut buffer = [0; 100];
            let (len, _) = recv(&client, &mut buffer, RecvFlags::empty()).unwrap();
            commands.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
            send(&client, answer.as_bytes(), SendFlags::empty()).unwrap();
        }
        commands
    })
}

#[test]
fn an_engine_is_asked_for_its_counters() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(&socket_of(directory.path(), "E"), &[STATS, STATS]);
    let client = Client::connect_below(directory.path(), "E").unwrap();
    assert_eq!((client.info().version.as_str(), client.info().pid), ("DPDK 22.11.11", 7));
    for _ in 0..2 {
        let stats = client.stats().unwrap();
        assert_eq!((stats.name.as_str(), stats.counters["drops"]), ("E", 2));
    }
    assert_eq!(server.join().unwrap(), ["/heddle/stats", "/heddle/stats"]);
}

#[test]
fn answers_that_are_not_expected_are_named() {
    for (answer, why) in [
        (r#"{"/heddle/stats":null}"#, "it does not know the command"),
        (r#"{"/other":{}}"#, "it is the answer to another command"),
        (r#"{"/heddle/stats":{"name":"E"}}"#, "missing field `uptime_s`"),
        ("{", "EOF while parsing an object at line 1 column 1"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = socket_of(directory.path(), "E");
        // Leaked so that the server's thread can hold it; a few octets for the test's life.
        let answers: &'static [&'static str] = vec![answer].leak();
        let server = serve(&path, answers);
        let client = Client::connect_below(directory.path(), "E").unwrap();
        let error = client.stats().unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "the engine at {} answered `/heddle/stats` with something else than expected: {why}",
                path.display()
            )
        );
        server.join().unwrap();
    }
}

#[test]
fn an_engine_that_hangs_up_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(&socket_of(directory.path(), "E"), &[]);
    let client = Client::connect_below(directory.path(), "E").unwrap();
    server.join().unwrap();
    assert!(matches!(client.stats(), Err(ControlError::Closed { .. })));
}

#[test]
fn an_engine_that_is_silent_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = socket_of(directory.path(), "E");
    let _listener = listener(&path);
    let start = Instant::now();
    let error = Client::open(&path, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn without_engines_the_error_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let none = directory.path().join("dpdk");
    for error in [running_below(&none).unwrap_err(), Client::connect_below(&none, "E").unwrap_err()]
    {
        let expected = format!("no engine is running: nothing listens below {}", none.display());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_killed_engine_s_socket_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let path = socket_of(directory.path(), "dead");
    drop(listener(&path));
    assert!(path.exists());
    assert!(matches!(running_below(directory.path()), Err(ControlError::NoneRunning { .. })));

    fs::create_dir(directory.path().join("rte")).unwrap();
    let b = serve(&socket_of(directory.path(), "b"), &[]);
    let a = serve(&socket_of(directory.path(), "a"), &[]);
    assert_eq!(running_below(directory.path()).unwrap(), ["a", "b"]);
    a.join().unwrap();
    b.join().unwrap();

    let c = serve(&socket_of(directory.path(), "c"), &[]);
    let error = Client::connect_below(directory.path(), "dead").unwrap_err();
    assert_eq!(error.to_string(), "no engine called `dead` is running; running: c");
    c.join().unwrap();
}

#[test]
fn a_name_that_makes_too_long_a_path_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = Client::connect_below(directory.path(), &"x".repeat(120)).unwrap_err();
    assert!(matches!(error, ControlError::System { what: "connect to", .. }), "{error}");
}
