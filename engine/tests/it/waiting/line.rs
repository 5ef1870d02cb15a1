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

/// A line in rational arithmetic: times in units of 1/count nanoseconds.
struct Oracle {
    count: i128,
    interval: i128,
    tau: i128,
    /// Where the charges end that are not of held turns.
    front: i128,
    /// The held turns in the order of their charges: the end of each charge, and its length.
    line: Vec<(i128, i128)>,
}

impl Oracle {
    fn new(quota: &Quota) -> Self {
        let interval = quota.period().as_nanos().cast_signed();
        let tau = interval * i128::from(quota.burst_size());
        Self { count: i128::from(quota.count()), interval, tau, front: 0, line: Vec::new() }
    }

    fn at(&self, nanos: i128) -> i128 {
        nanos * self.count
    }

    fn tat(&self) -> i128 {
        self.line.last().map_or(self.front, |(end, _)| *end)
    }

    /// The TAT after `cost` at `now`.
    fn charged(&self, now: i128, cost: u64) -> i128 {
        self.tat().max(self.at(now)) + i128::from(cost) * self.interval
    }

    /// The wait in nanoseconds, rounded up, until the start of a charge that ends at `end`.
    fn wait(&self, end: i128, now: i128) -> i128 {
        let wait = (end - self.tau - self.at(now)).max(0);
        (wait + self.count - 1) / self.count
    }

    /// Takes out a turn that has not started: all that is behind it moves up.
    fn give_up(&mut self, index: usize) {
        let (_, length) = self.line.remove(index);
        self.line[index..].iter_mut().for_each(|(end, _)| *end -= length);
    }
}

/// Runs the steps on a line whose quota has an emission interval of whole nanoseconds: each start,
/// as it is after each step, and each denial equals the oracle's. Turns are kept when they start.
pub fn agrees_with_the_oracle<'l, L: Line + 'l>(
    quota: &Quota,
    clock: &ManualClock,
    steps: Vec<Step>,
    reserve: impl Fn(u64, Duration) -> Result<Turn<'l, L>, Decision>,
) -> Result<(), TestCaseError> {
    let mut oracle = Oracle::new(quota);
    let interval = (oracle.interval / oracle.count) as u64;
    let mut held: Vec<Turn<'l, L>> = Vec::new();
    let mut now = 1_000_000_000;
    for (thirds, nanos, operation) in steps {
        now += thirds * interval / 3 + nanos;
        clock.set(Timestamp::from_nanos(now));
        let at = i128::from(now);
        let started = oracle.line.iter().take_while(|(end, _)| oracle.wait(*end, at) == 0).count();
        for (turn, (end, _)) in held.drain(..started).zip(oracle.line.drain(..started)) {
            prop_assert_eq!(turn.delay(), Duration::ZERO);
            let _ = turn.keep();
            oracle.front = end;
        }
        match operation {
            Operation::Join(cost, intervals, nanos) => {
                let patience = intervals * interval + nanos;
                let end = oracle.charged(at, cost.min(quota.burst_size() + 1));
                let wait = oracle.wait(end, at);
                match reserve(cost, Duration::from_nanos(patience)) {
                    Ok(turn) => {
                        prop_assert!(cost <= quota.burst_size() && wait <= i128::from(patience));
                        prop_assert!(turn.decision().is_allowed());
                        let reset = turn.decision().reset_after().as_nanos().cast_signed();
                        prop_assert_eq!(reset, (end - oracle.at(at)) / oracle.count);
                        oracle.line.push((end, i128::from(cost) * oracle.interval));
                        held.push(turn);
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
                let index = index % held.len();
                let waits = oracle.wait(oracle.line[index].0, at) > 0;
                let given_back = held.remove(index).cancel();
                prop_assert!(given_back || !waits);
                if waits {
                    oracle.give_up(index);
                } else {
                    // It was granted at once just before: what is behind it has waited no longer.
                    prop_assume!(false);
                }
            }
            Operation::GiveUp(_) => {}
        }
        for (turn, (end, _)) in held.iter().zip(&oracle.line) {
            prop_assert_eq!(turn.delay().as_nanos().cast_signed(), oracle.wait(*end, at));
        }
    }
    Ok(())
}

/// Runs the steps on a line of any quota: what starts in `[s, t]` costs at most
/// `burst + rate * (t - s)`, starts are in the order of the calls, and no call waits longer than
/// its limit. Turns are given up before and after their start.
pub fn starts_keep_the_quota<'l, L: Line + 'l>(
    quota: &Quota,
    clock: &ManualClock,
    steps: Vec<Step>,
    reserve: impl Fn(u64, Duration) -> Result<Turn<'l, L>, Decision>,
) -> Result<(), TestCaseError> {
    let interval = u64::try_from(quota.period().as_nanos()).unwrap() / quota.count();
    let (mut held, mut now) = (Vec::new(), 1_000_000_000);
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
            Operation::GiveUp(index) if !held.is_empty() => {
                let index = index % held.len();
                let _ = held.remove(index).2.cancel();
            }
            Operation::GiveUp(_) => {}
        }
        for (start, _, turn) in &mut held {
            let known = *start;
            // A caller that looks at a start that has passed starts no earlier than it looks.
            *start = turn.start().as_nanos();
            prop_assert!(*start <= known, "a start has moved back");
            prop_assert!(*start == known || *start >= now, "a start has moved into the past");
        }
    }
    let (period, count) = (quota.period().as_nanos().cast_signed(), i128::from(quota.count()));
    let mut last = 0;
    for (first, (from, ..)) in held.iter().enumerate() {
        // By more than a unit of time, to which starts are rounded.
        prop_assert!(*from + 2 >= last, "a later call starts earlier");
        last = last.max(*from);
        let mut sum = 0;
        for (until, cost, _) in &held[first..] {
            sum += i128::from(*cost);
            // One unit, below 2 ns, is the error of each end.
            let length = i128::from(*until) - i128::from(*from) + 3;
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
