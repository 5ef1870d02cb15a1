use std::path::Path;

use super::*;
use crate::samples;

fn section_of_samples() -> String {
    section(&samples::lines()).expect("figures")
}

#[test]
fn the_table_has_a_row_for_everybody_and_a_column_for_each_workload() {
    let text = section_of_samples();
    for row in [
        "| | zipf-1m | new-key | memory |",
        "| **ours precise** | 4.00 / 3.00 | 2.00 | 20.0 B |",
        "| **ours recent** | 12.0 / 11.0 | - | - |",
        "| governor-string | 1.00 / 1.00 | 1.00 | 100.0 B |",
        "| sketch | 6.00 / 0.75 | - | - |",
        "| *governor-string, million a second* | 1.0 / 1.0 | 1.0 |  |",
    ] {
        assert!(text.lines().any(|line| line == row), "{row}\n{text}");
    }
}

#[test]
fn notes_say_who_is_late_who_is_absent_and_where_we_lose() {
    let text = section_of_samples();
    for note in [
        "* ours recent: zipf-1m: clock up to 1.5 ms late.",
        "* sketch takes no part in new-key, memory (it has no keys).",
        "* to sketch, beside precise: zipf-1m with 1 thread 1.50.",
    ] {
        assert!(text.lines().any(|line| line == note), "{note}\n{text}");
    }
}

#[test]
fn only_what_stands_between_the_marks_is_made_anew() {
    let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
    let lines = samples::lines();
    let renewed = renew(&document, &lines).expect("marks");
    assert!(renewed.starts_with("before\n") && renewed.ends_with("\nafter\n"), "{renewed}");
    assert!(!renewed.contains("old"), "{renewed}");
    assert_eq!(renew(&renewed, &lines), Ok(renewed));
    assert!(renew("no marks", &lines).is_err());
    assert!(renew(&document, &[samples::run()]).is_err());
}

/// After a new recording: `cargo run --release -p tidegate-benches --bin figure`.
#[test]
fn the_published_tables_are_made_from_what_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let lines = crate::record::read(&root.join(crate::published::RECORD)).expect("a recording");
    let readme = std::fs::read_to_string(root.join(crate::published::README)).expect("a README");
    assert!(renew(&readme, &lines).expect("figures and marks") == readme, "run `figure`");
}
