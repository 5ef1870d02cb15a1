//! Any sequence of operations on a limiter, with keys or without, against the exact model that the
//! engine's own tests use.
#![no_main]

#[path = "../../engine/tests/it/exact/mod.rs"]
#[expect(dead_code, reason = "the engine's tests use more of it")]
mod exact;

use std::collections::BTreeMap;
use std::time::Duration;

use arbitrary::Arbitrary;
use exact::{Oracle, answer};
use libfuzzer_sys::fuzz_target;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Decision, DirectLimiter, Limiter, ManualClock, Quota};

#[derive(Arbitrary, Debug)]
struct Input {
    quota: QuotaOf,
    burst: u8,
    start_seconds: u16,
    kind: Kind,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum QuotaOf {
    /// A whole number of nanoseconds between units: everything is exact.
    Whole { count: u8, period: u8 },
    /// Any other interval: the clock is rounded to a unit of less than 2 ns.
    Any { count: u32, seconds: u16 },
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Keys, and a monotonic time.
    Keys,
    /// One key, and a time that also goes back.
    OneKey,
    /// No keys, and a time that also goes back.
    Single,
}

#[derive(Arbitrary, Debug)]
struct Step {
    /// Thirds of an emission interval since the previous step, plus nanoseconds.
    thirds: i8,
    nanos: u8,
    key: u8,
    operation: Operation,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Operation {
    Check(u8),
    CheckAny(u64),
    Peek,
    Charge(u8),
    Refund(u8),
    RefundAny(u64),
    Reset,
}

/// The most steps of one sequence: time stays within the range of words, 13.7 years.
const MAX_STEPS: usize = 200;
const KEYS: u8 = 4;
/// A unit is below 2 ns; the scale's own rounding stays far below another nanosecond.
const SLACK_NANOS: i128 = 3;

fuzz_target!(|input: Input| {
    let quota = input.quota.with_burst(u64::from(input.burst) + 1);
    let clock = ManualClock::new();
    let with_keys = || Limiter::builder(quota).capacity(64).clock(clock.clone()).build();
    let subject: Box<dyn Subject> = match input.kind {
        Kind::Single => Box::new(
            DirectLimiter::builder_with(quota, clock.clone()).build().expect("a sound quota"),
        ),
        _ => Box::new(with_keys().expect("a sound quota")),
    };
    let interval = i128::from(quota.period().as_nanos() as u64 / quota.count());
    let mut now = i128::from(input.start_seconds) * 1_000_000_000;
    let mut oracles: BTreeMap<u8, Oracle> = BTreeMap::new();
    for step in input.steps.iter().take(MAX_STEPS) {
        let mut gap = i128::from(step.thirds) * interval / 3 + i128::from(step.nanos);
        if input.kind == Kind::Keys {
            gap = gap.abs();
        }
        now = (now + gap).max(0);
        let at = u64::try_from(now).expect("centuries");
        clock.set(Timestamp::from_nanos(at));
        let key = if input.kind == Kind::Keys { step.key % KEYS } else { 0 };
        let oracle = oracles.entry(key).or_insert_with(|| Oracle::new(&quota));
        match input.quota {
            QuotaOf::Whole { .. } => exactly(subject.as_ref(), oracle, at, key, step.operation),
            QuotaOf::Any { .. } => nearly(subject.as_ref(), oracle, at, key, step.operation),
        }
    }
});

impl QuotaOf {
    fn with_burst(&self, burst: u64) -> Quota {
        const COUNTS: [u64; 8] = [1, 2, 5, 8, 100, 40_000, 1_000_000, 1_000_000_000];
        const PERIODS: [u64; 3] = [1, 60, 3_600];
        let (count, seconds) = match *self {
            Self::Whole { count, period } => (
                COUNTS[usize::from(count) % COUNTS.len()],
                PERIODS[usize::from(period) % PERIODS.len()],
            ),
            Self::Any { count, seconds } => {
                (u64::from(count) % 100_000_000 + 1, u64::from(seconds) % 3_600 + 1)
            }
        };
        Quota::new(count, Duration::from_secs(seconds)).burst(burst)
    }
}

/// Applies one operation to both; every figure agrees.
fn exactly(subject: &dyn Subject, oracle: &mut Oracle, now: u64, key: u8, operation: Operation) {
    let cost = operation.cost();
    match operation {
        Operation::Check(_) | Operation::CheckAny(_) | Operation::Peek => {
            assert_eq!(answer(&subject.check(key, cost)), expected(oracle, now, cost));
            return;
        }
        Operation::Charge(_) => {
            let charged = subject.charge(key, cost);
            admit(oracle, now, cost);
            assert_eq!(answer(&charged), expected(oracle, now, 0));
        }
        Operation::Refund(_) | Operation::RefundAny(_) => {
            subject.refund(key, cost);
            lower(oracle, now, cost);
        }
        Operation::Reset => {
            subject.reset(key);
            oracle.tat = oracle.tat.min(oracle.at(i128::from(now)));
        }
    }
    assert_eq!(answer(&subject.check(key, 0)), expected(oracle, now, 0));
}

/// The model's decision.
fn expected(oracle: &mut Oracle, now: u64, cost: u64) -> exact::Answer {
    let before = oracle.tat;
    let answer = oracle.check(now, cost);
    if cost == 0 {
        oracle.tat = before;
    }
    answer
}

/// Charges the model what was admitted. A cost of 0 charges nothing, also at a time before its TAT.
fn admit(oracle: &mut Oracle, now: u64, cost: u64) {
    if cost > 0 {
        oracle.admit(now, cost);
    }
}

/// Applies one operation to both; they may disagree by a unit of time. The model follows what was
/// admitted, so that one disagreement does not fail later steps.
fn nearly(subject: &dyn Subject, oracle: &mut Oracle, now: u64, key: u8, operation: Operation) {
    let cost = operation.cost();
    match operation {
        Operation::Check(_) | Operation::CheckAny(_) | Operation::Peek => {
            let (missing, slack) = (oracle.missing(now, cost), oracle.at(SLACK_NANOS));
            if subject.check(key, cost).is_allowed() {
                assert!(missing <= slack, "admitted {missing} units too early");
                admit(oracle, now, cost);
            } else {
                assert!(missing > -slack, "denied though {missing} units had room");
            }
        }
        Operation::Charge(_) => {
            let _ = subject.charge(key, cost);
            admit(oracle, now, cost);
        }
        Operation::Refund(_) | Operation::RefundAny(_) => {
            subject.refund(key, cost);
            lower(oracle, now, cost);
        }
        Operation::Reset => {
            subject.reset(key);
            oracle.tat = oracle.tat.min(oracle.at(i128::from(now)));
        }
    }
}

/// A refund reduces debt, at most to zero.
fn lower(oracle: &mut Oracle, now: u64, cost: u64) {
    let (at, given) =
        (oracle.at(i128::from(now)), oracle.missing(now, cost) - oracle.missing(now, 0));
    if oracle.tat > at {
        oracle.tat = at.max(oracle.tat - given);
    }
}

impl Operation {
    fn cost(self) -> u64 {
        match self {
            Self::Check(cost) | Self::Charge(cost) | Self::Refund(cost) => u64::from(cost),
            Self::CheckAny(cost) | Self::RefundAny(cost) => cost,
            Self::Peek | Self::Reset => 0,
        }
    }
}

/// A limiter that may have keys.
trait Subject {
    fn check(&self, key: u8, cost: u64) -> Decision;
    fn charge(&self, key: u8, cost: u64) -> Decision;
    fn refund(&self, key: u8, cost: u64);
    fn reset(&self, key: u8);
}

impl Subject for Limiter<Quota, ManualClock> {
    fn check(&self, key: u8, cost: u64) -> Decision {
        self.check_n(key, cost)
    }
    fn charge(&self, key: u8, cost: u64) -> Decision {
        self.charge(key, cost)
    }
    fn refund(&self, key: u8, cost: u64) {
        self.refund(key, cost);
    }
    fn reset(&self, key: u8) {
        self.reset(key);
    }
}

impl Subject for DirectLimiter<Quota, ManualClock> {
    fn check(&self, _: u8, cost: u64) -> Decision {
        self.check_n(cost)
    }
    fn charge(&self, _: u8, cost: u64) -> Decision {
        self.charge(cost)
    }
    fn refund(&self, _: u8, cost: u64) {
        self.refund(cost);
    }
    fn reset(&self, _: u8) {
        self.reset();
    }
}
