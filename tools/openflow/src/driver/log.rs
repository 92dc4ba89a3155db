//! Log lines, so few of them that nobody can fill a disk with connections that come and go.

use std::time::Instant;
use tracing::{info, warn};

/// Lines a second, in the long run and at once.
const LINES_A_SECOND: f64 = 10.0;
const LINES_AT_ONCE: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Log {
    lines: f64,
    since: Instant,
    left_out: u64,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { lines: LINES_AT_ONCE, since: Instant::now(), left_out: 0 }
    }

    pub(super) fn info(&mut self, line: impl FnOnce() -> String) {
        if self.has_room() {
            info!("{}", line());
        }
    }

    pub(super) fn warn(&mut self, line: impl FnOnce() -> String) {
        if self.has_room() {
            warn!("{}", line());
        }
    }

    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        let more = now.duration_since(self.since).as_secs_f64() * LINES_A_SECOND;
        (self.lines, self.since) = ((self.lines + more).min(LINES_AT_ONCE), now);
        if self.lines < 1.0 {
            self.left_out += 1;
            return false;
        }
        self.lines -= 1.0;
        if self.left_out > 0 {
            warn!("{} lines about connections were left out: there were too many", self.left_out);
            self.left_out = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut() {
        let mut log = Log::new();
        let told = (0..10_000).filter(|_| log.has_room()).count();
        assert!((100..10_000).contains(&told), "{told}");
        assert_eq!(log.left_out as usize, 10_000 - told);
    }
}
