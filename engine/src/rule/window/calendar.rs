//! The calendar window: the rule, and its periods.

use core::time::Duration;

use crate::rule::quota::QuotaError;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::rule::{Rule, sealed};

use super::civil::month_of;
use super::count::Count;
use super::{DAY, Even, NOW_MAX, Periods, SECOND};

/// The most seconds that a calendar may be ahead of or behind UTC: 18 hours.
pub const MAX_UTC_OFFSET_SECONDS: i32 = 64_800;

/// At most `limit` units in each minute, hour, day or month of the wall clock; at the end of each
/// the key is as good as new.
///
/// # When to use it
/// For limits counted by the calendar, such as a plan's "10 000 a month" or "100 a day, reset at
/// midnight". Where the moment does not matter, [`FixedWindow`](crate::FixedWindow) needs no wall
/// clock, and [`Quota`](crate::Quota) spreads load evenly.
///
/// # Guarantees
/// In each calendar period a key is admitted at most `limit` units, for any number of threads, plus
/// what is given back in it. Otherwise as [`FixedWindow`](crate::FixedWindow). After ten years of
/// uptime time stands still.
///
/// # Error
/// In an interval no longer than a period that does not begin with one, up to `2 * limit` units are
/// admitted: `limit` at the end of one period and `limit` at the beginning of the next.
///
/// # The wall clock
/// The limiter's own clock knows no date. The system's wall clock is read once, when a limiter is
/// built, and from then on the limiter's clock counts on from there: setting the wall clock later,
/// forward or back, moves nothing and mints nothing. The limiter's clock drifts from the wall clock
/// like any clock that is not corrected, and periods end early or late by that drift. To follow a
/// wall clock that was set, rebuild the limiter. [`CalendarWindow::anchored`] gives the date
/// explicitly; limiters that must agree on their periods need the same date and one clock.
///
/// Days have 24 hours at [`CalendarWindow::utc_offset_seconds`], all year round: no daylight saving
/// time and no leap seconds. Months are those of the Gregorian calendar.
///
/// # Cost
/// 20 bytes a key at the intended fill. A check takes as long as with
/// [`FixedWindow`](crate::FixedWindow), plus a dozen divisions when a key enters a month.
///
/// # Ranges
/// Checked by [`LimiterBuilder::build`](crate::limiter::LimiterBuilder::build). The limit is at
/// most 2^36 - 1 a minute, 2^42 - 1 an hour and 2^47 - 1 a day or a month
/// ([`QuotaError::LimitTooHigh`]), where [`Limiter::charge`](crate::Limiter::charge) saturates too.
/// A limit of 0 blocks.
///
/// ```
/// use tidegate_engine::{CalendarWindow, Limiter, ManualClock};
/// use core::time::Duration;
///
/// // 2026-11-30, 23:59:50 in Berlin's winter, one hour ahead of UTC.
/// let november = Duration::from_secs(1_796_079_590);
/// let rule = CalendarWindow::per_month(1).utc_offset_seconds(3_600).anchored(november);
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(rule).clock(clock.clone()).build()?;
/// assert!(limiter.check("user:42").is_allowed());
/// assert_eq!(limiter.check("user:42").retry_after(), Some(Duration::from_secs(10)));
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.check("user:42").is_allowed());
/// let december = Duration::from_secs(31 * 86_400);
/// assert_eq!(limiter.check("user:42").retry_after(), Some(december));
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CalendarWindow {
    limit: u64,
    unit: Unit,
    /// Local time less UTC.
    utc_offset_seconds: i32,
    /// The wall clock's time at the origin of the limiter's clock, in nanoseconds since 1970-01-01
    /// UTC.
    origin: Option<i128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Minute,
    Hour,
    Day,
    Month,
}

impl CalendarWindow {
    pub(crate) const fn new(limit: u64, unit: Unit) -> Self {
        Self { limit, unit, utc_offset_seconds: 0, origin: None }
    }

    /// At most `limit` units in each minute.
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::new(limit, Unit::Minute)
    }

    /// At most `limit` units in each hour.
    #[must_use]
    pub const fn per_hour(limit: u64) -> Self {
        Self::new(limit, Unit::Hour)
    }

    /// At most `limit` units in each day, from midnight UTC unless
    /// [`CalendarWindow::utc_offset_seconds`] is set.
    #[must_use]
    pub const fn per_day(limit: u64) -> Self {
        Self::new(limit, Unit::Day)
    }

    /// At most `limit` units in each month, from midnight UTC before its first day unless
    /// [`CalendarWindow::utc_offset_seconds`] is set.
    #[must_use]
    pub const fn per_month(limit: u64) -> Self {
        Self::new(limit, Unit::Month)
    }

    /// Sets the clock to `seconds` ahead of UTC, or behind it if negative: whole minutes, at most
    /// [`MAX_UTC_OFFSET_SECONDS`] either way, else [`QuotaError::UtcOffset`]. Two hours ahead are
    /// 7 200.
    ///
    /// Every offset in use today is a multiple of 15 minutes; only historical dates have offsets
    /// with seconds, and limits have no such dates. So a small number is taken for a mistake: 2
    /// that means hours.
    #[must_use]
    pub const fn utc_offset_seconds(self, seconds: i32) -> Self {
        Self { utc_offset_seconds: seconds, ..self }
    }

    /// Sets the wall clock's time at the *origin* of the limiter's clock, as the time since
    /// 1970-01-01 00:00 UTC. By default the system's clock gives it; without the feature `std` it
    /// must be set. A [`ManualClock`](crate::ManualClock) begins at its origin.
    #[must_use]
    pub const fn anchored(self, unix: Duration) -> Self {
        Self { origin: Some(unix.as_nanos() as i128), ..self }
    }

    /// As [`CalendarWindow::anchored`], in nanoseconds, and before 1970 too.
    pub(crate) const fn anchored_at(self, nanos: i128) -> Self {
        Self { origin: Some(nanos), ..self }
    }

    /// Units that are admitted in each period.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) const fn unit(&self) -> Unit {
        self.unit
    }

    /// Local time less UTC, in seconds.
    pub(crate) const fn offset(&self) -> i32 {
        self.utc_offset_seconds
    }

    /// The wall clock's time at the origin of the limiter's clock, in nanoseconds since 1970, once
    /// it is known.
    pub(crate) const fn origin(&self) -> Option<i128> {
        self.origin
    }
}

impl sealed::Sealed for CalendarWindow {}

impl Rule for CalendarWindow {
    type Algorithm = Count<Calendar>;
    type PerCall<'a> = Self::Algorithm;

    #[cfg(feature = "std")]
    fn anchor(self, now: crate::time::Timestamp) -> Self {
        let origin = self.origin.unwrap_or_else(|| wall_clock() - i128::from(now.as_nanos()));
        Self { origin: Some(origin), ..self }
    }

    fn algorithm(&self) -> Result<Self::Algorithm, QuotaError> {
        let seconds = self.utc_offset_seconds;
        if seconds % 60 != 0 || seconds.unsigned_abs() > MAX_UTC_OFFSET_SECONDS.unsigned_abs() {
            return Err(QuotaError::UtcOffset);
        }
        let offset = i128::from(seconds) * i128::from(SECOND);
        let origin = self.origin.ok_or(QuotaError::Unanchored)?;
        Count::new(Calendar::new(self.unit, origin, offset), self.limit)
    }

    fn refill_time(&self, _: &Self::Algorithm) -> Option<Duration> {
        match self.unit {
            Unit::Minute => Some(Duration::from_secs(60)),
            Unit::Hour => Some(Duration::from_secs(3_600)),
            Unit::Day => Some(Duration::from_secs(86_400)),
            // Months differ in length.
            Unit::Month => None,
        }
    }
}

/// The system's wall-clock time in nanoseconds since 1970-01-01 UTC.
#[cfg(feature = "std")]
#[expect(
    clippy::disallowed_methods,
    reason = "a calendar is the wall clock's; it is read once, when a limiter is built"
)]
fn wall_clock() -> i128 {
    match std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

/// How a calendar divides time.
#[derive(Clone, Copy, Debug)]
pub struct Calendar {
    unit: Unit,
    /// The wall clock's time at the clock's origin, in nanoseconds since 1970-01-01 UTC.
    origin: i128,
    /// The periods; where they are months, the days.
    even: Even,
    /// Where periods are months, the day number of the clock's origin. A month's own number is then
    /// that of its last day, counted from that one as 1.
    first_day: Option<i64>,
}

impl Calendar {
    /// `origin` is the wall clock's time at the clock's origin, in nanoseconds since 1970-01-01
    /// UTC, and the calendar's is `offset` nanoseconds ahead of it.
    fn new(unit: Unit, origin: i128, offset: i128) -> Self {
        let local = origin + offset;
        let length = match unit {
            Unit::Minute => 60 * SECOND,
            Unit::Hour => 3_600 * SECOND,
            Unit::Day | Unit::Month => DAY,
        };
        let length_wide = i128::from(length);
        // The time of a `Duration` is below 2^94 ns, so its days are below 2^48.
        let (number, phase) = (local.div_euclid(length_wide), local.rem_euclid(length_wide));
        Self {
            unit,
            origin,
            even: Even { length, phase: phase as u64 },
            first_day: (unit == Unit::Month).then_some(number as i64),
        }
    }
}

impl Periods for Calendar {
    #[inline]
    fn at(&self, now: u64) -> u64 {
        let number = self.even.at(now);
        match self.first_day {
            None => number,
            Some(first_day) => {
                let today = first_day + (number - 1) as i64;
                (month_of(today).end - first_day) as u64
            }
        }
    }

    fn start(&self, period: u64) -> u64 {
        match self.first_day {
            None => self.even.start(period),
            Some(first_day) => {
                let last = first_day + period as i64 - 1;
                // The first month may begin before the origin.
                let days = month_of(last).start - first_day;
                self.even.end(days.max(0) as u64)
            }
        }
    }

    #[inline]
    fn end(&self, period: u64) -> u64 {
        self.even.end(period)
    }

    fn kind(&self) -> SnapshotKind {
        match self.unit {
            Unit::Minute => SnapshotKind::CalendarMinutes,
            Unit::Hour => SnapshotKind::CalendarHours,
            Unit::Day => SnapshotKind::CalendarDays,
            Unit::Month => SnapshotKind::CalendarMonths,
        }
    }

    /// Periods end with a second.
    fn save(&self, period: u64, count: u64, _: u64) -> SavedState {
        let ends = (self.origin + i128::from(self.end(period))).div_euclid(i128::from(SECOND));
        let ends = i64::try_from(ends).unwrap_or(if ends < 0 { i64::MIN } else { i64::MAX });
        SavedState::Period { ends, count }
    }

    /// A count has also expired if the wall clock was set back by more than a period since.
    fn load(&self, state: SavedState, _: Duration, now: u64) -> Option<(u64, u64)> {
        let SavedState::Period { ends, count } = state else { return None };
        let end = i128::from(ends) * i128::from(SECOND) - self.origin;
        let next = self.at(self.end(self.at(now)));
        if end <= 0 || end > i128::from(self.end(next)) {
            return Some((0, count));
        }
        Some((self.at((end as u64 - 1).min(NOW_MAX)), count))
    }
}
