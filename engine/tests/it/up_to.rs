//! Taking as much as fits: what is granted, and that nothing is left or taken twice.

use std::sync::Barrier;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::limiter::{Grant, WithQuota};
use tidegate_engine::rule::DebtRule;
use tidegate_engine::{
    CalendarWindow, Clock, Decision, DirectLimiter, FixedWindow, Limiter, LiveQuota, ManualClock,
    Quota, Rule, SlidingWindow,
};

use crate::exact::{Oracle, answer};

/// A limit on one key, whatever its type.
trait OneKey {
    fn up_to(&self, cost: u64) -> Grant;
    fn check_n(&self, cost: u64) -> Decision;
    fn peek_n(&self, cost: u64) -> Decision;
    fn charge(&self, cost: u64) -> Decision;
    fn refund(&self, cost: u64);
}

/// The methods of a limiter with keys.
macro_rules! one_key {
    ($type:ty, $($parameters:tt)*) => {
        impl<$($parameters)*> OneKey for $type {
            fn up_to(&self, cost: u64) -> Grant {
                self.check_up_to("key", cost)
            }

            fn check_n(&self, cost: u64) -> Decision {
                self.check_n("key", cost)
            }

            fn peek_n(&self, cost: u64) -> Decision {
                self.peek_n("key", cost)
            }

            fn charge(&self, cost: u64) -> Decision {
                self.charge("key", cost)
            }

            fn refund(&self, cost: u64) {
                self.refund("key", cost);
            }
        }
    };
}

one_key!(Limiter<R, ManualClock>, R: Rule);
one_key!(WithQuota<'_, '_, R, ManualClock>, R: DebtRule);

impl<R: Rule> OneKey for DirectLimiter<R, ManualClock> {
    fn up_to(&self, cost: u64) -> Grant {
        self.check_up_to(cost)
    }

    fn check_n(&self, cost: u64) -> Decision {
        self.check_n(cost)
    }

    fn peek_n(&self, cost: u64) -> Decision {
        self.peek_n(cost)
    }

    fn charge(&self, cost: u64) -> Decision {
        self.charge(cost)
    }

    fn refund(&self, cost: u64) {
        self.refund(cost);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    UpTo(u64),
    Check(u64),
    Charge(u64),
    Refund(u64),
}

/// Nanoseconds by which the clock advances, and what follows.
type Steps = Vec<(u64, Step)>;

fn steps() -> impl Strategy<Value = Steps> {
    let gap = prop_oneof![2 => Just(0_u64), 2 => 0_u64..50, 2 => 0_u64..5_000, 1 => 0_u64..1 << 30];
    let cost = || prop_oneof![4 => 0_u64..8, 4 => 0_u64..80, 1 => any::<u64>()];
    let step = prop_oneof![
        6 => cost().prop_map(Step::UpTo),
        2 => cost().prop_map(Step::Check),
        1 => (0_u64..80).prop_map(Step::Charge),
        1 => (0_u64..80).prop_map(Step::Refund),
    ];
    prop::collection::vec((gap, step), 1..80)
}

fn clocks() -> [ManualClock; 2] {
    [(); 2].map(|()| ManualClock::new())
}

/// Whether a grant is a check of the most units that the twin has left, and leaves no unit that
/// fits.
fn agree(
    [clock, other_clock]: &[ManualClock; 2],
    limit: &impl OneKey,
    twin: &impl OneKey,
    steps: Steps,
) -> Result<(), TestCaseError> {
    for (gap, step) in steps {
        clock.advance(Duration::from_nanos(gap));
        other_clock.set(clock.now());
        match step {
            Step::UpTo(cost) => {
                let grant = limit.up_to(cost);
                let units = twin.peek_n(0).remaining().min(cost);
                prop_assert_eq!(grant.units(), units);
                prop_assert_eq!(grant.decision(), twin.check_n(units.max(cost.min(1))));
                prop_assert_eq!(cost == 0 || grant.decision().is_allowed(), units > 0 || cost == 0);
                prop_assert!(units == cost || !limit.peek_n(1).is_allowed());
            }
            Step::Check(cost) => prop_assert_eq!(limit.check_n(cost), twin.check_n(cost)),
            Step::Charge(cost) => prop_assert_eq!(limit.charge(cost), twin.charge(cost)),
            Step::Refund(cost) => {
                limit.refund(cost);
                twin.refund(cost);
            }
        }
        prop_assert_eq!(limit.peek_n(0), twin.peek_n(0));
    }
    Ok(())
}

fn keyed<R: Rule>(rule: R, clocks: &[ManualClock; 2]) -> [Limiter<R, ManualClock>; 2] {
    clocks
        .each_ref()
        .map(|clock| Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap())
}

/// With keys and without.
fn rule_agrees(rule: impl Rule, steps: &Steps) -> Result<(), TestCaseError> {
    let both = clocks();
    let [limiter, twin] = keyed(rule, &both);
    agree(&both, &limiter, &twin, steps.clone())?;
    let both = clocks();
    let [limiter, twin] = both
        .each_ref()
        .map(|clock| DirectLimiter::builder(rule).clock(clock.clone()).build().unwrap());
    agree(&both, &limiter, &twin, steps.clone())
}

fn quota() -> impl Strategy<Value = Quota> {
    (1_u64..3_000, 1_u64..5, 1_u64..60).prop_map(|(nanos, count, burst)| {
        Quota::new(count, Duration::from_nanos(nanos + count)).burst(burst)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_grant_is_a_check_of_the_most_that_fits(quota in quota(), steps in steps()) {
        rule_agrees(quota, &steps)?;
        rule_agrees(LiveQuota::new(quota), &steps)?;
    }

    #[test]
    fn a_grant_under_windows_is_a_check_of_the_most_that_fits(
        limit in 0_u64..100,
        window in 100_000_u64..10_000_000,
        steps in steps(),
    ) {
        let window = Duration::from_nanos(window);
        rule_agrees(FixedWindow::new(limit, window), &steps)?;
        rule_agrees(SlidingWindow::new(limit, window), &steps)?;
        let minutes = CalendarWindow::per_minute(limit).anchored(Duration::ZERO);
        rule_agrees(minutes, &steps)?;
    }

    #[test]
    fn a_grant_under_a_given_quota_is_a_check_of_the_most_that_fits(
        own in quota(),
        quota in quota(),
        steps in steps(),
    ) {
        let both = clocks();
        let [limiter, twin] = keyed(own, &both);
        let given = limiter.with_quota(&quota).unwrap();
        let other = twin.with_quota(&quota).unwrap();
        agree(&both, &given, &other, steps.clone())?;
        let both = clocks();
        let [limiter, twin] = keyed(LiveQuota::new(own), &both);
        let given = limiter.with_quota(&quota).unwrap();
        let other = twin.with_quota(&quota).unwrap();
        agree(&both, &given, &other, steps)?;
    }

    #[test]
    fn grants_agree_with_the_oracle(
        interval in 1_u64..3_000,
        burst in 1_u64..60,
        steps in prop::collection::vec((0_u64..9_000, 0_u64..90), 1..80),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(interval)).burst(burst);
        let both = clocks();
        let ([limiter, _], mut oracle) = (keyed(quota, &both), Oracle::new(&quota));
        for (gap, cost) in steps {
            both[0].advance(Duration::from_nanos(gap));
            let now = both[0].now().as_nanos();
            let grant = limiter.check_up_to("key", cost);
            let fits = |units: &u64| *units == 0 || oracle.missing(now, *units) <= 0;
            prop_assert_eq!(Some(grant.units()), (0..=cost).rev().find(fits));
            let expected = oracle.check(now, grant.units().max(cost.min(1)));
            prop_assert_eq!(answer(&grant.decision()), expected);
        }
    }
}

/// Takes up to as many units at once as its turn says, until there are none.
fn take_all(limit: &impl OneKey, first: u64) -> u64 {
    let mut taken = 0;
    for turn in first.. {
        let cost = 1 + turn % 7;
        let grant = limit.up_to(cost);
        taken += grant.units();
        // Time stands still and nothing is given back: less than was asked for is all there was.
        assert!(grant.units() == cost || grant.decision().remaining() == 0);
        if grant.units() == 0 {
            break;
        }
    }
    taken
}

/// Threads together take exactly what there is.
fn is_shared_out(limit: &(impl OneKey + Sync), units: u64) {
    const THREADS: u64 = 4;
    let start = Barrier::new(THREADS as usize);
    let taken: u64 = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|first| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                take_all(limit, first)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, units);
    assert_eq!(limit.peek_n(0).remaining(), 0);
}

#[test]
fn threads_together_take_exactly_what_fits() {
    const UNITS: u64 = 100_000;
    let slow = Quota::new(1, Duration::from_secs(1)).burst(UNITS);
    for _ in 0..5 {
        let both = clocks();
        let [limiter, other] = keyed(slow, &both);
        is_shared_out(&limiter, UNITS);
        is_shared_out(&other.with_quota(&Quota::per_hour(UNITS)).unwrap(), UNITS);
        is_shared_out(&keyed(LiveQuota::new(slow), &both)[0], UNITS);
        is_shared_out(&keyed(FixedWindow::per_hour(UNITS), &both)[0], UNITS);
        is_shared_out(&keyed(SlidingWindow::per_hour(UNITS), &both)[0], UNITS);
        let direct = DirectLimiter::builder(slow).clock(ManualClock::new()).build().unwrap();
        is_shared_out(&direct, UNITS);
    }
}

#[test]
fn what_is_unlimited_or_blocked_is_granted_whole_or_not_at_all() {
    let both = clocks();
    let [open, _] = keyed(Quota::unlimited(), &both);
    let [blocked, other] = keyed(Quota::blocked(), &both);
    for cost in [0, 1, 7, u64::MAX] {
        assert_eq!(open.check_up_to("key", cost).units(), cost);
        let given = other.with_quota(&Quota::unlimited()).unwrap().check_up_to("key", cost);
        assert_eq!((given.units(), given.decision().is_allowed()), (cost, true));
        let none = blocked.check_up_to("key", cost);
        assert_eq!(none.units(), 0);
        assert_eq!(none.decision(), blocked.check_n("key", cost.min(1)));
    }
}

#[test]
fn a_grant_of_nothing_is_charged_as_a_denied_check_of_one() {
    let quota = Quota::per_second(1).burst(4);
    let [limiter, twin] = [(); 2].map(|()| {
        let builder = Limiter::builder(quota).capacity(1).clock(ManualClock::new());
        builder.charge_denied(2).build().unwrap()
    });
    let given = twin.with_quota(&quota).unwrap();
    assert_eq!(limiter.check_up_to("key", 9).units(), 4);
    assert_eq!(given.check_up_to("key", 9).units(), 4);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(4), "a part is no denial");
    for seconds in 5..15_u64 {
        let none = limiter.check_up_to("key", 9);
        assert_eq!((none.units(), none), (0, given.check_up_to("key", 9)));
        let owed = Duration::from_secs(seconds.min(12));
        assert_eq!(none.decision().reset_after(), owed);
    }
    assert_eq!(limiter.check_up_to("key", 0).units(), 0);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(12));
}

#[test]
fn with_leases_the_word_decides() {
    let quota = Quota::per_hour(100_000);
    let builder = Limiter::builder(quota).lease_units(64).clock(ManualClock::new());
    let limiter = builder.build().unwrap();
    assert!(limiter.lease_units() > 0);
    while limiter.leased("key") == 0 {
        assert!(limiter.check("key").is_allowed());
    }
    let leased = limiter.leased("key");
    let left = limiter.peek("key").remaining();
    let grant = limiter.check_up_to("key", u64::MAX);
    assert_eq!((grant.units(), grant.decision().remaining()), (left - leased, 0));
    assert_eq!(limiter.check_up_to("key", 1).units(), 0);
    assert!(limiter.check("key").is_allowed(), "what is leased is left");
}
