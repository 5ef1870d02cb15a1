//! The table of algorithms, each compared with the best peer that has it.

use crate::contenders::Label;
use crate::failure::Failure;
use crate::record::{Absence, Line, Memory, Speed, by_workload};
use crate::reference::is_against;
use crate::workloads::Workload;

use super::{absences, labels, list, losses, origins, paragraph, speeds, two_digits};

/// Variants that tables print under another name: what is recorded, what is printed.
const PRINTED: [(&str, &str); 1] = [("single", "direct")];

/// How the figures came about, the table, and where we lose.
pub(super) fn section(lines: &[Line]) -> Result<String, Failure> {
    let lines = as_printed(lines);
    let mut text = String::new();
    origins(&mut text, &lines);
    let lines = &by_workload(&lines);
    let labels = labels(lines);
    let rows: Vec<_> = labels.iter().filter_map(|label| row(lines, label)).collect();
    if rows.is_empty() {
        return Err(Failure::SetUp("there are no algorithms to show".to_owned()));
    }
    let names: Vec<_> = workloads().map(Workload::name).collect();
    let head = format!(
        "| | {} | compared with |\n|---|{}---|",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    paragraph(&mut text, &format!("{head}\n{}", rows.join("\n")));
    for notes in [absences(lines), losses(lines)] {
        if !notes.is_empty() {
            paragraph(&mut text, &notes.join("\n"));
        }
    }
    Ok(text)
}

/// The lines with the names that tables print.
fn as_printed(lines: &[Line]) -> Vec<Line> {
    fn rename(variant: &mut Option<String>) {
        let is_named = |(recorded, _): &&(&str, _)| variant.as_deref() == Some(*recorded);
        if let Some((_, printed)) = PRINTED.iter().find(is_named) {
            *variant = Some((*printed).to_owned());
        }
    }
    let mut lines = lines.to_vec();
    for line in &mut lines {
        match line {
            Line::Run(_) => {}
            Line::Absence(Absence { label, .. }) => rename(&mut label.variant),
            Line::Speed(Speed { label, against, .. })
            | Line::Memory(Memory { label, against, .. }) => {
                rename(&mut label.variant);
                rename(against);
            }
        }
    }
    lines
}

fn workloads() -> impl Iterator<Item = Workload> {
    Workload::ALL.into_iter().filter(|workload| workload.is_of_algorithms())
}

/// The row of one of ours: millions a second and the multiple of the best peer, by rising numbers
/// of threads.
fn row(lines: &[Line], ours: &Label) -> Option<String> {
    let variant = ours.variant.as_deref()?;
    let cell = |workload| {
        let ratios = speeds(lines, ours, workload).map(|speed| two_digits(speed.ratio));
        let mops = speeds(lines, ours, workload).map(|speed| format!("{:.1}", speed.mops));
        match (list(ratios), list(mops)) {
            (Some(ratios), Some(mops)) => format!("{ratios} ({mops})"),
            _ => "-".to_owned(),
        }
    };
    let cells: Vec<_> = workloads().map(cell).collect();
    let mut peers: Vec<&str> = Vec::new();
    for line in lines {
        if let Line::Speed(Speed { label, against, .. }) = line
            && is_against(ours, against.as_deref())
            && !peers.contains(&label.contender.as_str())
        {
            peers.push(&label.contender);
        }
    }
    Some(format!("| **{variant}** | {} | {} |", cells.join(" | "), peers.join(", ")))
}
