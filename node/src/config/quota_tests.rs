use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::{Quota, QuotaError};

use super::{NoBurst, RateError, Unenforceable, WrittenQuota, enforceable};

fn read(text: &str) -> WrittenQuota {
    text.parse().unwrap_or_else(|error: RateError| panic!("{error}"))
}

#[test]
fn a_burst_is_given_in_the_text_or_next_to_it() {
    let quarter = Quota::new(5, Duration::new(900, 0));
    for (text, burst, expected) in [
        ("5/15m", None, Ok(quarter)),
        ("5/15m", Some(7), Ok(quarter.burst(7))),
        ("5/15m burst 7", None, Ok(quarter.burst(7))),
        ("5/15m burst 7", Some(7), Err(NoBurst::Twice)),
        // Also where the burst is what it would be without.
        ("5/15m  burst 5", Some(7), Err(NoBurst::Twice)),
        ("5/15m strict", Some(2), Ok(Quota::strict(5, Duration::new(900, 0), 2))),
        ("unlimited", None, Ok(Quota::unlimited())),
        (" unlimited ", Some(3), Err(NoBurst::Unlimited)),
        ("blocked", None, Ok(Quota::blocked())),
        ("blocked", Some(3), Err(NoBurst::Blocked)),
        ("0/s", Some(3), Err(NoBurst::Blocked)),
    ] {
        assert_eq!(read(text).with_burst(burst), expected, "{text} {burst:?}");
    }
}

#[test]
fn windows_are_refused_with_what_is_expected() {
    for (text, shown) in [("9/60s sliding", "9/m sliding"), ("9/month", "9/month")] {
        let problem = text.parse::<WrittenQuota>().unwrap_err().to_string();
        let expected = "a node enforces no windows, such as `…`, but quotas such as 100/m";
        assert_eq!(problem, expected.replace('…', shown));
    }
}

#[test]
fn a_quota_that_cannot_be_enforced_is_an_error() {
    let enforced = |text: &str| {
        let quota = read(text).with_burst(None).unwrap();
        enforceable(&quota).map_err(|Unenforceable(error)| error)
    };
    for text in ["1/d", "1000000000/s", "60000000000/m", "0/s", "blocked", "unlimited"] {
        assert_eq!(enforced(text), Ok(()), "{text}");
    }
    assert_eq!(enforced("1/d burst 0"), Err(QuotaError::ZeroBurst));
    assert_eq!(enforced("1/d burst 1000000"), Err(QuotaError::BurstTooLong));
    assert_eq!(enforced("1000000001/s"), Err(QuotaError::RateTooHigh));
    assert_eq!(enforced("9/m strict"), Err(QuotaError::StrictBurst));
    assert_eq!(enforced("9/0m"), Err(QuotaError::ZeroPeriod));
}

#[test]
fn the_field_at_fault_is_named_in_the_words_of_texts() {
    for (text, burst, field, problem) in [
        ("5/m", Some(0), "burst", "burst must be at least 1 (the rate `blocked` admits nothing)"),
        (
            "5/m burst 0",
            None,
            "rate",
            "burst must be at least 1 (the rate `blocked` admits nothing)",
        ),
        (
            "5/0s",
            Some(1),
            "rate",
            "period must be longer than 0 (the rate `unlimited` admits everything)",
        ),
        (
            "1/d",
            Some(1_000_000),
            "burst",
            "burst must refill within 1667 days: lower the burst or raise the rate",
        ),
    ] {
        let error = enforceable(&read(text).with_burst(burst).unwrap()).unwrap_err();
        assert_eq!((error.field(burst.is_some()), &*error.to_string()), (field, problem), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_answered_in_one_line(text in ".*") {
        if let Err(error) = text.parse::<WrittenQuota>() {
            prop_assert!(!error.to_string().contains(char::is_control));
        }
    }
}
