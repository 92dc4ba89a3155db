//! The command line of Heddle.

fn main() {}
