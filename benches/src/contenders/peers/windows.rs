//! Windows of peers. No window ends within a run.

use core::fmt;
use core::hint::black_box;
use core::num::NonZeroU32;

use quanta::Clock;
use rate_guard_core::SimpleRateLimitError;
use rate_guard_core::cores::SlidingWindowCounterCore;
use throttle_net::SlidingWindowLog;
use volga_rate_limiter::{FixedWindowRateLimiter, RateLimiter, SlidingWindowRateLimiter};

use crate::algorithms::{SUB_WINDOWS, WINDOW, charges, log_of};
use crate::contenders::{Contender, without_keys};
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// volga-rate-limiter's fixed window: a `DashMap` of counters.
#[derive(Debug)]
pub struct VolgaFixedWindow(FixedWindowRateLimiter);

impl Contender for VolgaFixedWindow {
    const NAME: &'static str = "volga-fixed-window";
    const AGAINST: &'static str = "fixed-window-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(FixedWindowRateLimiter::new(plan.burst.get(), WINDOW)))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.0.check(*key))
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        (0..charges(units)).all(|_| self.0.check(*key))
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

/// volga-rate-limiter's sliding window: two weighted counters, in a `DashMap`.
#[derive(Debug)]
pub struct VolgaSlidingWindow(SlidingWindowRateLimiter);

impl Contender for VolgaSlidingWindow {
    const NAME: &'static str = "volga-sliding-window";
    const AGAINST: &'static str = "sliding-window-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(SlidingWindowRateLimiter::new(plan.burst.get(), WINDOW)))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.0.check(*key))
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        (0..charges(units)).all(|_| self.0.check(*key))
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

/// rate-guard-core's sliding window counter: sub-windows behind a mutex, on quanta's clock. It
/// reports a locked mutex as an error; a caller that needs the decision retries.
pub struct RateGuard {
    counter: SlidingWindowCounterCore,
    clock: Clock,
    start: u64,
}

impl fmt::Debug for RateGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateGuard").finish_non_exhaustive()
    }
}

impl RateGuard {
    #[inline]
    fn ask(&self, units: u64) -> bool {
        loop {
            let now = self.clock.delta_as_nanos(self.start, self.clock.raw());
            match black_box(self.counter.try_acquire_at(now, units)) {
                Err(SimpleRateLimitError::ContentionFailure) => {}
                outcome => return outcome.is_ok(),
            }
        }
    }
}

impl Contender for RateGuard {
    const NAME: &'static str = "rate-guard-core";
    const AGAINST: &'static str = "sub-windows";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let length = (WINDOW / SUB_WINDOWS).as_nanos() as u64;
        let (limit, count) = (plan.burst.get().into(), SUB_WINDOWS.into());
        let clock = Clock::new();
        let start = clock.raw();
        Ok(Self { counter: SlidingWindowCounterCore::new(limit, length, count), clock, start })
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        self.ask(1)
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.ask(units.get().into())
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

/// throttle-net's sliding window log: a deque behind a mutex.
pub struct ThrottleNetLog(SlidingWindowLog);

impl fmt::Debug for ThrottleNetLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThrottleNetLog").finish_non_exhaustive()
    }
}

impl Contender for ThrottleNetLog {
    const NAME: &'static str = "throttle-net-log";
    const AGAINST: &'static str = "sliding-log";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let (limit, window) = log_of(plan);
        Ok(Self(SlidingWindowLog::new(limit, window)))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        black_box(self.0.try_acquire())
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.0.try_acquire_with_cost(charges(units))
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
