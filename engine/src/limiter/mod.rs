//! The limiter for many keys: [`Limiter`], the bounds of its builder, and what
//! [`Limiter::with_quota`] returns.

#[cfg(feature = "std")]
mod any;
mod bucket;
pub(crate) mod builder;
mod denied;
mod enqueue;
mod follow;
#[cfg(feature = "std")]
pub(crate) mod lease;
mod leaving;
mod lend;
#[cfg(feature = "std")]
mod live;
mod lower;
mod many;
pub(crate) mod mode;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod receipts;
mod restore;
mod show;
mod up_to;
mod with_quota;
mod with_quota_owned;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash, KeyHasher};
use crate::base::word::Update;
use crate::contract::observer::{ObservedKey, Observer};
use crate::contract::wait::{WaitLists, Waiters};
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::rule::modes::Modes;
use crate::rule::quota::Quota;
use crate::table::answer::answer;
use crate::table::overflow::{Event, OverflowCounts, OverflowPolicy};
use crate::table::{Missed, Table};
use crate::time::{Clock, DefaultClock, Timestamp};

use denied::{TimedCheck, decide_charging};
use mode::Mode;

pub use crate::table::overflow::ParseOverflowPolicyError;
use builder::LimiterBuilder;
pub use builder::{DEFAULT_CAPACITY, MAX_CAPACITY};
#[cfg(feature = "std")]
pub use lease::MAX_LEASE_UNITS;
pub use with_quota::WithQuota;
pub use with_quota_owned::OwnedWithQuota;

type State<R> = <<R as Rule>::Algorithm as Algorithm>::State;

/// A rate limiter for many keys, shared by reference between any number of threads.
///
/// State is one 64-bit word a key in a table of fixed size: a check neither locks nor allocates,
/// and memory does not grow. Keys need no set-up and no clean-up: a key whose debt has drained, or
/// whose window is over, is exactly a fresh key.
///
/// # Guarantees
/// * What is admitted of each key is bounded by the [`Rule`], for any number of threads; see
///   [`Quota`], `LiveQuota`, [`SlidingWindow`](crate::SlidingWindow),
///   [`FixedWindow`](crate::FixedWindow) and [`CalendarWindow`](crate::CalendarWindow).
///   [`Limiter::refund`] adds what it gives back, and [`Limiter::reset`] starts anew.
/// * Lock-free: a thread that is stopped anywhere never keeps another from deciding.
/// * When more keys are live than fit, the [`OverflowPolicy`] decides, and [`Limiter::overflow`]
///   counts it. By default the key that loses least among those that compete for a slot is evicted,
///   and keys that are being denied are evicted last. No debt is lost except as counted there.
///
/// # Leases
/// [`LimiterBuilder::lease_units`] lets admissions on one hot key scale with cores, and states what
/// changes then.
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
#[doc(alias = "token bucket")]
#[doc(alias = "throttle")]
pub struct Limiter<R: Rule = Quota, C = DefaultClock, O = ()> {
    algorithm: R::Algorithm,
    hasher: KeyHasher,
    clock: C,
    table: Table<State<R>>,
    mode: Mode,
    observer: O,
    rule: R,
    waiters: Waiters,
    wait_lists: WaitLists,
}

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
        self.decide(self.asked(key), cost, self.clock.now(), || self.clock.now())
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
        self.decide(self.asked(key), cost, now, move || now)
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
        self.peek_under(self.algorithm(), &self.asked(key), cost)
    }

    /// Charges `cost` units at the clock's present reading, whether or not they fit: for a cost
    /// that is known only after it was spent. What does not fit is debt beyond the burst, and even
    /// a cost of 1 waits until it has drained. Saturates where the words of the [`Rule`] do.
    ///
    /// The answer is that of a [`Limiter::peek`] straight after. For a key without a slot the
    /// charge follows the [`OverflowPolicy`]. Where a cost can be estimated before it is spent,
    /// [`Limiter::reserve`] also checks whether it fits. O(1), neither locks nor allocates.
    pub fn charge(&self, key: impl Key, cost: u64) -> Decision {
        let key = self.asked(key);
        let charge = |value, now| self.algorithm().charge(value, now, cost);
        self.follow(key.hash, self.force(key.hash, charge), charge);
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

    /// Decides under the limiter's own rule.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "by reference the compiler keeps the hash in memory"
    )]
    #[inline(always)]
    fn decide<K: Key>(
        &self,
        key: Asked<K>,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let (mode, hash) = (self.mode(), key.hash);
        let decision = if mode.is_by_word() {
            self.decide_by_word(self.algorithm(), hash, cost, now, reread)
        } else {
            self.decide_by_mode(mode, hash, cost, self.instant(now), || self.instant(reread()))
        };
        self.notified(&key, cost, decision)
    }

    /// Decides where leases or charged denials are configured.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide_by_mode(
        &self,
        mode: &Mode,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> u64,
    ) -> Decision {
        let (table, algorithm) = (&self.table, self.algorithm());
        #[cfg(feature = "std")]
        if let Some((leases, gcra)) = mode.leases::<R>(algorithm) {
            return leases.decide_leased(table, gcra, key, cost, now, reread);
        }
        let check = TimedCheck { table, key, cost, now, reread };
        let changed = |change| self.changed(key, change);
        decide_charging(mode.charged_bursts(), algorithm, check, changed).in_registers()
    }

    /// A key and its hash.
    #[expect(
        clippy::inline_always,
        reason = "what an observer expects would be a call between the hash and the look-up"
    )]
    #[inline(always)]
    fn asked<K: Key>(&self, key: K) -> Asked<K> {
        let hash = self.hash(&key);
        self.observer.expects(hash);
        Asked { hash, given: self.observer.listens().then_some(key) }
    }

    /// Notifies the observer of the decision, and returns it.
    #[inline]
    fn notified<K: Key>(&self, key: &Asked<K>, cost: u64, decision: Decision) -> Decision {
        if self.observer.listens() {
            // Asked first: where the answer is a constant, the compiler need not follow the key.
            if let Some(given) = &key.given {
                self.observer.decided(ObservedKey::new(key.hash, given), cost, &decision);
            }
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
        let admit =
            move |value, now| if cost == 0 { None } else { algorithm.admit(value, now, cost) };
        let tried = if self.clock.stalls() {
            home.try_at_home::<true>(now, admit)
        } else {
            home.try_at_home::<false>(now, admit)
        };
        match tried {
            Ok(update) => {
                self.follow(key, update, admit);
                answer(&self.table, algorithm, key, update, cost)
            }
            Err(missed) => {
                self.decide_after(missed, algorithm, key, cost, now, reread).in_registers()
            }
        }
    }

    /// [`Limiter::decide_by_word`] for a key that was missed in its home line. Out of line, so that
    /// checks that find their key there carry none of its registers.
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
        self.follow(key, update, admit);
        answer(&self.table, algorithm, key, update, cost)
    }

    /// The decision mode. A constant at compile time for rules that have only one.
    #[inline]
    fn mode(&self) -> &Mode {
        if R::Algorithm::HAS_MODES { &self.mode } else { &Mode::Word }
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

    /// Updates a key whether or not it has a slot yet.
    fn force(&self, key: KeyHash, raise: impl Fn(u64, u64) -> Option<u64>) -> Update {
        let now = || self.instant_now();
        let update = self.table.home(key).update(now(), now, raise);
        if matches!(update, Update::Full { .. }) {
            self.table.count(Event::ChargeDropped);
        }
        update
    }
}

impl Limiter {
    /// A limiter that enforces `rule` on up to [`DEFAULT_CAPACITY`] keys, with the defaults of
    /// [`Limiter::builder`]. O(capacity), as [`LimiterBuilder::build`]. Blocks for up to 200 ms if
    /// it makes the first [`TscClock`](crate::clock::TscClock) of the process.
    ///
    /// # Errors
    /// When the rule cannot be enforced, or the memory cannot be allocated.
    #[cfg(feature = "std")]
    pub fn new<R: Rule>(rule: R) -> Result<Limiter<R>, crate::BuildError> {
        Self::builder(rule).build()
    }

    /// Starts building a limiter that enforces `rule`, on the time-stamp counter unless another
    /// clock is set.
    #[cfg(feature = "std")]
    pub fn builder<R: Rule>(rule: R) -> LimiterBuilder<R> {
        LimiterBuilder::new(rule)
    }

    /// Starts building a limiter with a clock and a hasher of the caller, without an operating
    /// system. A client that can choose keys must not be able to guess the seed of the hasher.
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

/// A key that a call decides on. Without an observer only the hash lives as long as the call: the
/// key is dropped once it is hashed.
struct Asked<K> {
    hash: KeyHash,
    /// The key as it was given, if an observer listens.
    given: Option<K>,
}

impl Asked<KeyHash> {
    /// A key that no observer is notified of.
    #[inline]
    fn silent(hash: KeyHash) -> Self {
        Self { hash, given: None }
    }
}

/// The parts of a limiter.
pub(crate) struct Parts<R: Rule, C, O> {
    pub(crate) rule: R,
    pub(crate) algorithm: R::Algorithm,
    pub(crate) hasher: KeyHasher,
    pub(crate) clock: C,
    pub(crate) table: Table<State<R>>,
    pub(crate) mode: Mode,
    pub(crate) observer: O,
    pub(crate) waiters: Waiters,
}

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    pub(crate) fn from_parts(parts: Parts<R, C, O>) -> Self {
        let Parts { rule, algorithm, hasher, clock, table, mode, observer, waiters } = parts;
        let wait_lists = WaitLists::keyed();
        Self { algorithm, hasher, clock, table, mode, observer, rule, waiters, wait_lists }
    }
}
