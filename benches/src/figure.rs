//! A figure drawn from recorded lines: ratios to the reference as bars on a
//! logarithmic scale, a group for each workload, a panel for each number of threads.

mod scale;
mod svg;

use std::collections::BTreeSet;

use self::scale::Scale;
use self::svg::{Svg, escape};
use crate::contenders::Label;
use crate::failure::Failure;
use crate::record::{self, Line, Memory, Run, Speed};
use crate::roster;
use crate::workloads::Workload;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 12.0;
/// The column of names.
const NAMES: f64 = 150.0;
/// What a bar's figure needs next to the longest bar.
const FIGURE: f64 = 44.0;
const ROW: f64 = 15.0;
const BAR: f64 = 10.0;
/// A heading, with the space above it.
const HEADING: f64 = 40.0;
const BASELINE: f64 = 9.0;

/// The figure as an SVG document.
///
/// # Errors
/// When there is nothing to draw.
pub fn draw(lines: &[Line]) -> Result<String, Failure> {
    let groups = groups(lines);
    let bars = || groups.iter().flat_map(|group| &group.rows).flat_map(|row| &row.bars);
    let scale = Scale::of(bars().map(|bar| bar.ratio))
        .ok_or_else(|| Failure::SetUp("there are no figures to draw".to_owned()))?;
    let threads: BTreeSet<_> = bars().filter_map(|bar| bar.threads).collect();
    let panels = Panels { threads: threads.into_iter().collect(), scale };

    let mut svg = Svg::new(WIDTH);
    let mut y = MARGIN + 16.0;
    svg.text(MARGIN, y, "title", "Checks a second, as a multiple of governor-string's");
    for (of, Run { machine, date, runs, .. }) in record::runs(lines) {
        let conditions = format!("{machine}; {date}; medians of {runs} rounds in turn");
        for note in of.map(|of| format!("{of}:")).into_iter().chain([conditions]) {
            y += 16.0;
            svg.text(MARGIN, y, "dim", &escape(&note));
        }
    }
    y += 8.0;
    for group in &groups {
        y = panels.draw_group(&mut svg, group, y);
    }
    Ok(svg.finish(y + MARGIN))
}

/// The rows of one workload.
struct Group {
    heading: String,
    rows: Vec<Row>,
}

struct Row {
    label: Label,
    bars: Vec<Bar>,
}

struct Bar {
    /// None where threads make no difference.
    threads: Option<usize>,
    /// How many times better than the reference.
    ratio: f64,
    figure: String,
}

fn groups(lines: &[Line]) -> Vec<Group> {
    let heading = |workload: Workload| {
        let (name, description) = (workload.name(), workload.description());
        let unit = if workload == Workload::Memory { ", as a multiple of fewer bytes" } else { "" };
        format!("{name}: {description}{unit}")
    };
    Workload::ALL
        .into_iter()
        .map(|workload| Group { heading: heading(workload), rows: rows(lines, workload) })
        .filter(|group| !group.rows.is_empty())
        .collect()
}

fn rows(lines: &[Line], workload: Workload) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (label, bar) in lines.iter().filter_map(|line| bar(line, workload)) {
        match rows.iter_mut().find(|row| row.label == *label) {
            Some(row) => row.bars.push(bar),
            None => rows.push(Row { label: label.clone(), bars: vec![bar] }),
        }
    }
    rows
}

fn bar(line: &Line, of: Workload) -> Option<(&Label, Bar)> {
    match line {
        Line::Speed(Speed { workload, threads, label, ratio, .. }) if workload == of.name() => {
            let figure = format!("{}x", two_digits(*ratio));
            Some((label, Bar { threads: Some(*threads), ratio: *ratio, figure }))
        }
        Line::Memory(Memory { workload, label, bytes_per_key, ratio, .. })
            if workload == of.name() =>
        {
            let figure = format!("{bytes_per_key:.1} B");
            Some((label, Bar { threads: None, ratio: ratio.recip(), figure }))
        }
        _ => None,
    }
}

/// Two significant digits where they suffice to show more than "one".
fn two_digits(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// The panels next to the names, one for each number of threads.
struct Panels {
    threads: Vec<usize>,
    scale: Scale,
}

impl Panels {
    fn left_of(&self, panel: usize) -> f64 {
        MARGIN + NAMES + panel as f64 * self.width()
    }

    fn width(&self) -> f64 {
        (WIDTH - 2.0 * MARGIN - NAMES) / self.threads.len().max(1) as f64
    }

    fn x(&self, panel: usize, ratio: f64) -> f64 {
        self.left_of(panel) + self.scale.place(ratio) * (self.width() - FIGURE)
    }

    /// Draws a group from `top` on; where it ends.
    fn draw_group(&self, svg: &mut Svg, group: &Group, top: f64) -> f64 {
        let first_row = top + HEADING;
        let end = first_row + ROW * group.rows.len() as f64;
        svg.text(MARGIN, top + 20.0, "head", &escape(&group.heading));
        let with_threads =
            group.rows.iter().any(|row| row.bars.iter().any(|b| b.threads.is_some()));
        let panels = if with_threads { self.threads.len() } else { 1 };
        for panel in 0..panels {
            self.draw_scale(svg, panel, first_row, end);
            if with_threads {
                let name = thread_count(self.threads[panel]);
                let right = self.left_of(panel) + self.width();
                svg.text_to(right, top + 20.0, "dim", &name);
            }
        }
        for (nth, row) in group.rows.iter().enumerate() {
            self.draw_row(svg, row, first_row + ROW * nth as f64);
        }
        end
    }

    fn draw_scale(&self, svg: &mut Svg, panel: usize, top: f64, end: f64) {
        for power in self.scale.powers() {
            let ratio = 2_f64.powi(power);
            let x = self.x(panel, ratio);
            svg.vertical(x, top - 2.0, end, if power == 0 { "one" } else { "grid" });
            svg.text_about(x, top - 5.0, "tick", &tick_name(ratio));
        }
    }

    fn draw_row(&self, svg: &mut Svg, row: &Row, y: f64) {
        let class = class_of(&row.label);
        let name = escape(&row.label.to_string());
        svg.text_to(MARGIN + NAMES - 8.0, y + BASELINE, "", &name);
        for bar in &row.bars {
            let panel = bar.threads.and_then(|t| self.threads.iter().position(|one| *one == t));
            let panel = panel.unwrap_or(0);
            let (one, end) = (self.x(panel, 1.0), self.x(panel, bar.ratio));
            svg.bar((one.min(end), y), ((end - one).abs().max(1.5), BAR), class);
            svg.text(one.max(end) + 4.0, y + BASELINE, "figure", &bar.figure);
        }
    }
}

fn thread_count(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn tick_name(ratio: f64) -> String {
    if ratio < 1.0 { format!("1/{}", ratio.recip()) } else { format!("{ratio}") }
}

fn class_of(label: &Label) -> &'static str {
    match &label.variant {
        Some(variant) if roster::is_sip(variant) => "ours sip",
        Some(_) => "ours",
        None if *label == roster::reference().label => "reference",
        None => "peer",
    }
}

#[cfg(test)]
#[path = "figure_tests.rs"]
mod tests;
