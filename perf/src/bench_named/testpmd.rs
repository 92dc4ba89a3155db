//! DPDK's own forwarder beside ours: `dpdk-testpmd` with one forwarding lcore and one net_ring port that hears itself.
//!
//! As many frames go round as in our measurements (32 bursts of 32, of 64 octets), in memory without hugepages, too. `io` hands frames on without a
//! look at them; `mac` writes both Ethernet addresses. What is counted is the CPU time of the forwarding thread.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use miette::{IntoDiagnostic, miette};

use super::report::Figure;

/// CPU time after which it forwards for sure, how long that may take, and how often we look.
const WARM_UP: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Ends testpmd with whoever started it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures one mode. Nothing when testpmd is not installed.
pub fn measure(mode: &str, cpu: u32, seconds: Duration) -> miette::Result<Option<Figure>> {
    let child = Command::new("dpdk-testpmd")
        .arg(format!("--lcores=0@{cpu},1@{cpu}"))
        .args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--vdev=net_ring0"])
        .arg(format!("--file-prefix=heddle-perf-testpmd-{}", std::process::id()))
        .args(["--", "-i", "--port-topology=loop", "--no-flush-rx", "--total-num-mbufs=4096"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut testpmd = match child {
        Ok(child) => Running(child),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).into_diagnostic(),
    };
    let (stdin, stdout) = (testpmd.0.stdin.take(), testpmd.0.stdout.take());
    let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else { return Err(miette!("no pipes")) };
    writeln!(stdin, "set fwd {mode}\nstart tx_first 32").into_diagnostic()?;
    // Its output comes late, in blocks: what it does is seen by its thread's time.
    let process = testpmd.0.id();
    let patience = Instant::now() + PATIENCE;
    while forwarding_time(process)?.is_none_or(|time| time < WARM_UP) {
        if Instant::now() > patience || testpmd.0.try_wait().into_diagnostic()?.is_some() {
            return Err(miette!("dpdk-testpmd does not forward"));
        }
        std::thread::sleep(PAUSE);
    }
    std::thread::sleep(seconds);
    writeln!(stdin, "stop").into_diagnostic()?;
    let mut cpu = forwarding_time(process)?.unwrap_or_default();
    loop {
        std::thread::sleep(PAUSE);
        let later = forwarding_time(process)?.unwrap_or_default();
        if later == cpu {
            break;
        }
        cpu = later;
    }
    let _ = writeln!(stdin, "quit");
    drop(stdin);
    let text = std::io::read_to_string(stdout).into_diagnostic()?;
    // The totals of all ports are the second ones.
    let sum = text.split_once("Accumulated forward statistics").map_or("", |(_, sum)| sum);
    let total = sum.split_once("TX-total:").and_then(|(_, rest)| rest.split_whitespace().next());
    let packets = total
        .and_then(|total| total.parse().ok())
        .ok_or_else(|| miette!("dpdk-testpmd gives no totals"))?;
    let mut figure = Figure::new(format!("testpmd {mode}"));
    figure.add(packets, cpu.as_secs_f64(), 0);
    Ok(Some(figure))
}

/// CPU time of the only thread that forwards, which does nothing else; nothing before it is there.
fn forwarding_time(process: u32) -> miette::Result<Option<Duration>> {
    let tasks = Path::new("/proc").join(process.to_string()).join("task");
    for task in std::fs::read_dir(&tasks).into_diagnostic()?.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").contains("worker") {
            let time = read("schedstat");
            let nanoseconds = time.split_whitespace().next().and_then(|time| time.parse().ok());
            return Ok(nanoseconds.map(Duration::from_nanos));
        }
    }
    Ok(None)
}
