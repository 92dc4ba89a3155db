//! The control thread: the agent, its connections, and the workers as its datapath.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use dpdk::Tsc;
use heddle_core::node::Instant;
use heddle_host::config::{self, Config, Endpoint};
use heddle_host::metrics::{ProgramCounters, Stats};
use heddle_openflow::agent::Agent;
use heddle_openflow::datapath::Datapath;
use heddle_openflow::driver::{Driver, DriverError, FailMode, Settings};
use heddle_openflow::{Address, Description, Port, TlsFiles, Transport};
use rustix::thread::CpuSet;

use super::datapath::Workers;

/// How often what the control thread counts is published.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);

/// The control thread looks at least so often whether it is to stop.
const WAIT: Duration = Duration::from_millis(50);

/// Programs whose counters are published one by one, at most: an answer of EAL's has 16 KiB. Controllers can ask for all.
const PROGRAMS_TOLD: usize = 64;

/// What the control thread has counted, for others to read.
#[derive(Clone, Debug, Default)]
pub struct ControlStats(Arc<Mutex<Told>>);

#[derive(Clone, Debug, Default)]
struct Told {
    gauges: BTreeMap<String, u64>,
    counters: BTreeMap<String, u64>,
    programs: BTreeMap<String, ProgramCounters>,
}

impl ControlStats {
    /// Adds what is known to the workers' counters.
    pub fn add_to(&self, stats: &mut Stats) {
        let Ok(told) = self.0.lock() else { return };
        stats.gauges.extend(told.gauges.clone());
        stats.counters.extend(told.counters.clone());
        stats.programs.extend(told.programs.clone());
    }

    fn tell(&self, driver: &Driver, workers: &Workers) {
        let there = driver.controllers().filter(|(_, is_there)| *is_there).count();
        let gauges = [
            ("flows", workers.rules()),
            ("groups", workers.groups()),
            ("controllers_connected", there),
            ("control_connections", driver.connections()),
        ];
        let mut told = Told::default();
        told.gauges.extend(gauges.map(|(name, count)| (name.to_owned(), count as u64)));
        let counters = driver.counters().each();
        told.counters.extend(counters.map(|(name, count)| (format!("control_{name}"), count)));
        let programs = workers.programs();
        for (name, counter) in [
            ("program_runs", programs.iter().map(|program| program.runs).sum()),
            ("program_hits", programs.iter().map(|program| program.hits).sum()),
            ("program_faults", programs.iter().map(|program| program.faults).sum::<u64>()),
        ] {
            told.counters.insert(name.to_owned(), counter);
        }
        told.gauges.insert("programs".to_owned(), programs.len() as u64);
        let programs = programs.into_iter().take(PROGRAMS_TOLD).map(|program| {
            let counters = ProgramCounters {
                octets: program.octets.into(),
                runs: program.runs,
                hits: program.hits,
                faults: program.faults,
            };
            (program.program.to_string(), counters)
        });
        told.programs.extend(programs);
        if let Ok(mut place) = self.0.lock() {
            *place = told;
        }
    }
}

/// What the control thread begins with.
pub struct Control {
    /// The workers.
    pub workers: Workers,
    /// Where controllers are.
    pub settings: Settings,
    /// What controllers are told about the switch.
    pub agent: Agent,
    /// The workers' clock.
    pub tsc: Tsc,
    /// CPUs that the thread may use; where it may not, it uses those of the thread that starts it.
    pub cpus: Option<CpuSet>,
    /// Where it publishes what it counts.
    pub stats: ControlStats,
    /// Set when it is to stop.
    pub stop: Arc<AtomicBool>,
}

impl Control {
    /// Starts the thread: it, and where it listens.
    ///
    /// # Errors
    /// It cannot listen, or the certificates are of no use.
    pub fn start(self) -> Result<(JoinHandle<()>, Vec<SocketAddr>), DriverError> {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || self.run(&tell)).map_err(DriverError::Io)?;
        match told.recv() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(addresses)) => Ok((thread, addresses)),
            // It has ended without a word: it has panicked. Who joins it sees that.
            Err(mpsc::RecvError) => Ok((thread, Vec::new())),
        }
    }

    fn run(self, tell: &mpsc::Sender<Result<Vec<SocketAddr>, DriverError>>) {
        let Self { mut workers, settings, agent, tsc, cpus, stats, stop } = self;
        if let Some(cpus) = cpus {
            // Without that it runs on a worker's CPU, and is slower.
            let _ = rustix::thread::sched_setaffinity(None, &cpus);
        }
        let clock = move || Instant::from_nanos(tsc.nanoseconds());
        let mut driver = match Driver::new(settings, agent, clock) {
            Ok(driver) => driver,
            Err(error) => {
                // Whoever starts the thread waits for this.
                let _ = tell.send(Err(error));
                return;
            }
        };
        let _ = tell.send(Ok(driver.local_addresses()));
        let mut publish_at = Clock::now();
        // Relaxed: nothing else is read because of the flag.
        while !stop.load(Ordering::Relaxed) {
            if let Err(error) = driver.poll(&mut workers, WAIT) {
                tracing::error!("the connections to controllers fail: {error}");
                std::thread::sleep(WAIT);
            }
            if publish_at <= Clock::now() {
                stats.tell(&driver, &workers);
                publish_at = Clock::now() + PUBLISH_EVERY;
            }
        }
        stats.tell(&driver, &workers);
    }
}

/// Where the controllers of `switch` are.
pub fn settings(switch: &config::Switch) -> Settings {
    let addresses = |endpoints: &[Endpoint]| -> Vec<Address> {
        let one = |endpoint: &Endpoint| Address {
            transport: match endpoint.transport {
                config::Transport::Tcp => Transport::Tcp,
                config::Transport::Tls => Transport::Tls,
            },
            host: endpoint.address.ip().to_string(),
            port: endpoint.address.port(),
        };
        endpoints.iter().map(one).collect()
    };
    Settings {
        controllers: addresses(&switch.controllers),
        listen: addresses(&switch.listen),
        fail_mode: match switch.fail_mode {
            config::FailMode::Secure => FailMode::Secure,
            config::FailMode::Standalone => FailMode::Standalone,
        },
        tls: switch.tls.as_ref().map(|tls| TlsFiles {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            authority: tls.authority.clone(),
        }),
        ..Settings::default()
    }
}

/// What controllers are told about the switch. `macs` are the ports' Ethernet addresses, in their order.
pub fn agent(config: &Config, switch: &config::Switch, macs: &[[u8; 6]]) -> Agent {
    let port = |(number, (port, mac)): (usize, (&config::Port, &[u8; 6]))| Port {
        number: number as u32 + 1,
        hw_addr: *mac,
        // A message has room for 15 octets; names are ASCII.
        name: port.name.chars().take(15).collect(),
        state: Port::LIVE,
        ..Port::default()
    };
    let ports = config.ports.iter().zip(macs).enumerate().map(port).collect();
    let mut agent = Agent::new(switch.datapath_id, ports, switch.max_flows);
    agent.max_groups = switch.max_groups;
    agent.description = Description {
        manufacturer: "Heddle".to_owned(),
        hardware: "DPDK".to_owned(),
        software: format!("heddle-dpdk {}", env!("CARGO_PKG_VERSION")),
        serial_number: String::new(),
        datapath: config.engine.name.clone(),
    };
    if switch.legacy { agent.accepting_legacy() } else { agent }
}
