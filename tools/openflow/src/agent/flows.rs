//! The flows that controllers have added, as they wrote them.

use super::translate::{Known, fields, table_refusal};
use crate::datapath::Datapath;
use crate::flow::{Command, FlowFlags, FlowMod, FlowRemoved};
use crate::port::{GroupId, PortNumber};
use crate::stats::{FlowFilter, FlowStats};
use crate::{ALL_TABLES, Action, Instruction, Match, NO_BUFFER, Refusal};
use heddle_core::flow::{self, Fields, Flow, MAX_TABLES, RuleId, Timeouts};
use heddle_core::node::Instant;
use std::collections::HashMap;

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
    table: u8,
    priority: u16,
    values: Fields,
    masks: Fields,
    matching: Match,
    instructions: Vec<Instruction>,
    flags: FlowFlags,
    cookie: u64,
    timeouts: Timeouts,
}

/// All flows, by their rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows(HashMap<RuleId, Stored>);

/// Which flows are meant; the first two are compared with [`Stored`] as the switch sees them.
struct Which<'w> {
    table: u8,
    values: Fields,
    masks: Fields,
    /// Exactly this priority and match, or all that the match covers.
    strict: Option<u16>,
    cookie: (u64, u64),
    out_port: PortNumber,
    out_group: GroupId,
    matching: &'w Match,
}

impl Stored {
    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.instructions.iter().flat_map(|instruction| match instruction {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => &actions[..],
            _ => &[],
        })
    }

    fn uses_group(&self, group: GroupId) -> bool {
        self.actions().any(|action| matches!(action, Action::Group(used) if *used == group))
    }

    fn is(&self, which: &Which<'_>) -> bool {
        let is_match = match which.strict {
            Some(priority) => {
                priority == self.priority
                    && (self.values, self.masks) == (which.values, which.masks)
            }
            // A flow is covered when it asks for all that is asked for here, and perhaps more.
            None => {
                which.masks.masked(&self.masks) == which.masks
                    && self.values.masked(&which.masks) == which.values
            }
        };
        let sends_to = |action: &Action| matches!(action, Action::Output { port, .. } if *port == which.out_port);
        let (cookie, cookie_mask) = which.cookie;
        is_match
            && (which.table == ALL_TABLES || which.table == self.table)
            && self.cookie & cookie_mask == cookie & cookie_mask
            && (which.out_port == PortNumber::ANY || self.actions().any(sends_to))
            && (which.out_group == GroupId::ANY || self.uses_group(which.out_group))
    }
}

impl Flows {
    /// Carries out a flow-mod. The flows that it ended come back.
    pub(super) fn change(
        &mut self,
        now: Instant,
        change: &FlowMod,
        datapath: &mut dyn Datapath,
        known: &Known<'_>,
    ) -> Result<Vec<FlowRemoved>, Refusal> {
        let is_delete = matches!(change.command, Command::Delete | Command::DeleteStrict);
        if usize::from(change.table) >= MAX_TABLES && !(is_delete && change.table == ALL_TABLES) {
            return Err(Refusal::FLOW_TABLE);
        }
        let (values, masks) = fields(&change.matching)?;
        let strict = matches!(change.command, Command::ModifyStrict | Command::DeleteStrict);
        let which = Which {
            table: change.table,
            values: values.masked(&masks),
            masks,
            strict: strict.then_some(change.priority),
            cookie: (change.cookie, change.cookie_mask),
            // Only deletions are filtered by where flows send.
            out_port: if is_delete { change.out_port } else { PortNumber::ANY },
            out_group: if is_delete { change.out_group } else { GroupId::ANY },
            matching: &change.matching,
        };
        if is_delete {
            return Ok(self.remove_all(now, datapath, End::Delete, |flow| flow.is(&which)));
        }
        let instructions = known.instructions(change.table, &change.instructions)?;
        if change.buffer != NO_BUFFER {
            return Err(Refusal::BUFFER_UNKNOWN);
        }
        if change.command == Command::Add {
            self.add(now, change, &which, &instructions, datapath)?;
            return Ok(Vec::new());
        }
        for (id, flow) in &mut self.0 {
            if flow.is(&which) {
                datapath.modify(*id, &instructions).map_err(table_refusal)?;
                flow.instructions.clone_from(&change.instructions);
            }
        }
        Ok(Vec::new())
    }

    fn add(
        &mut self,
        now: Instant,
        change: &FlowMod,
        which: &Which<'_>,
        instructions: &flow::Instructions,
        datapath: &mut dyn Datapath,
    ) -> Result<(), Refusal> {
        let (values, masks) = (which.values, which.masks);
        let overlaps = |flow: &Stored| {
            let both = flow.masks.masked(&masks);
            (flow.table, flow.priority) == (change.table, change.priority)
                && flow.values.masked(&both) == values.masked(&both)
        };
        if change.flags.contains(FlowFlags::CHECK_OVERLAP) && self.0.values().any(overlaps) {
            return Err(Refusal::FLOW_OVERLAP);
        }
        let timeouts = Timeouts { idle_s: change.idle_timeout, hard_s: change.hard_timeout };
        let matching = flow::Match { fields: values, mask: masks, ..flow::Match::default() };
        // The table replaces a flow of the same match and priority, also when it then has no place for the new one.
        let old = datapath.find(change.table, change.priority, &matching);
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
        if let Some(old) = old.filter(|old| datapath.counters(*old).is_none()) {
            self.0.remove(&old);
        }
        let stored = Stored {
            table: change.table,
            priority: change.priority,
            values,
            masks,
            matching: which.matching.clone(),
            instructions: change.instructions.clone(),
            flags: change.flags,
            cookie: change.cookie,
            timeouts,
        };
        self.0.insert(added.map_err(table_refusal)?, stored);
        Ok(())
    }

    /// Ends the flows that use a group that is no more.
    pub(super) fn remove_group(
        &mut self,
        now: Instant,
        group: GroupId,
        datapath: &mut dyn Datapath,
    ) -> Vec<FlowRemoved> {
        let uses = |flow: &Stored| match group {
            GroupId::ALL => flow.actions().any(|action| matches!(action, Action::Group(_))),
            one => flow.uses_group(one),
        };
        self.remove_all(now, datapath, End::GroupDelete, uses)
    }

    /// Ends the flows whose time is over.
    pub(super) fn expire(&mut self, now: Instant, datapath: &mut dyn Datapath) -> Vec<FlowRemoved> {
        let over = |limit_s: u16, since: Instant| {
            limit_s != 0 && now.since(since).as_secs() >= u64::from(limit_s)
        };
        let ended: Vec<(RuleId, End)> = self
            .0
            .iter()
            .filter_map(|(id, flow)| {
                let counters = datapath.counters(*id)?;
                if over(flow.timeouts.hard_s, counters.added) {
                    return Some((*id, End::HardTimeout));
                }
                over(flow.timeouts.idle_s, counters.used).then_some((*id, End::IdleTimeout))
            })
            .collect();
        ended.into_iter().filter_map(|(id, end)| self.remove(now, datapath, id, end)).collect()
    }

    fn remove_all(
        &mut self,
        now: Instant,
        datapath: &mut dyn Datapath,
        end: End,
        is_meant: impl Fn(&Stored) -> bool,
    ) -> Vec<FlowRemoved> {
        let meant: Vec<RuleId> =
            self.0.iter().filter(|(_, flow)| is_meant(flow)).map(|(id, _)| *id).collect();
        meant.into_iter().filter_map(|id| self.remove(now, datapath, id, end)).collect()
    }

    /// Removes a flow; what is told about that, when its controller wants to know.
    fn remove(
        &mut self,
        now: Instant,
        datapath: &mut dyn Datapath,
        id: RuleId,
        end: End,
    ) -> Option<FlowRemoved> {
        let flow = self.0.remove(&id)?;
        let (duration, packets, octets) = counters(now, datapath, id);
        datapath.remove(id);
        flow.flags.contains(FlowFlags::SEND_FLOW_REM).then_some(FlowRemoved {
            cookie: flow.cookie,
            priority: flow.priority,
            reason: end as u8,
            table: flow.table,
            duration,
            idle_timeout: flow.timeouts.idle_s,
            hard_timeout: flow.timeouts.hard_s,
            packets,
            octets,
            matching: flow.matching,
        })
    }

    /// The flows that are asked about.
    pub(super) fn stats(
        &self,
        now: Instant,
        filter: &FlowFilter,
        datapath: &dyn Datapath,
    ) -> Result<Vec<FlowStats>, Refusal> {
        let (values, masks) = fields(&filter.matching)?;
        let which = Which {
            table: filter.table,
            values: values.masked(&masks),
            masks,
            strict: None,
            cookie: (filter.cookie, filter.cookie_mask),
            out_port: filter.out_port,
            out_group: filter.out_group,
            matching: &filter.matching,
        };
        let one = |(id, flow): (&RuleId, &Stored)| {
            let (duration, packets, octets) = counters(now, datapath, *id);
            FlowStats {
                table: flow.table,
                duration,
                priority: flow.priority,
                idle_timeout: flow.timeouts.idle_s,
                hard_timeout: flow.timeouts.hard_s,
                flags: flow.flags,
                cookie: flow.cookie,
                packets,
                octets,
                matching: flow.matching.clone(),
                instructions: flow.instructions.clone(),
            }
        };
        Ok(self.0.iter().filter(|(_, flow)| flow.is(&which)).map(one).collect())
    }

    /// The number of flows in a table.
    pub(super) fn count(&self, table: u8) -> u32 {
        self.0.values().filter(|flow| flow.table == table).count() as u32
    }
}

/// How long a rule has been there, and its packets and octets.
fn counters(now: Instant, datapath: &dyn Datapath, id: RuleId) -> ((u32, u32), u64, u64) {
    datapath.counters(id).map_or(((0, 0), 0, 0), |counters| {
        let age = now.since(counters.added);
        ((age.as_secs() as u32, age.subsec_nanos()), counters.packets, counters.octets)
    })
}
