//! What a rule does with the packets that it matches. Rules that do the same share one place.

use super::action::{Action, MAX_ACTIONS};
use super::hash::Mixer;
use super::rewrite::Rewrite;
use super::rule::NONE;
use super::steps;
use core::hash::{Hash, Hasher};
use heapless::Vec;

/// The instructions of a rule (OpenFlow 1.3, 5.9), carried out in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instructions {
    /// Done at once, in order.
    pub apply: Vec<Action, MAX_ACTIONS>,
    /// Whether the action set is emptied.
    pub clear: bool,
    /// Put into the action set.
    pub write: Vec<Action, MAX_ACTIONS>,
    /// Bits of the metadata that are written: value and mask.
    pub metadata: (u64, u64),
    /// The table that follows, which has a higher number.
    pub goto_table: Option<u8>,
}

impl Instructions {
    /// Nothing: packets are dropped.
    pub const NONE: Self = Self {
        apply: Vec::new(),
        clear: false,
        write: Vec::new(),
        metadata: (0, 0),
        goto_table: None,
    };

    /// Does these actions and ends, or nothing when there are too many of them.
    pub fn applying(actions: &[Action]) -> Option<Self> {
        let apply = actions.try_into().ok()?;
        Some(Self { apply, ..Self::default() })
    }
}

/// A place for instructions, on memory of the caller.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct SharedInstructions {
    /// The first of the instructions whose hash leads to this place, wherever they are.
    head: u32,
    /// The next of those that these are among, or the next free place.
    next: u32,
    rules: u32,
    hash: u64,
    /// What packets meet first, in the same cache line.
    rewrite: Option<Rewrite>,
    instructions: Instructions,
}

impl SharedInstructions {
    /// A free place.
    pub const fn vacant() -> Self {
        Self {
            head: NONE,
            next: NONE,
            rules: 0,
            hash: 0,
            rewrite: None,
            instructions: Instructions::NONE,
        }
    }
}

/// Instructions by number, equal ones once.
#[derive(Debug)]
pub(super) struct InstructionStore<'m> {
    places: &'m mut [SharedInstructions],
    free: u32,
}

impl<'m> InstructionStore<'m> {
    pub(super) fn new(places: &'m mut [SharedInstructions]) -> Self {
        let mut free = NONE;
        for (at, place) in places.iter_mut().enumerate().rev() {
            (place.head, place.rules, place.next) = (NONE, 0, free);
            free = at as u32;
        }
        Self { places, free }
    }

    pub(super) fn get(&self, at: u32) -> Option<&Instructions> {
        self.places.get(at as usize).map(|place| &place.instructions)
    }

    /// The instructions as a rewrite, when they are no more.
    #[inline]
    pub(super) fn rewrite(&self, at: u32) -> Option<&Rewrite> {
        self.places.get(at as usize)?.rewrite.as_ref()
    }

    /// The number of these instructions, for one more rule; nothing when no place is left.
    pub(super) fn take(&mut self, instructions: &Instructions) -> Option<u32> {
        let mut hasher = Mixer(0x9E37_79B9_7F4A_7C15);
        instructions.hash(&mut hasher);
        let hash = hasher.finish();
        let home = self.home(hash);
        let first = self.places.get(home)?.head;
        let mut at = first;
        while let Some(place) = self.places.get_mut(at as usize) {
            steps::count();
            if place.hash == hash && place.instructions == *instructions {
                place.rules += 1;
                return Some(at);
            }
            at = place.next;
        }
        let at = self.free;
        let place = self.places.get_mut(at as usize)?;
        self.free = place.next;
        *place = SharedInstructions {
            head: place.head,
            next: first,
            rules: 1,
            hash,
            rewrite: Rewrite::of(instructions),
            instructions: instructions.clone(),
        };
        self.places.get_mut(home)?.head = at;
        Some(at)
    }

    /// The place that has the head of the chain for this hash.
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.places.len() as u128) >> 64) as usize
    }

    /// One rule fewer has these instructions.
    pub(super) fn release(&mut self, at: u32) {
        let Some(place) = self.places.get_mut(at as usize) else { return };
        place.rules = place.rules.saturating_sub(1);
        if place.rules > 0 {
            return;
        }
        let (hash, next) = (place.hash, place.next);
        place.next = self.free;
        self.free = at;
        let home = self.home(hash);
        let Some(chain) = self.places.get_mut(home) else { return };
        if chain.head == at {
            chain.head = next;
            return;
        }
        let mut before = chain.head;
        while let Some(place) = self.places.get_mut(before as usize) {
            steps::count();
            if place.next == at {
                place.next = next;
                return;
            }
            before = place.next;
        }
    }
}
