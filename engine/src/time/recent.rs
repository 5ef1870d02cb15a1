//! A clock whose reading is a plain load.

mod dial;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod upkeep;

#[cfg(not(loom))]
pub use upkeep::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
