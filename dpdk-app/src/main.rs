//! The poll-mode application that carries Heddle's protocols on DPDK.

fn main() {}
