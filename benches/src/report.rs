//! Figures for people, as a table, and for programs, as one JSON object a line.

use std::io::{self, Write};

use serde::Serialize;

use crate::contenders::{Audited, Contender};
use crate::memory::Footprints;
use crate::runner::{Measured, Rates};
use crate::workloads::Workload;

/// How figures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lined-up columns with spreads, and where we lose.
    Table,
    /// One JSON object a line.
    Json,
}

/// Writes figures as they are made.
#[derive(Debug)]
pub struct Report<W> {
    out: W,
    format: Format,
    losses: Vec<String>,
}

/// A line of throughput; the rates are medians in millions of checks a second.
#[derive(Serialize)]
struct ThroughputLine<'a> {
    workload: &'a str,
    threads: usize,
    variant: &'a str,
    ours_mops: f64,
    peer: &'a str,
    peer_mops: f64,
    /// Ours divided by the peer's.
    ratio: f64,
}

/// A line of memory; both figures are bytes for all keys together.
#[derive(Serialize)]
struct MemoryLine<'a> {
    workload: &'a str,
    keys: usize,
    ours_bytes: u64,
    peer: &'a str,
    peer_bytes: u64,
}

impl<W: Write> Report<W> {
    /// A report without figures yet.
    pub fn new(out: W, format: Format) -> Self {
        Self { out, format, losses: Vec::new() }
    }

    /// Writes the heads of the columns, where there are columns.
    ///
    /// # Errors
    /// When the output can not be written.
    pub fn begin(&mut self) -> io::Result<()> {
        if self.format == Format::Json {
            return Ok(());
        }
        writeln!(
            self.out,
            "{:<12} {:>7}  {:<8} {:>24}  {:<16} {:>24} {:>7}",
            "workload", "threads", "variant", "ours", "peer", "peer's", "ratio"
        )?;
        self.out.flush()
    }

    /// Writes the rates of one workload and thread count.
    ///
    /// # Errors
    /// When the output can not be written.
    pub fn throughput<O: Audited, P: Contender>(
        &mut self,
        workload: Workload,
        measured: &Measured,
    ) -> io::Result<()> {
        let (ours, peer) = (measured.ours, measured.peer);
        let ratio = ours.median / peer.median;
        let line = ThroughputLine {
            workload: workload.name(),
            threads: measured.threads,
            variant: O::VARIANT,
            ours_mops: thousandths(ours.median),
            peer: P::NAME,
            peer_mops: thousandths(peer.median),
            ratio: thousandths(ratio),
        };
        if ratio < 1.0 {
            self.losses.push(format!(
                "{} with {} threads: {ratio:.2} times {}",
                line.workload, line.threads, line.peer
            ));
        }
        match self.format {
            Format::Json => self.json(&line),
            Format::Table => self.row(
                &line.threads.to_string(),
                [line.workload, line.variant, line.peer],
                [spread(ours), spread(peer)],
                ratio,
            ),
        }
    }

    /// Writes what live keys take.
    ///
    /// # Errors
    /// When the output can not be written.
    pub fn memory<O: Audited, P: Contender>(&mut self, found: &Footprints) -> io::Result<()> {
        let line = MemoryLine {
            workload: Workload::Memory.name(),
            keys: found.keys,
            ours_bytes: found.ours_bytes,
            peer: P::NAME,
            peer_bytes: found.peer_bytes,
        };
        let ratio = found.ours_bytes as f64 / found.peer_bytes as f64;
        if ratio > 1.0 {
            self.losses.push(format!("memory: {ratio:.2} times {}", line.peer));
        }
        let per_key = |bytes: u64| format!("{:.1} B/key", bytes as f64 / found.keys as f64);
        match self.format {
            Format::Json => self.json(&line),
            Format::Table => self.row(
                "-",
                [line.workload, O::VARIANT, line.peer],
                [per_key(found.ours_bytes), per_key(found.peer_bytes)],
                ratio,
            ),
        }
    }

    /// Writes where we lose, under a table.
    ///
    /// # Errors
    /// When the output can not be written.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.format == Format::Json {
            return Ok(());
        }
        writeln!(self.out)?;
        writeln!(
            self.out,
            "Rates: million checks a second by all threads together, median (slowest-fastest)."
        )?;
        writeln!(self.out, "Ratio: ours / peer's; less is better for memory, more elsewhere.")?;
        writeln!(
            self.out,
            "Our table is built for twice the live keys, so that none of them is evicted."
        )?;
        if self.losses.is_empty() {
            writeln!(self.out, "We lose nowhere in this run.")?;
        }
        for loss in &self.losses {
            writeln!(self.out, "We lose at {loss}.")?;
        }
        self.out.flush()
    }

    fn json(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    fn row(
        &mut self,
        threads: &str,
        [workload, variant, peer]: [&str; 3],
        [ours, theirs]: [String; 2],
        ratio: f64,
    ) -> io::Result<()> {
        writeln!(
            self.out,
            "{workload:<12} {threads:>7}  {variant:<8} {ours:>24}  {peer:<16} {theirs:>24} {ratio:>7.2}"
        )?;
        self.out.flush()
    }
}

fn spread(rates: Rates) -> String {
    format!("{:.2} ({:.2}-{:.2})", rates.median, rates.min, rates.max)
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
