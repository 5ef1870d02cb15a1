//! The table.

use core::time::Duration;
use std::io::{self, Write};

use super::rounds::{Entry, Measurement};
use super::rows::Row;
use super::servers::CEILING;

/// A load that uses more of its core is not sure to be faster than the server. Nor is one that
/// needs more of the server's time for a request, which shows also where both wait for their cores.
const SATURATED: f64 = 0.95;

/// Writes a table row by row, then what there is to say about it.
#[derive(Debug)]
pub struct Table<W> {
    out: W,
    notes: Vec<String>,
    /// The greatest share of a measurement in which others had the core of its server or load.
    others: f64,
}

impl<W: Write> Table<W> {
    /// Writes the head of the table.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn begin(mut out: W) -> io::Result<Self> {
        writeln!(
            out,
            "| asked | server | thousand a second | least, most | of the ceiling's | server's CPU \
             ns each | load's, share of its core | p50, p99 in µs |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|")?;
        Ok(Self { out, notes: Vec::new(), others: 0.0 })
    }

    /// Writes what was measured of a row.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn row(&mut self, row: Row, entries: &[Entry]) -> io::Result<()> {
        let of_rounds = |entry: &Entry| entry.rounds.as_ref().ok().map(|all| median_rate(all));
        let ceiling = entries.iter().find(|entry| entry.name == CEILING).and_then(of_rounds);
        for entry in entries {
            let (title, name) = (row.title(), entry.name);
            match &entry.rounds {
                Ok(rounds) if !rounds.is_empty() => {
                    let cells = cells(rounds, ceiling, row == Row::Latency);
                    writeln!(self.out, "| {title} | {name} | {cells} |")?;
                    self.note_load(row, name, rounds);
                }
                Ok(_) => {}
                Err(why) => {
                    writeln!(self.out, "| {title} | {name} | none: {why} | - | - | - | - | - |")?;
                }
            }
            if let Some((errors, first)) = &entry.errors {
                self.notes.push(format!("{title}: {name}: {errors} ERRORS, the first {first:?}"));
            }
        }
        self.out.flush()
    }

    fn note_load(&mut self, row: Row, name: &str, rounds: &[Measurement]) {
        let share = median(rounds.iter().map(|one| one.load_share));
        let of_server = median(rounds.iter().map(|one| one.load_nanos / one.cpu_nanos));
        // The load of a schedule never sleeps.
        if row != Row::Latency && share.max(of_server) > SATURATED {
            let (title, share, of_server) = (row.title(), share * 100.0, of_server * 100.0);
            self.notes.push(format!(
                "{title}: {name}: SATURATED, the load used {share:.0} % of its core and \
                 {of_server:.0} % of the server's time"
            ));
        }
        self.others = rounds.iter().map(|one| one.others).fold(self.others, f64::max);
    }

    /// Writes what there is to say.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        writeln!(self.out)?;
        for note in &self.notes {
            writeln!(self.out, "* {note}")?;
        }
        let percent = self.others * 100.0;
        let of = "the core of a server or of the load";
        let share = format!("at most {percent:.0} % of a measurement");
        writeln!(self.out, "* Other threads had {of} for {share}.")?;
        self.out.flush()
    }
}

fn median_rate(rounds: &[Measurement]) -> f64 {
    median(rounds.iter().map(|one| one.rate))
}

/// The cells behind the server's name.
fn cells(rounds: &[Measurement], ceiling: Option<f64>, is_scheduled: bool) -> String {
    let rates = || rounds.iter().map(|one| one.rate);
    let rate = median(rates());
    let thousand = |rate: f64| {
        let thousand = rate / 1e3;
        if thousand < 100.0 { format!("{thousand:.1}") } else { format!("{thousand:.0}") }
    };
    let least = thousand(rates().fold(f64::INFINITY, f64::min));
    let most = thousand(rates().fold(0.0, f64::max));
    let ratio = match ceiling {
        Some(ceiling) if !is_scheduled => format!("{:.2}", rate / ceiling),
        _ => "-".to_owned(),
    };
    let cpu = median(rounds.iter().map(|one| one.cpu_nanos));
    let load = if is_scheduled {
        "-".to_owned()
    } else {
        let nanos = median(rounds.iter().map(|one| one.load_nanos));
        let share = median(rounds.iter().map(|one| one.load_share)) * 100.0;
        format!("{nanos:.0}, {share:.0} %")
    };
    let latency = |index: usize| {
        let micros = |times: [Duration; 2]| times[index].as_secs_f64() * 1e6;
        median(rounds.iter().filter_map(|one| one.latency).map(micros))
    };
    let latency =
        if is_scheduled { format!("{:.0}, {:.0}", latency(0), latency(1)) } else { "-".to_owned() };
    let rate = thousand(rate);
    format!("{rate} | {least}, {most} | {ratio} | {cpu:.0} | {load} | {latency}")
}

/// Of an even number of values the upper one of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64, load_share: f64) -> Measurement {
        let cpu_nanos = 1e9 / rate;
        let load_nanos = cpu_nanos * load_share;
        Measurement { rate, cpu_nanos, load_nanos, load_share, others: 0.25, latency: None }
    }

    fn entry(name: &'static str, rounds: Result<Vec<Measurement>, String>) -> Entry {
        Entry { name, rounds, errors: None }
    }

    #[test]
    fn a_table_has_medians_and_says_what_is_missing() {
        let ceiling = [250e3, 200e3, 240e3].map(|rate| measured(rate, 0.5)).to_vec();
        let mut failing =
            entry("tidegate", Ok([60e3, 20e3, 120e3].map(|r| measured(r, 0.97)).into()));
        failing.errors = Some((3, "-ERR".to_owned()));
        let missing = entry("other", Err("HTTP/1.1 404 Not Found".to_owned()));
        let mut out = Vec::new();
        let mut table = Table::begin(&mut out).expect("written");
        table.row(Row::Http1, &[entry(CEILING, Ok(ceiling)), failing, missing]).expect("written");
        table.finish().expect("written");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| HTTP | ceiling | 240 | 200, 250 | 1.00 | 4167 | 2083, 50 % | - |",
                "| HTTP | tidegate | 60.0 | 20.0, 120 | 0.25 | 16667 | 16167, 97 % | - |",
                "| HTTP | other | none: HTTP/1.1 404 Not Found | - | - | - | - | - |",
                "",
                "* HTTP: tidegate: SATURATED, the load used 97 % of its core and 97 % of the \
                 server's time",
                "* HTTP: tidegate: 3 ERRORS, the first \"-ERR\"",
                "* Other threads had the core of a server or of the load for at most 25 % of a \
                 measurement.",
            ]
        );
    }

    #[test]
    fn latencies_are_in_microseconds() {
        let mut one = measured(50e3, 1.0);
        one.latency = Some([25, 829].map(Duration::from_micros));
        let cells = cells(&[one], Some(50e3), true);
        assert_eq!(cells, "50.0 | 50.0, 50.0 | - | 20000 | - | 25, 829");
    }
}
