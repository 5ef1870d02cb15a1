//! Rules as text: what is read, what is refused with which words, and that what is printed reads
//! back.

use std::error::Error;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::rule::{AnyRule, ParseRuleError};
use tidegate_engine::set::Ask;
use tidegate_engine::{
    BuildError, CalendarWindow, FixedWindow, LimitSet, Limiter, OverflowPolicy, Quota, QuotaError,
    SlidingWindow,
};

const MINUTE: Duration = Duration::new(60, 0);

fn read(text: &str) -> AnyRule {
    text.parse().unwrap_or_else(|error: ParseRuleError| panic!("{error}"))
}

fn error(text: &str) -> String {
    text.parse::<AnyRule>().expect_err(text).to_string()
}

#[test]
fn quotas_are_read() {
    let seconds = |count, seconds| Quota::new(count, Duration::from_secs(seconds));
    for (text, quota) in [
        ("100/s", Quota::per_second(100)),
        ("100/m", Quota::per_minute(100)),
        ("100/h", Quota::per_hour(100)),
        ("100/d", Quota::per_day(100)),
        ("5/15m", seconds(5, 900)),
        ("5/900s", seconds(5, 900)),
        ("5/36h", seconds(5, 129_600)),
        ("5/7d", seconds(5, 604_800)),
        ("5/1s", Quota::per_second(5)),
        ("1000/1d burst 50", Quota::per_day(1_000).burst(50)),
        ("1/1500ms", Quota::new(1, Duration::new(1, 500_000_000))),
        ("1/5us", Quota::new(1, Duration::from_micros(5))),
        ("1/7ns", Quota::new(1, Duration::from_nanos(7))),
        ("100/m strict burst 10", Quota::strict(100, MINUTE, 10)),
        ("100/m burst 10 strict", Quota::strict(100, MINUTE, 10)),
        ("100/m strict", Quota::strict(100, MINUTE, 100)),
        ("1_000_000/1_0s burst 1_0", seconds(1_000_000, 10).burst(10)),
        (" \t\r\n100/s   burst\t20 \n", Quota::per_second(100).burst(20)),
        ("007/s", Quota::per_second(7)),
        ("blocked", Quota::blocked()),
        ("0/s", Quota::blocked()),
        ("0/m burst 3", Quota::per_minute(0).burst(3)),
        ("0/m strict", Quota::strict(0, MINUTE, 0)),
        ("unlimited", Quota::unlimited()),
        ("1/0s", Quota::new(1, Duration::ZERO)),
        ("18446744073709551615/s", Quota::per_second(u64::MAX)),
        ("1/18446744073709551615999999999ns", Quota::new(1, Duration::MAX)),
    ] {
        assert_eq!(text.parse(), Ok(quota), "{text}");
        assert_eq!(text.parse(), Ok(AnyRule::Quota(quota)), "{text}");
    }
}

#[test]
fn windows_are_read() {
    let day = CalendarWindow::per_day(9);
    for (text, rule) in [
        ("100/m sliding", AnyRule::from(SlidingWindow::per_minute(100))),
        ("7/10s sliding", SlidingWindow::new(7, Duration::from_secs(10)).into()),
        ("100/m fixed", FixedWindow::per_minute(100).into()),
        ("0/h fixed", FixedWindow::per_hour(0).into()),
        ("9/m calendar", CalendarWindow::per_minute(9).into()),
        ("9/60s calendar", CalendarWindow::per_minute(9).into()),
        ("9/h calendar", CalendarWindow::per_hour(9).into()),
        ("9/d calendar", day.into()),
        ("9/24h calendar", day.into()),
        ("9/month", CalendarWindow::per_month(9).into()),
        ("9/1month calendar", CalendarWindow::per_month(9).into()),
        ("9/d utc+02:00 calendar", day.utc_offset_seconds(7_200).into()),
        ("9/d calendar utc-03:30", day.utc_offset_seconds(-12_600).into()),
        ("9/d calendar utc+5:45", day.utc_offset_seconds(20_700).into()),
        ("9/d calendar utc+00:00:02", day.utc_offset_seconds(2).into()),
        ("9/d calendar anchored 20d", day.anchored(Duration::new(1_728_000, 0)).into()),
    ] {
        assert_eq!(read(text), rule, "{text}");
    }
}

#[test]
fn equal_rules_are_printed_alike() {
    for (text, printed) in [
        ("100/1s", "100/s"),
        ("100/60s", "100/m"),
        ("5/900s", "5/15m"),
        ("5/90s", "5/90s"),
        ("5/60m", "5/h"),
        ("5/36h", "5/36h"),
        ("5/48h", "5/2d"),
        ("1/1500ms", "1/1500ms"),
        ("1/1000ms", "1/s"),
        ("1/1000us", "1/ms"),
        ("1/1001ns", "1/1001ns"),
        ("5/0d", "5/0s"),
        ("1_000/d burst 1_000", "1000/d"),
        ("100/m burst 10 strict", "100/m strict burst 10"),
        ("100/m strict", "100/m strict"),
        ("0/s", "blocked"),
        ("0/m", "0/m"),
        ("18446744073709551615/0s", "unlimited"),
        ("18446744073709551615/0s burst 1", "18446744073709551615/0s burst 1"),
        ("100/60000ms sliding", "100/m sliding"),
        ("100/3600s fixed", "100/h fixed"),
        ("100/3600s calendar", "100/h calendar"),
        ("100/1440m calendar utc-0:30", "100/d calendar utc-00:30"),
        ("100/m calendar utc+00:00", "100/m calendar"),
        ("100/1month utc+02:00:00 calendar", "100/month utc+02:00"),
        ("1/month anchored 0ms", "1/month anchored 0s"),
        ("1/month anchored 60s", "1/month anchored 1m"),
        ("1/month anchored -1500ms", "1/month anchored -1500ms"),
    ] {
        assert_eq!(read(text).to_string(), printed, "{text}");
        assert_eq!(read(printed).to_string(), printed, "{text}");
    }
}

#[test]
fn a_mistake_is_named_with_what_is_expected() {
    const RATE: &str = "expected COUNT/PERIOD, such as 100/s or 5/15m";
    const UNIT: &str = "expected s, m, h or d";
    const WHOLE: &str = "is not a whole number, expected digits such as 1000 or 1_000";
    for (text, problem) in [
        ("100", RATE.to_owned()),
        ("100/", format!("no unit after `/`, {UNIT}")),
        ("5/15", format!("no unit after `15`, {UNIT}")),
        ("5/15x", format!("unknown unit `x`, {UNIT}")),
        ("5/M", format!("unknown unit `M`, {UNIT}")),
        ("5/min", format!("unknown unit `min`, {UNIT}")),
        ("5/1h30m", format!("unknown unit `h30m`, {UNIT}")),
        ("5/1.5h", format!("`1.5` {WHOLE}")),
        ("5/1,5h", format!("`1,5` {WHOLE}")),
        ("5/.5h", format!("`.5` {WHOLE}")),
        ("5/-1m", format!("`-1` {WHOLE}")),
        ("5/+1m", format!("`+1` {WHOLE}")),
        ("5/-m", format!("`-` {WHOLE}")),
        ("5/1.5x", format!("unknown unit `x`, {UNIT}")),
        ("5/1.5", format!("no unit after `1.5`, {UNIT}")),
        ("5/s/s", format!("unknown unit `s/s`, {UNIT}")),
        ("5/_1s", format!("`_1` {WHOLE}")),
        ("/s", format!("no count before `/`, {RATE}")),
        ("+5/s", format!("`+5` {WHOLE}")),
        ("-5/s", format!("`-5` {WHOLE}")),
        ("0.5/s", format!("`0.5` {WHOLE}")),
        ("1__0/s", format!("`1__0` {WHOLE}")),
        ("10_/s", format!("`10_` {WHOLE}")),
        ("5 per minute", format!("`5` is not a rate, {RATE}")),
        ("100 / s", format!("`100` is not a rate, {RATE}")),
        (
            "18446744073709551616/s",
            "`18446744073709551616` is too large, expected at most 18446744073709551615".to_owned(),
        ),
        ("1/213503982334602d", "`213503982334602` is too large for a time".to_owned()),
        ("1/18446744073709551616s", "`18446744073709551616` is too large for a time".to_owned()),
        ("5/s burst", "no number after `burst`, expected one as in burst 20".to_owned()),
        ("5/s burst x", format!("`x` {WHOLE}")),
        ("5/s burst -1", format!("`-1` {WHOLE}")),
        ("5/s burst 1 burst 1", "`burst` is given twice".to_owned()),
        ("5/s strict strict", "`strict` is given twice".to_owned()),
        ("5/s fixed fixed", "`fixed` is given twice".to_owned()),
        (
            "5/s bursts 5",
            "unknown word `bursts`, expected burst, strict, sliding, fixed or calendar".to_owned(),
        ),
        ("blocked burst 5", "`burst` does not go with `blocked`".to_owned()),
        ("unlimited 5", "`5` does not go with `unlimited`".to_owned()),
        ("5/s sliding fixed", "`fixed` does not go with `sliding`".to_owned()),
        ("5/s sliding burst 5", "`burst` does not go with `sliding`".to_owned()),
        ("5/s strict fixed", "`strict` does not go with `fixed`".to_owned()),
        ("5/d burst 1 calendar", "`burst` does not go with `calendar`".to_owned()),
        ("5/month burst 1", "`burst` does not go with `month`".to_owned()),
        ("5/month sliding", "`sliding` does not go with `month`".to_owned()),
        ("5/2month", "a calendar has no period of `2month`, expected m, h, d or month".to_owned()),
        ("5/7d calendar", "a calendar has no period of `7d`, expected m, h, d or month".to_owned()),
        ("5/d utc+02:00", "`utc+02:00` goes with `calendar` only".to_owned()),
        ("5/d fixed anchored 5s", "`anchored` goes with `calendar` only".to_owned()),
        ("5/d calendar anchored s", format!("`s` {WHOLE}")),
        ("5/d calendar anchored 5", format!("no unit after `5`, {UNIT}")),
        ("5/d calendar anchored 1.5s", format!("`1.5` {WHOLE}")),
        ("5/d calendar anchored --5s", format!("`-5` {WHOLE}")),
    ] {
        assert_eq!(error(text), format!("`{text}`: {problem}"));
    }
    assert_eq!(error(" \n"), format!("an empty rule, {RATE}"));
    let anchored = "no time after `anchored`, expected that since 1970 as in anchored 1796079590s";
    assert_eq!(error("5/month anchored"), format!("`5/month anchored`: {anchored}"));
}

#[test]
fn an_offset_has_a_sign_hours_and_minutes() {
    for offset in [
        "utc",
        "utc2",
        "utc+2",
        "utc+",
        "utc+:00",
        "utc02:00",
        "utc+02:60",
        "utc+02:0",
        "utc+02:000",
        "utc++2:00",
        "utc+02:+1",
        "utc+02:00:",
        "utc+02:00:0",
        "utc+02:00:60",
        "utc+02:00:00:00",
        "utc+596523:14:08",
        "utc+99999999999999999999:00",
        "utc+9223372036854775807:00",
    ] {
        let problem = error(&format!("1/month {offset}"));
        let expected = "is not an offset, expected one such as utc+02:00";
        assert!(problem.ends_with(expected), "{problem}");
    }
    let most = CalendarWindow::per_month(1).utc_offset_seconds(i32::MIN);
    assert_eq!(most.to_string(), "1/month utc-596523:14:08");
    assert_eq!(most.to_string().parse(), Ok(most));
}

#[test]
fn each_kind_refuses_the_others() {
    let refused = |error: ParseRuleError| error.to_string();
    assert_eq!(
        "5/s sliding".parse::<Quota>().map_err(refused),
        Err("`5/s sliding` is a sliding window, expected a quota such as 100/m".to_owned())
    );
    assert_eq!(
        "5/month".parse::<Quota>().map_err(refused),
        Err("`5/month` is a calendar window, expected a quota such as 100/m".to_owned())
    );
    assert_eq!(
        "5/s".parse::<SlidingWindow>().map_err(refused),
        Err("`5/s` is a quota, expected a sliding window such as 100/m sliding".to_owned())
    );
    assert_eq!(
        "5/d calendar".parse::<FixedWindow>().map_err(refused),
        Err("`5/d calendar` is a calendar window, expected a fixed window such as 100/m fixed"
            .to_owned())
    );
    assert_eq!(
        "5/d fixed".parse::<CalendarWindow>().map_err(refused),
        Err("`5/d fixed` is a fixed window, expected a calendar window such as 100/d calendar"
            .to_owned())
    );
}

#[test]
fn an_error_says_where() {
    let at = |text: &str| text.parse::<AnyRule>().expect_err(text).offset();
    assert_eq!(at("5/15x"), 4);
    assert_eq!(at("  5/15x"), 6);
    assert_eq!((at("5/1.5m"), at("5/-1m")), (2, 2));
    assert_eq!(at("\u{e4}/s"), 0);
    assert_eq!(at("5/s burst \u{e4}"), 10);
    assert_eq!(at("5/s strict  burst 1x"), 18);
    assert_eq!(at(""), 0);
    assert_eq!("5/s fixed".parse::<Quota>().expect_err("a window").offset(), 0);
}

#[test]
fn hostile_text_is_shown_in_part_and_escaped() {
    assert_eq!(
        error("5/s\u{1b}[2J\u{202e}\\"),
        r"`5/s\u{1b}[2J\u{202e}\\`: unknown unit `s\u{1b}[2J\u{202e}\\`, expected s, m, h or d"
    );
    assert_eq!(
        error("'5/s\""),
        "`'5/s\"`: `'5` is not a whole number, \
         expected digits such as 1000 or 1_000"
    );
    let long = "\u{1}".repeat(1_000_000);
    let problem = error(&format!("{long}/{long} {long}"));
    assert!(problem.len() < 700, "{}", problem.len());
    assert!(problem.contains(&format!("{}...`", r"\u{1}".repeat(24))), "{problem}");
    for text in ["9".repeat(1_000_000) + "/s", format!("1/{}s", "9".repeat(1_000_000))] {
        assert!(error(&text).contains("is too large"));
    }
    assert_eq!(read(&format!("{}1/s", "0".repeat(1_000_000))), Quota::per_second(1).into());
}

#[test]
fn what_cannot_be_enforced_is_found_where_it_is_built() {
    for (text, error) in [
        ("5/s burst 0", QuotaError::ZeroBurst),
        ("5/0s", QuotaError::ZeroPeriod),
        ("1000000001/s", QuotaError::RateTooHigh),
        ("100/m strict", QuotaError::StrictBurst),
        ("1/1000d fixed", QuotaError::WindowTooLong),
        ("40000/s sliding", QuotaError::LimitTooHigh { max: 32_767 }),
        ("1/d calendar utc+00:00:02", QuotaError::UtcOffset),
        ("1/d calendar utc+18:01", QuotaError::UtcOffset),
    ] {
        assert_eq!(read(text).limiter(1).err(), Some(BuildError::Quota(error)), "{text}");
        assert_eq!(read(text).direct().err(), Some(error), "{text}");
    }
    assert_eq!(read("5/s").limiter(0).err(), Some(BuildError::Capacity));
}

#[test]
fn a_limit_of_any_kind_is_built_from_its_text() -> Result<(), Box<dyn Error>> {
    for text in ["3/365d", "3/365d sliding", "3/365d fixed", "3/month", "9/365d strict burst 3"] {
        let (limiter, direct) = (read(text).limiter(1_000)?, read(text).direct()?);
        for (limit, key, admitted) in
            [(&limiter, 1_u64, 3), (&limiter, 2, 3), (&direct, 1, 3), (&direct, 2, 0)]
        {
            let check = || LimitSet::new([Ask::new(&**limit, key, 1)]).check().is_allowed();
            assert_eq!((0..5).filter(|_| check()).count(), admitted, "{text}, key {key}");
        }
    }
    Ok(())
}

/// A limiter's own calendar knows its date.
#[test]
fn the_rule_of_a_limiter_reads_back() -> Result<(), BuildError> {
    let rule = CalendarWindow::per_month(1).utc_offset_seconds(3_600);
    let anchored = Limiter::builder(rule).capacity(1).build()?.rule();
    assert_ne!(anchored, rule);
    assert_eq!(anchored.to_string().parse(), Ok(anchored));
    Ok(())
}

#[test]
fn overflow_policies_have_names() {
    for (name, policy) in [
        ("evict-least-debt", OverflowPolicy::EvictLeastDebt),
        ("deny", OverflowPolicy::Deny),
        ("allow", OverflowPolicy::Allow),
    ] {
        assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(policy), name));
    }
    let error = "Deny".parse::<OverflowPolicy>().unwrap_err();
    assert_eq!(error.to_string(), "expected `evict-least-debt`, `deny` or `allow`");
}

fn units() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..3, any::<u64>(), Just(u64::MAX), 1_u64..10_000]
}

fn periods() -> impl Strategy<Value = Duration> {
    let seconds = prop::sample::select(vec![1, 60, 3_600, 86_400]);
    prop_oneof![
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
        (0_u64..1_000, seconds).prop_map(|(count, unit)| Duration::from_secs(count * unit)),
        any::<u64>().prop_map(Duration::from_nanos),
        (0_u64..5_000).prop_map(Duration::from_micros),
        Just(Duration::ZERO),
        Just(Duration::MAX),
    ]
}

fn quotas() -> impl Strategy<Value = Quota> {
    let quota = prop_oneof![
        (units(), periods()).prop_map(|(count, period)| Quota::new(count, period)),
        (units(), periods(), units())
            .prop_map(|(limit, window, burst)| Quota::strict(limit, window, burst)),
        Just(Quota::blocked()),
        Just(Quota::unlimited()),
    ];
    (quota, prop::option::of(units()))
        .prop_map(|(quota, burst)| burst.map_or(quota, |burst| quota.burst(burst)))
}

fn calendars() -> impl Strategy<Value = CalendarWindow> {
    let calendar = prop::sample::select(vec![
        CalendarWindow::per_minute,
        CalendarWindow::per_hour,
        CalendarWindow::per_day,
        CalendarWindow::per_month,
    ]);
    let offset = prop_oneof![any::<i32>(), (-50..50_i32).prop_map(|quarters| quarters * 900)];
    (calendar, units(), offset, prop::option::of(periods())).prop_map(
        |(per, limit, offset, unix)| {
            let window = per(limit).utc_offset_seconds(offset);
            unix.map_or(window, |unix| window.anchored(unix))
        },
    )
}

fn rules() -> impl Strategy<Value = AnyRule> {
    let windows = || (units(), periods());
    prop_oneof![
        4 => quotas().prop_map(AnyRule::from),
        1 => windows().prop_map(|(limit, window)| SlidingWindow::new(limit, window).into()),
        1 => windows().prop_map(|(limit, window)| FixedWindow::new(limit, window).into()),
        2 => calendars().prop_map(AnyRule::from),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(rule in rules()) {
        let text = rule.to_string();
        prop_assert_eq!(text.parse(), Ok(rule), "{}", text);
        match rule {
            AnyRule::Quota(rule) => prop_assert_eq!(text.parse(), Ok(rule)),
            AnyRule::Sliding(rule) => prop_assert_eq!(text.parse(), Ok(rule)),
            AnyRule::Fixed(rule) => prop_assert_eq!(text.parse(), Ok(rule)),
            AnyRule::Calendar(rule) => prop_assert_eq!(text.parse(), Ok(rule)),
            _ => prop_assert!(false, "a rule without a test"),
        }
    }

    /// What is read prints as a text of the same rule, and mistakes are one line.
    #[test]
    fn any_text_is_answered(
        text in prop_oneof![
            any::<String>(),
            "[0-9_]{0,3}/?[0-9]{0,2}(s|m|h|d|ms|month|x)?( (burst|strict|sliding|fixed|calendar|\
             anchored|utc[+-]0[0-9]:[0-6]0|[0-9]{1,2}s?)){0,3}",
        ],
    ) {
        match text.parse::<AnyRule>() {
            Ok(rule) => {
                let printed = rule.to_string();
                prop_assert_eq!(printed.parse(), Ok(rule));
            }
            Err(error) => {
                prop_assert!(error.offset() <= text.len() && text.is_char_boundary(error.offset()));
                prop_assert!(!error.to_string().contains(char::is_control));
            }
        }
    }
}
