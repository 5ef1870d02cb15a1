//! The limiter: look the key up, update its word, answer.

mod bucket;
mod enqueue;
#[cfg(feature = "std")]
mod live;
mod lower;
mod many;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod receipts;
mod restore;
mod with_quota;
mod with_quota_owned;

use crate::acquire::Waiters;
use crate::builder::LimiterBuilder;
use crate::clock::{Clock, DefaultClock, Timestamp};
use crate::decision::Decision;
use crate::key::{Key, KeyHash, KeyHasher};
use crate::observer::Observer;
use crate::overflow::{Event, OverflowCounts, OverflowPolicy, answer};
use crate::quota::Quota;
use crate::rule::{Algorithm, Leasing, Rule};
use crate::table::{Missed, Table, Update};

pub use with_quota::WithQuota;
pub use with_quota_owned::OwnedWithQuota;

type State<R> = <<R as Rule>::Algorithm as Algorithm>::State;

/// A rate limiter for many keys, shared by reference between any number of threads.
///
/// State is one 64-bit word a key in a table of fixed size: a check neither locks nor allocates,
/// and memory does not grow. Keys need no set-up and no clean-up: a key that has been idle until
/// its debt drained, or its window was over, is exactly as if it had never been seen.
///
/// # Guarantees
/// * What is admitted of each key is bounded by the [`Rule`], for any number of threads; the rule's type
///   says how: [`Quota`], [`SlidingWindow`](crate::SlidingWindow), [`FixedWindow`](crate::FixedWindow),
///   [`CalendarWindow`](crate::CalendarWindow), `LiveQuota`. [`Limiter::refund`] adds what it gives back, and
///   [`Limiter::reset`] begins anew.
/// * Lock-free: a thread that is stopped anywhere never keeps another from deciding.
/// * When more keys are live than fit, the [`OverflowPolicy`] says what happens, and
///   [`Limiter::overflow`] counts it. By default the key that loses least among those that compete
///   for a place is forgotten, and keys that are being denied are forgotten last. No debt is lost
///   but what is counted there.
///
/// # Leases
/// For limiters with a [`Quota`]. Two cores that write one word are slower than one. [`LimiterBuilder::lease_units`] lets threads charge
/// several units of a hot key at once and use them one by one, so that what is allowed on one
/// key scales with cores too. A key becomes hot by being admitted at least 64 times by one thread.
/// * The first guarantee stays as it is, exactly, but for what the last two points say. Leased units drain with the
///   time they were charged for, and nobody uses one that has begun to.
/// * Nobody is denied a cost of 1 while another thread has leased units of the key that have not drained and lies idle,
///   unless that thread is just taking them, or a refund is under way, or for what it holds in hand: up to 31 units,
///   and no more than a quarter of the largest lease, that it took out of a lease at once to use them without an atomic
///   step. They are lost when it ends. A higher cost is paid by the word or by one lease as a whole, so it can be
///   denied while up to 1/16 of the burst is leased in parts, or units are held in hand.
/// * Units that drain in a lease unused are lost to everybody: about 1/16 of what is admitted, at
///   the worst 1/8, of keys whose threads keep changing or fall idle for as long as a lease takes
///   to drain, and of keys that are refunded as often as they are charged. Of what a thread uses at most 1/32 is lost in
///   hand besides, where it ends, idles, or is in the middle of it when a refund reaches below what it holds.
/// * `remaining` counts what other threads have leased as taken, and `reset_after` counts leased
///   units as used. Both describe the key's word at a moment during the call. Where told debt has
///   taken the word beyond the burst, [`Limiter::peek`] says so and leaves this thread's lease out,
///   from which a check may still be admitted.
/// * [`Limiter::with_quota`] and the charging of debt look at the word alone; so does
///   [`Limiter::live`], which counts leased units as debt. Debt that is charged does not take leased
///   units back.
/// * All leases of a key together are at most 1/16 of the burst, besides what each thread holds in hand.
/// * When a key is forgotten, what is leased of it is void until the word has grown past it; then what is used of
///   that comes on top of what the word admits.
/// * What is refunded, or given back by a reservation, comes out of leases first, and a reset empties them; what
///   other threads are just taking or returning is lost to everybody. Until such a call has returned, however long its
///   thread is stopped, units that were leased before it can come on top of what the word admits, as long as they have not
///   drained.
///
/// ```
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(100).burst(2)).capacity(1_000).build()?;
/// assert!(limiter.check("user:42").is_allowed());
/// assert_eq!(limiter.check("user:42").remaining(), 0);
/// let denied = limiter.check("user:42");
/// assert!(!denied.is_allowed());
/// assert!(denied.retry_after().is_some());
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Limiter<R: Rule = Quota, C = DefaultClock, O = ()> {
    algorithm: R::Algorithm,
    hasher: KeyHasher,
    clock: C,
    table: Table<State<R>>,
    leases: Option<R::Leases>,
    observer: O,
    rule: R,
    waiters: Waiters,
}

/// What a limiter is made of.
pub(crate) struct Parts<R: Rule, C, O> {
    pub(crate) rule: R,
    pub(crate) algorithm: R::Algorithm,
    pub(crate) hasher: KeyHasher,
    pub(crate) clock: C,
    pub(crate) table: Table<State<R>>,
    pub(crate) leases: Option<R::Leases>,
    pub(crate) observer: O,
    pub(crate) waiters: Waiters,
}

impl Limiter {
    /// A limiter that enforces `rule` on up to [`DEFAULT_CAPACITY`](crate::DEFAULT_CAPACITY) keys, with
    /// every other choice as [`Limiter::builder`] makes it. O(capacity), as [`LimiterBuilder::build`]. Blocks for up to
    /// 200 ms where it makes the first [`TscClock`](crate::TscClock) of the process.
    ///
    /// # Errors
    /// When the rule can not be enforced, or the memory is not to be had.
    #[cfg(feature = "std")]
    pub fn new<R: Rule>(rule: R) -> Result<Limiter<R>, crate::BuildError> {
        Self::builder(rule).build()
    }

    /// Starts building a limiter that enforces `rule`, on the time-stamp counter unless told
    /// otherwise.
    #[cfg(feature = "std")]
    pub fn builder<R: Rule>(rule: R) -> LimiterBuilder<R> {
        LimiterBuilder::new(rule)
    }

    /// Starts building a limiter from a clock and a hasher of yours, without an operating system.
    /// Who can choose keys must not be able to guess the hasher's seed.
    ///
    /// ```
    /// use tidegate_engine::{KeyHasher, Limiter, ManualClock, Quota};
    ///
    /// let (clock, hasher) = (ManualClock::new(), KeyHasher::rapid(0x5eed));
    /// let limiter = Limiter::builder_with(Quota::per_second(1), clock, hasher).build()?;
    /// assert!(limiter.check("user:42").is_allowed());
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    pub fn builder_with<R: Rule, C: Clock>(
        rule: R,
        clock: C,
        hasher: KeyHasher,
    ) -> LimiterBuilder<R, C> {
        LimiterBuilder::with(rule, clock, hasher)
    }
}

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    pub(crate) fn from_parts(parts: Parts<R, C, O>) -> Self {
        let Parts { rule, algorithm, hasher, clock, table, leases, observer, waiters } = parts;
        Self { algorithm, hasher, clock, table, leases, observer, rule, waiters }
    }

    /// Asks for one unit: [`Limiter::check_n`] with a cost of 1.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `cost` units and takes them when they fit, at the clock's present reading.
    ///
    /// A cost of 0 takes nothing: it is a [`Limiter::peek`]. O(1).
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        // The counter is read before the table: it waits for what was asked of memory before.
        let key = self.hash(key);
        let now = self.clock.now();
        self.decide(key, cost, now, || self.clock.now())
    }

    /// As [`Limiter::check_n`], at a time the caller gives: for a batch that shares one reading, or
    /// a recorded sequence. `now` is on the scale of the limiter's clock.
    ///
    /// A `now` earlier than that of a previous check never mints tokens on a key that is still in
    /// the table. Between concurrent callers whose `now`s differ by `d`, a key whose debt drained
    /// for one and not yet for the other may be admitted up to `rate * d` beyond the guarantee; under a
    /// rule that counts in windows, a key whose window is over for one and not yet for the other up to
    /// the limit once more in that window.
    ///
    /// A timestamp of another clock can not be told from one of this clock, and is off by as much as their origins lie
    /// apart. One that is behind finds debt that has drained, and is denied for it. One that is ahead finds debt
    /// drained that has not, and is admitted beyond the guarantee; what it charges denies the key to others
    /// until their clock has come there.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_at(&self, key: impl Key, cost: u64, now: Timestamp) -> Decision {
        self.decide(self.hash(key), cost, now, move || now)
    }

    /// What a check would find, without charging anything: `remaining` is what is left.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.check_n(key, 0)
    }

    /// What a check of `cost` would find, without charging anything: whether it fits, and else when it will; `remaining` is
    /// what is left either way. With leases by the key's word alone: units that threads hold do not count. Observers hear of it
    /// as of a look. O(1).
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek_n(&self, key: impl Key, cost: u64) -> Decision {
        self.peek_under(self.algorithm(), self.hash(key), cost)
    }

    /// Charges `cost` units at the clock's present reading, whether or not they fit: for a cost that is known
    /// only when it has been spent. What does not fit is debt beyond the burst, and even a cost of 1 waits until
    /// it has drained. Saturates where the words of the [`Rule`] do.
    ///
    /// The answer is that of a [`Limiter::peek`] straight after. For a key without a place the charge
    /// follows the [`OverflowPolicy`]. Where a cost can be estimated before it is spent, [`Limiter::reserve`] also asks
    /// whether it fits. O(1), neither locks nor allocates.
    pub fn charge(&self, key: impl Key, cost: u64) -> Decision {
        let key = self.hash(key);
        self.force(key, |value, now| self.algorithm().charge(value, now, cost));
        self.peek(key)
    }

    /// The key's hash under this limiter's hasher, which stands for the key in every call. O(length of the key).
    ///
    /// A [`KeyHash`] is its own hash. One that another hasher made is taken as it is and names some other
    /// key here: it has a state of its own, apart from that of the key it was made from.
    #[inline]
    pub fn hash(&self, key: impl Key) -> KeyHash {
        key.hash_with(&self.hasher)
    }

    /// The rule the limiter was built with, which it enforces; under a `LiveQuota`, `Limiter::quota` is the one in
    /// force.
    #[must_use]
    pub fn rule(&self) -> R {
        self.rule
    }

    /// The clock that [`Limiter::check`] reads.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// What the builder was given to hear of each decision.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// How many keys can be live at once at the fill the table is sized for, at least what the
    /// builder asked for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Bytes reserved for the table. Pages no key has touched take no memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// What happens to a key that finds no place.
    #[must_use]
    pub fn overflow_policy(&self) -> OverflowPolicy {
        self.table.policy()
    }

    /// How often keys have found no place, and what became of it.
    #[must_use]
    pub fn overflow(&self) -> OverflowCounts {
        self.table.counts()
    }

    /// How many live keys have been forgotten to make room, since the limiter was built:
    /// [`OverflowCounts::evicted`].
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// Decides under the limiter's own rule.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide(
        &self,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let decision = match &self.leases {
            None => self.decide_by_word(self.algorithm(), key, cost, now, reread),
            Some(leases) => {
                let (now, reread) = (self.instant(now), || self.instant(reread()));
                leases.decide(&self.table, self.algorithm(), key, cost, now, reread)
            }
        };
        self.heard(key, cost, decision)
    }

    /// The decision, once the observer has heard of it.
    #[inline]
    fn heard(&self, key: KeyHash, cost: u64, decision: Decision) -> Decision {
        if O::LISTENS {
            self.observer.decided(key, cost, &decision);
        }
        decision
    }

    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide_by_word<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let (home, now) = (self.table.home(key), self.instant(now));
        let admit = |value, now| if cost == 0 { None } else { algorithm.admit(value, now, cost) };
        let tried = if C::STALLS {
            home.try_at_home::<true>(now, admit)
        } else {
            home.try_at_home::<false>(now, admit)
        };
        match tried {
            Ok(update) => answer(&self.table, algorithm, key, update, cost),
            Err(missed) => {
                self.decide_after(missed, algorithm, key, cost, now, reread).in_registers()
            }
        }
    }

    /// [`Limiter::decide_by_word`] for a key that was missed in its home line. Out of line, so that checks that
    /// find their key there carry none of its registers.
    #[inline(never)]
    fn decide_after<A: Algorithm<State = State<R>>>(
        &self,
        missed: Missed,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let reread = || self.instant(reread());
        let admit = |value, now| if cost == 0 { None } else { algorithm.admit(value, now, cost) };
        let update = self.table.home(key).update_after(missed, now, reread, admit);
        answer(&self.table, algorithm, key, update, cost)
    }

    /// The rule in the form in which checks are decided.
    #[inline]
    fn algorithm(&self) -> &R::Algorithm {
        &self.algorithm
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        self.algorithm().instant(now)
    }

    fn instant_now(&self) -> u64 {
        self.instant(self.clock.now())
    }

    /// Updates a key whether or not it has a place yet.
    fn force(&self, key: KeyHash, raise: impl Fn(u64, u64) -> Option<u64>) -> Update {
        let now = || self.instant_now();
        let update = self.table.home(key).update(now(), now, raise);
        if matches!(update, Update::Full { .. }) {
            self.table.count(Event::ChargeDropped);
        }
        update
    }
}
