//! Counters and logs: limits for one key, outside the table, shared by reference, without hashing.

#[cfg(feature = "std")]
mod builder;
mod cells;
mod charged;
mod log;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(any(loom, interleave))))]
mod parked;
mod receipts;
mod restore;
mod ring;
#[cfg(feature = "std")]
mod sharded;
mod sliding_log;
mod span;
mod sub_window;

use core::fmt;
use core::time::Duration;

#[cfg(feature = "std")]
pub use builder::ShardedCounterBuilder;
pub use log::MAX_LOG_UNITS;
#[cfg(feature = "std")]
pub use sharded::{MAX_SHARDS, ShardedCounter};
pub use sliding_log::SlidingLog;
pub use sub_window::SubWindowCounter;

/// The longest window of a counter: 2^57 ns, about 4.5 years.
pub const MAX_COUNTER_WINDOW: Duration = Duration::from_nanos(1 << 57);

/// Default number of sub-windows in a window.
pub const DEFAULT_SUB_WINDOWS: u64 = 60;

/// Maximum number of sub-windows in a window.
pub const MAX_SUB_WINDOWS: u64 = 1024;

/// Why a counter cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterError {
    /// The window is 0.
    ZeroWindow,
    /// The window is longer than [`MAX_COUNTER_WINDOW`].
    WindowTooLong,
    /// The number of sub-windows is 0 or above [`MAX_SUB_WINDOWS`].
    SubWindows,
    /// The limit is above `max`: the most that the counter's words hold in sub-windows of this
    /// length, or [`MAX_LOG_UNITS`].
    LimitTooHigh {
        /// The highest supported limit, in units of cost.
        max: u64,
    },
    /// The number of shards is 0 or above [`MAX_SHARDS`](crate::counter::MAX_SHARDS), or a block
    /// has 0 units.
    Shards,
    /// The memory could not be allocated.
    OutOfMemory,
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroWindow => "window must be longer than 0",
            Self::WindowTooLong => "window must be at most 1667 days",
            Self::SubWindows => "sub-windows must be from 1 to 1024",
            Self::LimitTooHigh { max } => return write!(f, "limit must be at most {max}"),
            Self::Shards => "shards must be from 1 to 1024, of blocks of at least 1 unit",
            Self::OutOfMemory => "the counter's memory could not be allocated",
        })
    }
}

impl core::error::Error for CounterError {}

/// The length of a valid window in nanoseconds.
fn window_nanos(window: Duration) -> Result<u64, CounterError> {
    if window.is_zero() {
        return Err(CounterError::ZeroWindow);
    }
    if window > MAX_COUNTER_WINDOW {
        return Err(CounterError::WindowTooLong);
    }
    u64::try_from(window.as_nanos()).map_err(|_| CounterError::WindowTooLong)
}
