//! Counters of rules: each worker counts in its own tables, and copies the counters to where the control thread can read them
//! when that asks for it, some at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use heddle_core::flow::{FlowTable, RuleId};
use heddle_core::node::Instant;

use super::orders::Wait;

/// Places of rules that a worker copies between two bursts.
const PLACES_A_ROUND: u32 = 128;

/// How long the control thread waits for a reading at most: then it takes older counters.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counters of one rule at one worker.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// When the last one came, by the workers' clock.
    pub used: Instant,
}

/// The counters of one worker, which only that worker writes.
#[derive(Debug)]
struct Shared {
    /// The number of the reading that is asked for, and how many places it covers.
    wanted: AtomicU64,
    places_wanted: AtomicU32,
    /// The number of the last one that is complete.
    complete: AtomicU64,
    places: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    generation: AtomicU32,
    packets: AtomicU64,
    octets: AtomicU64,
    used: AtomicU64,
}

/// The control thread's end for one worker.
#[derive(Debug)]
pub struct CounterReader {
    shared: Arc<Shared>,
}

/// A worker's end.
#[derive(Debug)]
pub struct CounterWriter {
    shared: Arc<Shared>,
    reading: u64,
    cursor: Option<u32>,
}

/// The two ends for the counters of a worker with so many places for rules.
pub fn counters(places: u32) -> (CounterReader, CounterWriter) {
    let shared = Arc::new(Shared {
        wanted: AtomicU64::new(0),
        places_wanted: AtomicU32::new(0),
        complete: AtomicU64::new(0),
        places: (0..places).map(|_| Place::default()).collect(),
    });
    let reader = CounterReader { shared: Arc::clone(&shared) };
    (reader, CounterWriter { shared, reading: 0, cursor: None })
}

impl CounterReader {
    /// Asks for a new reading of the first `places` places.
    pub fn ask(&self, places: u32) {
        self.shared.places_wanted.store(places, Ordering::Relaxed);
        // Release: a worker that sees the new number sees its extent too.
        self.shared.wanted.fetch_add(1, Ordering::Release);
    }

    /// Waits until the reading is complete, the worker has ended, or `stop` is set, but not for ever.
    pub fn wait(&self, stop: &AtomicBool) {
        let wanted = self.shared.wanted.load(Ordering::Relaxed);
        let mut wait = Wait::default();
        let give_up = std::time::Instant::now() + PATIENCE;
        // Acquire: the counters of the reading are seen by who sees its number.
        while self.shared.complete.load(Ordering::Acquire) != wanted {
            // The worker's end is the only other holder.
            let is_alone = Arc::strong_count(&self.shared) == 1;
            if is_alone || stop.load(Ordering::Relaxed) || std::time::Instant::now() > give_up {
                return;
            }
            wait.pause();
        }
    }

    /// What the worker has counted for a rule, as of the last reading; nothing when it did not have the rule then.
    pub fn get(&self, id: RuleId) -> Option<Counted> {
        let place = self.shared.places.get(id.place() as usize)?;
        // Generations count from 0 and places are empty at first, so what is stored is one more.
        let generation = place.generation.load(Ordering::Acquire);
        (generation == id.generation().wrapping_add(1)).then(|| Counted {
            packets: place.packets.load(Ordering::Relaxed),
            octets: place.octets.load(Ordering::Relaxed),
            used: Instant::from_nanos(place.used.load(Ordering::Relaxed)),
        })
    }
}

impl CounterWriter {
    /// Copies some more of what is asked for. Whether anything was.
    #[inline]
    pub fn step(&mut self, tables: &FlowTable<'_>) -> bool {
        if self.cursor.is_none() {
            let wanted = self.shared.wanted.load(Ordering::Acquire);
            if wanted == self.reading {
                return false;
            }
            (self.reading, self.cursor) = (wanted, Some(0));
        }
        self.copy(tables);
        true
    }

    fn copy(&mut self, tables: &FlowTable<'_>) {
        let Some(cursor) = self.cursor else { return };
        let shared = &self.shared;
        let next = tables.scan(cursor, PLACES_A_ROUND, |id, rule| {
            let Some(place) = shared.places.get(id.place() as usize) else { return };
            place.packets.store(rule.packets(), Ordering::Relaxed);
            place.octets.store(rule.octets(), Ordering::Relaxed);
            place.used.store(rule.used().as_nanos(), Ordering::Relaxed);
            // Release: who sees the generation sees counters of it, or later ones.
            place.generation.store(id.generation().wrapping_add(1), Ordering::Release);
        });
        let wanted = shared.places_wanted.load(Ordering::Relaxed);
        self.cursor = next.filter(|next| *next < wanted);
        if self.cursor.is_none() {
            // Release: see `wait`.
            shared.complete.store(self.reading, Ordering::Release);
        }
    }
}
