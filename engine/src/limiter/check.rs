//! Checks, charges, what a limiter was built with, and what it counts.

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::table::overflow::{OverflowCounts, OverflowPolicy};
use crate::time::{Clock, Timestamp};

use super::Limiter;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Asks for one unit: [`Limiter::check_n`] with a cost of 1.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `cost` units and takes them when they fit, at the clock's present reading.
    ///
    /// A cost of 0 takes nothing: it is a [`Limiter::peek`]. O(1).
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        // The clock is read before the table: the time-stamp counter waits for outstanding loads.
        self.decide(self.hashed(key), cost, self.clock.now(), || self.clock.now())
    }

    /// As [`Limiter::check_n`], at a time given by the caller: for a batch that shares one reading,
    /// or a recorded sequence. `now` is on the scale of the limiter's clock.
    ///
    /// A `now` earlier than that of a previous check never mints tokens on a key that is still in
    /// the table. Between concurrent callers whose `now`s differ by `d`, a key whose debt has
    /// drained for one and not yet for the other may be admitted up to `rate * d` beyond the
    /// guarantee; under a rule that counts in windows, a key whose window is over for one and not
    /// yet for the other may be admitted up to the limit once more in that window.
    ///
    /// A timestamp of another clock cannot be detected, and is off by the difference of their
    /// origins. One that is behind sees too much debt, and is denied. One that is ahead sees too
    /// little, and is admitted beyond the guarantee; what it charges denies the key to others until
    /// their clock has caught up.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, key: impl Key, cost: u64, now: Timestamp) -> Decision {
        self.decide(self.hashed(key), cost, now, move || now)
    }

    /// What a check would find, without charging anything: `remaining` is what is left.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.check_n(key, 0)
    }

    /// What a check of `cost` would find, without charging anything: whether it fits, and if not,
    /// when it will; `remaining` is the same in both cases. With leases this reads the word of the
    /// key only: units that threads have leased count as taken. Observers are notified of it as of
    /// a peek. O(1).
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek_n(&self, key: impl Key, cost: u64) -> Decision {
        self.peek_under(self.algorithm(), &self.hashed(key), cost)
    }

    /// Charges `cost` units at the clock's present reading, whether or not they fit: for a cost
    /// that is known only after it was spent. What does not fit is debt beyond the burst, and even
    /// a cost of 1 waits until it has drained. Saturates where the words of the [`Rule`] do.
    ///
    /// The answer is that of a [`Limiter::peek`] straight after. For a key without a slot the
    /// charge follows the [`OverflowPolicy`]. Where a cost can be estimated before it is spent,
    /// [`Limiter::reserve`] also checks whether it fits. O(1), neither locks nor allocates.
    pub fn charge(&self, key: impl Key, cost: u64) -> Decision {
        let key = self.hashed(key);
        let charge = |value, now| self.algorithm().charge(value, now, cost);
        self.notify_of_update(key.hash, self.force(key.hash, charge), charge);
        self.decide(key, 0, self.clock.now(), || self.clock.now())
    }

    /// The hash of the key under this limiter's hasher, which every call takes in place of the key.
    /// O(length of the key).
    ///
    /// A [`KeyHash`] is its own hash. One made by another hasher is used as it is and names another
    /// key here: its state is separate from that of the key it was made from.
    #[inline]
    pub fn hash(&self, key: impl Key) -> KeyHash {
        key.hash_with(&self.hasher)
    }

    /// The rule the limiter was built with, which it enforces; under a `LiveQuota`,
    /// `Limiter::quota` is the one in force.
    #[must_use]
    pub fn rule(&self) -> R {
        self.rule
    }

    /// The clock that [`Limiter::check`] reads.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The observer that was given to the builder.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// How many keys can be live at once at the intended fill, at least what was asked of the
    /// builder.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Bytes reserved for the table. Pages that no key has touched take no memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// What happens to a key that finds no slot.
    #[must_use]
    pub fn overflow_policy(&self) -> OverflowPolicy {
        self.table.policy()
    }

    /// How often keys have found no slot, and what happened to them.
    #[must_use]
    pub fn overflow(&self) -> OverflowCounts {
        self.table.counts()
    }

    /// How many live keys have been evicted to make room, since the limiter was built:
    /// [`OverflowCounts::evicted`].
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.table.evicted()
    }
}
