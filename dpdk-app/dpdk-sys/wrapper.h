/* The headers of DPDK that the bindings are generated from. */
#include <rte_config.h>
#include <rte_version.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_lcore.h>
#include <rte_launch.h>
#include <rte_cycles.h>
#include <rte_pause.h>
#include <rte_mempool.h>
#include <rte_mbuf.h>
#include <rte_ether.h>
#include <rte_ethdev.h>
#include <rte_ring.h>
#include <rte_eth_ring.h>
#include <rte_bus_vdev.h>
#include <rte_telemetry.h>
#include <rte_bpf.h>

/* rte_errno is a macro over a thread-local variable, which no binding generator can follow. */
int dpdk_sys_errno(void);

/* The first eight octets of what is at an address: a function that compiled eBPF can call, with the arguments that it passes. */
uint64_t dpdk_sys_first_word(uint64_t address, uint64_t, uint64_t, uint64_t, uint64_t);
