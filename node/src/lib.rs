//! The binary `tidegate`.
//!
//! A library only for fuzz targets, which need its parsers: it has no stable interface and is not
//! for embedding a node. To limit inside a process use `tidegate-engine`, and `tidegate-cluster` to
//! enforce its limits across processes.
#![forbid(unsafe_code)]

mod config;
mod front;
#[cfg(fuzzing)]
pub mod fuzzing;
mod limits;
mod replay;
mod serve;
mod service;
mod telemetry;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use config::cli::{CliCommand, Exit, LogFormat, ServeArgs};
use serve::StopReason;
use telemetry::blocking_writer::print;
use telemetry::log::json_line;
use tracing::Level;

/// The exit code of a mistake in flags, files or addresses.
const EXIT_MISTAKE: u8 = 2;
/// That of a node which has failed, and is to be started again.
const EXIT_FAILED: u8 = 1;

/// Runs the command line, which begins with the program's name; the exit code of the process.
/// Blocks until that is done: a node runs until SIGTERM or SIGINT, or until its gossip fails.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match config::cli::parse(args) {
        Ok(cli) => cli,
        Err(Exit::Show(text)) => return done(print(&text)),
        Err(Exit::Mistake(report)) => {
            return fail(report.trim_end(), EXIT_MISTAKE, LogFormat::Text);
        }
    };
    match cli.command {
        None => serve(&cli.serve),
        Some(CliCommand::Serve(args)) => serve(&args),
        Some(CliCommand::Replay(args)) => done(replay::run(&args)),
    }
}

fn done(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => fail(&line.replace('\n', " "), EXIT_MISTAKE, LogFormat::Text),
    }
}

/// Runs a node. What it says is of the format of its log, also once that has ended.
fn serve(args: &ServeArgs) -> ExitCode {
    match serve::run(args) {
        Ok(StopReason::Signal(_)) => ExitCode::SUCCESS,
        Ok(StopReason::GossipEnded) => {
            let problem = "its gossip with other nodes has ended by a failure";
            fail(problem, EXIT_FAILED, args.log_format)
        }
        Err(line) => fail(&line.replace('\n', " "), EXIT_MISTAKE, args.log_format),
    }
}

/// No name in it reaches a terminal with what the terminal would obey.
fn fail(problem: &str, code: u8, format: LogFormat) -> ExitCode {
    let is_unsafe = |c: char| c.is_control() && c != '\n';
    let text: String = problem.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect();
    let line = match format {
        LogFormat::Text => format!("tidegate: {text}\n"),
        LogFormat::Json => json_line(Level::ERROR, &text, &[]),
    };
    let _ = std::io::stderr().write_all(line.as_bytes());
    ExitCode::from(code)
}
