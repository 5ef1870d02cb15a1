//! Compares the instruction counts of a run with the recorded ones.
//!
//! Reads the JSON output of the `instructions` benchmark; `.ci/instructions` runs both.
#![forbid(unsafe_code)]

mod counts;
mod verdict;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use counts::{Counts, Record};

/// Compares the instruction counts on standard input with the recorded ones. Fails when a benchmark
/// grew by more than 1 %, was added or removed, or was built by another compiler.
#[derive(Debug, Parser)]
#[command(name = "counts")]
struct Options {
    /// The file with the recorded counts
    recorded: PathBuf,
    /// Compiler and target of the benchmark, in one line
    #[arg(long)]
    built_by: String,
    /// Write the counts into the file instead
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed too, the exit code must suffice.
            let _ = writeln!(io::stderr(), "counts: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the counts pass.
fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let counts = Counts::from_summaries(&io::read_to_string(io::stdin())?)?;
    let path = options.recorded.display();
    let now = Record { built_by: options.built_by.clone(), counts };
    let mut out = io::stdout();
    if options.record {
        fs::write(&options.recorded, now.to_string())
            .map_err(|error| format!("{path}: {error}"))?;
        writeln!(out, "{} counts recorded in {path}", now.counts.len())?;
        return Ok(true);
    }
    let recorded =
        fs::read_to_string(&options.recorded).map_err(|error| format!("{path}: {error}"))?;
    let recorded = Record::parse(&recorded).map_err(|error| format!("{path}: {error}"))?;
    let verdict = verdict::judge(&recorded, &now);
    write!(out, "{verdict}")?;
    Ok(verdict.passes())
}
