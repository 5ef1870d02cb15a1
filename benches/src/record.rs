//! Figures as lines of JSON: what `compare` prints and records, and what is drawn from.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contenders::{Label, Remarks};
use crate::entrant::Entry;
use crate::failure::Failure;
use crate::runner::Measured;
use crate::workloads::Workload;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// The conditions of the lines after it.
    Run(Run),
    /// Checks per second.
    Speed(Speed),
    /// Bytes per key.
    Memory(Memory),
    /// No figure, and why.
    Absence(Absence),
}

/// The conditions of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command line.
    pub command: String,
    /// The machine.
    pub machine: String,
    /// Average number of runnable threads in the minute before, if known: other load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// The day, as year-month-day.
    pub date: String,
    /// Seed of the drawn keys.
    pub seed: u64,
    /// Rounds, of which the median is recorded.
    pub runs: u32,
}

/// Throughput of one limiter in one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The workload's name.
    pub workload: String,
    /// Concurrently checking threads.
    pub threads: usize,
    /// The limiter.
    #[serde(flatten)]
    pub label: Label,
    /// Millions of checks per second of all threads together: the median.
    pub mops: f64,
    /// The slowest round.
    pub min: f64,
    /// The fastest round.
    pub max: f64,
    /// How many times as fast as the reference: the median of the ratios by round.
    pub ratio: f64,
    /// For a peer: the variant of ours that is called in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Remarks to publish with it.
    #[serde(flatten)]
    pub remarks: Remarks,
}

/// Memory of one limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The workload's name.
    pub workload: String,
    /// The limiter.
    #[serde(flatten)]
    pub label: Label,
    /// Live keys.
    pub keys: usize,
    /// Resident bytes per key.
    pub bytes_per_key: f64,
    /// `bytes_per_key` divided by the reference's in the same run.
    pub ratio: f64,
    /// For a peer: the variant of ours that is called in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
}

/// A limiter that is excluded from a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absence {
    /// The workload's name.
    pub workload: String,
    /// The limiter.
    #[serde(flatten)]
    pub label: Label,
    /// The reason.
    pub absent: String,
}

impl Speed {
    /// The line of one result, and its ratio to the reference.
    #[must_use]
    pub fn new(workload: Workload, threads: usize, measured: &Measured, ratio: f64) -> Self {
        let Measured { label, against, rates, remarks, .. } = measured.clone();
        Self {
            workload: workload.name().to_owned(),
            threads,
            label,
            mops: thousandths(rates.median),
            min: thousandths(rates.min),
            max: thousandths(rates.max),
            ratio: thousandths(ratio),
            against: against.map(str::to_owned),
            remarks,
        }
    }
}

impl Memory {
    /// The line of one result; `reference` is the reference's bytes.
    #[must_use]
    pub fn new(entry: &Entry, keys: usize, bytes: u64, reference: f64) -> Self {
        Self {
            workload: Workload::Memory.name().to_owned(),
            label: entry.label.clone(),
            keys,
            bytes_per_key: thousandths(bytes as f64 / keys as f64),
            ratio: thousandths(bytes as f64 / reference),
            against: entry.against.map(str::to_owned),
        }
    }
}

impl Line {
    /// The name of the workload that it is about; none of a run.
    #[must_use]
    pub fn workload(&self) -> Option<&str> {
        match self {
            Self::Run(_) => None,
            Self::Speed(Speed { workload, .. })
            | Self::Memory(Memory { workload, .. })
            | Self::Absence(Absence { workload, .. }) => Some(workload),
        }
    }
}

/// A recording in which some workloads are measured anew: what `old` has of the others, and then
/// `new`, which begins with its run.
#[must_use]
pub fn merge(old: Vec<Line>, new: &[Line]) -> Vec<Line> {
    let is_anew = |line: &Line| {
        line.workload().is_some_and(|name| new.iter().any(|new| new.workload() == Some(name)))
    };
    let mut merged: Vec<Line> = Vec::new();
    for line in old.into_iter().filter(|line| !is_anew(line)).chain(new.iter().cloned()) {
        // A run of which nothing is left.
        if matches!((&line, merged.last()), (Line::Run(_), Some(Line::Run(_)))) {
            merged.pop();
        }
        merged.push(line);
    }
    merged
}

/// Each run with the names of its workloads; without them if it is the only run.
#[must_use]
pub fn runs(lines: &[Line]) -> Vec<(Option<String>, &Run)> {
    let mut runs: Vec<(Vec<&str>, &Run)> = Vec::new();
    for line in lines {
        match (line, line.workload(), runs.last_mut()) {
            (Line::Run(run), ..) => runs.push((Vec::new(), run)),
            (_, Some(name), Some((names, _))) if !names.contains(&name) => names.push(name),
            _ => {}
        }
    }
    let has_several = runs.len() > 1;
    let named = |(names, run): (Vec<&str>, _)| (has_several.then(|| names.join(", ")), run);
    runs.into_iter().map(named).collect()
}

/// The lines in the order of [`Workload::ALL`], whenever they were recorded; runs come first.
#[must_use]
pub fn by_workload(lines: &[Line]) -> Vec<Line> {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| {
        line.workload().map(|name| Workload::ALL.iter().position(|one| one.name() == name))
    });
    lines
}

/// The line's text, without an end of line.
///
/// # Errors
/// When a figure is not a number.
pub fn to_json(line: &Line) -> Result<String, Failure> {
    serde_json::to_string(line).map_err(|error| Failure::SetUp(error.to_string()))
}

/// Reads recorded lines.
///
/// # Errors
/// When the file cannot be read, or a line is not a record.
pub fn read(path: &Path) -> Result<Vec<Line>, Failure> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| Failure::SetUp(format!("{shown}: {error}")))?;
    parse(&text).map_err(|error| Failure::SetUp(format!("{shown}: {error}")))
}

/// Parses recorded lines.
///
/// # Errors
/// When a line is not a record; the text names it.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
    };
    text.lines().enumerate().map(line).collect()
}

/// Three decimal places.
#[must_use]
pub fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
