//! What one worker sends: a batch for each port, given to the port's queue at the end of a round.

use arrayvec::ArrayVec;
use dpdk::{Buffer, Mbuf, Mempool, SharedMbuf, TxQueue};
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

/// The sending side of one port, as one worker has it.
#[derive(Debug)]
pub struct PortOutbox {
    queue: TxQueue,
    owned: ArrayVec<Mbuf, BATCH>,
    shared: ArrayVec<SharedMbuf, BATCH>,
    /// Whether the driver copies what it sends, so that ports can share a buffer.
    takes_shared: bool,
    sent: Sent,
}

impl PortOutbox {
    /// An empty outbox for `queue`. `takes_shared` says whether a buffer may be sent on several ports.
    pub fn new(queue: TxQueue, takes_shared: bool) -> Self {
        Self {
            queue,
            owned: ArrayVec::new(),
            shared: ArrayVec::new(),
            takes_shared,
            sent: Sent::default(),
        }
    }

    fn flush(&mut self) {
        if !self.owned.is_empty() {
            send(&mut self.queue, &mut self.owned, &mut self.sent);
        }
        if !self.shared.is_empty() {
            send(&mut self.queue, &mut self.shared, &mut self.sent);
        }
    }
}

/// Puts `frame` into `batch`, which is sent first when it is full.
fn push<T: Buffer>(queue: &mut TxQueue, batch: &mut ArrayVec<T, BATCH>, sent: &mut Sent, frame: T) {
    if batch.is_full() {
        send(queue, batch, sent);
    }
    if batch.try_push(frame).is_err() {
        sent.dropped += 1;
    }
}

/// Sends what the queue takes of `batch`; the rest stays for the next time.
fn send<T: Buffer>(queue: &mut TxQueue, batch: &mut ArrayVec<T, BATCH>, sent: &mut Sent) {
    let lengths: ArrayVec<usize, BATCH> = batch.iter().map(|frame| frame.bytes().len()).collect();
    let taken = queue.send(batch);
    sent.frames += taken as u64;
    sent.octets += lengths.iter().take(taken).sum::<usize>() as u64;
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

    /// Gives every port what waits for it.
    pub fn flush(&mut self) {
        self.ports.iter_mut().for_each(PortOutbox::flush);
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
            push(&mut port.queue, &mut port.owned, &mut port.sent, frame.0);
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
                push(&mut port.queue, &mut port.shared, &mut port.sent, frame.clone());
                continue;
            }
            let copy = self.pool.allocate().and_then(|mut copy| {
                copy.append(frame.bytes().len()).ok()?.copy_from_slice(frame.bytes());
                Some(copy)
            });
            match copy {
                Some(copy) => push(&mut port.queue, &mut port.owned, &mut port.sent, copy),
                None => port.sent.dropped += 1,
            }
        }
    }
}
