//! Time in nanoseconds.

use std::time::Duration;

/// Nanoseconds: a duration, or a time since the fixed point the caller chose.
pub type Nanos = u64;

/// The nanoseconds of a second.
pub(super) const SECOND: Nanos = 1_000_000_000;

/// A duration in nanoseconds, saturating at 584 years.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
