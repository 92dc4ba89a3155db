//! Where rules lie: in the buckets of a hash table, each with those behind it that are alike.

use super::fields::Fields;
use super::hash::tag;
use super::rule::{NONE, Rule};
use super::steps;
use super::table::FlowTable;
use crate::prefetch::prefetch;

/// Rules in one bucket before it overflows.
const SLOTS: usize = 8;

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

    /// The slots whose tag is that of the hash: for each the highest of its 16 bits. A slot after one of them may be there without reason.
    #[inline]
    fn slots_of(&self, hash: u64) -> u128 {
        const LOW: u128 = 0x0001_0001_0001_0001_0001_0001_0001_0001;
        let tags = if cfg!(target_endian = "little") {
            zerocopy::transmute!(self.tags)
        } else {
            self.tags.iter().rev().fold(0, |tags, tag| tags << 16 | u128::from(*tag))
        };
        let half = u128::from(u64::from(tag(hash)) * (LOW as u64));
        let difference = tags ^ (half << 64 | half);
        difference.wrapping_sub(LOW) & !difference & LOW << 15
    }
}

impl FlowTable<'_> {
    /// The rules whose hash may be this one.
    #[inline]
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = (u32, &Rule)> {
        let bucket = self.buckets.get(self.bucket_of(hash));
        let mut slots = bucket.map_or(0, |bucket| bucket.slots_of(hash));
        let mut next = bucket.map_or(NONE, |bucket| bucket.overflow);
        core::iter::from_fn(move || {
            steps::count();
            if slots != 0 {
                let slot = (slots.trailing_zeros() / 16) as usize;
                slots &= slots - 1;
                let at = *bucket?.rules.get(slot)?;
                return Some((at, self.rules.get(at as usize)?));
            }
            let at = next;
            let rule = self.rules.get(at as usize)?;
            next = rule.next;
            Some((at, rule))
        })
    }

    /// Asks for the bucket that rules with this hash are in.
    #[inline]
    pub(super) fn expect_bucket(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(self.bucket_of(hash)) {
            prefetch(bucket);
        }
    }

    /// Asks for the rule with this hash, whose bucket has been asked for before.
    #[inline]
    pub(super) fn expect_rule(&self, hash: u64) {
        let Some(bucket) = self.buckets.get(self.bucket_of(hash)) else { return };
        let slots = bucket.slots_of(hash);
        if slots == 0 {
            return;
        }
        let at = bucket.rules.get((slots.trailing_zeros() / 16) as usize);
        if let Some(rule) = at.and_then(|at| self.rules.get(*at as usize)) {
            prefetch(&rule.hash);
            prefetch(&rule.packets);
        }
    }

    /// The first of the rules that match this.
    pub(super) fn head(&self, hash: u64, subtable: u16, fields: &Fields, name: &[u8]) -> u32 {
        let is_it = |rule: &Rule| self.is_match(rule, hash, subtable, fields, name);
        self.candidates(hash).find(|(_, rule)| is_it(rule)).map_or(NONE, |(at, _)| at)
    }

    /// The rules alike from this one on.
    pub(super) fn alike(&self, head: u32) -> impl Iterator<Item = (u32, &Rule)> {
        let mut next = head;
        core::iter::from_fn(move || {
            steps::count();
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
            && self.names.is(rule, name)
    }

    fn bucket_of(&self, hash: u64) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    /// Puts a rule among those alike, of which `head` is the first.
    pub(super) fn hang(&mut self, at: u32, head: u32) {
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
    pub(super) fn unhang(&mut self, at: u32, hash: u64) {
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
            steps::count();
            if rule.next == at {
                rule.next = after;
                return;
            }
            before = rule.next;
        }
    }
}
