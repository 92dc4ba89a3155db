//! Groups, as controllers wrote them.

use super::Agent;
use super::flows::End;
use super::jobs::{Job, Work};
use super::translate::{Known, group_kind, group_refusal};
use crate::datapath::Datapath;
use crate::stats::{GroupFeatures, GroupStats};
use crate::{Action, Bucket, GroupCommand, GroupId, GroupMod, GroupType, Refusal, ReplyBody};
use heddle_core::node::Instant;

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    kind: GroupType,
    buckets: Vec<Bucket>,
    added: Instant,
}

impl Agent {
    /// Carries out a group-mod. What is left to do: flows go with their group.
    pub(super) fn change_group(
        &mut self,
        now: Instant,
        change: GroupMod,
        datapath: &mut dyn Datapath,
    ) -> Result<Option<Job>, Refusal> {
        let GroupMod { command, kind, group, buckets } = change;
        if command == GroupCommand::Delete {
            let one = (group != GroupId::ALL).then_some(group.0);
            let meant: Vec<u32> =
                self.groups.keys().copied().filter(|id| one.is_none_or(|one| *id == one)).collect();
            for id in meant {
                datapath.remove_group(id);
                self.groups.remove(&id);
            }
            let flows = self.flows.of_group(one).into_iter();
            let work = Work::Remove(End::GroupDelete);
            return Ok(Some(Job { xid: 0, head: Vec::new(), which: None, flows, work }));
        }
        let actions = buckets.iter().flat_map(|bucket| &bucket.actions);
        if actions.into_iter().any(|action| matches!(action, Action::Group(_))) {
            return Err(Refusal::GROUP_CHAINING);
        }
        let known = Known { ports: self.port_set(), groups: &|_| false };
        let translated = known.buckets(kind, &buckets)?;
        let done = match command {
            GroupCommand::Add => datapath.add_group(group.0, group_kind(kind), &translated),
            _ => datapath.modify_group(group.0, group_kind(kind), &translated),
        };
        done.map_err(group_refusal)?;
        let added = self.groups.get(&group.0).map_or(now, |old| old.added);
        self.groups.insert(group.0, Group { kind, buckets, added });
        Ok(None)
    }

    pub(super) fn tell_groups(&self) -> ReplyBody {
        let one = |(id, group): (&u32, &Group)| (group.kind, GroupId(*id), group.buckets.clone());
        ReplyBody::Groups(self.groups.iter().map(one).collect())
    }

    pub(super) fn tell_group_stats(&self, now: Instant, wanted: GroupId) -> ReplyBody {
        let is_meant = |(id, _): &(&u32, &Group)| wanted == GroupId::ALL || **id == wanted.0;
        let one = |(id, group): (&u32, &Group)| {
            let age = now.since(group.added);
            GroupStats {
                group: GroupId(*id),
                users: self.flows.users_of_group(*id),
                // Packets of groups are not counted: all ones says so.
                packets: u64::MAX,
                octets: u64::MAX,
                duration: (age.as_secs() as u32, age.subsec_nanos()),
            }
        };
        ReplyBody::GroupStats(self.groups.iter().filter(is_meant).map(one).collect())
    }

    pub(super) fn tell_group_features(&self) -> ReplyBody {
        // Output, the actions on TTLs and MPLS, set-field; no group in a group.
        const ACTIONS: u32 = 1
            | 1 << 11
            | 1 << 12
            | 1 << 15
            | 1 << 16
            | 1 << 19
            | 1 << 20
            | 1 << 23
            | 1 << 24
            | 1 << 25;
        ReplyBody::GroupFeatures(GroupFeatures {
            kinds: 0b1111,
            // Weights, and liveness of what buckets watch.
            capabilities: 0b11,
            max_groups: [self.max_groups; 4],
            actions: [ACTIONS; 4],
        })
    }
}
