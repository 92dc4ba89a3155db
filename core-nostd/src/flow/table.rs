//! The rules of all tables: how they come and go.
//!
//! Rules with the same mask and the same number of name components lie in one subtable, in which a packet can match
//! only by equality: one hash finds all its candidates (tuple space search). Subtables are tried from the highest
//! priority down and, within a priority, from the longest name down, until nothing better can follow. For rules that
//! ask for a name and have one priority, that is a longest-prefix match with one hash for each length in use.

use super::buckets::RuleBucket;
use super::fields::Fields;
use super::hash::Prefixes;
use super::instructions::{InstructionStore, Instructions, SharedInstructions};
use super::names::NameStore;
use super::rewrite::Rewrite;
use super::rule::{
    Flow, INLINE_NAME_OCTETS, MAX_NAME_COMPONENTS, Match, NONE, NameChunk, Rule, RuleId,
};
use super::subtables::{MAX_SUBTABLES, NO_NAME, Subtable};
use crate::ndn::Name;
use crate::node::Instant;
use heapless::Vec;

/// Rules of one table that differ in priority or program only, at most. A packet may look at each of them.
pub const MAX_ALIKE: usize = 256;

/// Why a rule is not added.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// No place for a further rule.
    RulesFull,
    /// No place for so long a name.
    NamesFull,
    /// No place for further instructions.
    InstructionsFull,
    /// Too many different masks and lengths of names.
    TooManyMasks,
    /// A name of more than [`MAX_NAME_COMPONENTS`] components.
    NameTooDeep,
    /// A table that goes to itself or back.
    GotoTable,
    /// More than [`MAX_ALIKE`] rules that differ in priority or program only.
    TooManyAlike,
}

/// The memory of a [`FlowTable`], which the caller owns.
#[derive(Debug)]
pub struct TableMemory<'m> {
    /// A place for each rule, made with [`Rule::vacant`].
    pub rules: &'m mut [Rule],
    /// One for every four rules is ample; a power of two of them is used. Made with [`RuleBucket::vacant`].
    pub buckets: &'m mut [RuleBucket],
    /// Places for names of more than 36 octets, 60 octets in each.
    pub names: &'m mut [NameChunk],
    /// A place for each different set of instructions.
    pub instructions: &'m mut [SharedInstructions],
}

/// The rules of all tables of a switch.
#[derive(Debug)]
pub struct FlowTable<'m> {
    pub(super) rules: &'m mut [Rule],
    pub(super) buckets: &'m mut [RuleBucket],
    pub(super) names: NameStore<'m>,
    pub(super) instructions: InstructionStore<'m>,
    pub(super) subtables: Vec<Subtable, MAX_SUBTABLES>,
    /// Subtables in use, in the order in which they are tried.
    pub(super) order: Vec<u16, MAX_SUBTABLES>,
    /// The largest number of name components of any rule.
    pub(super) depth: usize,
    pub(super) prefixes: Prefixes,
    free_rule: u32,
    count: usize,
    pub(super) secret: u64,
}

impl<'m> FlowTable<'m> {
    /// No rules, in this memory. Who does not know `secret` cannot choose names that collide.
    pub fn new(memory: TableMemory<'m>, secret: u64) -> Self {
        let TableMemory { rules, buckets, names, instructions } = memory;
        let mut free_rule = NONE;
        for (at, rule) in rules.iter_mut().enumerate().rev() {
            (rule.is_live, rule.next) = (false, free_rule);
            free_rule = at as u32;
        }
        let used = if buckets.is_empty() { 0 } else { 1 << buckets.len().ilog2() };
        let buckets = buckets.get_mut(..used).unwrap_or_default();
        buckets.fill(RuleBucket::vacant());
        Self {
            rules,
            buckets,
            names: NameStore::new(names),
            instructions: InstructionStore::new(instructions),
            subtables: Vec::new(),
            order: Vec::new(),
            depth: 0,
            prefixes: Prefixes::NONE,
            free_rule,
            count: 0,
            secret,
        }
    }

    /// The number of rules.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no rule.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The rule, if it is still there.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules
            .get(id.at as usize)
            .filter(|rule| rule.is_live && rule.generation == id.generation)
    }

    /// What the rule does.
    pub fn instructions(&self, id: RuleId) -> Option<&Instructions> {
        self.instructions.get(self.rule(id)?.instructions)
    }

    /// The rule's table, mask, and number of name components if it asks for a name.
    pub fn subtable(&self, id: RuleId) -> Option<(u8, &Fields, Option<u8>)> {
        let subtable = self.subtables.get(usize::from(self.rule(id)?.subtable))?;
        let depth = (subtable.depth != NO_NAME).then_some(subtable.depth);
        Some((subtable.table, &subtable.mask, depth))
    }

    /// Copies the TLV-VALUE of the name that the rule asks for to `out`; nothing when it asks for none or `out` is too short.
    pub fn name<'o>(&self, id: RuleId, out: &'o mut [u8]) -> Option<Name<'o>> {
        let (rule, (_, _, depth)) = (self.rule(id)?, self.subtable(id)?);
        depth?;
        let out = out.get_mut(..usize::from(rule.name_octets))?;
        self.names.copy(rule, out)?;
        Name::new(out).ok()
    }

    /// A rule that has just been found, with what it does, when that is no more than a rewrite.
    #[inline]
    pub(super) fn quick(&mut self, id: RuleId) -> Option<(&mut Rule, &Rewrite)> {
        let rule = self.rules.get_mut(id.at as usize)?;
        let rewrite = self.instructions.rewrite(rule.instructions)?;
        Some((rule, rewrite))
    }

    /// Counts a packet of so many octets for the rule.
    pub fn count_packet(&mut self, id: RuleId, now: Instant, octets: usize) {
        if let Some(rule) = self.rules.get_mut(id.at as usize) {
            rule.packets += 1;
            rule.octets += octets as u64;
            rule.used = now;
        }
    }

    /// Adds a rule. One of the same table, match and priority gives way to it.
    ///
    /// # Errors
    /// Why it is not added; the rules are then as they were, but for one that it would have replaced.
    pub fn add(&mut self, now: Instant, flow: &Flow<'_, '_>) -> Result<RuleId, TableError> {
        if flow.instructions.goto_table.is_some_and(|table| table <= flow.table) {
            return Err(TableError::GotoTable);
        }
        let depth = match flow.matching.name {
            None => NO_NAME,
            Some(name) => {
                let components = name.components().count();
                if components > MAX_NAME_COMPONENTS {
                    return Err(TableError::NameTooDeep);
                }
                components as u8
            }
        };
        if let Some(old) = self.find(flow.table, flow.priority, &flow.matching) {
            self.remove(old);
        }
        if self.free_rule == NONE {
            return Err(TableError::RulesFull);
        }
        let name = flow.matching.name.map_or(&[][..], |name| name.value());
        let more_name = self.names.store(name.get(INLINE_NAME_OCTETS..).unwrap_or_default())?;
        let Some(instructions) = self.instructions.take(flow.instructions) else {
            self.names.free(more_name);
            return Err(TableError::InstructionsFull);
        };
        let Some(subtable) = self.open_subtable(flow.table, depth, &flow.matching.mask) else {
            self.instructions.release(instructions);
            self.names.free(more_name);
            return Err(TableError::TooManyMasks);
        };
        let fields = flow.matching.fields.masked(&flow.matching.mask);
        let hash = self.rule_hash(subtable, &fields, flow.matching.name.as_ref());
        let head = self.head(hash, subtable, &fields, name);
        if self.alike(head).count() >= MAX_ALIKE {
            self.instructions.release(instructions);
            self.names.free(more_name);
            self.close_subtable(subtable);
            return Err(TableError::TooManyAlike);
        }
        let at = self.free_rule;
        let Some(rule) = self.rules.get_mut(at as usize) else { return Err(TableError::RulesFull) };
        self.free_rule = rule.next;
        let mut inline = [0; INLINE_NAME_OCTETS];
        for (to, from) in inline.iter_mut().zip(name) {
            *to = *from;
        }
        *rule = Rule {
            hash,
            name: inline,
            name_octets: name.len() as u16,
            subtable,
            more_name,
            next: NONE,
            alike: NONE,
            priority: flow.priority,
            is_live: true,
            has_program: flow.matching.program.is_some(),
            fields,
            generation: rule.generation,
            instructions,
            timeouts: flow.timeouts,
            flags: flow.flags,
            cookie: flow.cookie,
            program: flow.matching.program,
            packets: 0,
            octets: 0,
            added: now,
            used: now,
        };
        let id = RuleId { at, generation: rule.generation };
        self.hang(at, head);
        self.raise_priority(subtable, flow.priority);
        self.count += 1;
        Ok(id)
    }

    /// Gives a rule other instructions; its counters and times stay.
    ///
    /// # Errors
    /// Why not; the rule is then as it was.
    pub fn modify(&mut self, id: RuleId, instructions: &Instructions) -> Result<(), TableError> {
        let Some((table, ..)) = self.subtable(id) else { return Ok(()) };
        if instructions.goto_table.is_some_and(|next| next <= table) {
            return Err(TableError::GotoTable);
        }
        let new = self.instructions.take(instructions).ok_or(TableError::InstructionsFull)?;
        if let Some(rule) = self.rules.get_mut(id.at as usize) {
            let old = core::mem::replace(&mut rule.instructions, new);
            self.instructions.release(old);
        }
        Ok(())
    }

    /// Removes a rule; one that is no longer there changes nothing.
    pub fn remove(&mut self, id: RuleId) {
        let Some(rule) = self.rule(id) else { return };
        let (hash, subtable, instructions, more) =
            (rule.hash, rule.subtable, rule.instructions, rule.more_name);
        self.unhang(id.at, hash);
        self.names.free(more);
        self.instructions.release(instructions);
        if let Some(rule) = self.rules.get_mut(id.at as usize) {
            rule.is_live = false;
            rule.generation = rule.generation.wrapping_add(1);
            rule.next = self.free_rule;
            self.free_rule = id.at;
        }
        self.count = self.count.saturating_sub(1);
        self.close_subtable(subtable);
    }

    /// The rule of exactly this table, priority and match.
    pub fn find(&mut self, table: u8, priority: u16, matching: &Match<'_>) -> Option<RuleId> {
        let depth = match matching.name {
            None => NO_NAME,
            Some(name) => u8::try_from(name.components().count()).ok()?,
        };
        let subtable = self.subtables.iter().position(|kind| {
            kind.rules > 0
                && kind.table == table
                && kind.depth == depth
                && kind.mask == matching.mask
        })? as u16;
        let fields = matching.fields.masked(&matching.mask);
        let hash = self.rule_hash(subtable, &fields, matching.name.as_ref());
        let name = matching.name.map_or(&[][..], |name| name.value());
        let head = self.head(hash, subtable, &fields, name);
        self.alike(head).find_map(|(at, rule)| {
            let is_it = rule.priority == priority && rule.program == matching.program;
            is_it.then_some(RuleId { at, generation: rule.generation })
        })
    }

    /// The next rules from `cursor` on, for whoever looks at all of them a few at a time: the cursor to go on from, nothing at
    /// the end. At most `places` are looked at, so that packets need not wait.
    pub fn scan(
        &self,
        cursor: u32,
        places: u32,
        mut see: impl FnMut(RuleId, &Rule),
    ) -> Option<u32> {
        let end = cursor.saturating_add(places);
        for (at, rule) in (cursor..end).zip(self.rules.get(cursor as usize..)?) {
            if rule.is_live {
                see(RuleId { at, generation: rule.generation }, rule);
            }
        }
        ((end as usize) < self.rules.len()).then_some(end)
    }
}
