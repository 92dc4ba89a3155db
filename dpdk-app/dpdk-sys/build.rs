//! Generates the bindings, compiles the wrappers of DPDK's inline functions and says what to link.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Functions to bind, as regular expressions.
const FUNCTIONS: &[&str] = &[
    "dpdk_sys_errno",
    "dpdk_sys_first_word",
    "rte_bpf_(load|get_jit|destroy)",
    "rte_strerror",
    "rte_version",
    "rte_eal_(init|cleanup|process_type|get_runtime_dir)",
    "rte_log_(set_global_level|get_global_level|set_level_pattern)",
    "rte_openlog_stream",
    "rte_(lcore_id|lcore_count|get_next_lcore|get_main_lcore|lcore_to_cpu_id|socket_id)",
    "rte_(thread_register|thread_unregister)",
    "rte_eal_(remote_launch|wait_lcore|mp_wait_lcore|get_lcore_state)",
    "rte_(rdtsc|get_tsc_hz|pause)",
    "rte_pktmbuf_(pool_create|alloc|alloc_bulk|free|free_bulk|free_seg)",
    "rte_mbuf_(refcnt_read|refcnt_update|sanity_check)",
    "rte_mempool_(lookup|free|avail_count|in_use_count)",
    "rte_eth_(rx|tx)_burst",
    "rte_eth_dev_(configure|start|stop|close|info_get|get_port_by_name|get_name_by_port|count_avail|is_valid_port|adjust_nb_rx_tx_desc|get_mtu|set_mtu)",
    "rte_eth_(rx|tx)_queue_setup",
    "rte_eth_stats_(get|reset)",
    "rte_eth_link_get_nowait",
    "rte_eth_macaddr_get",
    "rte_eth_(promiscuous|allmulticast)_(enable|disable|get)",
    "rte_eth_find_next",
    "rte_eth_from_rings",
    "rte_ring_(create|lookup|free|count|free_count)",
    "rte_ring_(enqueue|dequeue)_burst",
    "rte_vdev_(init|uninit)",
    "rte_telemetry_register_cmd",
    "rte_tel_data_.*",
];

/// Types to bind beyond those that the functions mention.
const TYPES: &[&str] = &["rte_mbuf", "rte_eth_conf", "rte_eth_stats", "rte_ether_addr"];

/// Constants to bind.
const CONSTANTS: &[&str] = &[
    "EBPF_REG_.*",
    "RTE_ETH_LINK_.*",
    "RTE_ETH_QUEUE_STAT_CNTRS",
    "RTE_ETHER_.*",
    "RTE_LOG_.*",
    "RTE_MAX_LCORE",
    "RTE_MAX_ETHPORTS",
    "RTE_PKTMBUF_HEADROOM",
    "RTE_TEL_MAX_.*",
    "RTE_VER_.*",
    "RING_F_.*",
    "RTE_RING_.*",
];

/// Packed structures whose alignment Rust cannot express; nobody here looks inside them.
const OPAQUE: &[&str] = &[
    "rte_arp_hdr",
    "rte_arp_ipv4",
    "rte_gtp_psc_generic_hdr",
    "rte_l2tpv2_combined_msg_hdr",
    "rte_l2tpv2_common_hdr",
];

/// Libraries with an interface of their own that pkg-config does not name because they are drivers.
const DRIVER_LIBRARIES: &[&str] = &["rte_net_ring", "rte_bus_vdev"];

/// Archives for the feature `static`. Each is linked whole: drivers register in constructors.
const STATIC_LIBRARIES: &[&str] = &[
    "kvargs",
    "telemetry",
    "eal",
    "ring",
    "rcu",
    "mempool",
    "mbuf",
    "net",
    "meter",
    "ethdev",
    "pci",
    "hash",
    "gso",
    "cmdline",
    "timer",
    "bus_vdev",
    "bus_pci",
    "bpf",
    "mempool_ring",
    "net_null",
    "net_ring",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_memif",
    "net_pcap",
];

/// What the archives themselves need from the system.
const STATIC_NEEDS: &[&str] = &["numa", "bsd", "xdp", "bpf", "elf", "z", "pcap", "fdt"];

fn main() -> ExitCode {
    for file in ["build.rs", "wrapper.h", "shim.c"] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("\ndpdk-sys: {message}\n");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let version = pkg_config("--modversion")?;
    let version = version.first().map_or("", String::as_str);
    if !version.starts_with("22.11") {
        println!(
            "cargo:warning=libdpdk is {version}; these bindings are tested with 22.11 (Debian 12) only"
        );
    }
    let flags = pkg_config("--cflags")?;
    let out = PathBuf::from(
        env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build this crate with cargo")?,
    );
    let wrappers = out.join("inline_functions");
    generate(&flags, &out, &wrappers)?;

    let mut c = cc::Build::new();
    for flag in &flags {
        c.flag(flag);
    }
    c.include(".")
        .opt_level(3)
        .warnings(false)
        .file(wrappers.with_extension("c"))
        .file("shim.c")
        .try_compile("dpdk_inline_functions")
        .map_err(|e| {
            format!("the wrappers of DPDK's inline functions do not compile: {e}\nA C compiler is needed: Debian's package is gcc (or clang).")
        })?;
    link()
}

fn generate(
    flags: &[String],
    out: &std::path::Path,
    wrappers: &std::path::Path,
) -> Result<(), String> {
    // bindgen panics, with a text of its own, when it finds no libclang.
    let hint = "bindgen needs libclang to read DPDK's headers.\nDebian's packages are clang and libclang-dev: apt-get install clang libclang-dev\n(LIBCLANG_PATH names the directory of libclang.so when it is elsewhere.)";
    let generated = std::panic::catch_unwind(|| {
        let mut builder = bindgen::Builder::default()
            .header("wrapper.h")
            .clang_args(flags)
            .wrap_static_fns(true)
            .wrap_static_fns_path(wrappers)
            .use_core()
            .generate_comments(false)
            .default_enum_style(bindgen::EnumVariation::ModuleConsts)
            .prepend_enum_name(false);
        for name in FUNCTIONS {
            builder = builder.allowlist_function(name);
        }
        for name in TYPES {
            builder = builder.allowlist_type(name);
        }
        for name in CONSTANTS {
            builder = builder.allowlist_var(name);
        }
        for name in OPAQUE {
            builder = builder.opaque_type(name);
        }
        builder.generate()
    });
    match generated {
        Ok(Ok(bindings)) => bindings
            .write_to_file(out.join("bindings.rs"))
            .map_err(|e| format!("the bindings cannot be written to {}: {e}", out.display())),
        Ok(Err(e)) => Err(format!("DPDK's headers cannot be read: {e}\n{hint}")),
        Err(_) => Err(hint.to_owned()),
    }
}

/// Asks pkg-config about libdpdk and gives back the words of its answer.
fn pkg_config(question: &str) -> Result<Vec<String>, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let answer = Command::new(&program)
        .args([question, "libdpdk"])
        .output()
        .map_err(|e| {
            format!("{program} cannot be run: {e}\nDebian's package is pkg-config: apt-get install pkg-config")
        })?;
    if !answer.status.success() {
        return Err(format!(
            "the headers of DPDK are not installed: Debian's package is libdpdk-dev (22.11): apt-get install libdpdk-dev\n{program} says: {}",
            String::from_utf8_lossy(&answer.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).split_whitespace().map(str::to_owned).collect())
}

/// Tells cargo what to link. The wrappers came first, so that these libraries resolve their symbols.
fn link() -> Result<(), String> {
    for word in pkg_config("--libs")? {
        if let Some(directory) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={directory}");
        } else if let Some(library) = word.strip_prefix("-l")
            && env::var_os("CARGO_FEATURE_STATIC").is_none()
        {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
    if env::var_os("CARGO_FEATURE_STATIC").is_none() {
        for library in DRIVER_LIBRARIES {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
        return Ok(());
    }
    // pkg-config leaves the system's own directory out, and the archives are named by file, not with -L.
    if let Some(directory) = pkg_config("--variable=libdir")?.first() {
        println!("cargo:rustc-link-search=native={directory}");
    }
    for library in STATIC_LIBRARIES {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=rte_{library}");
    }
    for library in STATIC_NEEDS {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    Ok(())
}
