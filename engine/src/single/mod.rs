//! A limiter without keys: one word, no table.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | S1 word, look | acquire | S2: who reads a value that a new quota made sees that quota | the value is taken for an endless debt under the old one, see `live/epoch.rs` | `single-look-relaxed` |
//! | S2 word, exchange | release | S1 | as S1 | `single-exchange-relaxed` |
//!
//! Beside quotas that change nothing else rests on the two: the word is all there is, and exchanges of it follow each other in
//! its modification order (`single-charge-stored`).
//!
//! A denial rests on S1: a value the word had during the call.
//! A word that is back to what a thread read (after a refund) is the same state, so what the thread
//! decided still holds.

mod builder;
#[cfg(feature = "std")]
mod live;
#[cfg(all(test, loom))]
mod models;
mod receipts;
mod restore;
mod warm_up;

use crate::backoff::Backoff;
use crate::builder::Source;
use crate::clock::{Clock, DefaultClock, Timestamp};
use crate::decision::Decision;
use crate::keyless::KEY;
use crate::observer::Observer;
use crate::quota::Quota;
use crate::rule::{Algorithm, Rule};
use crate::sync::{AtomicU64, Ordering};
use crate::table::Update;
#[cfg(feature = "std")]
use crate::tsc::TscClock;

pub use builder::SingleBuilder;
pub use warm_up::MAX_WARM_UP;
use warm_up::WarmUp;

/// A rate limiter for one thing: a process's outgoing calls, one tenant, one connection. Shared by
/// reference between any number of threads.
///
/// State is one 64-bit word; nothing is hashed, looked up or evicted. It neither locks nor allocates.
///
/// # When to use it
/// For one limit that needs no keys, alone or beside a [`Limiter`](crate::Limiter) as the limit on everything together: there
/// is no table to take memory and no key to be hashed. What several cores use up at once scales further with a `ShardedCounter`,
/// or with a `Limiter` with leases; for calls that may also wait take a [`Queue`](crate::Queue).
///
/// # Guarantees
/// * What the [`Rule`] guarantees for a key of a [`Limiter`](crate::Limiter): for a [`Quota`], the
///   cost that is admitted in every interval `[s, t]` is at most `burst + rate * (t - s)`, for any number of
///   threads, and one unit of 1 to 2 ns is the error of `t - s`. There is no table, so nothing is ever forgotten.
/// * [`SingleBuilder::initial`] and [`SingleBuilder::warm_up`] only ever make it less.
/// * Lock-free: a failed exchange means that another thread's came first. Checks that are denied and
///   looks write nothing, so denied traffic scales with cores. Admitted traffic is limited by how fast
///   cores hand one cache line around.
///
/// # Cost
/// 248 bytes with a [`Quota`] and the default clock on x86-64. A check is O(1).
///
/// ```
/// use tidegate_engine::{Quota, Single};
///
/// let limiter = Single::new(Quota::per_second(100).burst(2))?;
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.check().remaining(), 0);
/// assert!(limiter.check().retry_after() > Some(std::time::Duration::ZERO));
/// # #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
/// # assert_eq!(size_of::<Single>(), 248);
/// # Ok::<(), tidegate_engine::QuotaError>(())
/// ```
/// As a limit on all keys together beside one on each:
/// ```
/// use tidegate_engine::{LimitSet, Limiter, Quota, Single};
///
/// let per_user = Limiter::builder(Quota::per_minute(100)).build()?;
/// let in_all = Single::new(Quota::per_second(2))?;
/// let check = |user| LimitSet::new([per_user.ask(user, 1), in_all.ask(1)]).check();
/// assert!(check("user:1").is_allowed() && check("user:2").is_allowed());
/// assert!(!check("user:3").is_allowed());
/// assert_eq!(per_user.peek("user:3").remaining(), 100);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Single<R: Rule = Quota, C = DefaultClock, O = ()> {
    word: AtomicU64,
    algorithm: R::Algorithm,
    warm_up: Option<WarmUp>,
    clock: C,
    observer: O,
    rule: R,
}

impl Single {
    /// A limiter that enforces `rule` on the time-stamp counter and begins with nothing used. Blocks for up to 200 ms
    /// where it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// When the rule can not be enforced.
    #[cfg(feature = "std")]
    pub fn new<R: Rule>(rule: R) -> Result<Single<R>, crate::QuotaError> {
        Self::builder(rule).build()
    }

    /// Starts building a limiter that enforces `rule`, on the time-stamp counter unless told
    /// otherwise.
    #[cfg(feature = "std")]
    pub fn builder<R: Rule>(rule: R) -> SingleBuilder<R> {
        SingleBuilder::of(rule, Source::Made(TscClock::new))
    }

    /// Starts building a limiter that reads a clock of yours, without an operating system.
    pub fn builder_with<R: Rule, C: Clock>(rule: R, clock: C) -> SingleBuilder<R, C> {
        SingleBuilder::of(rule, Source::Given(clock))
    }
}

impl<C: Clock, O: Observer> Single<Quota, C, O> {
    /// The quota that is enforced: [`Single::rule`].
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.rule()
    }
}

impl<R: Rule, C: Clock, O: Observer> Single<R, C, O> {
    /// Asks for one unit: [`Single::check_n`] with a cost of 1.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, at the clock's present reading.
    ///
    /// A cost of 0 takes nothing: it is a [`Single::peek`]. O(1).
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`Single::check_n`], at a time the caller gives, on the scale of the limiter's clock.
    ///
    /// A `now` earlier than that of a previous check never mints tokens: there is no table that forgets.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        let decision = match &self.warm_up {
            None => self.decide(cost, now),
            Some(warm_up) => self.decide_warming(warm_up, cost, now).in_registers(),
        };
        self.heard(cost, &decision);
        decision
    }

    /// What a check would find, without charging anything: `remaining` is what is left.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// What a check of `cost` would find, without charging anything: whether it fits, and else when it will; `remaining` is
    /// what is left either way. Observers hear of it as of a look. O(1).
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek_n(&self, cost: u64) -> Decision {
        let decision = self.look_at(cost, self.clock.now());
        self.heard(0, &decision);
        decision
    }

    /// Charges `cost` units whether or not they fit: for a cost that is known only when it has been
    /// spent. What does not fit is debt beyond the burst, and even a cost of 1 waits until it has
    /// drained. Saturates where the words of the [`Rule`] do. The answer is that of a
    /// [`Single::peek`] straight after. O(1).
    pub fn charge(&self, cost: u64) -> Decision {
        self.change(|value, now| self.algorithm.charge(value, now, cost));
        self.peek()
    }

    /// Gives back `cost` units that were admitted and not used, at most all that is still charged;
    /// see [`Limiter::refund`](crate::Limiter::refund), and [`Single::reserve`] for units whose charge is known.
    /// Of two refunds and any checks at the same
    /// time none is lost. O(1).
    pub fn refund(&self, cost: u64) {
        self.change(|value, now| self.algorithm.refund(value, now, cost));
    }

    /// Forgets what has been charged, as if nothing had been asked for yet: the next check finds the
    /// whole burst. A warm-up goes on. O(1).
    pub fn reset(&self) {
        self.change(|value, now| self.algorithm.reset(value, now));
    }

    /// The rule the limiter was built with, which it enforces; under a `LiveQuota`, `Single::quota` is the one in force.
    #[must_use]
    pub fn rule(&self) -> R {
        self.rule
    }

    /// The clock that [`Single::check`] reads.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// What the builder was given to hear of each decision.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Lets the observer hear of a decision.
    #[inline]
    fn heard(&self, cost: u64, decision: &Decision) {
        if O::LISTENS {
            self.observer.decided(KEY, cost, decision);
        }
    }

    /// Decides at a time as the rule sees it.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide(&self, cost: u64, now: Timestamp) -> Decision {
        let admit = |value, now| {
            if cost == 0 { None } else { self.algorithm.admit(value, now, cost) }
        };
        let update = self.update(self.algorithm.instant(now), admit);
        self.algorithm.answer(update, cost)
    }

    /// [`Single::check_at`] of a limiter that has been warming up, or still is.
    #[inline(never)]
    fn decide_warming(&self, warm_up: &WarmUp, cost: u64, now: Timestamp) -> Decision {
        warm_up.answer(self.decide(cost, warm_up.warped(now)), now)
    }

    /// Time as the rule sees it: while warming up it passes more slowly.
    #[inline]
    fn warped(&self, now: Timestamp) -> Timestamp {
        match &self.warm_up {
            None => now,
            Some(warm_up) => warm_up.warped(now),
        }
    }

    /// A point in time on the scale of the word.
    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        self.algorithm.instant(self.warped(now))
    }

    /// The answer to a check of `cost` at `now` that did this to the word.
    #[inline]
    fn answer(&self, update: Update, cost: u64, now: Timestamp) -> Decision {
        let decision = self.algorithm.answer(update, cost);
        match &self.warm_up {
            None => decision,
            Some(warm_up) => warm_up.answer(decision, now),
        }
    }

    /// The value at a moment during the call.
    #[inline]
    fn value(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// [`Single::update`] now.
    fn change(&self, decide: impl Fn(u64, u64) -> Option<u64>) {
        let _ = self.update(self.instant(self.clock.now()), decide);
    }

    /// Replaces the value by what `decide(value, now)` returns, in one atomic step; `None` leaves it.
    #[inline]
    fn update(&self, now: u64, decide: impl Fn(u64, u64) -> Option<u64>) -> Update {
        let mut backoff = Backoff::new();
        loop {
            let found = self.value();
            let Some(value) = decide(found, now) else { return Update::Unchanged { found, now } };
            match self.word.compare_exchange(found, value, Ordering::Release, Ordering::Relaxed) {
                Ok(before) => return Update::Written { before, now },
                Err(_) => backoff = backoff.pause(),
            }
        }
    }
}
