//! Lengths of time as text: a whole number of one unit.

use core::fmt;
use core::time::Duration;

use super::tokens::{NumberError, Token};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The units, the longest first, in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400 * NANOS_PER_SECOND),
    ("h", 3_600 * NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("s", NANOS_PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Why a word is not a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanError {
    NotWhole,
    NoUnit,
    UnknownUnit,
    /// Longer than a `Duration`.
    TooLong,
}

/// `number` of the unit, 1 of it where the number is empty.
pub fn read(number: Token<'_>, unit: Token<'_>) -> Result<Duration, SpanError> {
    if unit.text.is_empty() {
        return Err(SpanError::NoUnit);
    }
    let (_, length) =
        UNITS.iter().find(|(name, _)| *name == unit.text).ok_or(SpanError::UnknownUnit)?;
    let count = match number.text {
        "" => Ok(1),
        _ => number.number(),
    };
    let count = count.map_err(|error| match error {
        NumberError::NotWhole => SpanError::NotWhole,
        NumberError::TooLarge => SpanError::TooLong,
    })?;
    count.checked_mul(*length).and_then(duration).ok_or(SpanError::TooLong)
}

fn duration(nanos: u128) -> Option<Duration> {
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
    Some(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
}

/// As many as possible of the longest unit that divides `nanos`; a 1 is left out in a period.
pub fn write(f: &mut fmt::Formatter<'_>, nanos: u128, is_period: bool) -> fmt::Result {
    let units = UNITS.iter().map(|(unit, length)| (*unit, nanos / length, nanos % length));
    let whole = units.filter(|(_, count, rest)| *count > 0 && *rest == 0);
    match whole.map(|(unit, count, _)| (unit, count)).next() {
        Some((unit, 1)) if is_period => f.write_str(unit),
        Some((unit, count)) => write!(f, "{count}{unit}"),
        None => f.write_str("0s"),
    }
}
