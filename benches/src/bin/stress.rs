//! Runs real threads against a ledger.
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use tidegate_benches::stress::keys::{neighbours, rivals};
use tidegate_benches::stress::{Outcome, Settings, Violation, phases, timed};

/// Runs many threads on few keys that compete for the same slots, and checks what they are admitted
/// against a ledger. Fails at the first violated guarantee, and when slots are seldom reused.
///
/// "still, room for all": time is stopped in phases of 256 checks. Each key is admitted exactly
/// what it has room for, and owes exactly that; none is evicted.
///
/// "still, with evictions": the same with more live keys than slots. In each phase no key is
/// admitted less than it has room for or owes more than it took; what keys were admitted beyond
/// that, and the debt they lost, matches the number of counted evictions at one to five units each.
/// One charge may land on another key, and one more per 100,000 evictions.
///
/// "running": no interval admits a key more than burst + rate * (length + staleness of the clock),
/// to the unit; none is evicted.
#[derive(Debug, Parser)]
#[command(name = "stress")]
struct Options {
    /// Number of checks
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    checks: u64,
    /// Checking threads; twice the number of processors unless set
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Seed of keys, order and pauses
    #[arg(long, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
    /// The clock while time runs
    #[arg(long, value_enum, default_value_t = ClockName::Precise)]
    clock: ClockName,
}

/// Number of leased keys: few enough that all of them are hot now and then.
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
            // If standard error is closed too, the exit code must suffice.
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

    let keys = rivals(96, options.seed)?;
    show("still, room for all", || phases::run(&part(2), &keys, 32, false))?;
    show("still, with evictions", || phases::run(&part(1), &keys, 52, true))?;
    match options.clock {
        ClockName::Precise => show("running, precise", || timed::run_precise(&part(2), &keys))?,
        ClockName::Recent => show("running, recent", || timed::run_recent(&part(2), &keys))?,
        ClockName::Leased => {
            let few = neighbours(LEASED_KEYS, options.seed);
            show("running, leased", || timed::run_leased(&part(2), &few))?;
        }
    }
    Ok(())
}

fn show(
    name: &str,
    run: impl FnOnce() -> Result<Outcome, Violation>,
) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let Outcome { checks, admitted, evicted, handovers, strays, staleness, leased } =
        run().map_err(|violation| format!("{name}: {violation}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = io::stdout();
    write!(out, "{name}: {checks} checks, {admitted} admitted, {evicted} evicted, ")?;
    if handovers > 0 {
        write!(out, "{handovers} hand-overs, ")?;
    }
    if strays > 0 {
        write!(out, "{strays} charges astray, ")?;
    }
    if !staleness.is_zero() {
        write!(out, "the clock up to {staleness:?} late, ")?;
    }
    if leased > 0 {
        write!(out, "{leased} found leased, ")?;
    }
    Ok(writeln!(out, "as promised ({seconds:.1} s)")?)
}
