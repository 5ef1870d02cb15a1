//! Evaluates recorded lines: which contenders took part and which won.

use core::fmt;
use std::collections::HashMap;

use crate::record::{Absence, Line, Memory, Speed};

/// A row in which a peer does better than the variant of ours that is called in the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The workload's name.
    pub workload: String,
    /// Threads; `None` for memory.
    pub threads: Option<usize>,
    /// The peer.
    pub winner: String,
    /// Our variant.
    pub variant: String,
    /// How many times better the peer is, above 1.
    pub factor: f64,
}

impl Loss {
    /// The workload and the number of threads.
    #[must_use]
    pub fn place(&self) -> String {
        let workload = &self.workload;
        match self.threads {
            Some(1) => format!("{workload} with 1 thread"),
            Some(threads) => format!("{workload} with {threads} threads"),
            None => workload.clone(),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { winner, variant, factor, .. } = self;
        write!(f, "{}: {winner} is {factor:.2} times better than {variant}", self.place())
    }
}

/// The minimum lead: a smaller one is invisible in two decimal places.
const LEAD: f64 = 1.005;

/// Every row we lose, in the order of the lines.
#[must_use]
pub fn losses(lines: &[Line]) -> Vec<Loss> {
    let mut ours = HashMap::new();
    for row in lines.iter().filter_map(Row::of) {
        if let Some(variant) = row.variant {
            ours.insert((row.workload, row.threads, variant), row.goodness);
        }
    }
    let loss = |row: Row<'_>| {
        let variant = row.against?;
        let factor = row.goodness / ours.get(&(row.workload, row.threads, variant))?;
        (factor >= LEAD).then(|| Loss {
            workload: row.workload.to_owned(),
            threads: row.threads,
            winner: row.contender.to_owned(),
            variant: variant.to_owned(),
            factor,
        })
    };
    lines.iter().filter_map(Row::of).filter_map(loss).collect()
}

/// Excluded limiters with workloads and reasons, in the order of the lines: a label, and text.
#[must_use]
pub fn absences(lines: &[Line]) -> Vec<(String, String)> {
    let mut found: Vec<(String, Vec<&str>, &str)> = Vec::new();
    for line in lines {
        let Line::Absence(Absence { workload, label, absent }) = line else { continue };
        let label = label.to_string();
        match found.iter_mut().find(|(other, _, why)| *other == label && why == absent) {
            Some((_, workloads, _)) => workloads.push(workload),
            None => found.push((label, vec![workload], absent)),
        }
    }
    found
        .into_iter()
        .map(|(label, workloads, why)| (label, format!("{} ({why})", workloads.join(", "))))
        .collect()
}

/// A figure of either kind; a higher `goodness` is better.
struct Row<'a> {
    workload: &'a str,
    threads: Option<usize>,
    contender: &'a str,
    variant: Option<&'a str>,
    against: Option<&'a str>,
    goodness: f64,
}

impl<'a> Row<'a> {
    fn of(line: &'a Line) -> Option<Self> {
        match line {
            Line::Run(_) | Line::Absence(_) => None,
            Line::Speed(Speed { workload, threads, label, ratio, against, .. }) => Some(Self {
                workload,
                threads: Some(*threads),
                contender: &label.contender,
                variant: label.variant.as_deref(),
                against: against.as_deref(),
                goodness: *ratio,
            }),
            Line::Memory(Memory { workload, label, bytes_per_key, against, .. }) => Some(Self {
                workload,
                threads: None,
                contender: &label.contender,
                variant: label.variant.as_deref(),
                against: against.as_deref(),
                goodness: 1.0 / bytes_per_key,
            }),
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
