//! Checks under a quota that is given with the call.

use alloc::vec::Vec;
use core::fmt;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::contract::grant::Grant;
use crate::contract::limit::Subject;
use crate::contract::observer::Observer;
use crate::contract::reserve::Reservation;
use crate::contract::set::Ask;
use crate::contract::wait::{Timer, Turn, Wait};
use crate::rule::algorithm::Algorithm as _;
use crate::rule::gcra::{Bucket, Gcra, PerCallQuotas};
use crate::rule::quota::{Quota, QuotaError};
use crate::rule::{DebtRule, Rule};
use crate::time::{Clock, DefaultClock, Timestamp};

use super::denied::{TimedCheck, decide_charging};
use super::{HashedKey, Limiter};

/// The keys of a limiter under a quota that is given with the call, such as the plan of a customer;
/// from [`Limiter::with_quota`]. A small value that is made for a call or two, or kept as long as
/// the quota is.
///
/// It checks, peeks, charges, refunds, resets, reserves, asks in a set, and waits, with the names
/// and meanings of [`Limiter`] except for the quota. Operations that do not depend on a quota are
/// those of the limiter itself: [`Limiter::live`], [`Limiter::charge_debt`] and others.
///
/// A [`Reservation`] and a [`Turn`] borrow the limiter, and an [`Ask`] also the quota. Those that
/// move into a task need the `Arc` of the limiter: [`Limiter::with_quota_owned`].
///
/// # Keys under several quotas
/// A key has one debt, kept as a duration: a key that owes a second owes it under every quota, and
/// each quota says how many units a second is. After an upgrade, what was used before drains no
/// later than it would have.
///
/// Give back, and commit, under the quota that was charged. [`Reservation`] and [`Turn`] do so by
/// themselves; a [refund](WithQuota::refund) names it again. A reservation gives nothing back on a
/// key with waiters under a shorter burst; see [`Reservation`] for the exact condition.
///
/// In a [`LimitSet`](crate::LimitSet#one-key-under-two-quotas) a key may occur under two quotas.
/// Each is read as if it were alone and charged after those before it, so the order may decide; the
/// set is still all or nothing.
///
/// # Guarantees
/// A burst is exactly a burst. The quota is counted in units of time of the limiter: 1 ns where the
/// emission interval of its own quota is a whole number of nanoseconds, else up to 2 ns.
/// * An emission interval of more than 4 units (up to 10^8 each second, whatever the limiter's own
///   quota) is kept on average. Each charge is rounded to a whole unit so that the roundings
///   cancel, also those of what is given back: the rate is off by less than 10^-6. For calls with
///   one quota the guarantee of [`Limiter`] holds with an error of 3 units in `t - s`; each change
///   from one quota to another on a key adds less than a unit.
/// * A shorter one is rounded up to a whole unit, so the quota is not exceeded and up to two times
///   too slow.
///
/// Under a `LiveQuota` these are the units of the quota in force, and a change of it counts as one
/// from one quota to another. Debt is carried over as usual. Make a new `WithQuota` after
/// `set_quota`: an old one is slower, since each call converts it to the new units, and denies
/// everything, with no `retry_after`, if it cannot be enforced in these. This affects only a burst
/// that takes more than half of [`MAX_BURST_TOLERANCE`](crate::rule::MAX_BURST_TOLERANCE) to
/// refill, for which making a new one is an error as well.
///
/// Leases are not used: only the word of the key decides.
///
/// # Cost
/// Making it takes two divisions and does not touch the table, so it need not be kept. O(1), like
/// its operations.
///
/// ```
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(60)).capacity(1_000).build()?;
/// let plan = Quota::per_hour(10_000).burst(500); // from a database
/// let user = limiter.with_quota(&plan)?;
/// assert!(user.check("user:42").is_allowed());
/// if let Ok(reserved) = user.reserve("user:42", 400) {
///     assert_eq!(reserved.commit(150).remaining(), 349);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WithQuota<'l, 'q, R: Rule = Quota, C = DefaultClock, O = ()> {
    limiter: &'l Limiter<R, C, O>,
    quota: &'q Quota,
    /// The quota in units of the limiter, its emission interval rounded up.
    rounded: Gcra,
}

impl<R: DebtRule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// The same keys under a quota that is given with the call. O(1). Needs a
    /// [debt rule](crate::rule::DebtRule).
    ///
    /// # Errors
    /// When the quota cannot be enforced.
    #[inline]
    pub fn with_quota<'q>(
        &self,
        quota: &'q Quota,
    ) -> Result<WithQuota<'_, 'q, R, C, O>, QuotaError> {
        let rounded = Gcra::in_scale(quota, self.algorithm().scale())?;
        Ok(WithQuota { limiter: self, quota, rounded })
    }

    /// [`WithQuota::check_n`] under a quota given with the call. Needs a
    /// [debt rule](crate::rule::DebtRule).
    ///
    /// # Errors
    /// When the quota cannot be enforced; nothing is charged.
    #[inline]
    pub fn check_with(
        &self,
        key: impl Key,
        cost: u64,
        quota: &Quota,
    ) -> Result<Decision, QuotaError> {
        if self.observer.observes_decisions() {
            return Ok(self.with_quota(quota)?.check_n(key, cost));
        }
        // As [`WithQuota::check_n`], in an order that holds less in registers.
        let key = self.hash(key);
        self.observer.prefetch(key);
        let rounded = Gcra::in_scale(quota, self.algorithm().scale())?;
        let now = self.clock.now();
        Ok(self.decide_with((quota, &rounded), key, cost, now, || self.clock.now()))
    }

    /// How many bursts of debt denied checks can add, if they are charged.
    fn charges_denied(&self) -> Option<u64> {
        self.mode().charged_bursts()
    }

    /// Decides under a quota given with the call.
    #[inline]
    fn decide_with(
        &self,
        (quota, rounded): (&Quota, &Gcra),
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        match R::Algorithm::plain(rounded) {
            Some(plain) if self.mode().is_by_word() => {
                self.decide_by_word(plain, key, cost, now, reread)
            }
            _ => self.decide_per_call((quota, rounded), key, cost, now, reread).in_registers(),
        }
    }

    /// Decides under a quota given with the call whose interval was rounded, or where denied checks
    /// may be charged. Out of line, so that other checks do not carry its registers.
    #[inline(never)]
    fn decide_per_call(
        &self,
        (quota, rounded): (&Quota, &Gcra),
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let given = self.algorithm().per_call(quota, rounded);
        let bursts @ Some(_) = self.charges_denied() else {
            return self.decide_by_word(&given, key, cost, now, reread);
        };
        let (now, reread) = (self.instant(now), || self.instant(reread()));
        let check = TimedCheck { table: &self.table, key, cost, now, reread };
        decide_charging(bursts, &given, check, |change| self.notify_of_change(key, change))
    }
}

impl<'l, R: DebtRule, C: Clock, O: Observer> WithQuota<'l, '_, R, C, O> {
    /// Asks for one unit: [`WithQuota::check_n`] with a cost of 1.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `cost` units and takes them if they fit; see [`Limiter::check_n`].
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        let limiter = self.limiter;
        self.decide(limiter.hashed(key), cost, limiter.clock.now(), || limiter.clock.now())
    }

    /// As [`WithQuota::check_n`], at a time given by the caller; see [`Limiter::check_at`].
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, key: impl Key, cost: u64, now: Timestamp) -> Decision {
        self.decide(self.limiter.hashed(key), cost, now, || now)
    }

    /// Takes as much of `cost` as fits under this quota; see [`Limiter::check_up_to`].
    pub fn check_up_to(&self, key: impl Key, cost: u64) -> Grant {
        self.limiter.grant_under(&self.per_call(), &self.limiter.hashed(key), cost)
    }

    /// Takes `cost` units if they fit under this quota and at least `headroom` more would; see
    /// [`Limiter::check_with_headroom`].
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_with_headroom(&self, key: impl Key, cost: u64, headroom: u64) -> Decision {
        self.limiter.check_with_headroom_under(
            &self.per_call(),
            &self.limiter.hashed(key),
            cost,
            headroom,
        )
    }

    /// Asks for one unit of each key and replaces the content of `decisions` by the answers in the
    /// order of the keys, with the readings of the clock that [`Limiter::check_many`] states.
    /// O(keys); allocates only if `decisions` lacks room.
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        self.check_all(keys, |key| (key, 1), decisions);
    }

    /// As [`WithQuota::check_many`], with a cost for each key; see [`Limiter::check_many_n`].
    pub fn check_many_n<K: Key>(&self, checks: &[(K, u64)], decisions: &mut Vec<Decision>) {
        self.check_all(checks, |(key, cost)| (key, *cost), decisions);
    }

    fn check_all<T, K: Key>(
        &self,
        items: &[T],
        check: impl Fn(&T) -> (&K, u64) + Copy,
        decisions: &mut Vec<Decision>,
    ) {
        let Self { limiter, .. } = self;
        if limiter.charges_denied().is_some() {
            limiter.check_in_turn(items, check, decisions, |key, cost, readings| {
                self.decide(HashedKey::unobserved(key), cost, readings.latest(), || readings.next())
            });
        } else {
            let given = self.per_call();
            limiter.check_all_by_words(|_| &given, items, check, decisions);
        }
        limiter.notify_all(items, check, decisions);
    }

    /// What a check would find, without charging anything.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.check_n(key, 0)
    }

    /// What a check of `cost` would find, without charging anything; see [`Limiter::peek_n`].
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek_n(&self, key: impl Key, cost: u64) -> Decision {
        self.limiter.peek_under(&self.per_call(), &self.limiter.hashed(key), cost)
    }

    /// Charges `cost` units whether or not they fit; see [`Limiter::charge`].
    pub fn charge(&self, key: impl Key, cost: u64) -> Decision {
        let (key, given) = (self.limiter.hashed(key), self.per_call());
        let charge = |value, now| given.charge(value, now, cost);
        self.limiter.notify_of_update(key.hash, self.limiter.force(key.hash, charge), charge);
        self.decide(key, 0, self.limiter.clock.now(), || self.limiter.clock.now())
    }

    /// Gives back `cost` units that were admitted under this quota and not used; see
    /// [`Limiter::refund`].
    pub fn refund(&self, key: impl Key, cost: u64) {
        let given = self.per_call();
        self.limiter.give_back_to(key, |value, now| given.refund(value, now, cost));
    }

    /// Forgets the debt of the key; see [`Limiter::reset`]. All of it, under whatever quota it was
    /// charged: a key has one debt.
    pub fn reset(&self, key: impl Key) {
        self.limiter.reset(key);
    }

    /// Waits until the key has room for `cost`, at most as long as `wait` says; see
    /// [`Limiter::acquire`]. Takes a copy of this value, so that the future borrows only the
    /// limiter and the quota: `limiter.with_quota(&plan)?.acquire("key", 1, wait)` may be kept and
    /// awaited later.
    ///
    /// # Panics
    /// When it has to wait and the operating system cannot start a thread for the timer, see
    /// [`ThreadTimer`](crate::wait::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub async fn acquire(self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::contract::wait::ThreadTimer, key, cost, wait).await
    }

    /// As [`WithQuota::acquire`], also by value, on a timer given by the caller.
    #[must_use = "a decision that is ignored limits nothing"]
    pub async fn acquire_on<T: Timer>(
        self,
        timer: &T,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Decision {
        match self.enqueue(key, cost, wait) {
            Ok(turn) => turn.wait_on(timer).await,
            Err(denied) => denied,
        }
    }

    /// As [`WithQuota::acquire`], blocking the thread.
    #[cfg(feature = "std")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn acquire_blocking(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(key, cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// Joins the line in which [`WithQuota::acquire`] waits; see [`Limiter::enqueue`].
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(
        &self,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'l, Limiter<R, C, O>>, Decision> {
        self.limiter.enqueue_under(&self.per_call(), key, cost, &wait.into())
    }

    /// The quota of these operations.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        *self.quota
    }

    #[expect(clippy::needless_pass_by_value, reason = "as that of the limiter")]
    #[inline]
    fn decide<K: Key>(
        &self,
        key: HashedKey<K>,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let Self { limiter, quota, rounded } = self;
        let decision = limiter.decide_with((quota, rounded), key.hash, cost, now, reread);
        limiter.notified(&key, cost, decision)
    }

    fn per_call(&self) -> <R::Algorithm as PerCallQuotas>::PerCall<'_> {
        self.limiter.algorithm().per_call(self.quota, &self.rounded)
    }
}

impl<'l, 'q, R, C, O> WithQuota<'l, 'q, R, C, O>
where
    R: DebtRule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    /// Takes `cost` units if they fit, and hands out the right to give back what is not used; see
    /// [`Limiter::reserve`].
    ///
    /// # Errors
    /// The denial when the units do not fit.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'l>, Decision> {
        Reservation::borrowed(self.limiter, self.subject(&key), &key, cost)
    }

    /// `cost` units of `key`, to be asked for together with other limits; see [`Limiter::ask`].
    pub fn ask(&self, key: impl Key, cost: u64) -> Ask<'q>
    where
        'l: 'q,
    {
        Ask::of(self.limiter, self.subject(&key), cost)
    }

    pub(super) fn subject(&self, key: &impl Key) -> Subject<'q> {
        Subject { quota: Some(self.quota), ..Subject::from(self.limiter.hash(key)) }
    }
}

impl<R: Rule, C, O> Clone for WithQuota<'_, '_, R, C, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Rule, C, O> Copy for WithQuota<'_, '_, R, C, O> {}

impl<R: Rule, C, O> fmt::Debug for WithQuota<'_, '_, R, C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithQuota").field("quota", self.quota).finish_non_exhaustive()
    }
}
