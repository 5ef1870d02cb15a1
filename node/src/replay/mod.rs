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

use crate::cli::ReplayArgs;

/// Replays a log and prints the report.
///
/// # Errors
/// One line that names the flag or the file.
pub fn run(args: &ReplayArgs) -> Result<(), String> {
    let quota = args.rate.enforceable(args.burst);
    let quota =
        quota.map_err(|error| format!("--rate {} --burst {}: {error}", args.rate, args.burst))?;
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

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(path)?)))
}
