//! Simulates clusters: the deterministic second driver of the protocol's core.
//!
//! ```text
//! cargo run --release -p tidegate-tests --bin sim -- --seeds 1000
//! cargo run --release -p tidegate-tests --bin sim -- --scenario even --nodes 5
//! ```
//!
//! Each seed is a run of its own, on one thread, and is always the same run. `chaos`, the default,
//! lets a cluster form, breaks it under load, heals it, and demands what `check` holds; a failure
//! names its seed, all that the seed chose, and the command that replays it. The other scenarios
//! print figures.
//!
//! | files | subject |
//! |---|---|
//! | `time.rs`, `events.rs`, `rules.rs` | local clocks; what happens when; the limits |
//! | `host.rs` | the limiters of a node, the only file that knows the trait `Host` |
//! | `network.rs` | links, cuts, and ends that close |
//! | `node.rs` | a node, the only file that calls the core |
//! | `load.rs`, `truth.rs`, `calm.rs` | clients; central buckets; when faults were |
//! | `world.rs` | all of them, in simulated time |
//! | `plan.rs`, `chaos.rs`, `check/` | what a seed chooses; a run; what must hold in it |
//! | `scenario/` | single faults, and what they cost |

mod calm;
mod chaos;
mod check;
mod events;
mod host;
mod inbox;
mod load;
mod network;
mod node;
mod options;
mod plan;
mod report;
mod rules;
mod scenario;
mod time;
mod truth;
mod world;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;

use check::Checks;
use options::{Args, Kind};
use report::{Failure, Report, Summary};

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(text) = Checks::without(&args.without) {
        eprintln!("{text}");
        return ExitCode::from(2);
    }
    if args.nodes.is_some_and(|nodes| !(2..=MAX_NODES).contains(&nodes)) {
        eprintln!("--nodes takes 2 to {MAX_NODES}");
        return ExitCode::from(2);
    }
    let mut summary = run_all(&args).into_inner().unwrap_or_default();
    if args.seeds > 1 && !args.json {
        say(&summary.text());
    }
    ExitCode::from(u8::from(summary.failed > 0))
}

/// There are no more addresses.
const MAX_NODES: usize = 1_000;

fn run_all(args: &Args) -> Mutex<Summary> {
    let (next, summary) = (AtomicU64::new(args.seed), Mutex::default());
    let end = args.seed.saturating_add(args.seeds);
    std::thread::scope(|scope| {
        for _ in 0..args.threads.clamp(1, args.seeds.clamp(1, 64) as usize) {
            scope.spawn(|| {
                loop {
                    // Relaxed: the number orders nothing.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let report = run(args, seed);
                    if let Ok(mut summary) = summary.lock() {
                        let summary: &mut Summary = &mut summary;
                        print(args, seed, &report);
                        summary.add(&report);
                    }
                }
            });
        }
    });
    summary
}

/// A panic is a failure of its seed.
fn run(args: &Args, seed: u64) -> Report {
    let run = || match (args.scenario, Checks::without(&args.without)) {
        (Kind::Chaos, Ok(checks)) => chaos::run(args, seed, checks),
        _ => scenario::run(args, seed),
    };
    let failure = || Failure { check: "no_panic", text: "see the message above".to_owned() };
    std::panic::catch_unwind(run).unwrap_or_else(|_| Report {
        options: chaos::describe(args, seed),
        failures: vec![failure()],
        ..Report::default()
    })
}

/// A closed pipe ends nothing but the output.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn print(args: &Args, seed: u64, report: &Report) {
    let failed = if report.failures.is_empty() { "" } else { " failed" };
    let is_alone = args.seeds == 1 && !args.json;
    if is_alone || !report.failures.is_empty() {
        let drawn = report.options.as_str();
        let options = if drawn.is_empty() { format!("{args:?}") } else { drawn.to_owned() };
        say(&format!("seed {seed}{failed}: {options}"));
        say(&format!("  replay: {}", Args::replay(seed)));
        for failure in &report.failures {
            say(&format!("  {}: {}", failure.check, failure.text));
        }
    }
    if args.json {
        let mut figures = report.figures.clone();
        figures.insert("seed".to_owned(), seed.into());
        say(&format!("{}", serde_json::Value::Object(figures)));
    } else if args.scenario != Kind::Chaos || args.seeds == 1 {
        say(&format!("seed={seed} {}", report.line()));
    }
}
