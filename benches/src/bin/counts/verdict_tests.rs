use super::*;

fn record(built_by: &str, counts: &str) -> Record {
    Record::parse(&format!("# built by {built_by}\n{counts}")).unwrap()
}

/// Whether a count passes that was 10,000, and the finding.
fn verdict(now: &str) -> (bool, String) {
    let verdict = judge(&record("rustc 1", "a 10000\n"), &record("rustc 1", now));
    (verdict.passes(), verdict.to_string())
}

#[test]
fn growth_fails_beyond_one_percent() {
    let (passes, text) = verdict("a 10100\n");
    assert!(passes && !text.contains("--record"), "{text}");
    let (passes, text) = verdict("a 10101\n");
    assert!(!passes && text.contains("+1.01 %  GREW"), "{text}");
    assert!(text.contains("FAILED: 1 of 1 counts\n"), "{text}");
    assert!(text.contains(".ci/instructions --record"), "{text}");
}

#[test]
fn what_shrank_passes_and_asks_to_be_recorded() {
    let (passes, text) = verdict("a 9900\n");
    assert!(passes && !text.contains("--record"), "{text}");
    let (passes, text) = verdict("a 9899\n");
    assert!(passes && text.contains("-1.01 %  shrank"), "{text}");
    assert!(text.contains(".ci/instructions --record"), "{text}");
}

#[test]
fn what_comes_or_goes_fails() {
    let (passes, text) = verdict("a 10000\nb 1\n");
    assert!(!passes && text.contains("NOT RECORDED"), "{text}");
    let (passes, text) = verdict("b 10000\n");
    assert!(!passes && text.contains("NOT RUN"), "{text}");
    assert!(text.contains("FAILED: 2 of 2 counts\n"), "{text}");
}

#[test]
fn another_compiler_fails_even_where_counts_agree() {
    let verdict = judge(&record("rustc 1", "a 1\n"), &record("rustc 2", "a 1\n"));
    assert!(!verdict.passes());
    let text = verdict.to_string();
    assert!(text.contains("FAILED: recorded with rustc 1, built by rustc 2\n"), "{text}");
}

#[test]
fn the_largest_counts_do_not_wrap() {
    let most = record("rustc 1", &format!("a {}\n", u64::MAX));
    assert!(judge(&most, &most).passes());
    assert!(!judge(&record("rustc 1", "a 1\n"), &most).passes());
}
