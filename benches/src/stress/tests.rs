use super::keys::{neighbours, rivals};
use super::ledger::{Admission, Ledger};
use super::*;

const SETTINGS: Settings = Settings { checks: 340_000, threads: 4, seed: 20_261_121 };

#[test]
fn phases_without_evictions_admit_exactly_what_fits() {
    let keys = rivals(96, SETTINGS.seed).unwrap();
    let outcome = phases::run(&SETTINGS, &keys, 32, false).unwrap();
    assert!(outcome.checks >= 330_000 && outcome.admitted > outcome.checks / 20, "{outcome:?}");
    assert!(outcome.handovers > outcome.checks / 100, "{outcome:?}");
}

#[test]
fn phases_with_evictions_admit_no_more_than_those_explain() {
    let keys = rivals(96, SETTINGS.seed).unwrap();
    let outcome = phases::run(&SETTINGS, &keys, 52, true).unwrap();
    assert!(outcome.evicted > 1_000, "{outcome:?}");
}

#[test]
fn no_interval_admits_too_much_while_time_runs() {
    let keys = rivals(96, SETTINGS.seed).unwrap();
    for outcome in [timed::run_precise(&SETTINGS, &keys), timed::run_recent(&SETTINGS, &keys)] {
        let outcome = outcome.unwrap();
        assert!(outcome.admitted > outcome.checks / 20, "{outcome:?}");
        assert!(outcome.handovers > outcome.checks / 100, "{outcome:?}");
    }
}

#[test]
fn keys_that_keep_their_slots_are_too_easy() {
    let keys = neighbours(64, SETTINGS.seed);
    let outcome = phases::run(&SETTINGS, &keys, 32, false);
    assert!(matches!(outcome, Err(Violation::Settled { .. })), "{outcome:?}");
}

#[test]
fn no_interval_admits_too_much_while_threads_lease() {
    let outcome = timed::run_leased(&SETTINGS, &neighbours(48, SETTINGS.seed)).unwrap();
    assert!(outcome.admitted > outcome.checks / 20, "{outcome:?}");
}

fn at(before: u64, after: u64) -> Admission {
    Admission { before, after }
}

/// Brute force over all intervals.
fn worst_of(interval: i64, admissions: &[Admission]) -> i64 {
    let ends = admissions.iter().map(|admission| admission.after);
    let inside = |s, t| admissions.iter().filter(move |a| a.before >= s && a.after <= t).count();
    ends.flat_map(|t| admissions.iter().map(move |a| (a.before, t)))
        .filter(|(s, t)| inside(*s, *t) > 0)
        .map(|(s, t)| inside(s, t).cast_signed() as i64 * interval - (t - s).cast_signed())
        .max()
        .unwrap_or(i64::MIN)
}

#[test]
fn a_ledger_finds_the_worst_interval() {
    use rand::{RngExt as _, SeedableRng as _};
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for _ in 0..300 {
        let (mut all, mut ledger, mut now) = (Vec::new(), Ledger::new(100), 1_000);
        for _ in 0..rng.random_range(1..5) {
            let mut batch: Vec<_> = (0..rng.random_range(0..20))
                .map(|_| {
                    let before = now + rng.random_range(0..500);
                    at(before, before + rng.random_range(0..200))
                })
                .collect();
            now += 1_000;
            all.extend_from_slice(&batch);
            ledger.enter(&mut batch);
            assert_eq!(ledger.worst(), worst_of(100, &all), "{all:?}");
        }
    }
}

#[test]
fn a_unit_too_many_is_found() {
    let mut ledger = Ledger::new(100);
    ledger.enter(&mut [at(0, 1), at(0, 1), at(0, 1)]);
    assert!(ledger.worst() <= 300, "a burst of 3");
    ledger.enter(&mut [at(110, 111), at(112, 114)]);
    assert_eq!(ledger.worst(), 500 - 114, "five in 114 ns are more than 3 + 114 / 100");
}
