//! The figures: tables for people and JSON for programs.

use std::path::Path;

use miette::{IntoDiagnostic, WrapErr};
use serde::Serialize;

/// What one contender did in one case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    pub contender: String,
    /// Megabits of payload a second, in each run.
    pub mbit_per_s: Vec<f64>,
    /// Seconds of CPU time of both ends for 10^9 octets of payload, in each run.
    pub cpu_s_per_gb: Vec<f64>,
    /// For runs with an outage: seconds beyond those of the transfer and the outage, in each run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dead_s: Vec<f64>,
    /// What became of runs that did not carry everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Figure {
    pub fn new(contender: &str) -> Self {
        Self { contender: contender.to_owned(), ..Self::default() }
    }

    /// Takes a run in.
    pub fn add(&mut self, octets: u64, run: miette::Result<super::site::Result>) {
        match run {
            Ok(run) => {
                let gigabytes = octets as f64 / 1e9;
                self.mbit_per_s.push(gigabytes * 8e3 / run.seconds);
                self.cpu_s_per_gb.push(run.cpu_seconds / gigabytes);
            }
            Err(report) => self.failures.push(report.to_string()),
        }
    }

    /// Whether every run carried everything.
    pub fn is_whole(&self) -> bool {
        self.failures.is_empty() && !self.mbit_per_s.is_empty()
    }
}

/// The middle of the values; nothing of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A case with the figures of all contenders.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    pub name: String,
    pub octets: u64,
    pub figures: Vec<Figure>,
}

impl Case {
    pub fn figure(&self, contender: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.contender == contender)
    }

    pub fn print_head(&self, runs: usize) {
        println!("\n{}, {} MB, medians of {runs}", self.name, self.octets / 1_000_000);
        println!("  {:<16} {:>10} {:>10} {:>10}", "", "Mbit/s", "CPU s/GB", "dead s");
    }

    /// A line of the table.
    pub fn print(figure: &Figure) {
        let cell = |values: &[f64], digits| {
            median(values).map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
        };
        println!(
            "  {:<16} {:>10} {:>10} {:>10}{}",
            figure.contender,
            cell(&figure.mbit_per_s, 1),
            cell(&figure.cpu_s_per_gb, 2),
            cell(&figure.dead_s, 3),
            figure.failures.first().map_or_else(String::new, |failure| format!("  {failure}"))
        );
    }
}

/// What a figure should be.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    pub what: String,
    /// What is asked: at least that, or at most.
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub measured: f64,
    pub is_met: bool,
}

impl Bar {
    pub fn at_least(what: impl Into<String>, bound: f64, measured: f64) -> Self {
        let is_met = measured >= bound;
        Self { what: what.into(), at_least: Some(bound), at_most: None, measured, is_met }
    }

    pub fn at_most(what: impl Into<String>, bound: f64, measured: f64) -> Self {
        let is_met = measured <= bound;
        Self { what: what.into(), at_least: None, at_most: Some(bound), measured, is_met }
    }
}

/// Everything that was measured, and where.
#[derive(Debug, Serialize)]
pub struct Report {
    pub processor: String,
    pub cpus: usize,
    pub kernel: String,
    /// The mean number of processes that wanted a CPU in the minute before.
    pub load_before: f64,
    pub runs: usize,
    pub cases: Vec<Case>,
    pub figure: Vec<super::figure::Row>,
    pub flows: Option<super::flows::Flows>,
    pub bars: Vec<Bar>,
}

impl Report {
    /// Says which bars are met.
    pub fn print_bars(&self) {
        println!("\nbars");
        for bar in &self.bars {
            let (word, bound) = match (bar.at_least, bar.at_most) {
                (Some(bound), _) => ("at least", bound),
                (_, bound) => ("at most", bound.unwrap_or(f64::NAN)),
            };
            let met = if bar.is_met { "met" } else { "NOT MET" };
            println!("  {:<66} {:>7.3}, {word} {bound:.2}: {met}", bar.what, bar.measured);
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
