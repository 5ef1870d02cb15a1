use core::num::NonZeroU32;
use std::cell::Cell;

use super::*;

/// A limiter for one key whose clock advances a second per reading, and which can report wrongly.
struct Honest {
    reading: Cell<u32>,
    theoretical_arrival: Cell<Duration>,
    skew: Cell<Duration>,
    interval: Duration,
}

// Tests use one thread.
struct Alone(std::sync::Mutex<Honest>);

impl Alone {
    fn with<T>(&self, act: impl FnOnce(&Honest) -> T) -> T {
        act(&self.0.lock().unwrap())
    }
}

impl Honest {
    fn now(&self) -> Duration {
        self.reading.set(self.reading.get() + 1);
        Duration::from_secs(self.reading.get().into())
    }
}

impl Contender for Alone {
    const NAME: &'static str = "alone";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(std::sync::Mutex::new(Honest {
            reading: Cell::new(0),
            theoretical_arrival: Cell::new(Duration::ZERO),
            skew: Cell::new(Duration::ZERO),
            interval: plan.interval,
        })))
    }

    fn check(&self, key: &String) -> bool {
        self.admit(key, NonZeroU32::MIN)
    }

    fn admit(&self, _: &String, units: NonZeroU32) -> bool {
        self.with(|honest| {
            let from = honest.theoretical_arrival.get().max(honest.now());
            honest.theoretical_arrival.set(from + honest.interval * units.get());
        });
        true
    }

    fn live_keys(&self) -> Option<usize> {
        Some(1)
    }
}

impl Audited for Alone {
    fn now(&self) -> Duration {
        self.with(Honest::now)
    }

    fn debt(&self, _: &String) -> Duration {
        self.with(|honest| {
            (honest.theoretical_arrival.get() + honest.skew.get()).saturating_sub(honest.now())
        })
    }

    fn evicted(&self) -> u64 {
        0
    }
}

fn after_three_checks() -> (Plan, Alone, Witness<String>) {
    let plan = Plan::allowing(1, 100).unwrap();
    let limiter = Alone::build(&plan).unwrap();
    let witness = Witness::warm_up(&limiter, &plan, 0).unwrap();
    for _ in 0..3 {
        assert!(limiter.check(&key_of(0)));
    }
    (plan, limiter, witness)
}

#[test]
fn a_key_that_owes_its_checks_passes() {
    let (plan, limiter, witness) = after_three_checks();
    assert_eq!(witness.testify(&limiter, &plan, 3), Ok(()));
}

#[test]
fn a_check_too_many_or_too_few_is_found() {
    let (plan, limiter, witness) = after_three_checks();
    assert!(matches!(witness.testify(&limiter, &plan, 2), Err(Failure::Debt { .. })));
    assert!(matches!(witness.testify(&limiter, &plan, 4), Err(Failure::Debt { .. })));
}

#[test]
fn the_bounds_are_a_few_clock_readings_wide() {
    let (plan, limiter, witness) = after_three_checks();
    limiter.with(|honest| honest.skew.set(Duration::from_secs(5)));
    assert!(matches!(witness.testify(&limiter, &plan, 3), Err(Failure::Debt { .. })));
}

#[test]
fn a_first_check_is_owed_once() {
    let plan = Plan::allowing(1, 100).unwrap();
    let limiter = Alone::build(&plan).unwrap();
    let not_before = limiter.now();
    assert!(limiter.check(&key_of(0)));
    let witness = Witness::<String>::first_check(0, not_before, limiter.now());
    assert_eq!(witness.testify(&limiter, &plan, 0), Ok(()));
    assert!(limiter.check(&key_of(0)));
    assert!(matches!(witness.testify(&limiter, &plan, 0), Err(Failure::Debt { .. })));
}

#[test]
fn samples_ascend_within_the_keys_and_hold_the_first() {
    for keys in [1, 2, 999, 1_000, 1_001, 1_000_000] {
        let sample = sample(keys);
        assert_eq!(sample.len(), keys.min(SAMPLED_KEYS));
        assert_eq!(sample[0], 0);
        assert!(sample.is_sorted_by(|one, other| one < other), "{keys} keys");
        assert!(sample.iter().all(|index| (*index as usize) < keys), "{keys} keys");
    }
}

#[test]
fn any_other_share_than_the_planned_one_is_a_failure() {
    let allowing = Plan::allowing(1, 10).unwrap();
    assert_eq!(share::<Alone>(&allowing, 10, 10), Ok(()));
    assert!(share::<Alone>(&allowing, 9, 10).is_err());
    let denying = Plan::denying(1);
    assert_eq!(share::<Alone>(&denying, 0, 10), Ok(()));
    assert!(share::<Alone>(&denying, 1, 10).is_err());
}
