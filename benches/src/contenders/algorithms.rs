//! Algorithms of ours beside GCRA for many keys. No window ends within a run.

use core::hint::black_box;
use core::num::NonZeroU32;

use tidegate_engine::{CalendarWindow, FixedWindow, Limiter, Rule, SlidingWindow};

use super::Contender;
use crate::algorithms::{WINDOW, charges};
use crate::failure::Failure;
use crate::workloads::Plan;

/// A rule for many keys, made from a plan.
pub trait Window: Rule {
    /// The name in reports.
    const NAME: &'static str;

    /// The rule that lets so many units through in a run.
    fn of(limit: u64) -> Self;
}

impl Window for FixedWindow {
    const NAME: &'static str = "fixed-window-u64";

    fn of(limit: u64) -> Self {
        Self::new(limit, WINDOW)
    }
}

/// Counts in the month, which is not expected to end within a run.
impl Window for CalendarWindow {
    const NAME: &'static str = "fixed-window-u64-calendar";

    fn of(limit: u64) -> Self {
        Self::per_month(limit)
    }
}

impl Window for SlidingWindow {
    const NAME: &'static str = "sliding-window-u64";

    fn of(limit: u64) -> Self {
        Self::new(limit, WINDOW)
    }
}

/// The engine's keyed limiter under another rule than a quota.
#[derive(Debug)]
pub struct Windowed<R: Window>(Limiter<R>);

impl<R: Window> Contender for Windowed<R> {
    const NAME: &'static str = "ours";
    type Key = u64;

    fn variant() -> Option<String> {
        Some(R::NAME.to_owned())
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let limiter = Limiter::builder(R::of(plan.burst.get().into())).capacity(plan.keys).build();
        limiter.map(Self).map_err(|error| Failure::SetUp(format!("{}: {error}", Self::label())))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.0.check(*key)).is_allowed()
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        self.0.check_n(*key, charges(units).into()).is_allowed()
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
