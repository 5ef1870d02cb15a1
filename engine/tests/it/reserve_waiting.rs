//! Reservations of keys with waiters: promised starts stay within the quota.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::wait::Turn;
use tidegate_engine::{Clock, LimitSet, Limiter, ManualClock, Quota, Reservation};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(1);

/// One unit a second.
fn limiter(burst: u64) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let quota = Quota::per_second(1).burst(burst);
    (Limiter::builder(quota).capacity(1).clock(clock.clone()).build().unwrap(), clock)
}

fn seconds(at: Timestamp) -> u64 {
    at.as_nanos() / SECOND.as_nanos() as u64
}

#[test]
fn a_reservation_with_waiters_behind_it_lapses() {
    let (limiter, clock) = limiter(1);
    let reserved = limiter.reserve("key", 1).unwrap();
    let waits = limiter.enqueue("key", 1, PATIENCE).unwrap();
    assert_eq!(seconds(waits.start()), 1);
    reserved.cancel();
    let next = limiter.enqueue("key", 1, PATIENCE).unwrap();
    assert_eq!(seconds(next.start()), 2);
    // Giving up a place takes back its own charge alone.
    assert!(waits.cancel());
    assert_eq!(seconds(next.start()), 1);
    assert!(!limiter.check("key").is_allowed());
    clock.advance(SECOND);
    assert!(!limiter.check("key").is_allowed());
    let _ = next.keep();
}

/// Once no caller waits any more, a reservation is given back as usual.
#[test]
fn a_reservation_is_given_back_when_those_behind_it_have_started() {
    let (limiter, clock) = limiter(10);
    let reserved = limiter.reserve("key", 10).unwrap();
    let _ = limiter.enqueue("key", 1, PATIENCE).unwrap().keep();
    clock.advance(SECOND);
    assert_eq!(limiter.peek("key").remaining(), 0);
    reserved.cancel();
    // One has started, and nine of the ten had not drained.
    assert_eq!(limiter.peek("key").remaining(), 9);
}

/// Without any waiter, what exceeds the burst is debt, and a reservation is given back in front of
/// it.
#[test]
fn a_reservation_in_front_of_debt_is_given_back() {
    let (limiter, _) = limiter(10);
    let reserved = limiter.reserve("key", 4).unwrap();
    let _ = limiter.charge("key", 8);
    assert_eq!(limiter.peek("key").reset_after(), 12 * SECOND);
    reserved.cancel();
    assert_eq!(limiter.peek("key").reset_after(), 8 * SECOND);
}

#[test]
fn a_set_that_is_given_back_moves_no_start() {
    let (limiter, _) = limiter(2);
    let reserved = LimitSet::new([limiter.ask("key", 2)]).reserve().unwrap();
    let waits = limiter.enqueue("key", 1, PATIENCE).unwrap().keep();
    assert!(waits.is_allowed());
    reserved.cancel();
    assert_eq!(seconds(limiter.enqueue("key", 1, PATIENCE).unwrap().start()), 2);
}

/// A waiter is judged by the burst of the quota it waits under, not by that of what is given back;
/// others have waited under a longer one before.
#[test]
fn a_reservation_lapses_in_front_of_waiters_under_a_shorter_burst() {
    let (limiter, _) = limiter(10);
    let earlier = limiter.enqueue("other", 10, PATIENCE).unwrap().keep();
    let late = limiter.enqueue("other", 1, PATIENCE).unwrap().keep();
    assert!(earlier.is_allowed() && late.is_allowed());
    let short = Quota::per_second(1).burst(1);
    let short = limiter.with_quota(&short).unwrap();
    let [whole, part] = ["key", "both"].map(|key| {
        let reserved = limiter.reserve(key, 4).unwrap();
        let waits = short.enqueue(key, 1, PATIENCE).unwrap();
        assert_eq!(seconds(waits.start()), 4);
        let _ = waits.keep();
        reserved
    });
    whole.cancel();
    let _ = part.commit(1);
    for key in ["key", "both"] {
        assert_eq!(limiter.peek(key).remaining(), 5);
        assert_eq!(seconds(short.enqueue(key, 1, PATIENCE).unwrap().start()), 5);
    }
}

/// No waiter starts later than now while a key owes no more than the burst it waits under.
#[test]
fn a_reservation_under_a_shorter_burst_is_given_back_without_waiters() {
    let (limiter, _) = limiter(10);
    let _ = limiter.enqueue("other", 10, PATIENCE).unwrap().keep();
    let _ = limiter.enqueue("other", 1, PATIENCE).unwrap().keep();
    let short = Quota::per_second(1).burst(1);
    let reserved = limiter.with_quota(&short).unwrap().reserve("key", 1).unwrap();
    assert!(limiter.check_n("key", 9).is_allowed());
    reserved.cancel();
    assert_eq!(limiter.peek("key").remaining(), 1);
}

/// An operation on the key, after a gap in half emission intervals.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Check(u64),
    /// A place in line, with a maximum wait in intervals.
    Join(u64, u64),
    /// The place taken as the nth of those that have not started is given up.
    GiveUp(usize),
    Reserve(u64),
    Settle(u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Operation)>> {
    let operation = prop_oneof![
        2 => (1_u64..4).prop_map(Operation::Check),
        3 => (1_u64..4, 0_u64..12).prop_map(|(cost, wait)| Operation::Join(cost, wait)),
        1 => (0_usize..3).prop_map(Operation::GiveUp),
        3 => (1_u64..8).prop_map(Operation::Reserve),
        3 => (0_u64..8).prop_map(Operation::Settle),
    ];
    let halves = prop_oneof![4 => Just(0_u64), 5 => 0_u64..6, 1 => 0_u64..40];
    prop::collection::vec((halves, operation), 1..100)
}

/// Units that start, in half intervals.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: u64,
    cost: u64,
}

type Waiting<'l> = (usize, Turn<'l, Limiter<Quota, ManualClock>>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// One reservation at a time with checks and places in line: in every interval at most the
    /// burst and what the rate grants starts. What is reserved counts from then on, at first in
    /// full and, once it is settled, as far as it was used.
    #[test]
    fn starts_during_a_reservation_stay_within_the_bound(burst in 1_u64..8, steps in steps()) {
        let (limiter, clock) = limiter(burst);
        let half = SECOND / 2;
        let mut starts: Vec<Start> = Vec::new();
        let mut waiting: Vec<Waiting<'_>> = Vec::new();
        let mut open: Option<(usize, Reservation<'_>)> = None;
        for (halves, operation) in steps {
            clock.advance(half * halves as u32);
            let in_halves = |at: Timestamp| at.as_nanos() / half.as_nanos() as u64;
            let now = in_halves(clock.now());
            match operation {
                Operation::Check(cost) => {
                    if limiter.check_n("key", cost).is_allowed() {
                        starts.push(Start { at: now, cost });
                    }
                }
                Operation::Join(cost, wait) => {
                    if let Ok(turn) = limiter.enqueue("key", cost, SECOND * wait as u32) {
                        waiting.push((starts.len(), turn));
                        let at = in_halves(waiting.last().unwrap().1.start());
                        starts.push(Start { at, cost });
                    }
                }
                Operation::GiveUp(nth) => {
                    let waits = |(start, _): &Waiting<'_>| starts[*start].at > now;
                    let place = waiting.iter().rposition(waits);
                    if let Some(place) = place.and_then(|place| place.checked_sub(nth)) {
                        let (start, turn) = waiting.remove(place);
                        if starts[start].at > now {
                            turn.cancel();
                            starts[start].cost = 0;
                        } else {
                            let _ = turn.keep();
                        }
                    }
                }
                Operation::Reserve(cost) if open.is_none() => {
                    if let Ok(reserved) = limiter.reserve("key", cost) {
                        open = Some((starts.len(), reserved));
                        starts.push(Start { at: now, cost });
                    }
                }
                Operation::Settle(actual) => {
                    if let Some((start, reserved)) = open.take() {
                        let actual = actual.min(reserved.cost());
                        let _ = reserved.commit(actual);
                        starts[start].cost = actual;
                    }
                }
                Operation::Reserve(_) => {}
            }
            for (start, turn) in &waiting {
                starts[*start].at = in_halves(turn.start());
            }
            stays_within_the_bound(burst, &starts)?;
        }
        for (_, turn) in waiting {
            let _ = turn.keep();
        }
    }
}

fn stays_within_the_bound(burst: u64, starts: &[Start]) -> Result<(), TestCaseError> {
    let mut starts = starts.to_vec();
    starts.sort_by_key(|start| start.at);
    for (first, from) in starts.iter().enumerate() {
        let mut sum = 0;
        for until in &starts[first..] {
            sum += until.cost;
            prop_assert!(
                2 * sum <= 2 * burst + (until.at - from.at),
                "{sum} in {from:?} to {until:?}"
            );
        }
    }
    Ok(())
}
