//! What only limiters with a quota have: their words are theoretical arrival times.

use core::time::Duration;

use crate::base::key::{Key, KeyHash};
#[cfg(feature = "std")]
use crate::base::stripe::Seat;
use crate::base::word::Update;
use crate::contract::observer::Observer;
use crate::rule::DebtRule;
#[cfg(feature = "std")]
use crate::rule::gcra::Gcra;
use crate::rule::gcra::{Bucket, Terms as _, View};
use crate::rule::quota::Quota;
use crate::time::{Clock, Timestamp};

use super::Limiter;
#[cfg(feature = "std")]
use super::lease::{self, Leases};

impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    /// The quota that is enforced: [`Limiter::rule`].
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.rule()
    }
}

impl<R: DebtRule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Charges remote debt, consumed elsewhere at time `at`, whether or not it fits. Debt that has
    /// drained since `at` on a key that was idle is not charged again. Debt may exceed the burst
    /// tolerance; then even a cost of 1 waits. Saturates 18 years after the clock's origin; under a
    /// `LiveQuota` at 5.1 years or more. Needs a [debt rule](crate::rule::DebtRule).
    ///
    /// Debt is a duration, and counts as that under the quota in force. A key that was fresh when
    /// the quota changed counts as idle before it.
    ///
    /// For a key that finds no place this follows the [`OverflowPolicy`](crate::OverflowPolicy).
    pub fn charge_debt(&self, key: impl Key, debt: Duration, at: Timestamp) {
        let _ = self.force_debt(key, |view| view.charge_debt(debt, at));
    }

    /// Raises the key's debt to at least `debt` as of now. Idempotent. Needs a
    /// [debt rule](crate::rule::DebtRule).
    pub fn raise_debt(&self, key: impl Key, debt: Duration) {
        let (key, at) = (self.hash(key), self.clock.now());
        let update = self.force_debt(key, |view| view.raise_debt(debt, at));
        if self.waiters.count() > 0 && matches!(update, Update::Written { .. }) {
            self.wait_lists.fix(key, at);
        }
    }

    /// Takes back `debt` that was consumed, at most to none, as [`Limiter::refund`] does with
    /// units. Needs a [debt rule](crate::rule::DebtRule).
    pub fn lower_debt(&self, key: impl Key, debt: Duration) {
        let bucket = self.algorithm();
        let _ = self.lower(self.hash(key), |value, now| {
            let view = bucket.view(value, now);
            view.lower_debt(debt).map(|tat| view.value(tat))
        });
    }

    /// The burst tolerance of the quota in force, the debt at which a key is exhausted. O(1). Needs
    /// a [debt rule](crate::rule::DebtRule).
    #[must_use]
    pub fn burst_tolerance(&self) -> Duration {
        let gcra = self.algorithm().view(0, 0).gcra;
        Duration::from_nanos(gcra.scale().to_nanos(gcra.tau()))
    }

    /// The debt of one unit of the quota in force. O(1). Needs a
    /// [debt rule](crate::rule::DebtRule).
    #[must_use]
    pub fn unit_debt(&self) -> Duration {
        let gcra = self.algorithm().view(0, 0).gcra;
        Duration::from_nanos(gcra.scale().to_nanos(gcra.interval()))
    }

    /// The key's debt now, zero when it is fresh. O(1). Needs a [debt rule](crate::rule::DebtRule).
    #[must_use]
    pub fn debt(&self, key: impl Key) -> Duration {
        self.debt_at(key, self.clock.now())
    }

    /// [`Limiter::debt`] as of `at`, a recent reading of the limiter's clock: what was consumed
    /// since is in it. For several keys one reading is enough. O(1).
    #[must_use]
    pub fn debt_at(&self, key: impl Key, at: Timestamp) -> Duration {
        let now = self.instant(at);
        let value = match self.table.home(self.hash(key)).update(now, || now, |_, _| None) {
            Update::Unchanged { found, .. } => found,
            Update::Written { before, .. } => before,
            // Without a charge no slot is claimed.
            Update::Full { .. } => 0,
        };
        self.algorithm().view(value, now).debt().unwrap_or_default()
    }

    /// Prefetches what the next call for this key reads first: for a batch of keys, so that waits
    /// for memory overlap. A hint that changes nothing, on x86-64; elsewhere it does nothing. O(1).
    #[inline]
    pub fn prefetch(&self, key: impl Key) {
        let home = self.table.home(self.hash(key));
        home.prefetch();
    }

    /// Replaces the TAT of a key, whether or not it has a slot yet, by what `raise` returns.
    fn force_debt(
        &self,
        key: impl Key,
        raise: impl Fn(&View<<R::Algorithm as Bucket>::Terms>) -> Option<u64>,
    ) -> Update {
        let bucket = self.algorithm();
        self.force(self.hash(key), |value, now| {
            let view = bucket.view(value, now);
            raise(&view).map(|tat| view.value(tat))
        })
    }

    /// Every key that has debt now, with its debt, in no particular order. O(capacity). Needs a
    /// [debt rule](crate::rule::DebtRule).
    ///
    /// Not a snapshot: each key is read at its own moment while others go on checking.
    pub fn live(&self) -> impl Iterator<Item = (KeyHash, Duration)> + '_ {
        self.in_debt(self.table.entries())
    }

    /// [`Limiter::live`] in parts of bounded work: the keys that have debt in part `part` of
    /// [`Limiter::live_parts`], at most 256. A key stays in its part as long as it has debt and
    /// is not evicted. Empty behind the last part. O(1).
    pub fn live_part(&self, part: usize) -> impl Iterator<Item = (KeyHash, Duration)> + '_ {
        self.in_debt(self.table.entries_of_part(part))
    }

    /// How many parts there are for [`Limiter::live_part`]. Constant.
    #[must_use]
    pub fn live_parts(&self) -> usize {
        self.table.parts()
    }

    fn in_debt<'a>(
        &'a self,
        entries: impl Iterator<Item = (KeyHash, u64)> + 'a,
    ) -> impl Iterator<Item = (KeyHash, Duration)> + 'a {
        entries.filter_map(move |(key, value)| {
            let debt = self.algorithm().view(value, self.instant_now()).debt()?;
            Some((key, debt))
        })
    }
}

#[cfg(feature = "std")]
impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    fn leases(&self) -> Option<(&Leases, &Gcra)> {
        self.mode.leases::<Quota>(self.algorithm())
    }

    /// How many units a thread leases of a hot key at most; 0 where nothing is leased. Set by
    /// [`LimiterBuilder::lease_units`](crate::limiter::LimiterBuilder::lease_units).
    #[must_use]
    pub fn lease_units(&self) -> u64 {
        self.leases().map_or(0, |(leases, _)| leases.most())
    }

    /// How many units of a key all threads together have leased and not used, without expired ones
    /// and those that other threads have cached: what this thread would still be admitted when the
    /// key's word is exhausted. O(threads).
    ///
    /// Not a snapshot: each thread's share is read at its own moment.
    #[must_use]
    pub fn leased(&self, key: impl Key) -> u64 {
        let Some((leases, gcra)) = self.leases() else { return 0 };
        let (key, now) = (self.hash(key), self.instant_now());
        let tat = lease::tat_of(&self.table, key, now);
        leases.units(gcra, key, tat, now)
    }

    /// Gives back what this thread, and those that share its stripe, have leased and not used, as
    /// far as nothing has been charged to the same key since; the rest can still be used by other
    /// threads until it expires. Of cached units, this includes those that this thread holds right
    /// before a lease of its own stripe; others stay where they are. For a thread that goes idle;
    /// never needed for correctness. O(1), at most 64 keys.
    pub fn return_leases(&self) {
        if let Some((leases, gcra)) = self.leases() {
            leases.give_back_all(Seat::here(), gcra, &self.table);
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    pub(crate) fn parts(
        &self,
    ) -> (&crate::table::Table<crate::rule::gcra::Tat>, &crate::rule::gcra::Gcra) {
        (&self.table, self.algorithm())
    }

    #[cfg(feature = "std")]
    pub(crate) fn leases_on(&self) -> &Leases {
        self.leases().expect("leases are on").0
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
impl<C: Clock> Limiter<Quota, C> {
    /// A limiter over a table of any size.
    pub(crate) fn for_tests(
        rule: Quota,
        clock: C,
        table: crate::table::Table<crate::rule::gcra::Tat>,
        mode: super::Mode,
    ) -> Self {
        Self::from_parts(super::Parts {
            algorithm: crate::rule::gcra::Gcra::exact(&rule).expect("the quota can be enforced"),
            rule,
            hasher: crate::base::key::KeyHasher::rapid(1),
            clock,
            table,
            mode,
            observer: (),
            waiters: crate::contract::wait::Waiters::new(
                crate::contract::wait::DEFAULT_MAX_WAITERS,
            ),
        })
    }
}
