//! The paper's figure: files of three sizes over a network that is on for 6.6 x 2^n minutes and off for 7.8 in between.
//!
//! Time and sizes are a hundredth of the paper's, the rate is the paper's own: 2.95 Mbit/s, what all of its contenders reach undisturbed with
//! the smallest file. Opening a connection does not take a hundredth of the time, so the link's rate is found by a download over TCP first.

use std::time::Duration;

use heddle_testbed::schemes::programs_beside_this_one;
use heddle_testbed::schemes::tolerant::{DownloadReport, TolerantOptions, run_tolerant};
use heddle_testbed::shutdown::Shutdown;
use miette::{IntoDiagnostic, miette};
use serde::Serialize;

use super::report::Bar;

/// How much shorter everything is.
const SCALE: u32 = 100;

/// The network's first time on, and its times off, in the paper.
const ON: Duration = Duration::from_secs(396);
const OFF: Duration = Duration::from_secs(468);

/// Bits a second of payload that TCP reaches undisturbed, with all that it takes to begin and to end.
const RATE_BITS: f64 = 2.95e6;

/// The part of an Ethernet frame that is TCP's payload: 1448 of 1514 octets.
const TCP_PART: f64 = 1448.0 / 1514.0;

/// The paper's megabytes, and the Mbit/s that it gives for DTP and for TCP.
const PAPER: [(u64, f64, f64); 3] = [(77, 2.95, 2.95), (154, 1.42, 0.96), (308, 1.90, 0.83)];

/// The ratio that is asked for with the largest file, for which TCP begins anew twice.
const LEAST_RATIO: f64 = 2.29;

/// A size of the figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub paper_megabytes: u64,
    pub octets: u64,
    /// How often TCP began anew.
    pub disruptions: u32,
    pub dtp_mbit_per_s: f64,
    pub tcp_mbit_per_s: f64,
    pub paper_dtp_mbit_per_s: f64,
    pub paper_tcp_mbit_per_s: f64,
    /// What the ratio would be if neither lost any time but that of the outages and of what is fetched again.
    pub ratio_of_the_schedule: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.dtp_mbit_per_s / self.tcp_mbit_per_s
    }
}

/// Seconds that a file takes on the schedule: with `anew` it has to fit into one of the times on.
fn seconds_on_schedule(transfer: f64, anew: bool) -> f64 {
    let (mut on, off) = (ON.as_secs_f64() / f64::from(SCALE), OFF.as_secs_f64() / f64::from(SCALE));
    let (mut since, mut left) = (0.0, transfer);
    loop {
        if left <= on {
            return since + left;
        }
        if !anew {
            left -= on;
        }
        since += on + off;
        on *= 2.0;
    }
}

/// Downloads a file of so many of the paper's megabytes over DTP and TCP, over links that carry so many bits a second of TCP's payload.
fn downloads(
    megabytes: u64,
    bits: f64,
    shutdown: &Shutdown,
) -> miette::Result<[DownloadReport; 2]> {
    let directory = tempfile::tempdir().into_diagnostic()?;
    let octets = megabytes * 1_000_000 / u64::from(SCALE);
    let root = directory.path().join("served");
    std::fs::create_dir(&root).into_diagnostic()?;
    let file = root.join("file");
    let content: Vec<u8> =
        (0..octets).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    std::fs::write(&file, content).into_diagnostic()?;
    let options = TolerantOptions {
        file,
        octets,
        rate_bits: (bits / TCP_PART) as u64,
        on: ON / SCALE,
        off: OFF / SCALE,
        programs: programs_beside_this_one(),
        directory: directory.path().to_path_buf(),
    };
    let prefix = format!("heddle-dtp-{}-figure", std::process::id());
    let report = run_tolerant(&options, &prefix, shutdown, |_| {}).into_diagnostic()?;
    let downloads: [DownloadReport; 2] =
        report.downloads.try_into().map_err(|_| miette!("two downloads were expected"))?;
    if downloads.iter().any(|download| !download.right) {
        return Err(miette!("a file of {megabytes} MB is not what was sent"));
    }
    Ok(downloads)
}

/// Bits a second of payload with which TCP takes as long for the smallest file as it did in the paper.
fn calibrate(shutdown: &Shutdown) -> miette::Result<f64> {
    let [(megabytes, ..), ..] = PAPER;
    let [_, tcp] = downloads(megabytes, RATE_BITS, shutdown)?;
    let bits = (megabytes * 1_000_000 / u64::from(SCALE)) as f64 * 8.0;
    let wanted = bits / RATE_BITS;
    let beginning = (tcp.seconds - wanted).clamp(0.0, wanted / 2.0);
    Ok(bits / (wanted - beginning))
}

/// Runs the three sizes.
pub fn measure(shutdown: &Shutdown) -> miette::Result<(Vec<Row>, Bar)> {
    println!(
        "\nthe paper's figure, time and sizes 1/{SCALE}: on for {:.2} s x 2^n, off for {:.2} s",
        ON.as_secs_f64() / f64::from(SCALE),
        OFF.as_secs_f64() / f64::from(SCALE)
    );
    let bits = calibrate(shutdown)?;
    println!(
        "a link of {:.3} Mbit/s of TCP's payload, so that TCP reaches {:.2} with the smallest file",
        bits / 1e6,
        RATE_BITS / 1e6
    );
    println!(
        "  {:>8} {:>11} {:>9} {:>9} {:>6} {:>22} {:>9}",
        "of", "TCP anew", "DTP", "TCP", "ratio", "in the paper", "schedule"
    );
    let mut rows = Vec::new();
    for (megabytes, paper_dtp, paper_tcp) in PAPER {
        let [dtp, tcp] = downloads(megabytes, bits, shutdown)?;
        let octets = megabytes * 1_000_000 / u64::from(SCALE);
        let rate = |seconds: f64| octets as f64 * 8.0 / seconds / 1e6;
        let transfer = octets as f64 * 8.0 / RATE_BITS;
        let row = Row {
            paper_megabytes: megabytes,
            octets,
            disruptions: tcp.restarts,
            dtp_mbit_per_s: rate(dtp.seconds),
            tcp_mbit_per_s: rate(tcp.seconds),
            paper_dtp_mbit_per_s: paper_dtp,
            paper_tcp_mbit_per_s: paper_tcp,
            ratio_of_the_schedule: seconds_on_schedule(transfer, true)
                / seconds_on_schedule(transfer, false),
        };
        println!(
            "  {:>5} MB {:>11} {:>9.2} {:>9.2} {:>6.2} {:>6.2} {:>6.2} {:>8.2} {:>9.2}",
            megabytes,
            row.disruptions,
            row.dtp_mbit_per_s,
            row.tcp_mbit_per_s,
            row.ratio(),
            paper_dtp,
            paper_tcp,
            paper_dtp / paper_tcp,
            row.ratio_of_the_schedule
        );
        rows.push(row);
    }
    let last = rows.last().ok_or_else(|| miette!("no size"))?;
    let what = format!(
        "the paper's figure, 308 MB: rate, of restarting TCP ({:.2} by the schedule alone)",
        last.ratio_of_the_schedule
    );
    let bar = Bar::at_least(what, LEAST_RATIO, last.ratio());
    Ok((rows, bar))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_the_papers() {
        let of = |megabytes: f64, anew| {
            let transfer = megabytes * 1e4 * 8.0 / RATE_BITS;
            megabytes * 1e4 * 8.0 / 1e6 / seconds_on_schedule(transfer, anew)
        };
        for (megabytes, dtp, tcp) in PAPER {
            // The paper's are measured: within some hundredths.
            assert!((of(megabytes as f64, false) - dtp).abs() < 0.04, "{megabytes}");
            assert!((of(megabytes as f64, true) - tcp).abs() < 0.04, "{megabytes}");
        }
    }
}
