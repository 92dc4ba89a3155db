//! The environment abstraction layer: started once in a process, cleaned up when nothing needs it.

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, last_errno};
use crate::lcore::Lcore;
use crate::logging;

/// Where DPDK's memory comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Hugepages through a mounted hugetlbfs; other DPDK processes can attach.
    Hugepages,
    /// Hugepages without a hugetlbfs mount and without files; no other process can attach.
    HugepagesInMemory,
    /// Ordinary pages, `mib` MiB in all. It suits virtual devices, not NICs that use DMA.
    WithoutHugepages {
        /// MiB to reserve when EAL starts.
        mib: u32,
    },
}

/// How much DPDK itself logs.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures only.
    Error,
    /// And what may be wrong.
    Warning,
    /// And what is unusual but right.
    Notice,
    /// And what happens.
    Info,
    /// Everything.
    Debug,
}

impl LogLevel {
    fn number(self) -> u32 {
        match self {
            Self::Error => dpdk_sys::RTE_LOG_ERR,
            Self::Warning => dpdk_sys::RTE_LOG_WARNING,
            Self::Notice => dpdk_sys::RTE_LOG_NOTICE,
            Self::Info => dpdk_sys::RTE_LOG_INFO,
            Self::Debug => dpdk_sys::RTE_LOG_DEBUG,
        }
    }
}

/// What [`Eal::init`] starts with.
#[derive(Clone, Debug)]
pub struct EalConfig {
    file_prefix: String,
    cpus: Vec<u32>,
    memory: Memory,
    pci_devices: Vec<String>,
    virtual_devices: Vec<String>,
    log_level: LogLevel,
}

impl EalConfig {
    /// One lcore on CPU 0, hugepages, no PCI device, no virtual device, errors logged. `file_prefix`
    /// keeps this process's runtime files apart from those of other DPDK processes.
    pub fn new(file_prefix: impl Into<String>) -> Self {
        Self {
            file_prefix: file_prefix.into(),
            cpus: vec![0],
            memory: Memory::Hugepages,
            pci_devices: Vec::new(),
            virtual_devices: Vec::new(),
            log_level: LogLevel::Error,
        }
    }

    /// One lcore for each of `cpus`, in order: lcore 0, the main one and the calling thread, runs on
    /// `cpus[0]`. A CPU may be named twice.
    #[must_use]
    pub fn lcores_on(mut self, cpus: impl Into<Vec<u32>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Where memory comes from.
    #[must_use]
    pub fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Allows EAL to take this PCI device, as `0000:01:00.0`. With none allowed, the bus is not scanned.
    #[must_use]
    pub fn pci_device(mut self, address: impl Into<String>) -> Self {
        self.pci_devices.push(address.into());
        self
    }

    /// Makes a virtual device at start, as `net_null0,size=64`. [`crate::Port::virtual_device`] makes one
    /// later and explains failures better.
    #[must_use]
    pub fn virtual_device(mut self, device: impl Into<String>) -> Self {
        self.virtual_devices.push(device.into());
        self
    }

    /// How much DPDK itself logs to stderr.
    #[must_use]
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = level;
        self
    }

    /// The arguments of `rte_eal_init`.
    fn arguments(&self) -> Result<Vec<CString>, Error> {
        if self.cpus.is_empty() || self.cpus.len() > dpdk_sys::RTE_MAX_LCORE as usize {
            return Err(Error::refused(format!(
                "{} lcores were asked for; DPDK takes 1 to {}",
                self.cpus.len(),
                dpdk_sys::RTE_MAX_LCORE
            )));
        }
        if self.file_prefix.is_empty() || self.file_prefix.contains(['/', '%']) {
            return Err(Error::refused(format!(
                "'{}' cannot be a DPDK file prefix: it names a directory, and has neither '/' nor '%'",
                self.file_prefix
            )));
        }
        let lcores: Vec<String> =
            self.cpus.iter().enumerate().map(|(lcore, cpu)| format!("{lcore}@{cpu}")).collect();
        let mut arguments = vec![
            "dpdk".to_owned(),
            format!("--lcores={}", lcores.join(",")),
            "--main-lcore=0".to_owned(),
            format!("--file-prefix={}", self.file_prefix),
            format!("--log-level=*:{}", self.log_level.number()),
        ];
        match self.memory {
            Memory::Hugepages => {}
            Memory::HugepagesInMemory => arguments.push("--in-memory".to_owned()),
            Memory::WithoutHugepages { mib } => {
                arguments.push("--no-huge".to_owned());
                arguments.push(format!("-m{mib}"));
            }
        }
        if self.pci_devices.is_empty() {
            arguments.push("--no-pci".to_owned());
            // With no device that needs physical addresses, buffers need not keep within pages.
            arguments.push("--iova-mode=va".to_owned());
        }
        arguments.extend(self.pci_devices.iter().map(|address| format!("--allow={address}")));
        arguments.extend(self.virtual_devices.iter().map(|device| format!("--vdev={device}")));
        arguments
            .into_iter()
            .map(|argument| {
                CString::new(argument)
                    .map_err(|e| Error::refused(format!("an EAL argument holds a NUL octet: {e}")))
            })
            .collect()
    }
}

/// EAL may be started once in a process, even after it was cleaned up.
static STARTED: AtomicBool = AtomicBool::new(false);

/// A running EAL. Clones are handles to the same one; it is cleaned up with the last of them, and each
/// pool, port and ring holds one.
#[derive(Clone)]
pub struct Eal {
    inner: Arc<Inner>,
}

struct Inner {
    runtime_directory: Option<PathBuf>,
    /// Worker lcores that [`Eal::take_lcores`] has not handed out.
    workers: Mutex<Vec<u32>>,
}

impl std::fmt::Debug for Eal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eal").field("runtime_directory", &self.inner.runtime_directory).finish()
    }
}

impl Eal {
    /// Starts EAL. The calling thread becomes the main lcore and is bound to its CPU.
    ///
    /// # Errors
    /// EAL was started before in this process, an argument cannot be right, or DPDK refuses; the message
    /// says which and, where it is known, what to do.
    pub fn init(config: &EalConfig) -> Result<Self, Error> {
        let arguments = config.arguments()?;
        check_cpus(&config.cpus)?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::refused(
                "EAL was already started in this process, and DPDK can start it only once",
            ));
        }
        // EAL keeps pointers into its arguments for as long as the process lives.
        let mut argv: Vec<_> = arguments.into_iter().map(CString::into_raw).collect();
        let count = i32::try_from(argv.len()).unwrap_or(i32::MAX);
        let (status, log) = logging::capture(|| {
            // SAFETY: `argv` holds `count` NUL-terminated strings that are writable and never freed; EAL
            // permutes the array during the call only. STARTED lets one thread come here, once.
            unsafe { dpdk_sys::rte_eal_init(count, argv.as_mut_ptr()) }
        });
        if status < 0 {
            return Err(explain_init(config, last_errno(), &log));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                runtime_directory: runtime_directory(),
                workers: Mutex::new(worker_lcores()),
            }),
        })
    }

    /// The worker lcores, each handed out once in the life of the process; later calls give none.
    pub fn take_lcores(&self) -> Vec<Lcore> {
        let mut workers = match self.inner.workers.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        std::mem::take(&mut *workers).into_iter().map(|id| Lcore::new(id, self.clone())).collect()
    }

    /// The directory of this process's runtime files, the telemetry socket among them.
    pub fn runtime_directory(&self) -> Option<&std::path::Path> {
        self.inner.runtime_directory.as_deref()
    }

    /// The version of the DPDK that this process runs on, as `DPDK 22.11.0`.
    pub fn version(&self) -> String {
        // SAFETY: rte_version returns a NUL-terminated string in static memory.
        unsafe { CStr::from_ptr(dpdk_sys::rte_version()) }.to_string_lossy().into_owned()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let (_, _log) = logging::capture(|| {
            // SAFETY: EAL was started, and this is its last handle: every port, pool, ring and lcore of
            // this crate holds one, and a pool with mbufs still out keeps its own for good, so nothing
            // that EAL frees here is reachable any more.
            unsafe { dpdk_sys::rte_eal_cleanup() }
        });
        // EAL leaves its files behind. Unless memory is HugepagesInMemory this process still holds the
        // lock on them, so no other process of the same prefix uses the directory; with it there is
        // nothing in it but the telemetry socket, which one process at a time can have.
        if let Some(directory) = &self.runtime_directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Hugepages that are free on this machine, in all sizes, in octets.
pub fn free_hugepages() -> u64 {
    let Ok(sizes) = std::fs::read_dir("/sys/kernel/mm/hugepages") else {
        return 0;
    };
    sizes
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kib: u64 = name
                .strip_prefix("hugepages-")
                .and_then(|rest| rest.strip_suffix("kB"))
                .and_then(|kib| kib.parse().ok())
                .unwrap_or(0);
            let free: u64 = std::fs::read_to_string(entry.path().join("free_hugepages"))
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0);
            kib.saturating_mul(1024).saturating_mul(free)
        })
        .sum()
}

/// Every CPU named must be one that this process may run on: EAL's own message does not say which is not.
fn check_cpus(cpus: &[u32]) -> Result<(), Error> {
    // SAFETY: cpu_set_t is a plain array of integers, for which zero is a value.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let octets = std::mem::size_of::<libc::cpu_set_t>();
    // SAFETY: `allowed` is writable and `octets` its size; 0 names the calling thread.
    if unsafe { libc::sched_getaffinity(0, octets, &mut allowed) } != 0 {
        return Ok(());
    }
    let may_use = |cpu: u32| {
        // SAFETY: the index is checked against the set's size in bits first.
        (cpu as usize) < octets * 8 && unsafe { libc::CPU_ISSET(cpu as usize, &allowed) }
    };
    match cpus.iter().find(|cpu| !may_use(**cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let usable: Vec<String> = (0..(octets * 8) as u32)
                .filter(|cpu| may_use(*cpu))
                .map(|cpu| cpu.to_string())
                .collect();
            Err(Error::refused(format!(
                "an lcore was asked for on CPU {cpu}, but this process may run on CPU {} only",
                usable.join(", ")
            )))
        }
    }
}

fn explain_init(config: &EalConfig, errno: i32, log: &str) -> Error {
    let error = Error::call("DPDK's EAL cannot be started", errno, log);
    if log.contains("Is another primary process running") || log.contains("Cannot create lock") {
        return error
            .advise("Another process with the same name runs; stop it or use another name.");
    }
    if log.contains("hugepage") || log.contains("hugetlbfs") {
        return error.advise(
            "Reserve hugepages (sysctl vm.nr_hugepages=256) and mount hugetlbfs, or run without hugepages.",
        );
    }
    match (errno, config.memory) {
        (libc::EACCES | libc::EPERM, _) => error.advise("Run it as root."),
        (libc::ENOMEM, Memory::WithoutHugepages { .. }) => error.advise("Give it less memory."),
        _ => error,
    }
}

fn runtime_directory() -> Option<PathBuf> {
    // SAFETY: after rte_eal_init the call returns a NUL-terminated string in static memory.
    let path = unsafe {
        let path = dpdk_sys::rte_eal_get_runtime_dir();
        if path.is_null() {
            return None;
        }
        CStr::from_ptr(path).to_string_lossy().into_owned()
    };
    (!path.is_empty()).then(|| PathBuf::from(path))
}

fn worker_lcores() -> Vec<u32> {
    let mut workers = Vec::new();
    let mut lcore = u32::MAX;
    loop {
        // SAFETY: the call takes any number, wraps u32::MAX to the first lcore and reads EAL's lcore
        // table, which rte_eal_init has filled; skip_main is 1 and wrap 0.
        lcore = unsafe { dpdk_sys::rte_get_next_lcore(lcore, 1, 0) };
        if lcore >= dpdk_sys::RTE_MAX_LCORE {
            return workers;
        }
        workers.push(lcore);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(config: &EalConfig) -> Vec<String> {
        config.arguments().unwrap().iter().map(|a| a.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn arguments_name_lcores_memory_and_devices() {
        let config = EalConfig::new("x")
            .lcores_on([1, 0, 1])
            .memory(Memory::WithoutHugepages { mib: 64 })
            .virtual_device("net_null0");
        assert_eq!(
            words(&config),
            [
                "dpdk",
                "--lcores=0@1,1@0,2@1",
                "--main-lcore=0",
                "--file-prefix=x",
                "--log-level=*:4",
                "--no-huge",
                "-m64",
                "--no-pci",
                "--iova-mode=va",
                "--vdev=net_null0"
            ]
        );
        let config =
            EalConfig::new("x").memory(Memory::HugepagesInMemory).pci_device("0000:01:00.0");
        assert_eq!(words(&config)[5..], ["--in-memory", "--allow=0000:01:00.0"]);
    }

    #[test]
    fn arguments_that_cannot_be_right_are_refused() {
        for config in [
            EalConfig::new(""),
            EalConfig::new("a/b"),
            EalConfig::new("a").lcores_on([]),
            EalConfig::new("a").virtual_device("net\0null"),
        ] {
            assert!(config.arguments().is_err(), "{config:?}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let message = check_cpus(&[1023]).unwrap_err().to_string();
        assert!(message.contains("CPU 1023"), "{message}");
        assert!(check_cpus(&[100_000]).is_err());
    }
}
