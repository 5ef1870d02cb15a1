//! The five rows that stand in the README; docs/benchmarks.md has them all.
//!
//! Limiters with keys that a service would choose between: ours as it is by default and as it
//! scales best, the reference, the fastest exact peer, and the sketch that beats ours where misses
//! of the cache dominate.

use crate::contenders::Label;
use crate::record::{Line, Memory, Speed};

/// Contender and variant.
const ROWS: [(&str, Option<&str>); 5] = [
    ("ours", Some("precise")),
    ("ours", Some("leased")),
    ("governor-string", None),
    ("quota", None),
    ("pingora-limits", None),
];

/// The lines of a recording that belong to these rows, and how the recording came about.
#[must_use]
pub fn of(lines: &[Line]) -> Vec<Line> {
    let is_shown = |line: &&Line| match line {
        Line::Run(_) => true,
        Line::Absence(_) => false,
        Line::Speed(Speed { label, .. }) | Line::Memory(Memory { label, .. }) => is_row(label),
    };
    lines.iter().filter(is_shown).cloned().collect()
}

fn is_row(Label { contender, variant }: &Label) -> bool {
    ROWS.contains(&(contender.as_str(), variant.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn other_rows_and_absences_are_left_out() {
        let lines = of(&samples::lines());
        let labels: Vec<_> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Run(_) => None,
                Line::Speed(Speed { label, .. }) | Line::Memory(Memory { label, .. }) => {
                    Some(label.to_string())
                }
                Line::Absence(_) => Some("an absence".to_owned()),
            })
            .collect();
        assert_eq!(labels.len(), 8, "{labels:?}");
        assert!(labels.iter().all(|label| label == "ours precise" || label == "governor-string"));
    }
}
