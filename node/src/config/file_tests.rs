use super::{LimitConfig, parse};
use proptest::prelude::*;
use tidegate_engine::{OverflowPolicy, Quota};

fn error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn limits_are_read_in_order() {
    let limits = parse(
        "# comment\n[[limit]]\nname = \"b\"\nrate = \"10/m\"\nburst = 5\n\n\
         [[limit]]\nname = 'a \"x\"'\nrate = '1/d'\nburst = 0x10\n",
    );
    let expected =
        [("b", Quota::per_minute(10).burst(5)), ("a \"x\"", Quota::per_day(1).burst(16))];
    let expected = expected.map(|(name, quota)| LimitConfig {
        name: name.to_owned(),
        quota,
        overflow: OverflowPolicy::EvictLeastDebt,
    });
    assert_eq!(limits.unwrap(), expected);
}

#[test]
fn a_rate_is_a_quota_in_the_engines_grammar() {
    let quarter = Quota::new(5, std::time::Duration::new(900, 0));
    for (lines, expected) in [
        ("rate = \"5/15m\"", quarter),
        ("rate = \"5/15m\"\nburst = 2", quarter.burst(2)),
        ("rate = \"5/15m burst 2\"", quarter.burst(2)),
        ("rate = \"1_000/1d burst 50\"", Quota::per_day(1_000).burst(50)),
        ("rate = \"5/15m strict\"\nburst = 2", Quota::strict(5, quarter.period(), 2)),
        ("rate = \"0/s\"", Quota::blocked()),
        ("rate = \"blocked\"", Quota::blocked()),
        ("rate = \"unlimited\"", Quota::unlimited()),
    ] {
        let limits = parse(&format!("[[limit]]\nname = \"a\"\n{lines}\n")).unwrap();
        assert_eq!(limits[0].quota, expected, "{lines}");
    }
}

#[test]
fn the_overflow_policy_is_the_limits_own() {
    for (line, expected) in [
        ("", OverflowPolicy::EvictLeastDebt),
        ("overflow = \"evict-least-debt\"", OverflowPolicy::EvictLeastDebt),
        ("overflow = \"deny\"", OverflowPolicy::Deny),
        ("overflow = 'allow'", OverflowPolicy::Allow),
    ] {
        let text = format!("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1\n{line}\n");
        assert_eq!(parse(&text).unwrap()[0].overflow, expected, "{line}");
    }
}

#[test]
fn a_file_without_limits_is_none() {
    for text in ["", "# nothing\n", "limit = []"] {
        let error = parse(text).unwrap_err();
        assert!(error.problem.starts_with("there is no limit"), "{text:?}: {error}");
    }
}

#[test]
fn an_error_names_the_line_and_the_key() {
    let with = |line: &str| format!("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1\n{line}\n");
    for (text, expected) in [
        ("limits = 1", "line 1: unknown key `limits`"),
        ("limit = 1", "line 1: limit: "),
        ("\nlimit = [1]", "line 2: limit: "),
        (&with("bursts = 1"), "line 5: limit.bursts: unknown key"),
        (
            &with("overflow = \"evict\""),
            "line 5: limit.overflow: expected `evict-least-debt`, `deny`",
        ),
        (&with("overflow = 1"), "line 5: limit.overflow: expected a string"),
        (&with("burst = 2"), "line 5: limit.burst: duplicate key"),
        (&with("x"), "line 5: limit.x: "),
        (&with("x = yes"), "line 5: limit.x: "),
        (&with("x ="), "line 5: limit.x: "),
        (&with("x = \"1/s"), "line 5: limit.x: "),
        (&with("= 1"), "line 5: "),
        ("[[limit]]\nname = \"a\"\nrate =\nburst = 1", "line 3: limit.rate: "),
        ("[[limit]]\nname = a\nrate = \"1/s\"\nburst = 1", "line 2: limit.name: "),
        ("[[limit]]\nname = \"a\"\nrate = 1/s\nburst = 1", "line 3: limit.rate: "),
        ("limits = 10/s", "line 1: limits: "),
        ("[[limit]\nname = \"a\"", "line 1: "),
        (
            &with("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1"),
            "line 6: limit.name: `a` is defined twice",
        ),
        ("[[limit]]\nname = \"a\"\nburst = 1", "line 1: limit.rate: missing"),
        ("[[limit]]\nrate = \"1/s\"\nburst = 1", "line 1: limit.name: missing"),
        ("[[limit]]\nname = 1", "line 2: limit.name: expected a string"),
        ("[[limit]]\nname = \"\"", "line 2: limit.name: must not be empty"),
        ("[[limit]]\nname = \"\u{e4}\"", "line 2: limit.name: must be printable ASCII"),
        ("[[limit]]\nname = \"a\\nb\"", "line 2: limit.name: must be printable ASCII"),
        ("[[limit]]\nname = \"inline\"", "line 2: limit.name: `inline`"),
    ] {
        let error = error(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn an_error_of_a_quota_names_the_line_and_the_key() {
    for (text, expected) in [
        ("[[limit]]\nname = \"a\"\nrate = 5", "line 3: limit.rate: expected a string"),
        ("[[limit]]\nname = \"a\"\nrate = \"5\"", "line 3: limit.rate: `5`: expected COUNT/"),
        (
            "[[limit]]\nname = \"a\"\nrate = \"5/15x\"",
            "line 3: limit.rate: `5/15x`: unknown unit `x`, expected s, m, h or d",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/m fixed\"",
            "line 3: limit.rate: a node enforces no windows, such as `1/m fixed`, but quotas",
        ),
        (
            "[[limit]]\nname = \"a\"\nburst = 5\nrate = \"1/m burst 5\"",
            "line 3: limit.burst: the rate has a burst as well: give one of them",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"unlimited\"\nburst = 3",
            "line 4: limit.burst: does not go with `unlimited`: leave it out, or give a rate",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"5/0s\"",
            "line 3: limit.rate: period must be longer than 0 (the rate `unlimited` admits",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/d burst 1000000\"",
            "line 3: limit.rate: burst must refill",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"9/m strict\"\nburst = 9",
            "line 4: limit.burst: strict burst must be below",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1000000001/s\"",
            "line 3: limit.rate: rate must be at most 1000000000 units per second",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 0",
            "line 4: limit.burst: expected an integer",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = -1",
            "line 4: limit.burst: expected an integer",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1.5",
            "line 4: limit.burst: expected an integer",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/d\"\nburst = 1000000",
            "line 4: limit.burst: burst must refill",
        ),
    ] {
        let error = error(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn bytes_that_are_no_text_are_named_with_line_and_key() {
    for (bytes, expected) in [
        (&b"[[limit]]\nname = \"\xff\"\n"[..], "line 2: limit.name: not UTF-8"),
        (b"[[limit]]\n# \xff\n", "line 2: not UTF-8"),
        (b"\xff", "line 1: not UTF-8"),
    ] {
        assert_eq!(super::text(bytes).unwrap_err().to_string(), expected);
    }
}

#[test]
fn names_and_numbers_of_limits_are_bounded() {
    let limit = |name: &str| format!("[[limit]]\nname = \"{name}\"\nrate = \"1/s\"\nburst = 1\n");
    assert!(parse(&limit(&"x".repeat(128))).is_ok());
    assert!(error(&limit(&"x".repeat(129))).starts_with("line 2: limit.name: must be at most 128"));
    let many =
        |count: usize| (0..count).map(|number| limit(&number.to_string())).collect::<String>();
    assert!(parse(&many(256)).is_ok());
    assert!(error(&many(257)).contains("more than 256"));
}

proptest! {
    #[test]
    fn any_text_is_answered_in_one_line(
        text in "(\\[\\[limit\\]\\]\n)?([a-z]{1,5} = .{0,10}\n){0,4}",
    ) {
        if let Err(error) = parse(&text) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
