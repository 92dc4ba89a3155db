//! Raw bindings to the system's libdpdk, generated when the crate is built.
//!
//! The build script asks pkg-config for `libdpdk` (22.11 is what the bindings are tested with), runs
//! bindgen over the headers in `wrapper.h` and compiles C wrappers for the functions that DPDK defines
//! as `static inline`, so that they can be called from Rust as any other.
//!
//! What is bound, and nothing else:
//!
//! | header | functions |
//! |---|---|
//! | `rte_eal.h`, `rte_errno.h`, `rte_log.h`, `rte_version.h` | init, cleanup, process type, runtime directory; `rte_errno` as [`dpdk_sys_errno`], `rte_strerror`; log levels and stream; version |
//! | `rte_lcore.h`, `rte_launch.h` | lcore numbers, remote launch and wait |
//! | `rte_cycles.h`, `rte_pause.h` | time-stamp counter and its frequency, pause |
//! | `rte_mempool.h`, `rte_mbuf.h` | pools of packet buffers; alloc, free, reference counts |
//! | `rte_ethdev.h` | device info, configure, queues, start, stop, close, bursts, statistics, link, MAC address, promiscuous and all-multicast modes |
//! | `rte_ring.h`, `rte_eth_ring.h` | rings, and Ethernet ports made of rings |
//! | `rte_bus_vdev.h` | virtual devices |
//! | `rte_telemetry.h` | commands and their data |
//! | `rte_bpf.h` | loading eBPF, its compiled function; [`dpdk_sys_first_word`] for programs to call |
//!
//! By default the crate links DPDK's shared libraries, and drivers load as plugins. With the feature
//! `static` it links the archives of DPDK's core and of the virtual drivers (af_packet, af_xdp, memif,
//! null, pcap, ring, tap) into the program.
//!
//! There is no code here beyond the bindings; the crate `dpdk` is the safe layer over them.
#![no_std]
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
