//! The program as a process.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::time::Duration;

use heddle_host::metrics::Stats;
use rustix::process::{Pid, Signal, kill_process};

/// The first CPU that this process may use.
pub fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    cpus.trim().split([',', '-']).next().unwrap().to_owned()
}

/// A process that is killed when the test fails.
pub struct Running(Child);

impl Running {
    /// Starts the program and reads what it says until it is ready. Its output and its errors are pipes.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
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

    /// CPU time that the process has used.
    pub fn cpu_time(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.0.id())).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }

    /// Tells it to stop by a signal, and waits. What it counted.
    pub fn stop(mut self, signal: Signal) -> Stats {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        let mut json = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut json).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        serde_json::from_str(&json).unwrap()
    }

    /// Kills it, as a lack of memory would.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
