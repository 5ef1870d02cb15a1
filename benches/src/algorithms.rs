//! Parameters of algorithms other than GCRA, the same for ours and peers.

use core::num::NonZeroU32;
use core::time::Duration;

use crate::workloads::Plan;

/// A window that does not end within a run.
pub const WINDOW: Duration = Duration::from_hours(24 * 365);
/// Sub-windows per window, for algorithms that have them.
pub const SUB_WINDOWS: u32 = 60;
/// Entries of a log in which each check is allowed, because they expire faster than any limiter can
/// check: 6.5 * 10^8 per second.
pub const LOG_LIMIT: u32 = 1 << 16;
/// The lifetime of an entry of such a log.
pub const LOG_WINDOW: Duration = Duration::from_micros(100);

/// The charges of a warm-up for a window: one keeps it live, and the two of a denying plan use it
/// up.
#[must_use]
pub fn charges(units: NonZeroU32) -> u32 {
    units.get().min(2)
}

/// The limit and the window of a log in which entries expire as fast as they are made, or never.
#[must_use]
pub fn log_of(plan: &Plan) -> (u32, Duration) {
    if plan.allowed { (LOG_LIMIT, LOG_WINDOW) } else { (plan.burst.get(), WINDOW) }
}
