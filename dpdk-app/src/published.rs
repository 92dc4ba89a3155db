//! Counters that other threads may read: each worker writes its own now and then, and readers add them up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use heddle_host::metrics::{PortStats, Stats};

use crate::role::Role;
use crate::switch::control::ControlStats;
use crate::worker::Totals;

/// The counters of a worker that are not the node's.
pub const WORKER_COUNTER_NAMES: &[&str] = &["handed_over", "handover_full", "rx_chained"];

/// The counters of all workers of one engine.
#[derive(Debug)]
pub struct Published {
    name: String,
    start: Instant,
    port_names: Vec<String>,
    node_names: &'static [&'static str],
    further_names: &'static [&'static str],
    workers: Vec<WorkerCounters>,
    control: OnceLock<ControlStats>,
}

#[derive(Debug)]
struct WorkerCounters {
    node: Vec<AtomicU64>,
    further: Vec<AtomicU64>,
    worker: Vec<AtomicU64>,
    /// rx frames, rx octets, tx frames, tx octets, tx dropped, of each port.
    ports: Vec<[AtomicU64; 5]>,
}

fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Published {
    /// Counters of `workers` workers of this role, all 0, and the time from now on.
    pub fn new<R: Role>(name: &str, port_names: Vec<String>, workers: usize) -> Self {
        let worker = || WorkerCounters {
            node: zeros(R::COUNTER_NAMES.len()),
            further: zeros(R::FURTHER_COUNTER_NAMES.len()),
            worker: zeros(WORKER_COUNTER_NAMES.len()),
            ports: port_names.iter().map(|_| Default::default()).collect(),
        };
        Self {
            name: name.to_owned(),
            start: Instant::now(),
            node_names: R::COUNTER_NAMES,
            further_names: R::FURTHER_COUNTER_NAMES,
            workers: (0..workers).map(|_| worker()).collect(),
            port_names,
            control: OnceLock::new(),
        }
    }

    /// Tells what a control thread counts, too. Only the first call has an effect.
    pub fn also_tell(&self, control: ControlStats) {
        // There is one control thread.
        let _ = self.control.set(control);
    }

    /// Sets the counters of worker `index`. Only that worker calls it.
    pub fn publish(&self, index: usize, totals: &Totals<'_>) {
        let Some(worker) = self.workers.get(index) else { return };
        // Relaxed: each counter stands for itself, and readers live with one being newer than the next.
        let set = |to: &[AtomicU64], from: &[u64]| {
            to.iter().zip(from).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
        };
        set(&worker.node, totals.node);
        set(&worker.further, totals.further);
        set(&worker.worker, &totals.worker);
        for (to, (received, sent)) in
            worker.ports.iter().zip(totals.received.iter().zip(totals.outbox.sent()))
        {
            let from = [received.frames, received.octets, sent.frames, sent.octets, sent.dropped];
            set(to, &from);
        }
    }

    /// The counters of the port called `number`, added up over the workers.
    pub fn port(&self, number: usize) -> Option<PortStats> {
        self.port_names.get(number)?;
        let mut sum = PortStats::default();
        for counters in self.workers.iter().filter_map(|worker| worker.ports.get(number)) {
            add(&mut sum, counters);
        }
        Some(sum)
    }

    /// All counters, added up over the workers.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            name: self.name.clone(),
            uptime_s: self.start.elapsed().as_secs_f64(),
            ..Stats::default()
        };
        for worker in &self.workers {
            let named = self.node_names.iter().zip(&worker.node);
            let further = self.further_names.iter().zip(&worker.further);
            let of_worker = WORKER_COUNTER_NAMES.iter().zip(&worker.worker);
            for (name, counter) in named.chain(further).chain(of_worker) {
                *stats.counters.entry((*name).to_owned()).or_default() +=
                    counter.load(Ordering::Relaxed);
            }
            for (name, counters) in self.port_names.iter().zip(&worker.ports) {
                add(stats.ports.entry(name.clone()).or_default(), counters);
            }
        }
        if let Some(control) = self.control.get() {
            control.add_to(&mut stats);
        }
        stats
    }
}

/// Adds what one worker has counted at a port.
fn add(port: &mut PortStats, counters: &[AtomicU64; 5]) {
    let [rx_frames, rx_octets, tx_frames, tx_octets, tx_dropped] =
        counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    port.rx_frames += rx_frames;
    port.rx_octets += rx_octets;
    port.tx_frames += tx_frames;
    port.tx_octets += tx_octets;
    port.tx_dropped += tx_dropped;
}
