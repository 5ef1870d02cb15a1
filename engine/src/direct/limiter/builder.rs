//! Building a limiter without keys.

use core::time::Duration;

use crate::base::source::Source;
use crate::base::sync::AtomicU64;
use crate::base::word::Update;
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::quota::{Quota, QuotaError};
#[cfg(feature = "std")]
use crate::time::TscClock;
use crate::time::{Clock, DefaultClock};

use super::DirectLimiter;
use super::warm_up::WarmUp;

/// The choices for a [`DirectLimiter`]; see [`DirectLimiter::builder`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_engine::{DirectLimiter, Quota};
///
/// // Empty at first, and a tenth of the rate that grows to all of it within a minute.
/// let quota = Quota::per_second(1_000).burst(100);
/// let builder = DirectLimiter::builder(quota).initial(0).warm_up(Duration::from_secs(60), 10);
/// let limiter = builder.build()?;
/// assert_eq!(limiter.peek().limit(), 100);
/// # Ok::<(), tidegate_engine::QuotaError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct DirectLimiterBuilder<R = Quota, C = DefaultClock, O = ()> {
    rule: R,
    /// Units that fit when the limiter is built, at most all.
    initial: u64,
    /// Length, and initial percentage of the rate.
    warm_up: (Duration, u8),
    clock: Source<C>,
    observer: O,
}

impl DirectLimiter {
    /// A limiter that enforces `rule` on the time-stamp counter, with nothing used. Blocks for up
    /// to 200 ms if it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// When the rule cannot be enforced.
    #[cfg(feature = "std")]
    pub fn new<R: Rule>(rule: R) -> Result<DirectLimiter<R>, QuotaError> {
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

impl<R: Rule, C: Clock> DirectLimiterBuilder<R, C> {
    fn of(rule: R, clock: Source<C>) -> Self {
        Self { rule, initial: u64::MAX, warm_up: (Duration::ZERO, 100), clock, observer: () }
    }
}

impl<C: Clock, O: Observer> DirectLimiterBuilder<Quota, C, O> {
    /// Lets the rate grow evenly from `percent` of it, when the limiter is built, to all of it
    /// after `duration`, at most [`MAX_WARM_UP`](crate::direct::MAX_WARM_UP); more than 100 percent
    /// is 100. No warm-up unless set.
    ///
    /// At `t` after the limiter was built, for `t <= duration`, units are granted at
    /// `p + (1 - p) * t / duration` of the rate, with `p` the initial share; so the whole warm-up
    /// grants `(1 + p) / 2` of what the quota grants. What is admitted in `[s, t]` is at most the
    /// burst and what was granted between `s` and `t`, never more than without a warm-up. The burst
    /// itself is available at once, unless [`DirectLimiterBuilder::initial`] reduces it.
    /// `retry_after` and `reset_after` account for the growing rate. They are rounded up to a
    /// nanosecond of the slowed time: at a share `s` of the rate they can be up to `1 / s` ns
    /// longer than needed, never shorter.
    ///
    /// There is one warm-up: neither idling nor [`DirectLimiter::reset`] repeats it.
    pub fn warm_up(self, duration: Duration, percent: u8) -> Self {
        Self { warm_up: (duration, percent), ..self }
    }
}

impl<R: Rule, C: Clock, O: Observer> DirectLimiterBuilder<R, C, O> {
    /// How many units fit when the limiter is built, from 0; more than all is all. All of the
    /// burst, or of the limit of the window, unless set. The others count as used when the limiter
    /// was built: under a quota they return at its rate, under other rules at the end of the
    /// window, which may be near.
    pub fn initial(self, units: u64) -> Self {
        Self { initial: units, ..self }
    }

    /// The clock to read; a new `TscClock` unless set.
    pub fn clock<D: Clock>(self, clock: D) -> DirectLimiterBuilder<R, D, O> {
        let Self { rule, initial, warm_up, clock: _, observer } = self;
        DirectLimiterBuilder { rule, initial, warm_up, clock: Source::Given(clock), observer }
    }

    /// The observer of each decision, which is reported without a key
    /// ([`ShownKey::Keyless`](crate::key::ShownKey::Keyless)); none unless set.
    pub fn observer<P: Observer>(self, observer: P) -> DirectLimiterBuilder<R, C, P> {
        let Self { rule, initial, warm_up, clock, observer: _ } = self;
        DirectLimiterBuilder { rule, initial, warm_up, clock, observer }
    }

    /// Builds the limiter. On the default clock it blocks for up to 200 ms if it makes the first
    /// `TscClock` of the process.
    ///
    /// # Errors
    /// When the rule cannot be enforced.
    pub fn build(self) -> Result<DirectLimiter<R, C, O>, QuotaError> {
        let clock = self.clock.get();
        let now = clock.now();
        let rule = self.rule.anchor(now);
        let algorithm = rule.algorithm()?;
        let (duration, percent) = self.warm_up;
        let now_there = algorithm.instant(now);
        let whole = algorithm.answer(Update::Unchanged { found: 0, now: now_there }, 0).limit();
        let used = whole.saturating_sub(self.initial);
        let charged = if used == 0 { None } else { algorithm.charge(0, now_there, used) };
        Ok(DirectLimiter {
            word: AtomicU64::new(charged.unwrap_or(0)),
            warm_up: WarmUp::new(now, duration, percent),
            algorithm,
            clock,
            observer: self.observer,
            rule,
        })
    }
}
