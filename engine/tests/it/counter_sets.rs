//! The counters in sets and reservations, against an oracle that keeps every admission.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::counter::{ShardedCounter, SubWindowCounter};
use tidegate_engine::{Clock as _, Decision, LimitSet, Limiter, ManualClock, Quota, Reservation};

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

fn counter(
    limit: u64,
    window: u64,
    count: u64,
    clock: &ManualClock,
) -> SubWindowCounter<ManualClock> {
    let window = Duration::from_nanos(window);
    SubWindowCounter::with_sub_windows(limit, window, count, clock.clone()).unwrap()
}

fn sharded(
    limit: u64,
    window: u64,
    count: u64,
    clock: &ManualClock,
) -> ShardedCounter<ManualClock> {
    let window = Duration::from_nanos(window);
    let builder = ShardedCounter::builder(limit, window).sub_windows(count).shards(2).block(1);
    builder.clock(clock.clone()).build().unwrap()
}

/// What was admitted and not given back, with the time at which it stops counting.
struct Oracle {
    limit: u64,
    width: u64,
    count: u64,
    admitted: Vec<(u64, u64)>,
}

impl Oracle {
    fn new(limit: u64, window: u64, count: u64) -> Self {
        Self { limit, width: window.div_ceil(count), count, admitted: Vec::new() }
    }

    fn used(&self, now: u64) -> u64 {
        self.admitted.iter().filter(|(expiry, _)| *expiry > now).map(|(_, cost)| cost).sum()
    }

    fn fits(&self, cost: u64, now: u64) -> bool {
        self.used(now) + cost <= self.limit
    }

    /// The admission that may be given back.
    fn admit(&mut self, cost: u64, now: u64) -> usize {
        self.admitted.push(((now / self.width + self.count + 1) * self.width, cost));
        self.admitted.len() - 1
    }

    /// The first time from which `cost` fits; `None` if it never does.
    fn fits_after(&self, cost: u64, now: u64) -> Option<u64> {
        let mut times: Vec<_> = self.admitted.iter().map(|(expiry, _)| *expiry).collect();
        times.push(now);
        times.sort_unstable();
        times.into_iter().find(|at| *at >= now && self.fits(cost, *at)).map(|at| at - now)
    }

    fn agrees(&self, decision: &Decision, cost: u64, now: u64) -> bool {
        let wait = self.fits_after(cost, now);
        // Until the newest units expire, given back or not.
        let newest = self.admitted.iter().map(|(expiry, _)| expiry.saturating_sub(now)).max();
        let reset = if self.used(now) == 0 { 0 } else { newest.unwrap_or(0) };
        decision.is_allowed() == (wait == Some(0))
            && decision.retry_after().map(nanos) == wait
            && decision.remaining() == self.limit.saturating_sub(self.used(now))
            && nanos(decision.reset_after()) == reset
    }
}

/// A reservation with the number of its admission.
type Held<'l> = (Reservation<'l>, Option<usize>);

/// Settles at `now`: what is given back is taken off the admission, what is missing is charged at
/// `now`.
fn settle((reserved, admission): Held<'_>, actual: u64, oracle: &mut Oracle, now: u64) -> Decision {
    let cost = reserved.cost();
    if actual > cost {
        oracle.admit(actual - cost, now);
    } else if let Some(admission) = admission {
        oracle.admitted[admission].1 = actual;
    }
    reserved.commit(actual)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Reservations that stay open over any number of sub-windows, mixed with checks.
    #[test]
    fn every_figure_of_a_counter_with_reservations_is_the_oracles(
        limit in 1_u64..12,
        count in prop_oneof![1_u64..8, Just(60)],
        window in prop_oneof![50_000_u64..60_000, 100_000_u64..1_000_000_000],
        steps in prop::collection::vec(
            (
                0_u64..24,
                0_u64..3,
                prop_oneof![6 => 0_u64..6, 1 => 0_u64..20],
                any::<usize>(),
                0_u64..8,
            ),
            1..150,
        ),
    ) {
        let clock = ManualClock::new();
        let counter = counter(limit, window, count, &clock);
        let mut oracle = Oracle::new(limit, window, count);
        let mut held: Vec<Held<'_>> = Vec::new();
        for (eighths, operation, cost, which, actual) in steps {
            clock.advance(Duration::from_nanos(window * eighths.saturating_sub(12) / 8));
            let now = nanos(Duration::from_nanos(clock.now().as_nanos()));
            match operation {
                0 => {
                    let decision = counter.check_n(cost);
                    let fits = cost > 0 && oracle.fits(cost, now);
                    if fits {
                        oracle.admit(cost, now);
                    }
                    let asked = if fits { 0 } else { cost };
                    prop_assert!(oracle.agrees(&decision, asked, now), "{decision:?}");
                }
                1 => match counter.reserve(cost) {
                    Ok(reserved) => {
                        prop_assert!(oracle.fits(cost, now));
                        let admission = (cost > 0).then(|| oracle.admit(cost, now));
                        prop_assert!(oracle.agrees(&reserved.decision(), 0, now));
                        held.push((reserved, admission));
                    }
                    Err(denied) => prop_assert!(oracle.agrees(&denied, cost, now)),
                },
                _ if !held.is_empty() => {
                    let one = held.swap_remove(which % held.len());
                    let left = settle(one, actual, &mut oracle, now);
                    prop_assert!(oracle.agrees(&left, 0, now), "{left:?}");
                }
                _ => {}
            }
            prop_assert!(oracle.agrees(&counter.peek(), 0, now), "{:?}", counter.peek());
        }
        // What is dropped is given back.
        let now = clock.now().as_nanos();
        for (reserved, admission) in held {
            if let Some(admission) = admission {
                oracle.admitted[admission].1 = 0;
            }
            drop(reserved);
            prop_assert!(oracle.agrees(&counter.peek(), 0, now));
        }
    }
}

/// Sets that repeatedly take late what was given back late: the window's limit holds, and nothing
/// is lost.
#[test]
fn units_given_back_sub_windows_later_are_there_for_others() {
    let clock = ManualClock::new();
    let (counter, sharded) = (counter(5, 1_000, 10, &clock), sharded(5, 1_000, 10, &clock));
    for _ in 0..500 {
        let held = LimitSet::new([counter.ask(5), sharded.ask(5)]).reserve().ok().unwrap();
        clock.advance(Duration::from_nanos(300));
        assert!(!counter.check().is_allowed() && !sharded.check().is_allowed());
        assert_eq!(held.commit([0, 0]).map(|left| left.remaining()), Some(5));
    }
    assert_eq!((counter.peek().remaining(), sharded.peek().remaining()), (5, 5));
}

/// The first takes a block of two, the second the rest of it from the shard.
#[test]
fn what_a_shard_paid_goes_back_to_the_counter() {
    let window = Duration::from_micros(1);
    let builder = ShardedCounter::builder(3, window).sub_windows(10).shards(1).block(2);
    let counter = builder.clock(ManualClock::new()).build().unwrap();
    let held = (counter.reserve(1).unwrap(), counter.reserve(1).unwrap());
    assert_eq!(counter.peek().remaining(), 1);
    drop(held);
    assert_eq!(counter.peek().remaining(), 3);
    assert!(counter.check_n(3).is_allowed());
}

/// A word of this window holds 127 units, 27 more than the limit: the most that can be given back
/// of past sub-windows at once.
#[test]
fn late_returns_beyond_what_a_word_holds_count_until_they_expire() {
    let clock = ManualClock::new();
    let counter = counter(100, 1_000, 10, &clock);
    let held = counter.reserve(99).unwrap();
    clock.advance(Duration::from_nanos(150));
    // Begins the next sub-window.
    assert!(counter.check().is_allowed());
    drop(held);
    assert_eq!(counter.peek().remaining(), 27);
    assert_eq!(counter.check_n(28).retry_after().map(nanos), Some(950));
    assert!(counter.check_n(27).is_allowed());
    assert_eq!(LimitSet::new([counter.ask(1)]).peek().retry_after().map(nanos), Some(950));
    clock.advance(Duration::from_nanos(950));
    assert!(counter.check_n(72).is_allowed());
}

/// What a reset has forgotten is not given back on top.
#[test]
fn a_reset_forgets_what_was_given_back() {
    let clock = ManualClock::new();
    let counter = counter(4, 1_000, 10, &clock);
    let held = [(); 2].map(|()| counter.reserve(2).unwrap());
    clock.advance(Duration::from_nanos(100));
    let [one, other] = held;
    drop(one);
    counter.reset();
    assert!(counter.check_n(4).is_allowed());
    drop(other);
    assert!(!counter.check().is_allowed());
    clock.advance(Duration::from_micros(1));
    assert_eq!(counter.peek().remaining(), 0);
    clock.advance(Duration::from_nanos(100));
    assert_eq!(counter.peek().remaining(), 4);
}

/// Whether the counter comes before or after the other limit in the order of taking.
#[test]
fn a_set_that_is_denied_charges_no_counter() {
    let clock = ManualClock::new();
    let user =
        Limiter::builder(Quota::per_hour(2)).capacity(1).clock(clock.clone()).build().unwrap();
    let (counter, sharded) = (counter(5, 1_000, 10, &clock), sharded(5, 1_000, 10, &clock));
    let asks = |cost, user_cost| {
        [counter.ask(cost).named("counter"), sharded.ask(cost), user.ask("user", user_cost)]
    };
    for _ in 0..3 {
        let denied = LimitSet::new(asks(5, 3)).check();
        assert_eq!(denied.blocked().map(|blocked| blocked.index()), Some(2));
        let denied = LimitSet::new(asks(6, 1)).check();
        assert_eq!(denied.blocked().map(|blocked| blocked.name()), Some("counter"));
        assert_eq!(denied.retry_after(), None);
    }
    assert!(LimitSet::new(asks(5, 2)).peek().is_allowed());
    assert!(LimitSet::new(asks(5, 2)).check().is_allowed());
    let denied = LimitSet::new([counter.ask(1), sharded.ask(1)]).check();
    assert_eq!(denied.retry_after().map(nanos), Some(1_100));
}

#[test]
fn a_reservation_of_a_counter_can_go_with_a_task() {
    let clock = ManualClock::new();
    let (one, other) = (counter(3, 1_000, 4, &clock), sharded(3, 1_000, 4, &clock));
    let (one, other) = (Arc::new(one), Arc::new(other));
    let held = (one.reserve_owned(2).unwrap(), other.reserve_owned(2).unwrap());
    assert_eq!(one.reserve(2).unwrap_err().retry_after().map(nanos), Some(1_250));
    assert!(other.reserve(2).is_err());
    std::thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!((one.peek().remaining(), other.peek().remaining()), (3, 3));
    assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (1, 1));
}

/// A peek of a limit in debt is denied until a cost of 1 would not have to wait for that debt.
#[test]
fn a_peek_in_debt_is_denied_until_it_has_expired() {
    let clock = ManualClock::new();
    let (counter, sharded) = (counter(3, 1_000, 10, &clock), sharded(3, 1_000, 10, &clock));
    for (used, denied) in [(3, false), (4, true)] {
        let decisions =
            [counter.charge(used), sharded.charge(used), counter.peek(), sharded.peek()];
        for decision in decisions {
            assert_eq!((decision.is_allowed(), decision.remaining()), (!denied, 0));
            let wait = if denied { 1_100 } else { 0 };
            assert_eq!(decision.retry_after().map(nanos), Some(wait));
        }
        counter.reset();
        sharded.reset();
    }
    let _ = (counter.charge(4), sharded.charge(4));
    clock.advance(Duration::from_nanos(1_100));
    assert!(counter.peek().is_allowed() && sharded.peek().is_allowed());
}

/// Concurrent charges and give-backs of threads while time advances: what is left at the end is
/// exact.
#[test]
fn threads_that_give_back_lose_nothing() {
    const THREADS: u64 = 4;
    let clock = ManualClock::new();
    let (counter, sharded) = (counter(50, 1_000, 5, &clock), sharded(50, 1_000, 5, &clock));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (counter, sharded, clock) = (&counter, &sharded, &clock);
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0..5_000 {
                    clock.advance(Duration::from_nanos(round % 2 * 3));
                    let cost = 1 + (round + number) % 3;
                    held.extend(
                        [counter.reserve(cost), sharded.reserve(cost)].into_iter().flatten(),
                    );
                    if round % 5 == 4 {
                        held.clear();
                    }
                }
            });
        }
    });
    assert_eq!((counter.peek().remaining(), sharded.peek().remaining()), (50, 50));
}
