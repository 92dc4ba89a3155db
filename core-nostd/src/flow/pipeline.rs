//! A frame through the tables, one after the other.

use super::FlowError;
use super::action::ActionSet;
use super::counters::FlowDrop;
use super::fields::Fields;
use super::group::flow_hash;
use super::nonce::add_nonce;
use super::packet::Packet;
use super::packet_in::PacketInReason;
use super::programs::{ProgramPlace, Programs, Verdicts};
use super::rule::RuleId;
use super::switch::{FragmentPath, MAX_TABLES, Switch};
use crate::ndn::Piece;
use crate::node::{Engine, Frame, Instant, PortId, Verdict};

/// What is known about a frame between two tables.
#[derive(Default)]
struct Walk {
    fields: Fields,
    hash: u64,
    table: u8,
    set: ActionSet,
    path: FragmentPath,
    piece: Option<(Piece, bool)>,
    /// The rules to meet, for a fragment that follows its first.
    follows: Option<FragmentPath>,
    sent: u32,
}

impl<P: Programs> Switch<'_, P> {
    /// Runs a frame through the tables. `known` is the rule that it meets in the first one, or that it meets none, if that has been found out.
    pub(super) fn process<E: Engine>(
        &mut self,
        now: Instant,
        in_port: PortId,
        frame: &mut E::Frame,
        known: Option<Option<RuleId>>,
        engine: &mut E,
    ) -> Verdict<FlowDrop> {
        let octets = frame.bytes().len();
        let mut walk = Walk::default();
        for step in 0..MAX_TABLES {
            let id = match self.find_rule(now, in_port, frame, step, known, &mut walk) {
                Ok(Some(id)) => id,
                // What earlier tables did by apply-actions stands; the set is not carried out (OpenFlow 1.3, 5.4).
                Ok(None) if walk.sent > 0 => return Verdict::Consumed,
                Ok(None) => return self.counters.drop(FlowDrop::Flow(FlowError::NoMatch)),
                Err(reason) => return self.counters.drop(reason),
            };
            if let Some(slot) = walk.path.rules.get_mut(step) {
                *slot = Some(id);
            }
            self.tables.count_packet(id, now, octets);
            let (tables, mut way) = self.way(engine, in_port, walk.fields, walk.hash);
            let (Some(rule), Some(instructions)) = (tables.rule(id), tables.instructions(id))
            else {
                break;
            };
            (way.table, way.cookie, way.sent) = (walk.table, rule.cookie(), walk.sent);
            if rule.priority() == 0 {
                way.reason = PacketInReason::NoMatch;
            }
            if instructions.clear {
                walk.set.clear();
            }
            if !walk.set.write(&instructions.write) {
                return way.counters.drop(FlowDrop::Flow(FlowError::ActionMismatch));
            }
            let Some(next) = instructions.goto_table else {
                let set = walk.set.in_order();
                let forward = if set.is_empty() {
                    way.run(&instructions.apply, frame)
                } else if way.run_before_more(&instructions.apply, frame) {
                    way.run(set, frame)
                } else {
                    None
                };
                let verdict = way.finish(forward);
                if let Some((piece, true)) = walk.piece {
                    self.fragments.begin(now, piece, walk.path);
                }
                return verdict;
            };
            if !way.run_before_more(&instructions.apply, frame) {
                return way.finish(None);
            }
            walk.sent = way.sent;
            walk.fields.tunnel_id = way.fields.tunnel_id;
            if let Some(error) = way.problem {
                way.counters.add(FlowDrop::Flow(error));
            }
            let (value, mask) = instructions.metadata;
            walk.fields.metadata = walk.fields.metadata & !mask | value & mask;
            walk.table = next;
        }
        self.counters.drop(FlowDrop::Flow(FlowError::NoOutput))
    }
    /// The rule that the frame meets in the next table: the best one, or the one that its first fragment met.
    fn find_rule<F: Frame>(
        &mut self,
        now: Instant,
        in_port: PortId,
        frame: &mut F,
        step: usize,
        known: Option<Option<RuleId>>,
        walk: &mut Walk,
    ) -> Result<Option<RuleId>, FlowDrop> {
        if step > 0
            && let Some(path) = walk.follows
        {
            return Ok(self.rule_on(&path, step));
        }
        // Actions of earlier tables may have changed the frame.
        let mut packet = Packet::parse(frame.bytes(), in_port).map_err(FlowDrop::Flow)?;
        if packet.lacks_nonce {
            add_nonce(frame, self.draws.next() as u32).map_err(FlowDrop::Ndn)?;
            packet = Packet::parse(frame.bytes(), in_port).map_err(FlowDrop::Flow)?;
        }
        walk.fields = Fields {
            metadata: walk.fields.metadata,
            tunnel_id: walk.fields.tunnel_id,
            ..packet.fields
        };
        if step == 0 {
            if let Some(error) = packet.ndn_error {
                if self.drops_malformed_names {
                    return Err(FlowDrop::Ndn(error));
                }
                self.counters.add(FlowDrop::Ndn(error));
            }
            walk.hash = flow_hash(&packet.fields, packet.name.map_or(&[][..], |name| name.value()));
            self.draws.stir(walk.hash ^ now.as_nanos());
            walk.piece = packet.piece;
            if let Some((piece, false)) = packet.piece {
                match self.fragments.follow(now, piece) {
                    Ok(path) => {
                        walk.follows = Some(path);
                        return Ok(self.rule_on(&path, 0));
                    }
                    Err(error) => self.counters.add(FlowDrop::Ndn(error)),
                }
            }
        }
        let found = match known.filter(|_| step == 0) {
            Some(found) => found,
            None => {
                self.tables.prepare(packet.name.as_ref());
                let place = ProgramPlace { table: walk.table, in_port };
                let mut verdicts =
                    Verdicts::new(&mut self.programs, &mut self.known, place, frame.bytes());
                let found = self.tables.best(
                    self.tables.probes(walk.table, &walk.fields),
                    &walk.fields,
                    packet.name.map_or(&[][..], |name| name.value()),
                    |wanted| verdicts.accept(wanted),
                );
                if let Some(problem) = verdicts.problem() {
                    self.counters.add(FlowDrop::Flow(problem));
                }
                found
            }
        };
        if let Some(program) = found.and_then(|id| self.tables.rule(id)?.program()) {
            self.programs.hit(program.program);
        }
        Ok(found)
    }

    /// A rule that the first fragment met, if it is still there.
    fn rule_on(&self, path: &FragmentPath, step: usize) -> Option<RuleId> {
        path.rules.get(step).copied().flatten().filter(|id| self.tables.rule(*id).is_some())
    }
}
