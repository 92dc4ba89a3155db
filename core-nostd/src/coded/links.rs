//! What waits to be sent on each link.
//!
//! A generation that has something new for a link waits in the link's queue of *fresh* generations, once,
//! however much comes while it waits. When the link is free the generation at the front sends one
//! combination of all that is held by then. So a link that is slower than its node's inputs sends fewer,
//! fuller packets, and one that keeps up sends one packet for each innovative arrival (section II.B).
//!
//! A relay's generation that has sent fewer packets than it holds may still *owe* some, when several
//! arrived before the link was free. Those go out while no fresh generation waits. A link that has
//! lately had to forgive debts is slower than its node's inputs: there is nothing to be paid, as what it
//! sends is all that it can.
//!
//! With several inputs and a limited rate, a generation is *held back* until each input that carries
//! the session has brought something of it, but not for long: sent before, it would say less, and have
//! to be sent again.

use super::generation::{Generation, Pool};
use super::list::{List, Neighbours, Slot};
use super::pacer::Pacer;
use super::settings::PortSettings;
use crate::node::{Instant, MAX_PORTS, PortId, PortSet};
use crate::wire::MacAddress;
use core::time::Duration;
use heapless::Deque;

/// Generations that a link remembers as owing.
const OWING: usize = 16;

/// A link that had to forgive pays no debts for so many fresh packets.
const NO_PAYING: u8 = 64;

/// How long a generation is held back, at most.
const HOLD: Duration = Duration::from_millis(20);

/// The sending side of one port.
#[derive(Debug)]
pub struct Link {
    /// The port's own Ethernet address.
    pub mac: MacAddress,
    /// Keeps the port's rate.
    pub pacer: Pacer,
    fresh: List,
    owing: Deque<Slot, OWING>,
    /// Fresh packets until debts are paid again.
    no_paying: u8,
}

impl Link {
    /// Forgets what the generation at `slot` owes. (`Deque::retain` would do, but it can panic.)
    fn forgive(&mut self, slot: Slot) {
        for _ in 0..self.owing.len() {
            if let Some(owing) = self.owing.pop_front()
                && owing != slot
            {
                // There is room: one was just taken out.
                let _ = self.owing.push_back(owing);
            }
        }
    }
}

/// The links of a node, by port.
#[derive(Debug)]
pub struct Links {
    links: [Link; MAX_PORTS],
    /// The links on which anything waits.
    pub waiting: PortSet,
    /// Generations that are held back, the longest first.
    held_back: List,
}

fn holding(generation: &mut Generation) -> Option<&mut Neighbours> {
    Some(&mut generation.holding)
}

fn fresh_on(port: PortId) -> impl Fn(&mut Generation) -> Option<&mut Neighbours> {
    move |generation| generation.fresh.get_mut(usize::from(port.0))
}

impl Links {
    /// The links of `ports`; `paced` tells whether their rates count.
    pub fn new(ports: &[PortSettings], paced: bool) -> Self {
        Self {
            links: core::array::from_fn(|index| {
                let port = ports.get(index).copied().unwrap_or_default();
                Link {
                    mac: port.mac,
                    pacer: Pacer::new(port.octets_per_second.filter(|_| paced)),
                    fresh: List::EMPTY,
                    owing: Deque::new(),
                    no_paying: 0,
                }
            }),
            waiting: PortSet::EMPTY,
            held_back: List::EMPTY,
        }
    }

    /// Holds the generation at `slot` back, unless it is already.
    pub fn hold_back(&mut self, now: Instant, pool: &mut Pool<'_>, slot: Slot) {
        if let Some(generation) = pool.get_mut(slot)
            && generation.held_back.is_none()
        {
            generation.held_back = Some(now.after(HOLD));
            self.held_back.push_back(pool.states, slot, holding);
        }
    }

    /// Holds the generation at `slot` back no longer.
    pub fn let_go(&mut self, pool: &mut Pool<'_>, slot: Slot) {
        if pool.get_mut(slot).and_then(|generation| generation.held_back.take()).is_some() {
            self.held_back.remove(pool.states, slot, holding);
        }
    }

    /// The generation that has been held back longest, and until when.
    pub fn longest_held(&self, pool: &Pool<'_>) -> Option<(Slot, Instant)> {
        let slot = self.held_back.first()?;
        Some((slot, pool.get(slot)?.held_back?))
    }

    /// Whether any of `ports` has a limited rate.
    pub fn any_limited(&self, ports: PortSet) -> bool {
        ports.iter().any(|port| self.get(port).is_some_and(|link| link.pacer.is_limited()))
    }

    /// The link of `port`.
    pub fn get(&self, port: PortId) -> Option<&Link> {
        self.links.get(usize::from(port.0))
    }

    /// The link of `port`, to change.
    pub fn get_mut(&mut self, port: PortId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(port.0))
    }

    /// Queues the generation at `slot` on each of `ports` where it does not wait yet.
    pub fn queue(&mut self, pool: &mut Pool<'_>, slot: Slot, ports: PortSet) {
        for port in ports.iter() {
            let Some(generation) = pool.get_mut(slot) else { return };
            if generation.fresh_on.contains(port) {
                continue;
            }
            generation.fresh_on = generation.fresh_on.with(port);
            let owed = generation.owing_on.contains(port);
            generation.owing_on = generation.owing_on.without(port);
            if let Some(link) = self.links.get_mut(usize::from(port.0)) {
                if owed {
                    link.forgive(slot);
                }
                link.fresh.push_back(pool.states, slot, fresh_on(port));
                self.waiting = self.waiting.with(port);
            }
        }
    }

    /// Remembers that the generation at `slot` owes packets on `port`.
    pub fn owe(&mut self, pool: &mut Pool<'_>, slot: Slot, port: PortId) {
        let Some(link) = self.links.get_mut(usize::from(port.0)) else { return };
        let Some(generation) = pool.get_mut(slot) else { return };
        generation.owing_on = generation.owing_on.with(port);
        if link.owing.is_full() {
            link.no_paying = NO_PAYING;
        }
        if link.owing.is_full()
            && let Some(forgiven) = link.owing.pop_front()
            && let Some(generation) = pool.get_mut(forgiven)
        {
            generation.owing_on = generation.owing_on.without(port);
        }
        // There is room now.
        let _ = link.owing.push_back(slot);
        self.waiting = self.waiting.with(port);
    }

    /// Takes the next generation to send on `port` out of its queue.
    pub fn next(&mut self, pool: &mut Pool<'_>, port: PortId) -> Option<Slot> {
        let link = self.links.get_mut(usize::from(port.0))?;
        if let Some(slot) = link.fresh.first() {
            link.fresh.remove(pool.states, slot, fresh_on(port));
            link.no_paying = link.no_paying.saturating_sub(1);
            if let Some(generation) = pool.get_mut(slot) {
                generation.fresh_on = generation.fresh_on.without(port);
            }
            return Some(slot);
        }
        if link.no_paying == 0
            && let Some(slot) = link.owing.pop_front()
        {
            if let Some(generation) = pool.get_mut(slot) {
                generation.owing_on = generation.owing_on.without(port);
            }
            return Some(slot);
        }
        self.waiting = self.waiting.without(port);
        None
    }

    /// Forgets the generation at `slot`; tells whether a link still had something new to send from it.
    pub fn forget(&mut self, pool: &mut Pool<'_>, slot: Slot) -> bool {
        self.let_go(pool, slot);
        let Some(generation) = pool.get_mut(slot) else { return false };
        let fresh = core::mem::take(&mut generation.fresh_on);
        let owing = core::mem::take(&mut generation.owing_on);
        for port in fresh.iter() {
            if let Some(link) = self.links.get_mut(usize::from(port.0)) {
                link.fresh.remove(pool.states, slot, fresh_on(port));
            }
        }
        for port in owing.iter() {
            if let Some(link) = self.links.get_mut(usize::from(port.0)) {
                link.forgive(slot);
            }
        }
        !fresh.is_empty()
    }
}
