//! Notifying an observer of each change of what a key owes.
//!
//! The changes of a key's word are those of compare-and-swaps, one after another, and each is
//! reported by the thread that made it: so the sum of the reports is what happened to the word, in
//! whatever order they are made.

use crate::base::key::KeyHash;
use crate::base::word::Update;
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Saves as _;
use crate::time::Clock;

use super::Limiter;
use super::change::Change;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Notifies the observer of what an update of the key has changed, if it observes debt.
    /// `decide` is that of the update, or returns what its last call did.
    #[expect(
        clippy::inline_always,
        reason = "without an observer of debt there must be nothing left of it"
    )]
    #[inline(always)]
    pub(super) fn notify_of_update(
        &self,
        key: KeyHash,
        update: Update,
        decide: impl FnOnce(u64, u64) -> Option<u64>,
    ) {
        if self.observer.observes_debt() {
            if let Some(change) = Change::of(update, decide) {
                self.notify_of_change(key, change);
            }
        }
    }

    /// Notifies the observer of a change, if it observes debt.
    #[inline]
    pub(super) fn notify_of_change(&self, key: KeyHash, change: Change) {
        if self.observer.observes_debt() {
            let Change { from, to, now } = change;
            let by = self.algorithm().debt_change(from, to, now);
            if by != 0 {
                self.observer.on_debt_change(key, by);
            }
        }
    }
}
