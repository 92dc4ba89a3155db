//! The flows that controllers have added, as they wrote them, and the ways to find them without looking at all.
//!
//! A million of them fit: a flow keeps its match and instructions as they were in the message, equal instructions once. Flows with one
//! mask are one kind, within which they are in order of their names, so that those below a name are next to each other.

use super::programs::Programs;
use super::translate::table_refusal;
use super::wanted::{Wanted, Which, groups, read_match};
use crate::datapath::Datapath;
use crate::flow::{FlowFlags, FlowMod, FlowRemoved};
use crate::stats::RawFlowStats;
use crate::{Instruction, Refusal};
use heddle_core::flow::{self, Fields, Flow, MAX_TABLES, RuleId, Timeouts};
use heddle_core::ndn::Name;
use heddle_core::node::Instant;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Why a flow has ended (OFPRR_*).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    IdleTimeout = 0,
    HardTimeout = 1,
    Delete = 2,
    GroupDelete = 3,
}

/// One flow.
#[derive(Clone, Debug)]
struct Stored {
    /// Its match and instructions, as they are in messages.
    matching: Box<[u8]>,
    instructions: Arc<[u8]>,
    cookie: u64,
    kind: u32,
    priority: u16,
    flags: FlowFlags,
    timeouts: Timeouts,
    /// When it has to be looked at, if it has a time-out.
    deadline: Option<Instant>,
    /// The program that it asks for, and the number of the parameter.
    program: Option<(u32, u32)>,
}

/// Flows of one table that have one mask, and a name or not.
#[derive(Clone, Debug)]
struct Kind {
    table: u8,
    masks: Fields,
    has_name: bool,
    /// By their names, which are empty for flows without one.
    members: BTreeSet<(Box<[u8]>, Option<RuleId>)>,
}

/// All flows, by their rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    stored: HashMap<RuleId, Stored>,
    kinds: Vec<Kind>,
    by_group: HashMap<u32, BTreeSet<RuleId>>,
    deadlines: BTreeSet<(Instant, RuleId)>,
    instructions: HashSet<Arc<[u8]>>,
    /// What counters of rules have to be added to, where a flow took another's place or was reset.
    offsets: HashMap<RuleId, (u64, u64)>,
    counts: [u32; MAX_TABLES],
    /// Whether matches are read as older switches wrote them.
    pub is_legacy: bool,
}

impl Flows {
    /// The number of flows in a table.
    pub(super) fn count(&self, table: u8) -> u32 {
        self.counts.get(usize::from(table)).copied().unwrap_or(0)
    }

    /// Adds a flow; one of the same table, priority and match gives way.
    pub(super) fn add(
        &mut self,
        now: Instant,
        change: &FlowMod,
        wanted: &Wanted,
        instructions: &flow::Instructions,
        programs: &mut Programs,
        datapath: &mut dyn Datapath,
    ) -> Result<(), Refusal> {
        if change.flags.contains(FlowFlags::CHECK_OVERLAP) && self.has_overlap(change, wanted) {
            return Err(Refusal::FLOW_OVERLAP);
        }
        let name = wanted.name.as_deref().map(name).transpose()?;
        let program =
            wanted.program.as_ref().map(|wanted| programs.take(wanted, datapath)).transpose()?;
        let matching = flow::Match { fields: wanted.values, mask: wanted.masks, name, program };
        let timeouts = Timeouts { idle_s: change.idle_timeout, hard_s: change.hard_timeout };
        // The datapath replaces a flow of the same match and priority, also when it then has no place for the new one.
        let old = datapath.find(change.table, change.priority, &matching);
        let counted = old.filter(|_| !change.flags.contains(FlowFlags::RESET_COUNTS));
        let counted = counted.map(|old| self.counters(now, old, datapath));
        let added = datapath.insert(
            now,
            &Flow {
                table: change.table,
                priority: change.priority,
                matching,
                instructions,
                cookie: change.cookie,
                timeouts,
                flags: change.flags.bits(),
            },
        );
        if let Some(old) = old.filter(|old| added.is_ok() || datapath.counters(*old).is_none()) {
            self.forget(old, programs, datapath);
        }
        let id = match added {
            Ok(id) => id,
            Err(error) => {
                if let Some(program) = program {
                    programs.release((program.program, program.parameter), datapath);
                }
                return Err(table_refusal(error));
            }
        };
        if let Some((_, packets, octets)) = counted {
            self.offsets.insert(id, (packets, octets));
        }
        let mut octets = Vec::new();
        change.matching.encode(&mut octets);
        let kind = self.join_kind(change.table, wanted, id);
        let deadline = first_deadline(timeouts, now, now);
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        let stored = Stored {
            matching: octets.into(),
            instructions: self.share(encode(&change.instructions)),
            cookie: change.cookie,
            kind,
            priority: change.priority,
            flags: change.flags,
            timeouts,
            deadline,
            program: program.map(|program| (program.program, program.parameter)),
        };
        for group in groups(&change.instructions) {
            self.by_group.entry(group.0).or_default().insert(id);
        }
        self.stored.insert(id, stored);
        Ok(())
    }

    fn has_overlap(&self, change: &FlowMod, wanted: &Wanted) -> bool {
        let kinds = self.kinds.iter().filter(|kind| kind.table == change.table);
        kinds
            .flat_map(|kind| &kind.members)
            .filter_map(|(_, id)| self.stored.get(id.as_ref()?))
            .any(|flow| {
                flow.priority == change.priority
                    && self.wanted(flow).is_some_and(|flow| flow.overlaps(wanted))
            })
    }

    fn wanted(&self, flow: &Stored) -> Option<Wanted> {
        Wanted::new(&read_match(&flow.matching).ok()?, self.is_legacy).ok()
    }

    /// The flows among which those that are meant are.
    pub(super) fn candidates(&self, which: &Which) -> Vec<RuleId> {
        let mut all = Vec::new();
        for kind in self.kinds.iter().filter(|kind| which.has_table(kind.table)) {
            if kind.masks.masked(&which.wanted.masks) != which.wanted.masks {
                continue;
            }
            match &which.wanted.name {
                None => all.extend(kind.members.iter().filter_map(|(_, id)| *id)),
                Some(name) if kind.has_name => {
                    let first = (name.clone().into_boxed_slice(), None);
                    let below = kind.members.range(first..);
                    let below = below.take_while(|(other, _)| other.starts_with(name));
                    all.extend(below.filter_map(|(_, id)| *id));
                }
                Some(_) => {}
            }
        }
        all
    }

    /// The flows that use a group, or any group.
    pub(super) fn of_group(&self, group: Option<u32>) -> Vec<RuleId> {
        match group {
            Some(group) => self.by_group.get(&group).into_iter().flatten().copied().collect(),
            None => self.by_group.values().flatten().copied().collect(),
        }
    }

    /// The number of flows that use a group.
    pub(super) fn users_of_group(&self, group: u32) -> u32 {
        self.by_group.get(&group).map_or(0, |users| users.len() as u32)
    }

    /// Whether this flow is there and meant.
    pub(super) fn is_meant(&self, id: RuleId, which: &Which) -> bool {
        self.stored.get(&id).is_some_and(|flow| {
            which.means(flow.cookie, &flow.matching, &flow.instructions, self.is_legacy)
        })
    }

    /// Gives a flow other instructions.
    pub(super) fn modify(
        &mut self,
        now: Instant,
        id: RuleId,
        change: &Modification,
        datapath: &mut dyn Datapath,
    ) -> Result<(), Refusal> {
        if !self.stored.contains_key(&id) {
            return Ok(());
        }
        if change.resets {
            let (_, packets, octets) = self.counters(now, id, datapath);
            let offset = self.offsets.entry(id).or_default();
            *offset = (offset.0.wrapping_sub(packets), offset.1.wrapping_sub(octets));
        }
        let new = self.share(change.encoded.clone());
        let Some(flow) = self.stored.get_mut(&id) else { return Ok(()) };
        let done = datapath.modify(id, &change.instructions).map_err(table_refusal);
        let old = if done.is_ok() { std::mem::replace(&mut flow.instructions, new) } else { new };
        let is_changed = done.is_ok();
        if is_changed {
            self.leave_groups(id, &old);
            for group in groups(&Instruction::decode_all(&change.encoded).unwrap_or_default()) {
                self.by_group.entry(group.0).or_default().insert(id);
            }
        }
        self.unshare(&old);
        done
    }

    /// Looks at the flows whose time may be over, up to `most` of them, and ends those whose time is. Whether more are due.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        most: usize,
        programs: &mut Programs,
        datapath: &mut dyn Datapath,
        removed: &mut Vec<FlowRemoved>,
    ) -> bool {
        for _ in 0..most {
            match self.deadlines.first() {
                Some((deadline, _)) if *deadline <= now => {}
                _ => return false,
            }
            let Some((_, id)) = self.deadlines.pop_first() else { return false };
            let Some(flow) = self.stored.get_mut(&id) else { continue };
            let counters = datapath.counters(id);
            let (added, used) = counters.map_or((now, now), |found| (found.added, found.used));
            let over = |limit_s: u16, since: Instant| {
                limit_s != 0 && now.since(since).as_secs() >= u64::from(limit_s)
            };
            let end = if over(flow.timeouts.hard_s, added) {
                End::HardTimeout
            } else if over(flow.timeouts.idle_s, used) {
                End::IdleTimeout
            } else {
                // Packets have come since: it is looked at again when none follow.
                flow.deadline = first_deadline(flow.timeouts, added, used);
                if let Some(deadline) = flow.deadline {
                    self.deadlines.insert((deadline, id));
                }
                continue;
            };
            removed.extend(self.remove(now, id, end, programs, datapath));
        }
        self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now)
    }

    /// Removes a flow; what is told about that, when its controller wants to know.
    pub(super) fn remove(
        &mut self,
        now: Instant,
        id: RuleId,
        end: End,
        programs: &mut Programs,
        datapath: &mut dyn Datapath,
    ) -> Option<FlowRemoved> {
        let (duration, packets, octets) = self.counters(now, id, datapath);
        let (flow, table) = self.forget(id, programs, datapath)?;
        datapath.remove(id);
        flow.flags.contains(FlowFlags::SEND_FLOW_REM).then(|| FlowRemoved {
            cookie: flow.cookie,
            priority: flow.priority,
            reason: end as u8,
            table,
            duration,
            idle_timeout: flow.timeouts.idle_s,
            hard_timeout: flow.timeouts.hard_s,
            packets,
            octets,
            matching: read_match(&flow.matching).unwrap_or_default(),
        })
    }

    /// Takes a flow out of all lists.
    fn forget(
        &mut self,
        id: RuleId,
        programs: &mut Programs,
        datapath: &mut dyn Datapath,
    ) -> Option<(Stored, u8)> {
        let flow = self.stored.remove(&id)?;
        self.offsets.remove(&id);
        if let Some(deadline) = flow.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.leave_groups(id, &flow.instructions);
        self.unshare(&flow.instructions);
        if let Some(used) = flow.program {
            programs.release(used, datapath);
        }
        let name = self.wanted(&flow).and_then(|wanted| wanted.name).unwrap_or_default();
        let kind = self.kinds.get_mut(flow.kind as usize)?;
        kind.members.remove(&(name.into_boxed_slice(), Some(id)));
        let table = kind.table;
        if let Some(count) = self.counts.get_mut(usize::from(table)) {
            *count = count.saturating_sub(1);
        }
        Some((flow, table))
    }

    /// An entry of flow statistics.
    pub(super) fn write_stats(
        &self,
        now: Instant,
        id: RuleId,
        datapath: &dyn Datapath,
        out: &mut Vec<u8>,
    ) {
        let Some(flow) = self.stored.get(&id) else { return };
        let (duration, packets, octets) = self.counters(now, id, datapath);
        RawFlowStats {
            table: self.kinds.get(flow.kind as usize).map_or(0, |kind| kind.table),
            duration,
            priority: flow.priority,
            timeouts: (flow.timeouts.idle_s, flow.timeouts.hard_s),
            flags: flow.flags,
            cookie: flow.cookie,
            packets,
            octets,
            matching: &flow.matching,
            instructions: &flow.instructions,
        }
        .encode(out);
    }

    /// How long a flow has been there, and its packets and octets.
    pub(super) fn counters(
        &self,
        now: Instant,
        id: RuleId,
        datapath: &dyn Datapath,
    ) -> ((u32, u32), u64, u64) {
        let (packets, octets) = self.offsets.get(&id).copied().unwrap_or_default();
        datapath.counters(id).map_or(((0, 0), 0, 0), |counters| {
            let age = now.since(counters.added);
            (
                (age.as_secs() as u32, age.subsec_nanos()),
                counters.packets.wrapping_add(packets),
                counters.octets.wrapping_add(octets),
            )
        })
    }

    fn join_kind(&mut self, table: u8, wanted: &Wanted, id: RuleId) -> u32 {
        if let Some(count) = self.counts.get_mut(usize::from(table)) {
            *count += 1;
        }
        let has_name = wanted.name.is_some();
        let is_it = |kind: &Kind| {
            (kind.table, kind.has_name) == (table, has_name) && kind.masks == wanted.masks
        };
        let at = self.kinds.iter().position(is_it);
        // The place of a kind that is no more can be had.
        let at = at.or_else(|| self.kinds.iter().position(|kind| kind.members.is_empty()));
        let at = at.unwrap_or(self.kinds.len());
        let name = wanted.name.clone().unwrap_or_default().into_boxed_slice();
        match self.kinds.get_mut(at) {
            Some(kind) => {
                (kind.table, kind.has_name, kind.masks) = (table, has_name, wanted.masks);
                kind.members.insert((name, Some(id)));
            }
            None => {
                let members = BTreeSet::from([(name, Some(id))]);
                self.kinds.push(Kind { table, masks: wanted.masks, has_name, members });
            }
        }
        at as u32
    }

    fn leave_groups(&mut self, id: RuleId, instructions: &[u8]) {
        for group in groups(&Instruction::decode_all(instructions).unwrap_or_default()) {
            if let Some(users) = self.by_group.get_mut(&group.0) {
                users.remove(&id);
                if users.is_empty() {
                    self.by_group.remove(&group.0);
                }
            }
        }
    }

    /// The one copy of these instructions.
    fn share(&mut self, instructions: Vec<u8>) -> Arc<[u8]> {
        if let Some(known) = self.instructions.get(&instructions[..]) {
            return known.clone();
        }
        let new: Arc<[u8]> = instructions.into();
        self.instructions.insert(new.clone());
        new
    }

    /// A flow has these instructions no longer.
    fn unshare(&mut self, instructions: &Arc<[u8]>) {
        // The list itself and the caller have one each.
        if Arc::strong_count(instructions) <= 2 {
            self.instructions.remove(instructions);
        }
    }
}

/// What a flow is to do from now on.
#[derive(Clone, Debug)]
pub(super) struct Modification {
    pub instructions: flow::Instructions,
    /// As they are in messages.
    pub encoded: Vec<u8>,
    /// Whether counters begin anew.
    pub resets: bool,
}

impl Modification {
    pub(super) fn new(change: &FlowMod, instructions: flow::Instructions) -> Self {
        let resets = change.flags.contains(FlowFlags::RESET_COUNTS);
        Self { instructions, encoded: encode(&change.instructions), resets }
    }
}

fn encode(instructions: &[Instruction]) -> Vec<u8> {
    let mut octets = Vec::new();
    Instruction::encode_all(instructions, &mut octets);
    octets
}

/// A name that [`crate::Match`] has found to be one.
pub(super) fn name(octets: &[u8]) -> Result<Name<'_>, Refusal> {
    if octets.is_empty() {
        return Ok(Name::ROOT);
    }
    Name::new(octets).map_err(|_| Refusal::MATCH_VALUE)
}

/// When a flow can end first.
fn first_deadline(timeouts: Timeouts, added: Instant, used: Instant) -> Option<Instant> {
    let end = |limit_s: u16, since: Instant| {
        (limit_s != 0).then(|| since.after(Duration::from_secs(limit_s.into())))
    };
    [end(timeouts.hard_s, added), end(timeouts.idle_s, used)].into_iter().flatten().min()
}
