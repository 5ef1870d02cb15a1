use super::*;

/// A shortened line of gungraun 0.20.
fn summary(function: &str, id: &str, tool: &str, count: u64) -> String {
    format!(
        r#"{{"description":"(hot())","function_name":"{function}","group":"limiter","id":{id},"#
    ) + r#""profiles":[{"data":{"parts":[],"total":{"metrics":{"Ir":{"diffs":"#
        + &format!(r#"{{"diff_pct":"0","factor":"1"}},"values":{{"new":{count},"old":7}}}}}},"#)
        + &format!(r#""regressions":[]}}}},"tool":"{tool}"}}],"version":"7"}}"#)
}

fn failure(lines: &str) -> String {
    Counts::from_summaries(lines).unwrap_err()
}

#[test]
fn a_count_is_named_after_its_function_and_id() {
    let lines = [
        summary("check", "\"hot\"", "Callgrind", 189_023),
        summary("check", "\"filled\"", "Callgrind", 243_057),
        summary("clock", "null", "Callgrind", 16_029),
    ];
    let counts = Counts::from_summaries(&lines.join("\n")).unwrap();
    let expected = [("check.hot", 189_023), ("check.filled", 243_057), ("clock", 16_029)];
    assert_eq!(counts.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_count_is_an_error() {
    let hot = summary("check", "\"hot\"", "Callgrind", 1);
    assert_eq!(failure(""), "no counts");
    assert!(failure("Running benches").starts_with("no summary"));
    assert!(failure(&format!("{hot}\n{hot}")).contains("twice"));
    assert!(failure(&summary("check", "\"hot\"", "Callgrind", 0)).contains("no instructions"));
    assert!(failure(&summary("check", "\"hot\"", "DHAT", 1)).contains("DHAT"));
    assert!(failure(&hot.replace("Ir", "Dr")).starts_with("no summary"));
}

#[test]
fn what_is_recorded_is_read_back() {
    let counts = vec![("check.hot".to_owned(), 189_023), ("clock".to_owned(), u64::MAX)];
    let record = Record { built_by: "rustc 1.95.0, here".to_owned(), counts: Counts(counts) };
    let text = record.to_string();
    assert!(text.starts_with("# built by rustc 1.95.0, here\n"), "{text}");
    assert!(text.ends_with("check.hot 189023\nclock 18446744073709551615\n"), "{text}");
    assert_eq!(Record::parse(&text), Ok(record));
}

#[test]
fn a_broken_record_is_an_error() {
    for (text, because) in [
        ("", "first line"),
        ("check.hot 1\n", "first line"),
        ("# built by us\n", "no counts"),
        ("# built by us\ncheck.hot\n", "no name and count"),
        ("# built by us\ncheck.hot 1.5\n", "no name and count"),
        ("# built by us\n<<<<<<< HEAD\ncheck.hot 1\n", "no name and count"),
        ("# built by us\ncheck.hot 1\ncheck.hot 2\n", "twice"),
    ] {
        let error = Record::parse(text).unwrap_err();
        assert!(error.contains(because), "{text:?}: {error}");
    }
}
