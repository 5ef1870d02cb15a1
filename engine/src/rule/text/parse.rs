//! Reading rules.

use core::time::Duration;

use crate::rule::any::AnyRule;
use crate::rule::quota::Quota;
use crate::rule::window::{CalendarUnit, CalendarWindow, FixedWindow, SlidingWindow};

use super::error::{ParseRuleError, Problem, RuleKind};
use super::span::{self, SpanError};
use super::tokens::{NumberError, Token, Tokens};

/// What is wrong, and with which part of the text.
type Mistake<'t> = (Token<'t>, Problem);

/// Reads a rule of any kind.
pub fn rule(text: &str) -> Result<AnyRule, ParseRuleError> {
    let mut words = Tokens::new(text);
    let Some(first) = words.next() else {
        return Err(ParseRuleError::of_all(text, Problem::Empty));
    };
    let read = match first.text {
        "blocked" => alone(words, "blocked", Quota::blocked()),
        "unlimited" => alone(words, "unlimited", Quota::unlimited()),
        _ => Written::read(first, words).and_then(|written| written.rule()),
    };
    read.map_err(|(word, problem)| ParseRuleError::of(text, word, problem))
}

/// A quota of one word.
fn alone<'t>(
    mut words: Tokens<'t>,
    name: &'static str,
    quota: Quota,
) -> Result<AnyRule, Mistake<'t>> {
    match words.next() {
        None => Ok(quota.into()),
        Some(word) => Err((word, Problem::Apart(name))),
    }
}

/// The parts of a text that begins with a rate.
struct Written<'t> {
    count: u64,
    period: Period<'t>,
    burst: Option<(Token<'t>, u64)>,
    strict: Option<Token<'t>>,
    kind: Option<(Token<'t>, RuleKind)>,
    utc: Option<(Token<'t>, i32)>,
    anchored: Option<(Token<'t>, i128)>,
}

#[derive(Clone, Copy)]
enum Period<'t> {
    Of(Token<'t>, Duration),
    Month,
}

impl<'t> Written<'t> {
    fn read(first: Token<'t>, mut words: Tokens<'t>) -> Result<Self, Mistake<'t>> {
        let (count, period) = rate(first)?;
        let (burst, strict, kind) = (None, None, None);
        let mut written = Self { count, period, burst, strict, kind, utc: None, anchored: None };
        while let Some(word) = words.next() {
            written.take(word, &mut words)?;
        }
        Ok(written)
    }

    /// Takes a word, with the value that goes with it.
    fn take(&mut self, word: Token<'t>, words: &mut Tokens<'t>) -> Result<(), Mistake<'t>> {
        match word.text {
            "burst" => {
                let units = words.next().ok_or((word, Problem::NoBurst))?;
                put(&mut self.burst, word, (word, count_of(units)?))
            }
            "strict" => put(&mut self.strict, word, word),
            "sliding" => self.take_kind(word, RuleKind::Sliding),
            "fixed" => self.take_kind(word, RuleKind::Fixed),
            "calendar" => self.take_kind(word, RuleKind::Calendar),
            "anchored" => {
                let time = words.next().ok_or((word, Problem::NoAnchor))?;
                put(&mut self.anchored, word, (word, anchor_of(time)?))
            }
            _ => match word.text.strip_prefix("utc") {
                Some(offset) => {
                    let seconds = offset_of(offset).ok_or((word, Problem::Offset))?;
                    put(&mut self.utc, word, (word, seconds))
                }
                None => Err((word, Problem::UnknownWord)),
            },
        }
    }

    fn take_kind(&mut self, word: Token<'t>, kind: RuleKind) -> Result<(), Mistake<'t>> {
        match self.kind {
            Some((_, other)) if other != kind => Err((word, Problem::Apart(other.word()))),
            _ => put(&mut self.kind, word, (word, kind)),
        }
    }

    fn rule(&self) -> Result<AnyRule, Mistake<'t>> {
        let count = self.count;
        match (self.kind, self.period) {
            (Some((_, RuleKind::Calendar)), _) | (None, Period::Month) => {
                self.calendar().map(AnyRule::Calendar)
            }
            (Some((word, _)), Period::Month) => Err((word, Problem::Apart("month"))),
            (Some((_, RuleKind::Sliding)), Period::Of(_, window)) => {
                self.no_calendar()?;
                self.no_quota("sliding").map(|()| SlidingWindow::new(count, window).into())
            }
            (Some((_, RuleKind::Fixed)), Period::Of(_, window)) => {
                self.no_calendar()?;
                self.no_quota("fixed").map(|()| FixedWindow::new(count, window).into())
            }
            (Some((_, RuleKind::Quota)) | None, Period::Of(_, period)) => {
                self.no_calendar().map(|()| self.quota(period).into())
            }
        }
    }

    fn quota(&self, period: Duration) -> Quota {
        let quota = match self.strict {
            Some(_) => Quota::strict(self.count, period, self.count),
            None => Quota::new(self.count, period),
        };
        self.burst.map_or(quota, |(_, units)| quota.burst(units))
    }

    fn calendar(&self) -> Result<CalendarWindow, Mistake<'t>> {
        let unit = match self.period {
            Period::Month => CalendarUnit::Month,
            Period::Of(word, period) => match period.as_nanos() {
                60_000_000_000 => CalendarUnit::Minute,
                3_600_000_000_000 => CalendarUnit::Hour,
                86_400_000_000_000 => CalendarUnit::Day,
                _ => return Err((word, Problem::CalendarPeriod)),
            },
        };
        self.no_quota(if self.kind.is_some() { "calendar" } else { "month" })?;
        let window = CalendarWindow::new(self.count, unit);
        let window = self.utc.map_or(window, |(_, seconds)| window.utc_offset_seconds(seconds));
        Ok(self.anchored.map_or(window, |(_, origin)| window.anchored_at(origin)))
    }

    /// Refuses words that only quotas have, next to that of another kind.
    fn no_quota(&self, kind: &'static str) -> Result<(), Mistake<'t>> {
        let word = self.burst.map(|(word, _)| word).or(self.strict);
        word.map_or(Ok(()), |word| Err((word, Problem::Apart(kind))))
    }

    /// Refuses words that only calendars have.
    fn no_calendar(&self) -> Result<(), Mistake<'t>> {
        let word = self.utc.map(|(word, _)| word).or(self.anchored.map(|(word, _)| word));
        word.map_or(Ok(()), |word| Err((word, Problem::NoCalendar)))
    }
}

/// Keeps what goes with a word, once.
fn put<'t, T>(place: &mut Option<T>, word: Token<'t>, value: T) -> Result<(), Mistake<'t>> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err((word, Problem::Twice)),
    }
}

/// A count and a period.
fn rate(word: Token<'_>) -> Result<(u64, Period<'_>), Mistake<'_>> {
    let slash = word.text.find('/').ok_or((word, Problem::NoPeriod))?;
    let (count, period) = word.split_at(slash);
    let (slash, period) = period.split_at(1);
    if count.text.is_empty() {
        return Err((slash, Problem::NoCount));
    }
    let count = count_of(count)?;
    let (number, unit) = period.split_number();
    if unit.text == "month" {
        let is_one = number.text.is_empty() || number.number() == Ok(1);
        return if is_one {
            Ok((count, Period::Month))
        } else {
            Err((period, Problem::CalendarPeriod))
        };
    }
    match span::read(number, unit) {
        Ok(length) => Ok((count, Period::Of(period, length))),
        // Behind a `/` alone, the `/` is all there is to show.
        Err(SpanError::NoUnit) if number.text.is_empty() => Err((slash, Problem::NoUnit)),
        Err(error) => Err(span_mistake(number, unit, error)),
    }
}

fn span_mistake<'t>(number: Token<'t>, unit: Token<'t>, error: SpanError) -> Mistake<'t> {
    match error {
        SpanError::NotWhole => (number, Problem::NotWhole),
        SpanError::NoUnit => (number, Problem::NoUnit),
        SpanError::UnknownUnit => (unit, Problem::UnknownUnit),
        SpanError::TooLong => (number, Problem::TooLong),
    }
}

/// A number of units.
fn count_of(word: Token<'_>) -> Result<u64, Mistake<'_>> {
    match word.number().map(u64::try_from) {
        Ok(Ok(count)) => Ok(count),
        Err(NumberError::NotWhole) => Err((word, Problem::NotWhole)),
        Ok(Err(_)) | Err(NumberError::TooLarge) => Err((word, Problem::TooLarge)),
    }
}

/// The time since 1970-01-01 in nanoseconds; before it if negative.
fn anchor_of(word: Token<'_>) -> Result<i128, Mistake<'_>> {
    let (sign, time) = word.split_at(usize::from(word.text.starts_with('-')));
    let (number, unit) = time.split_number();
    if number.text.is_empty() {
        return Err((word, Problem::NotWhole));
    }
    let time = span::read(number, unit).map_err(|error| span_mistake(number, unit, error))?;
    // Below 2^94.
    let nanos = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    Ok(if sign.text.is_empty() { nanos } else { -nanos })
}

/// The seconds of a sign, hours, minutes of two digits and, if there are any, seconds of two.
fn offset_of(text: &str) -> Option<i32> {
    let (is_ahead, time) = match text.strip_prefix('-') {
        Some(time) => (false, time),
        None => (true, text.strip_prefix('+')?),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let sixtieth = |part: &str| {
        let value = part.parse::<i64>().ok()?;
        (part.len() == 2 && is_number(part) && value < 60).then_some(value)
    };
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next());
    if !is_number(hours) || parts.next().is_some() {
        return None;
    }
    let minutes = hours.parse::<i64>().ok()?.checked_mul(60)?.checked_add(sixtieth(minutes)?)?;
    let seconds = minutes.checked_mul(60)?.checked_add(seconds.map_or(Some(0), sixtieth)?)?;
    i32::try_from(if is_ahead { seconds } else { -seconds }).ok()
}
