//! `heddle dtp flows` beside a server, sockets without a process, and one that talks nonsense; error texts of `heddle dtp`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn heddle(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.arg("dtp").args(arguments).current_dir(home).stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", home.join("run")).env("XDG_STATE_HOME", home.join("state"));
    command.env("HOME", home);
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    heddle(home, arguments).output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn flows_are_listed_and_bad_sockets_do_no_harm() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let header_alone = text(&run(home, &["flows"]).stdout);
    assert_eq!(header_alone.lines().count(), 1, "{header_alone}");

    let key = text(&run(home, &["keygen", "key"]).stdout);
    std::fs::create_dir(home.join("root")).unwrap();
    std::fs::write(home.join("root/data"), vec![7; 1000]).unwrap();
    let mut server = heddle(home, &["serve", "root", "--key", "key", "--listen", "127.0.0.1:0"]);
    let mut server = Process(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("the server listens").unwrap();
        if let Some((_, address)) = line.split_once(" at ") {
            break address.to_owned();
        }
    };

    let error = run(home, &["get", &address, "data", "--quiet"]);
    assert!(!error.status.success());
    assert!(text(&error.stderr).contains("is not known"), "{}", text(&error.stderr));
    let trusting = ["get", &address, "data", "--quiet", "--trust-on-first-use"];
    let got = run(home, &trusting);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert!(text(&got.stderr).contains(key.trim()));
    // It is known by now.
    let got = run(home, &["get", &address, "data", "again", "--quiet"]);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert_eq!(std::fs::read(home.join("again")).unwrap(), vec![7; 1000]);

    // A client that nobody answers has a flow for as long as it tries.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = silent.local_addr().unwrap().to_string();
    let mut client = heddle(home, &["get", &nobody, "x", "--quiet", "--server-key", key.trim()]);
    let client = Process(client.stderr(Stdio::null()).spawn().unwrap());
    let directory = home.join("run/heddle/dtp");
    let nonsense = UnixListener::bind(directory.join("nonsense.sock")).unwrap();
    std::thread::spawn(move || {
        for stream in nonsense.incoming() {
            let _ = stream.unwrap().write_all(b"{\"pid\":\"\x1b[2J\"}\n");
        }
    });
    drop(UnixListener::bind(directory.join("dead.sock")).unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = run(home, &["flows", "--json"]);
        assert!(listed.status.success(), "{}", text(&listed.stderr));
        assert!(text(&listed.stderr).contains("nonsense.sock"));
        assert!(!listed.stderr.contains(&0x1b), "no escape sequence comes through");
        let line = format!("{{\"pid\":{},", client.0.id());
        let listed = text(&listed.stdout);
        if listed.lines().any(|flow| {
            flow.starts_with(&line) && flow.contains(&nobody) && flow.contains("\"opening\"")
        }) {
            break;
        }
        assert!(Instant::now() < end, "{listed}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!directory.join("dead.sock").exists());
    assert!(text(&run(home, &["flows"]).stdout).contains(&nobody));

    // Others could have put sockets there.
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = run(home, &["flows"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("this user's alone"));
}

#[test]
fn errors_name_their_file_once() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let missing = run(home, &["serve", ".", "--key", "missing"]);
    assert_eq!(text(&missing.stderr).matches("missing").count(), 1, "{}", text(&missing.stderr));
    std::fs::write(home.join("open"), "07".repeat(32)).unwrap();
    std::fs::set_permissions(home.join("open"), PermissionsExt::from_mode(0o644)).unwrap();
    let open = run(home, &["serve", ".", "--key", "open"]);
    assert_eq!(text(&open.stderr).matches("open:").count(), 1, "{}", text(&open.stderr));
    assert!(run(home, &["keygen", "mine"]).status.success());
    let twice = run(home, &["keygen", "mine"]);
    assert_eq!(text(&twice.stderr).matches("mine").count(), 1, "{}", text(&twice.stderr));
}
