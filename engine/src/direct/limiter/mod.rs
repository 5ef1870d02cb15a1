//! A limiter without keys: one word, no table.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | S1 word, read | acquire | S2: a thread that reads a value made under a new quota sees that quota | the value is taken for an endless debt under the old one, see `rule/live/epoch.rs` | `single-look-relaxed` |
//! | S2 word, exchange | release | S1 | as S1 | `single-exchange-relaxed` |
//! | S3 word, second look | relaxed | ordered after the reading of the quota, which is acquire: a change rewrites the word before the quota says so | - | `single-denial-without-second-look` |
//!
//! Apart from quotas that change, nothing else relies on the two: the word is the whole state, and
//! exchanges of it are ordered by its modification order (`single-charge-stored`).
//!
//! A denial relies on S1 alone: a value the word had during the call. Under a quota that changes a
//! value may stand for something else by the time it is decided on, unless the word still has it
//! (S3). A word that is back at what a thread read (after a refund) is the same state, so the
//! decision of that thread still holds.

mod builder;
#[cfg(feature = "std")]
mod live;
#[cfg(all(test, loom))]
mod models;
mod receipts;
mod restore;
mod warm_up;

use crate::base::backoff::Backoff;
use crate::base::decision::Decision;
use crate::base::source::Source;
use crate::base::sync::{AtomicU64, Ordering};
use crate::base::word::Update;
use crate::contract::grant::{Grant, UpTo};
use crate::contract::observer::{ObservedKey, Observer};
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::rule::leaving::Leaving;
use crate::rule::quota::Quota;
#[cfg(feature = "std")]
use crate::time::TscClock;
use crate::time::{Clock, DefaultClock, Timestamp};

pub use builder::DirectLimiterBuilder;
pub use warm_up::MAX_WARM_UP;
use warm_up::WarmUp;

/// A rate limiter without keys: for the outgoing calls of a process, one tenant, one connection.
/// Shared by reference between any number of threads.
///
/// State is one 64-bit word; nothing is hashed, looked up or evicted. It neither locks nor
/// allocates.
///
/// # When to use it
/// For one limit that needs no keys, by itself or as the overall limit next to a
/// [`Limiter`](crate::Limiter): there is no table to take memory and no key to hash. Where several
/// cores share one high limit a `ShardedCounter`, or a `Limiter` with leases, scales further; for
/// calls that may wait take a [`Queue`](crate::Queue).
///
/// # Guarantees
/// * What the [`Rule`] guarantees for a key of a [`Limiter`](crate::Limiter): for a [`Quota`], the
///   cost that is admitted in every interval `[s, t]` is at most `burst + rate * (t - s)`, for any
///   number of threads, with an error of one unit of 1 to 2 ns in `t - s`. There is no table, so
///   nothing is ever forgotten.
/// * [`DirectLimiterBuilder::initial`] and [`DirectLimiterBuilder::warm_up`] only lower it.
/// * Lock-free: a failed exchange means that another thread has made progress. Denied checks and
///   peeks write nothing, so denied traffic scales with cores. Admitted traffic is bounded by how
///   fast cores exchange one cache line.
///
/// # Cost
/// 248 bytes with a [`Quota`] and the default clock on x86-64. A check is O(1).
///
/// ```
/// use tidegate_engine::{DirectLimiter, Quota};
///
/// let limiter = DirectLimiter::new(Quota::per_second(100).burst(2))?;
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.check().remaining(), 0);
/// assert!(limiter.check().retry_after() > Some(std::time::Duration::ZERO));
/// # #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
/// # assert_eq!(size_of::<DirectLimiter>(), 248);
/// # Ok::<(), tidegate_engine::QuotaError>(())
/// ```
/// As an overall limit next to one on each key:
/// ```
/// use tidegate_engine::{DirectLimiter, LimitSet, Limiter, Quota};
///
/// let per_user = Limiter::builder(Quota::per_minute(100)).build()?;
/// let in_all = DirectLimiter::new(Quota::per_second(2))?;
/// let check = |user| LimitSet::new([per_user.ask(user, 1), in_all.ask(1)]).check();
/// assert!(check("user:1").is_allowed() && check("user:2").is_allowed());
/// assert!(!check("user:3").is_allowed());
/// assert_eq!(per_user.peek("user:3").remaining(), 100);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DirectLimiter<R: Rule = Quota, C = DefaultClock, O = ()> {
    word: AtomicU64,
    algorithm: R::Algorithm,
    warm_up: Option<WarmUp>,
    clock: C,
    observer: O,
    rule: R,
}

impl DirectLimiter {
    /// A limiter that enforces `rule` on the time-stamp counter, with nothing used. Blocks for up
    /// to 200 ms if it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// When the rule cannot be enforced.
    #[cfg(feature = "std")]
    pub fn new<R: Rule>(rule: R) -> Result<DirectLimiter<R>, crate::QuotaError> {
        Self::builder(rule).build()
    }

    /// Starts building a limiter that enforces `rule`, on the time-stamp counter unless another
    /// clock is set.
    #[cfg(feature = "std")]
    pub fn builder<R: Rule>(rule: R) -> DirectLimiterBuilder<R> {
        DirectLimiterBuilder::of(rule, Source::Made(TscClock::new))
    }

    /// Starts building a limiter on a clock of the caller, without an operating system.
    pub fn builder_with<R: Rule, C: Clock>(rule: R, clock: C) -> DirectLimiterBuilder<R, C> {
        DirectLimiterBuilder::of(rule, Source::Given(clock))
    }
}

impl<C: Clock, O: Observer> DirectLimiter<Quota, C, O> {
    /// The quota that is enforced: [`DirectLimiter::rule`].
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.rule()
    }
}

impl<R: Rule, C: Clock, O: Observer> DirectLimiter<R, C, O> {
    /// Asks for one unit: [`DirectLimiter::check_n`] with a cost of 1.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, at the clock's present reading.
    ///
    /// A cost of 0 takes nothing: it is a [`DirectLimiter::peek`]. O(1).
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`DirectLimiter::check_n`], at a time given by the caller, on the scale of the limiter's
    /// clock.
    ///
    /// A `now` earlier than that of a previous check never mints tokens: there is no table that
    /// forgets.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        let decision = match &self.warm_up {
            None => self.decide(cost, now),
            Some(warm_up) => self.decide_warming(warm_up, cost, now).in_registers(),
        };
        self.notified(cost, &decision);
        decision
    }

    /// Takes as much of `cost` as fits: all of it, a part, or nothing, in one atomic step; see
    /// [`Limiter::check_up_to`](crate::Limiter::check_up_to). A cost of 0 takes nothing: it is a
    /// [`DirectLimiter::peek`]. O(1).
    pub fn check_up_to(&self, cost: u64) -> Grant {
        let (check, now) = (UpTo::new(cost), self.clock.now());
        let take = |value, now| check.admit(&self.algorithm, value, now);
        let update = self.update(self.instant(now), take);
        let (grant, cost) = check.grant(self.answer(update, check.decided(), now));
        self.notified(cost, &grant.decision());
        grant
    }

    /// Takes `cost` units if they fit and at least `left` more would, for a class of calls that
    /// leaves a share to more important ones; see
    /// [`Limiter::check_leaving`](crate::Limiter::check_leaving). O(1).
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_leaving(&self, cost: u64, left: u64) -> Decision {
        let (algorithm, now) = (Leaving::new(&self.algorithm, left), self.clock.now());
        let admit = |value, now| if cost == 0 { None } else { algorithm.admit(value, now, cost) };
        let update = self.update(self.instant(now), admit);
        let decision = self.warmed(algorithm.answer(update, cost), now);
        self.notified(cost, &decision);
        decision
    }

    /// What a check would find, without charging anything: `remaining` is what is left.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// What a check of `cost` would find, without charging anything: whether it fits, and if not,
    /// when it will; `remaining` is the same in both cases. Observers are notified of it as of a
    /// peek. O(1).
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek_n(&self, cost: u64) -> Decision {
        let decision = self.look_at(cost, 0, self.clock.now());
        self.notified(0, &decision);
        decision
    }

    /// Charges `cost` units whether or not they fit: for a cost that is known only after it was
    /// spent. What does not fit is debt beyond the burst, and even a cost of 1 waits until it has
    /// drained. Saturates where the words of the [`Rule`] do. The answer is that of a
    /// [`DirectLimiter::peek`] straight after. O(1).
    pub fn charge(&self, cost: u64) -> Decision {
        self.change(|value, now| self.algorithm.charge(value, now, cost));
        self.peek()
    }

    /// Gives back `cost` units that were admitted and not used, at most all that is still charged;
    /// see [`Limiter::refund`](crate::Limiter::refund), and [`DirectLimiter::reserve`] for units
    /// whose charge is known. Concurrent refunds and checks lose nothing. O(1).
    pub fn refund(&self, cost: u64) {
        self.change(|value, now| self.algorithm.refund(value, now, cost));
    }

    /// Forgets what has been charged: the next check finds the whole burst. A warm-up goes on.
    /// O(1).
    pub fn reset(&self) {
        self.change(|value, now| self.algorithm.reset(value, now));
    }

    /// The rule the limiter was built with, which it enforces; under a `LiveQuota`,
    /// `DirectLimiter::quota` is the one in force.
    #[must_use]
    pub fn rule(&self) -> R {
        self.rule
    }

    /// The clock that [`DirectLimiter::check`] reads.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The observer that was given to the builder.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Notifies the observer of a decision.
    #[inline]
    fn notified(&self, cost: u64, decision: &Decision) {
        if self.observer.listens() {
            self.observer.decided(ObservedKey::keyless(), cost, decision);
        }
    }

    /// Decides at a time of the rule.
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

    /// [`DirectLimiter::check_at`] of a limiter with a warm-up, also after its end.
    #[inline(never)]
    fn decide_warming(&self, warm_up: &WarmUp, cost: u64, now: Timestamp) -> Decision {
        warm_up.answer(self.decide(cost, warm_up.warped(now)), now)
    }

    /// The time of the rule: during a warm-up it passes more slowly.
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

    /// The answer to a check of `cost` at `now` whose effect on the word was `update`.
    #[inline]
    fn answer(&self, update: Update, cost: u64, now: Timestamp) -> Decision {
        self.warmed(self.algorithm.answer(update, cost), now)
    }

    /// A decision as a warm-up changes it.
    #[inline]
    fn warmed(&self, decision: Decision, now: Timestamp) -> Decision {
        match &self.warm_up {
            None => decision,
            Some(warm_up) => warm_up.answer(decision, now),
        }
    }

    /// The value at a moment during the call.
    #[inline]
    fn value(&self) -> u64 {
        self.word.load(Ordering::Acquire) // S1
    }

    /// [`DirectLimiter::update`] now.
    fn change(&self, decide: impl Fn(u64, u64) -> Option<u64>) {
        let _ = self.update(self.instant(self.clock.now()), decide);
    }

    /// Replaces the value by the result of `decide(value, now)`, in one atomic step; `None` leaves
    /// it.
    #[inline]
    fn update(&self, now: u64, decide: impl Fn(u64, u64) -> Option<u64>) -> Update {
        let mut backoff = Backoff::new();
        loop {
            let found = self.value();
            let Some(value) = decide(found, now) else {
                // S3. `decide` may have seen a quota that came after `found`.
                if R::Algorithm::CHANGES && self.word.load(Ordering::Relaxed) != found {
                    continue;
                }
                return Update::Unchanged { found, now };
            };
            // S2
            match self.word.compare_exchange(found, value, Ordering::Release, Ordering::Relaxed) {
                Ok(before) => return Update::Written { before, now },
                Err(_) => backoff = backoff.pause(),
            }
        }
    }
}
