//! What algorithms other than GCRA are run with, ours and others' alike.

use core::num::NonZeroU32;
use core::time::Duration;

use crate::workloads::Plan;

/// A window that does not end within a run.
pub const WINDOW: Duration = Duration::from_hours(24 * 365);
/// Sub-windows of a window, where it has some.
pub const SUB_WINDOWS: u32 = 60;
/// Entries of a log in which each check is allowed, because they expire as fast as any limiter can check:
/// 6.5 * 10^8 a second.
pub const LOG_LIMIT: u32 = 1 << 16;
/// How long an entry of such a log counts.
pub const LOG_WINDOW: Duration = Duration::from_micros(100);

/// The charges of a warm-up that a window needs: it stays live after one, and is used up by the two
/// of a plan that denies.
#[must_use]
pub fn charges(units: NonZeroU32) -> u32 {
    units.get().min(2)
}

/// The limit and the window of a log in which entries expire as fast as they are made, or never.
#[must_use]
pub fn log_of(plan: &Plan) -> (u32, Duration) {
    if plan.allowed { (LOG_LIMIT, LOG_WINDOW) } else { (plan.burst.get(), WINDOW) }
}
