//! Holds the instruction counts of a run to the recorded ones.
//!
//! Standard input is what the `instructions` benchmark prints as JSON; `.ci/instructions` runs both.
#![forbid(unsafe_code)]

mod counts;
mod verdict;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use counts::{Counts, Record};

/// Compares the instruction counts on standard input with the recorded ones. Fails when a
/// benchmark grew by more than 3 %, came or went, or when another compiler built it.
#[derive(Debug, Parser)]
#[command(name = "counts")]
struct Options {
    /// The file with the recorded counts
    recorded: PathBuf,
    /// What built the benchmark: compiler and target, in one line
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
            // Where standard error is gone too, the exit code has to do.
            let _ = writeln!(io::stderr(), "counts: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the counts are as they should be.
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
