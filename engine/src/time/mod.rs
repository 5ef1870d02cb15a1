//! Time: clocks, and points in time on their scales.

mod clock;
#[cfg(all(feature = "std", any(test, not(loom))))]
mod recent;
#[cfg(feature = "std")]
mod tsc;

pub(crate) use clock::saturating_nanos;
pub use clock::{Clock, ManualClock, SharedClock, Timestamp};
#[cfg(all(feature = "std", not(loom)))]
pub use recent::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
#[cfg(feature = "std")]
pub use tsc::TscClock;

/// The clock of a limiter that is built without one: [`TscClock`](crate::clock::TscClock). Without
/// the feature `std` this is another type, which has no values, because there is no operating
/// system's clock: `Limiter` names a type in every build, but only one on a [`ManualClock`] or a
/// clock of your own can be built.
#[cfg(feature = "std")]
pub type DefaultClock = TscClock;

/// The clock of a limiter that is built without one: a type without values, because without the
/// feature `std` there is no operating system's clock. `Limiter` names a type in every build, but
/// only one on a [`ManualClock`] or a clock of your own can be built; with `std` this is
/// `TscClock`.
#[cfg(not(feature = "std"))]
#[derive(Clone, Debug)]
pub struct DefaultClock(core::convert::Infallible);

#[cfg(not(feature = "std"))]
impl Clock for DefaultClock {
    fn now(&self) -> Timestamp {
        match self.0 {}
    }
}
