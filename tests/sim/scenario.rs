//! Single faults under a steady load on one hot key, and what they cost.

mod cut;
mod estimate;
mod even;
mod restart;
mod scale;
mod setup;
mod sparse;
mod spray;
mod stall;
mod tally;

use crate::options::{Args, Kind};
use crate::report::Report;

/// Simulates one seed.
pub fn run(args: &Args, seed: u64) -> Report {
    match args.scenario {
        Kind::Cut => cut::run(args, seed),
        Kind::Stall => stall::run(args, seed),
        Kind::Restart => restart::run(args, seed),
        Kind::Sparse => sparse::run(args, seed),
        Kind::Scale => scale::run(args, seed),
        Kind::Spray => spray::run(args, seed),
        Kind::Even | Kind::Chaos => even::run(args, seed),
    }
}
