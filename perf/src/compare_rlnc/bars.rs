//! What is expected of our network coding, as ratios within one run.

use super::Row;
use serde::Serialize;
use std::fmt;

/// One expectation and what was measured.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// What is compared.
    pub what: String,
    /// The ratio that is asked for.
    pub at_least: f64,
    /// The lowest ratio measured.
    pub measured: f64,
    /// Where it was measured.
    pub at: String,
    /// Whether it is as high as asked.
    pub met: bool,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.met { "met    " } else { "NOT MET" };
        let Self { what, at_least, measured, at, .. } = self;
        write!(f, "  {verdict} {what:<62} at least {at_least:5.2}, lowest {measured:6.2} ({at})")
    }
}

/// The lowest of the ratios that `of` gives for rows of `operation`.
fn bar<'a>(
    rows: &'a [Row],
    what: &str,
    at_least: f64,
    operation: &str,
    of: impl Fn(&'a Row) -> Option<f64>,
) -> Option<Bar> {
    rows.iter()
        .filter(|row| row.operation == operation)
        .filter_map(|row| Some((of(row)?, row)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(measured, row)| Bar {
            what: what.to_owned(),
            at_least,
            measured,
            at: format!("K={} N={}", row.k, row.n),
            met: measured >= at_least,
        })
}

/// The ratio of ours to the fastest of `peers`.
fn against(row: &Row, peers: &[&str], ours: &str) -> Option<f64> {
    let best = peers.iter().filter_map(|peer| row.rate(peer)).max_by(f64::total_cmp)?;
    Some(row.rate(ours)? / best)
}

/// All bars for which there are figures.
pub fn judge(rows: &[Row]) -> Vec<Bar> {
    let only = |n: usize, k: usize| move |row: &Row| row.n == n && row.k == k;
    let decode = only(1400, 64);
    [
        bar(rows, "encode one packet, N=1400: ISA-L", 2.5, "encode", |row| {
            (row.n == 1400).then(|| against(row, &["ISA-L"], "ours")).flatten()
        }),
        bar(
            rows,
            "encode one packet, N=1400, vector drawn: the better crate",
            2.0,
            "encode",
            |row| {
                let crates = ["rlnc", "rlnc-simdx"];
                (row.n == 1400).then(|| against(row, &crates, "ours, vector drawn")).flatten()
            },
        ),
        bar(rows, "encode one packet, N=476: ISA-L", 3.0, "encode", |row| {
            (row.n == 476).then(|| against(row, &["ISA-L"], "ours")).flatten()
        }),
        bar(
            rows,
            "encode K packets, N=1400, K>=16: the multiply ceiling",
            0.65,
            "encode batch",
            |row| (row.n == 1400 && row.k >= 16).then(|| against(row, &["ceiling"], "ours"))?,
        ),
        bar(
            rows,
            "the same with rows 2 KiB apart: packed rows",
            0.9,
            "batch, 2 KiB apart",
            |row| {
                (row.n == 1400 && row.k >= 16).then(|| against(row, &["ours, packed"], "ours"))?
            },
        ),
        bar(rows, "decode K random, N=1400, K=64: rlnc-simdx", 3.5, "decode random", |row| {
            decode(row).then(|| against(row, &["rlnc-simdx"], "ours"))?
        }),
        bar(rows, "decode K random, N=1400, K=64: rlnc", 15.0, "decode random", |row| {
            decode(row).then(|| against(row, &["rlnc"], "ours"))?
        }),
        bar(
            rows,
            "decode K random, N=1400, K=64: ISA-L by inversion",
            25.0,
            "decode random",
            |row| decode(row).then(|| against(row, &["ISA-L"], "ours"))?,
        ),
        bar(
            rows,
            "decode with 10 % lost, N=1400, K=64: rlnc-simdx",
            5.0,
            "decode 10 % lost",
            |row| decode(row).then(|| against(row, &["rlnc-simdx"], "ours"))?,
        ),
        bar(rows, "AVX2, one packet, N=1400: ISA-L's AVX2 path", 1.0, "encode, AVX2", |row| {
            against(row, &["ISA-L, AVX2"], "ours")
        }),
        bar(
            rows,
            "AVX2, one packet, N=1400: the nibble-table bound for 1 output",
            0.9,
            "encode, AVX2",
            |row| against(row, &["ceiling"], "ours"),
        ),
        bar(
            rows,
            "AVX2, K packets, N=1400, K>=16: the nibble-table bound for 4 outputs",
            0.9,
            "batch, AVX2",
            |row| (row.k >= 16).then(|| against(row, &["ceiling"], "ours"))?,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
