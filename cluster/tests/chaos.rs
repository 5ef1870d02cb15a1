//! Runs of the simulator of `tests/sim`, as a test that mutations name: breakages that a run
//! through faults and load must find, whatever unit tests find.

#![expect(dead_code, reason = "scenarios and the command line are the simulator's own")]

#[path = "../../tests/sim"]
mod sim {
    pub mod calm;
    pub mod chaos;
    pub mod check;
    pub mod events;
    pub mod host;
    pub mod inbox;
    pub mod load;
    pub mod network;
    pub mod node;
    pub mod options;
    pub mod plan;
    pub mod report;
    pub mod rules;
    pub mod time;
    pub mod truth;
    pub mod world;
}

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;

use sim::{
    calm, chaos, check, events, host, inbox, load, network, node, options, plan, report, rules,
    time, truth, world,
};

/// Runs, from the first seed.
const SEEDS: u64 = 60;
/// And seeds that find what few others do: differences that are mended though a word has forgotten
/// them, or a node that leaves before others have what it admitted.
const RARE: [u64; 9] = [128, 164, 213, 283, 366, 371, 453, 736, 832];
/// Of runs at the same time.
const THREADS: u64 = 2;

/// What is wrong with a seed, with the options that it drew.
fn failures(seed: u64) -> Option<String> {
    let args = options::Args::parse_from(["sim"]);
    let checks = check::Checks::without(&[]).expect("all are known");
    let report = chaos::run(&args, seed, checks);
    let failures = report.failures;
    (!failures.is_empty()).then(|| format!("seed {seed}: {failures:?} in {}", report.options))
}

#[test]
fn faults_under_load_break_nothing() {
    let (next, seeds) = (AtomicUsize::new(0), (0..SEEDS).chain(RARE).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    // Relaxed: the number orders nothing.
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(seed) = seeds.get(place).copied() else { return };
                    if let Some(text) = failures(seed) {
                        panic!("{text}");
                    }
                }
            });
        }
    });
}
