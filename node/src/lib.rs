//! What the binary `tidegate` is made of.
//!
//! A library only so that fuzz targets reach its parsers: it has no stable interface and is no way to embed
//! a node. Whoever wants limits in a process of their own takes `tidegate-engine`, and
//! `tidegate-cluster` to keep them true across processes.
#![forbid(unsafe_code)]

mod banner;
mod cli;
mod config;
mod exposition;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gossip;
mod http;
mod metrics;
mod net;
mod rate;
mod replay;
mod resp;
mod serve;
mod service;
mod units;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use cli::{Command, Stop};

/// What was asked for can not be done: a mistake in flags, files or addresses.
const EXIT_MISTAKE: u8 = 2;

/// Does what the command line asks for, which begins with the program's name, and says how the
/// process is to end. Blocks for as long as that takes: a node runs until it is told to stop.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match cli::parse(args) {
        Ok(cli) => cli,
        Err(Stop::Show(text)) => {
            // A reader that has gone away has seen enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(Stop::Mistake(line)) => return fail(&line),
    };
    let done = match cli.command {
        None => serve::run(&cli.serve),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => fail(&line),
    }
}

/// One line, whatever the names in it contain.
fn fail(problem: &str) -> ExitCode {
    let line: String = problem.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(std::io::stderr(), "tidegate: {line}");
    ExitCode::from(EXIT_MISTAKE)
}
