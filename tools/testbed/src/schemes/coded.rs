//! CODED IP: one engine for the source and one for each switch.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use heddle_host::config::{
    self, Coded as CodedLimits, Config, Destination, Device, Forwarder, Generation, Hugepages,
    Idle, LogLevel, Port, PortIndex, Role, Session, Source,
};
use heddle_host::control::Client;
use heddle_host::metrics::Stats;

use super::{LOAD, PACE};
use crate::error::{Error, Result};
use crate::layout::{Cable, GROUP, Layout};
use crate::namespace::Namespace;
use crate::network::Network;
use crate::process::{Process, program};
use crate::shutdown::Shutdown;
use crate::topology::Topology;

/// How long an engine may take to get ready. Ten of them start on few CPUs.
const READY_WITHIN: Duration = Duration::from_secs(60);

const SESSION_ID: u8 = 1;

/// What CODED IP is run with.
#[derive(Clone, Debug)]
pub struct CodedOptions {
    /// Where the programs are.
    pub programs: PathBuf,
    /// Where configurations and logs go.
    pub directory: PathBuf,
    /// K.
    pub generation_size: u8,
}

/// The engines, running. Dropping it kills them.
#[derive(Debug)]
pub struct Coded {
    options: CodedOptions,
    engines: Vec<Engine>,
}

/// The engine of one node.
#[derive(Debug)]
struct Engine {
    node: String,
    namespace: Namespace,
    configuration: PathBuf,
    /// Nothing while it is killed.
    process: Option<Process>,
}

/// Ethernet octets of a coded frame, for datagrams with `payload` octets: Ethernet, IP, coded header, vector, block.
pub fn coded_frame_octets(payload: usize, generation_size: usize) -> usize {
    let block = (8 + payload).div_ceil(generation_size.max(1)).next_multiple_of(8);
    14 + 20 + 8 + generation_size + block
}

impl Coded {
    /// Starts an engine for each node and waits until all are ready.
    ///
    /// # Errors
    /// When one does not start; the others are ended then.
    pub fn start(network: &Network, options: CodedOptions, shutdown: &Shutdown) -> Result<Self> {
        let mut coded = Self { options, engines: Vec::new() };
        for (number, node) in network.layout().topology.nodes().enumerate() {
            let config =
                configuration(network.layout(), node, number, coded.options.generation_size);
            let path = coded.options.directory.join(format!("{node}.toml"));
            let text = config
                .to_toml()
                .map_err(|error| Error::Invalid(format!("the configuration of {node}: {error}")))?;
            std::fs::write(&path, text).map_err(Error::at("write", &path))?;
            let mut engine = Engine {
                node: node.to_owned(),
                namespace: network.namespace(node),
                configuration: path,
                process: None,
            };
            engine.start(&coded.options)?;
            coded.engines.push(engine);
        }
        for engine in &mut coded.engines {
            engine.wait_until_ready(shutdown)?;
        }
        Ok(coded)
    }

    /// Kills the engine of `node`, as a power failure would.
    ///
    /// # Errors
    /// When no engine runs there.
    pub fn kill(&mut self, node: &str) -> Result<()> {
        let process = self.engine(node)?.process.take();
        process.ok_or_else(|| no_engine(node))?.kill();
        Ok(())
    }

    /// Starts the engine of `node` again and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&mut self, node: &str, shutdown: &Shutdown) -> Result<()> {
        let options = self.options.clone();
        let engine = self.engine(node)?;
        engine.start(&options)?;
        engine.wait_until_ready(shutdown)
    }

    /// What the engine of `node` has counted so far.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn stats(&self, node: &str) -> Result<Stats> {
        let engine = self.engines.iter().find(|engine| engine.node == node);
        let namespace = &engine.ok_or_else(|| no_engine(node))?.namespace;
        Client::connect(namespace.name())
            .and_then(|client| client.stats())
            .map_err(|error| Error::Invalid(format!("the engine of {node}: {error}")))
    }

    /// Ends all engines; what each has counted, in the order of the topology's nodes.
    ///
    /// # Errors
    /// When one does not end as it should.
    pub fn stop(mut self) -> Result<Vec<Stats>> {
        let mut stats = Vec::new();
        for engine in std::mem::take(&mut self.engines) {
            let Some(process) = engine.process else { continue };
            let text = process.stop()?;
            stats.push(serde_json::from_str(text.trim()).map_err(|error| {
                Error::Invalid(format!(
                    "the final counters of {} are not understood: {error}",
                    engine.node
                ))
            })?);
        }
        Ok(stats)
    }

    fn engine(&mut self, node: &str) -> Result<&mut Engine> {
        self.engines.iter_mut().find(|engine| engine.node == node).ok_or_else(|| no_engine(node))
    }
}

impl Engine {
    fn start(&mut self, options: &CodedOptions) -> Result<()> {
        // An engine stands for a machine of its own: it should not wait for what else runs on this one.
        let mut command = Command::new("nice");
        command.args(["-n", "-15"]).arg(program(&options.programs, "heddle-dpdk")?);
        command.arg("--config").arg(&self.configuration).arg("--json");
        self.process =
            Some(Process::start(&self.node, &self.namespace, command, &options.directory)?);
        Ok(())
    }

    fn wait_until_ready(&mut self, shutdown: &Shutdown) -> Result<()> {
        match &mut self.process {
            Some(process) => process.wait_for(" ready", READY_WITHIN, shutdown),
            None => Err(no_engine(&self.node)),
        }
    }
}

fn no_engine(node: &str) -> Error {
    Error::Invalid(format!("no engine runs at {node}"))
}

/// What an engine is called: by its namespace, which no two networks share.
fn engine_name(layout: &Layout, node: &str) -> String {
    layout.namespace(node).name().to_owned()
}

/// How fast the sender may write datagrams with `payload` octets, in octets of payload a second: the source's links are then filled
/// to [`LOAD`].
pub fn sender_rate(topology: &Topology, payload: usize, generation_size: u8) -> f64 {
    let outputs = topology.outgoing(&topology.source).count().max(1);
    let packets = usize::from(generation_size).max(outputs);
    let frame = coded_frame_octets(payload, usize::from(generation_size));
    let datagrams =
        topology.unit_capacity() as f64 * LOAD * outputs as f64 / (packets * frame) as f64;
    datagrams * payload as f64
}

/// The configuration of the engine at `node`, the `number`-th of the topology.
pub fn configuration(layout: &Layout, node: &str, number: usize, generation_size: u8) -> Config {
    let topology = &layout.topology;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let cables: Vec<&Cable> = layout.incoming(node).chain(layout.outgoing(node)).collect();
    let chosen = |sending: bool| -> Vec<PortIndex> {
        let numbered = cables.iter().enumerate();
        let chosen = numbered.filter(|(_, cable)| (cable.from == node) == sending);
        chosen.map(|(index, _)| PortIndex(index as u8)).collect()
    };
    let role = if topology.source == node {
        Role::Source(Source {
            inputs: chosen(false),
            outputs: chosen(true),
            generation: Generation::Datagram,
            generation_size,
            redundancy: 0,
            flush: Duration::from_millis(20),
        })
    } else if topology.destinations.iter().any(|destination| destination == node) {
        Role::Destination(Destination {
            inputs: chosen(false),
            deliver: chosen(true),
            generation: Generation::Datagram,
        })
    } else {
        Role::Forwarder(Forwarder { inputs: chosen(false), outputs: chosen(true) })
    };
    let ports = cables.iter().enumerate().map(|(index, cable)| Port {
        name: cable.name.replace('-', "_"),
        // Without qdisc_bypass=0 frames would go past the limit of the link.
        device: Device::Vdev(format!("net_af_packet{index},iface={},qdisc_bypass=0", cable.name)),
        rate_octets_per_s: cable
            .rate
            .filter(|_| cable.from == node)
            .and_then(|rate| NonZeroU64::new((rate as f64 * PACE) as u64)),
        mtu_octets: config::DEFAULT_MTU_OCTETS,
    });
    Config {
        engine: config::Engine {
            name: engine_name(layout, node),
            lcores: vec![(number % cpus) as u32],
            idle: Idle::Sleep,
            // Ten small engines want no hugepages.
            hugepages: Hugepages::Never,
            memory_mib: 64,
            mbufs: 4096,
            log: LogLevel::Info,
        },
        coded: CodedLimits {
            // Everything shares a few CPUs here, so an engine may pause for longer than the default number of generations lasts.
            ses_max_gen: 1024,
            max_sessions: 1,
            max_generation_size: generation_size,
            ..CodedLimits::default()
        },
        ports: ports.collect(),
        sessions: vec![Session {
            id: SESSION_ID,
            source: Some(layout.sender_address()),
            group: *GROUP.ip(),
            role,
        }],
        switch: None,
    }
}

/// The directory of the programs when nobody names one: that of this program.
pub fn programs_beside_this_one() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    let directory = this.parent().unwrap_or_else(|| Path::new("."));
    // Test programs lie one deeper.
    if directory.ends_with("deps") {
        directory.parent().unwrap_or(directory).to_path_buf()
    } else {
        directory.to_path_buf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_frames() {
        // K = 3 and datagrams of 1400 octets: blocks of 472 octets.
        assert_eq!(coded_frame_octets(1400, 3), 14 + 20 + 8 + 3 + 472);
    }

    #[test]
    fn every_configuration_is_one_that_an_engine_takes() {
        let layout = Layout::new(Topology::testbed_22().unwrap(), "t");
        for (number, node) in layout.topology.nodes().enumerate() {
            let config = configuration(&layout, node, number, 3);
            let text = config.to_toml().unwrap();
            assert_eq!(Config::parse(&text, node).unwrap(), config, "{node}");
        }
    }

    #[test]
    fn roles_follow_the_topology() {
        let layout = Layout::new(Topology::testbed_22().unwrap(), "t");
        let session = |node| configuration(&layout, node, 0, 3).sessions.remove(0);
        assert_eq!(session("S").outputs().len(), 3);
        assert_eq!((session("E").inputs().len(), session("E").outputs().len()), (2, 1));
        assert_eq!((session("G").inputs().len(), session("G").outputs().len()), (3, 5));
    }
}
