//! The state of sessions, by the names of section III.C.

use super::generation::{Pool, by_update};
use super::list::{List, Slot};
use super::settings::MAX_SES_MAX_GEN;
use super::window::GenerationWindow;
use crate::node::{Instant, PortId, PortSet};
use crate::wire::Ipv4Addr;
use heapless::index_map::FnvIndexMap;

/// The table of a session's generations must be a power of two and not full.
const GENERATION_TABLE: usize = MAX_SES_MAX_GEN as usize * 2;

/// After how many generations it is settled anew which ports carry a session.
const EPOCH_GENERATIONS: u8 = 64;

/// What tells one session from another.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionKey {
    /// The address of the source.
    pub source: Ipv4Addr,
    /// The multicast group.
    pub group: Ipv4Addr,
    /// SESSION_ID.
    pub session_id: u8,
}

/// The state of one session.
#[derive(Debug)]
pub struct Session {
    /// Nothing while the place is vacant.
    pub(super) key: Option<SessionKey>,
    /// The number of the rule that the session follows.
    pub(super) rule: u8,
    /// SESSION_LEN of the first packet, which holds for the session.
    pub(super) session_len: u16,
    /// `ses_max_gen`: generations that may be buffered, settled when the session begins.
    pub(super) ses_max_gen: u16,
    /// When the newest innovative packet of any generation came; `ses_time_interval` counts from it.
    pub(super) last_updated_time: Instant,
    /// The next GEN_ID of a source.
    pub(super) next_gen_id: u16,
    /// The generation for which a source collects datagrams.
    pub(super) open: Option<Slot>,
    /// The ports that lately carried the session, and those that do since [`EPOCH_GENERATIONS`] began to be counted again.
    carrying: PortSet,
    carrying_now: PortSet,
    epoch: u8,
    generations: FnvIndexMap<u16, Slot, GENERATION_TABLE>,
    /// In the order of `gen_last_updated_time`.
    by_update: List,
    pub(super) window: GenerationWindow,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A vacant place.
    pub const fn new() -> Self {
        Self {
            key: None,
            rule: 0,
            session_len: 0,
            ses_max_gen: 0,
            last_updated_time: Instant::ZERO,
            next_gen_id: 0,
            open: None,
            carrying: PortSet::EMPTY,
            carrying_now: PortSet::EMPTY,
            epoch: 0,
            generations: FnvIndexMap::new(),
            by_update: List::EMPTY,
            window: GenerationWindow::UNKNOWN,
        }
    }

    /// Begins a session in this vacant place.
    pub(super) fn begin(
        &mut self,
        key: SessionKey,
        rule: u8,
        session_len: u16,
        ses_max_gen: u16,
        now: Instant,
    ) {
        self.key = Some(key);
        self.rule = rule;
        self.session_len = session_len;
        self.ses_max_gen = ses_max_gen;
        self.last_updated_time = now;
        self.next_gen_id = 0;
        self.open = None;
        self.carrying = PortSet::EMPTY;
        self.carrying_now = PortSet::EMPTY;
        self.epoch = 0;
        self.generations.clear();
        self.by_update = List::EMPTY;
        self.window = GenerationWindow::UNKNOWN;
    }

    /// `ses_gen_counter`: generations that are buffered.
    pub(super) fn ses_gen_counter(&self) -> u16 {
        self.generations.len() as u16
    }

    /// The place of the generation `gen_id`.
    pub(super) fn find(&self, gen_id: u16) -> Option<Slot> {
        self.generations.get(&gen_id).copied()
    }

    /// Enters the generation `gen_id`, newly put at `slot`.
    pub(super) fn insert(&mut self, pool: &mut Pool<'_>, gen_id: u16, slot: Slot) {
        self.epoch += 1;
        if self.epoch >= EPOCH_GENERATIONS {
            self.epoch = 0;
            self.carrying = core::mem::take(&mut self.carrying_now);
        }
        // The table is twice as large as ses_max_gen may be, so it is never full.
        let _ = self.generations.insert(gen_id, slot);
        self.by_update.push_back(pool.states, slot, by_update);
    }

    /// Notes that an innovative packet came for the generation at `slot`: `gen_last_updated_time`, and `ses_time_interval` back to 0.
    pub(super) fn update(&mut self, pool: &mut Pool<'_>, slot: Slot, now: Instant) {
        self.last_updated_time = now;
        let Some(generation) = pool.get_mut(slot) else { return };
        generation.gen_last_updated_time = now;
        self.by_update.remove(pool.states, slot, by_update);
        self.by_update.push_back(pool.states, slot, by_update);
    }

    /// Notes that `port` carries the session; the ports that lately did.
    pub(super) fn carried_on(&mut self, port: PortId) -> PortSet {
        self.carrying_now = self.carrying_now.with(port);
        self.carrying
    }

    /// Takes the generation at `slot` out of the session; its place is then in no list of the session.
    pub(super) fn remove(&mut self, pool: &mut Pool<'_>, slot: Slot) {
        let Some(generation) = pool.get(slot) else { return };
        let gen_id = generation.header.gen_id();
        self.generations.swap_remove(&gen_id);
        self.by_update.remove(pool.states, slot, by_update);
        if self.open == Some(slot) {
            self.open = None;
        }
    }

    /// The generation to flush when memory is full: the one updated longest ago (section III.C).
    pub(super) fn to_flush(&self) -> Option<Slot> {
        self.by_update.first()
    }

    /// Any generation of the session.
    pub(super) fn any(&self) -> Option<Slot> {
        self.generations.values().next().copied()
    }
}
