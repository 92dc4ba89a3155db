//! Work on many flows, done a little at a time: while it lasts, its connection's next messages wait and nothing else does.

use super::flows::{End, Flows, Modification};
use super::programs::Programs;
use super::wanted::Which;
use crate::datapath::Datapath;
use crate::flow::FlowRemoved;
use crate::stats::Aggregate;
use crate::{MAX_FLOW_STATS_OCTETS, Refusal, ReplyBody, flow_stats_part};
use heddle_core::flow::RuleId;
use heddle_core::node::Instant;

/// Flows that are looked at in one step.
const STEP: usize = 1024;

/// What is to be done with flows.
#[derive(Debug)]
pub(super) enum Work {
    /// End them.
    Remove(End),
    /// Change them.
    Modify(Box<Modification>),
    /// Tell about them: the part of the answer that is being filled.
    Tell(Vec<u8>),
    /// Count them.
    Count(Aggregate),
}

/// Work, and the flows that are left to look at.
#[derive(Debug)]
pub(super) struct Job {
    /// The transaction that asked for it, and the beginning of its message.
    pub xid: u32,
    pub head: Vec<u8>,
    /// Those that are meant among the flows; all of them without it.
    pub which: Option<Which>,
    pub flows: std::vec::IntoIter<RuleId>,
    pub work: Work,
}

/// What came of a step.
pub(super) enum Step {
    /// Go on.
    More,
    /// It is done.
    Done,
}

/// Where steps leave what they have found.
pub(super) struct Found<'f> {
    /// Messages for the connection.
    pub messages: &'f mut Vec<Vec<u8>>,
    /// Flows that ended.
    pub removed: &'f mut Vec<FlowRemoved>,
}

impl Job {
    /// Whether the connection must take what the work makes: such work waits while it cannot.
    pub(super) const fn tells(&self) -> bool {
        matches!(self.work, Work::Tell(_))
    }

    /// Looks at the next flows.
    pub(super) fn step(
        &mut self,
        now: Instant,
        flows: &mut Flows,
        programs: &mut Programs,
        datapath: &mut dyn Datapath,
        found: &mut Found<'_>,
    ) -> Result<Step, Refusal> {
        for _ in 0..STEP {
            let Some(id) = self.flows.next() else { return Ok(self.finish(found)) };
            if self.which.as_ref().is_some_and(|which| !flows.is_meant(id, which)) {
                continue;
            }
            match &mut self.work {
                Work::Remove(end) => {
                    found.removed.extend(flows.remove(now, id, *end, programs, datapath));
                }
                Work::Modify(change) => flows.modify(now, id, change, datapath)?,
                Work::Tell(part) => {
                    let before = part.len();
                    flows.write_stats(now, id, datapath, part);
                    if part.len() > MAX_FLOW_STATS_OCTETS {
                        let entry = part.split_off(before);
                        let full = std::mem::replace(part, entry);
                        found.messages.push(flow_stats_part(self.xid, true, &full));
                        return Ok(Step::More);
                    }
                }
                Work::Count(all) => {
                    let (_, packets, octets) = flows.counters(now, id, datapath);
                    all.packets = all.packets.wrapping_add(packets);
                    all.octets = all.octets.wrapping_add(octets);
                    all.flows += 1;
                }
            }
        }
        Ok(Step::More)
    }

    fn finish(&mut self, found: &mut Found<'_>) -> Step {
        match &self.work {
            Work::Remove(_) | Work::Modify(_) => {}
            Work::Tell(part) => found.messages.push(flow_stats_part(self.xid, false, part)),
            Work::Count(all) => {
                found.messages.extend(ReplyBody::Aggregate(*all).into_messages(self.xid));
            }
        }
        Step::Done
    }
}
