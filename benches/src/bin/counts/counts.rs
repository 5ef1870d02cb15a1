//! Counts, as printed by the harness and as recorded.

use core::fmt;

use serde::Deserialize;

/// Names and instruction counts of benchmarks, in the order they ran. Names are distinct, counts
/// are not 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts(Vec<(String, u64)>);

/// Counts and the toolchain they were made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Compiler and target: others produce other instructions.
    pub built_by: String,
    pub counts: Counts,
}

/// The fields of a gungraun summary (schema version 7) that hold the counts.
#[derive(Deserialize)]
struct Summary {
    function_name: String,
    id: Option<String>,
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    tool: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    total: Total,
}

#[derive(Deserialize)]
struct Total {
    metrics: Metrics,
}

#[derive(Deserialize)]
struct Metrics {
    #[serde(rename = "Ir")]
    instructions: Instructions,
}

#[derive(Deserialize)]
struct Instructions {
    values: Values,
}

#[derive(Deserialize)]
struct Values {
    new: u64,
}

impl Counts {
    /// Reads the harness's summaries, one JSON object per line.
    ///
    /// # Errors
    /// When a line is not such a summary, or there are no counts to compare.
    pub fn from_summaries(lines: &str) -> Result<Self, String> {
        let counts = lines.lines().map(|line| {
            let summary: Summary = serde_json::from_str(line)
                .map_err(|error| format!("no summary of a benchmark: {error}: {line}"))?;
            let mut name = summary.function_name;
            if let Some(id) = summary.id {
                name = format!("{name}.{id}");
            }
            let [Profile { tool, data }] = &summary.profiles[..] else {
                return Err(format!("{name}: not one tool's profile"));
            };
            if tool != "Callgrind" {
                return Err(format!("{name}: counted by {tool}, not by Callgrind"));
            }
            Ok((name, data.total.metrics.instructions.values.new))
        });
        Self::checked(counts.collect::<Result<_, _>>()?)
    }

    fn checked(counts: Vec<(String, u64)>) -> Result<Self, String> {
        if counts.is_empty() {
            return Err("no counts".to_owned());
        }
        for (index, (name, count)) in counts.iter().enumerate() {
            if *count == 0 {
                return Err(format!("{name}: no instructions were counted"));
            }
            if counts[..index].iter().any(|(other, _)| other == name) {
                return Err(format!("{name}: counted twice"));
            }
        }
        Ok(Self(counts))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(other, _)| *other == name).map(|(_, count)| count)
    }
}

/// The prefix of the first line of a record.
const BUILT_BY: &str = "# built by ";
/// The other lines that are not counts.
const COMMENT: &str = "#";

impl Record {
    /// Reads what `Display` writes.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let built_by = first
            .strip_prefix(BUILT_BY)
            .ok_or_else(|| format!("the first line does not begin with {BUILT_BY:?}"))?;
        let lines = rest.lines().filter(|line| !line.starts_with(COMMENT));
        let counts = lines.map(|line| {
            let count = line.split_once(' ').and_then(|(name, count)| {
                let count = count.parse().ok()?;
                Some((name.to_owned(), count))
            });
            count.ok_or_else(|| format!("no name and count: {line:?}"))
        });
        let counts = Counts::checked(counts.collect::<Result<_, _>>()?)?;
        Ok(Self { built_by: built_by.to_owned(), counts })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{BUILT_BY}{}", self.built_by)?;
        writeln!(
            f,
            "{COMMENT} Instructions of 1000 operations each. Written by .ci/instructions --record"
        )?;
        for (name, count) in self.counts.iter() {
            writeln!(f, "{name} {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
