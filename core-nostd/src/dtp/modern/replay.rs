//! Which packet numbers have opened.

use super::ModernError;

/// Packet numbers, up to the highest, of which is known whether they have opened.
pub const REPLAY_WINDOW: u64 = 512;

const WORDS: usize = (REPLAY_WINDOW / 64) as usize;

/// The highest packet number that has opened and which of the [`REPLAY_WINDOW`] numbers up to it have.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    /// One more than the highest number; 0 when none has opened.
    next: u64,
    /// Bit `number % 512` of a number in the window.
    opened: [u64; WORDS],
}

impl ReplayWindow {
    /// A window in which nothing has opened.
    pub const fn new() -> Self {
        Self { next: 0, opened: [0; WORDS] }
    }

    /// A window in which all numbers below `next` have opened.
    pub const fn all_below(next: u64) -> Self {
        Self { next, opened: [u64::MAX; WORDS] }
    }

    /// The highest number that has opened.
    pub const fn highest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    fn place(number: u64) -> (usize, u64) {
        ((number % REPLAY_WINDOW / 64) as usize, 1 << (number % 64))
    }

    /// Whether a packet of this number may still be opened.
    ///
    /// # Errors
    /// [`ModernError::TooOld`] or [`ModernError::Replay`].
    pub fn check(&self, number: u64) -> Result<(), ModernError> {
        if number >= self.next {
            return Ok(());
        }
        if self.next - number > REPLAY_WINDOW {
            return Err(ModernError::TooOld);
        }
        let (word, bit) = Self::place(number);
        match self.opened.get(word) {
            Some(opened) if opened & bit == 0 => Ok(()),
            _ => Err(ModernError::Replay),
        }
    }

    /// Remembers that a packet has opened. To be called only for one that was authenticated.
    pub fn insert(&mut self, number: u64) {
        if number >= self.next {
            if number - self.next >= REPLAY_WINDOW {
                self.opened = [0; WORDS];
            } else {
                // The numbers in between have not opened: what stands in their places is older by a window.
                for skipped in self.next..number {
                    let (word, bit) = Self::place(skipped);
                    if let Some(opened) = self.opened.get_mut(word) {
                        *opened &= !bit;
                    }
                }
            }
            self.next = number.saturating_add(1);
        }
        let (word, bit) = Self::place(number);
        if let Some(opened) = self.opened.get_mut(word) {
            *opened |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The window says of every number what a set of all numbers says, but that it gives old ones up.
        #[test]
        fn the_window_agrees_with_a_set(steps in proptest::collection::vec((0u64..1500, any::<bool>()), 1..400), start in prop_oneof![Just(0), any::<u32>().prop_map(u64::from), Just(u64::MAX - 100_000)]) {
            let mut window = ReplayWindow::new();
            let mut all = BTreeSet::new();
            let mut base = start;
            for (offset, advance) in steps {
                if advance { base = base.saturating_add(offset / 8).min(u64::MAX - 2000); }
                let number = base + offset % 600;
                let highest = all.last().copied();
                let expected = if highest.is_some_and(|highest: u64| highest + 1 > number && highest + 1 - number > REPLAY_WINDOW) {
                    Err(ModernError::TooOld)
                } else if all.contains(&number) {
                    Err(ModernError::Replay)
                } else {
                    Ok(())
                };
                prop_assert_eq!(window.check(number), expected);
                if expected.is_ok() {
                    window.insert(number);
                    all.insert(number);
                }
                prop_assert_eq!(window.highest(), all.last().copied());
            }
        }
    }
}
