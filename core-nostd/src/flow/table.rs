//! The rules of all tables and the search for the best one.
//!
//! Rules with the same mask and the same number of name components lie in one subtable, in which a packet can match
//! only by equality: one hash finds all its candidates (tuple space search). Subtables are tried from the highest
//! priority down and, within a priority, from the longest name down, until nothing better can follow. For rules that
//! ask for a name and have one priority, that is a longest-prefix match with one hash for each length in use.

use super::action::sort;
use super::fields::Fields;
use super::hash::{Prefixes, equal_under, hash_fields, join, tag};
use super::instructions::{InstructionStore, Instructions, SharedInstructions};
use super::programs::ProgramMatch;
use super::rule::{
    CHUNK_OCTETS, Flow, INLINE_NAME_OCTETS, MAX_NAME_COMPONENTS, Match, NONE, NameChunk, Rule,
    RuleId,
};
use crate::ndn::Name;
use crate::node::Instant;
use heapless::Vec;

/// Kinds of rule: masks together with numbers of name components.
const MAX_SUBTABLES: usize = 256;

/// The number of components of rules without a name.
const NO_NAME: u8 = u8::MAX;

/// Rules of one table that differ in priority or program only, at most. A packet may look at each of them.
pub const MAX_ALIKE: usize = 256;

/// Rules in one bucket before it overflows.
const SLOTS: usize = 8;

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

/// A place that rules are found by, on memory of the caller: one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct RuleBucket {
    /// Some bits of each rule's hash, never 0; 0 is a free slot.
    tags: [u16; SLOTS],
    rules: [u32; SLOTS],
    overflow: u32,
}

impl RuleBucket {
    /// An empty one.
    pub const fn vacant() -> Self {
        Self { tags: [0; SLOTS], rules: [NONE; SLOTS], overflow: NONE }
    }
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

/// Rules with one mask and one number of name components, in one table.
#[derive(Clone, Debug)]
struct Subtable {
    table: u8,
    /// Components of the name, or [`NO_NAME`].
    depth: u8,
    /// Words of the mask that are not zero, by bit.
    words: u16,
    /// No rule here has a higher priority.
    max_priority: u16,
    rules: u32,
    mask: Fields,
}

/// The rules of all tables of a switch.
#[derive(Debug)]
pub struct FlowTable<'m> {
    rules: &'m mut [Rule],
    buckets: &'m mut [RuleBucket],
    names: &'m mut [NameChunk],
    instructions: InstructionStore<'m>,
    subtables: Vec<Subtable, MAX_SUBTABLES>,
    /// Subtables in use, in the order in which they are tried.
    order: Vec<u16, MAX_SUBTABLES>,
    /// The largest number of name components of any rule.
    depth: usize,
    prefixes: Prefixes,
    free_rule: u32,
    free_name: u32,
    count: usize,
    secret: u64,
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
        let mut free_name = NONE;
        for (at, chunk) in names.iter_mut().enumerate().rev() {
            chunk.next = free_name;
            free_name = at as u32;
        }
        let used = if buckets.is_empty() { 0 } else { 1 << buckets.len().ilog2() };
        let buckets = buckets.get_mut(..used).unwrap_or_default();
        buckets.fill(RuleBucket::vacant());
        Self {
            rules,
            buckets,
            names,
            instructions: InstructionStore::new(instructions),
            subtables: Vec::new(),
            order: Vec::new(),
            depth: 0,
            prefixes: Prefixes::NONE,
            free_rule,
            free_name,
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
        let (first, mut rest) = out.split_at_mut(out.len().min(INLINE_NAME_OCTETS));
        first.copy_from_slice(rule.name.get(..first.len())?);
        let mut at = rule.more_name;
        while !rest.is_empty() {
            let chunk = self.names.get(at as usize)?;
            let (to, after) = rest.split_at_mut(rest.len().min(CHUNK_OCTETS));
            to.copy_from_slice(chunk.octets.get(..to.len())?);
            (rest, at) = (after, chunk.next);
        }
        Name::new(out).ok()
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
        let more_name = self.store_name(name.get(INLINE_NAME_OCTETS..).unwrap_or_default())?;
        let Some(instructions) = self.instructions.take(flow.instructions) else {
            self.free_name_chunks(more_name);
            return Err(TableError::InstructionsFull);
        };
        let Some(subtable) = self.open_subtable(flow.table, depth, &flow.matching.mask) else {
            self.instructions.release(instructions);
            self.free_name_chunks(more_name);
            return Err(TableError::TooManyMasks);
        };
        let fields = flow.matching.fields.masked(&flow.matching.mask);
        let hash = self.rule_hash(subtable, &fields, flow.matching.name.as_ref());
        let head = self.head(hash, subtable, &fields, name);
        if self.alike(head).count() >= MAX_ALIKE {
            self.instructions.release(instructions);
            self.free_name_chunks(more_name);
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
        self.free_name_chunks(more);
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

    /// Makes the hashes of a packet's name, which [`FlowTable::lookup_prepared`] then uses in every table.
    pub(super) fn prepare(&mut self, name: Option<&Name<'_>>) {
        self.prefixes.set(name, self.depth, self.secret);
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
        self.lookup_prepared(table, fields, name, |_| false)
    }

    pub(super) fn lookup_prepared(
        &self,
        table: u8,
        fields: &Fields,
        name: Option<&Name<'_>>,
        mut accept: impl FnMut(&ProgramMatch) -> bool,
    ) -> Option<RuleId> {
        let name = name.map_or(&[][..], |name| name.value());
        let mut best: Option<(u16, u8, RuleId)> = None;
        // Subtables that differ only in the length of the name have the same fields to hash.
        let mut hashed: Option<(&Fields, u64)> = None;
        for number in &self.order {
            let Some(kind) = self.subtables.get(usize::from(*number)) else { continue };
            if kind.table != table {
                continue;
            }
            let rank = (kind.max_priority, name_rank(kind.depth));
            if best.is_some_and(|(priority, depth, _)| (priority, depth) >= rank) {
                break;
            }
            let prefix = if kind.depth == NO_NAME {
                Some((0, 0))
            } else {
                self.prefixes.get(usize::from(kind.depth))
            };
            let Some((name_hash, end)) = prefix else { continue };
            let fields_hash = match hashed {
                Some((mask, hash)) if *mask == kind.mask => hash,
                _ => {
                    let hash = hash_fields(fields, &kind.mask, kind.words, self.secret);
                    hashed = Some((&kind.mask, hash));
                    hash
                }
            };
            let hash = join(fields_hash, name_hash, *number);
            let prefix = name.get(..end).unwrap_or_default();
            let head = self.candidates(hash).find(|(_, rule)| {
                rule.hash == hash
                    && rule.subtable == *number
                    && equal_under(&rule.fields, fields, &kind.mask)
                    && self.has_name(rule, prefix)
            });
            let mut next = head;
            while let Some((at, rule)) = next {
                let rank = (rule.priority, name_rank(kind.depth));
                if best.is_some_and(|(priority, depth, _)| (priority, depth) >= rank) {
                    break;
                }
                if rule.program.as_ref().is_none_or(&mut accept) {
                    best = Some((rank.0, rank.1, RuleId { at, generation: rule.generation }));
                    break;
                }
                next = self.rules.get(rule.alike as usize).map(|after| (rule.alike, after));
            }
        }
        best.map(|(_, _, id)| id)
    }

    /// The rules whose hash may be this one.
    fn candidates(&self, hash: u64) -> impl Iterator<Item = (u32, &Rule)> {
        let tag = tag(hash);
        let bucket = self.buckets.get(self.bucket_of(hash));
        let slots = bucket.into_iter().flat_map(move |bucket| {
            bucket
                .tags
                .iter()
                .zip(&bucket.rules)
                .filter_map(move |(slot, rule)| (*slot == tag).then_some(*rule))
        });
        let mut next = bucket.map_or(NONE, |bucket| bucket.overflow);
        let chain = core::iter::from_fn(move || {
            let at = next;
            next = self.rules.get(at as usize)?.next;
            Some(at)
        });
        slots.chain(chain).filter_map(|at| Some((at, self.rules.get(at as usize)?)))
    }

    /// The first of the rules that match this.
    fn head(&self, hash: u64, subtable: u16, fields: &Fields, name: &[u8]) -> u32 {
        let is_it = |rule: &Rule| self.is_match(rule, hash, subtable, fields, name);
        self.candidates(hash).find(|(_, rule)| is_it(rule)).map_or(NONE, |(at, _)| at)
    }

    /// The rules alike from this one on.
    fn alike(&self, head: u32) -> impl Iterator<Item = (u32, &Rule)> {
        let mut next = head;
        core::iter::from_fn(move || {
            let at = next;
            let rule = self.rules.get(at as usize)?;
            next = rule.alike;
            Some((at, rule))
        })
    }

    fn is_match(
        &self,
        rule: &Rule,
        hash: u64,
        subtable: u16,
        fields: &Fields,
        name: &[u8],
    ) -> bool {
        rule.hash == hash
            && rule.subtable == subtable
            && rule.fields == *fields
            && self.has_name(rule, name)
    }

    fn has_name(&self, rule: &Rule, name: &[u8]) -> bool {
        if usize::from(rule.name_octets) != name.len() {
            return false;
        }
        let (first, mut rest) = name.split_at(name.len().min(INLINE_NAME_OCTETS));
        if rule.name.get(..first.len()) != Some(first) {
            return false;
        }
        let mut at = rule.more_name;
        while !rest.is_empty() {
            let Some(chunk) = self.names.get(at as usize) else { return false };
            let (octets, after) = rest.split_at(rest.len().min(CHUNK_OCTETS));
            if chunk.octets.get(..octets.len()) != Some(octets) {
                return false;
            }
            (rest, at) = (after, chunk.next);
        }
        true
    }

    fn rule_hash(&mut self, subtable: u16, fields: &Fields, name: Option<&Name<'_>>) -> u64 {
        let Some(kind) = self.subtables.get(usize::from(subtable)) else { return 0 };
        let name_hash = if kind.depth == NO_NAME {
            0
        } else {
            self.prefixes.set(name, usize::from(kind.depth), self.secret);
            self.prefixes.get(usize::from(kind.depth)).map_or(0, |(hash, _)| hash)
        };
        join(hash_fields(fields, &kind.mask, kind.words, self.secret), name_hash, subtable)
    }

    fn bucket_of(&self, hash: u64) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    /// Puts a rule among those alike, of which `head` is the first.
    fn hang(&mut self, at: u32, head: u32) {
        let Some((rank, hash)) = self.rules.get(at as usize).map(|rule| (rule.rank(), rule.hash))
        else {
            return;
        };
        let before = self.alike(head).take_while(|(_, rule)| rule.rank() >= rank).last();
        match before.map(|(before, _)| before) {
            Some(before) => {
                let Some(before) = self.rules.get_mut(before as usize) else { return };
                let after = core::mem::replace(&mut before.alike, at);
                if let Some(rule) = self.rules.get_mut(at as usize) {
                    rule.alike = after;
                }
            }
            None => {
                if head != NONE {
                    self.unlink(head, hash);
                }
                self.link(at, hash);
                if let Some(rule) = self.rules.get_mut(at as usize) {
                    rule.alike = head;
                }
            }
        }
    }

    /// Takes a rule out of those alike.
    fn unhang(&mut self, at: u32, hash: u64) {
        let Some(rule) = self.rules.get_mut(at as usize) else { return };
        let after = core::mem::replace(&mut rule.alike, NONE);
        let (subtable, fields) = (rule.subtable, rule.fields);
        let first = self.candidates(hash).find(|(first, rule)| {
            rule.hash == hash
                && rule.subtable == subtable
                && rule.fields == fields
                && (*first == at || self.alike(*first).any(|(_, rule)| rule.alike == at))
        });
        match first.map(|(first, _)| first) {
            Some(first) if first != at => {
                let before = self.alike(first).find(|(_, rule)| rule.alike == at);
                let before = before.map_or(NONE, |(before, _)| before);
                if let Some(before) = self.rules.get_mut(before as usize) {
                    before.alike = after;
                }
            }
            _ => {
                self.unlink(at, hash);
                if after != NONE {
                    self.link(after, hash);
                }
            }
        }
    }

    fn link(&mut self, at: u32, hash: u64) {
        let bucket = self.bucket_of(hash);
        let Some(bucket) = self.buckets.get_mut(bucket) else { return };
        let mut slots = bucket.tags.iter_mut().zip(&mut bucket.rules);
        if let Some((slot, rule)) = slots.find(|(slot, _)| **slot == 0) {
            (*slot, *rule) = (tag(hash), at);
            return;
        }
        if let Some(rule) = self.rules.get_mut(at as usize) {
            rule.next = core::mem::replace(&mut bucket.overflow, at);
        }
    }

    fn unlink(&mut self, at: u32, hash: u64) {
        let bucket = self.bucket_of(hash);
        let Some(bucket) = self.buckets.get_mut(bucket) else { return };
        let mut slots = bucket.tags.iter_mut().zip(&mut bucket.rules);
        if let Some((slot, rule)) = slots.find(|(slot, rule)| **slot != 0 && **rule == at) {
            // A rule that overflowed takes the free slot.
            let moved = bucket.overflow;
            match self.rules.get_mut(moved as usize) {
                Some(other) => {
                    (*slot, *rule) = (tag(other.hash), moved);
                    bucket.overflow = core::mem::replace(&mut other.next, NONE);
                }
                None => (*slot, *rule) = (0, NONE),
            }
            return;
        }
        let after = self.rules.get(at as usize).map_or(NONE, |rule| rule.next);
        if bucket.overflow == at {
            bucket.overflow = after;
            return;
        }
        let mut before = bucket.overflow;
        while let Some(rule) = self.rules.get_mut(before as usize) {
            if rule.next == at {
                rule.next = after;
                return;
            }
            before = rule.next;
        }
    }

    /// The subtable of this kind, with one more rule; nothing when there are too many.
    fn open_subtable(&mut self, table: u8, depth: u8, mask: &Fields) -> Option<u16> {
        let is_it = |kind: &Subtable| {
            kind.rules > 0 && kind.table == table && kind.depth == depth && kind.mask == *mask
        };
        if let Some(at) = self.subtables.iter().position(is_it) {
            self.subtables.get_mut(at)?.rules += 1;
            return Some(at as u16);
        }
        let mut words = 0;
        for (bit, word) in mask.words().iter().enumerate() {
            words |= u16::from(*word != 0) << bit;
        }
        let new = Subtable { table, depth, words, max_priority: 0, rules: 1, mask: *mask };
        let at = match self.subtables.iter().position(|kind| kind.rules == 0) {
            Some(at) => {
                *self.subtables.get_mut(at)? = new;
                at
            }
            None => {
                self.subtables.push(new).ok()?;
                self.subtables.len() - 1
            }
        };
        self.order.push(at as u16).ok()?;
        self.update_depth();
        Some(at as u16)
    }

    /// One rule fewer is in the subtable.
    fn close_subtable(&mut self, at: u16) {
        let Some(kind) = self.subtables.get_mut(usize::from(at)) else { return };
        kind.rules = kind.rules.saturating_sub(1);
        if kind.rules == 0 {
            self.order.retain(|other| *other != at);
            self.update_depth();
        }
    }

    /// Notes that the subtable has a rule of this priority, and keeps the order of the search.
    fn raise_priority(&mut self, subtable: u16, priority: u16) {
        let Some(kind) = self.subtables.get_mut(usize::from(subtable)) else { return };
        if kind.rules > 1 && kind.max_priority >= priority {
            return;
        }
        kind.max_priority = kind.max_priority.max(priority);
        let subtables = &self.subtables;
        let rank = |at: &u16| {
            let kind = subtables.get(usize::from(*at));
            kind.map(|kind| (kind.max_priority, name_rank(kind.depth)))
        };
        sort(&mut self.order, |a, b| rank(a) > rank(b));
    }

    fn update_depth(&mut self) {
        let depths = self.order.iter().filter_map(|at| self.subtables.get(usize::from(*at)));
        let deepest = depths.map(|kind| kind.depth).filter(|depth| *depth != NO_NAME).max();
        self.depth = usize::from(deepest.unwrap_or(0));
    }

    fn store_name(&mut self, octets: &[u8]) -> Result<u32, TableError> {
        let mut first = NONE;
        // From the end, so that each chunk knows the next one.
        for piece in octets.chunks(CHUNK_OCTETS).rev() {
            let at = self.free_name;
            let Some(chunk) = self.names.get_mut(at as usize) else {
                self.free_name_chunks(first);
                return Err(TableError::NamesFull);
            };
            self.free_name = chunk.next;
            for (to, from) in chunk.octets.iter_mut().zip(piece) {
                *to = *from;
            }
            chunk.next = core::mem::replace(&mut first, at);
        }
        Ok(first)
    }

    fn free_name_chunks(&mut self, first: u32) {
        let mut at = first;
        while let Some(chunk) = self.names.get_mut(at as usize) {
            let next = core::mem::replace(&mut chunk.next, self.free_name);
            self.free_name = at;
            at = next;
        }
    }
}

/// Longer names rank higher, and rules without one lowest.
const fn name_rank(depth: u8) -> u8 {
    depth.wrapping_add(1)
}
