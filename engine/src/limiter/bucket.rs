//! What only limiters with a quota have: their words are theoretical arrival times.

use core::time::Duration;

use crate::clock::{Clock, Timestamp};
#[cfg(feature = "std")]
use crate::denied::Beside;
use crate::gcra::Bucket;
use crate::key::{Key, KeyHash};
#[cfg(feature = "std")]
use crate::lease::{self, Leases, Seat};
use crate::observer::Observer;
use crate::quota::Quota;
use crate::rule::Rule;

use super::Limiter;

impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    /// The quota that is enforced: [`Limiter::rule`].
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.rule()
    }
}

impl<R: Rule<Algorithm: Bucket>, C: Clock, O: Observer> Limiter<R, C, O> {
    /// For limiters with a [`Quota`] or a `LiveQuota`: charges debt that was consumed elsewhere at time `at`, whether or not
    /// it fits. Debt that has drained since `at` on a key that was idle is not charged again. Debt may exceed the
    /// burst tolerance; then even a cost of 1 waits. Saturates 18 years after the clock's origin.
    ///
    /// Debt is a duration, and counts as that under the quota in force. A key that was fresh when
    /// the quota changed counts as idle before it.
    ///
    /// For a key without a place this follows the [`OverflowPolicy`](crate::OverflowPolicy).
    pub fn charge_debt(&self, key: impl Key, debt: Duration, at: Timestamp) {
        let view = |value, now| self.algorithm().view(value, now);
        let _ = self.force(self.hash(key), |value, now| view(value, now).charge_debt(debt, at));
    }

    /// For limiters with a [`Quota`] or a `LiveQuota`: raises the key's debt to at least `debt` as of now. Idempotent.
    pub fn raise_debt(&self, key: impl Key, debt: Duration) {
        let at = self.clock.now();
        let view = |value, now| self.algorithm().view(value, now);
        let _ = self.force(self.hash(key), |value, now| view(value, now).raise_debt(debt, at));
    }

    /// For limiters with a [`Quota`] or a `LiveQuota`: every key that has debt now, with its debt, in no particular order.
    /// O(capacity).
    ///
    /// Not a snapshot: each key is read at its own moment while others go on checking.
    pub fn live(&self) -> impl Iterator<Item = (KeyHash, Duration)> + '_ {
        self.table.entries().filter_map(move |(key, value)| {
            let debt = self.algorithm().view(value, self.instant_now()).debt()?;
            Some((key, debt))
        })
    }
}

#[cfg(feature = "std")]
impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    fn beside_leases(&self) -> Option<&Leases> {
        self.leases.as_ref().and_then(Beside::leases)
    }

    /// How many units a thread leases of a hot key at most; 0 where nothing is leased. Set by
    /// [`LimiterBuilder::lease_units`](crate::LimiterBuilder::lease_units).
    #[must_use]
    pub fn lease_units(&self) -> u64 {
        self.beside_leases().map_or(0, Leases::most)
    }

    /// How many units of a key all threads together have leased and not used, drained ones and what other threads
    /// hold in hand left out: what this thread would still be admitted after `peek` says that nothing remains.
    /// O(threads).
    ///
    /// Not a snapshot: each thread's share is read at its own moment.
    #[must_use]
    pub fn leased(&self, key: impl Key) -> u64 {
        let Some(leases) = self.beside_leases() else { return 0 };
        let (key, now) = (self.hash(key), self.instant_now());
        let tat = lease::look(&self.table, key, now);
        leases.units(self.algorithm(), key, tat, now)
    }

    /// Gives back what this thread, and those that share its part, have leased and not used, as far as nothing has been
    /// charged to the same key since; the rest can still be used by others until it has drained. Of what threads hold
    /// in hand, this takes along what this thread holds right before a lease of its own part; other units stay where
    /// they are. For a thread that goes idle; never needed for correctness. O(1), at most 64 keys.
    pub fn return_leases(&self) {
        if let Some(leases) = self.beside_leases() {
            leases.give_back_all(Seat::here(), self.algorithm(), &self.table);
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    pub(crate) fn parts(&self) -> (&crate::table::Table<crate::gcra::Tat>, &crate::gcra::Gcra) {
        (&self.table, self.algorithm())
    }

    #[cfg(feature = "std")]
    pub(crate) fn leases(&self) -> &Leases {
        self.beside_leases().expect("leases are on")
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
impl<C: Clock> Limiter<Quota, C> {
    /// A limiter over a table of any size.
    pub(crate) fn for_tests(
        rule: Quota,
        clock: C,
        table: crate::table::Table<crate::gcra::Tat>,
        leases: Option<crate::denied::Beside>,
    ) -> Self {
        Self::from_parts(super::Parts {
            algorithm: crate::gcra::Gcra::exact(&rule).expect("the quota can be enforced"),
            rule,
            hasher: crate::key::KeyHasher::rapid(1),
            clock,
            table,
            leases,
            observer: (),
            waiters: crate::acquire::Waiters::new(crate::acquire::DEFAULT_MAX_WAITERS),
        })
    }
}
