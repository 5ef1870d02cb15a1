//! Rules and policies in JSON: their texts, and nothing else.

use serde_json::{from_str, to_string};
use tidegate_engine::rule::AnyRule;
use tidegate_engine::{CalendarWindow, FixedWindow, OverflowPolicy, Quota, SlidingWindow};

type Result = std::result::Result<(), serde_json::Error>;

#[test]
fn each_type_is_its_text() -> Result {
    let quota = Quota::per_day(1_000).burst(50);
    assert_eq!(to_string(&quota)?, r#""1000/d burst 50""#);
    assert_eq!(from_str::<Quota>(r#""1_000/24h burst 50""#)?, quota);
    let sliding = SlidingWindow::per_minute(100);
    assert_eq!(to_string(&sliding)?, r#""100/m sliding""#);
    assert_eq!(from_str::<SlidingWindow>(r#""100/m sliding""#)?, sliding);
    let fixed = FixedWindow::per_hour(7);
    assert_eq!(to_string(&fixed)?, r#""7/h fixed""#);
    assert_eq!(from_str::<FixedWindow>(r#""7/h fixed""#)?, fixed);
    let calendar = CalendarWindow::per_month(1_000).utc_offset_seconds(-12_600);
    assert_eq!(to_string(&calendar)?, r#""1000/month utc-03:30""#);
    assert_eq!(from_str::<CalendarWindow>(r#""1000/month utc-03:30""#)?, calendar);
    assert_eq!(to_string(&AnyRule::from(fixed))?, r#""7/h fixed""#);
    assert_eq!(from_str::<AnyRule>(r#""7/h fixed""#)?, fixed.into());
    assert_eq!(to_string(&OverflowPolicy::EvictLeastDebt)?, r#""evict-least-debt""#);
    assert_eq!(from_str::<OverflowPolicy>(r#""allow""#)?, OverflowPolicy::Allow);
    // With an escape the text is not a part of what is read.
    assert_eq!(from_str::<Quota>(r#""\u0035/s""#)?, Quota::per_second(5));
    Ok(())
}

#[test]
fn a_mistake_is_the_texts_own() {
    for (json, expected) in [
        (r#""5/15x""#, "`5/15x`: unknown unit `x`, expected s, m, h or d at line 1 column 7"),
        ("5", r#"invalid type: integer `5`, expected a quota such as "100/s" at line 1 column 1"#),
        ("{}", r#"invalid type: map, expected a quota such as "100/s" at line 1 column 0"#),
    ] {
        assert_eq!(from_str::<Quota>(json).unwrap_err().to_string(), expected);
    }
    let error = from_str::<OverflowPolicy>(r#""evict""#).unwrap_err().to_string();
    assert!(error.starts_with("expected `evict-least-debt`, `deny` or `allow`"), "{error}");
}
