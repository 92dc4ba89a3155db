//! The figures: a table for people and JSON for programs.

use std::path::Path;

use miette::{IntoDiagnostic, WrapErr};
use serde::Serialize;

/// What one measurement gives.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// Frames that went through.
    pub packets: u64,
    /// CPU time of the thread for them.
    pub cpu_seconds: f64,
    /// Frames for each second of it.
    pub packets_per_cpu_second: f64,
    /// Allocations of this process while frames were on their way.
    pub allocations: u64,
}

impl Figure {
    /// Nothing yet.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    /// Counts frames that took so much CPU time.
    pub fn add(&mut self, packets: u64, cpu_seconds: f64, allocations: u64) {
        self.packets += packets;
        self.cpu_seconds += cpu_seconds;
        self.allocations += allocations;
        self.packets_per_cpu_second = self.packets as f64 / self.cpu_seconds;
    }

    /// A line of the table; `reference` is what it is a part of.
    pub fn print(&self, reference: Option<&Self>) {
        let part = reference.map_or_else(String::new, |reference| {
            format!("{:.2}", self.packets_per_cpu_second / reference.packets_per_cpu_second)
        });
        println!(
            "  {:<44} {:>10.2} {:>8.1} {part:>6} {:>6}",
            self.what,
            self.packets_per_cpu_second / 1e6,
            1e9 / self.packets_per_cpu_second,
            self.allocations
        );
    }
}

/// The head of a table; `reference` says what the fourth column is a part of.
pub fn print_head(title: &str, reference: &str) {
    println!("{title}");
    println!("  {:44} {:>10} {:>8} {reference:>6} {:>6}", "", "M/CPU-s", "ns each", "allocs");
}

/// What a figure should be.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// Of what.
    pub what: String,
    /// What it should be at least.
    pub at_least: f64,
    /// What it is.
    pub measured: f64,
    /// Whether that is enough.
    pub is_met: bool,
}

impl Bar {
    /// Compares.
    pub fn new(what: &str, at_least: f64, measured: f64) -> Self {
        Self { what: what.to_owned(), at_least, measured, is_met: measured >= at_least }
    }
}

/// Everything that was measured, and where.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of DPDK.
    pub dpdk: String,
    /// As `/proc/cpuinfo` calls it.
    pub processor: String,
    /// Octets of each Interest's frame.
    pub frame_octets: usize,
    /// Frames that are on their way at a time.
    pub frames: usize,
    /// testpmd in its modes io and mac; nothing where it is not installed.
    pub testpmd: Vec<Figure>,
    /// The seed's four set-ups over rings.
    pub rings: Vec<Figure>,
    /// More prefixes, and programs, over rings.
    pub scale: Vec<Figure>,
    /// The four set-ups over veth; nothing where there may be no namespaces.
    pub veth: Vec<Figure>,
    /// What is asked.
    pub bars: Vec<Bar>,
}

impl Report {
    /// Says which bars are met.
    pub fn print_bars(&self) {
        println!("bars");
        for bar in &self.bars {
            let met = if bar.is_met { "met" } else { "NOT MET" };
            println!("  {:<60} {:>7.2} of {:>5.2}  {met}", bar.what, bar.measured, bar.at_least);
        }
    }

    /// Writes the JSON.
    pub fn write(&self, path: &Path) -> miette::Result<()> {
        let text = serde_json::to_string_pretty(self).into_diagnostic()?;
        std::fs::write(path, text + "\n")
            .into_diagnostic()
            .wrap_err_with(|| format!("{} cannot be written", path.display()))
    }
}

/// The processor's name.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    line.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned())
}
