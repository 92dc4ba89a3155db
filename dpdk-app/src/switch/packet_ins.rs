//! Frames for the controllers on their way from a worker to the control thread: the worker copies octets into a ring and
//! allocates nothing.

use heddle_core::flow::{PacketIn, PacketIns};
use heddle_host::config::Switch;
use rtrb::{Consumer, Producer, RingBuffer};

/// A worker's end.
#[derive(Debug)]
pub struct PacketInSender {
    entries: Producer<PacketIn>,
    octets: Producer<u8>,
    /// Octets of each frame, at most.
    most: usize,
}

/// The control thread's end for one worker.
#[derive(Debug)]
pub struct PacketInReceiver {
    entries: Consumer<PacketIn>,
    octets: Consumer<u8>,
}

/// The two ends for one worker, with room for as many frames as `switch` says.
pub fn packet_ins(switch: &Switch) -> (PacketInSender, PacketInReceiver) {
    let (queue, most) = (switch.packet_in_queue as usize, usize::from(switch.packet_in_octets));
    let (entries, entries_out) = RingBuffer::new(queue);
    let (octets, octets_out) = RingBuffer::new(queue * most);
    let receiver = PacketInReceiver { entries: entries_out, octets: octets_out };
    (PacketInSender { entries, octets, most }, receiver)
}

impl PacketInSender {
    /// Moves what waits in the switch, as far as there is room: what finds none waits on, and the switch counts what finds no
    /// room with it. The number of frames.
    #[inline]
    pub fn send(&mut self, waiting: &mut PacketIns<'_>) -> u64 {
        let mut count = 0;
        while !waiting.is_empty() && !self.entries.is_full() && self.octets.slots() >= self.most {
            waiting.pop(|entry, octets| {
                // There is room for both; the octets first, as the other end begins with the entry.
                if self.octets.push_entire_slice(octets).is_ok() {
                    let _ = self.entries.push(*entry);
                }
            });
            count += 1;
        }
        count
    }
}

impl PacketInReceiver {
    /// The frame that has waited longest; its octets replace those in `octets`.
    pub fn take(&mut self, octets: &mut Vec<u8>) -> Option<PacketIn> {
        let entry = self.entries.pop().ok()?;
        octets.clear();
        octets.resize(entry.kept_octets as usize, 0);
        self.octets.pop_entire_slice(octets).ok()?;
        Some(entry)
    }
}
