use super::*;
use crate::samples;

fn written(format: Format, lines: &[Line]) -> String {
    let mut out = Vec::new();
    let mut report = Report::new(&mut out, format);
    report.begin().unwrap();
    for line in lines {
        report.line(line.clone()).unwrap();
    }
    assert_eq!(report.finish().unwrap(), lines);
    String::from_utf8(out).unwrap()
}

#[test]
fn json_has_one_object_a_line() {
    let lines = samples::lines();
    assert_eq!(record::parse(&written(Format::Json, &lines)), Ok(lines));
}

#[test]
fn a_table_has_a_row_for_each_figure_and_says_where_we_lose() {
    let table = written(Format::Table, &samples::lines());
    let row = |workload: &str, label: &str| {
        table.lines().any(|row| row.starts_with(workload) && row.contains(label))
    };
    assert!(row("zipf-1m", "ours recent"), "{table}");
    assert!(row("memory", "20.0 B/key"), "{table}");
    assert!(table.contains("clock up to 1.5 ms late"), "{table}");
    assert!(table.contains("sketch takes no part in new-key, memory"), "{table}");
    assert!(table.contains("We lose at zipf-1m with 1 thread: sketch is 1.50 times"), "{table}");
}

#[test]
fn a_table_says_that_we_lose_nowhere() {
    let lines =
        [samples::ours("zipf-1m", 1, "precise", 4.0), samples::peer("zipf-1m", 1, "x", 3.0)];
    let table = written(Format::Table, &lines);
    assert!(table.contains("We lose nowhere"), "{table}");
}
