use std::path::Path;

use super::*;
use crate::samples;

fn section_of_samples() -> String {
    section(&samples::lines()).expect("figures")
}

#[test]
fn the_table_has_a_row_for_each_contender_and_a_column_for_each_workload() {
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
fn notes_name_late_and_absent_peers_and_where_we_lose() {
    let text = section_of_samples();
    for note in [
        "* ours recent: zipf-1m: clock up to 1.5 ms late.",
        "* sketch takes no part in new-key, memory (it has no keys).",
        "* precise to sketch: zipf-1m with 1 thread 1.50.",
    ] {
        assert!(text.lines().any(|line| line == note), "{note}\n{text}");
    }
}

#[test]
fn the_highlights_have_their_rows_remarks_and_losses() {
    let text = highlights_section(&samples::lines()).expect("figures");
    assert!(text.contains("| **ours precise** | 4.00 / 3.00 | 2.00 | 20.0 B |"), "{text}");
    assert!(text.contains("* 2026-11-21, 2 cores, <made up> & unreal, medians of 5 rounds."));
    assert!(text.contains("We lose nowhere."), "{text}");
    assert!(!text.contains("sketch") && !text.contains("recent"), "{text}");
}

#[test]
fn the_highlights_say_in_one_line_how_late_a_clock_was() {
    let mut lines = samples::lines();
    for (micros, line) in (1_000..).step_by(500).zip(&mut lines) {
        if let Line::Speed(Speed { label, remarks, .. }) = line
            && label.variant.as_deref() == Some("recent")
        {
            label.variant = Some("leased".to_owned());
            *remarks = Remarks { staleness_us: Some(micros), lease_units: Some(64) };
        }
    }
    let text = highlights_section(&lines).expect("figures");
    let note = "* leased: readings up to 4.0 ms late; details in docs/benchmarks.md.";
    assert!(text.lines().any(|line| line == note), "{text}");
}

#[test]
fn long_lines_are_wrapped_between_words() {
    let words = vec!["word"; 30].join(" ");
    let text = note(&words);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), format!("* {words}"));
    let widths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
    assert_eq!(widths, [96, 56]);
    let command = wrap(&words, " \\\n  ");
    assert!(command.lines().all(|line| line.len() <= COLUMNS), "{command}");
    assert_eq!(command.replace(" \\\n  ", " "), words);
}

#[test]
fn without_figures_there_is_nothing_to_show() {
    assert!(section(&[samples::run()]).is_err());
    assert!(algorithms::section(&[samples::run()]).is_err());
    assert!(highlights_section(&[samples::run()]).is_err());
}

#[test]
fn an_algorithm_is_compared_with_its_peers() {
    let lines = [
        samples::ours("hot-denied", 1, "sliding-log", 8.0),
        samples::peer_against("hot-denied", 1, "other-log", 2.0, "sliding-log"),
    ];
    let text = algorithms::section(&lines).expect("figures");
    let row = "| **sliding-log** | - | 8.00 (8.0) | - | - | other-log |";
    assert!(text.lines().any(|line| line == row), "{text}");
}

#[test]
fn the_limiter_without_keys_is_printed_as_direct() {
    let lines = [
        samples::ours("hot-denied", 1, "single", 8.0),
        samples::peer_against("hot-denied", 1, "keyless", 16.0, "single"),
    ];
    let text = algorithms::section(&lines).expect("figures");
    assert!(text.contains("| **direct** | - | 8.00 (8.0) | - | - | keyless |"), "{text}");
    assert!(text.contains("* direct to keyless: hot-denied with 1 thread 2.00."), "{text}");
}

/// The samples, after one more workload in another run.
fn with_scattered_keys() -> Vec<Line> {
    let mut lines = vec![samples::run()];
    for (threads, ours) in [(1, 3.25), (2, 3.5)] {
        lines.push(samples::ours("zipf-1m-scattered", threads, "precise", ours));
        lines.push(samples::peer("zipf-1m-scattered", threads, "governor-string", 1.0));
        lines.push(samples::peer("zipf-1m-scattered", threads, "sketch", 6.5));
    }
    lines.extend(samples::lines());
    lines
}

#[test]
fn the_claim_is_the_row_of_scattered_keys() {
    let text = highlights_section(&with_scattered_keys()).expect("figures");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let claim = "(`zipf-1m-scattered`), *precise* makes 3.25 / 3.50 times as many checks a second";
    assert!(words.contains(claim), "{text}");
    let row = "| **ours precise** | 4.00 / 3.00 | 3.25 / 3.50 | 2.00 | 20.0 B |";
    assert!(text.lines().any(|line| line == row), "{text}");
    let without = highlights_section(&samples::lines()).expect("figures");
    assert!(!without.contains("scattered") && without.starts_with("Keys lie in"), "{without}");
}

#[test]
fn figures_of_several_runs_are_distinguished_and_stand_in_one_order() {
    let lines = with_scattered_keys();
    let text = section(&lines).expect("figures");
    for start in [
        "Not all columns were recorded at the same time: ",
        "zipf-1m, new-key, memory: recorded on 2026-11-21, ",
        "zipf-1m-scattered: recorded on 2026-11-21, ",
        "| | zipf-1m | zipf-1m-scattered | new-key | memory |",
        "* precise to sketch: zipf-1m with 1 thread 1.50, zipf-1m-scattered with 1 thread 2.00, ",
    ] {
        assert!(text.lines().any(|line| format!("{line} ").starts_with(start)), "{start}\n{text}");
    }
    let text = section_of_samples();
    assert!(text.starts_with("Recorded on 2026-11-21, "), "{text}");
    let text = highlights_section(&lines).expect("figures");
    assert!(text.contains("* zipf-1m-scattered: 2026-11-21, 2 cores, "), "{text}");
}

/// After a new recording: `cargo run --release -p tidegate-benches --bin figure`.
#[test]
fn the_published_tables_are_made_from_what_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path| crate::record::read(&root.join(path)).expect("a recording");
    let lines = read(crate::published::RECORD);
    let algorithms = read(crate::published::ALGORITHMS_RECORD);
    let text = |path| std::fs::read_to_string(root.join(path)).expect("a document");
    let benchmarks = text(crate::published::BENCHMARKS);
    let renewed = renew(&benchmarks, &lines, &algorithms).expect("figures and marks");
    assert!(renewed == benchmarks, "run `figure`");
    let readme = text(crate::published::README);
    let renewed = renew_highlights(&readme, &lines).expect("figures and marks");
    assert!(renewed == readme, "run `figure`");
}
