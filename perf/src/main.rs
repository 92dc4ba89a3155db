//! Benchmarks, comparisons and reports.

fn main() {}
