//! One worker: the loop of one lcore.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use dpdk::{Mbuf, RingReceiver, RingSender, RxQueue, Tsc};
use heddle_core::coded::CodedNode;
use heddle_core::node::{BURST, Engine, Instant, PortId, Verdict};
use heddle_host::config::Idle;

use crate::frame::MbufFrame;
use crate::outbox::Outbox;
use crate::published::Published;
use crate::role::Role;

/// How often counters are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(10);

/// How long a sleeping worker sleeps while frames came lately, and how long after that.
const NAP: Duration = Duration::from_micros(250);
const SLEEP: Duration = Duration::from_millis(1);

/// Without a frame for as long, naps become sleep.
const NAPS_FOR: Duration = Duration::from_secs(1);

/// What came in on one port at one worker.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
}

/// Everything that a worker has counted.
#[derive(Debug)]
pub struct Totals<'w> {
    /// In the order of the node's names.
    pub node: &'w [u64],
    /// In the order of the role's further names.
    pub further: &'w [u64],
    /// In the order of [`crate::published::WORKER_COUNTER_NAMES`].
    pub worker: [u64; 3],
    /// By port.
    pub received: &'w [Received],
    /// What was sent on each port.
    pub outbox: &'w Outbox,
}

/// A receive queue and the port that it is of.
#[derive(Debug)]
pub struct Input {
    /// The port.
    pub port: PortId,
    /// Its queue for this worker.
    pub queue: RxQueue,
}

/// The rings to and from one other worker, for frames that came in at the wrong one.
#[derive(Debug)]
pub struct Handover {
    /// To the other worker; nothing in the place of the worker itself.
    pub to: Option<RingSender<Mbuf>>,
    /// From the other worker.
    pub from: Option<RingReceiver<Mbuf>>,
}

/// What one lcore works with.
#[derive(Debug)]
pub struct Worker<R = CodedNode<'static>> {
    /// The worker's number, from 0.
    pub index: usize,
    /// The queues that it polls.
    pub inputs: Vec<Input>,
    /// What it sends.
    pub outbox: Outbox,
    /// The protocol state.
    pub node: R,
    /// By the other worker's number. Empty when there is one worker.
    pub handovers: Vec<Handover>,
    /// What to do when nothing comes in.
    pub idle: Idle,
    /// The clock.
    pub tsc: Tsc,
    /// Where its counters can be read.
    pub published: Arc<Published>,
    /// By port.
    pub received: Vec<Received>,
    /// Frames given to other workers, and frames lost because a ring was full.
    pub handed_over: u64,
    /// See `handed_over`.
    pub handover_full: u64,
}

impl<R: Role> Worker<R> {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.tsc.nanoseconds())
    }

    /// Works until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) {
        let mut last_frame = self.now();
        let mut publish_at = last_frame;
        // Relaxed: nothing else is read because of the flag.
        while !stop.load(Ordering::Relaxed) {
            let now = self.now();
            if self.round(now) > 0 {
                last_frame = now;
            } else if self.idle == Idle::Sleep {
                self.sleep(now, last_frame);
            }
            if publish_at <= now {
                self.publish();
                publish_at = now.after(PUBLISH_EVERY);
            }
        }
        self.outbox.finish();
        self.publish();
    }

    /// One round: takes a burst from each queue, does what is due and what other threads ask, sends. The number of frames that
    /// came in, from ports and from other workers, and of things that were asked.
    pub fn round(&mut self, now: Instant) -> usize {
        let mut frames = 0;
        for index in 0..self.inputs.len() {
            frames += self.receive(now, index);
        }
        for index in 0..self.handovers.len() {
            frames += self.take_over(now, index);
        }
        if self.node.deadline().is_some_and(|deadline| deadline <= now) {
            self.node.poll(now, &mut self.outbox);
        }
        let served = self.node.serve(now, &mut self.outbox);
        frames + served + self.outbox.flush()
    }

    /// Takes a burst from one queue; each frame goes to the node here, or to the worker that has its session.
    fn receive(&mut self, now: Instant, index: usize) -> usize {
        let Some(input) = self.inputs.get_mut(index) else { return 0 };
        let port = input.port;
        let mut burst = ArrayVec::<Mbuf, BURST>::new();
        let count = input.queue.receive(&mut burst);
        if count == 0 {
            return 0;
        }
        if let Some(received) = self.received.get_mut(usize::from(port.0)) {
            received.frames += count as u64;
            received.octets += burst.iter().map(|frame| frame.len() as u64).sum::<u64>();
        }
        if R::TAKES_ALL {
            handle_burst(&mut self.node, &mut self.outbox, now, port, burst);
            return count;
        }
        let workers = self.handovers.len().max(1);
        for frame in burst {
            match R::owner(frame.bytes(), workers) {
                owner if workers == 1 || owner == self.index => {
                    handle(&mut self.node, &mut self.outbox, now, port, frame);
                }
                owner => self.hand_over(owner, port, frame),
            }
        }
        count
    }

    /// Gives a frame to another worker, with the port's number before its first octet.
    fn hand_over(&mut self, owner: usize, port: PortId, mut frame: Mbuf) {
        let mut one = ArrayVec::<Mbuf, 1>::new();
        if let Ok(head) = frame.prepend(1) {
            head.fill(port.0);
            one.push(frame);
        }
        let ring = self.handovers.get_mut(owner).and_then(|handover| handover.to.as_mut());
        match ring.map(|ring| ring.send(&mut one)) {
            Some(1) => self.handed_over += 1,
            _ => self.handover_full += 1,
        }
    }

    /// Takes frames that another worker gave.
    fn take_over(&mut self, now: Instant, from: usize) -> usize {
        let Some(ring) = self.handovers.get_mut(from).and_then(|handover| handover.from.as_mut())
        else {
            return 0;
        };
        let mut burst = ArrayVec::<Mbuf, BURST>::new();
        let count = ring.receive(&mut burst);
        for mut frame in burst {
            let port = frame.bytes().first().copied().map(PortId);
            if let (Some(port), Ok(())) = (port, frame.adj(1)) {
                handle(&mut self.node, &mut self.outbox, now, port, frame);
            }
        }
        count
    }

    fn sleep(&self, now: Instant, last_frame: Instant) {
        let lately = now.since(last_frame) < NAPS_FOR;
        let mut pause = if lately { NAP } else { SLEEP };
        if let Some(deadline) = self.node.deadline() {
            pause = pause.min(deadline.since(now));
        }
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }

    fn publish(&self) {
        let chained = self.inputs.iter().map(|input| input.queue.chained()).sum();
        self.published.publish(
            self.index,
            &Totals {
                node: self.node.counters(),
                further: self.node.further_counters(),
                worker: [self.handed_over, self.handover_full, chained],
                received: &self.received,
                outbox: &self.outbox,
            },
        );
    }
}

/// Hands a frame to the node and does what it says.
#[inline]
fn handle<R: Role>(node: &mut R, outbox: &mut Outbox, now: Instant, port: PortId, frame: Mbuf) {
    let mut frame = MbufFrame(frame);
    if let Verdict::Forward(port) = node.receive(now, port, &mut frame, outbox) {
        outbox.transmit(port, frame);
    }
}

/// Hands a burst to the node and does what it says.
fn handle_burst<R: Role>(
    node: &mut R,
    outbox: &mut Outbox,
    now: Instant,
    port: PortId,
    burst: ArrayVec<Mbuf, BURST>,
) {
    let mut frames: ArrayVec<MbufFrame, BURST> = burst.into_iter().map(MbufFrame).collect();
    let mut verdicts = [Verdict::Consumed; BURST];
    node.receive_burst(now, port, &mut frames, &mut verdicts, outbox);
    for (frame, verdict) in frames.into_iter().zip(verdicts) {
        if let Verdict::Forward(port) = verdict {
            outbox.transmit(port, frame);
        }
    }
}
