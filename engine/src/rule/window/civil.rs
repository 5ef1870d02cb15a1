//! Months of the proleptic Gregorian calendar, by day numbers: days since 1970-01-01.
//!
//! The algorithms are those of Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". They
//! count years from March, so that the leap day comes last, and in eras of 400 years, after which
//! the calendar repeats. The months of such a year begin every 153/5 days, rounded.

use core::ops::Range;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;
const DAYS_OF_ERA: i64 = 146_097;
/// The month before March.
const FEBRUARY: i64 = 11;

/// The month of `day`, from its first day to that of the next month.
pub(super) fn month_of(day: i64) -> Range<i64> {
    let day_of_era = (day + EPOCH).rem_euclid(DAYS_OF_ERA);
    let era = day - day_of_era;
    // Without the leap days before it, each year of an era has 365 days.
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year = (day_of_era - leap_days) / 365;
    let begin = new_year(year);
    let month = (5 * (day_of_era - begin) + 2) / 153;
    let next = if month == FEBRUARY { new_year(year + 1) } else { begin + first(month + 1) };
    era + begin + first(month)..era + next
}

/// The day of an era on which a year of it begins, on 1 March.
const fn new_year(year: i64) -> i64 {
    365 * year + year / 4 - year / 100 + year / 400
}

/// The day of a year on which a month begins, March being month 0.
const fn first(month: i64) -> i64 {
    (153 * month + 2) / 5
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::month_of;

    fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    /// Counts day by day and month by month.
    fn agrees(years: std::ops::Range<i64>, mut first: i64) {
        for year in years {
            let february = if is_leap(year) { 29 } else { 28 };
            for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
                for day in first..first + days {
                    assert_eq!(month_of(day), first..first + days, "{year}");
                }
                first += days;
            }
        }
    }

    #[test]
    fn months_agree_with_counting_day_by_day() {
        agrees(1970..2201, 0);
        // Two eras on, from 2370, the days of 400 years being known.
        agrees(2370..2801, 146_097);
    }

    #[test]
    fn months_before_the_epoch_agree_with_counting_day_by_day() {
        agrees(1570..1971, -146_097);
        agrees(-30..371, -5 * 146_097);
    }

    #[test]
    fn days_far_away_have_a_month() {
        for day in [-(1 << 50), 1 << 50] {
            let month = month_of(day);
            assert!(month.contains(&day) && (28..=31).contains(&(month.end - month.start)));
        }
    }
}
