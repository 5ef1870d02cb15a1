//! Tidegate's engine, in the styles it can be called in.

use core::fmt::Debug;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use tidegate_engine::{Clock, Limiter, Quota, RecentClock, TscClock};

use super::{Audited, Contender};
use crate::failure::Failure;
use crate::workloads::Plan;

/// The time-stamp counter read in each check.
pub type Precise = Ours<PreciseStyle>;
/// A shared clock word that an upkeep thread advances.
pub type Recent = Ours<RecentStyle>;
/// Batches of 32 keys, with one reading of the time-stamp counter for each.
pub type Batch32 = Ours<Batch32Style>;

/// The engine with its default hasher, called in one style.
#[derive(Debug)]
pub struct Ours<S: Style>(Limiter<S::Clock>);

/// A clock and a way to call.
pub trait Style: Sync {
    /// The limiter's clock.
    type Clock: Clock + Sync + Debug;
    /// The style's name in reports.
    const VARIANT: &'static str;

    /// A new clock.
    ///
    /// # Errors
    /// When there is none to be had.
    fn clock() -> Result<Self::Clock, Failure>;

    /// [`Contender::check_all`] in this style.
    #[inline]
    fn check_all(ours: &Ours<Self>, keys: &[String]) -> u64
    where
        Self: Sized,
    {
        keys.iter().map(|key| u64::from(ours.check(black_box(key)))).sum()
    }

    /// The longest time the clock has stood still, where it does.
    fn staleness(_: &Self::Clock) -> Option<Duration> {
        None
    }
}

/// The style of [`Precise`].
#[derive(Debug)]
pub struct PreciseStyle;

impl Style for PreciseStyle {
    type Clock = TscClock;
    const VARIANT: &'static str = "precise";

    fn clock() -> Result<TscClock, Failure> {
        Ok(TscClock::new())
    }
}

/// The style of [`Recent`].
#[derive(Debug)]
pub struct RecentStyle;

impl RecentStyle {
    /// Leaves room for late wake-ups below a staleness of a millisecond.
    const UPKEEP_INTERVAL: Duration = Duration::from_micros(200);
}

impl Style for RecentStyle {
    type Clock = RecentClock;
    const VARIANT: &'static str = "recent";

    fn clock() -> Result<RecentClock, Failure> {
        RecentClock::start(Self::UPKEEP_INTERVAL)
            .map_err(|error| Failure::SetUp(format!("upkeep thread: {error}")))
    }

    fn staleness(clock: &RecentClock) -> Option<Duration> {
        Some(clock.staleness())
    }
}

/// The style of [`Batch32`].
#[derive(Debug)]
pub struct Batch32Style;

impl Style for Batch32Style {
    type Clock = TscClock;
    const VARIANT: &'static str = "batch32";

    fn clock() -> Result<TscClock, Failure> {
        Ok(TscClock::new())
    }

    #[inline]
    fn check_all(ours: &Ours<Self>, keys: &[String]) -> u64 {
        const BATCH: usize = 32;
        let mut decisions = Vec::with_capacity(BATCH);
        let mut allowed = 0;
        for batch in keys.chunks(BATCH) {
            ours.0.check_many(batch, &mut decisions);
            let decided = black_box(&decisions);
            allowed += decided.iter().filter(|decision| decision.is_allowed()).count() as u64;
        }
        allowed
    }
}

impl<S: Style> Contender for Ours<S> {
    const NAME: &'static str = "ours";

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let quota = Quota::new(1, plan.interval).burst(plan.burst.get().into());
        Limiter::builder(quota)
            .capacity(plan.keys)
            .clock(S::clock()?)
            .build()
            .map(Self)
            .map_err(|error| Failure::SetUp(format!("{}: {error}", Self::NAME)))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.0.check(key.as_str())).is_allowed()
    }

    #[inline]
    fn check_all(&self, keys: &[String]) -> u64 {
        S::check_all(self, keys)
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.0.check_n(key.as_str(), units.get().into()).is_allowed()
    }

    fn live_keys(&self) -> usize {
        self.0.live().count()
    }
}

impl<S: Style> Audited for Ours<S> {
    const VARIANT: &'static str = S::VARIANT;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.clock().now().as_nanos())
    }

    fn debt(&self, key: &str) -> Duration {
        self.0.peek(key).reset_after()
    }

    fn evicted(&self) -> u64 {
        self.0.evicted()
    }

    fn staleness(&self) -> Option<Duration> {
        S::staleness(self.0.clock())
    }
}
