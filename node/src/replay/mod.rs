//! `tidegate replay`: what a limit by client address would have done to an access log.
//!
//! `input` opens the log, `log` reads it by the `line`, `decide` decides its requests in the order
//! of their time, and `report` prints the result.

pub mod decide;
mod input;
mod line;
pub mod log;
mod report;

use std::io::{self, Write};

use tidegate_engine::Quota;

use self::log::Log;
use crate::config::cli::ReplayArgs;
use crate::config::quota;
use crate::telemetry::blocking_writer::print;

/// A larger part of a log than one line in this many should not be left out without a warning: the
/// figures would be of another log.
const LINES_A_FOREIGN_ONE: u64 = 5;

/// Replays a log and prints the report.
///
/// # Errors
/// One line that names the flag or the file, also when there is no request in it.
pub fn run(args: &ReplayArgs) -> Result<(), String> {
    let quota = quota(args)?;
    let name = args.log.display();
    let log = input::open(&args.log).and_then(log::read);
    let log = log.map_err(|error| format!("{name}: {error}"))?;
    if log.requests.is_empty() {
        return Err(format!("{name}: {}", no_requests(&log)));
    }
    if let Some(damage) = &log.damage {
        // A closed standard error is no failure.
        let lines = log.lines;
        let _ = writeln!(io::stderr(), "tidegate: {name}: ends after line {lines}: {damage}");
    }
    let read = log.foreign.saturating_add(log.requests.len() as u64);
    if log.foreign.saturating_mul(LINES_A_FOREIGN_ONE) > read {
        // A closed standard error is no failure.
        let _ = writeln!(io::stderr(), "tidegate: {name}: {}", left_out(&log));
    }
    let counts = decide::decide(&log, &quota).map_err(|error| format!("{name}: {error}"))?;
    let report = report::Report::new(&log, &counts);
    let text = if args.json { report.json() } else { report.text() };
    print(&text)
}

/// Why nothing can be said about a log.
fn no_requests(log: &Log) -> String {
    match &log.example {
        Some(example) => format!(
            "no line of {} is a request in the common or combined format, with a zone in its time; \
             line {} is: {}",
            log.lines, example.line, example.text
        ),
        None => "there is no request in it: it is empty".to_owned(),
    }
}

/// How much of a log is left out.
fn left_out(log: &Log) -> String {
    let example = log.example.as_ref();
    let (line, text) = example.map_or((0, ""), |example| (example.line, &*example.text));
    format!("{} of {} lines are left out; line {line} is: {text}", log.foreign, log.lines)
}

/// The quota that the flags give.
fn quota(args: &ReplayArgs) -> Result<Quota, String> {
    let quota = args.rate.with_burst(args.burst).map_err(|error| format!("--burst: {error}"))?;
    quota::enforceable(&quota).map_err(|error| match args.burst {
        Some(burst) => format!("--rate {} --burst {burst}: {error}", args.rate),
        None => format!("--rate {}: {error}", args.rate),
    })?;
    Ok(quota)
}
