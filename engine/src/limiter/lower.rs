//! Giving back: the operations that lower a key's value.
//!
//! They are charges with the opposite sign: one compare-and-swap from the word that was read, in
//! the same generation, of a key that has a live word. A key without one is fresh already, so they
//! never claim a slot.

use crate::base::key::{Key, KeyHash};
#[cfg(feature = "std")]
use crate::base::stripe::Seat;
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::time::Clock;

use super::Limiter;
use super::change::Change;
#[cfg(feature = "std")]
use super::lease::{Lowered, Refund};

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Gives back `cost` units that were admitted and not used: lowers the key's debt by `cost`
    /// emission intervals of the limiter's own quota, or its count in the present window by `cost`
    /// (then, where it still weighs, in the one before), at most to none.
    ///
    /// A key without debt is left as it is: a refund never makes a key better than fresh, and debt
    /// that has drained since it was charged cannot be given back. `cost` may be of any size; what
    /// exceeds the debt lapses. Nothing is given back on a limiter whose own quota is blocked.
    ///
    /// No receipts are kept; to give back exactly what was charged use [`Limiter::reserve`]. A
    /// refund of what was never charged, or whose charge has drained while others were made, is
    /// taken from the debt that is there, so it lets others in: together at most the burst, or the
    /// window's limit, beyond what the [`Rule`] guarantees, each time it is done. Units that were
    /// charged under a quota given with the call are given back by `WithQuota::refund`: here too
    /// much comes back where that quota had a shorter emission interval, and too little where a
    /// longer one.
    ///
    /// Concurrent callers see the debt before or after, never between; of two refunds and any
    /// checks at the same time none is lost. If the key is evicted first, nothing is left to give
    /// back. With leases, what threads have leased last is returned too, in further steps: see
    /// [`LimiterBuilder::lease_units`](crate::limiter::LimiterBuilder::lease_units). O(1); with
    /// leases O(threads), and as much again for each that is returned. Neither locks nor allocates.
    pub fn refund(&self, key: impl Key, cost: u64) {
        self.give_back_to(key, |value, now| self.algorithm().refund(value, now, cost));
    }

    /// Forgets the key's debt, as if it had never been seen; the next check finds the whole burst.
    ///
    /// The debt ends at the clock's present reading: a [`Limiter::check_at`] with an earlier time
    /// still finds that of the time between, and under a rule that counts in windows is decided in
    /// the window of the reset, of which nothing is used. A check at the same time is charged
    /// before, and forgotten, or after; a key that was never seen stays so. O(1); with leases
    /// O(threads). Neither locks nor allocates.
    ///
    /// What threads have leased of the key is revoked too, also what they are just taking.
    ///
    /// # Edge cases
    /// With leases, a thread may stall within [`Limiter::return_leases`], just before it gives a
    /// lease back. The key is reset meanwhile, and charged again until its debt ends at the very
    /// nanosecond at which the lease ended. Then the thread takes back as many of those charges as
    /// it had leased units: after a lease of 8 units, 8 units that were used are admitted once
    /// more.
    pub fn reset(&self, key: impl Key) {
        let key = self.hash(key);
        if let Some(change) = self.lower_word(key, |value, now| self.algorithm().reset(value, now))
        {
            self.notify_of_change(key, change);
        }
        if self.waiters.count() > 0 {
            self.wait_lists.fix(key, self.clock.now());
        }
        // Also where there was no word: what was leased of one that was evicted.
        #[cfg(feature = "std")]
        if let Some((leases, _)) = self.mode().leases::<R>(self.algorithm()) {
            leases.revoke(key);
        }
    }

    /// [`Limiter::lower`] for a call that gives back, of which observers of debt are notified.
    pub(super) fn give_back_to(&self, key: impl Key, decide: impl Fn(u64, u64) -> Option<u64>) {
        let key = self.hash(key);
        if let Some(change) = self.lower(key, decide) {
            self.notify_of_change(key, change);
        }
    }

    /// Replaces a live word by what `decide(value, now)` returns, which is less; its last call
    /// counts. Recalls what threads have leased of what is given back.
    pub(crate) fn lower(
        &self,
        key: KeyHash,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<Change> {
        let change @ Change { from, to, .. } = self.lower_word(key, decide)?;
        self.lowered(key, from, to);
        if self.waiters.count() > 0 {
            self.wait_lists.refunded(key, from.saturating_sub(to));
        }
        Some(change)
    }

    fn lower_word(&self, key: KeyHash, decide: impl Fn(u64, u64) -> Option<u64>) -> Option<Change> {
        let now = || self.instant_now();
        let update = self.table.home(key).update(now(), now, &decide);
        Change::of(update, decide)
    }

    /// Recalls what threads have leased of a key whose word was lowered.
    #[cfg(feature = "std")]
    pub(super) fn lowered(&self, key: KeyHash, from: u64, to: u64) {
        if let Some((leases, gcra)) = self.mode().leases::<R>(self.algorithm()) {
            let refund = Refund { gcra, table: &self.table, key, now: || self.instant_now() };
            leases.recall(Seat::here(), &refund, Lowered { from, to });
        }
    }

    /// Without threads there are no leases.
    #[cfg(not(feature = "std"))]
    #[expect(clippy::unused_self, reason = "as with leases")]
    pub(super) fn lowered(&self, _: KeyHash, _: u64, _: u64) {}
}
