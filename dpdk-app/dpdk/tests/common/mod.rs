//! EAL for tests: ordinary pages, no PCI device, a file prefix of the process's own.
#![allow(dead_code, clippy::unwrap_used)]

use dpdk::{Eal, EalConfig, LogLevel, Memory};

/// What the tests start EAL with, one lcore for each of `cpus`.
pub fn config(cpus: &[u32]) -> EalConfig {
    EalConfig::new(format!("dpdk-test-{}", std::process::id()))
        .lcores_on(cpus)
        .memory(Memory::WithoutHugepages { mib: 64 })
        .log_level(LogLevel::Error)
}

/// The first CPU that this process may use.
pub fn first_cpu() -> u32 {
    let list = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = list.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().split([',', '-']).next().unwrap().parse().unwrap()
}

/// EAL with `lcores` lcores, all on one CPU.
pub fn start(lcores: usize) -> Eal {
    Eal::init(&config(&vec![first_cpu(); lcores])).unwrap()
}
