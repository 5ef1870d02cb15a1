//! Limiters of ours for a single key.

use core::fmt::Debug;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use tidegate_engine::counter::{ShardedCounter, SlidingLog, SubWindowCounter};
use tidegate_engine::{Concurrency, Queue, Quota};

use super::{Contender, without_keys};
use crate::algorithms::{SUB_WINDOWS, WINDOW, charges, log_of};
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// A limiter of ours without keys.
pub trait Single: Debug + Sync + Sized + 'static {
    /// The name in reports.
    const NAME: &'static str;

    /// Builds it from a plan; the error is text.
    ///
    /// # Errors
    /// When the limiter refuses the plan.
    fn of(plan: &Plan) -> Result<Self, String>;

    /// Takes one unit if it fits.
    fn check(&self) -> bool;

    /// Takes several units and keeps them.
    fn admit(&self, units: NonZeroU32) -> bool;

    /// Why it is excluded from a workload with one key, if it is.
    #[must_use]
    fn absence(_: Workload) -> Option<&'static str> {
        None
    }
}

fn quota(plan: &Plan) -> Quota {
    Quota::new(1, plan.interval).burst(plan.burst.get().into())
}

fn text(error: impl core::error::Error) -> String {
    error.to_string()
}

/// GCRA on one word.
impl Single for tidegate_engine::DirectLimiter {
    const NAME: &'static str = "single";

    fn of(plan: &Plan) -> Result<Self, String> {
        Self::new(quota(plan)).map_err(text)
    }

    #[inline]
    fn check(&self) -> bool {
        black_box(self.check()).is_allowed()
    }

    fn admit(&self, units: NonZeroU32) -> bool {
        self.check_n(units.get().into()).is_allowed()
    }
}

impl Single for SubWindowCounter {
    const NAME: &'static str = "sub-windows";

    fn of(plan: &Plan) -> Result<Self, String> {
        let clock = tidegate_engine::clock::TscClock::new();
        let limit = plan.burst.get().into();
        Self::with_sub_windows(limit, WINDOW, SUB_WINDOWS.into(), clock).map_err(text)
    }

    #[inline]
    fn check(&self) -> bool {
        black_box(self.check()).is_allowed()
    }

    fn admit(&self, units: NonZeroU32) -> bool {
        self.check_n(units.get().into()).is_allowed()
    }
}

impl Single for ShardedCounter {
    const NAME: &'static str = "sub-windows-sharded";

    fn of(plan: &Plan) -> Result<Self, String> {
        Self::new(plan.burst.get().into(), WINDOW).map_err(text)
    }

    #[inline]
    fn check(&self) -> bool {
        black_box(self.check()).is_allowed()
    }

    fn admit(&self, units: NonZeroU32) -> bool {
        self.check_n(units.get().into()).is_allowed()
    }
}

impl Single for SlidingLog {
    const NAME: &'static str = "sliding-log";

    fn of(plan: &Plan) -> Result<Self, String> {
        let (limit, window) = log_of(plan);
        Self::new(limit.into(), window).map_err(text)
    }

    #[inline]
    fn check(&self) -> bool {
        black_box(self.check()).is_allowed()
    }

    fn admit(&self, units: NonZeroU32) -> bool {
        self.check_n(charges(units).into()).is_allowed()
    }
}

/// A check returns its permit at once, and reports only what a semaphore can: whether there was
/// one.
impl Single for Concurrency {
    const NAME: &'static str = "concurrency";

    fn of(plan: &Plan) -> Result<Self, String> {
        Ok(Self::new(plan.burst.get().into()))
    }

    #[inline]
    fn check(&self) -> bool {
        black_box(self.try_acquire(1).is_ok())
    }

    fn admit(&self, units: NonZeroU32) -> bool {
        self.try_acquire(units.get().into()).map(core::mem::forget).is_ok()
    }
}

/// Takes a turn that starts at once: no call has to wait.
impl Single for Queue {
    const NAME: &'static str = "queue";

    fn of(plan: &Plan) -> Result<Self, String> {
        Self::new(quota(plan)).map_err(text)
    }

    #[inline]
    fn check(&self) -> bool {
        let turn = self.enqueue(1, Duration::ZERO);
        black_box(turn).map(tidegate_engine::wait::Turn::keep).is_ok()
    }

    fn admit(&self, units: NonZeroU32) -> bool {
        let turn = self.enqueue(units.get().into(), Duration::ZERO);
        turn.map(tidegate_engine::wait::Turn::keep).is_ok()
    }

    fn absence(workload: Workload) -> Option<&'static str> {
        (workload == Workload::HotDenied).then_some("a call that does not fit waits")
    }
}

/// A limiter of ours for a single key, compared with peers of that kind.
#[derive(Debug)]
pub struct Alone<S>(S);

impl<S: Single> Contender for Alone<S> {
    const NAME: &'static str = "ours";
    type Key = u64;

    fn variant() -> Option<String> {
        Some(S::NAME.to_owned())
    }

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload).or_else(|| S::absence(workload))
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let single = S::of(plan).map(Self);
        single.map_err(|error| Failure::SetUp(format!("{}: {error}", Self::label())))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        self.0.check()
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.0.admit(units)
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
