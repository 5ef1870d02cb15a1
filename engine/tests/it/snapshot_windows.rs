//! Counts of fixed and sliding windows over a downtime, onto any other clock: against the oracle,
//! whose downtime is shortened so that the windows coincide, and against the rules' guarantees.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::snapshot::{Restored, SavedKey, SavedState, Snapshot};
use tidegate_engine::{
    Decision, FixedWindow, KeyHasher, Limiter, ManualClock, Rule, SlidingWindow,
};

use crate::exact::windows::{Oracle, answer, most};

/// A gap, a key, and a cost that is checked, charged or given back.
type Step = (u64, u8, Operation);

#[derive(Clone, Copy, Debug)]
enum Operation {
    Check(u64),
    Charge(u64),
    Refund(u64),
}

#[derive(Clone, Copy, Debug)]
struct Windows {
    limit: u64,
    length: u64,
    slides: bool,
}

/// A restore: how long after the snapshot, how long after the snapshot it is read, and what the
/// other clock shows then.
#[derive(Clone, Copy, Debug)]
struct Restart {
    downtime: u64,
    late: u64,
    other: u64,
}

impl Restart {
    /// By how much the effective downtime of a snapshot from `saved` is shorter.
    fn less(self, windows: Windows, saved: u64) -> u64 {
        (saved + self.downtime)
            .wrapping_sub(self.other)
            .cast_signed()
            .rem_euclid(windows.length.cast_signed())
            .cast_unsigned()
    }
}

fn windows() -> impl Strategy<Value = Windows> {
    // The word of windows of a microsecond holds two counts up to 31 and their number.
    let length = prop_oneof![1_000_u64..2_000, Just(1_000_000_000), 1_000_u64..1 << 40];
    (1_u64..12, length, any::<bool>()).prop_map(|(limit, length, slides)| Windows {
        limit,
        length,
        slides,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operation = prop_oneof![
        8 => (0_u64..6).prop_map(Operation::Check),
        2 => (0_u64..15).prop_map(Operation::Charge),
        1 => (0_u64..6).prop_map(Operation::Refund),
    ];
    prop::collection::vec((parts(), 0_u8..4, operation), 0..30)
}

/// A gap, and a cost, or all that remains.
fn checks() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((parts(), prop_oneof![1_u64..6, Just(u64::MAX)]), 1..15)
}

/// Parts of a window of 2^20, mostly less than half of it, up to three windows.
fn parts() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0_u64), 6 => 0_u64..1 << 19, 1 => 0_u64..3 << 20]
}

fn restarts() -> impl Strategy<Value = Restart> {
    (parts(), parts(), prop_oneof![Just(0), 0_u64..8 << 20])
        .prop_map(|(downtime, late, other)| Restart { downtime: downtime + late, late, other })
}

impl Windows {
    /// Parts of a window in nanoseconds.
    fn part(self, parts: u64) -> u64 {
        ((u128::from(parts) * u128::from(self.length)) >> 20) as u64
    }

    fn scaled(self, Restart { downtime, late, other }: Restart) -> Restart {
        let late = self.part(late);
        Restart { downtime: self.part(downtime).max(late), late, other: self.part(other) }
    }

    fn oracle(self) -> Oracle {
        let length = Duration::from_nanos(self.length);
        let most = if self.slides {
            most(SlidingWindow::new(u64::MAX, length))
        } else {
            most(FixedWindow::new(u64::MAX, length))
        };
        Oracle::new((self.limit, self.length, most), self.slides)
    }

    /// Limiters of both rules, with one interface.
    fn limiter(self, at: u64) -> Box<dyn Limits> {
        let length = Duration::from_nanos(self.length);
        if self.slides {
            made(SlidingWindow::new(self.limit, length), at)
        } else {
            made(FixedWindow::new(self.limit, length), at)
        }
    }
}

trait Limits {
    fn set(&self, now: u64);
    fn apply(&self, key: u8, operation: Operation) -> Option<Decision>;
    fn peek(&self, key: u8) -> Decision;
    fn check(&self, key: u8, cost: u64) -> Decision;
    /// The bytes of a snapshot that is read when the clock shows `reading`.
    fn save(&self, reading: u64) -> Vec<u8>;
    fn restore(&self, bytes: &[u8], downtime: u64) -> Restored;
}

fn made(rule: impl Rule, at: u64) -> Box<dyn Limits> {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(at));
    let limiter = Limiter::builder(rule).capacity(1).hasher(KeyHasher::rapid(7));
    Box::new(limiter.clock(clock).build().unwrap())
}

impl<R: Rule> Limits for Limiter<R, ManualClock> {
    fn set(&self, now: u64) {
        self.clock().set(Timestamp::from_nanos(now));
    }

    fn apply(&self, key: u8, operation: Operation) -> Option<Decision> {
        match operation {
            Operation::Check(cost) => return Some(self.check_n(key, cost)),
            Operation::Charge(cost) => drop(self.charge(key, cost)),
            Operation::Refund(cost) => self.refund(key, cost),
        }
        None
    }

    fn peek(&self, key: u8) -> Decision {
        self.check_n(key, 0)
    }

    fn check(&self, key: u8, cost: u64) -> Decision {
        self.check_n(key, cost)
    }

    fn save(&self, reading: u64) -> Vec<u8> {
        let snapshot = self.snapshot();
        self.set(reading);
        snapshot.to_bytes()
    }

    fn restore(&self, bytes: &[u8], downtime: u64) -> Restored {
        let snapshot = Snapshot::from_bytes(bytes).unwrap();
        Limiter::restore(self, snapshot, Duration::from_nanos(downtime)).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Every figure is that of an oracle whose downtime is shorter by the least that makes the
    /// windows coincide; where that exceeds the downtime its time goes back, and keys without a
    /// state are new.
    #[test]
    fn a_restored_limiter_decides_as_after_a_shorter_downtime(
        windows in windows(),
        start in prop_oneof![0_u64..1 << 38, 0_u64..1 << 50],
        before in steps(),
        restart in restarts(),
        after in steps(),
    ) {
        let restart = windows.scaled(restart);
        let limiter = windows.limiter(start);
        let mut oracles: HashMap<u8, Oracle> = HashMap::new();
        let mut now = start;
        for (gap, key, operation) in before {
            now += windows.part(gap);
            limiter.set(now);
            let _ = limiter.apply(key, operation);
            let oracle = oracles.entry(key).or_insert_with(|| windows.oracle());
            match operation {
                Operation::Check(cost) => drop(oracle.check(now.into(), cost.into())),
                Operation::Charge(cost) => oracle.charge(now.into(), cost.into()),
                Operation::Refund(cost) => oracle.refund(now.into(), cost.into()),
            }
        }
        let saved = now;
        oracles.retain(|_, oracle| oracle.estimate(saved.into()) > 0);
        for oracle in oracles.values_mut() {
            oracle.changed_in = oracle.changed_in.max(oracle.number(saved.into()));
        }
        let bytes = limiter.save(saved + restart.late);
        prop_assert_eq!(Snapshot::from_bytes(&bytes).unwrap().into_iter().len(), oracles.len());

        let limiter = windows.limiter(restart.other);
        let restored = limiter.restore(&bytes, restart.downtime);
        prop_assert_eq!(restored.raised + restored.unchanged, oracles.len() as u64);
        let again = limiter.restore(&bytes, restart.downtime);
        prop_assert_eq!((again.raised, again.unchanged), (0, oracles.len() as u64));
        let ahead = i128::from(saved + restart.downtime) - i128::from(restart.other)
            - i128::from(restart.less(windows, saved));
        let mut now = restart.other;
        for (gap, key, operation) in after {
            now += windows.part(gap);
            limiter.set(now);
            let at = i128::from(now) + ahead;
            let decision = limiter.apply(key, operation);
            let oracle = oracles.entry(key).or_insert_with(|| windows.oracle());
            let expected = match operation {
                Operation::Check(cost) => Some(oracle.check(at, cost.into())),
                Operation::Charge(cost) => { oracle.charge(at, cost.into()); None }
                Operation::Refund(cost) => { oracle.refund(at, cost.into()); None }
            };
            prop_assert_eq!(decision.as_ref().map(answer), expected, "{:?} at {}", operation, now);
            prop_assert_eq!(answer(&limiter.peek(key)), oracle.check(at, 0), "at {}", now);
        }
    }

    /// A greedy key over several restarts with their true downtimes: no interval admits more than
    /// the rule's bound, except one limit of a fixed window where the downtime was too short and
    /// the key had no state; and no wait is longer by a window or more than without a restart.
    #[test]
    fn no_interval_admits_more_than_the_rule_says(
        windows in windows(),
        start in prop_oneof![Just(0), 0_u64..1 << 50],
        lives in prop::collection::vec((checks(), parts(), restarts()), 1..4),
    ) {
        let mut limiter = windows.limiter(start);
        // Real time, which no clock here shows, and the time of the limiter's clock.
        let (mut time, mut now) = (0, start);
        let (mut admitted, mut excesses) = (Vec::new(), Vec::new());
        for (checks, idle, restart) in lives {
            let restart = windows.scaled(restart);
            for (gap, cost) in checks {
                time += windows.part(gap);
                now += windows.part(gap);
                limiter.set(now);
                let cost = cost.min(limiter.peek(0).remaining());
                if limiter.check(0, cost).is_allowed() {
                    admitted.push((time, cost));
                }
            }
            time += windows.part(idle);
            now += windows.part(idle);
            limiter.set(now);
            let downtime = Duration::from_nanos(restart.downtime);
            let would_wait = limiter.peek(0).reset_after().saturating_sub(downtime);
            let bytes = limiter.save(now + restart.late);
            let is_short = restart.downtime < restart.less(windows, now);
            let has_state = Snapshot::from_bytes(&bytes).unwrap().into_iter().len() > 0;
            if is_short && !has_state && !windows.slides {
                excesses.push((time, windows.limit));
            }
            limiter = windows.limiter(restart.other);
            let _ = limiter.restore(&bytes, restart.downtime);
            let waits = limiter.peek(0).reset_after();
            prop_assert!(would_wait <= waits, "{would_wait:?} {waits:?}");
            let longest = would_wait + Duration::from_nanos(windows.length);
            prop_assert!(waits < longest, "{would_wait:?} {waits:?}");
            time += restart.downtime;
            now = restart.other;
        }
        for (index, (from, _)) in admitted.iter().enumerate() {
            let mut units = 0;
            for (to, cost) in &admitted[index..] {
                units += cost;
                let took = to - from;
                let bound = if windows.slides {
                    if took > windows.length { break }
                    2 * windows.limit - 1
                } else {
                    let within = excesses.iter().filter(|(at, _)| (from..=to).contains(&at));
                    let excess: u64 = within.map(|(_, units)| units).sum();
                    windows.limit * (took.div_ceil(windows.length) + 1) + excess
                };
                prop_assert!(units <= bound, "{units} within {took} ns");
            }
        }
    }

    /// Into a running limiter: no key has more left than it had, or than in an empty limiter; and
    /// idempotent. Where both count the same windows it is the larger of each figure.
    #[test]
    fn a_merge_is_a_maximum(
        windows in windows(),
        start in 0_u64..1 << 50,
        (here, there) in (steps(), steps()),
        restart in restarts(),
        same_clock in any::<bool>(),
        gaps in prop::collection::vec(parts(), 1..12),
    ) {
        let restart = windows.scaled(restart);
        let fill = |start: u64, steps: &[Step]| {
            let limiter = windows.limiter(start);
            let mut now = start;
            for (gap, key, operation) in steps {
                now += windows.part(*gap);
                limiter.set(now);
                let _ = limiter.apply(*key, *operation);
            }
            (limiter, now)
        };
        let (untouched, mut now) = fill(start, &here);
        let (merged, _) = fill(start, &here);
        let (other, other_now) = fill(if same_clock { start } else { restart.other }, &there);
        let downtime = if same_clock {
            now = now.max(other_now);
            for limiter in [&untouched, &merged, &other] {
                limiter.set(now);
            }
            0
        } else {
            restart.downtime
        };
        let bytes = other.save(other_now.max(if same_clock { now } else { 0 }));
        let alone = windows.limiter(now);
        let _ = alone.restore(&bytes, downtime);
        let first = merged.restore(&bytes, downtime);
        if same_clock {
            prop_assert_eq!(states(&merged.save(now)), larger(&untouched.save(now), &bytes));
        }
        let second = merged.restore(&bytes, downtime);
        prop_assert_eq!((second.raised, second.unchanged), (0, first.raised + first.unchanged));
        for gap in gaps {
            for key in 0..4 {
                let least = untouched.peek(key).remaining().min(alone.peek(key).remaining());
                prop_assert!(merged.peek(key).remaining() <= least, "{key} at {now}");
                let most = untouched.peek(key).reset_after().max(alone.peek(key).reset_after());
                prop_assert!(merged.peek(key).reset_after() >= most, "{key} at {now}");
            }
            now += windows.part(gap);
            for limiter in [&untouched, &merged, &alone] {
                limiter.set(now);
            }
        }
    }
}

/// For each key the rest of the window, its count, and that with the previous count.
fn states(bytes: &[u8]) -> HashMap<u64, (Duration, u64, u64)> {
    let state = |SavedKey { key, state }| {
        let SavedState::Window { left, current, previous } = state else { panic!("{state:?}") };
        (key.to_bits(), (left, current, current + previous))
    };
    Snapshot::from_bytes(bytes).unwrap().into_iter().map(state).collect()
}

fn larger(one: &[u8], other: &[u8]) -> HashMap<u64, (Duration, u64, u64)> {
    let mut states_of_both = states(one);
    for (key, (left, current, both)) in states(other) {
        let held = states_of_both.entry(key).or_insert((left, current, both));
        *held = (held.0.max(left), held.1.max(current), held.2.max(both));
    }
    states_of_both
}

/// A clock that restarts with each process: the window restarts with its count.
#[test]
fn a_day_that_was_half_over_begins_anew_with_its_count() {
    let windows = Windows { limit: 3, length: 86_400_000_000_000, slides: false };
    let before = windows.limiter(windows.length / 2);
    assert!(before.check(0, 2).is_allowed());
    let after = windows.limiter(0);
    assert_eq!(after.restore(&before.save(windows.length / 2), 1_000).raised, 1);
    assert!(after.check(0, 1).is_allowed());
    assert_eq!(after.check(0, 1).retry_after(), Some(Duration::from_hours(24)));
    assert!(after.check(1, 3).is_allowed());
}

/// A snapshot may contain anything: times and counts saturate, and nothing wraps.
#[test]
fn outlandish_counts_saturate() {
    let windows = [
        (FixedWindow::per_day(5), Timestamp::ORIGIN),
        (FixedWindow::new(5, Duration::from_micros(1)), Timestamp::from_nanos(u64::MAX)),
    ];
    let durations = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
    for ((rule, now), left) in windows.into_iter().flat_map(|one| durations.map(|left| (one, left)))
    {
        for downtime in durations {
            both(rule, now, left, downtime);
            both(SlidingWindow::new(rule.limit(), rule.window()), now, left, downtime);
        }
    }
}

fn both(rule: impl Rule, now: Timestamp, left: Duration, downtime: Duration) {
    let clock = ManualClock::new();
    clock.set(now);
    let limiter = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
    let state = SavedState::Window { left, current: u64::MAX, previous: u64::MAX };
    let (fingerprint, kind) = (limiter.snapshot().fingerprint(), limiter.snapshot().kind());
    let key = SavedKey { key: limiter.hash("key"), state };
    let restored = limiter.restore(Snapshot::new(fingerprint, kind, [key]), downtime).unwrap();
    assert_eq!(restored.raised + restored.unchanged, 1);
    // Time saturates in the last window, so what is held there is held for good.
    let is_held = restored.raised == 1;
    assert_eq!(limiter.check("key").is_allowed(), !is_held, "{rule:?} {left:?} {downtime:?}");
    assert!(is_held || left <= downtime, "{rule:?} {left:?} {downtime:?}");
}

/// Reaches the documented error: a downtime that is too short for the windows to coincide, and a
/// key whose previous window is forgotten.
#[test]
fn a_key_without_a_state_may_be_admitted_a_limit_once_more() {
    let windows = Windows { limit: 3, length: 1_000, slides: false };
    let before = windows.limiter(999);
    assert!(before.check(0, 3).is_allowed());
    before.set(1_001);
    let after = windows.limiter(101);
    assert_eq!(after.restore(&before.save(1_001), 0), Restored::default());
    assert!(after.check(0, 3).is_allowed());
    after.set(999);
    assert!(!after.check(0, 1).is_allowed());
    // 901 ns after the first three.
    after.set(1_000);
    assert!(after.check(0, 3).is_allowed());
}
