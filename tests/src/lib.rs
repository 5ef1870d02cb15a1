//! Starts real nodes and talks to them. The tests are in `tests/`.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod binary;
mod node;
mod resp;
mod web;

pub use binary::{binary, repository};
pub use node::{Node, Output, Starting, mistake, run, run_into};
pub use resp::{Raw, redis};
pub use web::{Reply, get, get_as, post};

use std::time::{Duration, Instant};

/// How long anything may take that has to happen. Far more than it should take: a machine may be
/// busy, and only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Asks again and again until the answer is yes; panics when patience runs out.
///
/// # Panics
/// When `condition` does not hold within [`PATIENCE`].
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
