//! Writing rules: equal ones as one text, which reads back as an equal rule.

use core::fmt;
use core::time::Duration;

use crate::rule::any::AnyRule;
use crate::rule::quota::Quota;
use crate::rule::window::{CalendarUnit, CalendarWindow, FixedWindow, SlidingWindow};

use super::span;

impl fmt::Display for AnyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(quota) => quota.fmt(f),
            Self::Sliding(window) => window.fmt(f),
            Self::Fixed(window) => window.fmt(f),
            Self::Calendar(window) => window.fmt(f),
        }
    }
}

/// The quota's text, see [`AnyRule`].
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::blocked() {
            return f.write_str("blocked");
        }
        if *self == Self::unlimited() {
            return f.write_str("unlimited");
        }
        let strict = self.strict_limit();
        let count = strict.map_or(self.count(), core::num::NonZero::get);
        rate(f, count, self.period())?;
        if strict.is_some() {
            f.write_str(" strict")?;
        }
        if self.burst_size() == count { Ok(()) } else { write!(f, " burst {}", self.burst_size()) }
    }
}

/// The rule's text, see [`AnyRule`].
impl fmt::Display for SlidingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rate(f, self.limit(), self.window())?;
        f.write_str(" sliding")
    }
}

/// The rule's text, see [`AnyRule`].
impl fmt::Display for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rate(f, self.limit(), self.window())?;
        f.write_str(" fixed")
    }
}

/// The rule's text, see [`AnyRule`].
impl fmt::Display for CalendarWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit() {
            CalendarUnit::Minute => "m calendar",
            CalendarUnit::Hour => "h calendar",
            CalendarUnit::Day => "d calendar",
            CalendarUnit::Month => "month",
        };
        write!(f, "{}/{unit}", self.limit())?;
        offset(f, self.offset())?;
        if let Some(origin) = self.origin() {
            f.write_str(if origin < 0 { " anchored -" } else { " anchored " })?;
            span::write(f, origin.unsigned_abs(), false)?;
        }
        Ok(())
    }
}

fn rate(f: &mut fmt::Formatter<'_>, count: u64, period: Duration) -> fmt::Result {
    write!(f, "{count}/")?;
    span::write(f, period.as_nanos(), true)
}

/// The calendar's offset from UTC, unless it is 0.
fn offset(f: &mut fmt::Formatter<'_>, offset: i32) -> fmt::Result {
    if offset == 0 {
        return Ok(());
    }
    let (sign, seconds) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
    write!(f, " utc{sign}{:02}:{:02}", seconds / 3_600, seconds / 60 % 60)?;
    match seconds % 60 {
        0 => Ok(()),
        rest => write!(f, ":{rest:02}"),
    }
}
