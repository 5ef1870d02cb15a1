//! The date of a recording.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Today in Coordinated Universal Time, as year-month-day.
#[must_use]
pub fn today() -> String {
    #[expect(clippy::disallowed_methods, reason = "a date is wanted, and no time is measured")]
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    date_of(since_1970.unwrap_or(Duration::ZERO))
}

/// The date in the Gregorian calendar at a time since the start of 1970.
fn date_of(since_1970: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let mut day = since_1970.as_secs() / DAY;
    let mut year = 1970;
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_798_675_199, "2026-12-30"),
            (1_798_761_599, "2026-12-31"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date_of(Duration::from_secs(seconds)), date, "{seconds} s");
        }
    }
}
