//! What a run has found.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The result of one seed.
#[derive(Debug, Default)]
pub struct Report {
    /// What was simulated, in words.
    pub options: String,
    pub figures: Map<String, Value>,
    pub failures: Vec<Failure>,
}

/// What a checker found wrong.
#[derive(Debug)]
pub struct Failure {
    pub check: &'static str,
    pub text: String,
}

impl Report {
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// A figure of three digits behind the point.
    pub fn share(&mut self, name: &str, value: f64) {
        self.figure(name, (value * 1_000.0).round() / 1_000.0);
    }

    /// The numbers among the figures.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        self.figures.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)))
    }

    /// All figures in a line.
    pub fn line(&self) -> String {
        let figures = self.figures.iter().map(|(name, value)| format!("{name}={value}"));
        figures.collect::<Vec<_>>().join(" ")
    }
}

/// The results of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    pub seeds: u64,
    pub failed: u64,
    /// Failed seeds by checker.
    checks: BTreeMap<&'static str, u64>,
    figures: BTreeMap<String, Vec<f64>>,
}

impl Summary {
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.failed += u64::from(!report.failures.is_empty());
        for failure in &report.failures {
            *self.checks.entry(failure.check).or_default() += 1;
        }
        for (name, number) in report.numbers() {
            self.figures.entry(name.to_owned()).or_default().push(number);
        }
    }

    /// Figures, and failed seeds by checker, in lines.
    pub fn text(&mut self) -> String {
        let mut lines = Vec::new();
        for (name, numbers) in &mut self.figures {
            numbers.sort_by(f64::total_cmp);
            let at = |part: f64| numbers[((numbers.len() - 1) as f64 * part) as usize];
            let (least, median, most) = (at(0.0), at(0.5), at(1.0));
            lines.push(format!("{name}: least {least}, median {median}, most {most}"));
        }
        lines.push(format!("{} of {} seeds failed", self.failed, self.seeds));
        for (check, failed) in &self.checks {
            lines.push(format!("  {check}: {failed}"));
        }
        lines.join("\n")
    }
}
