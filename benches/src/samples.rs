//! Recorded lines for tests.

use crate::contenders::{Label, Remarks};
use crate::record::{Absence, Line, Memory, Run, Speed};

/// The conditions of the other samples.
pub fn run() -> Line {
    Line::Run(Run {
        command: "compare --sample".to_owned(),
        machine: "2 cores, <made up> & unreal".to_owned(),
        load: Some(0.25),
        date: "2026-11-21".to_owned(),
        seed: 7,
        runs: 5,
    })
}

/// The figure of one of our variants, for a reference of a million per second.
pub fn ours(workload: &str, threads: usize, variant: &str, mops: f64) -> Line {
    speed(workload, threads, label("ours", Some(variant)), mops, None)
}

/// A peer's figure, compared with our `precise`.
pub fn peer(workload: &str, threads: usize, name: &str, mops: f64) -> Line {
    peer_against(workload, threads, name, mops, "precise")
}

/// A peer's figure, compared with a variant of ours.
pub fn peer_against(workload: &str, threads: usize, name: &str, mops: f64, against: &str) -> Line {
    speed(workload, threads, label(name, None), mops, Some(against.to_owned()))
}

/// A row of memory, for a reference of a hundred bytes.
pub fn memory(name: &str, variant: Option<&str>, bytes_per_key: f64) -> Line {
    let label = label(name, variant);
    let against = variant.is_none().then(|| "precise".to_owned());
    let (workload, ratio) = ("memory".to_owned(), bytes_per_key / 100.0);
    Line::Memory(Memory { workload, label, keys: 10, bytes_per_key, ratio, against })
}

/// An excluded peer.
pub fn absence(workload: &str, name: &str, why: &str) -> Line {
    let (workload, absent) = (workload.to_owned(), why.to_owned());
    Line::Absence(Absence { workload, label: label(name, None), absent })
}

fn speed(workload: &str, threads: usize, label: Label, mops: f64, against: Option<String>) -> Line {
    let staleness_us = (label.variant.as_deref() == Some("recent")).then_some(1_500);
    Line::Speed(Speed {
        workload: workload.to_owned(),
        threads,
        label,
        mops,
        min: mops / 2.0,
        max: mops * 2.0,
        ratio: mops,
        against,
        remarks: Remarks { staleness_us, ..Remarks::default() },
    })
}

fn label(contender: &str, variant: Option<&str>) -> Label {
    Label { contender: contender.to_owned(), variant: variant.map(str::to_owned) }
}

/// Two workloads and memory; ours wins one row and loses one.
pub fn lines() -> Vec<Line> {
    vec![
        run(),
        ours("zipf-1m", 1, "precise", 4.0),
        ours("zipf-1m", 1, "recent", 12.0),
        peer("zipf-1m", 1, "governor-string", 1.0),
        peer("zipf-1m", 1, "sketch", 6.0),
        ours("zipf-1m", 2, "precise", 3.0),
        ours("zipf-1m", 2, "recent", 11.0),
        peer("zipf-1m", 2, "governor-string", 1.0),
        peer("zipf-1m", 2, "sketch", 0.75),
        ours("new-key", 1, "precise", 2.0),
        peer("new-key", 1, "governor-string", 1.0),
        absence("new-key", "sketch", "it has no keys"),
        memory("ours", Some("precise"), 20.0),
        memory("governor-string", None, 100.0),
        absence("memory", "sketch", "it has no keys"),
    ]
}
