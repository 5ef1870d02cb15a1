//! The tables of the README and of docs/benchmarks.md, made from recorded lines.

mod algorithms;

use core::fmt::Write as _;

use crate::contenders::{Contender as _, Label, Ours, Precise, Remarks};
use crate::failure::Failure;
use crate::highlights;
use crate::marks;
use crate::published::BENCHMARKS;
use crate::record::{self, Line, Memory, Run, Speed};
use crate::roster;
use crate::verdict::{self, Loss};
use crate::workloads::Workload;

/// docs/benchmarks.md with its tables made anew from two recordings.
///
/// # Errors
/// When the document does not have their marks, or nothing is recorded.
pub fn renew(document: &str, lines: &[Line], algorithms: &[Line]) -> Result<String, Failure> {
    let document = marks::renew(document, "speeds", &section(lines)?)?;
    marks::renew(&document, "algorithms", &algorithms::section(algorithms)?)
}

/// The README with its table of the [highlights] of a recording made anew.
///
/// # Errors
/// When the document does not have the marks, or nothing is recorded.
pub fn renew_highlights(document: &str, lines: &[Line]) -> Result<String, Failure> {
    marks::renew(document, "highlights", &highlights_section(lines)?)
}

/// The highlights' table, what belongs to it, and where we lose to one of them.
fn highlights_section(lines: &[Line]) -> Result<String, Failure> {
    let shown = highlights::of(lines);
    let lines = record::by_workload(&shown);
    let labels = labels(&lines);
    if labels.is_empty() {
        return Err(Failure::SetUp("there are no figures to show".to_owned()));
    }
    let mut text = String::new();
    paragraph(&mut text, &claim(&lines));
    paragraph(&mut text, &table(&lines, &labels));
    let mut notes: Vec<_> = labels.iter().filter_map(|label| short_remark(&lines, label)).collect();
    for (of, Run { machine, date, runs, .. }) in record::runs(&shown) {
        let of = of.map(|of| format!("{of}: ")).unwrap_or_default();
        notes.push(note(&format!("{of}{date}, {machine}, medians of {runs} rounds.")));
    }
    paragraph(&mut text, &notes.join("\n"));
    paragraph(&mut text, &losses(&lines).join("\n"));
    Ok(text)
}

/// What the README claims: the row of keys that lie as a server's do, and what the others show.
fn claim(lines: &[Line]) -> String {
    let (ours, scattered) = (Ours::<Precise>::label(), Workload::Zipf1MScattered);
    let times = list(speeds(lines, &ours, scattered).map(|speed| two_digits(speed.ratio)));
    let text = match times {
        Some(times) => format!(
            "A server's keys lie anywhere in memory. With a million that do (`{}`), *precise* \
             makes {times} times as many checks a second as governor: that is what to expect. In \
             the other workloads keys lie in memory in the order of use, so the hardware \
             prefetcher hides cache misses for every contender; `{}` is the same sequence laid out \
             that way.",
            scattered.name(),
            Workload::Zipf1M.name()
        ),
        None => "Keys lie in memory in the order of use, so the hardware prefetcher hides cache \
                 misses for every contender: that shows the limiter, and flatters the faster one, \
                 compared with a server whose keys lie anywhere."
            .to_owned(),
    };
    wrap(&text, "\n")
}

/// How the figures came about, the table, what belongs to it, and where we lose.
fn section(lines: &[Line]) -> Result<String, Failure> {
    let mut text = String::new();
    origins(&mut text, lines);
    let lines = &record::by_workload(lines);
    let labels = labels(lines);
    if labels.is_empty() {
        return Err(Failure::SetUp("there are no figures to show".to_owned()));
    }
    paragraph(&mut text, &table(lines, &labels));
    let remarks: Vec<_> = labels.iter().filter_map(|label| remark(lines, label)).collect();
    for notes in [remarks, absences(lines), losses(lines)] {
        if !notes.is_empty() {
            paragraph(&mut text, &notes.join("\n"));
        }
    }
    Ok(text)
}

/// How the figures came about, run by run.
fn origins(text: &mut String, lines: &[Line]) {
    let runs = record::runs(lines);
    if runs.len() > 1 {
        let several = "Not all columns were recorded at the same time: a ratio is to the \
                       peer's rate in the same run, and rates of different runs do not compare.";
        paragraph(text, &wrap(several, "\n"));
    }
    for (of, run) in runs {
        paragraph(text, &origin(of.as_deref(), run));
    }
}

fn origin(of: Option<&str>, Run { command, machine, load, date, runs, .. }: &Run) -> String {
    let load = load.map(|load| format!(", other load {load:.1} threads")).unwrap_or_default();
    let recorded = of.map_or_else(|| "Recorded".to_owned(), |of| format!("{of}: recorded"));
    let text = format!("{recorded} on {date}, {machine}{load}, medians of {runs} rounds, by");
    let command = wrap(command, " \\\n  ");
    format!("{}\n\n```sh\n{command}\n```", wrap(&text, "\n"))
}

/// The longest line of what is written, in characters; tables are as wide as they are.
const COLUMNS: usize = 100;

/// An entry of a list.
fn note(text: &str) -> String {
    wrap(&format!("* {text}"), "\n  ")
}

/// The words of a text in lines of at most [`COLUMNS`], parted by `next_line`.
fn wrap(text: &str, next_line: &str) -> String {
    let (end, start) = next_line.split_once('\n').unwrap_or(("", next_line));
    let mut wrapped = String::with_capacity(text.len() + 16);
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width + end.len() > COLUMNS {
            wrapped.push_str(next_line);
            column = start.len();
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += width;
    }
    wrapped
}

fn paragraph(text: &mut String, paragraph: &str) {
    // Writing into a `String` does not fail.
    let _ = writeln!(text, "{paragraph}\n");
}

/// A row for every contender that has a figure, a column for every workload.
fn table(lines: &[Line], labels: &[&Label]) -> String {
    let mut workloads = Workload::ALL.to_vec();
    workloads.retain(|workload| labels.iter().any(|label| cell(lines, label, *workload).is_some()));
    let names: Vec<_> = workloads.iter().map(|workload| workload.name()).collect();
    let mut rows = vec![format!("| | {} |", names.join(" | "))];
    rows.push(format!("|---|{}", "---|".repeat(workloads.len())));
    for label in labels {
        let cells: Vec<_> = workloads
            .iter()
            .map(|workload| cell(lines, label, *workload).unwrap_or_else(|| "-".to_owned()))
            .collect();
        let name = if label.variant.is_some() { format!("**{label}**") } else { label.to_string() };
        rows.push(format!("| {name} | {} |", cells.join(" | ")));
    }
    let reference = roster::reference().label;
    let cells: Vec<_> = workloads
        .iter()
        .map(|workload| speeds(lines, &reference, *workload).map(|speed| speed.mops))
        .map(|mops| list(mops.map(|mops| format!("{mops:.1}"))).unwrap_or_default())
        .collect();
    rows.push(format!("| *{reference}, million a second* | {} |", cells.join(" | ")));
    rows.join("\n")
}

/// Ratios by rising numbers of threads, or bytes a key.
fn cell(lines: &[Line], label: &Label, workload: Workload) -> Option<String> {
    let memory = lines.iter().find_map(|line| match line {
        Line::Memory(memory) if memory.label == *label && memory.workload == workload.name() => {
            Some(memory)
        }
        _ => None,
    });
    match memory {
        Some(Memory { bytes_per_key, .. }) => Some(format!("{bytes_per_key:.1} B")),
        None => list(speeds(lines, label, workload).map(|speed| two_digits(speed.ratio))),
    }
}

fn speeds<'a>(
    lines: &'a [Line],
    label: &Label,
    workload: Workload,
) -> impl Iterator<Item = &'a Speed> {
    lines.iter().filter_map(move |line| match line {
        Line::Speed(speed) if speed.label == *label && speed.workload == workload.name() => {
            Some(speed)
        }
        _ => None,
    })
}

fn list(cells: impl Iterator<Item = String>) -> Option<String> {
    cells.reduce(|all, cell| format!("{all} / {cell}"))
}

fn two_digits(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// Every contender that has a figure: ours first, then in the order of their first figure.
fn labels(lines: &[Line]) -> Vec<&Label> {
    let mut labels = Vec::new();
    for line in lines {
        match line {
            Line::Speed(Speed { label, .. }) | Line::Memory(Memory { label, .. }) => {
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
            Line::Run(_) | Line::Absence(_) => {}
        }
    }
    let place = |label: &Label| roster::ours().iter().position(|entry| entry.label == *label);
    labels.sort_by_key(|label| place(label).unwrap_or(usize::MAX));
    labels
}

/// What to publish with all figures of one of ours.
fn remark(lines: &[Line], label: &Label) -> Option<String> {
    let by_workload: Vec<_> = Workload::ALL
        .into_iter()
        .map(|workload| {
            let remarks = speeds(lines, label, workload).map(|speed| speed.remarks);
            (workload, remarks.fold(Remarks::default(), Remarks::and).to_string())
        })
        .filter(|(_, remarks)| !remarks.is_empty())
        .map(|(workload, remarks)| format!("{}: {remarks}", workload.name()))
        .collect();
    (!by_workload.is_empty()).then(|| note(&format!("{label}: {}.", by_workload.join(", "))))
}

/// How late the clock of one of ours was in any of its figures, if it is one that can be.
fn short_remark(lines: &[Line], label: &Label) -> Option<String> {
    let figures = Workload::ALL.into_iter().flat_map(|workload| speeds(lines, label, workload));
    let micros = figures.filter_map(|speed| speed.remarks.staleness_us).max()?;
    let (name, late) = (label.variant.as_ref()?, micros as f64 / 1e3);
    Some(note(&format!("{name}: readings up to {late:.1} ms late; details in {BENCHMARKS}.")))
}

fn absences(lines: &[Line]) -> Vec<String> {
    verdict::absences(lines)
        .into_iter()
        .map(|(label, reasons)| note(&format!("{label} takes no part in {reasons}.")))
        .collect()
}

/// A line for each winner and variant of ours.
fn losses(lines: &[Line]) -> Vec<String> {
    let losses = verdict::losses(lines);
    if losses.is_empty() {
        return vec!["We lose nowhere.".to_owned()];
    }
    let mut notes = vec!["Where we lose, and by what factor:".to_owned(), String::new()];
    let mut done: Vec<(&str, &str)> = Vec::new();
    for Loss { winner, variant, .. } in &losses {
        if done.contains(&(winner, variant)) {
            continue;
        }
        done.push((winner, variant));
        let rows: Vec<_> = losses
            .iter()
            .filter(|loss| loss.winner == *winner && loss.variant == *variant)
            .map(|loss| format!("{} {:.2}", loss.place(), loss.factor))
            .collect();
        notes.push(note(&format!("{variant} to {winner}: {}.", rows.join(", "))));
    }
    notes
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
