use super::*;
use crate::contenders::{GovernorString, Precise};

fn measured(ours: f64, peer: f64) -> Measured {
    let rates = |median| Rates { min: median / 2.0, median, max: median * 2.0 };
    Measured { threads: 2, ours: rates(ours), peer: rates(peer), staleness: None }
}

fn written(format: Format, measured: &Measured) -> String {
    let mut out = Vec::new();
    let mut report = Report::new(&mut out, format);
    report.begin().unwrap();
    report.throughput::<Precise, GovernorString>(Workload::Zipf1M, measured).unwrap();
    let footprints = Footprints { keys: 10, ours_bytes: 200, peer_bytes: 1_000 };
    report.memory::<Precise, GovernorString>(&footprints).unwrap();
    report.finish().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn json_has_one_object_a_line_in_the_published_shape() {
    assert_eq!(
        written(Format::Json, &measured(12.345_67, 4.0)),
        concat!(
            r#"{"workload":"zipf-1m","threads":2,"variant":"precise","ours_mops":12.346,"#,
            r#""peer":"governor-string","peer_mops":4.0,"ratio":3.086}"#,
            "\n",
            r#"{"workload":"memory","keys":10,"ours_bytes":200,"#,
            r#""peer":"governor-string","peer_bytes":1000}"#,
            "\n",
        )
    );
}

#[test]
fn a_table_says_where_we_lose() {
    let won = written(Format::Table, &measured(8.0, 4.0));
    assert!(won.contains("We lose nowhere"), "{won}");
    assert!(won.contains("20.0 B/key"), "{won}");
    let lost = written(Format::Table, &measured(3.0, 4.0));
    assert!(lost.contains("We lose at zipf-1m with 2 threads: 0.75 times"), "{lost}");
}
