//! A safe layer over DPDK: EAL, memory pools, mbufs, ports and queues.
