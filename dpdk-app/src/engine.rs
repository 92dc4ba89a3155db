//! Sets an engine up from its configuration, runs it, and stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk::{
    Dict, Eal, EalConfig, Memory, Mempool, Port, PortConfig, Started, Tsc, free_hugepages,
    register_command,
};
use heddle_core::coded::SettingsError;
use heddle_core::node::PortId;
use heddle_host::config::{Config, Device, Hugepages};
use heddle_host::control;
use heddle_host::metrics::Stats;

use crate::outbox::{Outbox, PortOutbox};
use crate::published::Published;
use crate::settings::coded_node;
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
    /// The protocol refuses the settings.
    #[error("the configuration cannot be worked with: {}", .0.message())]
    Settings(SettingsError),
    /// A port has not enough queues.
    #[error(
        "port '{port}' has {queues} transmit queues and {workers} workers need one each; \
         give it more (`qpairs={workers}` for net_af_packet, which is then also the number of its receive queues) or name fewer lcores"
    )]
    Queues {
        /// The port.
        port: String,
        /// Transmit queues that it has.
        queues: u16,
        /// Workers.
        workers: u16,
    },
    /// A worker ended by a panic, which is a defect.
    #[error("worker {0} has panicked")]
    Worker(usize),
}

/// An engine that is ready to run.
#[derive(Debug)]
pub struct Engine {
    workers: Vec<Worker>,
    published: Arc<Published>,
    /// Ports are closed when the engine is dropped, after the queues that the workers have.
    _ports: Vec<Port<Started>>,
    eal: Eal,
}

impl Engine {
    /// Starts EAL, opens the ports and makes the workers.
    ///
    /// # Errors
    /// What is not to be had, and why.
    pub fn new(config: &Config) -> Result<Self, EngineError> {
        let eal = Eal::init(&eal_config(config))?;
        let pool = Mempool::new(&eal, "frames", config.engine.mbufs)?;
        let ports = config
            .ports
            .iter()
            .map(|port| open(&eal, &pool, port, config.engine.lcores.len() as u16))
            .collect::<Result<Vec<_>, _>>()?;
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
        mut ports: Vec<Port<Started>>,
    ) -> Result<Self, EngineError> {
        let count = config.engine.lcores.len();
        let port_names = config.ports.iter().map(|port| port.name.clone()).collect();
        let published = Arc::new(Published::new(&config.engine.name, port_names, count));
        let mut handovers = handovers(&eal, count)?.into_iter();
        let macs =
            ports.iter().map(|port| port.mac().map(|mac| mac.0)).collect::<Result<Vec<_>, _>>()?;
        let mut workers = Vec::new();
        for index in 0..count {
            workers.push(Worker {
                index,
                inputs: Vec::new(),
                outbox: Outbox::new(outboxes(&mut ports, config, index)?, pool.clone()),
                node: coded_node(config, &macs).map_err(EngineError::Settings)?,
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
        let engine = Self { workers, published, _ports: ports, eal };
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
        for (lcore, mut worker) in self.eal.take_lcores().into_iter().zip(others) {
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
        Ok(self.published.stats())
    }

    /// The first worker, to be driven round by round instead of being run: a benchmark does that.
    pub fn first_worker(&mut self) -> Option<&mut Worker> {
        self.workers.first_mut()
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

/// Opens one port, with a transmit queue for each worker and as many receive queues as it has, up to that.
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
    if info.max_tx_queues < workers {
        let (port, queues) = (port.name.clone(), info.max_tx_queues);
        return Err(EngineError::Queues { port, queues, workers });
    }
    let queues = PortConfig {
        rx_queues: info.max_rx_queues.min(workers),
        tx_queues: workers,
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

fn outboxes(
    ports: &mut [Port<Started>],
    config: &Config,
    worker: usize,
) -> Result<Vec<PortOutbox>, EngineError> {
    let workers = config.engine.lcores.len() as u16;
    ports
        .iter_mut()
        .zip(&config.ports)
        .map(|(port, named)| {
            let takes_shared = !port.info()?.hands_buffers_over();
            let queue = port.take_tx(worker as u16).ok_or_else(|| EngineError::Queues {
                port: named.name.clone(),
                queues: worker as u16,
                workers,
            })?;
            Ok(PortOutbox::new(queue, takes_shared))
        })
        .collect()
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
    vec![
        ("name".into(), stats.name.as_str().into()),
        ("uptime_s".into(), (stats.uptime_s as u64).into()),
        ("ports".into(), ports.collect::<Dict>().into()),
        ("counters".into(), counters.collect::<Dict>().into()),
    ]
}
