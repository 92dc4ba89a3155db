//! Answers to multipart requests (OpenFlow 1.3.5, 7.3.5).

use super::Agent;
use super::features::table_features;
use super::jobs::{Job, Work};
use super::wanted::{Wanted, Which};
use crate::datapath::Datapath;
use crate::stats::{Aggregate, TableStats};
use crate::{ALL_TABLES, FlowFilter, GroupId, PortNumber, Refusal, ReplyBody, Request};
use heddle_core::flow::MAX_TABLES;
use heddle_core::node::Instant;

/// All meters, and all queues.
const ALL: u32 = u32::MAX;

impl Agent {
    /// What is to be done for a request that concerns many flows.
    pub(super) fn answer_by_job(
        &self,
        xid: u32,
        request: &Request,
    ) -> Result<Option<Job>, Refusal> {
        let (filter, work) = match request {
            Request::Flows(filter) => (filter, Work::Tell(Vec::new())),
            Request::Aggregate(filter) => (filter, Work::Count(Aggregate::default())),
            _ => return Ok(None),
        };
        let FlowFilter { table, out_port, out_group, cookie, cookie_mask, matching } = filter;
        if *table != ALL_TABLES && usize::from(*table) >= MAX_TABLES {
            return Err(Refusal::REQUEST_TABLE_ID);
        }
        let which = Which {
            table: *table,
            wanted: Wanted::new(matching, self.flows.is_legacy)?,
            is_strict: false,
            cookie: (*cookie, *cookie_mask),
            out_port: *out_port,
            out_group: *out_group,
        };
        let flows = self.flows.candidates(&which).into_iter();
        Ok(Some(Job { xid, head: Vec::new(), which: Some(which), flows, work }))
    }

    /// The answer to any other request.
    pub(super) fn answer(
        &self,
        now: Instant,
        request: &Request,
        datapath: &dyn Datapath,
    ) -> Result<ReplyBody, Refusal> {
        Ok(match request {
            Request::Description => ReplyBody::Description(self.description.clone()),
            // By a job.
            Request::Flows(_) | Request::Aggregate(_) => return Err(Refusal::BAD_MULTIPART),
            Request::Tables => {
                let one = |table| {
                    let counters = datapath.table_counters(table);
                    TableStats {
                        table,
                        active: self.flows.count(table),
                        // All ones where not counted.
                        lookups: counters.map_or(u64::MAX, |counters| counters.lookups),
                        matched: counters.map_or(u64::MAX, |counters| counters.matched),
                    }
                };
                ReplyBody::Tables((0..MAX_TABLES as u8).map(one).collect())
            }
            Request::PortStats(port) => ReplyBody::PortStats(self.tell_ports(*port, datapath)?),
            Request::Groups => self.tell_groups(),
            Request::GroupStats(group) => {
                if *group != GroupId::ALL && !self.groups.contains_key(&group.0) {
                    return Err(Refusal::GROUP_UNKNOWN);
                }
                self.tell_group_stats(now, *group)
            }
            Request::GroupFeatures => self.tell_group_features(),
            Request::Queues(port, queue) => {
                if *port != PortNumber::ANY
                    && !self.ports.iter().any(|other| other.number == port.0)
                {
                    return Err(Refusal::QUEUE_PORT);
                }
                if *queue != ALL {
                    return Err(Refusal::QUEUE_QUEUE);
                }
                ReplyBody::NO_QUEUES
            }
            Request::Meters(ALL) => ReplyBody::NO_METERS,
            Request::MeterConfig(ALL) => ReplyBody::NO_METER_CONFIG,
            Request::Meters(_) | Request::MeterConfig(_) => {
                return Err(Refusal::METER_UNKNOWN_METER);
            }
            Request::MeterFeatures => ReplyBody::no_meter_features(),
            Request::TableFeatures(wanted) if !wanted.is_empty() => {
                return Err(Refusal::TABLE_FEATURES_PERMISSION);
            }
            Request::TableFeatures(_) => {
                let one = |table| table_features(table, self.max_flows);
                ReplyBody::TableFeatures((0..MAX_TABLES as u8).map(one).collect())
            }
            Request::Ports => ReplyBody::Ports(self.ports.clone()),
            Request::Programs => ReplyBody::Programs(self.programs.stats(datapath)),
        })
    }
}
