//! What a rule does with the packets that it matches. Rules that do the same share one place.

use super::action::{Action, MAX_ACTIONS};
use super::hash::Mixer;
use super::rewrite::Rewrite;
use super::rule::NONE;
use core::hash::{Hash, Hasher};
use heapless::Vec;

/// Chains that instructions are looked for in.
const CHAINS: usize = 256;

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
pub struct SharedInstructions {
    rewrite: Option<Rewrite>,
    instructions: Instructions,
    rules: u32,
    hash: u64,
    next: u32,
}

impl SharedInstructions {
    /// A free place.
    pub const fn vacant() -> Self {
        Self { rewrite: None, instructions: Instructions::NONE, rules: 0, hash: 0, next: NONE }
    }
}

/// Instructions by number, equal ones once.
#[derive(Debug)]
pub(super) struct InstructionStore<'m> {
    places: &'m mut [SharedInstructions],
    chains: [u32; CHAINS],
    free: u32,
}

impl<'m> InstructionStore<'m> {
    pub(super) fn new(places: &'m mut [SharedInstructions]) -> Self {
        let mut free = NONE;
        for (at, place) in places.iter_mut().enumerate().rev() {
            (place.rules, place.next) = (0, free);
            free = at as u32;
        }
        Self { places, chains: [NONE; CHAINS], free }
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
        let chain = self.chains.get_mut(hash as usize % CHAINS)?;
        let mut at = *chain;
        while let Some(place) = self.places.get_mut(at as usize) {
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
            rewrite: Rewrite::of(instructions),
            instructions: instructions.clone(),
            rules: 1,
            hash,
            next: core::mem::replace(chain, at),
        };
        Some(at)
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
        let Some(chain) = self.chains.get_mut(hash as usize % CHAINS) else { return };
        if *chain == at {
            *chain = next;
            return;
        }
        let mut before = *chain;
        while let Some(place) = self.places.get_mut(before as usize) {
            if place.next == at {
                place.next = next;
                return;
            }
            before = place.next;
        }
    }
}
