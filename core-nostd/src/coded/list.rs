//! Doubly linked lists threaded through the generations, so that taking one out of the middle costs nothing.

use super::generation::Generation;

/// The number of a generation's place in memory.
pub type Slot = u16;

/// No place: the end of a list.
pub const NO_SLOT: Slot = Slot::MAX;

/// A generation's neighbours in one list.
#[derive(Copy, Clone, Debug)]
pub struct Neighbours {
    before: Slot,
    after: Slot,
}

impl Neighbours {
    /// In no list.
    pub const NONE: Self = Self { before: NO_SLOT, after: NO_SLOT };
}

/// One list: its ends and its length. A list is told by each call where in a generation its neighbours are.
#[derive(Copy, Clone, Debug)]
pub struct List {
    first: Slot,
    last: Slot,
    len: u16,
}

impl List {
    /// A list with nothing in it.
    pub const EMPTY: Self = Self { first: NO_SLOT, last: NO_SLOT, len: 0 };

    /// The generation at the front.
    pub fn first(&self) -> Option<Slot> {
        (self.first != NO_SLOT).then_some(self.first)
    }

    /// The number of generations in the list.
    pub fn len(&self) -> u16 {
        self.len
    }

    /// Puts `slot`, which is in no list of this kind, at the end.
    pub fn push_back(
        &mut self,
        states: &mut [Generation],
        slot: Slot,
        place: impl Fn(&mut Generation) -> Option<&mut Neighbours>,
    ) {
        let Some(own) = neighbours(states, slot, &place) else { return };
        *own = Neighbours { before: self.last, after: NO_SLOT };
        match neighbours(states, self.last, &place) {
            Some(last) => last.after = slot,
            None => self.first = slot,
        }
        self.last = slot;
        self.len = self.len.saturating_add(1);
    }

    /// Takes `slot`, which is in this list, out of it.
    pub fn remove(
        &mut self,
        states: &mut [Generation],
        slot: Slot,
        place: impl Fn(&mut Generation) -> Option<&mut Neighbours>,
    ) {
        let Some(own) = neighbours(states, slot, &place) else { return };
        let Neighbours { before, after } = core::mem::replace(own, Neighbours::NONE);
        match neighbours(states, before, &place) {
            Some(neighbour) => neighbour.after = after,
            None => self.first = after,
        }
        match neighbours(states, after, &place) {
            Some(neighbour) => neighbour.before = before,
            None => self.last = before,
        }
        self.len = self.len.saturating_sub(1);
    }
}

fn neighbours<'a>(
    states: &'a mut [Generation],
    slot: Slot,
    place: &impl Fn(&mut Generation) -> Option<&mut Neighbours>,
) -> Option<&'a mut Neighbours> {
    place(states.get_mut(usize::from(slot))?)
}
