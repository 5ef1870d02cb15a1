//! Fixed windows and sliding-window counters against the oracle, in every figure.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Decision, FixedWindow, Limiter, ManualClock, Rule, SlidingWindow};

use crate::exact::windows::{Oracle, answer, most};

const DAY: u64 = 24 * 3_600 * 1_000_000_000;
/// Time saturates here.
const LAST: u64 = 3_660 * DAY;
const LONGEST: u64 = 1 << 56;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Check(u64),
    Charge(u64),
    Refund(u64),
    Reset,
}

/// A move of the clock: window lengths forward, nanoseconds forward, nanoseconds back.
type Move = (u64, u64, u64);

fn costs() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => Just(1_u64), 6 => 0_u64..8, 3 => 0_u64..200, 1 => 0_u64..1 << 40,
        1 => Just(u64::MAX), 1 => any::<u64>()
    ]
}

fn operations() -> impl Strategy<Value = Vec<(Move, Operation)>> {
    let operation = prop_oneof![
        12 => costs().prop_map(Operation::Check),
        2 => costs().prop_map(Operation::Charge),
        3 => costs().prop_map(Operation::Refund),
        1 => Just(Operation::Reset),
    ];
    let lengths = prop_oneof![12 => Just(0_u64), 3 => 0_u64..4, 1 => any::<u64>()];
    let forward = prop_oneof![4 => Just(0_u64), 3 => 0_u64..40, 3 => any::<u64>()];
    let back = prop_oneof![8 => Just(0_u64), 1 => 0_u64..40, 1 => any::<u64>()];
    prop::collection::vec(((lengths, forward, back), operation), 1..120)
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 7_u64..100,
        2 => Just(1_000_000_000_u64),
        1 => Just(60_000_000_000_u64),
        1 => Just(DAY),
        3 => (0_u32..56).prop_flat_map(|bits| 1_u64 << bits..2_u64 << bits),
        1 => Just(LONGEST),
    ]
}

/// A limit of at most `most`, from a draw.
fn limit_of(most: u64, draw: (u8, u64)) -> u64 {
    match draw.0 {
        0 => most,
        1 => most - most.min(draw.1 % 3),
        2 => draw.1 % (most.saturating_add(1)),
        3 => 0,
        4 => 1.min(most),
        _ => draw.1 % 60.min(most + 1),
    }
}

/// Applies every operation to a limiter and to the oracle, and compares every figure after each
/// step.
fn agree(
    rule: impl Rule,
    (limit, length, most): (u64, u64, u64),
    slides: bool,
    start: u64,
    steps: Vec<(Move, Operation)>,
) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
    let mut oracle = Oracle::new((limit, length, most), slides);
    let mut time = start;
    for ((lengths, forward, back), operation) in steps {
        let lengths = if lengths > 8 { u64::from(lengths % 16 == 0) * lengths } else { lengths };
        let forward = if forward < 40 { forward } else { forward % length };
        let back = if back < 40 { back } else { back % (2 * length) };
        time = time.saturating_add(lengths.saturating_mul(length)).saturating_add(forward);
        time = time.saturating_sub(back);
        clock.set(Timestamp::from_nanos(time));
        let now = i128::from(time.min(LAST));
        match operation {
            Operation::Check(cost) => {
                let decision = limiter.check_n("key", cost);
                prop_assert_eq!(answer(&decision), oracle.check(now, cost.into()), "at {}", now);
                prop_assert_eq!(decision.limit(), limit);
            }
            Operation::Charge(cost) => {
                let _ = limiter.charge("key", cost);
                oracle.charge(now, cost.into());
            }
            Operation::Refund(cost) => {
                limiter.refund("key", cost);
                oracle.refund(now, cost.into());
            }
            Operation::Reset => {
                limiter.reset("key");
                oracle.reset(now);
            }
        }
        let peeked = answer(&limiter.peek("key"));
        prop_assert_eq!(peeked, oracle.check(now, 0), "a peek at {} after {:?}", now, operation);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn fixed_windows_agree_in_every_figure(
        length in lengths(),
        draw in (0_u8..10, any::<u64>()),
        start in prop_oneof![Just(0_u64), 0_u64..1 << 50, LAST - 1_000..=LAST],
        steps in operations(),
    ) {
        let window = Duration::from_nanos(length);
        let most = most(FixedWindow::new(u64::MAX, window));
        let limit = limit_of(most, draw);
        agree(FixedWindow::new(limit, window), (limit, length, most), false, start, steps)?;
    }

    #[test]
    fn sliding_windows_agree_in_every_figure(
        length in lengths(),
        draw in (0_u8..10, any::<u64>()),
        start in prop_oneof![Just(0_u64), 0_u64..1 << 50, LAST - 1_000..=LAST],
        steps in operations(),
    ) {
        let window = Duration::from_nanos(length);
        let most = most(SlidingWindow::new(u64::MAX, window));
        let limit = limit_of(most, draw);
        agree(SlidingWindow::new(limit, window), (limit, length, most), true, start, steps)?;
    }

    /// The limit less what others have been admitted is what a key can spend after any idle time.
    #[test]
    fn an_idle_key_is_exactly_a_fresh_one(
        // A count of 5 fits twice.
        length in lengths().prop_map(|length| length.max(64)),
        slides in any::<bool>(),
        start in 0_u64..1 << 50,
        forward in any::<u64>(),
    ) {
        let window = Duration::from_nanos(length);
        let at = |nanos| Timestamp::from_nanos(nanos);
        let spends = |windows: u64, check: &dyn Fn(u64, Timestamp) -> Decision| {
            let first = check(5, at(start));
            prop_assert!(first.is_allowed());
            let fresh = start + first.reset_after().as_nanos() as u64;
            prop_assert!(fresh <= start + windows * length);
            prop_assert!(!check(5, at(fresh - 1)).is_allowed(), "a nanosecond too early");
            let later = fresh + forward % (4 * length);
            prop_assert_eq!(check(0, at(later)).reset_after(), Duration::ZERO);
            prop_assert!(check(5, at(later)).is_allowed());
            prop_assert!(!check(1, at(later)).is_allowed());
            Ok(())
        };
        if slides {
            let limiter = Limiter::builder(SlidingWindow::new(5, window)).capacity(1);
            let limiter = limiter.clock(ManualClock::new()).build().unwrap();
            spends(2, &|cost, now| limiter.check_at("key", cost, now))?;
        } else {
            let limiter = Limiter::builder(FixedWindow::new(5, window)).capacity(1);
            let limiter = limiter.clock(ManualClock::new()).build().unwrap();
            spends(1, &|cost, now| limiter.check_at("key", cost, now))?;
        }
    }
}
