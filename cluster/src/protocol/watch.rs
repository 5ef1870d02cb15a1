//! What is known of the words of watched keys besides their TATs.
//!
//! *Since when a word has been in debt without a break.* A word that reaches zero forgets, and from
//! then on does not show what came before. It has not been empty between two observations if its
//! TAT has grown by no more than what was charged between them.
//!
//! *How much of a word is not recorded yet.* A check changes the word first and is recorded
//! afterwards: those that are decided together when all of them are, and their thread may lose its
//! processor in between. Such a word is ahead of what is known to have been charged, and its level
//! would seem to differ from other nodes' by that. With `ahead` the growth of the word since the
//! first observation (a new one after it was empty) less what was charged,
//!
//! ```text
//! unrecorded = ahead - (least ahead of the last one to two periods)
//! ```
//!
//! as no record is missing for a whole period: at its least, `ahead` contained none. So nothing is
//! known right after the first observation.

use rustc_hash::FxHashMap;

use super::delta::{KeyId, signed, word_id};
use super::time::{Nanos, SECOND};

/// Words that are watched, at most.
const MAX_WATCHED: usize = 4_096;
/// How long a word is watched after it was last of interest.
const KEEP: Nanos = 2 * SECOND;
/// A share of the burst tolerance, as a divisor: by as little a TAT may be ahead of what was
/// charged, for want of a check that is in the word and not yet recorded.
const SLACK_DIVISOR: i64 = 32;
/// How long until something that is in a word at the first observation is taken for recorded, at
/// least, and at how many observations.
const SETTLES: Nanos = SECOND / 100;
const MIN_OBSERVATIONS: u32 = 2;
/// By how much the protocol's clock and the limiter's may drift apart, as a divisor: each by 500
/// parts in a million of what is true.
const DRIFT_DIVISOR: u64 = 1_000;
/// For how long the least counts by which a word was ahead; up to twice that.
const PERIOD: Nanos = SECOND / 2;

#[derive(Debug, Default)]
pub(super) struct Watches(FxHashMap<KeyId, Watch>);

#[derive(Debug)]
struct Watch {
    /// The limit whose terms count.
    limit: u64,
    /// At the last observation.
    tat: i64,
    /// What was charged since the last observation.
    charged: i64,
    in_debt_since: Nanos,
    until: Nanos,
    ahead: Ahead,
}

/// A word at the last observation, with what was charged since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) tat: i64,
    /// What it contains that has not been recorded.
    pub(super) unrecorded: i64,
}

/// By how much a word is ahead of what was charged.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Since the first observation, less than at which it is not known to be.
    by: i64,
    first_at: Nanos,
    observed_at: Nanos,
    observations: u32,
    /// Of this period and the one before.
    least: i64,
    least_before: i64,
    period_at: Nanos,
}

impl Ahead {
    /// A first observation.
    fn new(now: Nanos) -> Self {
        Self {
            by: 0,
            first_at: now,
            observed_at: now,
            observations: 0,
            least: 0,
            least_before: 0,
            period_at: now,
        }
    }

    fn grow(&mut self, now: Nanos, by: i64) {
        let drifted = signed(now.saturating_sub(self.observed_at) / DRIFT_DIVISOR);
        self.by = self.by.saturating_add(by).saturating_sub(drifted);
        // Those of one step count as one: what gives threads the time to record is that it passes.
        self.observations = self.observations.saturating_add(u32::from(self.observed_at < now));
        self.observed_at = now;
        if now.saturating_sub(self.period_at) >= PERIOD {
            (self.least_before, self.least, self.period_at) = (self.least, self.by, now);
        }
        self.least = self.least.min(self.by);
    }

    /// `None` while that is not known.
    fn unrecorded(&self, now: Nanos) -> Option<i64> {
        let is_known =
            self.observations >= MIN_OBSERVATIONS && now.saturating_sub(self.first_at) >= SETTLES;
        is_known.then(|| self.by.saturating_sub(self.least.min(self.least_before)))
    }
}

impl Watches {
    /// Watches a key for a while, from now on if it was not watched; `debt` is all that its word
    /// owes. Nothing where there is no room.
    pub(super) fn keep(&mut self, now: Nanos, id: KeyId, debt: Nanos) {
        let (limit, word, until) = (id.0, word_id(id), now + KEEP);
        if let Some(watch) = self.0.get_mut(&word) {
            (watch.until, watch.limit) = (until, watch.limit.max(limit));
        } else if self.0.len() < MAX_WATCHED {
            let (tat, ahead) = (signed(now).saturating_add(signed(debt)), Ahead::new(now));
            let watch = Watch { limit, tat, charged: 0, in_debt_since: now, until, ahead };
            self.0.insert(word, watch);
        }
    }

    /// This much was charged to a key, or given back.
    pub(super) fn charged(&mut self, id: KeyId, debt: i64) {
        if let Some(watch) = self.0.get_mut(&word_id(id)) {
            watch.charged = watch.charged.saturating_add(debt);
        }
    }

    /// Observes every watched key: `debt` says what its word owes, and its burst tolerance.
    pub(super) fn observe(&mut self, now: Nanos, mut debt: impl FnMut(KeyId) -> (Nanos, Nanos)) {
        self.0.retain(|(_, key), watch| {
            let (debt, tolerance) = debt((watch.limit, *key));
            let tat = signed(now).saturating_add(signed(debt));
            let grown = tat.saturating_sub(watch.tat.saturating_add(watch.charged));
            if debt == 0 || grown > signed(tolerance) / SLACK_DIVISOR {
                watch.in_debt_since = now;
            }
            // It may have grown by what it was empty meanwhile.
            if debt == 0 || watch.tat < signed(now) {
                watch.ahead = Ahead::new(now);
            } else {
                watch.ahead.grow(now, grown);
            }
            (watch.tat, watch.charged) = (tat, 0);
            watch.until > now
        });
    }

    /// A key had no debt until `now`.
    pub(super) fn emptied(&mut self, now: Nanos, id: KeyId) {
        if let Some(watch) = self.0.get_mut(&word_id(id)) {
            watch.in_debt_since = now;
        }
    }

    /// The word of a key was moved to where is not known.
    pub(super) fn forget(&mut self, id: KeyId) {
        self.0.remove(&word_id(id));
    }

    /// Since when the key is known to have been in debt without a break.
    pub(super) fn in_debt_since(&self, id: KeyId) -> Option<Nanos> {
        self.0.get(&word_id(id)).map(|watch| watch.in_debt_since)
    }

    /// The word of a key; `None` while it is not known what it contains that is not recorded, and
    /// of a key that is not watched.
    pub(super) fn observed(&self, now: Nanos, id: KeyId) -> Option<Observed> {
        let watch = self.0.get(&word_id(id))?;
        let unrecorded = watch.ahead.unrecorded(now)?;
        Some(Observed { tat: watch.tat.saturating_add(watch.charged), unrecorded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = (1, 1);
    const TOLERANCE: Nanos = 1_000 * MS;
    const MS: Nanos = 1_000_000;

    #[test]
    fn a_word_that_grows_by_what_was_charged_stays_in_debt() {
        let mut watches = Watches::default();
        watches.keep(0, KEY, 500 * MS);
        watches.charged(KEY, signed(300 * MS));
        watches.observe(100 * MS, |_| (700 * MS, TOLERANCE));
        assert_eq!(watches.in_debt_since(KEY), Some(0));
        // It was empty for 200, and is charged 100.
        watches.charged(KEY, signed(100 * MS));
        watches.observe(1_100 * MS, |_| (0, TOLERANCE));
        assert_eq!(watches.in_debt_since(KEY), Some(1_100 * MS));
    }

    #[test]
    fn a_word_that_was_empty_between_two_looks_is_known_by_its_growth() {
        let mut watches = Watches::default();
        watches.keep(0, KEY, 50 * MS);
        watches.charged(KEY, signed(100 * MS));
        // Charged at 90: without a break it would be 60 ahead.
        watches.observe(100 * MS, |_| (90 * MS, TOLERANCE));
        assert_eq!(watches.in_debt_since(KEY), Some(100 * MS));
    }

    /// A word that is observed every 10 ms.
    struct Word {
        watches: Watches,
        now: Nanos,
        tat: i64,
    }

    impl Word {
        /// With this much in the word.
        fn new(debt: i64) -> Self {
            let mut watches = Watches::default();
            watches.keep(0, KEY, debt.unsigned_abs());
            Self { watches, now: 0, tat: debt }
        }

        /// Checks charge the word, and some of what was charged is recorded, in ms. What the word
        /// contains that is not.
        fn observe(&mut self, charged: i64, recorded: i64) -> Option<i64> {
            let unit = signed(MS);
            self.now += 10 * MS;
            self.tat += charged * unit;
            self.watches.charged(KEY, recorded * unit);
            let debt = (self.tat - signed(self.now)).unsigned_abs();
            self.watches.observe(self.now, |_| (debt, TOLERANCE));
            let word = self.watches.observed(self.now, KEY)?;
            assert_eq!(word.tat, self.tat);
            Some((word.unrecorded + unit / 2) / unit)
        }
    }

    #[test]
    fn what_a_word_contains_unrecorded_is_known() {
        let mut word = Word::new(signed(500 * MS));
        assert_eq!(word.observe(0, 0), None, "nothing is known of what it contains at first");
        assert_eq!(word.observe(50, 50), Some(0));
        assert_eq!(word.observe(100, 0), Some(100));
        assert_eq!(word.observe(0, 0), Some(100), "a thread waits");
        assert_eq!(word.observe(7, 90), Some(17));
        assert_eq!(word.observe(0, 17), Some(0));
    }

    #[test]
    fn what_is_not_recorded_at_the_first_look_is_known_once_it_is() {
        let mut word = Word::new(signed(500 * MS));
        assert_eq!(word.observe(0, 0), None);
        assert_eq!(
            word.observe(0, 200),
            Some(0),
            "which it may have contained at the first observation"
        );
        assert_eq!(word.observe(200, 0), Some(200));
        assert_eq!(word.observe(0, 200), Some(0));
    }

    #[test]
    fn a_word_that_was_empty_is_observed_anew() {
        let mut word = Word::new(signed(5 * MS));
        word.tat = signed(9 * MS);
        assert_eq!(word.observe(200, 200), None, "it was empty for a while");
        assert_eq!(word.observe(0, 0), None);
        assert_eq!(word.observe(0, 0), Some(0));
    }

    #[test]
    fn clocks_that_drift_apart_charge_nothing() {
        let mut word = Word::new(signed(500 * MS));
        for _ in 0..400 {
            // A thousandth of 10 ms.
            word.tat += signed(MS / 100);
            word.observe(10, 10);
            let known = word.watches.observed(word.now, KEY);
            assert!(known.is_none_or(|known| known.unrecorded == 0), "{known:?}");
        }
    }

    /// As after a change that filled what had drained.
    #[test]
    fn growth_that_is_not_recorded_is_taken_for_nothing_after_a_while() {
        let mut word = Word::new(signed(500 * MS));
        word.observe(0, 0);
        assert_eq!(word.observe(0, 0), Some(0));
        word.observe(400, 0);
        let observations = (1..200).find(|_| word.observe(10, 10) == Some(0)).unwrap();
        assert!((50..=110).contains(&observations), "{observations} observations");
    }
}
