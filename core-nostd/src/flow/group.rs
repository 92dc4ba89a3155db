//! Groups: a frame goes to all of several buckets, to one of them, or to the first that is alive.

use super::action::{Action, MAX_ACTIONS};
use super::hash::mix;
use crate::node::{PortId, PortSet};
use heapless::Vec;

/// Buckets in a group, at most.
pub const MAX_BUCKETS: usize = 16;

/// What becomes of a frame that a group gets (OpenFlow 1.3, 5.6.1).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Every bucket gets a copy.
    All,
    /// One bucket gets it, by a hash of its fields and the buckets' weights.
    Select,
    /// The only bucket gets it.
    Indirect,
    /// The first bucket that is alive gets it.
    FastFailover,
}

/// A list of actions for a copy of the frame.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    /// Its share of a [`GroupKind::Select`] group.
    pub weight: u16,
    /// The port that keeps it alive, if it depends on one.
    pub watch_port: Option<PortId>,
    /// What is done.
    pub actions: Vec<Action, MAX_ACTIONS>,
}

/// A group and its number; on memory of the caller.
#[derive(Clone, Debug)]
pub struct Group {
    id: u32,
    kind: GroupKind,
    buckets: Vec<Bucket, MAX_BUCKETS>,
    is_used: bool,
}

impl Group {
    /// A free place.
    pub const fn vacant() -> Self {
        Self { id: 0, kind: GroupKind::All, buckets: Vec::new(), is_used: false }
    }

    pub(super) const fn kind(&self) -> GroupKind {
        self.kind
    }

    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The one bucket that a frame with this hash goes to, for groups that are not [`GroupKind::All`].
    pub(super) fn choose(&self, hash: u64, ports_up: PortSet) -> Option<usize> {
        let is_alive =
            |bucket: &Bucket| bucket.watch_port.is_none_or(|port| ports_up.contains(port));
        if self.kind != GroupKind::Select {
            return self.buckets.iter().position(is_alive);
        }
        let weight = |bucket: &Bucket| {
            if is_alive(bucket) { u64::from(bucket.weight.max(1)) } else { 0 }
        };
        let total: u64 = self.buckets.iter().map(weight).sum();
        let mut point = ((u128::from(hash) * u128::from(total)) >> 64) as u64;
        self.buckets.iter().position(|bucket| {
            let weight = weight(bucket);
            let is_here = point < weight;
            point = point.saturating_sub(weight);
            is_here && weight > 0
        })
    }
}

/// Why a group is not taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The number is in use.
    Exists,
    /// No group has the number.
    Unknown,
    /// No place for a further group.
    Full,
    /// More than [`MAX_BUCKETS`], or not exactly one in an indirect group.
    Buckets,
    /// A bucket that hands frames to a group.
    Chaining,
    /// A bucket of a fast-failover group that watches no port.
    Watch,
}

/// The groups of a switch.
#[derive(Debug)]
pub struct Groups<'m>(&'m mut [Group]);

impl<'m> Groups<'m> {
    /// No groups, in this memory.
    pub fn new(places: &'m mut [Group]) -> Self {
        places.fill_with(Group::vacant);
        Self(places)
    }

    /// The group of this number. Groups are few: they are looked for one after the other.
    pub(super) fn get(&self, id: u32) -> Option<&Group> {
        self.0.iter().find(|group| group.is_used && group.id == id)
    }

    /// Adds a group.
    ///
    /// # Errors
    /// Why not.
    pub fn add(&mut self, id: u32, kind: GroupKind, buckets: &[Bucket]) -> Result<(), GroupError> {
        if self.get(id).is_some() {
            return Err(GroupError::Exists);
        }
        let group = Self::checked(id, kind, buckets)?;
        let place = self.0.iter_mut().find(|group| !group.is_used).ok_or(GroupError::Full)?;
        *place = group;
        Ok(())
    }

    /// Gives a group another kind and other buckets.
    ///
    /// # Errors
    /// Why not; the group is then as it was.
    pub fn modify(
        &mut self,
        id: u32,
        kind: GroupKind,
        buckets: &[Bucket],
    ) -> Result<(), GroupError> {
        let group = Self::checked(id, kind, buckets)?;
        let old = self.0.iter_mut().find(|group| group.is_used && group.id == id);
        *old.ok_or(GroupError::Unknown)? = group;
        Ok(())
    }

    /// Removes a group, if it is there.
    pub fn remove(&mut self, id: u32) {
        if let Some(group) = self.0.iter_mut().find(|group| group.is_used && group.id == id) {
            *group = Group::vacant();
        }
    }

    fn checked(id: u32, kind: GroupKind, buckets: &[Bucket]) -> Result<Group, GroupError> {
        let buckets = buckets.iter();
        if buckets.len() > MAX_BUCKETS || (kind == GroupKind::Indirect && buckets.len() != 1) {
            return Err(GroupError::Buckets);
        }
        let is_group = |action: &Action| matches!(action, Action::Group(_));
        if buckets.clone().any(|bucket| bucket.actions.iter().any(is_group)) {
            return Err(GroupError::Chaining);
        }
        let watches = |bucket: &Bucket| bucket.watch_port.is_some();
        if kind == GroupKind::FastFailover && !buckets.clone().all(watches) {
            return Err(GroupError::Watch);
        }
        let mut kept = Vec::new();
        for bucket in buckets {
            kept.push(bucket.clone()).map_err(|_| GroupError::Buckets)?;
        }
        Ok(Group { id, kind, buckets: kept, is_used: true })
    }
}

/// A hash of what keeps the packets of a flow together.
pub(super) fn flow_hash(fields: &super::Fields, name: &[u8]) -> u64 {
    let fields = super::Fields { metadata: 0, ..*fields };
    let hash = fields.words().iter().fold(7, |hash, word| mix(hash ^ word, 0x9E37_79B9_7F4A_7C15));
    name.chunks(8)
        .fold(hash, |hash, chunk| mix(hash ^ super::hash::word(chunk), 0x9E37_79B9_7F4A_7C15))
}
