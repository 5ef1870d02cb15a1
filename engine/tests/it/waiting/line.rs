//! A line against an exact oracle.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::wait::{Line, Turn};
use tidegate_engine::{Decision, ManualClock, Quota};

/// An operation on a line, after a gap in thirds of an emission interval and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// A call of this cost, with a maximum wait in emission intervals and nanoseconds.
    Join(u64, u64, u64),
    /// One of the held turns is given up.
    GiveUp(usize),
}

pub type Step = (u64, u64, Operation);

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost =
        prop_oneof![6 => Just(1_u64), 3 => 1_u64..6, 1 => any::<u64>().prop_map(|n| n.max(1))];
    let patience = (prop_oneof![1 => Just(0_u64), 3 => 0_u64..100], 0_u64..3);
    let operation = prop_oneof![
        3 => (cost, patience)
            .prop_map(|(cost, (intervals, nanos))| Operation::Join(cost, intervals, nanos)),
        1 => any::<usize>().prop_map(Operation::GiveUp),
    ];
    let thirds = prop_oneof![6 => Just(0_u64), 3 => 0_u64..6, 1 => 0_u64..150];
    prop::collection::vec((thirds, 0_u64..3, operation), 1..200)
}

/// Starts in rational arithmetic: times in units of 1/count nanoseconds.
struct Oracle {
    count: i128,
    interval: i128,
    tau: i128,
    tat: i128,
}

impl Oracle {
    fn new(quota: &Quota) -> Self {
        let interval = quota.period().as_nanos().cast_signed();
        let tau = interval * i128::from(quota.burst_size());
        Self { count: i128::from(quota.count()), interval, tau, tat: 0 }
    }

    fn at(&self, nanos: i128) -> i128 {
        nanos * self.count
    }

    /// The TAT after `cost` at `now`, and the wait in nanoseconds, rounded up.
    fn charge(&self, now: i128, cost: u64) -> (i128, i128) {
        let charged = self.tat.max(self.at(now)) + i128::from(cost) * self.interval;
        let wait = (charged - self.tau - self.at(now)).max(0);
        (charged, (wait + self.count - 1) / self.count)
    }
}

/// A held turn, the oracle's TAT after its charge, and its cost.
struct Held<'l, L: Line> {
    turn: Turn<'l, L>,
    charged: i128,
    cost: u64,
}

/// Runs the steps on a line whose quota has an emission interval of whole nanoseconds: each start,
/// each denial and each place given up equals the oracle's.
pub fn agrees_with_the_oracle<'l, L: Line + 'l>(
    quota: &Quota,
    clock: &ManualClock,
    steps: Vec<Step>,
    reserve: impl Fn(u64, Duration) -> Result<Turn<'l, L>, Decision>,
) -> Result<(), TestCaseError> {
    let mut oracle = Oracle::new(quota);
    let interval = (oracle.interval / oracle.count) as u64;
    let mut held: Vec<Held<'l, L>> = Vec::new();
    let mut now = 1_000_000_000;
    for (thirds, nanos, operation) in steps {
        now += thirds * interval / 3 + nanos;
        clock.set(Timestamp::from_nanos(now));
        let at = i128::from(now);
        match operation {
            Operation::Join(cost, intervals, nanos) => {
                let patience = intervals * interval + nanos;
                let (charged, wait) = oracle.charge(at, cost);
                match reserve(cost, Duration::from_nanos(patience)) {
                    Ok(turn) => {
                        prop_assert!(cost <= quota.burst_size() && wait <= i128::from(patience));
                        prop_assert_eq!(i128::from(turn.start().as_nanos()), at + wait);
                        prop_assert!(turn.decision().is_allowed());
                        let reset = turn.decision().reset_after().as_nanos().cast_signed();
                        prop_assert_eq!(reset, (charged - oracle.at(at)) / oracle.count);
                        oracle.tat = charged;
                        held.push(Held { turn, charged, cost });
                    }
                    Err(denied) if cost > quota.burst_size() => {
                        prop_assert_eq!(denied.retry_after(), None);
                    }
                    Err(denied) => {
                        let retry = denied.retry_after().unwrap().as_nanos().cast_signed();
                        prop_assert_eq!(retry, wait - i128::from(patience));
                    }
                }
            }
            Operation::GiveUp(index) if !held.is_empty() => {
                let Held { turn, charged, cost } = held.swap_remove(index % held.len());
                let given_back = charged == oracle.tat && charged > oracle.at(at);
                prop_assert_eq!(turn.cancel(), given_back);
                if given_back {
                    let before = charged - i128::from(cost) * oracle.interval;
                    oracle.tat = before.max(oracle.at(at));
                }
            }
            Operation::GiveUp(_) => {}
        }
    }
    Ok(())
}

/// Runs the steps on a line of any quota: what starts in `[s, t]` costs at most
/// `burst + rate * (t - s)`, starts are in the order of the calls, and no call waits longer than
/// its limit.
pub fn starts_keep_the_quota<'l, L: Line + 'l>(
    quota: &Quota,
    clock: &ManualClock,
    steps: Vec<Step>,
    reserve: impl Fn(u64, Duration) -> Result<Turn<'l, L>, Decision>,
) -> Result<(), TestCaseError> {
    let interval = u64::try_from(quota.period().as_nanos()).unwrap() / quota.count();
    let (mut held, mut now, mut last) = (Vec::new(), 1_000_000_000, 0);
    for (thirds, nanos, operation) in steps {
        now += thirds * interval / 3 + nanos;
        clock.set(Timestamp::from_nanos(now));
        match operation {
            Operation::Join(cost, intervals, nanos) => {
                let patience = intervals * interval + nanos;
                if let Ok(turn) = reserve(cost, Duration::from_nanos(patience)) {
                    let start = turn.start().as_nanos();
                    prop_assert!(start <= now + patience, "{start} is after the deadline");
                    held.push((start, cost, turn));
                }
            }
            // Given up after its start.
            Operation::GiveUp(index) if !held.is_empty() => {
                let index = index % held.len();
                if held[index].0 > now {
                    let _ = held.remove(index).2.cancel();
                }
            }
            Operation::GiveUp(_) => {}
        }
    }
    let (period, count) = (quota.period().as_nanos().cast_signed(), i128::from(quota.count()));
    for (first, (from, ..)) in held.iter().enumerate() {
        prop_assert!(*from >= last, "a later call starts earlier");
        last = *from;
        let mut sum = 0;
        for (until, cost, _) in &held[first..] {
            sum += i128::from(*cost);
            // One unit, below 2 ns, is the error of each end.
            let length = i128::from(until - from) + 3;
            prop_assert!(sum * period <= i128::from(quota.burst_size()) * period + length * count);
        }
    }
    for (_, _, turn) in held {
        let _ = turn.keep();
    }
    Ok(())
}

/// Quotas whose emission interval is a whole number of nanoseconds.
pub fn whole_quota() -> impl Strategy<Value = Quota> {
    let count = prop::sample::select(vec![1_u64, 5, 100, 40_000, 1_000_000, 1_000_000_000]);
    let burst = prop_oneof![1 => Just(1_u64), 2 => 1_u64..20];
    (count, burst).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

pub fn any_quota() -> impl Strategy<Value = Quota> {
    (1_u64..100_000_000, 1_u64..100_000, 1_u64..20).prop_map(|(count, seconds, burst)| {
        Quota::new(count, Duration::from_secs(seconds)).burst(burst)
    })
}
