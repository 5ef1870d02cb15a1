use core::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::contenders::{GovernorString, Precise};

fn settings(keys: usize) -> Settings {
    Settings { threads: vec![1, 2], runs: 3, checks: 640, keys, seed: 11 }
}

fn run_small(workload: Workload, keys: usize) -> Vec<Measured> {
    let mut reported = Vec::new();
    run::<Precise, GovernorString>(workload, &settings(keys), |measured| {
        reported.push(measured.clone());
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
        (Workload::Uniform10M, 5_000),
    ] {
        let reported = run_small(workload, keys);
        let threads: Vec<_> = reported.iter().map(|measured| measured.threads).collect();
        assert_eq!(threads, [1, 2], "{workload:?}");
        for rates in reported.iter().flat_map(|measured| [measured.ours, measured.peer]) {
            assert!(rates.min > 0.0 && rates.min <= rates.median && rates.median <= rates.max);
        }
    }
}

/// Ours, but it forgets to check every other key.
struct Forgetful(Precise, AtomicU32);

impl Contender for Forgetful {
    const NAME: &'static str = "forgetful";

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(Precise::build(plan)?, AtomicU32::new(0)))
    }

    fn check(&self, key: &String) -> bool {
        let skip = self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        skip || self.0.check(key)
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.0.admit(key, units)
    }

    fn live_keys(&self) -> usize {
        self.0.live_keys()
    }
}

impl Audited for Forgetful {
    const VARIANT: &'static str = "forgetful";

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn debt(&self, key: &str) -> Duration {
        self.0.debt(key)
    }

    fn evicted(&self) -> u64 {
        self.0.evicted()
    }
}

#[test]
fn charges_that_get_lost_void_the_figures() {
    let outcome = run::<Forgetful, GovernorString>(Workload::Zipf1M, &settings(5_000), |_| ());
    assert!(matches!(outcome, Err(Failure::Debt { .. })), "{outcome:?}");
}

#[test]
fn the_median_of_an_even_number_lies_between_the_middle_two() {
    assert_eq!(Rates::of(vec![4.0, 1.0, 3.0]), Rates { min: 1.0, median: 3.0, max: 4.0 });
    assert_eq!(Rates::of(vec![4.0, 1.0, 3.0, 2.0]), Rates { min: 1.0, median: 2.5, max: 4.0 });
}
