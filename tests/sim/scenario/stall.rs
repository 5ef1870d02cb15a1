//! The last node is stopped for a while, as by SIGSTOP, and goes on with what has arrived.

use super::cut::around;
use super::setup::nodes;
use crate::options::Args;
use crate::report::Report;

pub fn run(args: &Args, seed: u64) -> Report {
    let last = nodes(args) - 1;
    around(args, seed, |world, tally| {
        world.stop(last, args.fault());
        world.pass(args.fault(), tally);
    })
}
