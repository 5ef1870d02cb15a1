//! What an algorithm has to provide: pure arithmetic on the value of one key.

use core::fmt::Debug;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::word::{State, Update};
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

/// Arithmetic on the value of one key: the content of its word, 0 for a key without one.
///
/// All methods are pure. `now` is the result of [`Algorithm::instant`]; a value may come from a
/// later `now` than the current one, which mints nothing.
pub trait Algorithm: Debug + Send + Sync {
    /// What the table knows of the values.
    type State: State + Debug + Send + Sync + 'static;

    /// Whether the meaning of values changes while the algorithm is in use, so that a value that
    /// was read earlier, and is no longer that of a word, may be mistaken for another.
    const CHANGES: bool = false;

    /// The table's part of the algorithm.
    fn state(&self) -> Self::State;

    /// A point in time on the scale of the values, at most the last one at which decisions are
    /// right: time stops there, and exhausted keys stay denied.
    fn instant(&self, now: Timestamp) -> u64;

    /// The value after admitting `cost`, at least 1; `None` when it does not fit.
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64>;

    /// As many units as fit, at most `cost`, which is at least 1, and the value after admitting
    /// them; `None` when none fits, or nothing is counted.
    ///
    /// Rules that read what may change meanwhile must read it once for both.
    fn admit_up_to(&self, value: u64, now: u64, cost: u64) -> Option<(u64, u64)> {
        if let Some(admitted) = self.admit(value, now, cost) {
            return Some((cost, admitted));
        }
        let left = self.answer(Update::Unchanged { found: value, now }, 0).remaining();
        let units = left.min(cost);
        if units == 0 {
            return None;
        }
        self.admit(value, now, units).map(|admitted| (units, admitted))
    }

    /// The value after charging `cost` whether or not it fits, saturating; `None` when it does not
    /// change.
    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64>;

    /// The value after charging a denied check of `cost`, until the debt is `bursts` bursts beyond
    /// the burst; `None` when it does not change. A cost that never fits is not charged, and rules
    /// whose state is not debt charge nothing.
    fn charge_denied(&self, _value: u64, _now: u64, _cost: u64, _bursts: u64) -> Option<u64> {
        None
    }

    /// The value after giving back `cost`, at best that of a fresh key; `None` when it does not
    /// change.
    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64>;

    /// The value after giving back `cost` units of the charge that left the value `charged`, as far
    /// as `value` still counts them; `None` when it does not change. Unlike a refund it does not
    /// touch later charges of others once that charge has drained.
    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64>;

    /// Whether the value owes more than `tolerance` nanoseconds. If so, for callers that wait under
    /// a burst that takes as long to refill, part of the debt starts later than `now`.
    fn owes_beyond(&self, _value: u64, _now: u64, _tolerance: u64) -> bool {
        false
    }

    /// The value of a key whose charges are forgotten; `None` when it has none.
    fn reset(&self, value: u64, now: u64) -> Option<u64>;

    /// Whether a fresh key admits `cost`: if not, no key ever does.
    fn can_fit(&self, cost: u64) -> bool;

    /// The answer to a check of `cost`, or to a peek (cost 0), whose effect on the word of the key
    /// was `update`.
    fn answer(&self, update: Update, cost: u64) -> Decision;
}

/// Values whose meaning does not depend on their clock.
pub trait Saves: Algorithm {
    /// By how many nanoseconds a key with the value `to` owes more at `now` than with `from`, to
    /// the nearest nanosecond; 0 where the state is not a debt.
    fn debt_change(&self, _from: u64, _to: u64, _now: u64) -> i64 {
        0
    }

    /// What the values count. Values are exchangeable between algorithms of the same kind only.
    fn kind(&self) -> SnapshotKind;

    /// What is held against a key with this value as of `now`; `None` for nothing. Durations are
    /// rounded up to a nanosecond.
    fn save(&self, value: u64, now: Timestamp) -> Option<SavedState>;

    /// A state that was saved `downtime` before `now`, as [`Saves::raise`] takes it: the value at
    /// `now`, saturating, an expired one once the state has expired, or what stands for that where
    /// values [change](Algorithm::CHANGES). `None` when the state is of another kind.
    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64>;

    /// The join (max) of `value` and `other`, a state that was loaded: a value at least as far from
    /// fresh as both; `None` when that is `value`.
    fn raise(&self, value: u64, now: u64, other: u64) -> Option<u64>;
}
