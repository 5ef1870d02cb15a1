//! Runs real threads against a ledger.
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use tidegate_benches::stress::keys::{neighbours, rivals};
use tidegate_benches::stress::{Outcome, Settings, Violation, phases, timed};

/// Has many threads check few keys that want the same slots, and holds what they were admitted
/// against a ledger: exactly in phases in which time stands still, with and without evictions, and
/// in every interval while it runs.
#[derive(Debug, Parser)]
#[command(name = "stress")]
struct Options {
    /// Checks in all
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    checks: u64,
    /// Threads that check at once; twice the number of processors unless set
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// What keys, order and pauses follow from
    #[arg(long, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
    /// The clock while time runs
    #[arg(long, value_enum, default_value_t = ClockName::Precise)]
    clock: ClockName,
}

/// Keys that are leased: few enough that all of them are hot now and then.
const LEASED_KEYS: usize = 48;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClockName {
    Precise,
    Recent,
    /// Precise, with leases
    Leased,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where standard error is gone too, the exit code has to do.
            let _ = writeln!(io::stderr(), "stress: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.map_or(2 * cores, usize::from);
    writeln!(io::stdout(), "seed {}, {threads} threads on {cores} processors", options.seed)?;
    let part =
        |fifths| Settings { checks: options.checks / 5 * fifths, threads, seed: options.seed };

    let few = neighbours(64, options.seed);
    show("still, room for all", || phases::run(&part(2), &few, 24, false))?;
    let many = rivals(96, options.seed)?;
    show("still, with evictions", || phases::run(&part(1), &many, 64, true))?;
    match options.clock {
        ClockName::Precise => show("running, precise", || timed::run_precise(&part(2), &few))?,
        ClockName::Recent => show("running, recent", || timed::run_recent(&part(2), &few))?,
        ClockName::Leased => {
            show("running, leased", || timed::run_leased(&part(2), &few[..LEASED_KEYS]))?;
        }
    }
    Ok(())
}

fn show(
    name: &str,
    run: impl FnOnce() -> Result<Outcome, Violation>,
) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let Outcome { checks, admitted, evicted, staleness, leased } =
        run().map_err(|violation| format!("{name}: {violation}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = io::stdout();
    write!(out, "{name}: {checks} checks, {admitted} admitted, {evicted} evicted, ")?;
    if !staleness.is_zero() {
        write!(out, "the clock up to {staleness:?} late, ")?;
    }
    if leased > 0 {
        write!(out, "{leased} found leased, ")?;
    }
    Ok(writeln!(out, "as promised ({seconds:.1} s)")?)
}
