//! Calendar windows against a calendar that counts day by day.

use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::MAX_UTC_OFFSET_SECONDS;
use tidegate_engine::snapshot::{SavedKey, SavedState, Snapshot};
use tidegate_engine::{BuildError, CalendarWindow, KeyHasher, Limiter, ManualClock, QuotaError};

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
/// Time saturates here.
const LAST: u64 = 3_660 * 86_400 * 1_000_000_000;

/// Offsets from UTC, in seconds.
fn offsets() -> impl Strategy<Value = i32> {
    const MOST: i32 = MAX_UTC_OFFSET_SECONDS / 60;
    (-MOST..=MOST).prop_map(|minutes| minutes * 60)
}

fn is_leap(year: i128) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The month of a local time, in nanoseconds since 1970, found by going through all months since
/// then.
fn month_of(local: i128) -> Range<i128> {
    let mut days = 0;
    for year in 1970.. {
        let february = if is_leap(year) { 29 } else { 28 };
        for month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            days += month;
            if days * DAY > local {
                return (days - month) * DAY..days * DAY;
            }
        }
    }
    unreachable!()
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    Minute,
    Hour,
    Day,
    Month,
}

impl Unit {
    fn rule(self, limit: u64) -> CalendarWindow {
        match self {
            Self::Minute => CalendarWindow::per_minute(limit),
            Self::Hour => CalendarWindow::per_hour(limit),
            Self::Day => CalendarWindow::per_day(limit),
            Self::Month => CalendarWindow::per_month(limit),
        }
    }

    fn end(self, local: i128) -> i128 {
        let even = |length: i128| (local.div_euclid(length) + 1) * length;
        match self {
            Self::Minute => even(60 * SECOND),
            Self::Hour => even(3_600 * SECOND),
            Self::Day => even(DAY),
            Self::Month => month_of(local).end,
        }
    }

    fn start(self, local: i128) -> i128 {
        match self {
            Self::Minute => self.end(local) - 60 * SECOND,
            Self::Hour => self.end(local) - 3_600 * SECOND,
            Self::Day => self.end(local) - DAY,
            Self::Month => month_of(local).start,
        }
    }
}

fn limiter(rule: CalendarWindow) -> (Limiter<CalendarWindow, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (
        Limiter::builder_with(rule, clock.clone(), KeyHasher::rapid(7))
            .capacity(1_000)
            .build()
            .unwrap(),
        clock,
    )
}

fn nanos_of(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn periods_end_when_the_calendar_says(
        unit in prop::sample::select(vec![Unit::Minute, Unit::Hour, Unit::Day, Unit::Month]),
        // 1970 to 2200.
        unix in 86_400_u64..7_258_118_400,
        fraction in 0_u32..1_000_000_000,
        offset in offsets(),
        times in prop::collection::vec(prop_oneof![0..LAST, Just(0_u64), Just(LAST)], 1..20),
    ) {
        let anchor = Duration::new(unix, fraction);
        let (limiter, _) = limiter(unit.rule(3).utc_offset_seconds(offset).anchored(anchor));
        let origin = anchor.as_nanos().cast_signed() + i128::from(offset) * SECOND;
        for (key, time) in times.into_iter().enumerate() {
            let check =
                |time, cost| limiter.check_at(key as u64, cost, Timestamp::from_nanos(time));
            let end = unit.end(origin + i128::from(time)) - origin;
            let left = u64::try_from(end - i128::from(time)).unwrap();
            prop_assert_eq!(nanos_of(check(time, 1).reset_after()), left);
            let denied = check(time, 3);
            let retry_after = denied.retry_after().map(nanos_of);
            prop_assert_eq!((denied.remaining(), retry_after), (2, Some(left)));
            if time + left <= LAST {
                prop_assert!(!check(time + left - 1, 3).is_allowed());
                prop_assert_eq!(check(time + left, 0).reset_after(), Duration::ZERO);
                prop_assert!(check(time + left, 3).is_allowed());
            }
        }
    }

    /// The same period keeps its count and another one does not, whatever the stated downtime and
    /// whatever the limiters' clocks show; a wall clock set back by less than a period's length is
    /// still before it.
    #[test]
    fn a_count_is_restored_to_its_period_of_the_wall_clock(
        unit in prop::sample::select(vec![Unit::Minute, Unit::Hour, Unit::Day, Unit::Month]),
        limit in 1_u64..9,
        // 1980 to 2200, in nanoseconds.
        saved_at in 315_532_800_000_000_000_i128..7_258_118_400_000_000_000,
        // Within a period.
        (sixteenths, nanos) in (-40_i128..40, -2_i128..3),
        offset in offsets(),
        (time, other_time) in (0..LAST / 2, 0..LAST / 2),
        downtime in any::<u64>(),
    ) {
        let local = |unix: i128| unix + i128::from(offset) * SECOND;
        let end = unit.end(local(saved_at));
        let length = end - unit.start(end - 1);
        let restored_at = unit.start(end - 1) - local(0) + sixteenths * length / 16 + nanos;
        let at = |unix: i128, time: u64| {
            let anchor = Duration::from_nanos((unix - i128::from(time)).try_into().unwrap());
            let rule = unit.rule(limit).utc_offset_seconds(offset).anchored(anchor);
            let (limiter, clock) = limiter(rule);
            clock.set(Timestamp::from_nanos(time));
            limiter
        };
        let before = at(saved_at, time);
        prop_assert!(before.check_n("key", limit).is_allowed());
        let bytes = before.snapshot().to_bytes();
        let after = at(restored_at, other_time);
        let snapshot = Snapshot::from_bytes(&bytes).unwrap();
        let restored = after.restore(snapshot, Duration::from_nanos(downtime)).unwrap();
        let present = unit.end(local(restored_at));
        let is_held = present == end || unit.end(present) == end;
        prop_assert_eq!((restored.raised, restored.unchanged), (is_held.into(), (!is_held).into()));
        let wait = u64::try_from(end - local(restored_at)).unwrap_or(0);
        let peeked = after.peek("key");
        let expected = if is_held { (0, wait) } else { (limit, 0) };
        prop_assert_eq!((peeked.remaining(), nanos_of(peeked.reset_after())), expected);
        let again = Snapshot::from_bytes(&bytes).unwrap();
        prop_assert_eq!(after.restore(again, Duration::ZERO).unwrap().unchanged, 1);
    }

    /// Refund and reset leave no live word, and a month's key never has more left than a fresh one.
    #[test]
    fn what_is_given_back_leaves_a_fresh_key(
        unit in prop::sample::select(vec![Unit::Minute, Unit::Hour, Unit::Day, Unit::Month]),
        unix in 86_400_u64..7_258_118_400,
        time in 0..LAST,
        resets in any::<bool>(),
    ) {
        let (limiter, clock) = limiter(unit.rule(3).anchored(Duration::from_secs(unix)));
        clock.set(Timestamp::from_nanos(time));
        prop_assert!(limiter.check_n("key", 2).is_allowed());
        if resets { limiter.reset("key") } else { limiter.refund("key", 9) }
        let peeked = limiter.peek("key");
        prop_assert_eq!((peeked.remaining(), peeked.reset_after()), (3, Duration::ZERO));
        prop_assert!(limiter.check_n("key", 3).is_allowed());
        prop_assert!(!limiter.check("key").is_allowed());
    }
}

#[test]
fn february_has_a_leap_day_where_it_should() {
    // 1 February, 00:00 UTC.
    for (unix, days) in
        [(1_706_745_600, 29), (1_738_368_000, 28), (949_363_200, 29), (4_105_123_200, 28)]
    {
        let anchor = Duration::from_secs(unix);
        let (limiter, _) = limiter(CalendarWindow::per_month(1).anchored(anchor));
        assert_eq!(limiter.check("key").reset_after(), Duration::from_hours(24 * days));
    }
}

/// Includes offsets of a few hours mistaken for seconds.
#[test]
fn an_offset_of_no_whole_minutes_or_beyond_eighteen_hours_is_an_error() {
    let beyond = MAX_UTC_OFFSET_SECONDS + 60;
    for seconds in [1, 2, -11, 59, 3_601, -5_399, beyond, -beyond, i32::MAX, i32::MIN] {
        let rule = CalendarWindow::per_day(1).utc_offset_seconds(seconds);
        let error = Limiter::builder(rule).clock(ManualClock::new()).build().err();
        assert_eq!(error, Some(BuildError::Quota(QuotaError::UtcOffset)));
    }
    for seconds in [0, 60, -20_700, MAX_UTC_OFFSET_SECONDS, -MAX_UTC_OFFSET_SECONDS] {
        let (limiter, _) = limiter(CalendarWindow::per_day(1).utc_offset_seconds(seconds));
        assert!(limiter.check("key").is_allowed());
    }
}

#[test]
fn any_date_can_be_the_anchor() {
    for anchor in [Duration::ZERO, Duration::MAX] {
        for unit in [Unit::Minute, Unit::Hour, Unit::Day, Unit::Month] {
            let (limiter, _) = limiter(unit.rule(1).utc_offset_seconds(-60).anchored(anchor));
            assert!(limiter.check("key").is_allowed());
            assert!(limiter.check("key").reset_after() <= Duration::from_hours(24 * 31));
        }
    }
}

/// By default a limiter reads the system's clock once: what its own clock showed then is that date.
/// Two limiters whose clocks show different times agree on the end of the day.
#[test]
fn the_anchor_is_the_date_at_the_clocks_reading() {
    let ends = [0, 1 << 40, LAST / 2].map(|reading| {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(reading));
        let builder = Limiter::builder(CalendarWindow::per_month(1)).capacity(1);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        clock.advance(Duration::from_secs(5));
        limiter.check("key").reset_after()
    });
    for pair in ends.windows(2) {
        let apart = pair[0].abs_diff(pair[1]);
        // Unless the month ends between two of these lines.
        let month_ended = apart > Duration::from_hours(24 * 27);
        assert!(apart < Duration::from_mins(10) || month_ended, "{ends:?}");
    }
}

/// Another offset: until the end of the period in which the saved one ends.
#[test]
fn a_count_under_another_offset_is_held_no_shorter() {
    let midnight = Duration::from_hours(24 * 20_000);
    let rule = CalendarWindow::per_day(1).anchored(midnight);
    let (utc, _) = limiter(rule);
    assert!(utc.check("key").is_allowed());
    let restored = |offset: i32| {
        let (other, _) = limiter(rule.utc_offset_seconds(offset));
        let _ = other.restore(utc.snapshot(), Duration::ZERO).unwrap();
        other.check("key").retry_after()
    };
    assert_eq!(restored(3_600), Some(Duration::from_hours(24 + 23)));
    assert_eq!(restored(0), Some(Duration::from_hours(24)));
    assert_eq!(restored(-3_600), Some(Duration::from_hours(25)));
}

/// A snapshot may contain anything, and so may a date.
#[test]
fn outlandish_periods_are_another_one() {
    for anchor in [Duration::ZERO, Duration::from_secs(1_796_079_590), Duration::MAX] {
        for unit in [Unit::Minute, Unit::Hour, Unit::Day, Unit::Month] {
            let (limiter, clock) = limiter(unit.rule(3).anchored(anchor));
            for time in [0, LAST, u64::MAX] {
                clock.set(Timestamp::from_nanos(time));
                for ends in [i64::MIN, -1, 0, 1 << 40, i64::MAX] {
                    let state = SavedState::Period { ends, count: u64::MAX };
                    let key = SavedKey { key: limiter.hash("key"), state };
                    let saved = limiter.snapshot();
                    let (fingerprint, kind) = (saved.fingerprint(), saved.kind());
                    let snapshot = Snapshot::new(fingerprint, kind, [key]);
                    assert_eq!(limiter.restore(snapshot, Duration::MAX).unwrap().unchanged, 1);
                }
                assert!(limiter.check("other").is_allowed() || time > 0);
                assert!(limiter.snapshot().to_bytes().len() > 40);
                limiter.reset("other");
            }
        }
    }
}
