//! Rules of ours for many keys other than the usual quota. No window ends within a run.

use core::error::Error;
use core::hint::black_box;
use core::num::NonZeroU32;

use tidegate_engine::{
    CalendarWindow, FixedWindow, Limiter, Quota, QuotaError, Rule, SlidingWindow,
};

use super::Contender;
use crate::algorithms::{WINDOW, charges};
use crate::failure::Failure;
use crate::workloads::Plan;

/// A rule for many keys, made from a plan.
pub trait Window: Rule {
    /// The name in reports.
    const NAME: &'static str;

    /// The rule that admits as many units in a run as the plan.
    ///
    /// # Errors
    /// When there is no such rule.
    fn of(plan: &Plan) -> Result<Self, QuotaError>;

    /// The charges of the warm-up it needs.
    #[must_use]
    fn charges(units: NonZeroU32) -> u32 {
        charges(units)
    }
}

/// One unit more than the burst in a window as long as the emission interval: the rate of the plan.
impl Window for Quota {
    const NAME: &'static str = "strict-u64";

    fn of(plan: &Plan) -> Result<Self, QuotaError> {
        let burst = plan.burst.get().into();
        Ok(Self::strict(burst + 1, plan.interval, burst))
    }

    fn charges(units: NonZeroU32) -> u32 {
        units.get()
    }
}

impl Window for FixedWindow {
    const NAME: &'static str = "fixed-window-u64";

    fn of(plan: &Plan) -> Result<Self, QuotaError> {
        Ok(Self::new(plan.burst.get().into(), WINDOW))
    }
}

/// Counts in the month, which is not expected to end within a run.
impl Window for CalendarWindow {
    const NAME: &'static str = "fixed-window-u64-calendar";

    fn of(plan: &Plan) -> Result<Self, QuotaError> {
        Ok(Self::per_month(plan.burst.get().into()))
    }
}

impl Window for SlidingWindow {
    const NAME: &'static str = "sliding-window-u64";

    fn of(plan: &Plan) -> Result<Self, QuotaError> {
        Ok(Self::new(plan.burst.get().into(), WINDOW))
    }
}

/// The engine's keyed limiter under such a rule.
#[derive(Debug)]
pub struct Windowed<R: Window>(Limiter<R>);

impl<R: Window> Contender for Windowed<R> {
    const NAME: &'static str = "ours";
    type Key = u64;

    fn variant() -> Option<String> {
        Some(R::NAME.to_owned())
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let set_up = |error: &dyn Error| Failure::SetUp(format!("{}: {error}", Self::label()));
        let rule = R::of(plan).map_err(|error| set_up(&error))?;
        let limiter = Limiter::builder(rule).capacity(plan.keys).build();
        limiter.map(Self).map_err(|error| set_up(&error))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.0.check(*key)).is_allowed()
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        self.0.check_n(*key, R::charges(units).into()).is_allowed()
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
