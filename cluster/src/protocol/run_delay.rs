//! The scheduling delay of a node: how late it acts, as it gets no processor when something is due.

use super::time::{Nanos, SECOND};

/// How long a delay counts, at least; at most twice as long. A machine whose processors are given
/// to others for some milliseconds does so again.
const PERIOD: Nanos = 10 * SECOND;

/// The longest delay of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunDelay {
    /// In this period and in the one before, and when this one began.
    present: Nanos,
    before: Nanos,
    since: Nanos,
}

impl RunDelay {
    /// What was due was done this late; 0 where it was in time.
    pub(super) fn note(&mut self, now: Nanos, delay: Nanos) {
        let passed = now.saturating_sub(self.since);
        if passed >= PERIOD {
            self.before = if passed < 2 * PERIOD { self.present } else { 0 };
            (self.present, self.since) = (0, now);
        }
        self.present = self.present.max(delay);
    }

    pub(super) fn most(&self) -> Nanos {
        self.present.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_counts_for_one_to_two_periods() {
        let mut run_delay = RunDelay::default();
        run_delay.note(PERIOD - 1, 5);
        run_delay.note(PERIOD, 3);
        assert_eq!(run_delay.most(), 5);
        run_delay.note(2 * PERIOD - 1, 0);
        assert_eq!(run_delay.most(), 5);
        run_delay.note(2 * PERIOD, 0);
        assert_eq!(run_delay.most(), 3);
        run_delay.note(3 * PERIOD, 0);
        assert_eq!(run_delay.most(), 0);
        run_delay.note(3 * PERIOD + 1, 7);
        run_delay.note(5 * PERIOD, 1);
        assert_eq!(run_delay.most(), 1, "after a long time without steps");
    }
}
