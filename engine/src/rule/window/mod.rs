//! Counting within windows of time: fixed, sliding and calendar windows.
//!
//! A key's value holds the number of a *period* in its high bits and counts below it. Periods are
//! numbered from 1, so a value of 0 is in none. Time is in nanoseconds since the clock's origin.
//! While a value's period lasts it is the key's period, also for a call with a `now` before it:
//! time never takes a key back, and nothing is admitted twice. Once the period is over its counts
//! are too, and only then is the period of `now` computed.

/// The constructors of a rule of `limit` units and windows of one length; `$what` begins their
/// documentation, which ends with the length.
macro_rules! rule_of_window {
    ($what:literal) => {
        #[doc = concat!($what, " length `window`.")]
        #[must_use]
        pub const fn new(limit: u64, window: Duration) -> Self {
            Self { limit, window }
        }

        #[doc = concat!($what, " a second.")]
        #[must_use]
        pub const fn per_second(limit: u64) -> Self {
            Self::new(limit, Duration::from_secs(1))
        }

        #[doc = concat!($what, " a minute.")]
        #[must_use]
        pub const fn per_minute(limit: u64) -> Self {
            Self::new(limit, Duration::from_secs(60))
        }

        #[doc = concat!($what, " an hour.")]
        #[must_use]
        pub const fn per_hour(limit: u64) -> Self {
            Self::new(limit, Duration::from_secs(3_600))
        }

        #[doc = concat!($what, " 24 hours.")]
        #[must_use]
        pub const fn per_day(limit: u64) -> Self {
            Self::new(limit, Duration::from_secs(86_400))
        }

        /// How long each window lasts.
        #[must_use]
        pub const fn window(&self) -> Duration {
            self.window
        }
    };
}

mod calendar;
mod civil;
mod count;
mod fixed;
mod sliding;
mod sliding_window;

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::word::VALUE_BITS;
use crate::rule::quota::QuotaError;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

pub(crate) use calendar::Unit as CalendarUnit;
pub use calendar::{CalendarWindow, MAX_UTC_OFFSET_SECONDS};
pub(crate) use count::Count;
pub use fixed::FixedWindow;
pub(crate) use sliding::Sliding;
pub use sliding_window::SlidingWindow;

/// The longest window: 2^56 ns, about 834 days.
pub const MAX_WINDOW: Duration = Duration::from_nanos(WINDOW_MAX);
const WINDOW_MAX: u64 = 1 << 56;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 3_600 * SECOND;

/// The instant at which time stands still, in nanoseconds: ten years after the clock's origin.
const NOW_MAX: u64 = 3_660 * DAY;

// The sum of an instant and the lengths of two windows fits a value, and a decision.
const _: () = assert!(NOW_MAX + 2 * WINDOW_MAX < 1 << VALUE_BITS);

/// An instant in the scale of all windows.
#[inline]
fn instant(now: Timestamp) -> u64 {
    now.as_nanos().min(NOW_MAX)
}

/// How time is divided into periods, which are numbered from 1 in the order of time.
pub trait Periods: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// The period of `now`.
    fn at(&self, now: u64) -> u64;

    /// When a period begins, at least 0.
    fn start(&self, period: u64) -> u64;

    /// When a period is over; 0 for period 0.
    fn end(&self, period: u64) -> u64;

    /// The kind under which counts of these periods are saved.
    fn kind(&self) -> SnapshotKind;

    /// A period's count at `now`, independent of the clock.
    fn save(&self, period: u64, count: u64, now: u64) -> SavedState;

    /// The period and the count, at `now`, of a state saved `downtime` before; `None` for a state
    /// of another kind.
    fn load(&self, state: SavedState, downtime: Duration, now: u64) -> Option<(u64, u64)>;
}

/// Periods of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Even {
    /// In nanoseconds, at least 1.
    length: u64,
    /// How much of the first period precedes the clock's origin, in nanoseconds; less than
    /// `length`.
    phase: u64,
}

impl Even {
    /// Periods from the clock's origin on.
    fn new(length: Duration) -> Result<Self, QuotaError> {
        if length.is_zero() {
            return Err(QuotaError::ZeroPeriod);
        }
        if length > MAX_WINDOW {
            return Err(QuotaError::WindowTooLong);
        }
        Ok(Self { length: length.as_nanos() as u64, phase: 0 })
    }

    fn length(&self) -> Duration {
        Duration::from_nanos(self.length)
    }

    /// The first period that ends no earlier than one of which `left` remained `downtime` before
    /// `now`: 0 for one that ends at the clock's origin. `None` if the period after it is over as
    /// well.
    fn ending(&self, left: Duration, downtime: Duration, now: u64) -> Option<u64> {
        let nanos = |duration: Duration| duration.as_nanos() as i128;
        let end = i128::from(now) + nanos(left) - nanos(downtime);
        if end <= -i128::from(self.length) {
            return None;
        }
        // Time stands still in the last period.
        let last = u64::try_from(end - 1).map_or(NOW_MAX, |last| last.min(NOW_MAX));
        Some(if end <= 0 { 0 } else { self.at(last) })
    }
}

impl Periods for Even {
    #[inline]
    fn at(&self, now: u64) -> u64 {
        (now + self.phase) / self.length + 1
    }

    #[inline]
    fn start(&self, period: u64) -> u64 {
        self.end(period.saturating_sub(1))
    }

    #[inline]
    fn end(&self, period: u64) -> u64 {
        (period * self.length).saturating_sub(self.phase)
    }

    fn kind(&self) -> SnapshotKind {
        SnapshotKind::FixedWindows(self.length())
    }

    fn save(&self, period: u64, count: u64, now: u64) -> SavedState {
        let left = Duration::from_nanos(self.end(period) - now);
        SavedState::Window { left, current: count, previous: 0 }
    }

    fn load(&self, state: SavedState, downtime: Duration, now: u64) -> Option<(u64, u64)> {
        let SavedState::Window { left, current, .. } = state else { return None };
        Some((self.ending(left, downtime, now).unwrap_or(0), current))
    }
}

/// The bits of each of `counts` counts in a value, next to the numbers of all periods; an error if
/// `limit` needs more.
fn count_bits(periods: &impl Periods, limit: u64, counts: u32) -> Result<u32, QuotaError> {
    let period_bits = u64::BITS - periods.at(NOW_MAX).leading_zeros();
    let bits = (VALUE_BITS - period_bits) / counts;
    let max = largest(bits);
    if limit > max { Err(QuotaError::LimitTooHigh { max }) } else { Ok(bits) }
}

/// The largest count of this many bits.
#[inline]
const fn largest(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The answer to a check of a fresh key for which there is no slot until `wait` ns are over.
#[cold]
fn full(limit: u64, wait: u64, admitted: bool) -> Decision {
    if admitted {
        return Decision::allowed(limit, limit, 0);
    }
    Decision::denied(limit, 0, wait, wait)
}
