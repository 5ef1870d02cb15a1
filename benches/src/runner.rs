//! Runs one workload on any number of limiters, alternately.
//!
//! All limiters get the same keys in the same order, and every round draws new ones. Within a round
//! each limiter runs once, and a different one is first each time, so that disturbances of the
//! machine affect all alike.
//!
//! All limiters of a workload exist throughout; the upkeep threads of some also run during the
//! rounds of the others.

use crate::contenders::{Label, Remarks};
use crate::draw::arrivals;
use crate::entrant::{Entry, Round};
use crate::failure::Failure;
use crate::script::Script;
use crate::workloads::Workload;

/// The amount of work.
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
    /// Seed of the drawn keys.
    pub seed: u64,
}

/// Throughput of one limiter in all rounds with one thread count.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The limiter.
    pub label: Label,
    /// The variant of ours to compare it with; none for ours.
    pub against: Option<&'static str>,
    /// Its throughput.
    pub rates: Rates,
    /// Its throughput in each round.
    pub rounds: Vec<f64>,
    /// Remarks to publish with it.
    pub remarks: Remarks,
}

/// Throughput of one limiter: checks of all threads together, in millions per second.
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

impl Measured {
    /// How many times as fast as `other`, which ran in the same rounds: the median of the ratios by
    /// round. A disturbance of a round affects both.
    #[must_use]
    pub fn ratio_to(&self, other: &Self) -> f64 {
        let ratios = self.rounds.iter().zip(&other.rounds).map(|(one, other)| one / other);
        Rates::of(ratios.collect()).median
    }
}

/// Runs a workload whose keys are inserted before the first round, with every thread count, and
/// passes each result to `report`: the number of threads, and the measurement of each entry, in the
/// entries' order.
///
/// The limiters are built and filled once; after each thread count, the outcome is audited.
///
/// # Errors
/// When the outcome is not the one that the workload is named after.
pub fn run(
    workload: Workload,
    settings: &Settings,
    entries: &[Entry],
    mut report: impl FnMut(usize, Vec<Measured>),
) -> Result<(), Failure> {
    let checks_per_thread = u64::from(settings.runs) * u64::from(settings.checks);
    let checks = checks_per_thread * settings.threads.iter().sum::<usize>() as u64;
    let plan = workload.plan(settings.keys, checks)?;
    let mut scripts = scripts(workload, settings)?;
    let mut tally = vec![0; plan.keys];
    // Placement may depend on the order of insertion: frequent keys are inserted early.
    let order = arrivals(workload, plan.keys, settings.seed)?;
    let mut entrants = Vec::with_capacity(entries.len());
    for entry in entries {
        entrants.push((entry.enter)(&plan, &order)?);
    }

    for &threads in &settings.threads {
        let scripts = &mut scripts[..threads];
        let mut rounds = Rounds::of(entries);
        for run in 0..settings.runs {
            for script in &mut *scripts {
                script.redraw(|index, checks| tally[index as usize] += checks);
            }
            rounds.take_turns(run, |nth| {
                let mops = entrants[nth].round(&plan, scripts)?;
                Ok(Round { mops, remarks: entrants[nth].remarks() })
            })?;
        }
        for entrant in &entrants {
            entrant.audit(&plan, &tally)?;
        }
        report(threads, rounds.summarise(entries));
    }
    Ok(())
}

/// As [`run`], with keys that are new in each round: `turn` runs one round of an entry with a
/// number of threads.
///
/// # Errors
/// When a round fails.
pub fn run_first_checks(
    settings: &Settings,
    entries: &[Entry],
    mut turn: impl FnMut(&Entry, usize) -> Result<Round, Failure>,
    mut report: impl FnMut(usize, Vec<Measured>),
) -> Result<(), Failure> {
    for &threads in &settings.threads {
        let mut rounds = Rounds::of(entries);
        for run in 0..settings.runs {
            rounds.take_turns(run, |nth| turn(&entries[nth], threads))?;
        }
        report(threads, rounds.summarise(entries));
    }
    Ok(())
}

fn scripts(workload: Workload, settings: &Settings) -> Result<Vec<Script>, Failure> {
    let most_threads = settings.threads.iter().copied().max().unwrap_or(1);
    Script::of_threads(workload, settings.keys, settings.checks, settings.seed, most_threads)
}

/// The rounds of every entry with one thread count.
struct Rounds(Vec<Vec<Round>>);

impl Rounds {
    fn of(entries: &[Entry]) -> Self {
        Self(vec![Vec::new(); entries.len()])
    }

    /// Runs each entry once, starting with a different one in each run.
    fn take_turns(
        &mut self,
        run: u32,
        mut turn: impl FnMut(usize) -> Result<Round, Failure>,
    ) -> Result<(), Failure> {
        let count = self.0.len();
        for position in 0..count {
            let nth = (position + run as usize) % count;
            self.0[nth].push(turn(nth)?);
        }
        Ok(())
    }

    fn summarise(self, entries: &[Entry]) -> Vec<Measured> {
        let summary = |(entry, rounds): (&Entry, Vec<Round>)| {
            let remarks = rounds.iter().map(|round| round.remarks);
            let remarks = remarks.fold(Remarks::default(), Remarks::and);
            let rounds: Vec<f64> = rounds.iter().map(|round| round.mops).collect();
            let rates = Rates::of(rounds.clone());
            Measured { label: entry.label.clone(), against: entry.against, rates, rounds, remarks }
        };
        entries.iter().zip(self.0).map(summary).collect()
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
