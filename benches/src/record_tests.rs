use super::*;
use crate::runner::Rates;

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
            beside: None,
            remarks: Remarks { staleness_us: Some(1_500), ..Remarks::default() },
        }),
        Line::Memory(Memory {
            workload: "memory".to_owned(),
            label: label("governor-u64", None),
            keys: 10,
            bytes_per_key: 36.0,
            ratio: 0.36,
            beside: Some("precise-u64".to_owned()),
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
                r#""bytes_per_key":36.0,"ratio":0.36,"beside":"precise-u64"}"#
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
        beside: None,
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
