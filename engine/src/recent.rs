//! A clock that is read for the price of a load.

mod dial;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod upkeep;

#[cfg(not(loom))]
pub use upkeep::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
