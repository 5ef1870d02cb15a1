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
fn without_figures_there_is_nothing_to_show() {
    assert!(section(&[samples::run()]).is_err());
    assert!(algorithms::section(&[samples::run()]).is_err());
}

#[test]
fn an_algorithm_stands_beside_its_peers() {
    let lines = [
        samples::ours("hot-denied", 1, "sliding-log", 8.0),
        samples::peer_beside("hot-denied", 1, "other-log", 2.0, "sliding-log"),
    ];
    let text = algorithms::section(&lines).expect("figures");
    let row = "| **sliding-log** | - | 8.00 (8.0) | - | - | other-log |";
    assert!(text.lines().any(|line| line == row), "{text}");
}

/// After a new recording: `cargo run --release -p tidegate-benches --bin figure`.
#[test]
fn the_published_tables_are_made_from_what_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path| crate::record::read(&root.join(path)).expect("a recording");
    let lines = read(crate::published::RECORD);
    let algorithms = read(crate::published::ALGORITHMS_RECORD);
    let readme = std::fs::read_to_string(root.join(crate::published::README)).expect("a README");
    assert!(
        renew(&readme, &lines, &algorithms).expect("figures and marks") == readme,
        "run `figure`"
    );
}
