//! The differences between two records.

use core::fmt;

use crate::counts::Record;

/// The allowed growth of a count in percent; one that shrank by more is reported, because until it
/// is recorded again it may grow back unnoticed.
const TOLERANCE: u64 = 1;

/// Every benchmark with its finding.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    /// The recorded compiler and the running one, if they differ.
    built_by: Option<(String, String)>,
    findings: Vec<(String, Finding)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Finding {
    Within { recorded: u64, now: u64 },
    Shrank { recorded: u64, now: u64 },
    Grew { recorded: u64, now: u64 },
    NotRecorded { now: u64 },
    NotRun { recorded: u64 },
}

/// Compares `now` with the record.
pub fn judge(recorded: &Record, now: &Record) -> Verdict {
    let run = now.counts.iter().map(|(name, now)| {
        let finding = match recorded.counts.get(name) {
            Some(recorded) => Finding::of(recorded, now),
            None => Finding::NotRecorded { now },
        };
        (name.to_owned(), finding)
    });
    let gone = recorded.counts.iter().filter(|(name, _)| now.counts.get(name).is_none());
    let gone = gone.map(|(name, recorded)| (name.to_owned(), Finding::NotRun { recorded }));
    let built_by = (recorded.built_by != now.built_by)
        .then(|| (recorded.built_by.clone(), now.built_by.clone()));
    Verdict { built_by, findings: run.chain(gone).collect() }
}

impl Finding {
    fn of(recorded: u64, now: u64) -> Self {
        let percent = u128::from(now) * 100;
        if percent > u128::from(recorded) * u128::from(100 + TOLERANCE) {
            Self::Grew { recorded, now }
        } else if percent < u128::from(recorded) * u128::from(100 - TOLERANCE) {
            Self::Shrank { recorded, now }
        } else {
            Self::Within { recorded, now }
        }
    }

    fn passes(self) -> bool {
        matches!(self, Self::Within { .. } | Self::Shrank { .. })
    }
}

impl Verdict {
    /// Nothing grew, was added or removed, and the compiler is the recorded one. Another compiler
    /// fails even if the counts agree: it is pinned, and a change of the pin requires a new record;
    /// a skipped comparison would verify nothing.
    pub fn passes(&self) -> bool {
        self.built_by.is_none() && self.findings.iter().all(|(_, finding)| finding.passes())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, finding) in &self.findings {
            writeln!(f, "{name:32} {finding}")?;
        }
        if let Some((recorded, now)) = &self.built_by {
            writeln!(f, "FAILED: recorded with {recorded}, built by {now}")?;
        }
        let failed = self.findings.iter().filter(|(_, finding)| !finding.passes()).count();
        if failed > 0 {
            writeln!(f, "FAILED: {failed} of {} counts", self.findings.len())?;
        }
        let shrank = |(_, finding): &(_, _)| matches!(finding, Finding::Shrank { .. });
        if !self.passes() {
            writeln!(f, "If this is meant to be: .ci/instructions --record, and say why")
        } else if self.findings.iter().any(shrank) {
            writeln!(f, "Record what shrank, so that it stays so: .ci/instructions --record")
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Within { recorded, now } => write_change(f, recorded, now, ""),
            Self::Shrank { recorded, now } => write_change(f, recorded, now, "  shrank"),
            Self::Grew { recorded, now } => write_change(f, recorded, now, "  GREW"),
            Self::NotRecorded { now } => write!(f, "{:>9} -> {now:>9}  NOT RECORDED", ""),
            Self::NotRun { recorded } => write!(f, "{recorded:>9} -> {:>9}  NOT RUN", ""),
        }
    }
}

fn write_change(f: &mut fmt::Formatter<'_>, recorded: u64, now: u64, remark: &str) -> fmt::Result {
    let percent = (now as f64 / recorded as f64 - 1.0) * 100.0;
    write!(f, "{recorded:>9} -> {now:>9} {percent:>+8.2} %{remark}")
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
