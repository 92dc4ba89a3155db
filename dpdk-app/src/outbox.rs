//! What one worker sends: a batch for each port, given to the port's queue at the end of a round.
//!
//! A port with fewer transmit queues than there are workers is shared: a worker without a queue there gives
//! its frames through a ring to one that has a queue.

use arrayvec::ArrayVec;
use dpdk::{Mempool, MultiProducer, RingReceiver, RingSender, SharedMbuf, TxQueue};
use heddle_core::node::{Engine, PortId, PortSet};

use crate::frame::MbufFrame;

/// Frames that wait for one port at a time. A queue that is full for a round or two costs nothing; for longer, frames.
const BATCH: usize = 64;

/// What one worker has sent on one port.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that the port took.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
    /// Frames that found no room.
    pub dropped: u64,
}

/// How a worker's frames get to a port.
#[derive(Debug)]
pub enum Way {
    /// By a queue of the worker's own; frames of workers without one come out of the ring.
    Queue(TxQueue, Option<RingReceiver<SharedMbuf>>),
    /// By the ring to a worker that has a queue.
    Ring(RingSender<SharedMbuf, MultiProducer>),
}

/// The sending side of one port, as one worker has it.
#[derive(Debug)]
pub struct PortOutbox {
    way: Way,
    batch: ArrayVec<SharedMbuf, BATCH>,
    /// Whether the port's driver reads what it sends, so that ports can share a buffer.
    takes_shared: bool,
    sent: Sent,
}

impl PortOutbox {
    /// An empty outbox. `takes_shared` says whether a buffer may be sent on several ports.
    pub fn new(way: Way, takes_shared: bool) -> Self {
        Self { way, batch: ArrayVec::new(), takes_shared, sent: Sent::default() }
    }

    /// Puts a frame into the batch, which is sent first when it is full.
    fn push(&mut self, frame: SharedMbuf) {
        if self.batch.is_full() {
            self.send();
        }
        if self.batch.try_push(frame).is_err() {
            self.sent.dropped += 1;
        }
    }

    /// Sends the batch; what is not taken stays for the next time.
    fn send(&mut self) {
        match &mut self.way {
            Way::Queue(queue, _) => {
                // The driver may free what it takes, so octets are counted by what remains.
                let octets = octets(&self.batch);
                let taken = queue.send(&mut self.batch);
                self.sent.frames += taken as u64;
                self.sent.octets += octets - octets_left(&self.batch);
            }
            // The worker at the other end counts them when the port has taken them.
            Way::Ring(ring) => {
                ring.send(&mut self.batch);
            }
        }
    }

    /// Sends what waits, and what other workers gave for the port. The number of the latter.
    fn flush(&mut self) -> usize {
        let relayed = match &mut self.way {
            Way::Queue(_, Some(ring)) => ring.receive(&mut self.batch),
            _ => 0,
        };
        if !self.batch.is_empty() {
            self.send();
        }
        relayed
    }
}

fn octets(frames: &[SharedMbuf]) -> u64 {
    frames.iter().map(|frame| frame.bytes().len() as u64).sum()
}

/// As [`octets`], for a batch that is as a rule empty.
fn octets_left(frames: &[SharedMbuf]) -> u64 {
    if frames.is_empty() { 0 } else { octets(frames) }
}

/// The outboxes of one worker, and where it gets new frames from.
#[derive(Debug)]
pub struct Outbox {
    ports: Vec<PortOutbox>,
    pool: Mempool,
}

impl Outbox {
    /// The outboxes by port number; new frames come from `pool`.
    pub fn new(ports: Vec<PortOutbox>, pool: Mempool) -> Self {
        Self { ports, pool }
    }

    /// Gives every port what waits for it. The number of frames that other workers gave.
    pub fn flush(&mut self) -> usize {
        self.ports.iter_mut().map(PortOutbox::flush).sum()
    }

    /// Sends what waits for the last time, and counts as dropped what is not taken.
    pub fn finish(&mut self) {
        self.flush();
        for port in &mut self.ports {
            port.sent.dropped += port.batch.drain(..).count() as u64;
        }
    }

    /// What was sent on each port.
    pub fn sent(&self) -> impl Iterator<Item = Sent> {
        self.ports.iter().map(|port| port.sent)
    }
}

impl Engine for Outbox {
    type Frame = MbufFrame;

    #[inline]
    fn allocate(&mut self) -> Option<MbufFrame> {
        self.pool.allocate().map(MbufFrame)
    }

    #[inline]
    fn transmit(&mut self, port: PortId, frame: MbufFrame) {
        if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
            port.push(frame.0.share());
        }
    }

    fn replicate(&mut self, ports: PortSet, frame: MbufFrame) {
        if ports.len() < 2 {
            if let Some(port) = ports.iter().next() {
                self.transmit(port, frame);
            }
            return;
        }
        let frame = frame.0.share();
        for port in ports.iter() {
            let Some(port) = self.ports.get_mut(usize::from(port.0)) else { continue };
            if port.takes_shared {
                port.push(frame.clone());
                continue;
            }
            let copy = self.pool.allocate().and_then(|mut copy| {
                copy.append(frame.bytes().len()).ok()?.copy_from_slice(frame.bytes());
                Some(copy.share())
            });
            match copy {
                Some(copy) => port.push(copy),
                None => port.sent.dropped += 1,
            }
        }
    }
}
