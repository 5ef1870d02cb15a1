//! Since when words have been in debt without a break.
//!
//! A word that reaches zero forgets: from then on it does not show what came before. Between two
//! looks at a key's TAT it has not, if the TAT has grown by no more than what was charged.

use std::collections::BTreeMap;

use super::delta::{KeyId, signed};
use super::time::{Nanos, SECOND};

/// Keys that are watched, at most.
const MAX_WATCHED: usize = 4_096;
/// How long a key is watched after it was last of interest.
const KEEP: Nanos = 2 * SECOND;
/// A share of the burst tolerance, one in so many: by as little a TAT may be ahead of what was
/// charged, for want of a check that is in the word and not yet recorded.
const SLACK: i64 = 32;

#[derive(Debug, Default)]
pub(super) struct Watches(BTreeMap<KeyId, Watch>);

#[derive(Debug)]
struct Watch {
    tat: i64,
    /// What was charged since the last look.
    charged: i64,
    in_debt_since: Nanos,
    until: Nanos,
}

impl Watches {
    /// Watches a key for a while, from now on if it was not watched.
    pub(super) fn keep(&mut self, now: Nanos, id: KeyId, debt: Nanos) {
        let until = now + KEEP;
        if let Some(watch) = self.0.get_mut(&id) {
            watch.until = until;
        } else if self.0.len() < MAX_WATCHED {
            let tat = signed(now).saturating_add(signed(debt));
            self.0.insert(id, Watch { tat, charged: 0, in_debt_since: now, until });
        }
    }

    /// This much was charged to a key, or given back.
    pub(super) fn charged(&mut self, id: KeyId, debt: i64) {
        if let Some(watch) = self.0.get_mut(&id) {
            watch.charged = watch.charged.saturating_add(debt);
        }
    }

    /// Looks at every watched key: `debt` says what it owes, and its burst tolerance.
    pub(super) fn look(&mut self, now: Nanos, mut debt: impl FnMut(KeyId) -> (Nanos, Nanos)) {
        self.0.retain(|id, watch| {
            let (debt, tolerance) = debt(*id);
            let tat = signed(now).saturating_add(signed(debt));
            let expected = watch.tat.saturating_add(watch.charged);
            if debt == 0 || tat.saturating_sub(expected) > signed(tolerance) / SLACK {
                watch.in_debt_since = now;
            }
            (watch.tat, watch.charged) = (tat, 0);
            watch.until > now
        });
    }

    /// A key had no debt until `now`.
    pub(super) fn emptied(&mut self, now: Nanos, id: KeyId) {
        if let Some(watch) = self.0.get_mut(&id) {
            watch.in_debt_since = now;
        }
    }

    /// Since when the key is known to have been in debt without a break.
    pub(super) fn in_debt_since(&self, id: KeyId) -> Option<Nanos> {
        self.0.get(&id).map(|watch| watch.in_debt_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = (1, 1);
    const TOLERANCE: Nanos = 1_000;

    #[test]
    fn a_word_that_grows_by_what_was_charged_stays_in_debt() {
        let mut watches = Watches::default();
        watches.keep(0, KEY, 500);
        watches.charged(KEY, 300);
        watches.look(100, |_| (700, TOLERANCE));
        assert_eq!(watches.in_debt_since(KEY), Some(0));
        // It was empty for 200, and is charged 100.
        watches.charged(KEY, 100);
        watches.look(1_100, |_| (0, TOLERANCE));
        assert_eq!(watches.in_debt_since(KEY), Some(1_100));
    }

    #[test]
    fn a_word_that_was_empty_between_two_looks_is_known_by_its_growth() {
        let mut watches = Watches::default();
        watches.keep(0, KEY, 50);
        watches.charged(KEY, 100);
        // Charged at 90: without a break it would be 60 ahead.
        watches.look(100, |_| (90, TOLERANCE));
        assert_eq!(watches.in_debt_since(KEY), Some(100));
    }
}
