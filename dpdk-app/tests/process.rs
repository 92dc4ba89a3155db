//! The program as a process: what it says, answers and leaves behind.

#![allow(clippy::unwrap_used, clippy::panic)]

mod program;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use heddle_host::control::{self, Client};
use program::{Running, first_cpu};
use rustix::process::Signal;

/// A configuration file with one port of DPDK's own that hears itself, on the first CPU that this process may use.
struct File {
    directory: tempfile::TempDir,
    name: String,
}

impl File {
    fn new(test: &str, port: &str) -> Self {
        let cpu = first_cpu();
        let name = format!("test-{test}-{}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "[engine]\nname = \"{name}\"\nlcores = [{cpu}]\nidle = \"sleep\"\nhugepages = \"never\"\nmbufs = 2048\n\
             [[port]]\nname = \"loop\"\n{port}\n\
             [[session]]\nrole = \"destination\"\nid = 1\ngroup = \"239.1.1.1\"\ninputs = [\"loop\"]\ndeliver = [\"out\"]\n\
             [[port]]\nname = \"out\"\nvdev = \"net_ring1\"\n"
        );
        std::fs::write(directory.path().join("heddle.toml"), text).unwrap();
        Self { directory, name }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle-dpdk"));
        command.arg("-c").arg(self.directory.path().join("heddle.toml")).arg("--json");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn runtime_directory(&self) -> std::path::PathBuf {
        control::runtime_directory().join(control::file_prefix(&self.name))
    }
}

#[test]
fn it_answers_while_it_runs_and_stops_cleanly() {
    for (test, signal) in [("term", Signal::TERM), ("int", Signal::INT)] {
        let file = File::new(test, "vdev = \"net_ring0\"");
        let running = Running::start(file.command());
        let client = Client::connect(&file.name).unwrap();
        let stats = client.stats().unwrap();
        assert_eq!(stats.name, file.name);
        assert_eq!(stats.ports.keys().collect::<Vec<_>>(), ["loop", "out"]);
        assert_eq!(stats.counters["foreign_session"], 0);
        // A second engine of the same name is refused, and does the first no harm.
        let Output { status, stderr, .. } = file.command().output().unwrap();
        assert_eq!(status.code(), Some(1));
        let message = String::from_utf8(stderr).unwrap();
        assert!(message.contains("already runs"), "{message}");
        assert_eq!(client.stats().unwrap().name, file.name);
        drop(client);

        let last = running.stop(signal);
        assert_eq!(last.name, file.name);
        assert!(last.uptime_s > 0.0);
        assert!(!file.runtime_directory().exists(), "nothing is left behind");
    }
}

#[test]
fn at_rest_it_costs_little() {
    let file = File::new("rest", "vdev = \"net_ring0\"");
    let running = Running::start(file.command());
    // After a second without frames it sleeps longer.
    std::thread::sleep(Duration::from_millis(1500));
    let (began, before) = (Instant::now(), running.cpu_time());
    std::thread::sleep(Duration::from_secs(2));
    let share = (running.cpu_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    // It measures about 1 %; a worker that polled would have at least a good part of the CPU.
    assert!(share < 0.05, "{:.1} % of a CPU at rest", share * 100.0);
    running.stop(Signal::TERM);
}

#[test]
fn it_starts_again_where_it_was_killed() {
    let file = File::new("killed", "vdev = \"net_ring0\"");
    let first = Running::start(file.command());
    first.kill();
    assert!(file.runtime_directory().exists(), "a killed process cannot tidy up");
    let second = Running::start(file.command());
    assert_eq!(Client::connect(&file.name).unwrap().stats().unwrap().name, file.name);
    second.stop(Signal::TERM);
    assert!(!file.runtime_directory().exists(), "nothing is left behind");
}

#[test]
fn what_is_wrong_is_told() {
    let fails = |file: &File| {
        let Output { status, stderr, stdout } = file.command().output().unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(stdout.is_empty());
        // Without the line breaks and the frame around the report.
        String::from_utf8(stderr).unwrap().replace(['\n', '│', '╰', '─', '▶'], " ")
    };
    let message = fails(&File::new("config", "vdev = 5"));
    assert!(message.contains("heddle.toml:9:8"), "{message}");
    let message =
        fails(&File::new("device", "vdev = \"net_af_packet0,iface=nosuch,qdisc_bypass=0\""));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("nosuch"), "{message}");
    assert!(message.contains("must exist in this network namespace"), "{message}");
}
