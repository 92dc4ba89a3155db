//! Kinds of rule, and the order in which they are tried.

use super::action::sort;
use super::fields::Fields;
use super::table::FlowTable;

/// Kinds of rule: masks together with numbers of name components.
pub(super) const MAX_SUBTABLES: usize = 256;

/// The number of components of rules without a name.
pub(super) const NO_NAME: u8 = u8::MAX;

/// Rules with one mask and one number of name components, in one table.
#[derive(Clone, Debug)]
pub(super) struct Subtable {
    pub(super) table: u8,
    /// Components of the name, or [`NO_NAME`].
    pub(super) depth: u8,
    /// Words of the mask that are not zero, by bit.
    pub(super) words: u16,
    /// No rule here has a higher priority.
    pub(super) max_priority: u16,
    pub(super) rules: u32,
    pub(super) mask: Fields,
}

impl FlowTable<'_> {
    /// The subtable of this kind, with one more rule; nothing when there are too many.
    pub(super) fn open_subtable(&mut self, table: u8, depth: u8, mask: &Fields) -> Option<u16> {
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
    pub(super) fn close_subtable(&mut self, at: u16) {
        let Some(kind) = self.subtables.get_mut(usize::from(at)) else { return };
        kind.rules = kind.rules.saturating_sub(1);
        if kind.rules == 0 {
            self.order.retain(|other| *other != at);
            self.update_depth();
        }
    }

    /// Notes that the subtable has a rule of this priority, and keeps the order of the search.
    pub(super) fn raise_priority(&mut self, subtable: u16, priority: u16) {
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
}

/// Longer names rank higher, and rules without one lowest.
pub(super) const fn name_rank(depth: u8) -> u8 {
    depth.wrapping_add(1)
}
