//! One workload, two limiters, in turn.
//!
//! Both limiters get the same keys in the same order. A thread's keys stand in memory as strings in
//! the order of their use, as a request's key is at hand when it is checked: what is timed is the
//! limiter and no look-up of the key's text. Every round draws new keys.

use core::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::audit;
use crate::contenders::{Audited, Contender};
use crate::draw::{Draw, shuffled, write_key};
use crate::failure::Failure;
use crate::warm_up::{warm_up, warm_up_audited};
use crate::workloads::{Plan, Workload};

/// How much is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Thread counts to run with, each at least 1.
    pub threads: Vec<usize>,
    /// Timed rounds for each thread count; the median is reported. At least 1.
    pub runs: u32,
    /// Checks of each thread in a round.
    pub checks: u32,
    /// Keys that are live throughout.
    pub keys: usize,
    /// What the drawn keys follow from.
    pub seed: u64,
}

/// Throughput of both limiters in all rounds with one thread count.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Threads that checked at the same time.
    pub threads: usize,
    /// Ours.
    pub ours: Rates,
    /// The peer.
    pub peer: Rates,
    /// The longest time our clock has stood still so far, if it is one that does.
    pub staleness: Option<Duration>,
}

/// Throughput of one limiter: checks of all threads together, in millions a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The slowest round.
    pub min: f64,
    /// The middle round.
    pub median: f64,
    /// The fastest round.
    pub max: f64,
}

impl Rates {
    /// The summary of at least one round.
    fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let last = rounds.len() - 1;
        Self {
            min: rounds[0],
            median: f64::midpoint(rounds[last / 2], rounds[rounds.len() / 2]),
            max: rounds[last],
        }
    }
}

/// Runs a workload with every thread count and hands each result to `report` as it is there.
///
/// The limiters are built and filled once. After each thread count, the outcome is audited.
///
/// # Errors
/// When what happened is not what the workload is named after.
pub fn run<O: Audited, P: Contender>(
    workload: Workload,
    settings: &Settings,
    mut report: impl FnMut(&Measured),
) -> Result<(), Failure> {
    let most_threads = settings.threads.iter().copied().max().unwrap_or(1);
    let checks_per_thread = u64::from(settings.runs) * u64::from(settings.checks);
    let checks = checks_per_thread * settings.threads.iter().sum::<usize>() as u64;
    let plan = workload.plan(settings.keys, checks)?;

    let mut scripts = Vec::new();
    for thread in 0..most_threads {
        scripts.push(Script::new(workload, settings, thread)?);
    }
    let mut tally = vec![0; plan.keys];
    // Where a key comes to lie may depend on who was first; neither rare nor frequent keys are.
    let order = shuffled(plan.keys, settings.seed);
    let ours = O::build(&plan)?;
    let witnesses = warm_up_audited(&ours, &plan, &order)?;
    let peer = P::build(&plan)?;
    warm_up(&peer, &plan, &order)?;

    for &threads in &settings.threads {
        let scripts = &mut scripts[..threads];
        let (mut ours_rates, mut peer_rates) = (Vec::new(), Vec::new());
        for _ in 0..settings.runs {
            for script in &mut *scripts {
                script.redraw(&mut tally);
            }
            ours_rates.push(round(&ours, &plan, scripts)?);
            peer_rates.push(round(&peer, &plan, scripts)?);
        }
        for witness in &witnesses {
            let admitted = if plan.allowed { tally[witness.index() as usize] } else { 0 };
            witness.testify(&ours, &plan, admitted)?;
        }
        audit::evicted(&ours)?;
        let staleness = ours.staleness();
        let (ours, peer) = (Rates::of(ours_rates), Rates::of(peer_rates));
        report(&Measured { threads, ours, peer, staleness });
    }
    audit::live_keys(&ours, &plan)?;
    audit::live_keys(&peer, &plan)
}

/// The keys one thread checks in a round, in order, `laps` times over.
#[derive(Debug)]
struct Script {
    draw: Draw,
    keys: Vec<String>,
    laps: u32,
}

impl Script {
    /// A single key is repeated this often, so that stepping through the list costs nothing and
    /// the list stays in the first-level cache.
    const HOT_KEYS: u32 = 64;

    fn new(workload: Workload, settings: &Settings, thread: usize) -> Result<Self, Failure> {
        let draw = Draw::new(workload, settings.keys, settings.seed, thread)?;
        let (length, laps) = match settings.keys {
            1 => (Self::HOT_KEYS, settings.checks / Self::HOT_KEYS),
            _ => (settings.checks, 1),
        };
        let keys = (0..length).map(|_| String::new()).collect();
        Ok(Self { draw, keys, laps })
    }

    /// Draws new keys into the same strings, and counts them.
    fn redraw(&mut self, tally: &mut [u32]) {
        for key in &mut self.keys {
            let index = self.draw.next_index();
            write_key(key, index);
            tally[index as usize] += self.laps;
        }
    }

    fn checks(&self) -> u64 {
        self.keys.len() as u64 * u64::from(self.laps)
    }

    /// Checks every key and counts what was allowed.
    #[inline(never)]
    fn perform<C: Contender>(&self, contender: &C) -> u64 {
        let mut allowed = 0;
        for _ in 0..self.laps {
            allowed += contender.check_all(black_box(&self.keys));
        }
        allowed
    }
}

/// Runs every script on a thread of its own, at the same time; the throughput in millions a second,
/// from the first thread's start to the last one's end.
fn round<C: Contender>(contender: &C, plan: &Plan, scripts: &[Script]) -> Result<f64, Failure> {
    let barrier = Barrier::new(scripts.len());
    let perform = |script: &Script| {
        barrier.wait();
        let start = Instant::now();
        let allowed = script.perform(contender);
        (start, Instant::now(), allowed)
    };
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> =
            scripts.iter().map(|script| scope.spawn(|| perform(script))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Result<Vec<_>, _>>()
    });
    let outcomes =
        outcomes.map_err(|_| Failure::SetUp(format!("{}: a thread panicked", C::NAME)))?;

    let checks = scripts.iter().map(Script::checks).sum();
    audit::share::<C>(plan, outcomes.iter().map(|(_, _, allowed)| allowed).sum(), checks)?;
    let start = outcomes.iter().map(|(start, _, _)| *start).min();
    let end = outcomes.iter().map(|(_, end, _)| *end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    Ok(checks as f64 / elapsed.as_secs_f64() / 1e6)
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
