//! The limiter for many keys: [`Limiter`], its builder with its bounds, and what
//! [`Limiter::with_quota`] and [`Limiter::check_up_to`] return.

// Before the others, so that its methods come first on the page of the type.
mod check;

#[cfg(feature = "std")]
mod any;
pub(crate) mod builder;
mod change;
mod debt;
mod denied;
mod enqueue;
mod headroom;
#[cfg(feature = "std")]
pub(crate) mod lease;
#[cfg(feature = "std")]
mod live;
mod lower;
mod many;
pub(crate) mod mode;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod notify;
mod receipts;
mod reserve;
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
use crate::table::overflow::Event;
use crate::table::{Missed, Table};
use crate::time::{Clock, DefaultClock, Timestamp};

use denied::{TimedCheck, decide_charging};
use mode::Mode;

pub use crate::contract::grant::Grant;
pub use crate::table::overflow::ParseOverflowPolicyError;
pub use builder::{DEFAULT_CAPACITY, LimiterBuilder, MAX_CAPACITY};
#[cfg(feature = "std")]
pub use lease::MAX_LEASE_UNITS;
pub use with_quota::WithQuota;
pub use with_quota_owned::OwnedWithQuota;

/// The state that a rule keeps in a word.
type StateOf<R> = <<R as Rule>::Algorithm as Algorithm>::State;

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
/// * When more keys are live than fit, the [`OverflowPolicy`](crate::OverflowPolicy) decides, and
///   [`Limiter::overflow`] counts it. By default the key that loses least among those that compete
///   for a slot is evicted, and keys that are being denied are evicted last. No debt is lost except
///   as counted there.
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
    table: Table<StateOf<R>>,
    mode: Mode,
    observer: O,
    rule: R,
    waiters: Waiters,
    wait_lists: WaitLists,
}

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
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
        key: HashedKey<K>,
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
        #[cfg(debug_assertions)]
        let reread: crate::table::Reread<'_> = &reread;
        let (table, algorithm) = (&self.table, self.algorithm());
        #[cfg(feature = "std")]
        if let Some((leases, gcra)) = mode.leases::<R>(algorithm) {
            return leases.decide_leased(table, gcra, key, cost, now, reread);
        }
        let check = TimedCheck { table, key, cost, now, reread };
        let changed = |change| self.notify_of_change(key, change);
        decide_charging(mode.charged_bursts(), algorithm, check, changed).in_registers()
    }

    /// A key and its hash.
    #[expect(
        clippy::inline_always,
        reason = "an observer's prefetch would be a call between the hash and the look-up"
    )]
    #[inline(always)]
    fn hashed<K: Key>(&self, key: K) -> HashedKey<K> {
        let hash = self.hash(&key);
        self.observer.prefetch(hash);
        HashedKey { hash, given: self.observer.observes_decisions().then_some(key) }
    }

    /// Notifies the observer of the decision, and returns it.
    #[inline]
    fn notified<K: Key>(&self, key: &HashedKey<K>, cost: u64, decision: Decision) -> Decision {
        if self.observer.observes_decisions() {
            // Asked first: where the answer is a constant, the compiler need not follow the key.
            if let Some(given) = &key.given {
                self.observer.on_decision(ObservedKey::new(key.hash, given), cost, &decision);
            }
        }
        decision
    }

    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide_by_word<A: Algorithm<State = StateOf<R>>>(
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
        #[cfg(debug_assertions)]
        let admit: crate::table::Decide<'_> = &admit;
        let tried = if self.clock.waits_for_loads() {
            home.try_at_home::<true>(now, admit)
        } else {
            home.try_at_home::<false>(now, admit)
        };
        match tried {
            Ok(update) => {
                self.notify_of_update(key, update, admit);
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
    fn decide_after<A: Algorithm<State = StateOf<R>>>(
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
        #[cfg(debug_assertions)]
        let admit: crate::table::Decide<'_> = &admit;
        let update = self.table.home(key).update_after(missed, now, reread, admit);
        self.notify_of_update(key, update, admit);
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

/// A key that a call decides on, with its hash. Without an observer only the hash lives as long as
/// the call: the key is dropped once it is hashed.
struct HashedKey<K> {
    hash: KeyHash,
    /// The key as it was given, if an observer is notified of decisions.
    given: Option<K>,
}

impl HashedKey<KeyHash> {
    /// A key that no observer is notified of.
    #[inline]
    fn unobserved(hash: KeyHash) -> Self {
        Self { hash, given: None }
    }
}

/// The parts of a limiter.
pub(crate) struct Parts<R: Rule, C, O> {
    pub(crate) rule: R,
    pub(crate) algorithm: R::Algorithm,
    pub(crate) hasher: KeyHasher,
    pub(crate) clock: C,
    pub(crate) table: Table<StateOf<R>>,
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
