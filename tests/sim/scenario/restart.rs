//! The last node is killed, and starts anew after a while.

use super::cut::around;
use super::setup::nodes;
use crate::options::Args;
use crate::report::Report;

pub fn run(args: &Args, seed: u64) -> Report {
    let last = nodes(args) - 1;
    around(args, seed, |world, tally| {
        world.crash(last);
        world.pass(args.fault(), tally);
        let others = world.live();
        world.start(last, &others);
    })
}
