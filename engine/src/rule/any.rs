//! A rule whose kind is known only at run time.

use crate::rule::quota::Quota;
use crate::rule::window::{CalendarWindow, FixedWindow, SlidingWindow};

/// A rule of any kind that has a text: for limits that are configured.
///
/// # Rules as text
/// One grammar for [`Quota`], [`SlidingWindow`], [`FixedWindow`], [`CalendarWindow`] and this type,
/// by [`FromStr`](core::str::FromStr) and [`Display`](core::fmt::Display), and by the feature
/// `serde` for configuration files and messages; a node of Tidegate reads the same.
///
/// | text | rule |
/// |---|---|
/// | `100/s` | [`Quota::per_second(100)`](Quota::per_second), with a burst of 100 |
/// | `5/15m` | [`Quota::new`] with any whole number of a unit |
/// | `1000/d burst 50` | [`Quota::burst`] |
/// | `100/m strict burst 10` | [`Quota::strict`] |
/// | `blocked`, `unlimited` | [`Quota::blocked`], which is also `0/s`, and [`Quota::unlimited`] |
/// | `100/m sliding` | [`SlidingWindow`] |
/// | `100/m fixed` | [`FixedWindow`] |
/// | `100/d calendar` | [`CalendarWindow`], whose period is 1 `m`, `h`, `d` or `month` |
/// | `1000/month` | the same as `1000/month calendar`: no other rule has months |
/// | `1000/month utc+02:00` | [`CalendarWindow::utc_offset_seconds`] of 7200 |
/// | `1000/month anchored 1796079590s` | [`CalendarWindow::anchored`] |
///
/// A text is a count, a `/` and a period, then any further words, in any order and each at most
/// once. Words are in lower case, with ASCII white space between them and, if need be, around all
/// of them. Numbers are decimal and whole, and may have single `_` between digits: `1_000_000/d`. A
/// period is a number, which may be left out where it is 1, and a unit: `s`, `m`, `h` or `d` (24
/// hours), or `ms`, `us` or `ns`. An offset is `utc`, a sign, hours and minutes, and seconds if
/// there are any.
///
/// A text that can be read is not yet a rule that can be enforced: what is out of a rule's range is
/// a [`QuotaError`](crate::QuotaError) where a limit is built, as for a rule made in code. Only
/// numbers that the rule cannot hold are an error of the text. Reading is O(length), and only an
/// error allocates, at most some hundred bytes.
///
/// Equal rules print as one text, which reads back as an equal rule. It has the longest unit that
/// divides the period, without a number if that is 1, and leaves out what goes without saying. A
/// limiter's own calendar, as [`Limiter::rule`](crate::Limiter::rule) gives it, is printed with its
/// anchor.
///
/// ```
/// use tidegate_engine::rule::AnyRule;
/// use tidegate_engine::{Quota, SlidingWindow};
/// use core::time::Duration;
///
/// let login: Quota = "5/15m".parse()?;
/// assert_eq!(login, Quota::new(5, Duration::from_secs(900)));
/// assert_eq!("1000/1d burst 50".parse::<Quota>()?.to_string(), "1000/d burst 50");
///
/// let configured: AnyRule = "100/m sliding".parse()?;
/// assert_eq!(configured, AnyRule::from(SlidingWindow::per_minute(100)));
///
/// let error = "5/15x".parse::<Quota>().unwrap_err();
/// assert_eq!(error.to_string(), "`5/15x`: unknown unit `x`, expected s, m, h or d");
/// # Ok::<(), tidegate_engine::rule::ParseRuleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnyRule {
    /// A rate and a burst.
    Quota(Quota),
    /// Two windows, weighted.
    Sliding(SlidingWindow),
    /// A count a window.
    Fixed(FixedWindow),
    /// A count a period of the calendar.
    Calendar(CalendarWindow),
}

impl From<Quota> for AnyRule {
    fn from(quota: Quota) -> Self {
        Self::Quota(quota)
    }
}

impl From<SlidingWindow> for AnyRule {
    fn from(window: SlidingWindow) -> Self {
        Self::Sliding(window)
    }
}

impl From<FixedWindow> for AnyRule {
    fn from(window: FixedWindow) -> Self {
        Self::Fixed(window)
    }
}

impl From<CalendarWindow> for AnyRule {
    fn from(window: CalendarWindow) -> Self {
        Self::Calendar(window)
    }
}
