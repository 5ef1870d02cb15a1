//! A quota that can be changed while it is enforced.

mod cell;
mod epoch;
mod given;
#[cfg(all(test, loom))]
mod models;
mod saves;

use core::fmt;
use core::time::Duration;
use std::sync::PoisonError;

use crate::base::decision::Decision;
use crate::base::sync::{Arc, Mutex, MutexGuard};
use crate::base::word::{State, Update};
use crate::rule::algorithm::Algorithm;
use crate::rule::gcra::{self, Bucket, Gcra, Plans, Scale, Scaled, View};
use crate::rule::quota::{Quota, QuotaError};
use crate::rule::{DebtRule, Rule, sealed};
use crate::time::Timestamp;

use cell::Cell;
use epoch::{Epoch, RULE, TIME, WORDS, instant, time_from_words};
pub use given::Given;

/// A [`Quota`] that can be changed while it is enforced: by
/// [`Limiter::set_quota`](crate::Limiter::set_quota) or
/// [`DirectLimiter::set_quota`](crate::DirectLimiter::set_quota).
///
/// Guarantees and operations are those of a quota, except that there are no leases: what a thread
/// holds would have to change with the quota.
///
/// # When to use it
/// When limits are changed at run time: by an operator, a reloaded configuration, or load. Where
/// each customer has a quota of its own, give it with the call instead:
/// [`Limiter::with_quota`](crate::Limiter::with_quota).
///
/// # Cost
/// A check reads the quota each time and takes 1.5 to 1.9 times as long as one under a fixed quota.
/// Memory per key is the same. The error is that of a quota, plus what [`Inheritance`] states for
/// each change.
///
/// ```
/// use tidegate_engine::rule::Inheritance;
/// use tidegate_engine::{Limiter, LiveQuota, Quota};
///
/// let limiter = Limiter::builder(LiveQuota::new(Quota::per_second(5))).build()?;
/// assert!(limiter.check_n("user:42", 5).is_allowed());
/// limiter.set_quota(Quota::per_second(50), Inheritance::Proportional)?;
/// assert!(limiter.check_n("user:42", 45).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveQuota(Quota);

impl LiveQuota {
    /// A rule that enforces `quota` until it is replaced.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self(quota)
    }

    /// The initial quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.0
    }
}

impl From<Quota> for LiveQuota {
    fn from(quota: Quota) -> Self {
        Self(quota)
    }
}

impl sealed::Sealed for LiveQuota {}

impl DebtRule for LiveQuota {}

impl Rule for LiveQuota {
    type Algorithm = LiveGcra;
    type Given<'a> = Given<'a>;

    const HAS_MODES: bool = true;

    fn algorithm(&self) -> Result<LiveGcra, QuotaError> {
        let cell = Cell::new(Epoch::first(self.0)?.to_words());
        Ok(LiveGcra { shared: Arc::new(Shared { cell, setting: Mutex::new(()) }) })
    }

    fn given<'a>(algorithm: &'a LiveGcra, quota: &'a Quota) -> Option<Given<'a>> {
        Some(gcra::given(algorithm, quota))
    }

    /// Of the quota in force.
    fn refill_time(&self, algorithm: &LiveGcra) -> Option<Duration> {
        algorithm.quota().refill_time()
    }
}

/// What happens to the debt of keys when their quota changes.
///
/// Each kind states what a key is admitted in an interval `[s, t]` in which the quota changes, if
/// all changes are of that kind. What the rates grant is the sum of `rate * time` over the quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Inheritance {
    /// Consumed units stay consumed: a key that owes 5 units still owes 5 units, at the new rate.
    /// Debt within the old burst becomes at most the new burst. A raised quota denies nothing that
    /// the new quota allows. From or to a quota that is blocked or unlimited this is
    /// [`Inheritance::Keep`].
    ///
    /// In `[s, t]`: at most the burst in force at `s`, the difference of both bursts for each
    /// change (what is raised is granted, what is cut is forgotten), and what the rates grant.
    Proportional,
    /// Debt stays as a duration: every key becomes fresh when it would have. Under a raised rate
    /// debt stands for more units than before, and may deny what the new quota allows; under a
    /// lowered one for fewer.
    ///
    /// In `[s, t]`: units whose emission intervals, each of the quota that admitted it, are
    /// together at most `t - s` and the longest time in which one of the bursts refills.
    Keep,
    /// Debt is forgotten: every key is fresh.
    ///
    /// In `[s, t]`: at most the bursts of all the quotas, and what the rates grant.
    Reset,
}

/// GCRA under a quota that changes.
pub struct LiveGcra {
    shared: Arc<Shared>,
}

struct Shared {
    cell: Cell<WORDS>,
    /// Held while the quota is changed. Checks never take it.
    setting: Mutex<()>,
}

impl fmt::Debug for LiveGcra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveGcra").field(&self.epoch()).finish()
    }
}

impl LiveGcra {
    pub(crate) fn quota(&self) -> Quota {
        self.epoch().quota
    }

    /// Serializes changes.
    pub(crate) fn change(&self) -> Change<'_> {
        // A change that panicked left the cell consistent: the version is raised last.
        let guard = self.shared.setting.lock().unwrap_or_else(PoisonError::into_inner);
        Change { shared: &self.shared, from: self.epoch(), _guard: guard }
    }

    /// A value of the epoch before in terms of this one, if it is live; `None` for any other.
    pub(crate) fn carry(&self, value: u64) -> Option<u64> {
        let epoch = self.epoch();
        let tat = epoch.tat(value);
        (value < epoch.time.floor && tat > 0).then_some(tat)
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch()
    }

    /// An update, which may be from before a change, with its value and its `now` in terms of the
    /// quota in force.
    #[inline]
    fn seen(&self, update: Update) -> (View, Update) {
        let (Update::Written { before: value, now }
        | Update::Unchanged { found: value, now }
        | Update::Full { fresh_from: value, now, .. }) = update;
        let view = self.view(value, now);
        let View { tat, now, .. } = view;
        let update = match update {
            Update::Written { .. } => Update::Written { before: tat, now },
            Update::Unchanged { .. } => Update::Unchanged { found: tat, now },
            // Where the change made room, report the shortest wait there is.
            Update::Full { admitted, .. } => {
                Update::Full { fresh_from: tat.max(now + 1), now, admitted }
            }
        };
        (view, update)
    }
}

/// The answer to an update, which may have been decided just before a change, in terms of the quota
/// in force: by `algorithm`; where that would have decided otherwise, by `gcra`, the same quota
/// with its interval rounded up.
#[inline]
fn answer_across(algorithm: &impl Algorithm, gcra: &Gcra, update: Update, cost: u64) -> Decision {
    match update {
        Update::Written { before, now } if algorithm.admit(before, now, cost).is_none() => {
            gcra.overcharged(before, now, cost)
        }
        Update::Unchanged { found, now }
            if cost > 0 && algorithm.admit(found, now, cost).is_some() =>
        {
            gcra.denied_before(found, now)
        }
        update => algorithm.answer(update, cost),
    }
}

impl Bucket for LiveGcra {
    type Terms = Gcra;

    fn scale(&self) -> Scale {
        time_from_words(self.shared.cell.read::<TIME>()).scale
    }

    #[inline]
    fn view(&self, value: u64, now: u64) -> View {
        let [units, nanos, floor, base, rule @ ..] = self.shared.cell.read::<RULE>();
        if value < floor {
            return self.view_carried(value, now);
        }
        let time = time_from_words([units, nanos, floor, base]);
        View { gcra: Gcra::from_words(time.scale, rule), time, tat: value, now: now.max(floor) }
    }
}

impl Plans for LiveGcra {
    type Given<'a> = Given<'a>;

    fn given<'a>(&'a self, quota: &'a Quota, rounded: &Gcra) -> Given<'a> {
        Given::new(self, quota, Scaled::of(quota, rounded))
    }

    fn plain(_: &Gcra) -> Option<&Self> {
        None
    }
}

impl LiveGcra {
    #[cold]
    fn view_carried(&self, value: u64, now: u64) -> View {
        self.epoch().view(value, now)
    }
}

impl Shared {
    fn epoch(&self) -> Epoch {
        Epoch::from_words(self.cell.read())
    }
}

/// A change in progress.
pub(crate) struct Change<'a> {
    shared: &'a Shared,
    from: Epoch,
    _guard: MutexGuard<'a, ()>,
}

impl Change<'_> {
    /// The value in terms of the quota being replaced.
    pub(crate) fn tat(&self, value: u64) -> u64 {
        self.from.tat(value)
    }

    /// Puts `quota` in force from `at` on, given that no key's TAT is above `highest`.
    pub(crate) fn publish(
        &self,
        quota: Quota,
        inheritance: Inheritance,
        at: Timestamp,
        highest: u64,
    ) -> Result<(), QuotaError> {
        let next = self.from.next(quota, inheritance, at, highest)?;
        self.shared.cell.write(next.to_words());
        Ok(())
    }
}

/// A key is fresh once its TAT has passed, in terms of the quota in force.
pub struct LiveTat {
    shared: Arc<Shared>,
}

impl fmt::Debug for LiveTat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveTat")
    }
}

impl State for LiveTat {
    #[inline]
    fn fresh_from(&self, value: u64) -> u64 {
        let time = time_from_words(self.shared.cell.read::<TIME>());
        if value >= time.floor { value } else { self.shared.epoch().tat(value) }
    }

    /// Raw values do not rank: one from before a change is below all later ones, whatever it owes.
    fn rank(&self, value: u64) -> u64 {
        self.fresh_from(value)
    }
}

/// Each method reads the quota by itself, so a change may fall between two calls of one check,
/// which is then decided before the change and answered after it.
impl Algorithm for LiveGcra {
    type State = LiveTat;

    fn state(&self) -> LiveTat {
        LiveTat { shared: Arc::clone(&self.shared) }
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        instant(time_from_words(self.shared.cell.read::<TIME>()), now)
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.admit(tat, now, cost)
    }

    fn admit_up_to(&self, value: u64, now: u64, cost: u64) -> Option<(u64, u64)> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.admit_up_to(tat, now, cost)
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        Algorithm::charge(&gcra, tat, now, cost)
    }

    fn charge_denied(&self, value: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        self.view(value, now).charge_denied(cost, bursts)
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.refund(tat, now, cost)
    }

    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        self.epoch().give_back(value, now, cost, charged)
    }

    fn owes_beyond(&self, value: u64, now: u64, tolerance: u64) -> bool {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.owes_beyond(tat, now, tolerance)
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        let View { tat, now, .. } = self.view(value, now);
        gcra::reset(tat, now)
    }

    fn can_fit(&self, cost: u64) -> bool {
        Algorithm::can_fit(&self.epoch().gcra, cost)
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        let (View { gcra, .. }, update) = self.seen(update);
        answer_across(&gcra, &gcra, update, cost)
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use core::time::Duration;

    use super::{Inheritance, LiveQuota};
    use crate::base::word::State as _;
    use crate::rule::Rule as _;
    use crate::rule::algorithm::Algorithm as _;
    use crate::rule::quota::Quota;
    use crate::time::Timestamp;

    /// Also before any call has rewritten it: a new key must not take its slot.
    #[test]
    fn a_value_from_before_a_change_is_live_until_its_debt_has_drained() {
        let quota = Quota::per_second(1).burst(5);
        let gcra = LiveQuota::new(quota).algorithm().unwrap();
        let state = gcra.state();
        let at = |millis| Timestamp::ORIGIN.saturating_add(Duration::from_millis(millis));
        let value = gcra.admit(0, gcra.instant(at(0)), 3).unwrap();
        let change = gcra.change();
        change.publish(quota, Inheritance::Keep, at(1_000), change.tat(value)).unwrap();
        drop(change);
        assert!(state.fresh_from(value) > gcra.instant(at(2_999)));
        assert_eq!(state.fresh_from(value), gcra.instant(at(3_000)));
        assert_eq!(state.fresh_from(0), 0);
    }

    /// Of two keys the one that owes less is evicted, on whichever side of a change it was charged.
    #[test]
    fn values_from_before_and_after_a_change_rank_by_what_they_owe() {
        let quota = Quota::per_second(1).burst(5);
        let gcra = LiveQuota::new(quota).algorithm().unwrap();
        let state = gcra.state();
        let now = gcra.instant(Timestamp::ORIGIN);
        let [little, much] = [1, 4].map(|cost| gcra.admit(0, now, cost).unwrap());
        let change = gcra.change();
        change.publish(quota, Inheritance::Keep, Timestamp::ORIGIN, change.tat(much)).unwrap();
        drop(change);
        let between = gcra.admit(0, gcra.instant(Timestamp::ORIGIN), 2).unwrap();
        assert!(little < much && much < between);
        assert!(state.rank(little) < state.rank(between) && state.rank(between) < state.rank(much));
    }
}
