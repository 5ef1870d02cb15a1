use super::*;
use crate::runner::Rates;
use crate::samples;

fn label(contender: &str, variant: Option<&str>) -> Label {
    Label { contender: contender.to_owned(), variant: variant.map(str::to_owned) }
}

fn sample() -> [Line; 4] {
    [
        Line::Run(Run {
            command: "compare".to_owned(),
            machine: "2 cores".to_owned(),
            load: Some(0.25),
            date: "2026-11-21".to_owned(),
            seed: 7,
            runs: 5,
        }),
        Line::Speed(Speed {
            workload: "zipf-1m".to_owned(),
            threads: 2,
            label: label("ours", Some("recent")),
            mops: 12.346,
            min: 11.0,
            max: 13.5,
            ratio: 3.086,
            against: None,
            remarks: Remarks { staleness_us: Some(1_500), ..Remarks::default() },
        }),
        Line::Memory(Memory {
            workload: "memory".to_owned(),
            label: label("governor-u64", None),
            keys: 10,
            bytes_per_key: 36.0,
            ratio: 0.36,
            against: Some("precise-u64".to_owned()),
        }),
        Line::Absence(Absence {
            workload: "new-key".to_owned(),
            label: label("ratelimit", None),
            absent: "it has no keys".to_owned(),
        }),
    ]
}

#[test]
fn lines_have_the_published_shape() {
    let text = sample().map(|line| to_json(&line).expect("numbers"));
    assert_eq!(
        text,
        [
            concat!(
                r#"{"command":"compare","machine":"2 cores","load":0.25,"#,
                r#""date":"2026-11-21","seed":7,"runs":5}"#
            ),
            concat!(
                r#"{"workload":"zipf-1m","threads":2,"contender":"ours","variant":"recent","#,
                r#""mops":12.346,"min":11.0,"max":13.5,"ratio":3.086,"staleness_us":1500}"#
            ),
            concat!(
                r#"{"workload":"memory","contender":"governor-u64","keys":10,"#,
                r#""bytes_per_key":36.0,"ratio":0.36,"against":"precise-u64"}"#
            ),
            r#"{"workload":"new-key","contender":"ratelimit","absent":"it has no keys"}"#,
        ]
    );
}

#[test]
fn what_was_written_is_what_is_read() {
    let text = sample().map(|line| to_json(&line).expect("numbers")).join("\n");
    assert_eq!(parse(&text), Ok(sample().to_vec()));
}

#[test]
fn a_line_that_is_none_is_named() {
    let error =
        parse("{\"command\":\"\",\"machine\":\"\",\"date\":\"\",\"seed\":1,\"runs\":5}\n{}");
    assert!(error.as_ref().is_err_and(|error| error.starts_with("line 2: ")), "{error:?}");
}

#[test]
fn figures_are_medians_and_ratios_are_to_the_reference() {
    let entry = crate::roster::ours().remove(0);
    let measured = Measured {
        label: entry.label.clone(),
        against: None,
        rates: Rates { min: 1.0, median: 6.0, max: 9.0 },
        rounds: vec![1.0, 6.0, 9.0],
        remarks: Remarks::default(),
    };
    let speed = to_json(&Line::Speed(Speed::new(Workload::Zipf1M, 2, &measured, 1.5)));
    let speed = speed.expect("numbers");
    assert!(speed.contains(r#""mops":6.0,"min":1.0,"max":9.0,"ratio":1.5"#), "{speed}");
    let memory = to_json(&Line::Memory(Memory::new(&entry, 10, 200, 800.0))).expect("numbers");
    assert!(memory.contains(r#""bytes_per_key":20.0,"ratio":0.25"#), "{memory}");
}

fn run_on(date: &str) -> Line {
    let Line::Run(run) = samples::run() else { panic!("a run") };
    Line::Run(Run { date: date.to_owned(), ..run })
}

/// Two workloads on one day, one of them and another on the next.
fn two_recordings() -> [Vec<Line>; 2] {
    [
        vec![
            run_on("2026-11-21"),
            samples::ours("hot-denied", 1, "precise", 2.0),
            samples::ours("zipf-1m", 1, "precise", 4.0),
            samples::absence("zipf-1m", "sketch", "it has no keys"),
            samples::memory("ours", Some("precise"), 20.0),
        ],
        vec![
            run_on("2026-11-22"),
            samples::ours("zipf-1m", 1, "precise", 5.0),
            samples::ours("zipf-1m-scattered", 1, "precise", 3.0),
        ],
    ]
}

#[test]
fn what_is_recorded_anew_replaces_its_workloads_only() {
    let [old, new] = two_recordings();
    let mut expected = old[..2].to_vec();
    expected.push(old[4].clone());
    expected.extend_from_slice(&new);
    let merged = merge(old, &new);
    assert_eq!(merged, expected);
    assert_eq!(merge(merged, &new), expected);
    assert_eq!(merge(Vec::new(), &new), new);
}

#[test]
fn a_run_of_which_nothing_is_left_goes_too() {
    let [old, new] = two_recordings();
    let all_of_old = [&[run_on("2026-11-23")], &old[1..]].concat();
    assert_eq!(merge(old.clone(), &all_of_old), all_of_old);
    let merged = merge(merge(old, &new), &all_of_old);
    assert_eq!(merged, [&[new[0].clone(), new[2].clone()][..], &all_of_old].concat());
}

#[test]
fn runs_are_distinguished_by_their_workloads_where_there_are_several() {
    let [old, new] = two_recordings();
    let named = |lines: &[Line]| -> Vec<(Option<String>, String)> {
        runs(lines).into_iter().map(|(of, run)| (of, run.date.clone())).collect()
    };
    assert_eq!(named(&old), [(None, "2026-11-21".to_owned())]);
    assert_eq!(
        named(&merge(old, &new)),
        [
            (Some("hot-denied, memory".to_owned()), "2026-11-21".to_owned()),
            (Some("zipf-1m, zipf-1m-scattered".to_owned()), "2026-11-22".to_owned()),
        ]
    );
}

#[test]
fn lines_are_put_in_the_order_of_the_workloads() {
    let [old, new] = two_recordings();
    let sorted = by_workload(&merge(old, &new));
    let names: Vec<_> = sorted.iter().map(Line::workload).collect();
    let expected = ["hot-denied", "zipf-1m", "zipf-1m-scattered", "memory"].map(Some);
    assert_eq!(names, [&[None, None], &expected[..]].concat());
}
