//! Flow-mods (OpenFlow 1.3.5, 6.4).

use super::Agent;
use super::flows::{End, Modification, name};
use super::jobs::{Job, Work};
use super::translate::Known;
use super::wanted::{Wanted, Which};
use crate::datapath::Datapath;
use crate::flow::Command;
use crate::{ALL_TABLES, FlowMod, GroupId, NO_BUFFER, PortNumber, Refusal};
use heddle_core::flow::{self, MAX_TABLES};
use heddle_core::node::Instant;

impl Agent {
    /// Carries out a flow-mod: at once, or what is left to do (OpenFlow 1.3.5, 6.4).
    pub(super) fn change_flows(
        &mut self,
        now: Instant,
        change: &FlowMod,
        octets: &[u8],
        datapath: &mut dyn Datapath,
    ) -> Result<Option<Job>, Refusal> {
        let is_delete = matches!(change.command, Command::Delete | Command::DeleteStrict);
        if usize::from(change.table) >= MAX_TABLES && !(is_delete && change.table == ALL_TABLES) {
            return Err(Refusal::FLOW_TABLE);
        }
        let wanted = Wanted::new(&change.matching, self.flows.is_legacy)?;
        let work = if is_delete {
            Work::Remove(End::Delete)
        } else {
            let groups = &|group: GroupId| self.groups.contains_key(&group.0);
            let known = Known { ports: self.port_set(), groups };
            let instructions = known.instructions(change.table, &change.instructions)?;
            if change.buffer != NO_BUFFER {
                return Err(Refusal::BUFFER_UNKNOWN);
            }
            if change.command == Command::Add {
                let programs = &mut self.programs;
                self.flows.add(now, change, &wanted, &instructions, programs, datapath)?;
                return Ok(None);
            }
            Work::Modify(Box::new(Modification::new(change, instructions)))
        };
        let is_strict = matches!(change.command, Command::ModifyStrict | Command::DeleteStrict);
        let which = Which {
            table: change.table,
            wanted,
            is_strict,
            cookie: (change.cookie, change.cookie_mask),
            // Only deletions are filtered by where flows send.
            out_port: if is_delete { change.out_port } else { PortNumber::ANY },
            out_group: if is_delete { change.out_group } else { GroupId::ANY },
        };
        let flows = if is_strict {
            self.exactly(change.table, change.priority, &which.wanted, datapath)?
        } else {
            self.flows.candidates(&which)
        };
        let (xid, head) = (0, octets.get(..64).unwrap_or(octets).to_vec());
        Ok(Some(Job { xid, head, which: Some(which), flows: flows.into_iter(), work }))
    }

    /// The flow of exactly this priority and match, in this table or in each.
    fn exactly(
        &self,
        table: u8,
        priority: u16,
        wanted: &Wanted,
        datapath: &mut dyn Datapath,
    ) -> Result<Vec<flow::RuleId>, Refusal> {
        let program = match &wanted.program {
            None => None,
            Some(program) => match self.programs.look_up(program) {
                None => return Ok(Vec::new()),
                found => found,
            },
        };
        let name = wanted.name.as_deref().map(name).transpose()?;
        let matching = flow::Match { fields: wanted.values, mask: wanted.masks, name, program };
        let tables = if table == ALL_TABLES { 0..MAX_TABLES as u8 } else { table..table + 1 };
        Ok(tables.filter_map(|table| datapath.find(table, priority, &matching)).collect())
    }
}
