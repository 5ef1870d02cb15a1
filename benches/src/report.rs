//! Output of figures: as a table for people, or as one JSON object per line for programs.

use std::io::{self, Write};

use crate::record::{self, Line, Memory, Speed};
use crate::verdict;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns with spreads, and the rows we lose.
    Table,
    /// One JSON object per line.
    Json,
}

/// Writes figures as they arrive, and keeps them.
#[derive(Debug)]
pub struct Report<W> {
    out: W,
    format: Format,
    lines: Vec<Line>,
}

impl<W: Write> Report<W> {
    /// An empty report.
    pub fn new(out: W, format: Format) -> Self {
        Self { out, format, lines: Vec::new() }
    }

    /// Writes the column headings, if the format has any.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn begin(&mut self) -> io::Result<()> {
        match self.format {
            Format::Json => Ok(()),
            Format::Table => self.row(["workload", "threads", "limiter", "figure", "ratio"], ""),
        }
    }

    /// Writes one line.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn line(&mut self, line: Line) -> io::Result<()> {
        match self.format {
            Format::Json => self.json(&line)?,
            Format::Table => self.table(&line)?,
        }
        self.lines.push(line);
        Ok(())
    }

    /// Writes the excluded limiters and the rows we lose below a table; returns all lines.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self) -> io::Result<Vec<Line>> {
        if self.format == Format::Table {
            self.notes()?;
        }
        self.out.flush()?;
        Ok(self.lines)
    }

    fn json(&mut self, line: &Line) -> io::Result<()> {
        let text = record::to_json(line).map_err(io::Error::other)?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    fn table(&mut self, line: &Line) -> io::Result<()> {
        match line {
            Line::Run(_) | Line::Absence(_) => Ok(()),
            Line::Speed(Speed {
                workload, threads, label, mops, min, max, ratio, remarks, ..
            }) => {
                let figure = format!("{mops:.2} ({min:.2}-{max:.2})");
                let (threads, label) = (threads.to_string(), label.to_string());
                let cells: [&str; 5] =
                    [workload, &threads, &label, &figure, &format!("{ratio:.2}")];
                self.row(cells, &remarks.to_string())
            }
            Line::Memory(Memory { workload, label, bytes_per_key, ratio, .. }) => {
                let figure = format!("{bytes_per_key:.1} B/key");
                let cells: [&str; 5] =
                    [workload, "-", &label.to_string(), &figure, &format!("{ratio:.2}")];
                self.row(cells, "")
            }
        }
    }

    fn row(
        &mut self,
        [workload, threads, label, figure, ratio]: [&str; 5],
        remarks: &str,
    ) -> io::Result<()> {
        let row =
            format!("{workload:<17} {threads:>7}  {label:<22} {figure:>24} {ratio:>7}  {remarks}");
        writeln!(self.out, "{}", row.trim_end())?;
        self.out.flush()
    }

    fn notes(&mut self) -> io::Result<()> {
        let out = &mut self.out;
        writeln!(out)?;
        writeln!(
            out,
            "Rates: million checks per second of all threads together, median (slowest-fastest)."
        )?;
        writeln!(
            out,
            "Ratio: to governor-string, or to the best peer of an algorithm; the median of its \
             value\nin each round. Lower is better for memory, higher elsewhere."
        )?;
        for (label, reasons) in verdict::absences(&self.lines) {
            writeln!(out, "{label} takes no part in {reasons}.")?;
        }
        let losses = verdict::losses(&self.lines);
        if losses.is_empty() {
            writeln!(out, "We lose nowhere in this run.")?;
        }
        for loss in losses {
            writeln!(out, "We lose at {loss}.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
