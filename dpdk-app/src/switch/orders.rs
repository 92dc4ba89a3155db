//! What the control thread asks of a worker: small orders in a ring of their own, carried out in turn between bursts of frames.
//!
//! An order comes back when it is carried out, so that its memory is freed where it was taken, and so that the control thread
//! knows how far the worker is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use heddle_core::flow::{
    Action, Bucket, Fields, Flow, GroupKind, Instructions, Match, ProgramMatch, RuleId, Timeouts,
};
use heddle_core::ndn::Name;
use heddle_core::node::{Instant, PortId};
use heddle_host::program;
use rtrb::{Consumer, Producer, RingBuffer};

/// Orders on their way to a worker and back. When so many are, the control thread waits, and the controllers behind it.
const CAPACITY: usize = 1024;

/// How long the control thread sleeps while a worker is behind.
const PAUSE: Duration = Duration::from_micros(50);

/// Times that it looks again before it sleeps: a worker that polls is done at once.
const LOOKS: u32 = 100;

/// Waits for a worker a little longer each time.
#[derive(Debug, Default)]
pub struct Wait {
    looks: u32,
}

impl Wait {
    /// Lets other threads run, or some time pass.
    pub fn pause(&mut self) {
        self.looks = self.looks.saturating_add(1);
        if self.looks < LOOKS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

/// One thing to do.
#[derive(Debug)]
pub enum Order {
    /// Add a rule.
    Insert(Arc<Insertion>),
    /// Give a rule other instructions.
    Modify(RuleId, Arc<Instructions>),
    /// Remove a rule.
    Remove(RuleId),
    /// Add a group, or change it when it is there.
    PutGroup(Arc<GroupChange>),
    /// Remove a group.
    RemoveGroup(u32),
    /// Say what state a port is in.
    SetPort {
        /// The port.
        port: PortId,
        /// Whether frames from it are taken: controllers can switch it off.
        is_on: bool,
        /// Whether frames can be sent on it: it is on and has a link.
        is_up: bool,
    },
    /// Flood all frames, or go by the rules.
    SetStandalone(bool),
    /// Hand so many octets of packets whose TTL has run out to the controllers, or none.
    SetInvalidTtl(Option<u16>),
    /// Send a frame of a controller's.
    PacketOut(Box<PacketOut>),
    /// Take over a change of the programs. What it replaces comes back in its place.
    Program(Option<program::Change>, Option<program::Retired>),
}

/// A rule to add.
#[derive(Debug)]
pub struct Insertion {
    now: Instant,
    table: u8,
    priority: u16,
    fields: Fields,
    mask: Fields,
    name: Option<Box<[u8]>>,
    program: Option<ProgramMatch>,
    instructions: Arc<Instructions>,
    cookie: u64,
    timeouts: Timeouts,
    flags: u16,
}

impl Insertion {
    /// The rule that `flow` describes, whose instructions are equal to these.
    pub fn new(now: Instant, flow: &Flow<'_, '_>, instructions: Arc<Instructions>) -> Self {
        Self {
            now,
            table: flow.table,
            priority: flow.priority,
            fields: flow.matching.fields,
            mask: flow.matching.mask,
            name: flow.matching.name.map(|name| name.value().into()),
            program: flow.matching.program,
            instructions,
            cookie: flow.cookie,
            timeouts: flow.timeouts,
            flags: flow.flags,
        }
    }

    /// Hands the rule to `add` as the core takes it, with the time from which it counts.
    pub fn apply<T>(&self, add: impl FnOnce(Instant, &Flow<'_, '_>) -> T) -> T {
        // It was a name when it was taken apart.
        let name = self.name.as_deref().and_then(|octets| Name::new(octets).ok());
        add(
            self.now,
            &Flow {
                table: self.table,
                priority: self.priority,
                matching: Match {
                    fields: self.fields,
                    mask: self.mask,
                    name,
                    program: self.program,
                },
                instructions: &self.instructions,
                cookie: self.cookie,
                timeouts: self.timeouts,
                flags: self.flags,
            },
        )
    }
}

/// A group as it is to be.
#[derive(Debug)]
pub struct GroupChange {
    /// Its number.
    pub id: u32,
    /// What becomes of frames.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// Whether it is to be added, or changed.
    pub is_new: bool,
}

/// A frame of a controller's.
#[derive(Debug)]
pub struct PacketOut {
    /// Where it counts as having come in.
    pub in_port: PortId,
    /// What is done with it; nothing: it goes through the tables.
    pub actions: Option<Vec<Action>>,
    /// Its octets.
    pub frame: Box<[u8]>,
}

/// The control thread's end for one worker.
#[derive(Debug)]
pub struct OrderSender {
    orders: Producer<Order>,
    done: Consumer<Order>,
    /// Orders that have not come back.
    under_way: usize,
}

/// A worker's end.
#[derive(Debug)]
pub struct OrderReceiver {
    orders: Consumer<Order>,
    done: Producer<Order>,
}

/// The two ends of the way to one worker.
pub fn orders() -> (OrderSender, OrderReceiver) {
    let (to_worker, orders) = RingBuffer::new(CAPACITY);
    // No more than CAPACITY are under way, so there is room for all that come back.
    let (done, from_worker) = RingBuffer::new(CAPACITY);
    let sender = OrderSender { orders: to_worker, done: from_worker, under_way: 0 };
    (sender, OrderReceiver { orders, done })
}

impl OrderSender {
    /// Sends an order, and waits for room when the worker is behind. It is lost when the worker has ended or `stop` is set.
    pub fn send(&mut self, order: Order, stop: &AtomicBool) {
        let mut wait = Wait::default();
        while self.collect() >= CAPACITY {
            if self.is_over(stop) {
                return;
            }
            wait.pause();
        }
        if self.orders.push(order).is_ok() {
            self.under_way += 1;
        }
    }

    /// Waits until the worker has carried out every order, has ended, or `stop` is set.
    pub fn wait(&mut self, stop: &AtomicBool) {
        let mut wait = Wait::default();
        while self.collect() > 0 && !self.is_over(stop) {
            wait.pause();
        }
    }

    /// Frees what has come back. The number of orders that have not.
    pub fn collect(&mut self) -> usize {
        while let Ok(order) = self.done.pop() {
            drop(order);
            self.under_way = self.under_way.saturating_sub(1);
        }
        self.under_way
    }

    fn is_over(&self, stop: &AtomicBool) -> bool {
        // Relaxed: nothing else is read because of the flag.
        stop.load(Ordering::Relaxed) || self.orders.is_abandoned()
    }
}

impl OrderReceiver {
    /// The next order.
    #[inline]
    pub fn take(&mut self) -> Option<Order> {
        self.orders.pop().ok()
    }

    /// Gives an order back that is carried out.
    pub fn give_back(&mut self, order: Order) {
        // There is room, see `orders`; without it the order would be freed here.
        let _ = self.done.push(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_in_turn_and_are_waited_for() {
        let (mut sender, mut receiver) = orders();
        let stop = AtomicBool::new(false);
        let worker = std::thread::spawn(move || {
            let mut expected = 0;
            while expected < 5000 {
                let Some(order) = receiver.take() else { continue };
                let Order::RemoveGroup(number) = order else { panic!("another order") };
                assert_eq!(number, expected);
                expected += 1;
                receiver.give_back(order);
            }
            receiver
        });
        for number in 0..5000 {
            sender.send(Order::RemoveGroup(number), &stop);
        }
        sender.wait(&stop);
        assert_eq!(sender.collect(), 0);
        drop(worker.join().unwrap());
        // Nobody is there any more: nothing waits for ever.
        for number in 0..=CAPACITY as u32 {
            sender.send(Order::RemoveGroup(number), &stop);
        }
        sender.wait(&stop);
    }
}
