//! A quota that can be changed while it is enforced.

mod cell;
mod epoch;
mod saves;

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::gcra::{self, Gcra};
use crate::quota::{Quota, QuotaError};
use crate::rule::{Algorithm, NoLeases, Rule, sealed};
use crate::sync::Arc;
use crate::table::{State, Update};

use cell::Cell;
use epoch::{Epoch, RULE, TIME, Time, WORDS};

/// A [`Quota`] that [`Limiter::set_quota`](crate::Limiter::set_quota) can change while it is enforced.
///
/// The guarantees are those of a quota. A check reads the quota anew, which makes it somewhat slower than
/// one under a quota that stays; there are no leases. Bytes a key: the same.
///
/// ```
/// use tidegate_engine::{Inheritance, Limiter, LiveQuota, Quota};
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
    /// A limiter that enforces `quota` until it is changed.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self(quota)
    }

    /// The quota to begin with.
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

impl Rule for LiveQuota {
    type Algorithm = LiveGcra;
    type Leases = NoLeases;

    fn algorithm(&self) -> Result<LiveGcra, QuotaError> {
        let cell = Cell::new(Epoch::first(self.0)?.to_words());
        Ok(LiveGcra { shared: Arc::new(Shared { cell, setting: Mutex::new(()) }) })
    }
}

/// What becomes of the debt of keys when their quota changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Inheritance {
    /// Units that were taken stay taken: a key that owes 5 units owes 5 units, at the new rate. What
    /// was owed within the old burst becomes at most the new burst. A raised quota denies nothing that it
    /// allows. From or to a quota that is blocked or unlimited this is [`Inheritance::Keep`].
    Proportional,
    /// Debt stays as a duration: every key is fresh when it would have been. Under a raised rate
    /// it stands for more units than before, and may deny what the new quota allows.
    Keep,
    /// Debt is forgotten: every key is fresh.
    Reset,
}

/// GCRA under a quota that changes.
pub struct LiveGcra {
    shared: Arc<Shared>,
}

struct Shared {
    cell: Cell<WORDS>,
    /// Held by who changes the quota. Checks never look at it.
    setting: Mutex<()>,
}

impl fmt::Debug for LiveGcra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveGcra").field(&self.epoch()).finish()
    }
}

/// A value in terms of the quota that is in force.
struct View {
    gcra: Gcra,
    tat: u64,
    now: u64,
}

impl LiveGcra {
    pub(crate) fn quota(&self) -> Quota {
        self.epoch().quota
    }

    /// Lets one change be made after another.
    pub(crate) fn change(&self) -> Change<'_> {
        // A change that panicked left the cell whole: the version is raised last.
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

    /// The value, and a `now` that may be of the epoch before, in terms of the quota in force.
    #[inline]
    fn view(&self, value: u64, now: u64) -> View {
        let words = self.shared.cell.read::<RULE>();
        let [units, nanos, floor, base, rule @ ..] = words;
        if value < floor {
            return self.view_carried(value, now);
        }
        let time = Time::from_words([units, nanos, floor, base]);
        View { gcra: Gcra::from_words(time.scale, rule), tat: value, now: now.max(floor) }
    }

    #[cold]
    fn view_carried(&self, value: u64, now: u64) -> View {
        let epoch = self.epoch();
        View { gcra: epoch.gcra, tat: epoch.tat(value), now: now.max(epoch.time.floor) }
    }
}

impl Shared {
    fn epoch(&self) -> Epoch {
        Epoch::from_words(self.cell.read())
    }
}

/// A change that is being made.
pub(crate) struct Change<'a> {
    shared: &'a Shared,
    from: Epoch,
    _guard: MutexGuard<'a, ()>,
}

impl Change<'_> {
    /// The value in terms of the quota that is being replaced.
    pub(crate) fn tat(&self, value: u64) -> u64 {
        self.from.tat(value)
    }

    /// Puts `quota` in force from `at` on, where no key's TAT is above `highest`.
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

/// A key is as good as new when its TAT has come, in terms of the quota in force.
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
        let time = Time::from_words(self.shared.cell.read::<TIME>());
        if value >= time.floor { value } else { self.shared.epoch().tat(value) }
    }
}

/// Each method reads the quota for itself, so a change may fall between two of one check: it is then decided
/// before the change and answered after it.
impl Algorithm for LiveGcra {
    type State = LiveTat;

    fn state(&self) -> LiveTat {
        LiveTat { shared: Arc::clone(&self.shared) }
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        Time::from_words(self.shared.cell.read::<TIME>()).instant(now)
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now } = self.view(value, now);
        gcra.admit(tat, now, cost)
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now } = self.view(value, now);
        Algorithm::charge(&gcra, tat, now, cost)
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now } = self.view(value, now);
        gcra.refund(tat, now, cost)
    }

    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        let epoch = self.epoch();
        let now = now.max(epoch.time.floor);
        epoch.gcra.give_back(epoch.tat(value), now, cost, epoch.tat(charged))
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
        match update {
            Update::Written { before, now } => {
                let View { gcra, tat, now } = self.view(before, now);
                if gcra.admit(tat, now, cost).is_none() {
                    return gcra.overcharged(tat, now, cost);
                }
                gcra.answer(Update::Written { before: tat, now }, cost)
            }
            Update::Unchanged { found, now } => {
                let View { gcra, tat, now } = self.view(found, now);
                if cost > 0 && gcra.admit(tat, now, cost).is_some() {
                    return gcra.denied_before(tat, now);
                }
                gcra.answer(Update::Unchanged { found: tat, now }, cost)
            }
            Update::Full { fresh_from, now, admitted } => {
                let View { gcra, tat, now } = self.view(fresh_from, now);
                // Where the change made room, there is none yet for as short as can be told.
                gcra.answer(Update::Full { fresh_from: tat.max(now + 1), now, admitted }, cost)
            }
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use core::time::Duration;

    use super::{Inheritance, LiveQuota};
    use crate::clock::Timestamp;
    use crate::quota::Quota;
    use crate::rule::{Algorithm as _, Rule as _};
    use crate::table::State as _;

    /// Also before anybody has rewritten it: newcomers must not take its slot.
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
}
