//! Reserving units now and settling later what was used of them.

use alloc::sync::Arc;
use core::fmt;

use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::{Key, KeyHash};
use crate::limit::{Lender, Limit, Receipt, Subject, settle};
use crate::limiter::Limiter;
use crate::observer::Observer;
use crate::quota::Quota;
use crate::rule::Rule;

/// Units taken from a key until it is known how many are used; from [`Limiter::reserve`].
///
/// [`Reservation::commit`] settles what was used, [`Reservation::cancel`] gives everything back,
/// and so does dropping it: an early return or a panic costs nothing. Each consumes the
/// reservation, so it is settled once. One that is leaked stays charged, as a check would.
///
/// # What is given back
/// Only what still counts. Units reserved from a [`Quota`](crate::Quota) drain like those of a
/// check, and what has drained by the time of settling was never in anybody's way; units of a
/// window that is over do not lower the count of the next one, and those of a counter's sub-window count as long as it does.
///
/// Nothing is given back of a key on which others wait ([`Limiter::acquire`]): their starts have been told, and newcomers
/// would start beside them. Once anybody has waited on a limiter, a key counts as one that owes more than the burst under
/// which they waited takes to refill; the shortest such time counts. So where some wait under a shorter burst than others
/// reserve under ([`Limiter::with_quota`]), what is reserved stays charged wherever more than the shorter one is
/// owed: give those who wait a limiter of their own.
///
/// # Guarantees
/// * While a reservation is open it counts in full, so that what is admitted and reserved stays
///   within the limit. Settling it leaves the others no more than they would have without it, so
///   what is admitted and committed stays within the limit as well, by whatever time it is settled.
///   What is committed beyond the reservation is debt, as from [`Limiter::charge`].
/// * A quota has one exception, since a word keeps no list of reservations. One that is given back
///   moves those that were reserved of the key after it, and are still open, forward in time. If
///   the key then falls idle before they are settled, they give back up to as much as it did
///   although it has drained: at most their own cost each, and only before the time at which they
///   would have drained in their old place.
/// * A concurrent check sees the units of a settled reservation taken or given back, never in
///   between.
/// * If the key is reset, refunded or evicted while the reservation is open, what is given back is
///   taken from what others were charged since, at most the reserved cost.
/// * On a limiter with leases only the key's word is asked, and what is given back may make leases
///   void as a [`Limiter::refund`] does.
///
/// The limiter's [`Observer`] hears of a reservation as of a check, and not of how it is settled.
/// O(1); with leases O(threads). Neither locks nor allocates.
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
    limit: Lender<'l>,
    key: KeyHash,
    /// Given with the call.
    quota: Option<Quota>,
    cost: u64,
    receipt: Receipt,
    decision: Decision,
    open: bool,
}

impl<R, C, O> Limiter<R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    /// Takes `cost` units when they fit, and hands out the right to give back what is not used of
    /// them. A cost of 0 takes nothing and can still be committed to more.
    ///
    /// O(1), neither locks nor allocates.
    ///
    /// # Errors
    /// The denial when the units do not fit; nothing is charged then, unless the limiter
    /// [charges what it denies](crate::LimiterBuilder::charge_denied).
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'_>, Decision> {
        Reservation::borrowed(self, Subject::from(self.hash(key)), cost)
    }

    /// As [`Limiter::reserve`], for a reservation that goes with a task: it keeps the limiter
    /// alive.
    ///
    /// # Errors
    /// The denial when the units do not fit; nothing is charged then, unless the limiter
    /// [charges what it denies](crate::LimiterBuilder::charge_denied).
    pub fn reserve_owned(
        self: &Arc<Self>,
        key: impl Key,
        cost: u64,
    ) -> Result<Reservation<'static>, Decision>
    where
        C: 'static,
        O: 'static,
    {
        let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
        Reservation::shared(limit, Subject::from(self.hash(key)), cost)
    }
}

impl<'l> Reservation<'l> {
    pub(crate) fn borrowed(
        limit: &'l dyn Limit,
        whom: Subject<'_>,
        cost: u64,
    ) -> Result<Self, Decision> {
        Self::take(Lender::Borrowed(limit), whom, cost)
    }

    pub(crate) fn shared(
        limit: Arc<dyn Limit>,
        whom: Subject<'_>,
        cost: u64,
    ) -> Result<Self, Decision> {
        Self::take(Lender::Shared(limit), whom, cost)
    }

    fn take(limit: Lender<'l>, whom: Subject<'_>, cost: u64) -> Result<Self, Decision> {
        let lender = limit.limit();
        let (decision, receipt) = lender.take(whom, cost, lender.now());
        // Before anybody hears of it: an observer that panics does not keep what was taken.
        let (open, Subject { key, quota }) = (decision.is_allowed(), whom);
        let taken = Self { limit, key, quota: quota.copied(), cost, receipt, decision, open };
        taken.limit.limit().tell(key, cost, &decision);
        if open { Ok(taken) } else { Err(decision) }
    }

    /// Settles on `actual` units: gives back what was reserved beyond them, as far as it still
    /// counts, or charges what is missing whether or not it fits, which makes debt beyond the
    /// burst.
    ///
    /// The answer is that of a [`Limiter::peek`] at the moment of settling: what is left, and a
    /// denial where even a cost of 1 has to wait for debt.
    #[allow(clippy::must_use_candidate, reason = "what is left need not matter to who has used it")]
    pub fn commit(mut self, actual: u64) -> Decision {
        self.settle(actual)
    }

    /// Gives everything back that still counts, as dropping the reservation does.
    pub fn cancel(self) {}

    /// The units that are reserved.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The decision by which they were taken.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    fn settle(&mut self, actual: u64) -> Decision {
        self.open = false;
        let whom = Subject { key: self.key, quota: self.quota.as_ref() };
        settle(self.limit.limit(), whom, self.cost, self.receipt, actual)
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
