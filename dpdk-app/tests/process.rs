//! The program as a process: what it says, answers and leaves behind.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use heddle_host::control::{self, Client};
use heddle_host::metrics::Stats;
use rustix::process::{Pid, Signal, kill_process};

/// A configuration file with one port of DPDK's own that hears itself, on the first CPU that this process may use.
struct File {
    directory: tempfile::TempDir,
    name: String,
}

impl File {
    fn new(test: &str, port: &str) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let cpu = cpus.trim().split([',', '-']).next().unwrap();
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

/// A process that is killed when the test fails.
struct Running(Child);

impl Running {
    /// Starts the program and reads what it says until it is ready.
    fn start(file: &File) -> Self {
        let mut child = file.command().spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        loop {
            match lines.next() {
                Some(Ok(line)) if line.ends_with("ready") => break,
                Some(Ok(line)) => said.push(line),
                end => panic!("it ended before it was ready ({end:?}): {}", said.join("\n")),
            }
        }
        // Somebody must take what it says later.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// CPU time that the process has used.
    fn cpu_time(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.0.id())).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_answers_while_it_runs_and_stops_cleanly() {
    for (test, signal) in [("term", Signal::TERM), ("int", Signal::INT)] {
        let file = File::new(test, "vdev = \"net_ring0\"");
        let mut running = Running::start(&file);
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

        running.signal(signal);
        let mut json = String::new();
        running.0.stdout.take().unwrap().read_to_string(&mut json).unwrap();
        assert_eq!(running.0.wait().unwrap().code(), Some(0));
        let last: Stats = serde_json::from_str(&json).unwrap();
        assert_eq!(last.name, file.name);
        assert!(last.uptime_s > 0.0);
        assert!(!file.runtime_directory().exists(), "nothing is left behind");
    }
}

#[test]
fn at_rest_it_costs_little() {
    let file = File::new("rest", "vdev = \"net_ring0\"");
    let mut running = Running::start(&file);
    // After a second without frames it sleeps longer.
    std::thread::sleep(Duration::from_millis(1500));
    let (began, before) = (Instant::now(), running.cpu_time());
    std::thread::sleep(Duration::from_secs(2));
    let share = (running.cpu_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    // It measures about 1 %; a worker that polled would have at least a good part of the CPU.
    assert!(share < 0.05, "{:.1} % of a CPU at rest", share * 100.0);
    running.signal(Signal::TERM);
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

#[test]
fn it_starts_again_where_it_was_killed() {
    let file = File::new("killed", "vdev = \"net_ring0\"");
    let mut first = Running::start(&file);
    first.signal(Signal::KILL);
    first.0.wait().unwrap();
    assert!(file.runtime_directory().exists(), "a killed process cannot tidy up");
    let mut second = Running::start(&file);
    assert_eq!(Client::connect(&file.name).unwrap().stats().unwrap().name, file.name);
    second.signal(Signal::TERM);
    assert_eq!(second.0.wait().unwrap().code(), Some(0));
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
