//! Makes the workers of a switch, the ways between them and the control thread, and that thread.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dpdk::Tsc;
use heddle_host::config::{self, Config};
use rustix::thread::CpuSet;

use super::control::{self, Control, ControlStats};
use super::counters::counters;
use super::datapath::{ControlEnds, Workers, WorkersParts};
use super::links::Links;
use super::node::{SwitchNode, WorkerEnds};
use super::orders::orders;
use super::packet_ins::packet_ins;
use crate::engine::{Engine, EngineError, Parts};

impl Engine<SwitchNode> {
    /// Starts EAL, opens the ports, makes the workers and starts the control thread, which ends when `stop` is set.
    ///
    /// # Errors
    /// What is not to be had, and why.
    pub fn new_switch(
        config: &Config,
        switch: &config::Switch,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, EngineError> {
        // EAL binds this thread to the first worker's CPU, and its children would inherit that.
        let cpus = control_cpus(&config.engine.lcores);
        let parts = Parts::new(config)?;
        let macs = parts
            .ports
            .iter()
            .map(|port| port.mac().map(|mac| mac.0))
            .collect::<Result<Vec<_>, _>>()?;
        let tsc = Tsc::new(&parts.eal);
        let (mut engine, workers) = Self::switch(config, switch, parts, stop)?;
        let stats = ControlStats::default();
        engine.published().also_tell(stats.clone());
        let control = Control {
            workers,
            settings: control::settings(switch),
            agent: control::agent(config, switch, &macs),
            tsc,
            cpus,
            stats,
            stop: Arc::clone(stop),
        };
        let (thread, addresses) = control.start()?;
        for address in addresses {
            tracing::info!("listening for controllers at {address}");
        }
        engine.set_companion(thread);
        Ok(engine)
    }

    /// A switch on ports that are open already, in the order of the configuration, without a control thread: who has the
    /// [`Workers`] changes the rules. Nothing waits for the workers any more once `stop` is set.
    ///
    /// # Errors
    /// What is not to be had, and why.
    pub fn switch(
        config: &Config,
        switch: &config::Switch,
        parts: Parts,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, Workers), EngineError> {
        let tsc = Tsc::new(&parts.eal);
        let mut nodes = Vec::new();
        let mut ends = Vec::new();
        for _ in &config.engine.lcores {
            let (order_sender, order_receiver) = orders();
            let (counter_reader, counter_writer) = counters(switch.max_flows);
            let (packet_in_sender, packet_in_receiver) = packet_ins(switch);
            let worker = WorkerEnds {
                orders: order_receiver,
                counters: counter_writer,
                packet_ins: packet_in_sender,
            };
            nodes.push(SwitchNode::new(switch, &config.ports, worker, secret()));
            ends.push(ControlEnds {
                orders: order_sender,
                counters: counter_reader,
                packet_ins: packet_in_receiver,
            });
        }
        let mut engine = Self::assemble(config, parts, nodes)?;
        let parts = WorkersParts {
            ends,
            links: Links::new(engine.take_ports(), &config.ports),
            published: engine.published(),
            tsc,
            stop: Arc::clone(stop),
        };
        Ok((engine, Workers::new(switch, parts, secret())))
    }
}

/// The CPUs on which this process may run but has no worker; all on which it may run when no other is left.
fn control_cpus(lcores: &[u32]) -> Option<CpuSet> {
    let all = rustix::thread::sched_getaffinity(None).ok()?;
    let mut others = all;
    for cpu in lcores.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU) {
        others.unset(*cpu as usize);
    }
    Some(if others.count() > 0 { others } else { all })
}

/// A number that nobody outside knows: who cannot tell what collides cannot make packets or names that do.
fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}
