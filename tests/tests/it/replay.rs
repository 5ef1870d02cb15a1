//! `tidegate replay`, on a log of our own with time zones and junk, and on a real one.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde_json::Value;
use tempfile::NamedTempFile;
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
        r#"{"key":"2001:db8::/64","allowed":5,"denied":2},"#,
        r#"{"key":"203.0.113.5","allowed":5,"denied":2}]}"#,
        "\n"
    );
    assert_eq!(output.stdout, expected);
}

#[test]
fn a_limit_that_denies_no_client_names_none() {
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

/// A log in a file of its own.
fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

const LINE: &str = "192.0.2.1 - - [12/Mar/2024:08:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n";
/// Two lines `x`, as gzip compresses them.
const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xe0\xaa\xe0\x02\0\x59\xc8\x6b\x85\x04\0\0\0";

#[test]
fn a_log_that_is_not_understood_is_a_mistake() {
    let json = r#"{"ip":"192.0.2.1","time":"2024-03-12T08:00:00Z","status":200}"#;
    let iis = "#Software: Microsoft Internet Information Services 10.0\n\
        2024-03-12 08:00:00 192.0.2.9 GET / - 443 - 192.0.2.1 Mozilla/5.0 200 0 0 3";
    let is = |bytes: &[u8], problem: &str| {
        let log = file(bytes);
        let name = log.path().to_str().unwrap();
        let line = mistake(&["replay", name, "--rate", "1/s"]);
        assert_eq!(line, format!("tidegate: {name}: {problem}\n"));
    };
    let no_line = |of: u32| {
        let format = "the common or combined format, with a zone in its time";
        format!("no line of {of} is a request in {format}")
    };
    is(b"", "there is no request in it: it is empty");
    is(b"\n \n", "there is no request in it: it is empty");
    is(json.as_bytes(), &format!("{}; line 1 is: {json}", no_line(1)));
    is(format!("\n{iis}").as_bytes(), &format!("{}; line 2 is: {}", no_line(3), &iis[..55]));
    is(GZIP, &format!("{}; line 1 is: x", no_line(2)));
    is(&GZIP[..20], "unexpected end of file");
}

#[test]
fn a_log_of_which_much_is_left_out_is_warned_of() {
    let replay = |lines: &[&str]| {
        let log = file(lines.concat().as_bytes());
        let output = run(&["replay", log.path().to_str().unwrap(), "--rate", "1/s", "--json"]);
        assert_eq!(output.code, Some(0));
        assert!(output.stdout.contains(r#""allowed":1,"#), "{}", output.stdout);
        output.stderr.split_once(": ").map(|(_, rest)| rest.split_once(": ").unwrap().1.to_owned())
    };
    assert_eq!(replay(&[LINE; 5]), None);
    assert_eq!(replay(&[LINE, LINE, LINE, LINE, "{}\n"]), None);
    let warning = "2 of 5 lines are left out; line 2 is: {\"a\":1}\n".to_owned();
    assert_eq!(replay(&[LINE, "{\"a\":1}\n", LINE, LINE, "{}\n"]), Some(warning));
    // Blank lines are none.
    assert_eq!(replay(&[LINE, "\n", "\n", "\n"]), None);
}

/// The same requests in other clothes have the same figures.
#[test]
fn variants_of_one_log_are_counted_alike() {
    let log = std::fs::read(repository().join(FIXTURE)).unwrap();
    let text = String::from_utf8_lossy(&log).into_owned();
    let expected = replayed(FIXTURE, "10/m", "5");
    let with_first_field = |change: &dyn Fn(&str) -> String| -> String {
        let lines = text.lines().map(|line| match line.split_once(' ') {
            Some((address, rest)) if address.parse::<IpAddr>().is_ok() => {
                format!("{} {rest}\n", change(address))
            }
            _ => format!("{line}\n"),
        });
        lines.collect::<Vec<_>>().concat()
    };
    let port = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        SocketAddr::new(address, 50_000).to_string()
    };
    let mapped = |address: &str| match address.parse().unwrap() {
        IpAddr::V4(address) => format!("::ffff:{address}"),
        IpAddr::V6(_) => format!("[{address}]"),
    };
    for (name, variant) in [
        ("quoted", with_first_field(&|address| format!("\"{address}\""))),
        ("with ports", with_first_field(&port)),
        ("mapped", with_first_field(&mapped)),
        ("behind a server's name", with_first_field(&|address| format!("a.test:443 {address}"))),
        ("byte order mark", format!("\u{feff}{text}")),
    ] {
        let found = file(variant.as_bytes());
        assert_eq!(replayed(found.path().to_str().unwrap(), "10/m", "5"), expected, "{name}");
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
