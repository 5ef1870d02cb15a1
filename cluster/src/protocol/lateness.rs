//! How late a node looks at its words, as it gets no processor when that is due.

use super::time::{Nanos, SECOND};

/// How long what was seen counts, at least; at most twice as long. A machine whose processors are
/// given to others for some milliseconds does so again.
const PERIOD: Nanos = 10 * SECOND;

/// How late looks lately were, at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// In this period and in the one before, and when this one began.
    present: Nanos,
    before: Nanos,
    since: Nanos,
}

impl Lateness {
    /// A look that was due was this late; 0 where it came in time.
    pub(super) fn note(&mut self, now: Nanos, late: Nanos) {
        let passed = now.saturating_sub(self.since);
        if passed >= PERIOD {
            self.before = if passed < 2 * PERIOD { self.present } else { 0 };
            (self.present, self.since) = (0, now);
        }
        self.present = self.present.max(late);
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
        let mut lateness = Lateness::default();
        lateness.note(PERIOD - 1, 5);
        lateness.note(PERIOD, 3);
        assert_eq!(lateness.most(), 5);
        lateness.note(2 * PERIOD - 1, 0);
        assert_eq!(lateness.most(), 5);
        lateness.note(2 * PERIOD, 0);
        assert_eq!(lateness.most(), 3);
        lateness.note(3 * PERIOD, 0);
        assert_eq!(lateness.most(), 0);
        lateness.note(3 * PERIOD + 1, 7);
        lateness.note(5 * PERIOD, 1);
        assert_eq!(lateness.most(), 1, "after a long time without looks");
    }
}
