//! The workers' switches as the agent sees them: one datapath.
//!
//! The control thread has tables of its own, in which nothing is looked up. Each change is made there first, which gives the
//! rule's number or the error at once, and then sent to every worker. Their tables have as much memory and get the same changes
//! in the same order, so that what came of it here comes of it there. The agent's clock is the workers'.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant as Clock};

use dpdk::Tsc;
use heddle_core::flow::{
    Action, Bucket, Flow, FlowTable, GroupError, GroupKind, Groups, Instructions, Match, PacketIn,
    RuleId, TableError,
};
use heddle_core::node::{Instant, PortId};
use heddle_host::config;
use heddle_host::program::{Change, Registry};
use heddle_openflow::ProgramStats;
use heddle_openflow::datapath::{Datapath, FlowCounters, LinkChange, PortCounters, TableCounters};

use super::counters::CounterReader;
use super::links::Links;
use super::memory;
use super::orders::{GroupChange, Insertion, Order, OrderSender, PacketOut};
use super::packet_ins::PacketInReceiver;
use crate::published::Published;

/// Counters of rules that are older are asked for anew, unless reading them took long.
const FRESH: Duration = Duration::from_millis(20);

/// However long reading took, older ones are not used.
const STALE: Duration = Duration::from_secs(1);

/// Workers spend one part of so many of their time on counters, at most.
const READING_PART: u32 = 20;

/// The control thread's ends of the ways to and from one worker.
#[derive(Debug)]
pub struct ControlEnds {
    /// What it is to do.
    pub orders: OrderSender,
    /// Its rules' counters.
    pub counters: CounterReader,
    /// Its frames for the controllers.
    pub packet_ins: PacketInReceiver,
}

/// The last reading of the rules' counters.
#[derive(Copy, Clone)]
struct Reading {
    /// When it was asked for: everything before then is in it.
    asked: Instant,
    /// When a new one is to be asked for.
    good_until: Clock,
}

/// All workers of a switch.
pub struct Workers {
    tables: FlowTable<'static>,
    groups: Groups<'static>,
    group_numbers: BTreeSet<u32>,
    ends: Vec<ControlEnds>,
    /// The worker whose frames for the controllers were looked at last.
    next_worker: usize,
    /// The instructions of the last rule: the next one often has the same.
    instructions: Arc<Instructions>,
    /// Places of rules beyond which none has ever been used.
    places: u32,
    programs: Registry,
    links: Links,
    link_changes: VecDeque<LinkChange>,
    published: Arc<Published>,
    tsc: Tsc,
    reading: Cell<Option<Reading>>,
    stop: Arc<AtomicBool>,
}

/// What [`Workers`] are made of.
pub struct WorkersParts {
    /// By worker.
    pub ends: Vec<ControlEnds>,
    /// The ports.
    pub links: Links,
    /// Where the workers publish their counters.
    pub published: Arc<Published>,
    /// The workers' clock, which is the agent's too.
    pub tsc: Tsc,
    /// Set when the workers stop: nothing waits for them then.
    pub stop: Arc<AtomicBool>,
}

impl Workers {
    /// The workers of a switch that has no rule yet.
    pub fn new(switch: &config::Switch, parts: WorkersParts, secret: u64) -> Self {
        let WorkersParts { ends, links, published, tsc, stop } = parts;
        let workers = ends.len();
        Self {
            tables: FlowTable::new(memory::tables(switch), secret),
            groups: Groups::new(memory::groups(switch)),
            group_numbers: BTreeSet::new(),
            ends,
            next_worker: 0,
            instructions: Arc::new(Instructions::NONE),
            places: 0,
            programs: super::programs::registry(switch.programs, workers),
            links,
            link_changes: VecDeque::new(),
            published,
            tsc,
            reading: Cell::new(None),
            stop,
        }
    }

    /// The number of rules.
    pub fn rules(&self) -> usize {
        self.tables.len()
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.group_numbers.len()
    }

    /// Sends an order to every worker.
    fn tell(&mut self, order: impl Fn() -> Order) {
        for worker in &mut self.ends {
            worker.orders.send(order(), &self.stop);
        }
    }

    /// Sends an order to the first worker, which sends for the control thread.
    fn tell_first(&mut self, order: Order) {
        if let Some(worker) = self.ends.first_mut() {
            worker.orders.send(order, &self.stop);
        }
    }

    /// Sends each worker its own change of the programs.
    fn tell_programs(&mut self, changes: Vec<Change>) {
        for (worker, change) in self.ends.iter_mut().zip(changes) {
            worker.orders.send(Order::Program(Some(change), None), &self.stop);
        }
    }

    fn tell_port(&mut self, port: PortId) {
        if let Some(state) = self.links.state(port) {
            self.tell(|| Order::SetPort { port, is_on: state.is_on, is_up: state.is_up() });
        }
    }

    /// One value for instructions, however many rules in a row have them.
    fn share(&mut self, instructions: &Instructions) -> Arc<Instructions> {
        if *self.instructions != *instructions {
            self.instructions = Arc::new(instructions.clone());
        }
        Arc::clone(&self.instructions)
    }

    /// Has the workers copy their counters, unless they have lately. The time until which everything is counted.
    fn read(&self) -> Instant {
        let began = Clock::now();
        if let Some(reading) = self.reading.get().filter(|reading| began < reading.good_until) {
            return reading.asked;
        }
        let asked = Instant::from_nanos(self.tsc.nanoseconds());
        self.ends.iter().for_each(|worker| worker.counters.ask(self.places));
        self.ends.iter().for_each(|worker| worker.counters.wait(&self.stop));
        let took = began.elapsed();
        let good_for = (took * READING_PART).clamp(FRESH, STALE);
        self.reading.set(Some(Reading { asked, good_until: began + good_for }));
        asked
    }

    fn put_group(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
        is_new: bool,
    ) -> Result<(), GroupError> {
        match is_new {
            true => self.groups.add(id, kind, buckets)?,
            false => self.groups.modify(id, kind, buckets)?,
        }
        self.group_numbers.insert(id);
        let change = Arc::new(GroupChange { id, kind, buckets: buckets.to_vec(), is_new });
        self.tell(|| Order::PutGroup(Arc::clone(&change)));
        Ok(())
    }
}

impl Datapath for Workers {
    fn insert(&mut self, now: Instant, flow: &Flow<'_, '_>) -> Result<RuleId, TableError> {
        let added = self.tables.add(now, flow);
        if let Ok(id) = added {
            self.places = self.places.max(id.place().saturating_add(1));
        }
        // Also when it failed: a rule that it would have replaced may be gone.
        let instructions = self.share(flow.instructions);
        let insertion = Arc::new(Insertion::new(now, flow, instructions));
        self.tell(|| Order::Insert(Arc::clone(&insertion)));
        added
    }

    fn find(&mut self, table: u8, priority: u16, matching: &Match<'_>) -> Option<RuleId> {
        self.tables.find(table, priority, matching)
    }

    fn modify(&mut self, id: RuleId, instructions: &Instructions) -> Result<(), TableError> {
        self.tables.modify(id, instructions)?;
        let instructions = self.share(instructions);
        self.tell(|| Order::Modify(id, Arc::clone(&instructions)));
        Ok(())
    }

    fn remove(&mut self, id: RuleId) {
        self.tables.remove(id);
        self.tell(|| Order::Remove(id));
    }

    fn counters(&self, id: RuleId) -> Option<FlowCounters> {
        let added = self.tables.rule(id)?.added();
        let asked = self.read();
        // A packet may have come since the reading: a rule has not been idle for longer than it was then.
        let since = Instant::from_nanos(self.tsc.nanoseconds()).since(asked);
        let none = FlowCounters { packets: 0, octets: 0, added, used: added };
        let sum = self.ends.iter().filter_map(|worker| worker.counters.get(id)).fold(
            none,
            |sum, counted| FlowCounters {
                packets: sum.packets.saturating_add(counted.packets),
                octets: sum.octets.saturating_add(counted.octets),
                used: sum.used.max(counted.used),
                ..sum
            },
        );
        Some(FlowCounters { used: sum.used.after(since), ..sum })
    }

    fn add_group(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
    ) -> Result<(), GroupError> {
        self.put_group(id, kind, buckets, true)
    }

    fn modify_group(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
    ) -> Result<(), GroupError> {
        self.put_group(id, kind, buckets, false)
    }

    fn remove_group(&mut self, id: u32) {
        self.groups.remove(id);
        self.group_numbers.remove(&id);
        self.tell(|| Order::RemoveGroup(id));
    }

    fn set_port(&mut self, port: PortId, is_on: bool) {
        self.links.switch(port, is_on);
        self.tell_port(port);
    }

    fn take_link_change(&mut self) -> Option<LinkChange> {
        for port in self.links.look() {
            self.tell_port(port);
            if let Some(state) = self.links.state(port) {
                self.link_changes.push_back(LinkChange { port, is_up: state.is_linked });
            }
        }
        self.link_changes.pop_front()
    }

    fn port_counters(&self, port: PortId) -> Option<PortCounters> {
        let counted = self.published.port(usize::from(port.0))?;
        let losses = self.links.losses(port);
        Some(PortCounters {
            rx_packets: counted.rx_frames,
            tx_packets: counted.tx_frames,
            rx_octets: counted.rx_octets,
            tx_octets: counted.tx_octets,
            rx_dropped: losses.rx_dropped,
            tx_dropped: counted.tx_dropped,
            rx_errors: losses.rx_errors,
            tx_errors: losses.tx_errors,
        })
    }

    fn table_counters(&self, _table: u8) -> Option<TableCounters> {
        None
    }

    fn take_packet_in(&mut self, octets: &mut Vec<u8>) -> Option<PacketIn> {
        // Each worker in turn, so that none floods the others' frames away.
        for _ in 0..self.ends.len() {
            self.next_worker = (self.next_worker + 1) % self.ends.len();
            let worker = self.ends.get_mut(self.next_worker)?;
            if let Some(entry) = worker.packet_ins.take(octets) {
                return Some(entry);
            }
        }
        None
    }

    fn set_invalid_ttl(&mut self, max_octets: Option<u16>) {
        self.tell(|| Order::SetInvalidTtl(max_octets));
    }

    fn packet_out(&mut self, _now: Instant, in_port: PortId, actions: &[Action], frame: &[u8]) {
        let actions = Some(actions.to_vec());
        let packet = PacketOut { in_port, actions, frame: frame.into() };
        self.tell_first(Order::PacketOut(Box::new(packet)));
    }

    fn resubmit(&mut self, _now: Instant, in_port: PortId, frame: &[u8]) {
        let packet = PacketOut { in_port, actions: None, frame: frame.into() };
        self.tell_first(Order::PacketOut(Box::new(packet)));
    }

    fn set_standalone(&mut self, is_standalone: bool) {
        self.tell(|| Order::SetStandalone(is_standalone));
    }

    fn put_program(&mut self, program: u32, elf: &[u8]) -> Result<(), String> {
        let changes = self.programs.put(program, elf).map_err(|error| error.to_string())?;
        self.tell_programs(changes);
        Ok(())
    }

    fn delete_program(&mut self, program: u32) {
        // One that is not there is as it should be.
        let changes = self.programs.delete(program).unwrap_or_default();
        self.tell_programs(changes);
    }

    fn programs(&self) -> Vec<ProgramStats> {
        let stats = self.programs.stats().into_iter().map(|stats| ProgramStats {
            program: stats.program,
            octets: u32::try_from(stats.octets).unwrap_or(u32::MAX),
            runs: stats.runs,
            hits: stats.hits,
            faults: stats.faults,
        });
        stats.collect()
    }

    fn set_parameter(&mut self, program: u32, parameter: u32, octets: &[u8]) -> Result<(), String> {
        let changes = match octets {
            [] => self.programs.delete_parameter(program, parameter),
            octets => self
                .programs
                .set_parameter(program, parameter, octets)
                .map_err(|error| error.to_string())?,
        };
        self.tell_programs(changes);
        Ok(())
    }

    fn barrier(&mut self) {
        self.ends.iter_mut().for_each(|worker| worker.orders.wait(&self.stop));
    }
}
