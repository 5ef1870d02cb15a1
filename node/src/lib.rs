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

use config::cli::{CliCommand, Exit};
use serve::StopReason;
use telemetry::patient::print;

/// The exit code of a mistake in flags, files or addresses.
const EXIT_MISTAKE: u8 = 2;
/// That of a node which has failed, and is to be started again.
const EXIT_FAILED: u8 = 1;

/// Runs the command line, which begins with the program's name; the exit code of the process.
/// Blocks until that is done: a node runs until SIGTERM or SIGINT, or until its gossip fails.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match config::cli::parse(args) {
        Ok(cli) => cli,
        Err(Exit::Show(text)) => {
            return match print(&text) {
                Ok(()) => ExitCode::SUCCESS,
                Err(line) => fail(&line, EXIT_MISTAKE),
            };
        }
        Err(Exit::Mistake(report)) => return fail(report.trim_end(), EXIT_MISTAKE),
    };
    let done = match cli.command {
        None => serve::run(&cli.serve).map(stopped),
        Some(CliCommand::Serve(args)) => serve::run(&args).map(stopped),
        Some(CliCommand::Replay(args)) => replay::run(&args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|line| fail(&line.replace('\n', " "), EXIT_MISTAKE))
}

fn stopped(reason: StopReason) -> ExitCode {
    match reason {
        StopReason::Signal(_) => ExitCode::SUCCESS,
        StopReason::GossipEnded => {
            fail("its gossip with other nodes has ended by a failure", EXIT_FAILED)
        }
    }
}

/// No name in it reaches a terminal with what the terminal would obey.
fn fail(problem: &str, code: u8) -> ExitCode {
    let is_unsafe = |c: char| c.is_control() && c != '\n';
    let text: String = problem.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect();
    let _ = writeln!(std::io::stderr(), "tidegate: {text}");
    ExitCode::from(code)
}
