//! Reserving units, and settling later how many of them were used.

use alloc::sync::Arc;
use core::fmt;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::contract::limit::{Limit, LimitRef, Receipt, Subject, answered, settle};
use crate::contract::observer::ObservedKey;
use crate::rule::quota::Quota;

/// Units taken from a key before it is known how many are used; from
/// [`Limiter::reserve`](crate::Limiter::reserve).
///
/// [`Reservation::commit`] settles what was used; [`Reservation::cancel`] gives everything back,
/// and so does a drop, so an early return or a panic costs nothing. Each consumes the reservation,
/// so it is settled once. A reservation that is leaked stays charged, as a check would.
///
/// # What is given back
/// Only what still counts. Units reserved from a [`Quota`](crate::Quota) drain like those of a
/// check, and what has drained by the time of settling no longer limits others; units of a window
/// that is over do not lower the count of the next one, and those of a sub-window of a counter
/// count as long as it does.
///
/// Nothing is given back on a key with waiters ([`Limiter::acquire`](crate::Limiter::acquire)):
/// their starts are already assigned, and newcomers would start at the same time. Once any caller
/// has waited on a limiter, a key counts as one with waiters while its debt exceeds the time in
/// which the burst under which they waited refills; the shortest such time counts. So where some
/// callers wait under a shorter burst than others reserve under
/// ([`Limiter::with_quota`](crate::Limiter::with_quota)), a reservation stays charged while the key
/// owes more than the shorter burst: use a separate limiter for callers that wait.
///
/// # Guarantees
/// * While a reservation is open it counts in full, so what is admitted and reserved stays within
///   the limit. Settling it leaves others no more than they would have had without it, so what is
///   admitted and committed also stays within the limit, whenever it is settled. What is committed
///   beyond the reservation is debt, as from [`Limiter::charge`](crate::Limiter::charge).
/// * A quota has one exception, because a word keeps no list of reservations. One that is given
///   back moves later reservations of the key that are still open forward in time. If the key then
///   becomes idle before these are settled, they give back up to as much as it did although it has
///   drained: at most their own cost each, and only before the time at which they would have
///   drained in their old place.
/// * A concurrent check sees the units of a settled reservation either taken or given back, never
///   in between.
/// * If the key is reset, refunded or evicted while the reservation is open, what is given back is
///   taken from later charges of others, at most the reserved cost.
/// * A limiter with leases reserves from the word of the key only, and what is given back may void
///   leases, like a [`Limiter::refund`](crate::Limiter::refund).
///
/// The limiter's [`Observer`](crate::Observer) is notified of a reservation as of a check, and not
/// of how it is settled. O(1); with leases O(threads). Neither locks nor allocates.
///
/// # Token budgets of a language model
/// ```
/// use tidegate_engine::{Decision, Limiter, Quota};
///
/// // What a prompt costs is known when it has been answered.
/// fn complete(budget: &Limiter, user: &str, prompt: &str) -> Result<String, Decision> {
///     const MOST: u64 = 4_000;
///     let reserved = budget.reserve(user, MOST)?;
///     let (answer, used) = ask_model(prompt, MOST); // an error or a panic here would cost nothing
///     let left = reserved.commit(used);
///     println!("{} tokens left", left.remaining());
///     Ok(answer)
/// }
///
/// let budget = Limiter::builder(Quota::per_hour(10_000)).build()?;
/// assert!(complete(&budget, "user:42", "Why is the sky blue?").is_ok());
/// assert!(budget.peek("user:42").remaining() >= 10_000 - 812);
/// # fn ask_model(_: &str, _: u64) -> (String, u64) { ("Rayleigh.".into(), 812) }
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[must_use = "a reservation that is dropped gives everything back"]
pub struct Reservation<'l> {
    limit: LimitRef<'l>,
    key: KeyHash,
    /// The quota given with the call, if any.
    quota: Option<Quota>,
    cost: u64,
    receipt: Receipt,
    /// What the limit decided, which a shadow does not enforce.
    decision: Decision,
    open: bool,
}

impl<'l> Reservation<'l> {
    pub(crate) fn borrowed(
        limit: &'l dyn Limit,
        subject: Subject<'_>,
        given: &dyn Key,
        cost: u64,
    ) -> Result<Self, Decision> {
        Self::take(LimitRef::Borrowed(limit), subject, given, cost)
    }

    pub(crate) fn shared(
        limit: Arc<dyn Limit>,
        subject: Subject<'_>,
        given: &dyn Key,
        cost: u64,
    ) -> Result<Self, Decision> {
        Self::take(LimitRef::Shared(limit), subject, given, cost)
    }

    /// The key as it was `given` is for the observer.
    fn take(
        limit: LimitRef<'l>,
        subject: Subject<'_>,
        given: &dyn Key,
        cost: u64,
    ) -> Result<Self, Decision> {
        let of = limit.limit();
        let (decision, receipt) = of.try_charge(subject, cost, of.now());
        // Built before the observer is notified, so that a panic in it gives back what was taken.
        let (open, Subject { key, quota, .. }) = (answered(of, decision).is_allowed(), subject);
        let taken = Self { limit, key, quota: quota.copied(), cost, receipt, decision, open };
        taken.limit.limit().notify(ObservedKey::new(key, given), cost, &decision);
        if open { Ok(taken) } else { Err(decision) }
    }

    /// Settles on `actual` units: gives back what was reserved beyond them, as far as it still
    /// counts, or charges what is missing whether or not it fits, as debt beyond the burst.
    ///
    /// The answer is that of a [`Limiter::peek`](crate::Limiter::peek) at the moment of settling:
    /// what remains, and a denial where even a cost of 1 has to wait for debt.
    #[allow(clippy::must_use_candidate, reason = "a caller may have no use for what remains")]
    pub fn commit(mut self, actual: u64) -> Decision {
        self.settle(actual)
    }

    /// Gives back everything that still counts, like a drop.
    pub fn cancel(self) {}

    /// The number of reserved units.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The decision that admitted them.
    #[must_use]
    pub fn decision(&self) -> Decision {
        answered(self.limit.limit(), self.decision)
    }

    /// Of what a shadow would have denied, nothing is charged.
    fn settle(&mut self, actual: u64) -> Decision {
        self.open = false;
        let subject = Subject { key: self.key, quota: self.quota.as_ref(), left: 0 };
        let limit = self.limit.limit();
        let actual = if self.decision.is_allowed() { actual } else { self.cost };
        answered(limit, settle(limit, subject, self.cost, self.receipt, actual))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = self.settle(0);
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("key", &self.key)
            .field("cost", &self.cost)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
