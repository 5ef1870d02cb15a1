//! `tidegate replay`: what a limit by client address would have done to an access log.
//!
//! `log` reads the log, `decide` decides its requests in the order of their time, and `report`
//! prints the result.

pub mod decide;
pub mod log;
mod report;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use tidegate_engine::Quota;

use crate::cli::ReplayArgs;
use crate::quota;

/// Replays a log and prints the report.
///
/// # Errors
/// One line that names the flag or the file.
pub fn run(args: &ReplayArgs) -> Result<(), String> {
    let quota = quota(args)?;
    let name = args.log.display();
    let log = open(&args.log).and_then(log::read).map_err(|error| format!("{name}: {error}"))?;
    let counts = decide::decide(&log, &quota).map_err(|error| format!("{name}: {error}"))?;
    let report = report::Report::new(&log, &counts);
    let text = if args.json { report.json() } else { report.text() };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A closed pipe is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| format!("standard output: {error}")),
    }
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

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(path)?)))
}
