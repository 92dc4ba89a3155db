//! Which flow is due next: a binary heap of slots whose keys and places stand in the flows.

use crate::node::Instant;

/// What the heap keeps with every flow.
#[derive(Copy, Clone, Debug)]
#[repr(C, packed(4))]
pub(in crate::dtp) struct Timer {
    /// When the flow is due; the end of time for never.
    pub due: Instant,
    /// The flow's place in the heap.
    place: u32,
}

/// Never.
pub(in crate::dtp) const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Timer {
    /// A timer of a flow that is not in the heap.
    pub const fn new() -> Self {
        Self { due: NEVER, place: u32::MAX }
    }
}

/// Gives the timer of a slot.
pub(in crate::dtp) trait TimerOf {
    /// The timer of that slot.
    fn timer(&mut self, slot: u32) -> Option<&mut Timer>;
}

/// The heap.
#[derive(Debug)]
pub(in crate::dtp) struct Timers<'m> {
    heap: &'m mut [u32],
    length: usize,
}

impl<'m> Timers<'m> {
    /// An empty heap with room for as many flows as `heap` has places.
    pub const fn new(heap: &'m mut [u32]) -> Self {
        Self { heap, length: 0 }
    }

    fn due(&self, flows: &mut impl TimerOf, place: usize) -> Option<Instant> {
        let slot = *self.heap.get(..self.length)?.get(place)?;
        flows.timer(slot).map(|timer| timer.due)
    }

    fn put(&mut self, flows: &mut impl TimerOf, place: usize, slot: u32) {
        if let Some(entry) = self.heap.get_mut(place) {
            *entry = slot;
        }
        if let Some(timer) = flows.timer(slot) {
            timer.place = place as u32;
        }
    }

    fn swap(&mut self, flows: &mut impl TimerOf, a: usize, b: usize) {
        if let (Some(&first), Some(&second)) = (self.heap.get(a), self.heap.get(b)) {
            self.put(flows, a, second);
            self.put(flows, b, first);
        }
    }

    fn settle(&mut self, flows: &mut impl TimerOf, mut place: usize) {
        while let Some(parent) = place.checked_sub(1).map(|below| below / 2) {
            if self.due(flows, parent) <= self.due(flows, place) {
                break;
            }
            self.swap(flows, parent, place);
            place = parent;
        }
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.length && self.due(flows, child) < self.due(flows, least) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(flows, least, place);
            place = least;
        }
    }

    /// Sets when a flow is due.
    pub fn set(&mut self, flows: &mut impl TimerOf, slot: u32, due: Instant) {
        let Some(timer) = flows.timer(slot) else { return };
        let mut place = timer.place as usize;
        let before = timer.due;
        if before == due && place < self.length {
            return;
        }
        timer.due = due;
        if place >= self.length {
            if due == NEVER || self.length >= self.heap.len() {
                return;
            }
            place = self.length;
            self.length += 1;
            self.put(flows, place, slot);
        } else if due == NEVER {
            let last = self.length - 1;
            self.swap(flows, place, last);
            self.length = last;
            if let Some(timer) = flows.timer(slot) {
                timer.place = u32::MAX;
            }
            if place >= last {
                return;
            }
        }
        self.settle(flows, place);
    }

    /// The flow that is due first, and when.
    pub fn first(&self, flows: &mut impl TimerOf) -> Option<(u32, Instant)> {
        let due = self.due(flows, 0)?;
        self.heap.first().map(|&slot| (slot, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl TimerOf for Vec<Timer> {
        fn timer(&mut self, slot: u32) -> Option<&mut Timer> {
            self.get_mut(slot as usize)
        }
    }

    proptest! {
        #[test]
        fn the_first_is_the_first(steps in proptest::collection::vec((0u32..20, 0u64..50), 1..200)) {
            let mut flows = vec![Timer::new(); 20];
            let mut memory = [0; 20];
            let mut timers = Timers::new(&mut memory);
            for (slot, at) in steps {
                let due = if at == 0 { NEVER } else { Instant::from_nanos(at) };
                timers.set(&mut flows, slot, due);
                let least = flows.iter().map(|timer| timer.due).min().unwrap();
                prop_assert_eq!(timers.first(&mut flows).map(|(_, due)| due), (least != NEVER).then_some(least));
            }
        }
    }
}
