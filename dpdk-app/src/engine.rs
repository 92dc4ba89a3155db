//! Sets an engine up from its configuration, runs it, and stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dpdk::{
    Dict, Eal, EalConfig, Memory, Mempool, Port, PortConfig, Started, Tsc, free_hugepages,
    register_command,
};
use heddle_core::coded::{CodedNode, SettingsError};
use heddle_core::node::PortId;
use heddle_host::config::{Config, Device, Hugepages};
use heddle_host::control;
use heddle_host::metrics::Stats;
use heddle_openflow::driver::DriverError;

use crate::outbox::{Outbox, PortOutbox, Way};
use crate::published::Published;
use crate::role::Role;
use crate::settings::{coded_node, senders};
use crate::worker::{Handover, Input, Received, Worker};

/// Frames that may wait between two workers.
const HANDOVER_FRAMES: u32 = 1024;

const MIB: u64 = 1 << 20;

/// Why an engine does not run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// DPDK refuses something.
    #[error(transparent)]
    Dpdk(#[from] dpdk::Error),
    /// An engine of the same name answers already.
    #[error("an engine called '{0}' already runs; stop it, or give this one another name")]
    NameTaken(String),
    /// The protocol refuses the settings.
    #[error("the configuration cannot be worked with: {}", .0.message())]
    Settings(SettingsError),
    /// The configuration wants more memory than the machine has.
    #[error(
        "the sessions could fill {sessions_mib} MiB and `memory_mib` is {eal_mib}, but this machine has {machine_mib} MiB; \
         lower `max_sessions`, `ses_max_gen`, `max_generation_size` or `memory_mib`, or name fewer lcores"
    )]
    Memory {
        /// What the sessions of all workers could fill.
        sessions_mib: u64,
        /// What EAL is to have.
        eal_mib: u64,
        /// What the machine has.
        machine_mib: u64,
    },
    /// The switch wants more memory than the machine has.
    #[error(
        "the tables of the switch take {tables_mib} MiB, a copy for each lcore and one more, and `memory_mib` is {eal_mib}, but \
         this machine has {machine_mib} MiB; lower `max_flows`, `max_name_octets`, `max_instructions`, `max_groups` or \
         `memory_mib`, or name fewer lcores"
    )]
    TableMemory {
        /// What all tables take.
        tables_mib: u64,
        /// What EAL is to have.
        eal_mib: u64,
        /// What the machine has.
        machine_mib: u64,
    },
    /// The control thread cannot do its work.
    #[error("{0}")]
    Control(#[from] DriverError),
    /// A port cannot send.
    #[error("port '{0}' has no transmit queue")]
    NoTxQueue(String),
    /// A worker ended by a panic, which is a defect.
    #[error("worker {0} has panicked")]
    Worker(usize),
    /// EAL has too few lcores, as when another engine of this process has had them.
    #[error("{workers} workers beside the first need an lcore each, and {lcores} are left")]
    Lcores {
        /// Workers that need one.
        workers: usize,
        /// Lcores that EAL has.
        lcores: usize,
    },
    /// The thread that talks to controllers ended by a panic, which is a defect.
    #[error("the control thread has panicked")]
    Companion,
}

/// An engine that is ready to run.
pub struct Engine<R = CodedNode<'static>> {
    workers: Vec<Worker<R>>,
    published: Arc<Published>,
    /// A thread beside the workers, which ends when they are told to stop.
    companion: Option<JoinHandle<()>>,
    /// Ports are closed when the engine is dropped, after the queues that the workers have.
    ports: Vec<Port<Started>>,
    eal: Eal,
}

/// What every engine is made of, whatever its workers do.
#[derive(Debug)]
pub struct Parts {
    /// EAL.
    pub eal: Eal,
    /// Where frames come from.
    pub pool: Mempool,
    /// The open ports, in the order of the configuration.
    pub ports: Vec<Port<Started>>,
}

impl Parts {
    /// Starts EAL and opens the ports.
    ///
    /// # Errors
    /// What is not to be had, and why.
    pub fn new(config: &Config) -> Result<Self, EngineError> {
        // EAL itself notices only where its memory can be shared between processes.
        if control::Client::connect(&config.engine.name).is_ok() {
            return Err(EngineError::NameTaken(config.engine.name.clone()));
        }
        check_memory(config)?;
        let eal = Eal::init(&eal_config(config))?;
        let pool = Mempool::new(&eal, "frames", config.engine.mbufs)?;
        let ports = config
            .ports
            .iter()
            .map(|port| open(&eal, &pool, port, config.engine.lcores.len() as u16))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { eal, pool, ports })
    }
}

impl Engine {
    /// Starts EAL, opens the ports and makes the workers.
    ///
    /// # Errors
    /// What is not to be had, and why.
    pub fn new(config: &Config) -> Result<Self, EngineError> {
        let Parts { eal, pool, ports } = Parts::new(config)?;
        Self::with_ports(config, eal, pool, ports)
    }

    /// An engine on ports that are open already, in the order of the configuration.
    ///
    /// # Errors
    /// What is not to be had, and why.
    pub fn with_ports(
        config: &Config,
        eal: Eal,
        pool: Mempool,
        ports: Vec<Port<Started>>,
    ) -> Result<Self, EngineError> {
        let macs =
            ports.iter().map(|port| port.mac().map(|mac| mac.0)).collect::<Result<Vec<_>, _>>()?;
        let nodes = (0..config.engine.lcores.len())
            .map(|_| coded_node(config, &macs).map_err(EngineError::Settings))
            .collect::<Result<Vec<_>, _>>()?;
        for (number, port) in config.ports.iter().enumerate() {
            let senders = senders(config, number);
            if senders > 1 && port.rate_octets_per_s.is_some() {
                tracing::info!(
                    "port '{}' is sent on by {senders} workers: each keeps to that part of its rate (sessions that name their `source` have a worker of their own)",
                    port.name
                );
            }
        }
        Self::assemble(config, Parts { eal, pool, ports }, nodes)
    }
}

impl<R: Role> Engine<R> {
    /// An engine whose workers have this state, one each.
    pub(crate) fn assemble(
        config: &Config,
        parts: Parts,
        nodes: Vec<R>,
    ) -> Result<Self, EngineError> {
        let Parts { eal, pool, mut ports } = parts;
        let count = nodes.len();
        let port_names = config.ports.iter().map(|port| port.name.clone()).collect();
        let published = Arc::new(Published::new::<R>(&config.engine.name, port_names, count));
        let mut handovers = handovers(&eal, count)?.into_iter();
        let mut workers = Vec::new();
        let outboxes = outboxes(&eal, &mut ports, config)?;
        for (index, (outboxes, node)) in outboxes.into_iter().zip(nodes).enumerate() {
            workers.push(Worker {
                index,
                inputs: Vec::new(),
                outbox: Outbox::new(outboxes, pool.clone()),
                node,
                handovers: handovers.next().unwrap_or_default(),
                idle: config.engine.idle,
                tsc: Tsc::new(&eal),
                published: Arc::clone(&published),
                received: vec![Received::default(); ports.len()],
                handed_over: 0,
                handover_full: 0,
            });
        }
        // Every receive queue must be polled by somebody: those of a port go round, and each port begins at another worker.
        for (number, port) in ports.iter_mut().enumerate() {
            for queue in 0.. {
                let Some(rx) = port.take_rx(queue) else { break };
                if let Some(worker) = workers.get_mut((number + usize::from(queue)) % count.max(1))
                {
                    worker.inputs.push(Input { port: PortId(number as u8), queue: rx });
                }
            }
        }
        let engine = Self { workers, published, companion: None, ports, eal };
        engine.answer_telemetry()?;
        Ok(engine)
    }

    /// Runs until `stop` is set, the first worker on this thread; all counters at the end.
    ///
    /// # Errors
    /// A worker could not be started or has panicked.
    pub fn run(mut self, stop: &Arc<AtomicBool>) -> Result<Stats, EngineError> {
        let mut running = Vec::new();
        let others = self.workers.split_off(1.min(self.workers.len()));
        let lcores = self.eal.take_lcores();
        if lcores.len() < others.len() {
            stop.store(true, Ordering::Relaxed);
            return Err(EngineError::Lcores { workers: others.len(), lcores: lcores.len() });
        }
        for (lcore, mut worker) in lcores.into_iter().zip(others) {
            let index = worker.index;
            let flag = Arc::clone(stop);
            match lcore.launch(move || worker.run(&flag)) {
                Ok(launched) => running.push((index, launched)),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    for (_, lcore) in running {
                        // Why the others could not go on is told below.
                        let _ = lcore.wait();
                    }
                    return Err(error.into());
                }
            }
        }
        if let Some(first) = self.workers.first_mut() {
            first.run(stop);
        }
        for (index, lcore) in running {
            lcore.wait().1.map_err(|_| EngineError::Worker(index))?;
        }
        if let Some(companion) = self.companion.take() {
            companion.join().map_err(|_| EngineError::Companion)?;
        }
        Ok(self.published.stats())
    }

    /// The first worker, to be driven round by round instead of being run: a benchmark does that.
    pub fn first_worker(&mut self) -> Option<&mut Worker<R>> {
        self.workers.first_mut()
    }

    /// The ports, for a companion that watches them. They are closed when both it and the queues are gone.
    pub(crate) fn take_ports(&mut self) -> Vec<Port<Started>> {
        std::mem::take(&mut self.ports)
    }

    /// Waits for this thread, too, when the workers have stopped.
    pub fn set_companion(&mut self, companion: JoinHandle<()>) {
        self.companion = Some(companion);
    }

    /// Where the workers publish their counters.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    fn answer_telemetry(&self) -> Result<(), EngineError> {
        let published = Arc::clone(&self.published);
        let help = "All counters of the engine. Takes no parameters.";
        register_command(&self.eal, "/heddle/stats", help, move |_| to_dict(&published.stats()))?;
        Ok(())
    }
}

fn eal_config(config: &Config) -> EalConfig {
    let engine = &config.engine;
    let without = Memory::WithoutHugepages { mib: engine.memory_mib };
    let memory = match engine.hugepages {
        Hugepages::Require => Memory::HugepagesInMemory,
        Hugepages::Never => without,
        Hugepages::Auto => {
            let free = free_hugepages();
            let needed = u64::from(engine.memory_mib) * MIB;
            if free >= needed {
                Memory::HugepagesInMemory
            } else {
                tracing::info!(
                    "{} MiB of hugepages are free and {} MiB are wanted: running on ordinary pages",
                    free / MIB,
                    engine.memory_mib
                );
                without
            }
        }
    };
    let mut eal = EalConfig::new(control::file_prefix(&engine.name))
        .lcores_on(engine.lcores.clone())
        .memory(memory);
    for port in &config.ports {
        if let Device::Pci(address) = &port.device {
            eal = eal.pci_device(address.to_string());
        }
    }
    eal
}

/// Refuses what the machine has no memory for, while that can still be said plainly.
fn check_memory(config: &Config) -> Result<(), EngineError> {
    let sessions_mib = config.generations_octets() / MIB;
    let eal_mib = u64::from(config.engine.memory_mib);
    // A machine that does not tell how much it has is taken to have enough.
    let machine_mib = machine_memory_mib().unwrap_or(u64::MAX);
    if sessions_mib.saturating_add(eal_mib) > machine_mib {
        return Err(EngineError::Memory { sessions_mib, eal_mib, machine_mib });
    }
    let tables_mib = config.tables_octets() / MIB;
    if tables_mib.saturating_add(eal_mib) > machine_mib {
        return Err(EngineError::TableMemory { tables_mib, eal_mib, machine_mib });
    }
    Ok(())
}

fn machine_memory_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

/// Opens one port, with a transmit queue for each worker if it has as many.
fn open(
    eal: &Eal,
    pool: &Mempool,
    port: &heddle_host::config::Port,
    workers: u16,
) -> Result<Port<Started>, EngineError> {
    let probed = match &port.device {
        Device::Vdev(vdev) => {
            let (name, arguments) = vdev.split_once(',').unwrap_or((vdev, ""));
            Port::virtual_device(eal, name, arguments)?
        }
        Device::Pci(address) => Port::probed_at_start(eal, &address.to_string())?,
    };
    let info = probed.info()?;
    let queues = PortConfig {
        rx_queues: match info.driver.as_str() {
            // The kernel spreads frames over all sockets of this driver, whether or not they are read.
            "net_af_packet" => info.max_rx_queues,
            _ => info.max_rx_queues.min(workers),
        },
        tx_queues: info.max_tx_queues.min(workers),
        ..PortConfig::default()
    };
    let mut started = probed.configure(&queues, pool)?.start()?;
    // Coded frames go to the group's Ethernet address, so the port must take more than its own.
    if started.set_promiscuous(true).is_err() && started.set_all_multicast(true).is_err() {
        tracing::warn!("port '{}' takes neither all frames nor all multicast frames", port.name);
    }
    tracing::debug!("port '{}' is open: {}", port.name, info.driver);
    Ok(started)
}

/// The outboxes of each worker. Where a port has fewer queues than there are workers, the workers without one send by the
/// queues of the first ones in turn.
fn outboxes(
    eal: &Eal,
    ports: &mut [Port<Started>],
    config: &Config,
) -> Result<Vec<Vec<PortOutbox>>, EngineError> {
    let workers = config.engine.lcores.len();
    let mut all: Vec<Vec<PortOutbox>> = (0..workers).map(|_| Vec::new()).collect();
    for (port, named) in ports.iter_mut().zip(&config.ports) {
        let takes_shared = !port.info()?.hands_buffers_over();
        let mut queues: Vec<_> =
            (0..workers as u16).map_while(|queue| port.take_tx(queue)).collect();
        let owners = queues.len();
        if owners == 0 {
            return Err(EngineError::NoTxQueue(named.name.clone()));
        }
        if owners < workers {
            tracing::info!(
                "port '{}' has {owners} transmit queue(s) for {workers} workers: they share (for net_af_packet, `qpairs={workers}` gives each its own)",
                named.name
            );
        }
        let mut ways = Vec::new();
        let mut rings = Vec::new();
        for (owner, queue) in queues.drain(..).enumerate() {
            let receiver = if owner + owners < workers {
                let name = format!("tx_{}_{owner}", port.id());
                let (sender, receiver) = dpdk::multi_producer_ring(eal, &name, HANDOVER_FRAMES)?;
                rings.push(sender);
                Some(receiver)
            } else {
                None
            };
            ways.push(Way::Queue(queue, receiver));
        }
        for worker in owners..workers {
            if let Some(ring) = rings.get(worker % owners) {
                ways.push(Way::Ring(ring.clone()));
            }
        }
        for (worker, way) in all.iter_mut().zip(ways) {
            worker.push(PortOutbox::new(way, takes_shared));
        }
    }
    Ok(all)
}

/// The rings between each two of `count` workers, by worker; none for a single one.
fn handovers(eal: &Eal, count: usize) -> Result<Vec<Vec<Handover>>, EngineError> {
    if count < 2 {
        return Ok(Vec::new());
    }
    let mut all: Vec<Vec<Handover>> = (0..count)
        .map(|_| (0..count).map(|_| Handover { to: None, from: None }).collect())
        .collect();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let (sender, receiver) = dpdk::ring(eal, &format!("{from}_to_{to}"), HANDOVER_FRAMES)?;
            if let Some(handover) = all.get_mut(from).and_then(|worker| worker.get_mut(to)) {
                handover.to = Some(sender);
            }
            if let Some(handover) = all.get_mut(to).and_then(|worker| worker.get_mut(from)) {
                handover.from = Some(receiver);
            }
        }
    }
    Ok(all)
}

fn to_dict(stats: &Stats) -> Dict {
    let ports = stats.ports.iter().map(|(name, port)| {
        let counters: Dict = vec![
            ("rx_frames".into(), port.rx_frames.into()),
            ("rx_octets".into(), port.rx_octets.into()),
            ("tx_frames".into(), port.tx_frames.into()),
            ("tx_octets".into(), port.tx_octets.into()),
            ("tx_dropped".into(), port.tx_dropped.into()),
        ];
        (name.clone(), counters.into())
    });
    let counters = stats.counters.iter().map(|(name, count)| (name.clone(), (*count).into()));
    let gauges = stats.gauges.iter().map(|(name, count)| (name.clone(), (*count).into()));
    let programs = stats.programs.iter().map(|(number, program)| {
        let counters: Dict = vec![
            ("octets".into(), program.octets.into()),
            ("runs".into(), program.runs.into()),
            ("hits".into(), program.hits.into()),
            ("faults".into(), program.faults.into()),
        ];
        (number.clone(), counters.into())
    });
    let mut dict: Dict = vec![
        ("name".into(), stats.name.as_str().into()),
        ("uptime_s".into(), (stats.uptime_s as u64).into()),
        ("ports".into(), ports.collect::<Dict>().into()),
        ("counters".into(), counters.collect::<Dict>().into()),
    ];
    if !stats.gauges.is_empty() {
        dict.push(("gauges".into(), gauges.collect::<Dict>().into()));
        dict.push(("programs".into(), programs.collect::<Dict>().into()));
    }
    dict
}
