//! Who announces what: for each prefix the islands that serve it, each at a cost and until a moment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use heddle_core::ndn::Name;
use heddle_core::node::Instant;

use super::name::{Prefix, prefixes_of};

/// The place of an island in the configuration.
pub type IslandIndex = usize;

/// An island's way to a prefix.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Lower is better.
    pub cost: u64,
    /// When it ends unless it is announced again; nothing for one that stays.
    pub until: Option<Instant>,
}

/// All routes of all islands.
#[derive(Debug, Default)]
pub struct Rib {
    prefixes: HashMap<Prefix, BTreeMap<IslandIndex, Route>>,
    /// The number of prefixes of each island.
    counts: HashMap<IslandIndex, usize>,
    /// When to look at which route: no later than it ends.
    ends: BinaryHeap<Reverse<(Instant, IslandIndex, Prefix)>>,
}

/// What an announcement has changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A route was added or has another cost.
    Changed,
    /// Only its time was renewed.
    Renewed,
    /// The island has as many prefixes as it may have.
    Full,
}

impl Rib {
    /// Adds or renews an island's route; an island may have up to `limit` of them.
    pub fn announce(
        &mut self,
        island: IslandIndex,
        prefix: &Prefix,
        route: Route,
        limit: usize,
    ) -> Change {
        if let Some(old) = self.prefixes.get_mut(prefix).and_then(|all| all.get_mut(&island)) {
            let is_same = old.cost == route.cost;
            // A route of the configuration does not end because somebody announces it, too.
            *old = Route { until: old.until.and(route.until), ..route };
            return if is_same { Change::Renewed } else { Change::Changed };
        }
        let count = self.counts.entry(island).or_default();
        if *count >= limit {
            return Change::Full;
        }
        *count += 1;
        if let Some(until) = route.until {
            self.ends.push(Reverse((until, island, prefix.clone())));
        }
        self.prefixes.entry(prefix.clone()).or_default().insert(island, route);
        Change::Changed
    }

    /// Removes an island's route; false when there is none.
    pub fn withdraw(&mut self, island: IslandIndex, prefix: &Prefix) -> bool {
        let Some(routes) = self.prefixes.get_mut(prefix) else { return false };
        if routes.remove(&island).is_none() {
            return false;
        }
        if routes.is_empty() {
            self.prefixes.remove(prefix);
        }
        if let Some(count) = self.counts.get_mut(&island) {
            *count -= 1;
        }
        true
    }

    /// Removes every route whose time is over; their prefixes.
    pub fn expire(&mut self, now: Instant) -> Vec<Prefix> {
        let mut expired = Vec::new();
        while let Some(Reverse((until, ..))) = self.ends.peek()
            && *until <= now
        {
            let Some(Reverse((_, island, prefix))) = self.ends.pop() else { break };
            let route = self.prefixes.get(&prefix).and_then(|routes| routes.get(&island));
            match route.and_then(|route| route.until) {
                // It has been renewed since.
                Some(until) if until > now => self.ends.push(Reverse((until, island, prefix))),
                Some(_) => {
                    self.withdraw(island, &prefix);
                    expired.push(prefix);
                }
                None => {}
            }
        }
        expired
    }

    /// When [`Rib::expire`] is to be called, at the latest.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.peek().map(|Reverse((until, ..))| *until)
    }

    /// The islands that announce exactly this prefix.
    pub fn routes(&self, prefix: &Prefix) -> impl Iterator<Item = (IslandIndex, Route)> {
        self.prefixes.get(prefix).into_iter().flatten().map(|(island, route)| (*island, *route))
    }

    /// The longest prefix of `name` that somebody for whom `serves` is true announces.
    pub fn longest(
        &self,
        name: Name<'_>,
        mut serves: impl FnMut(IslandIndex) -> bool,
    ) -> Option<Prefix> {
        prefixes_of(name).find_map(|octets| {
            let prefix = Prefix::new(octets).ok()?;
            let routes = self.prefixes.get(&prefix)?;
            routes.keys().any(|island| serves(*island)).then_some(prefix)
        })
    }

    /// Every prefix with its routes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Prefix, &BTreeMap<IslandIndex, Route>)> {
        self.prefixes.iter()
    }

    /// The prefixes of an island, in no order.
    pub fn of_island(&self, island: IslandIndex) -> Vec<Prefix> {
        let has =
            |(_, routes): &(&Prefix, &BTreeMap<IslandIndex, Route>)| routes.contains_key(&island);
        self.prefixes.iter().filter(has).map(|(prefix, _)| prefix.clone()).collect()
    }

    /// The number of prefixes.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }
}
