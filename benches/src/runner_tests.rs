use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::contenders::{Audited, Contender, Ours, Precise};
use crate::first_checks::{self, Amount};
use crate::roster;
use crate::workloads::Plan;

fn settings(keys: usize) -> Settings {
    Settings { threads: vec![1, 2], runs: 3, checks: 640, keys, seed: 11 }
}

fn run_small(workload: Workload, keys: usize) -> Vec<(usize, Vec<Measured>)> {
    let entries = [roster::ours().remove(0), roster::reference()];
    let mut reported = Vec::new();
    run(workload, &settings(keys), &entries, |threads, measured| {
        reported.push((threads, measured));
    })
    .expect("every claim holds");
    reported
}

#[test]
fn every_workload_is_what_its_name_says() {
    for (workload, keys) in [
        (Workload::HotAllowed, 1),
        (Workload::HotDenied, 1),
        (Workload::Zipf1M, 5_000),
        (Workload::Zipf1MScattered, 5_000),
        (Workload::Uniform10M, 5_000),
    ] {
        let reported = run_small(workload, keys);
        let threads: Vec<_> = reported.iter().map(|(threads, _)| *threads).collect();
        assert_eq!(threads, [1, 2], "{workload:?}");
        for (_, measured) in reported {
            let labels: Vec<_> = measured.iter().map(|one| one.label.to_string()).collect();
            assert_eq!(labels, ["ours precise", "governor-string"]);
            for Measured { rates, .. } in measured {
                assert!(rates.min > 0.0 && rates.min <= rates.median && rates.median <= rates.max);
            }
        }
    }
}

/// Ours, but it skips every other check.
struct Forgetful {
    ours: Ours<Precise>,
    checks: AtomicU32,
}

impl Contender for Forgetful {
    const NAME: &'static str = "forgetful";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self { ours: Ours::build(plan)?, checks: AtomicU32::new(0) })
    }

    fn check(&self, key: &String) -> bool {
        let skip = self.checks.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        skip || self.ours.check(key)
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.ours.admit(key, units)
    }

    fn live_keys(&self) -> Option<usize> {
        self.ours.live_keys()
    }
}

impl Audited for Forgetful {
    fn now(&self) -> Duration {
        self.ours.now()
    }

    fn debt(&self, key: &String) -> Duration {
        self.ours.debt(key)
    }

    fn evicted(&self) -> u64 {
        self.ours.evicted()
    }
}

#[test]
fn charges_that_get_lost_void_the_figures() {
    let entries = [Entry::ours::<Forgetful>()];
    let outcome = run(Workload::Zipf1M, &settings(5_000), &entries, |_, _| ());
    assert!(matches!(outcome, Err(Failure::Debt { .. })), "{outcome:?}");
}

#[test]
fn first_checks_that_do_not_happen_void_the_figures() {
    let amount = Amount { threads: 2, checks: 500 };
    let outcome = first_checks::measure(&Entry::ours::<Forgetful>(), amount);
    assert!(matches!(outcome, Err(Failure::LiveKeys { found: 500, .. })), "{outcome:?}");
}

#[test]
fn every_contender_has_a_turn_in_each_round_and_another_one_is_first() {
    let entries = [roster::ours().remove(0), roster::reference(), Entry::ours::<Forgetful>()];
    let mut turns = Vec::new();
    let turn = |entry: &Entry, threads| {
        turns.push((threads, entry.label.contender.clone()));
        Ok(Round { mops: turns.len() as f64, remarks: Remarks::default() })
    };
    let mut medians = Vec::new();
    run_first_checks(&settings(1), &entries, turn, |threads, measured| {
        medians.push((threads, measured.iter().map(|one| one.rates.median).collect::<Vec<_>>()));
    })
    .expect("no turn fails");
    let [ours, governor, forgetful] = ["ours", "governor-string", "forgetful"];
    let rounds =
        [[ours, governor, forgetful], [governor, forgetful, ours], [forgetful, ours, governor]];
    let expected: Vec<_> = [1, 2]
        .into_iter()
        .flat_map(|threads| rounds.concat().into_iter().map(move |one| (threads, one.to_owned())))
        .collect();
    assert_eq!(turns, expected);
    // Of the turns with one thread, 1, 6 and 8 were ours.
    assert_eq!(medians, [(1, vec![6.0, 4.0, 5.0]), (2, vec![15.0, 13.0, 14.0])]);
}

#[test]
fn the_median_of_an_even_number_lies_between_the_middle_two() {
    assert_eq!(Rates::of(vec![4.0, 1.0, 3.0]), Rates { min: 1.0, median: 3.0, max: 4.0 });
    assert_eq!(Rates::of(vec![4.0, 1.0, 3.0, 2.0]), Rates { min: 1.0, median: 2.5, max: 4.0 });
}

/// The machine is three times as slow in the second round, and twice as fast in the third.
#[test]
fn a_ratio_is_of_what_ran_in_one_round() {
    let measured = |rounds: &[f64]| Measured {
        label: roster::reference().label,
        against: None,
        rates: Rates::of(rounds.to_vec()),
        rounds: rounds.to_vec(),
        remarks: Remarks::default(),
    };
    let (one, other) = (measured(&[6.0, 2.0, 12.0]), measured(&[4.0, 1.0, 10.0]));
    assert_eq!(one.ratio_to(&other).to_bits(), 1.5_f64.to_bits());
}
