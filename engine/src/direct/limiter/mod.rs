//! A limiter without keys: one word, no table.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | S1 word, read | acquire | S2: a thread that reads a value made under a new quota sees that quota | the value is taken for an endless debt under the old one, see `rule/live/epoch.rs` | `direct-read-relaxed` |
//! | S2 word, exchange | release | S1 | as S1 | `direct-exchange-relaxed` |
//! | S3 word, second look | relaxed | ordered after the reading of the quota, which is acquire: a change rewrites the word before the quota says so | - | `direct-denial-without-rereading` |
//!
//! Apart from quotas that change, nothing else relies on the two: the word is the whole state, and
//! exchanges of it are ordered by its modification order (`direct-charge-stored`).
//!
//! A denial relies on S1 alone: a value the word had during the call. Under a quota that changes a
//! value may stand for something else by the time it is decided on, unless the word still has it
//! (S3). A word that is back at what a thread read (after a refund) is the same state, so the
//! decision of that thread still holds.

// Before the others, so that its methods come first on the page of the type.
mod check;

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
use crate::base::sync::{AtomicU64, Ordering};
use crate::base::word::Update;
use crate::contract::observer::{ObservedKey, Observer};
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::rule::quota::Quota;
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

impl<R: Rule, C: Clock, O: Observer> DirectLimiter<R, C, O> {
    /// Notifies the observer of a decision.
    #[inline]
    fn notified(&self, cost: u64, decision: &Decision) {
        if self.observer.observes_decisions() {
            self.observer.on_decision(ObservedKey::keyless(), cost, decision);
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
