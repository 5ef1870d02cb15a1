use proptest::prelude::*;

use super::{MAX_COUNT, Rate, RateError};
use tidegate_engine::{Quota, QuotaError};

#[test]
fn each_period_has_a_letter() {
    for (text, quota) in [
        ("100/s", Quota::per_second(100)),
        ("100/m", Quota::per_minute(100)),
        ("100/h", Quota::per_hour(100)),
        ("100/d", Quota::per_day(100)),
    ] {
        let rate: Rate = text.parse().unwrap();
        assert_eq!(rate.enforceable(7), Ok(quota.burst(7)));
        assert_eq!(rate.to_string(), text);
    }
}

#[test]
fn the_count_is_bounded() {
    assert!("1/s".parse::<Rate>().is_ok());
    assert!("1000000000/s".parse::<Rate>().is_ok());
    for text in ["0/s", "1000000001/s", "99999999999999999999999/s"] {
        assert_eq!(text.parse::<Rate>(), Err(RateError::Count), "{text}");
    }
}

#[test]
fn anything_else_is_not_a_rate() {
    for text in ["", "/", "/s", "5", "5/", "5/x", "5/S", "5 /s", "+5/s", "-5/s", "5.0/s", "5/s/s"] {
        assert_eq!(text.parse::<Rate>(), Err(RateError::Syntax), "{text}");
    }
}

#[test]
fn a_quota_that_can_not_be_enforced_is_an_error() {
    let day: Rate = "1/d".parse().unwrap();
    assert_eq!(day.enforceable(0), Err(QuotaError::ZeroBurst));
    assert_eq!(day.enforceable(1_000_000), Err(QuotaError::BurstTooLong));
    assert_eq!(day.enforceable(u64::MAX), Err(QuotaError::BurstTooLong));
}

proptest! {
    #[test]
    fn any_text_is_answered(text in ".*") {
        let _ = text.parse::<Rate>();
    }

    #[test]
    fn what_is_shown_reads_back(count in 1..=MAX_COUNT, period in "[smhd]") {
        let text = format!("{count}/{period}");
        prop_assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
}
