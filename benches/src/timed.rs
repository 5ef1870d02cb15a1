//! One round of one limiter.

use core::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::audit;
use crate::contenders::Contender;
use crate::failure::Failure;
use crate::script::{Keys, Script};
use crate::workloads::Plan;

/// Runs all scripts concurrently, each on its own thread; returns the throughput in millions per
/// second, from the first thread's start to the last one's end.
///
/// # Errors
/// When the share of allowed checks is not that of the plan.
pub fn round<C: Contender>(contender: &C, plan: &Plan, scripts: &[Script]) -> Result<f64, Failure> {
    let barrier = Barrier::new(scripts.len());
    let perform = |script: &Script| {
        barrier.wait();
        let start = Instant::now();
        let allowed = check_all(contender, script);
        (start, Instant::now(), allowed)
    };
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> =
            scripts.iter().map(|script| scope.spawn(|| perform(script))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Result<Vec<_>, _>>()
    });
    let outcomes =
        outcomes.map_err(|_| Failure::SetUp(format!("{}: a thread panicked", C::label())))?;

    let checks = scripts.iter().map(Script::checks).sum();
    audit::share::<C>(plan, outcomes.iter().map(|(_, _, allowed)| allowed).sum(), checks)?;
    let start = outcomes.iter().map(|(start, _, _)| *start).min();
    let end = outcomes.iter().map(|(_, end, _)| *end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    Ok(checks as f64 / elapsed.as_secs_f64() / 1e6)
}

/// Checks every key and counts the allowed ones.
#[inline(never)]
pub fn check_all<C: Contender>(contender: &C, script: &Script) -> u64 {
    let mut allowed = 0;
    for _ in 0..script.laps() {
        allowed += match script.keys() {
            Keys::InOrder(keys) => contender.check_all(black_box(keys)),
            Keys::Scattered(pool, places) => {
                let pool = black_box(pool);
                contender.check_each(places.iter().map(|place| &pool[*place as usize]))
            }
        };
    }
    allowed
}
