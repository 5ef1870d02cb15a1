//! Reservations against exact oracles, and against real threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::{
    Clock, FixedWindow, Limiter, ManualClock, OverflowPolicy, Quota, Reservation, SlidingWindow,
};

const SECOND: u64 = 1_000_000_000;

fn limiter(quota: Quota) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).capacity(1_000).clock(clock.clone()).build().unwrap(), clock)
}

fn seconds_of_debt(limiter: &Limiter<Quota, ManualClock>, key: &str) -> u64 {
    limiter.peek(key).reset_after().as_secs()
}

#[test]
fn what_was_not_used_is_given_back() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    let reserved = limiter.reserve("key", 8).unwrap();
    assert_eq!((reserved.cost(), reserved.decision().remaining()), (8, 2));
    assert!(!limiter.check_n("key", 3).is_allowed());
    assert_eq!(reserved.commit(5).remaining(), 5);
    assert_eq!(seconds_of_debt(&limiter, "key"), 5);
}

#[test]
fn what_was_used_beyond_the_reservation_is_debt() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    let left = limiter.reserve("key", 8).unwrap().commit(13);
    assert_eq!((left.is_allowed(), left.remaining()), (false, 0));
    assert_eq!(left.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(limiter.check("key").retry_after(), Some(Duration::from_secs(4)));
    clock.advance(Duration::from_secs(4));
    assert!(limiter.check("key").is_allowed());
}

#[test]
fn what_was_used_as_reserved_changes_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    assert_eq!(limiter.reserve("key", 8).unwrap().commit(8).remaining(), 2);
    assert_eq!(seconds_of_debt(&limiter, "key"), 8);
}

#[test]
fn a_reservation_that_is_cancelled_dropped_or_panics_costs_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    limiter.reserve("key", 10).unwrap().cancel();
    assert_eq!(seconds_of_debt(&limiter, "key"), 0);
    drop(limiter.reserve("key", 10).unwrap());
    assert_eq!(seconds_of_debt(&limiter, "key"), 0);
    let panics = AssertUnwindSafe(|| {
        let _reserved = limiter.reserve("key", 10).unwrap();
        panic!("the work fails");
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(seconds_of_debt(&limiter, "key"), 0);
}

#[test]
fn a_reservation_that_does_not_fit_is_a_denial_and_charges_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    assert!(limiter.check_n("key", 4).is_allowed());
    let denied = limiter.reserve("key", 7).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(limiter.reserve("key", 11).unwrap_err().retry_after(), None);
    assert_eq!(limiter.reserve("key", u64::MAX).unwrap_err().retry_after(), None);
    assert_eq!(seconds_of_debt(&limiter, "key"), 4);
}

#[test]
fn a_reservation_of_nothing_can_be_committed_to_something() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    limiter.reserve("key", 0).unwrap().cancel();
    assert_eq!(seconds_of_debt(&limiter, "key"), 0);
    assert_eq!(limiter.reserve("key", 0).unwrap().commit(3).remaining(), 7);
    assert_eq!(seconds_of_debt(&limiter, "key"), 3);
    let debt = limiter.reserve("key", 1).unwrap().commit(u64::MAX);
    assert!(!debt.is_allowed());
}

#[test]
fn a_blocked_quota_reserves_nothing() {
    let (limiter, _) = limiter(Quota::per_second(0));
    assert_eq!(limiter.reserve("key", 1).unwrap_err().retry_after(), None);
}

/// The reservation's own units have drained by the time it is cancelled: others were charged since,
/// and what they owe stays.
#[test]
fn what_has_drained_is_not_taken_from_what_others_owe() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    let reserved = limiter.reserve("key", 5).unwrap();
    clock.advance(Duration::from_secs(7));
    assert!(limiter.check_n("key", 5).is_allowed());
    reserved.cancel();
    assert_eq!(seconds_of_debt(&limiter, "key"), 5);
}

#[test]
fn of_what_is_half_drained_half_is_given_back() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    assert!(limiter.check_n("key", 2).is_allowed());
    let reserved = limiter.reserve("key", 4).unwrap();
    clock.advance(Duration::from_secs(4));
    assert!(limiter.check_n("key", 6).is_allowed());
    assert_eq!(seconds_of_debt(&limiter, "key"), 8);
    reserved.cancel();
    assert_eq!(seconds_of_debt(&limiter, "key"), 6);
}

/// Debt charged before the reservation drains first.
#[test]
fn a_reservation_behind_debt_keeps_its_worth() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    assert!(limiter.check_n("key", 6).is_allowed());
    let reserved = limiter.reserve("key", 4).unwrap();
    clock.advance(Duration::from_secs(5));
    assert!(limiter.check_n("key", 5).is_allowed());
    reserved.cancel();
    assert_eq!(seconds_of_debt(&limiter, "key"), 6);
}

#[test]
fn a_window_that_is_over_gives_nothing_back_to_the_next_one() {
    let clock = ManualClock::new();
    let rule = FixedWindow::new(10, Duration::from_secs(10));
    let limiter = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
    let (early, late) = (limiter.reserve("key", 4).unwrap(), limiter.reserve("key", 4).unwrap());
    assert_eq!(early.commit(1).remaining(), 5);
    clock.advance(Duration::from_secs(10));
    assert!(limiter.check_n("key", 9).is_allowed());
    late.cancel();
    assert_eq!(limiter.peek("key").remaining(), 1);
    let debt = limiter.reserve("key", 1).unwrap().commit(3);
    assert_eq!((debt.is_allowed(), debt.retry_after()), (false, Some(Duration::from_secs(10))));
}

/// What threads have leased counts as taken, and is not taken twice.
#[test]
fn reservations_with_leases_stay_within_the_burst() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_second(1).burst(100_000)).capacity(1).lease_units(64);
    let limiter = builder.clock(clock).build().unwrap();
    let (mut taken, mut open) = (0, Vec::new());
    for round in 0..20_000_u64 {
        if round % 10 > 0 {
            taken += u64::from(limiter.check("key").is_allowed());
        } else if let Ok(reserved) = limiter.reserve("key", 100) {
            taken += reserved.cost();
            open.push(reserved);
        }
    }
    assert!(open.len() > 800 && !limiter.check("key").is_allowed());
    assert_eq!(taken, 100_000);
}

#[test]
fn reservations_settled_in_any_order_give_back_all() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (limiter, _) = limiter(Quota::per_second(1).burst(10));
        let mut open: Vec<_> = (1..4).map(|cost| limiter.reserve("key", cost).ok()).collect();
        for index in order {
            drop(open[index].take());
        }
        assert_eq!(seconds_of_debt(&limiter, "key"), 0, "{order:?}");
    }
}

/// The one exception that the guarantee names, at its largest here.
#[test]
fn a_reservation_moved_forward_gives_back_what_drained_in_its_new_place() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    let (front, behind) = (limiter.reserve("key", 5).unwrap(), limiter.reserve("key", 5).unwrap());
    front.cancel();
    // `behind` now drains from 0 s to 5 s instead of from 5 s to 10 s.
    clock.advance(Duration::from_secs(8));
    assert!(limiter.check_n("key", 5).is_allowed());
    behind.cancel();
    assert_eq!(seconds_of_debt(&limiter, "key"), 5 - 2);
}

#[test]
fn a_reset_key_owes_a_reservation_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    let reserved = limiter.reserve("key", 5).unwrap();
    limiter.reset("key");
    assert_eq!(reserved.commit(2).remaining(), 10);
    assert!(limiter.check_n("key", 10).is_allowed());
    assert!(!limiter.check("key").is_allowed());
}

#[test]
fn a_key_admitted_without_a_place_has_nothing_to_give_back() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_hour(1).burst(10))
        .capacity(1)
        .overflow_policy(OverflowPolicy::Allow)
        .clock(clock)
        .build()
        .unwrap();
    for key in 0..30_000_u64 {
        let reserved = limiter.reserve(key, 1).unwrap();
        let traceless = reserved.decision().remaining() == 10;
        let before = limiter.overflow();
        drop(reserved);
        assert_eq!(limiter.peek(key).remaining(), 10);
        if traceless {
            assert_eq!(limiter.overflow(), before);
        }
        assert!(limiter.check_n(key, 5).is_allowed());
    }
    assert!(limiter.overflow().allowed > 0);
}

#[test]
fn an_owned_reservation_goes_with_its_task() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    let limiter = Arc::new(limiter);
    let reserved: Reservation<'static> = limiter.reserve_owned("key", 8).unwrap();
    let weak = Arc::downgrade(&limiter);
    drop(limiter);
    std::thread::spawn(move || {
        assert_eq!(reserved.commit(3).remaining(), 7);
    })
    .join()
    .unwrap();
    assert!(weak.upgrade().is_none());
    drop(clock);
}

/// An operation on the key, after a gap in half emission intervals.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Check(u64),
    /// A check of all that remains.
    Fill,
    Reserve(u64),
    /// Of the reservation at this place among the open ones.
    Settle(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Operation)>> {
    let operation = prop_oneof![
        3 => (0_u64..6).prop_map(Operation::Check),
        1 => Just(Operation::Fill),
        3 => (1_u64..12).prop_map(Operation::Reserve),
        2 => (0_usize..4, 0_u64..12).prop_map(|(index, actual)| Operation::Settle(index, actual)),
        2 => (0_usize..4).prop_map(|index| Operation::Settle(index, 0)),
    ];
    let halves = prop_oneof![3 => Just(0_u64), 5 => 0_u64..8, 1 => 0_u64..40];
    prop::collection::vec((halves, operation), 1..150)
}

/// Units that count against the bound from a moment on.
#[derive(Clone, Copy)]
struct Charge {
    at: u64,
    cost: u64,
}

/// A reservation that is not settled.
struct Open<'l> {
    reservation: Reservation<'l>,
    used: usize,
    /// What reservations made earlier have given back since.
    given_back_in_front: u64,
}

/// Runs the steps with a bounded number of open reservations of a key. What is checked or reserved
/// counts in full until it is settled; then the used part alone. In every interval that is at most
/// `burst + rate * (t - s)`, plus what overlapping reservations may give back twice.
fn the_bound_holds(burst: u64, most_open: usize, steps: &[(u64, Operation)]) {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(burst));
    let mut charges: Vec<Charge> = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut twice = 0;
    for (halves, operation) in steps {
        clock.advance(Duration::from_nanos(halves * SECOND / 2));
        let at = clock.now().as_nanos();
        match *operation {
            Operation::Check(cost) => {
                if limiter.check_n("key", cost).is_allowed() {
                    charges.push(Charge { at, cost });
                }
            }
            Operation::Fill => {
                let cost = limiter.peek("key").remaining();
                assert!(limiter.check_n("key", cost).is_allowed());
                charges.push(Charge { at, cost });
            }
            Operation::Reserve(cost) if open.len() < most_open => {
                if let Ok(reservation) = limiter.reserve("key", cost) {
                    open.push(Open { reservation, used: charges.len(), given_back_in_front: 0 });
                    charges.push(Charge { at, cost });
                }
            }
            Operation::Settle(index, actual) if index < open.len() => {
                let settled = open.remove(index);
                let actual = actual.min(settled.reservation.cost());
                let unused = settled.reservation.cost() - actual;
                twice += unused.min(settled.given_back_in_front);
                for behind in &mut open[index..] {
                    behind.given_back_in_front += unused;
                }
                settled.reservation.commit(actual);
                charges[settled.used].cost = actual;
            }
            Operation::Reserve(_) | Operation::Settle(..) => {}
        }
        let mut used = 0;
        for charge in charges.iter().rev() {
            used += charge.cost;
            let bound = (burst + twice) * SECOND + (at - charge.at);
            assert!(used * SECOND <= bound, "{used} since {}, at {at}", charge.at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// One reservation at a time, with any checks: exactly the limiter's bound.
    #[test]
    fn checked_and_committed_cost_stays_within_the_bound(burst in 1_u64..12, steps in steps()) {
        the_bound_holds(burst, 1, &steps);
    }

    #[test]
    fn overlapping_reservations_give_back_no_more_than_is_stated(
        burst in 1_u64..12,
        steps in steps(),
    ) {
        the_bound_holds(burst, 4, &steps);
    }

    /// In each window exactly what was checked and committed, and what is still reserved, counts.
    #[test]
    fn a_window_counts_what_was_used_in_it(limit in 1_u64..20, steps in steps()) {
        let clock = ManualClock::new();
        let rule = FixedWindow::new(limit, Duration::from_secs(10));
        let limiter = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
        let (mut window, mut count, mut open) = (0, 0, Vec::new());
        for (halves, operation) in steps {
            clock.advance(Duration::from_nanos(halves * SECOND / 2));
            let now = clock.now().as_nanos() / (10 * SECOND);
            if now > window {
                (window, count) = (now, 0);
            }
            match operation {
                Operation::Check(cost) => {
                    let admitted = limiter.check_n("key", cost).is_allowed();
                    prop_assert_eq!(admitted, count + cost <= limit);
                    count += if admitted { cost } else { 0 };
                }
                Operation::Reserve(cost) => {
                    let reserved = limiter.reserve("key", cost);
                    prop_assert_eq!(reserved.is_ok(), count + cost <= limit);
                    if let Ok(reserved) = reserved {
                        open.push((window, reserved));
                        count += cost;
                    }
                }
                Operation::Settle(index, actual) if index < open.len() => {
                    let (charged, reserved) = open.remove(index);
                    let actual = actual.min(reserved.cost());
                    count -= if charged == window { reserved.cost() - actual } else { 0 };
                    reserved.commit(actual);
                }
                Operation::Fill | Operation::Settle(..) => {}
            }
            prop_assert_eq!(limiter.peek("key").remaining(), limit - count);
        }
    }

    /// The same where the previous window has a weight: it is lowered by what is given back of it,
    /// and earlier windows give nothing back.
    #[test]
    fn a_sliding_window_weighs_what_was_used(limit in 1_u64..20, steps in steps()) {
        const LENGTH: u64 = 10 * SECOND;
        let clock = ManualClock::new();
        let rule = SlidingWindow::new(limit, Duration::from_nanos(LENGTH));
        let limiter = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
        // What was used in each window, from the second one on.
        let (mut counts, mut open) = (vec![0; 5_000], Vec::new());
        for (halves, operation) in steps {
            clock.advance(Duration::from_nanos(halves * SECOND / 2));
            let now = clock.now().as_nanos();
            let window = (now / LENGTH) as usize + 1;
            let left = |counts: &[u64]| {
                let weight = counts[window - 1] * (LENGTH - now % LENGTH);
                limit.saturating_sub(counts[window] + weight.div_ceil(LENGTH))
            };
            match operation {
                Operation::Check(cost) => {
                    let admitted = limiter.check_n("key", cost).is_allowed();
                    prop_assert_eq!(admitted, cost <= left(&counts));
                    counts[window] += if admitted { cost } else { 0 };
                }
                Operation::Reserve(cost) => {
                    let reserved = limiter.reserve("key", cost);
                    prop_assert_eq!(reserved.is_ok(), cost <= left(&counts));
                    if let Ok(reserved) = reserved {
                        open.push((window, reserved));
                        counts[window] += cost;
                    }
                }
                Operation::Settle(index, actual) if index < open.len() => {
                    let (charged, reserved) = open.remove(index);
                    let actual = actual.min(reserved.cost());
                    counts[charged] -= reserved.cost() - actual;
                    reserved.commit(actual);
                }
                Operation::Fill | Operation::Settle(..) => {}
            }
            prop_assert_eq!(limiter.peek("key").remaining(), left(&counts));
        }
    }

    /// A key that never falls idle owes exactly what was checked and committed, in whatever order.
    #[test]
    fn a_busy_key_owes_what_was_used(steps in steps()) {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(100_000));
        assert!(limiter.check_n("key", 50_000).is_allowed());
        let mut owed = 50_000 * SECOND;
        let mut open = Vec::new();
        for (halves, operation) in steps {
            clock.advance(Duration::from_nanos(halves * SECOND / 2));
            owed -= halves * SECOND / 2;
            match operation {
                Operation::Check(cost) => {
                    prop_assert!(limiter.check_n("key", cost).is_allowed());
                    owed += cost * SECOND;
                }
                Operation::Reserve(cost) => {
                    open.push(limiter.reserve("key", cost).unwrap());
                    owed += cost * SECOND;
                }
                Operation::Settle(index, actual) if index < open.len() => {
                    let reservation = open.remove(index);
                    owed = owed + actual * SECOND - reservation.cost() * SECOND;
                    let left = reservation.commit(actual);
                    prop_assert_eq!(left, limiter.peek("key"));
                }
                Operation::Fill | Operation::Settle(..) => {}
            }
            prop_assert_eq!(limiter.peek("key").reset_after(), Duration::from_nanos(owed));
        }
    }
}

/// The clock stands still, so a key owes exactly what its threads checked and committed.
#[test]
fn reservations_and_checks_of_many_threads_add_up() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 50_000;

    let (limiter, _) = limiter(Quota::per_second(1).burst(60));
    let start = Barrier::new(THREADS as usize);
    let work = |thread: u64| {
        let (mut used, mut random) = (0, thread + 1);
        start.wait();
        for _ in 0..TURNS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let cost = random % 20 + 1;
            if let Ok(reserved) = limiter.reserve("key", cost) {
                if random & 0x1f00 == 0 && used < 10 {
                    let actual = random % cost;
                    reserved.commit(actual);
                    used += actual;
                } else {
                    reserved.cancel();
                }
            }
        }
        used
    };
    let used: u64 = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(used > 0);
    assert_eq!(seconds_of_debt(&limiter, "key"), used);
}
