//! Shaping outgoing calls: a partner's API takes 20 calls a second, and several threads share that. Each call is
//! told its turn when it asks, first come first served; with `acquire` instead of `acquire_blocking` tasks wait likewise.
//!
//! Run it with `cargo run -p tidegate-engine --example outgoing`; it ends by itself after about half a second.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_engine::{BuildError, Limiter, Quota};

const WORKERS: usize = 3;
const CALLS_EACH: usize = 4;

/// How long a call may wait for its turn before it is given up.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), BuildError> {
    let partner = Limiter::builder(Quota::per_second(20).burst(2)).capacity(1).build()?;
    let start = Instant::now();
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let partner = &partner;
            scope.spawn(move || {
                for call in 0..CALLS_EACH {
                    if partner.acquire_blocking("partner", 1, PATIENCE).is_allowed() {
                        println!(
                            "{:>4} ms: worker {worker}, call {call}",
                            start.elapsed().as_millis()
                        );
                    } else {
                        println!("worker {worker}, call {call}: given up");
                    }
                }
            });
        }
    });
    Ok(())
}
