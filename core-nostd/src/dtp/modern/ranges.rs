//! A small sorted set of ranges of numbers, of fixed capacity.

use core::ops::Range;
use heapless::Vec;

/// Up to `N` ranges, from the lowest up; no two of them touch.
#[derive(Clone, Debug, Default)]
pub(in crate::dtp) struct Ranges<const N: usize> {
    list: Vec<(u64, u64), N>,
}

impl<const N: usize> Ranges<N> {
    /// The empty set.
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The lowest range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.list.first().map(|&(start, end)| start..end)
    }

    /// The ranges from the highest down.
    pub fn descending(&self) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        self.list.iter().rev().map(|&(start, end)| start..end)
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a range; false, and nothing changed, when that would make one range more than there is room for.
    pub fn insert(&mut self, range: Range<u64>) -> bool {
        let Range { mut start, mut end } = range;
        if start >= end {
            return true;
        }
        let from = self.list.partition_point(|&(_, last)| last < start);
        let to = self.list.partition_point(|&(first, _)| first <= end);
        if from >= to {
            return self.list.insert(from, (start, end)).is_ok();
        }
        for &(first, last) in self.list.get(from..to).unwrap_or(&[]) {
            start = start.min(first);
            end = end.max(last);
        }
        if let Some(place) = self.list.get_mut(from) {
            *place = (start, end);
        }
        self.cut(from + 1, to);
        true
    }

    /// Takes the places `from..to` out.
    fn cut(&mut self, from: usize, to: usize) {
        let (length, gone) = (self.list.len(), to.saturating_sub(from));
        if gone > 0 && to <= length {
            self.list.copy_within(to.., from);
            self.list.truncate(length - gone);
        }
    }

    /// Adds a range. When there is no room, the two ranges with the least between them become one: the set then holds more than was put in.
    pub fn insert_widening(&mut self, range: Range<u64>) {
        while !self.insert(range.clone()) {
            let gaps = self.list.iter().zip(self.list.iter().skip(1)).map(|(a, b)| b.0 - a.1);
            let Some((place, _)) = gaps.enumerate().min_by_key(|&(_, gap)| gap) else { return };
            let upper = self.list.get(place + 1).map(|upper| upper.1);
            if let (Some(lower), Some(upper)) = (self.list.get_mut(place), upper) {
                lower.1 = upper;
            }
            self.cut(place + 1, place + 2);
        }
    }

    /// Adds a range; when there is no room the lowest goes.
    pub fn insert_forgetting(&mut self, range: Range<u64>) {
        if !self.insert(range.clone()) {
            self.cut(0, 1);
            self.insert(range);
        }
    }

    /// Takes a range out. Where that would make one range more than there is room for, nothing is taken out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut place = self.list.partition_point(|&(_, last)| last <= range.start);
        while let Some(&(first, last)) = self.list.get(place) {
            if first >= range.end {
                return;
            }
            let below = (first < range.start).then_some((first, range.start));
            let above = (last > range.end).then_some((range.end, last));
            let Some(slot) = self.list.get_mut(place) else { return };
            match (below, above) {
                (Some(below), Some(above)) => {
                    if !self.list.is_full() {
                        if let Some(slot) = self.list.get_mut(place) {
                            *slot = below;
                        }
                        let _ = self.list.insert(place + 1, above);
                    }
                    return;
                }
                (Some(rest), None) => {
                    *slot = rest;
                    place += 1;
                }
                (None, Some(rest)) => {
                    *slot = rest;
                    return;
                }
                (None, None) => self.cut(place, place + 1),
            }
        }
    }

    /// Takes out the range that begins at or below `next` and reaches beyond it, and all below; gives its end, or `next`.
    pub fn absorb(&mut self, next: u64) -> u64 {
        let mut end = next;
        let mut gone = 0;
        for &(first, last) in &self.list {
            if first > end {
                break;
            }
            end = end.max(last);
            gone += 1;
        }
        self.cut(0, gone);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn ranges_agree_with_a_set(steps in proptest::collection::vec((0u64..60, 0u64..12, 0u8..3), 1..80)) {
            let mut ranges = Ranges::<64>::new();
            let mut set = BTreeSet::new();
            for (start, length, kind) in steps {
                let range = start..start + length;
                match kind {
                    0 | 1 => { prop_assert!(ranges.insert(range.clone())); set.extend(range); }
                    _ => { ranges.remove(range.clone()); set.retain(|n| !range.contains(n)); }
                }
                let listed: Vec<u64> = ranges.descending().flat_map(|r| r.rev()).collect();
                prop_assert_eq!(listed, set.iter().rev().copied().collect::<Vec<_>>());
                prop_assert!(ranges.list.windows(2).all(|pair| pair[0].1 < pair[1].0), "no two touch");
            }
            let end = ranges.absorb(5);
            let mut expected = 5;
            while set.contains(&expected) { expected += 1; }
            prop_assert_eq!(end, expected);
            prop_assert!(ranges.first().is_none_or(|first| first.start > end));
        }

        #[test]
        fn a_full_set_holds_at_least_what_was_put_in(starts in proptest::collection::vec(0u64..1000, 1..80)) {
            let mut ranges = Ranges::<4>::new();
            for &start in &starts { ranges.insert_widening(start..start + 2); }
            for &start in &starts {
                prop_assert!(ranges.descending().any(|r| r.start <= start && start + 2 <= r.end));
            }
        }
    }

    #[test]
    fn a_full_set_refuses_or_forgets() {
        let mut ranges = Ranges::<2>::new();
        assert!(ranges.insert(0..2) && ranges.insert(4..6) && !ranges.insert(8..9));
        assert!(ranges.insert(2..3), "what only widens a range has room");
        ranges.insert_forgetting(8..9);
        assert!(ranges.descending().eq([8..9, 4..6]));
        ranges.remove(4..9);
        assert!(ranges.is_empty());
    }
}
