//! `tidegate replay`, on a log of our own with time zones and junk, and on a real one.

use std::path::Path;

use serde_json::Value;
use tidegate_tests::{mistake, repository, run};

const FIXTURE: &str = "tests/fixtures/access.log";

fn replayed(log: &str, rate: &str, burst: &str) -> Value {
    let output = run(&["replay", log, "--rate", rate, "--burst", burst, "--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert_eq!(output.stdout.lines().count(), 1);
    serde_json::from_str(&output.stdout).unwrap()
}

/// Seven requests at one instant in seven time zones, seven from an IPv6 address, a crawler at one
/// a second, slow clients, junk, cut lines, bytes that are no text, and lines far out of order.
#[test]
fn a_log_with_zones_and_junk_is_counted_exactly() {
    let output = run(&["replay", FIXTURE, "--rate", "10/m", "--burst", "5", "--json"]);
    let expected = concat!(
        r#"{"lines":41,"parsed":34,"skipped":7,"reordered":21,"keys":5,"allowed":24,"denied":10,"#,
        r#""top":[{"key":"198.51.100.7","allowed":6,"denied":6},"#,
        r#"{"key":"2001:db8::17","allowed":5,"denied":2},"#,
        r#"{"key":"203.0.113.5","allowed":5,"denied":2}]}"#,
        "\n"
    );
    assert_eq!(output.stdout, expected);
}

#[test]
fn a_limit_that_denies_nobody_names_nobody() {
    let report = replayed(FIXTURE, "1000/s", "1000");
    assert_eq!((&report["allowed"], &report["denied"]), (&34.into(), &0.into()));
    assert_eq!(report["top"], Value::Array(Vec::new()));
}

/// The burst stands in the rate or next to it, and else equals the count.
#[test]
fn the_rate_is_any_quota() {
    let figures = |args: &[&str]| {
        let output = run(&[&["replay", FIXTURE, "--json"], args].concat());
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        output.stdout
    };
    let expected = figures(&["--rate", "10/m", "--burst", "5"]);
    assert_eq!(figures(&["--rate", "10/60s burst 5"]), expected);
    assert_eq!(figures(&["--rate", "5/30s"]), expected);
    assert_ne!(figures(&["--rate", "10/m"]), expected);
    assert!(figures(&["--rate", "unlimited"]).contains(r#""denied":0"#));
    assert!(figures(&["--rate", "blocked"]).contains(r#""allowed":0"#));
}

#[test]
fn the_table_has_the_same_figures() {
    let output = run(&["replay", FIXTURE, "--rate", "10/m", "--burst", "5"]);
    let rows: Vec<Vec<&str>> =
        output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["lines", "41"][..],
        &["parsed", "34"],
        &["skipped", "7"],
        &["reordered", "21"],
        &["keys", "5"],
        &["allowed", "24"],
        &["denied", "10"],
        &["198.51.100.7", "6", "6"],
    ] {
        assert!(rows.iter().any(|found| found == row), "{row:?} in {}", output.stdout);
    }
}

#[test]
fn mistakes_are_named() {
    let mistake = |args: &[&str]| mistake(&[&["replay"], args].concat());
    assert!(mistake(&["no/such/log", "--rate", "1/s", "--burst", "1"]).contains("no/such/log"));
    assert!(mistake(&["tests", "--rate", "1/s", "--burst", "1"]).contains("tests: "));
    assert!(mistake(&[FIXTURE, "--rate", "1/x"]).contains("--rate"));
    assert!(mistake(&[FIXTURE, "--rate", "1/s burst 2", "--burst", "2"]).contains("--burst: "));
    assert!(mistake(&[FIXTURE, "--rate", "1440/1440m strict"]).contains("--rate 1440/d strict: "));
    assert!(mistake(&[FIXTURE, "--rate", "1/d", "--burst", "9999999"]).contains("--burst"));
}

/// The figures come from a bucket in exact fractions, run over the same log in another language.
#[test]
fn a_real_log_is_counted_exactly() {
    let log = repository().join("../shared/data/access.log");
    if !Path::exists(&log) {
        eprintln!("skipped: there is no {}", log.display());
        return;
    }
    let report = replayed(log.to_str().unwrap(), "10/m", "5");
    for (figure, expected) in [
        ("lines", 10_000),
        ("parsed", 10_000),
        ("skipped", 0),
        ("reordered", 9_448),
        ("keys", 1_753),
        ("allowed", 8_605),
        ("denied", 1_395),
    ] {
        assert_eq!(report[figure], expected, "{figure}");
    }
    assert_eq!(report["top"].as_array().unwrap().len(), 10);
    assert_eq!(report["top"][0]["key"], "130.237.218.86");
    assert_eq!(report["top"][0]["denied"], 256);
}
