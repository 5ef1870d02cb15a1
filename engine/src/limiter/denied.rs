//! Charging denied checks, so that a client that keeps hammering stays banned.
//!
//! A denial that charges is one update of the word, like an admission: the next reader of the word
//! finds both the decision and the charge. Which of the two it was follows from the word before,
//! since only what does not fit is denied; [`Outcome`] records it for the answer.

use crate::base::decision::Decision;
use crate::base::key::KeyHash;
use crate::contract::outcome::Outcome;
use crate::rule::algorithm::Algorithm;
use crate::table::Table;
use crate::table::answer::answer;

use super::change::Change;

/// A check of a key, and its time: `now` and `reread` are as in
/// [`Home::update`](crate::table::Home::update).
pub(super) struct TimedCheck<'t, S, R> {
    pub(super) table: &'t Table<S>,
    pub(super) key: KeyHash,
    pub(super) cost: u64,
    pub(super) now: u64,
    pub(super) reread: R,
}

/// Decides a check by the word and charges it; a denial, if denials are charged, until the debt is
/// `bursts` bursts beyond the burst. What has changed is passed to `changed`.
#[inline(never)]
pub(super) fn decide_charging<A: Algorithm>(
    bursts: Option<u64>,
    algorithm: &A,
    check: TimedCheck<'_, A::State, impl Fn() -> u64>,
    changed: impl FnOnce(Change),
) -> Decision {
    let TimedCheck { table, key, cost, now, reread } = check;
    let outcome = Outcome::new();
    let update = table.home(key).update(now, reread, |value, now| match cost {
        // A peek charges nothing.
        0 => None,
        _ => outcome.record(algorithm.admit(value, now, cost), || {
            algorithm.charge_denied(value, now, cost, bursts?)
        }),
    });
    if let Some(change) = Change::of(update, |_, _| outcome.charged()) {
        changed(change);
    }
    answer(table, algorithm, key, outcome.update_and_receipt(update).0, cost)
}
