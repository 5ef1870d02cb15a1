//! Makes what is published of the recorded figures: two drawings, and tables in two documents.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tidegate_benches::published::{
    ALGORITHMS_RECORD, BENCHMARKS, FIGURE, FULL_FIGURE, README, RECORD,
};
use tidegate_benches::{Failure, figure, highlights, markdown, record};

/// Draws docs/compare.svg and docs/compare-all.svg and writes the tables in README.md and
/// docs/benchmarks.md, from what is recorded in benches/recorded.
#[derive(Debug, Parser)]
#[command(name = "figure")]
struct Options {
    /// The root of the repository; where this program was built, unless given
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

fn main() -> ExitCode {
    match publish(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where standard error is gone too, the exit code has to do.
            let _ = writeln!(io::stderr(), "figure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn publish(options: Options) -> Result<(), Failure> {
    let built_in = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = options.root.unwrap_or_else(built_in);
    let lines = record::read(&root.join(RECORD))?;
    let algorithms = record::read(&root.join(ALGORITHMS_RECORD))?;
    let [readme, benchmarks] = [README, BENCHMARKS].map(|path| root.join(path));
    // All of it is made before any of it is written.
    let published = [
        (markdown::renew_highlights(&read(&readme)?, &lines)?, readme),
        (markdown::renew(&read(&benchmarks)?, &lines, &algorithms)?, benchmarks),
        (figure::draw(&highlights::of(&lines))?, root.join(FIGURE)),
        (figure::draw(&lines)?, root.join(FULL_FIGURE)),
    ];
    for (text, path) in published {
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::SetUp(format!("{}: {error}", path.display()))
}
