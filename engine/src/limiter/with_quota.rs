//! Asking under a quota that is given with the call.

use alloc::vec::Vec;
use core::fmt;

use crate::acquire::{Timer, Turn, Wait};
use crate::clock::{Clock, DefaultClock, Timestamp};
use crate::decision::Decision;
use crate::denied::{ChargeDenied, Check};
use crate::gcra::{Bucket, Gcra, Plans};
use crate::key::{Key, KeyHash};
use crate::limit::Subject;
use crate::observer::Observer;
use crate::quota::{Quota, QuotaError};
use crate::reserve::Reservation;
use crate::rule::{Algorithm as _, Leasing as _, Rule};
use crate::set::Ask;

use super::Limiter;

/// A limiter whose keys are asked under a quota that is given with the call, as a plan a customer has bought; from
/// [`Limiter::with_quota`]. A small value that is made for a call or two and thrown away, or kept as long as the quota is.
///
/// It checks, peeks, charges, refunds, resets, reserves, asks in a set, and waits, under the names that a [`Limiter`] has for
/// it and with the same meaning but for the quota. All else is asked of the limiter itself, since it does not depend on a
/// quota: [`Limiter::live`], [`Limiter::charge_debt`] and the like.
///
/// A [`Reservation`] and a [`Turn`] borrow the limiter, and an [`Ask`] the quota too. Those that go with a task need the
/// limiter's `Arc`, which this does not know: they come from [`Limiter::with_quota_owned`].
///
/// # What keys of several quotas share
/// The key's debt, which is kept as a duration: a key that owes a second owes it under every quota, and each quota
/// says how many units a second is. After an upgrade, what was used before drains no later than it would have.
///
/// Give back, and commit, under the quota that was charged. [`Reservation`] and [`Turn`] see to it by themselves; who
/// [refunds](WithQuota::refund) names it again. A reservation gives nothing back in front of those who wait under a
/// shorter burst; see there what that takes.
///
/// In a [`LimitSet`](crate::LimitSet#one-key-under-two-quotas) a key may stand under two quotas. Each is looked at as if it were
/// alone and charged after those that stand before it, so the order may decide; all or nothing is charged as ever.
///
/// # Guarantees
/// A burst is exactly a burst. The quota is counted in the limiter's units of time: 1 ns where the
/// emission interval of its own quota is a whole number of nanoseconds, else up to 2 ns.
/// * An emission interval of more than 4 units (up to 10^8 each second, whatever the limiter's own
///   quota) is kept on the average. Each charge is rounded, to a unit more or less, and so that the
///   roundings cancel, also of what is given back: the rate is off by less than 10^-6. For calls with one quota the
///   guarantee of [`Limiter`] holds with an error of 3 units in `t - s`; each change from one quota
///   to another on a key adds less than a unit.
/// * A shorter one is rounded up to a whole unit, so the quota is not exceeded and up to two times
///   too slow.
///
/// Under a `LiveQuota` these are the units of the quota in force, and a change of it counts as one from one quota to
/// another. Debt is carried over as ever. Make it anew after `set_quota`: one that is kept is slower, since each call
/// rounds it to the new units, and denies all, with no `retry_after`, where it can not be enforced in these.
/// That can befall a burst only that takes more than half of [`MAX_BURST_TOLERANCE`](crate::MAX_BURST_TOLERANCE) to refill,
/// and making it anew is an error then.
///
/// Leases are not used: the key's word alone is asked.
///
/// # Cost
/// Making it takes two divisions and nothing of the table, so it need not be kept. O(1), like what is asked of it.
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
    /// The quota in the limiter's units of time, its emission interval rounded up.
    rounded: Gcra,
}

impl<R: Rule<Algorithm: Plans>, C: Clock, O: Observer> Limiter<R, C, O> {
    /// For limiters with a [`Quota`] or a `LiveQuota`: the same keys under a quota that is given with the call. O(1).
    ///
    /// # Errors
    /// When the quota can not be enforced.
    #[inline]
    pub fn with_quota<'q>(
        &self,
        quota: &'q Quota,
    ) -> Result<WithQuota<'_, 'q, R, C, O>, QuotaError> {
        let rounded = Gcra::in_scale(quota, self.algorithm().scale())?;
        Ok(WithQuota { limiter: self, quota, rounded })
    }

    /// For limiters with a [`Quota`] or a `LiveQuota`: [`WithQuota::check_n`] under a quota given with the call.
    ///
    /// # Errors
    /// When the quota can not be enforced; nothing is charged.
    #[inline]
    pub fn check_with(
        &self,
        key: impl Key,
        cost: u64,
        quota: &Quota,
    ) -> Result<Decision, QuotaError> {
        // As the view does, in the order in which less is held in registers.
        let key = self.hash(key);
        let rounded = Gcra::in_scale(quota, self.algorithm().scale())?;
        let now = self.clock.now();
        let decision = self.decide_with((quota, &rounded), key, cost, now, || self.clock.now());
        Ok(self.heard(key, cost, decision))
    }

    /// What charges denied checks, if they are charged.
    fn charges_denied(&self) -> Option<ChargeDenied> {
        self.leases.as_ref().and_then(R::Leases::denied)
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
            Some(plain) if self.leases.is_none() => {
                self.decide_by_word(plain, key, cost, now, reread)
            }
            _ => self.decide_given((quota, rounded), key, cost, now, reread).in_registers(),
        }
    }

    /// Decides under a quota given with the call whose interval was rounded, or where denied checks may be
    /// charged. Apart, so that others do not carry its registers.
    #[inline(never)]
    fn decide_given(
        &self,
        (quota, rounded): (&Quota, &Gcra),
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let given = self.algorithm().given(quota, rounded);
        let Some(denied) = self.charges_denied() else {
            return self.decide_by_word(&given, key, cost, now, reread);
        };
        let (now, reread) = (self.instant(now), || self.instant(reread()));
        denied.decide_charging(&given, Check { table: &self.table, key, cost, now, reread })
    }
}

impl<'l, R: Rule<Algorithm: Plans>, C: Clock, O: Observer> WithQuota<'l, '_, R, C, O> {
    /// Asks for one unit: [`WithQuota::check_n`] with a cost of 1.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `cost` units and takes them when they fit; see [`Limiter::check_n`].
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        let key = self.limiter.hash(key);
        let now = self.limiter.clock.now();
        self.decide(key, cost, now, || self.limiter.clock.now())
    }

    /// As [`WithQuota::check_n`], at a time the caller gives; see [`Limiter::check_at`].
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_at(&self, key: impl Key, cost: u64, now: Timestamp) -> Decision {
        self.decide(self.limiter.hash(key), cost, now, || now)
    }

    /// Asks for one unit of each key, at one reading of the clock, and puts the decisions into `decisions` in the order of
    /// the keys, instead of what was there; see [`Limiter::check_many`]. O(keys); allocates only if `decisions` lacks room.
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        let Self { limiter, .. } = self;
        if limiter.charges_denied().is_some() {
            let reread = || limiter.clock.now();
            limiter.check_in_turn(keys, decisions, |key, now| self.decide(key, 1, now, reread));
        } else {
            let given = self.given();
            limiter.check_many_by_words(|_| &given, keys, decisions);
        }
    }

    /// What a check would find, without charging anything.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.check_n(key, 0)
    }

    /// What a check of `cost` would find, without charging anything; see [`Limiter::peek_n`].
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek_n(&self, key: impl Key, cost: u64) -> Decision {
        self.limiter.peek_under(&self.given(), self.limiter.hash(key), cost)
    }

    /// Charges `cost` units whether or not they fit; see [`Limiter::charge`].
    pub fn charge(&self, key: impl Key, cost: u64) -> Decision {
        let (key, given) = (self.limiter.hash(key), self.given());
        self.limiter.force(key, |value, now| given.charge(value, now, cost));
        self.peek(key)
    }

    /// Gives back `cost` units that were admitted under this quota and not used; see [`Limiter::refund`].
    pub fn refund(&self, key: impl Key, cost: u64) {
        let given = self.given();
        self.limiter.lower(key, |value, now| given.refund(value, now, cost));
    }

    /// Forgets the key's debt; see [`Limiter::reset`]. All of it, whatever quota it was charged under: a key has one debt.
    pub fn reset(&self, key: impl Key) {
        self.limiter.reset(key);
    }

    /// Waits until the key has room for `cost`, at most as long as `wait` says; see [`Limiter::acquire`]. By value, which
    /// is copied, so that the future borrows the limiter and the quota only: `limiter.with_quota(&plan)?.acquire("key", 1,
    /// wait)` may be kept and awaited later.
    ///
    /// # Panics
    /// When it has to wait and the operating system has no thread to give for the timer, see
    /// [`ThreadTimer`](crate::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub async fn acquire(self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::acquire::ThreadTimer, key, cost, wait).await
    }

    /// As [`WithQuota::acquire`], also by value, sleeping on a timer the caller gives.
    #[must_use = "a decision that is not looked at limits nothing"]
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
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn acquire_blocking(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(key, cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// Takes the place in which [`WithQuota::acquire`] waits; see [`Limiter::enqueue`].
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(
        &self,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'l, Limiter<R, C, O>>, Decision> {
        let key = self.limiter.hash(key);
        self.limiter.enqueue_under(&self.given(), key, cost, &wait.into())
    }

    /// The quota that is asked.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        *self.quota
    }

    #[inline]
    fn decide(
        &self,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let Self { limiter, quota, rounded } = self;
        let decision = limiter.decide_with((quota, rounded), key, cost, now, reread);
        limiter.heard(key, cost, decision)
    }

    fn given(&self) -> <R::Algorithm as Plans>::Given<'_> {
        self.limiter.algorithm().given(self.quota, &self.rounded)
    }
}

impl<'l, 'q, R, C, O> WithQuota<'l, 'q, R, C, O>
where
    R: Rule<Algorithm: Plans>,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    /// Takes `cost` units when they fit, and hands out the right to give back what is not used of them; see
    /// [`Limiter::reserve`].
    ///
    /// # Errors
    /// The denial when the units do not fit.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'l>, Decision> {
        Reservation::borrowed(self.limiter, self.subject(key), cost)
    }

    /// `cost` units of `key`, to be asked for together with what other limits have to admit; see [`Limiter::ask`].
    pub fn ask(&self, key: impl Key, cost: u64) -> Ask<'q>
    where
        'l: 'q,
    {
        Ask::of(self.limiter, self.subject(key), cost)
    }

    pub(super) fn subject(&self, key: impl Key) -> Subject<'q> {
        Subject { key: self.limiter.hash(key), quota: Some(self.quota) }
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
