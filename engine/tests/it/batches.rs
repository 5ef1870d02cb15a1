//! A batch decides as its checks would one after another, also where time passes within the call.

use std::cell::RefCell;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::DebtRule;
use tidegate_engine::{
    Clock, Decision, FixedWindow, Limiter, LiveQuota, ManualClock, Quota, Rule, SlidingWindow,
};

/// Advances with every reading, by each of its steps in turn, and keeps the readings.
struct Ticking {
    steps: Vec<u64>,
    readings: RefCell<Vec<Timestamp>>,
}

impl Ticking {
    fn new(steps: Vec<u64>) -> Self {
        Self { steps, readings: RefCell::new(vec![Timestamp::ORIGIN]) }
    }

    /// The readings since the last call, in the order of time; then the clock advances by `gap`.
    fn take(&self, gap: u64) -> Vec<Timestamp> {
        let last = self.readings.borrow().last().copied().unwrap();
        let later = last.saturating_add(Duration::from_nanos(gap));
        self.readings.replace(vec![later]).split_off(1)
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        let mut readings = self.readings.borrow_mut();
        let step = self.steps[readings.len() % self.steps.len()];
        let now = readings.last().unwrap().saturating_add(Duration::from_nanos(step));
        readings.push(now);
        now
    }
}

/// A key and a cost.
type Check = (u8, u64);

/// A gap in nanoseconds before a batch, and its checks.
type Batches = Vec<(u64, Vec<Check>)>;

/// Readings at which a key's checks so far can have been decided, in turn.
#[derive(Clone)]
struct History {
    /// The checks that changed the key's word.
    charged: Vec<(u64, Timestamp)>,
    last: Timestamp,
    /// What the word says then, and later: two histories that agree in it are one.
    word: [Decision; 2],
}

/// The checks of a batch one by one, each of a key of its own for each history.
struct InTurn<F> {
    check_at: F,
    /// Whether denied checks change the word.
    charges_denied: bool,
    histories: [Vec<History>; 256],
    forks: u64,
}

impl<F: Fn((u8, u64), u64, Timestamp) -> Decision> InTurn<F> {
    fn new(charges_denied: bool, check_at: F) -> Self {
        let word = [check_at((0, 0), 0, Timestamp::ORIGIN); 2];
        let fresh = History { charged: Vec::new(), last: Timestamp::ORIGIN, word };
        let histories = [(); 256].map(|()| vec![fresh.clone()]);
        Self { check_at, charges_denied, histories, forks: 0 }
    }

    /// Whether `decision` is that of this check at one of the readings, none of which is before
    /// that of the key's check before it.
    fn explains(&mut self, (key, cost): Check, readings: &[Timestamp], decision: Decision) -> bool {
        const LATER: Duration = Duration::from_secs(1);
        let mut explained: Vec<History> = Vec::new();
        for history in &self.histories[usize::from(key)] {
            for &now in readings.iter().filter(|now| **now >= history.last) {
                self.forks += 1;
                let check = |cost, now| (self.check_at)((key, self.forks), cost, now);
                for &(cost, now) in &history.charged {
                    let _ = check(cost, now);
                }
                if check(cost, now) != decision {
                    continue;
                }
                let mut charged = history.charged.clone();
                if cost > 0 && (decision.is_allowed() || self.charges_denied) {
                    charged.push((cost, now));
                }
                let word = [check(0, now), check(0, now.saturating_add(LATER))];
                if !explained.iter().any(|it| it.last == now && it.word == word) {
                    explained.push(History { charged, last: now, word });
                }
            }
        }
        let explains = !explained.is_empty();
        self.histories[usize::from(key)] = explained;
        explains
    }
}

/// Whether all decisions of the batches are those of the same checks in turn, each at a reading of
/// the clock that was taken in the call.
fn agree(
    clock: &Ticking,
    batches: Batches,
    check_many: impl Fn(&[Check], &mut Vec<Decision>),
    mut in_turn: InTurn<impl Fn((u8, u64), u64, Timestamp) -> Decision>,
) -> Result<(), TestCaseError> {
    let mut decisions = Vec::new();
    for (gap, checks) in batches {
        clock.take(gap);
        check_many(&checks, &mut decisions);
        prop_assert_eq!(decisions.len(), checks.len());
        let readings = clock.take(0);
        for (index, (check, decision)) in checks.iter().zip(&decisions).enumerate() {
            let explains = in_turn.explains(*check, &readings, *decision);
            prop_assert!(explains, "{index}: {check:?} of {checks:?}: {decision:?}");
        }
    }
    Ok(())
}

/// The keys, if all costs are 1: then the batch is one of `check_many`, else of `check_many_n`.
fn of_ones(checks: &[Check]) -> Option<Vec<u8>> {
    checks.iter().map(|(key, cost)| (*cost == 1).then_some(*key)).collect()
}

/// Keys of which most occur several times, and in more than one batch.
fn batches() -> impl Strategy<Value = Batches> {
    let key = || prop_oneof![3 => 0_u8..4, 2 => 0_u8..20];
    let cost = prop_oneof![4 => 0_u64..4, 2 => 0_u64..40, 1 => any::<u64>()];
    let gap = prop_oneof![1 => Just(0_u64), 2 => 0_u64..1_000, 2 => 0_u64..5_000_000];
    let checks = prop_oneof![
        prop::collection::vec((key(), Just(1)), 1..80),
        prop::collection::vec((key(), cost), 1..80),
    ];
    prop::collection::vec((gap, checks), 1..5)
}

/// By how much the clock advances with a reading.
fn steps() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![1 => 1_u64..100, 1 => 1_u64..100_000, 1 => 1_u64..10_000_000];
    step.prop_flat_map(|most| prop::collection::vec(1..=most, 7))
}

fn quota() -> impl Strategy<Value = Quota> {
    let interval = prop_oneof![2 => 1_u64..1_000, 2 => 1_u64..1_000_000, 2 => Just(1 << 40)];
    (interval, 1_u64..4, 1_u64..40).prop_map(|(interval, count, burst)| {
        Quota::new(count, Duration::from_nanos(interval + count)).burst(burst)
    })
}

/// A limiter without the batches' clock, for the checks in turn.
fn twin<R: DebtRule>(rule: R, denied_bursts: u64) -> Limiter<R, ManualClock> {
    let builder = Limiter::builder(rule).capacity(200_000).clock(ManualClock::new());
    builder.charge_denied(denied_bursts).build().unwrap()
}

fn windows_agree(rule: impl Rule, steps: Vec<u64>, batches: Batches) -> Result<(), TestCaseError> {
    let clock = Ticking::new(steps);
    let limiter = Limiter::builder(rule).capacity(1_000).clock(&clock).build().unwrap();
    let twin = Limiter::builder(rule).capacity(200_000).clock(ManualClock::new()).build().unwrap();
    let in_turn = InTurn::new(false, |key, cost, now| twin.check_at(key, cost, now));
    let check_many = |checks: &[Check], decisions: &mut Vec<Decision>| match of_ones(checks) {
        Some(keys) => limiter.check_many(&keys, decisions),
        None => limiter.check_many_n(checks, decisions),
    };
    agree(&clock, batches, check_many, in_turn)
}

fn quotas_agree<R: DebtRule>(
    rule: R,
    denied_bursts: u64,
    steps: Vec<u64>,
    batches: Batches,
) -> Result<(), TestCaseError> {
    let clock = Ticking::new(steps);
    let builder = Limiter::builder(rule).capacity(1_000).clock(&clock);
    let limiter = builder.charge_denied(denied_bursts).build().unwrap();
    let twin = twin(rule, denied_bursts);
    let charges_denied = denied_bursts > 0;
    let in_turn = InTurn::new(charges_denied, |key, cost, now| twin.check_at(key, cost, now));
    let check_many = |checks: &[Check], decisions: &mut Vec<Decision>| match of_ones(checks) {
        Some(keys) => limiter.check_many(&keys, decisions),
        None => limiter.check_many_n(checks, decisions),
    };
    agree(&clock, batches, check_many, in_turn)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_batch_decides_as_its_checks_in_turn(
        quota in quota(),
        denied_bursts in 0_u64..3,
        steps in steps(),
        batches in batches(),
    ) {
        quotas_agree(quota, denied_bursts, steps, batches)?;
    }

    #[test]
    fn a_batch_under_a_quota_that_changes_decides_as_its_checks_in_turn(
        quota in quota(),
        denied_bursts in 0_u64..3,
        steps in steps(),
        batches in batches(),
    ) {
        quotas_agree(LiveQuota::new(quota), denied_bursts, steps, batches)?;
    }

    #[test]
    fn a_batch_under_a_given_quota_decides_as_its_checks_in_turn(
        own in quota(),
        quota in quota(),
        denied_bursts in 0_u64..3,
        steps in steps(),
        batches in batches(),
    ) {
        let clock = Ticking::new(steps);
        let builder = Limiter::builder(own).capacity(1_000).clock(&clock);
        let limiter = builder.charge_denied(denied_bursts).build().unwrap();
        let twin = twin(own, denied_bursts);
        let (given, twin) = (limiter.with_quota(&quota).unwrap(), twin.with_quota(&quota).unwrap());
        let charges_denied = denied_bursts > 0;
        let in_turn = InTurn::new(charges_denied, |key, cost, now| twin.check_at(key, cost, now));
        let check_many = |checks: &[Check], decisions: &mut Vec<Decision>| {
            match of_ones(checks) {
                Some(keys) => given.check_many(&keys, decisions),
                None => given.check_many_n(checks, decisions),
            }
        };
        agree(&clock, batches, check_many, in_turn)?;
    }

    #[test]
    fn a_batch_under_windows_decides_as_its_checks_in_turn(
        limit in 1_u64..40,
        // A word of a shorter window does not hold as many.
        window in prop_oneof![10_000_u64..1_000_000, Just(1_000_000_000)],
        steps in steps(),
        batches in batches(),
    ) {
        let window = Duration::from_nanos(window);
        windows_agree(FixedWindow::new(limit, window), steps.clone(), batches.clone())?;
        windows_agree(SlidingWindow::new(limit, window), steps, batches)?;
    }
}

const TRIALS: u64 = 2_000;

fn allowed(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|it| it.is_allowed()).count()
}

/// On the real clock, which advances between the batch's first reading and that for a new key.
#[test]
fn a_new_key_that_occurs_several_times_is_admitted_what_fits() {
    let slow = Quota::per_hour(1).burst(2);
    let plain = Limiter::new(slow).unwrap();
    let charging = Limiter::builder(slow).charge_denied(1).build().unwrap();
    let (other, live) = (Limiter::new(Quota::per_second(7)).unwrap(), LiveQuota::new(slow));
    let live = Limiter::new(live).unwrap();
    let windows = Limiter::new(SlidingWindow::per_day(2)).unwrap();
    let mut decisions = Vec::new();
    for key in 0..TRIALS {
        let keys = [key; 3];
        plain.check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), 2, "key {key}");
        charging.check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), 2, "key {key} where denials are charged");
        other.with_quota(&slow).unwrap().check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), 2, "key {key} under a given quota");
        live.check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), 2, "key {key} under a quota that changes");
        windows.check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), 2, "key {key} under windows");
    }
}

#[test]
fn a_new_key_that_fills_more_than_one_pass_is_admitted_what_fits() {
    const BURST: u64 = 1_000;
    let slow = Quota::per_hour(1).burst(BURST);
    let plain = Limiter::new(slow).unwrap();
    let leased = Limiter::builder(slow).lease_units(64).build().unwrap();
    assert!(leased.lease_units() > 0 || std::thread::available_parallelism().unwrap().get() > 15);
    let mut decisions = Vec::new();
    for key in 0..100_u64 {
        let keys = [key; BURST as usize + 1];
        plain.check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), BURST as usize, "key {key}");
        leased.check_many(&keys, &mut decisions);
        assert_eq!(allowed(&decisions), BURST as usize, "key {key}, leased");
    }
}
