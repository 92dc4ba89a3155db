//! The search for the best rule.

use super::fields::Fields;
use super::hash::{equal_under, hash_fields, join};
use super::programs::ProgramMatch;
use super::rule::RuleId;
use super::steps;
use super::subtables::{NO_NAME, name_rank};
use super::table::FlowTable;
use crate::ndn::Name;

/// One place to look for rules that a packet may match.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Probe {
    /// The packet's hash there.
    pub(super) hash: u64,
    /// Octets of the packet's name that a rule there must have.
    end: u16,
    /// The kind of rule.
    subtable: u16,
}

impl FlowTable<'_> {
    /// Makes the hashes of a packet's name, which [`FlowTable::probes`] then uses for every table.
    pub(super) fn prepare(&mut self, name: Option<&Name<'_>>) {
        self.prefixes.set_name(name, self.depth, self.secret);
    }

    /// The best rule of `table` for a packet: the highest priority and, within it, the longest name. Rules that ask for a program do
    /// not match here: [`super::Switch`] runs programs.
    pub fn lookup(
        &mut self,
        table: u8,
        fields: &Fields,
        name: Option<&Name<'_>>,
    ) -> Option<RuleId> {
        self.prepare(name);
        self.best(
            self.probes(table, fields),
            fields,
            name.map_or(&[][..], |name| name.value()),
            |_| false,
        )
    }

    /// Where to look for rules of a table, for a packet whose name has been prepared: the best come first.
    #[inline]
    pub(super) fn probes(&self, table: u8, fields: &Fields) -> impl Iterator<Item = Probe> {
        // Kinds that differ only in the length of the name have the same fields to hash.
        let mut hashed: Option<(&Fields, u64)> = None;
        self.order.iter().filter_map(move |number| {
            let kind = self.subtables.get(usize::from(*number))?;
            if kind.table != table {
                return None;
            }
            let (name_hash, end) = match kind.depth {
                NO_NAME => (0, 0),
                depth => self.prefixes.get(usize::from(depth))?,
            };
            let fields_hash = match hashed {
                Some((mask, hash)) if *mask == kind.mask => hash,
                _ => {
                    let hash = hash_fields(fields, &kind.mask, kind.words, self.secret);
                    hashed = Some((&kind.mask, hash));
                    hash
                }
            };
            let hash = join(fields_hash, name_hash, *number);
            Some(Probe { hash, end, subtable: *number })
        })
    }

    /// The best rule that a packet matches in these places. `accept` says whether a program's verdict is what a rule asks for.
    #[inline]
    pub(super) fn best(
        &self,
        probes: impl Iterator<Item = Probe>,
        fields: &Fields,
        name: &[u8],
        mut accept: impl FnMut(&ProgramMatch) -> bool,
    ) -> Option<RuleId> {
        let mut best: Option<(u16, u8, RuleId)> = None;
        for Probe { hash, end, subtable } in probes {
            steps::count();
            let Some(kind) = self.subtables.get(usize::from(subtable)) else { continue };
            let is_beaten = |priority| {
                best.is_some_and(|(best, depth, _)| {
                    (best, depth) >= (priority, name_rank(kind.depth))
                })
            };
            if is_beaten(kind.max_priority) {
                break;
            }
            let prefix = name.get(..usize::from(end)).unwrap_or_default();
            let mut next = self.candidates(hash).find(|(_, rule)| {
                rule.hash == hash
                    && rule.subtable == subtable
                    && equal_under(&rule.fields, fields, &kind.mask, kind.words)
                    && self.names.is(rule, prefix)
            });
            while let Some((at, rule)) = next {
                if is_beaten(rule.priority) {
                    break;
                }
                if !rule.has_program || rule.program.as_ref().is_some_and(&mut accept) {
                    let id = RuleId { at, generation: rule.generation };
                    best = Some((rule.priority, name_rank(kind.depth), id));
                    break;
                }
                next = self.rules.get(rule.alike as usize).map(|after| (rule.alike, after));
            }
        }
        best.map(|(_, _, id)| id)
    }

    /// The hash of a rule.
    pub(super) fn rule_hash(
        &mut self,
        subtable: u16,
        fields: &Fields,
        name: Option<&Name<'_>>,
    ) -> u64 {
        let Some(kind) = self.subtables.get(usize::from(subtable)) else { return 0 };
        let name_hash = if kind.depth == NO_NAME {
            0
        } else {
            self.prefixes.set_name(name, usize::from(kind.depth), self.secret);
            self.prefixes.get(usize::from(kind.depth)).map_or(0, |(hash, _)| hash)
        };
        join(hash_fields(fields, &kind.mask, kind.words, self.secret), name_hash, subtable)
    }
}
