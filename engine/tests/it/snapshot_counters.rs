//! Counters and logs, restored: as if there had been no downtime, and never weaker than before.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::counter::{ShardedCounter, SlidingLog, SubWindowCounter};
use tidegate_engine::snapshot::{RestoreError, SavedKey, SavedState, Snapshot, SnapshotKind};
use tidegate_engine::{DirectLimiter, FixedWindow, KeyHash, Limiter, ManualClock, Quota};

use crate::units::{Oracle, answer, any_steps, most_within};

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn clock(nanos: u64) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(at(nanos));
    clock
}

fn sub_windows(limit: u64, window: u64, count: u64, now: u64) -> SubWindowCounter<ManualClock> {
    let window = Duration::from_nanos(window);
    SubWindowCounter::with_sub_windows(limit, window, count, clock(now)).unwrap()
}

fn sharded(
    limit: u64,
    window: u64,
    count: u64,
    block: u64,
    now: u64,
) -> ShardedCounter<ManualClock> {
    let builder = ShardedCounter::builder(limit, Duration::from_nanos(window)).sub_windows(count);
    builder.shards(4).block(block).clock(clock(now)).build().unwrap()
}

fn log(limit: u64, window: u64, now: u64) -> SlidingLog<ManualClock> {
    SlidingLog::with_clock(limit, Duration::from_nanos(window), clock(now)).unwrap()
}

fn nanos_down() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 2 => 0_u64..2_000, 1 => 0_u64..2_000_000_000]
}

/// A clock whose origin is the start of the process, or long before.
fn origins() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0_u64..2_000, 1_u64 << 31..1 << 40]
}

/// How long the units of a snapshot count, and how many there are.
fn units(snapshot: impl IntoIterator<Item = SavedKey>) -> Vec<(Duration, u64)> {
    let units = |saved: SavedKey| match saved.state {
        SavedState::Units { left, units } => (left, units),
        other => panic!("{other:?}"),
    };
    snapshot.into_iter().map(units).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_restored_log_decides_as_if_it_had_never_stopped(
        limit in 1_u64..40,
        new_limit in prop_oneof![Just(None), (1_u64..40).prop_map(Some)],
        (start, other) in (origins(), origins()),
        (window, steps) in any_steps(),
        split in any::<Index>(),
        (late, down, back) in (nanos_down(), nanos_down(), 0_u64..200),
    ) {
        let (before, after) = steps.split_at(split.index(steps.len()));
        let stopped = log(limit, window, start);
        let mut oracle = Oracle::log(limit, window);
        let mut now = start;
        for (round, &(gap, cost)) in before.iter().enumerate() {
            now += gap;
            stopped.clock().set(at(now));
            let read = if round % 5 == 4 { now.saturating_sub(back) } else { now };
            let _ = stopped.check_at(cost, at(read));
            oracle.check(cost, read);
        }
        // The units are those of the moment of the snapshot, however late it is read.
        let snapshot = stopped.snapshot();
        stopped.clock().advance(Duration::from_nanos(late));
        let bytes = snapshot.to_bytes();

        let limit = new_limit.unwrap_or(limit);
        let log = log(limit, window, other);
        let down = late + down;
        let snapshot = Snapshot::from_bytes(&bytes).unwrap();
        let restored = log.restore(snapshot, Duration::from_nanos(down));
        now += down;
        oracle.limit = limit;
        prop_assert_eq!(restored.unwrap().raised, u64::from(oracle.used(now) > 0));
        let mut new = other;
        for &(gap, cost) in [&(0, 0)].into_iter().chain(after) {
            (now, new) = (now + gap, new + gap);
            prop_assert_eq!(answer(&log.check_at(cost, at(new))), oracle.check(cost, now));
        }
    }

    /// A shorter downtime, by less than a sub-window, with which no expired unit comes back.
    #[test]
    fn a_restored_counter_decides_as_after_a_downtime_that_ends_with_a_sub_window(
        limit in 0_u64..12,
        new_limit in prop_oneof![Just(None), (0_u64..12).prop_map(Some)],
        count in prop_oneof![1_u64..8, Just(60)],
        (start, other) in (1_u64 << 31..1 << 40, origins()),
        (window, steps) in any_steps(),
        split in any::<Index>(),
        down in nanos_down(),
    ) {
        let (before, after) = steps.split_at(split.index(steps.len()));
        let stopped = sub_windows(limit, window, count, start);
        let mut oracle = Oracle::sub_windows(limit, window, count);
        let mut now = start;
        for &(gap, cost) in before {
            now += gap;
            stopped.clock().set(at(now));
            let _ = stopped.check_n(cost);
            oracle.check(cost, now);
        }
        let bytes = stopped.snapshot().to_bytes();

        let limit = new_limit.unwrap_or(limit);
        let counter = sub_windows(limit, window, count, other);
        let sharded = sharded(limit, window, count, 1, other);
        let snapshot = || Snapshot::from_bytes(&bytes).unwrap();
        let down = Duration::from_nanos(down);
        let restored = counter.restore(snapshot(), down).unwrap();
        prop_assert_eq!(restored, sharded.restore(snapshot(), down).unwrap());
        now += down.as_nanos() as u64;
        oracle.limit = limit;
        oracle.admitted.retain(|(expiry, _)| *expiry > now);
        prop_assert_eq!(restored.raised, u64::from(!oracle.admitted.is_empty()));
        let width = window.div_ceil(count);
        let mut new = other;
        now -= (now % width + width - other % width) % width;
        // Of the sub-window of the snapshot, if that has not ended.
        let most = (oracle.expiry)(now);
        oracle.admitted.iter_mut().for_each(|(expiry, _)| *expiry = most.min(*expiry));
        oracle.latest = oracle.latest.min(now);
        for &(gap, cost) in [&(0, 0)].into_iter().chain(after) {
            (now, new) = (now + gap, new + gap);
            // A peek at units beyond the limit says when a first one fits, the oracle when none
            // counts.
            let cost = if oracle.used(now) > limit { cost.max(1) } else { cost };
            let expected = oracle.check(cost, now);
            prop_assert_eq!(answer(&counter.check_at(cost, at(new))), expected);
            let decision = answer(&sharded.check_at(cost, at(new)));
            // A check that takes a block does not read the shards.
            prop_assert_eq!(decision, expected);
        }
    }

    /// Whatever was checked, charged, reserved and given back.
    #[test]
    fn a_snapshot_of_sub_windows_says_what_counts_at_each_time(
        limit in 1_u64..40,
        count in 1_u64..8,
        (window, steps) in any_steps(),
        gaps in prop::collection::vec(0_u64..400, 1..20),
    ) {
        let counter = sub_windows(limit, window, count, 0);
        let mut reservations = Vec::new();
        for (round, (gap, cost)) in steps.into_iter().enumerate() {
            counter.clock().advance(Duration::from_nanos(gap));
            match round % 7 {
                0 => drop(counter.charge(cost % 8)),
                1..4 => reservations.extend(counter.reserve(cost)),
                4 if !reservations.is_empty() => {
                    drop(reservations.swap_remove(cost as usize % reservations.len()));
                }
                _ => drop(counter.check_n(cost)),
            }
        }
        let units = units(counter.snapshot());
        let mut later = Duration::ZERO;
        for gap in gaps {
            let counts = units.iter().filter(|(left, _)| *left > later).map(|(_, units)| units);
            let remaining = limit.saturating_sub(counts.sum());
            prop_assert_eq!(counter.peek().remaining(), remaining, "after {:?}", later);
            let gap = Duration::from_nanos(gap * window / 1_000);
            counter.clock().advance(gap);
            later += gap;
        }
        for reservation in reservations {
            let cost = reservation.cost();
            let _ = reservation.commit(cost);
        }
    }

    /// A greedy key over several restarts with their true downtimes.
    #[test]
    fn no_interval_of_the_window_admits_more_than_the_limit_over_restarts(
        limit in 1_u64..40,
        (count, block) in (1_u64..8, 1_u64..6),
        (window, steps) in any_steps(),
        restarts in prop::collection::vec((any::<Index>(), origins(), nanos_down()), 0..4),
    ) {
        let make = |now| {
            let counter = sub_windows(limit, window, count, now);
            (counter, sharded(limit, window, count, block, now), log(limit, window, now))
        };
        let mut limits = make(0);
        let (mut time, mut now, mut admitted) = (0, 0, [(); 3].map(|()| Vec::new()));
        for (step, &(gap, cost)) in steps.iter().enumerate() {
            (time, now) = (time + gap, now + gap);
            for clock in [limits.0.clock(), limits.1.clock(), limits.2.clock()] {
                clock.set(at(now));
            }
            let peeks = [limits.0.peek(), limits.1.peek(), limits.2.peek()];
            let most = peeks.map(|peek| peek.remaining());
            let decisions = [
                limits.0.check_n(cost.min(most[0])),
                limits.1.check_n(cost.min(most[1])),
                limits.2.check_n(cost.min(most[2])),
            ];
            for ((admitted, decision), most) in admitted.iter_mut().zip(decisions).zip(most) {
                if decision.is_allowed() {
                    admitted.push((time, cost.min(most)));
                }
            }
            let due = restarts.iter().filter(|(at, ..)| at.index(steps.len()) == step);
            for (_, other, down) in due {
                let next = make(*other);
                let length = Duration::from_nanos(*down);
                let _ = next.0.restore(limits.0.snapshot(), length).unwrap();
                let _ = next.1.restore(limits.1.snapshot(), length).unwrap();
                let _ = next.2.restore(limits.2.snapshot(), length).unwrap();
                limits = next;
                (time, now) = (time + down, *other);
            }
        }
        for admitted in admitted {
            prop_assert!(most_within(window, admitted) <= limit);
        }
    }

    /// Into a running limiter: at no time is less held than in it, or than in an empty one; and
    /// idempotent.
    #[test]
    fn a_merge_lets_no_fewer_units_count(
        limit in 1_u64..20,
        count in 1_u64..8,
        (window, steps) in any_steps(),
        split in any::<Index>(),
        (other, down) in (origins(), nanos_down()),
        gaps in prop::collection::vec(0_u64..400, 1..20),
    ) {
        let (here, there) = steps.split_at(split.index(steps.len()));
        let fill = |start: u64, steps: &[(u64, u64)]| {
            let limits = (sub_windows(limit, window, count, start), log(limit, window, start));
            for (gap, cost) in steps {
                for clock in [limits.0.clock(), limits.1.clock()] {
                    clock.advance(Duration::from_nanos(*gap));
                }
                let _ = (limits.0.check_n(*cost), limits.1.check_n(*cost));
            }
            limits
        };
        let (merged, untouched) = (fill(other, here), fill(other, here));
        let saved = fill(1 << 31, there);
        let now = other + here.iter().map(|(gap, _)| gap).sum::<u64>();
        let alone = fill(now, &[]);
        let down = Duration::from_nanos(down);
        for into in [&alone, &merged] {
            let first = into.0.restore(saved.0.snapshot(), down).unwrap();
            let second = into.0.restore(saved.0.snapshot(), down).unwrap();
            prop_assert_eq!((second.raised, second.unchanged), (0, first.raised + first.unchanged));
            let first = into.1.restore(saved.1.snapshot(), down).unwrap();
            let second = into.1.restore(saved.1.snapshot(), down).unwrap();
            prop_assert_eq!((second.raised, second.unchanged), (0, first.raised + first.unchanged));
        }
        // Its own snapshot adds nothing.
        let own = untouched.0.restore(untouched.0.snapshot(), Duration::ZERO).unwrap();
        prop_assert_eq!(own.raised, 0);
        let own = untouched.1.restore(untouched.1.snapshot(), Duration::ZERO).unwrap();
        prop_assert_eq!(own.raised, 0);
        for gap in gaps {
            let left = [&untouched, &alone, &merged]
                .map(|limits| [limits.0.peek().remaining(), limits.1.peek().remaining()]);
            for (which, merged) in left[2].into_iter().enumerate() {
                prop_assert!(merged <= left[0][which].min(left[1][which]), "{left:?}");
            }
            for limits in [&untouched, &alone, &merged] {
                for clock in [limits.0.clock(), limits.1.clock()] {
                    clock.advance(Duration::from_nanos(gap * window / 1_000));
                }
            }
        }
    }
}

/// Missing units are added once, where they began.
#[test]
fn what_is_there_already_is_not_added() {
    let (counter, log) = (sub_windows(9, 60, 6, 100), log(9, 60, 100));
    for (now, cost) in [(100, 3), (120, 2)] {
        assert!(counter.check_at(cost, at(now)).is_allowed());
        assert!(log.check_at(cost, at(now)).is_allowed());
    }
    let (other_counter, other_log) = (sub_windows(9, 60, 6, 120), self::log(9, 60, 120));
    assert!(other_counter.check_n(4).is_allowed() && other_log.check_n(4).is_allowed());
    counter.clock().set(at(120));
    log.clock().set(at(120));
    // Five units count in both since 100, and two of the four that the other has since 120.
    let restored = counter.restore(other_counter.snapshot(), Duration::ZERO).unwrap();
    assert_eq!((restored.raised, restored.unchanged), (1, 0));
    assert_eq!(log.restore(other_log.snapshot(), Duration::ZERO).unwrap(), restored);
    assert_eq!((counter.peek().remaining(), log.peek().remaining()), (2, 2));
    let (at_169, at_170) = (at(169), at(170));
    assert!(!counter.check_at(3, at_169).is_allowed() && counter.check_at(5, at_170).is_allowed());
    let (at_159, at_160) = (at(159), at(160));
    assert!(!log.check_at(3, at_159).is_allowed() && log.check_at(5, at_160).is_allowed());
}

/// Windows of another length, or in other parts, and other kinds are refused as a whole.
#[test]
fn a_snapshot_is_restored_in_counters_of_its_window_only() {
    let (counter, sharded, log) =
        (sub_windows(5, 60, 6, 0), sharded(7, 60, 6, 2, 0), log(5, 60, 0));
    assert!(counter.check().is_allowed() && log.check().is_allowed());
    let down = Duration::ZERO;
    let kind = SnapshotKind::SubWindows { window: Duration::from_nanos(60), count: 6 };
    let kind_of_log = SnapshotKind::SlidingLogs(Duration::from_nanos(60));
    assert_eq!((counter.snapshot().kind(), log.snapshot().kind()), (kind, kind_of_log));
    let refused = Err(RestoreError::OtherKind(kind));
    for other in [sub_windows(5, 60, 5, 0), sub_windows(5, 120, 6, 0), sub_windows(5, 120, 12, 0)] {
        assert_eq!(other.restore(counter.snapshot(), down), refused);
        assert_eq!(other.peek().remaining(), 5);
    }
    assert_eq!(log.restore(counter.snapshot(), down), refused);
    let refused = Err(RestoreError::OtherKind(kind_of_log));
    assert_eq!(self::log(5, 61, 0).restore(log.snapshot(), down), refused);
    assert_eq!(counter.restore(log.snapshot(), down), refused);
    let single = DirectLimiter::builder(FixedWindow::new(5, Duration::from_nanos(60)));
    let single = single.clock(clock(0)).build().unwrap();
    assert_eq!(single.restore(log.snapshot(), down), refused);
    let keyed = Limiter::builder(Quota::per_hour(5)).capacity(1).clock(clock(0)).build().unwrap();
    assert_eq!(log.restore(keyed.snapshot(), down), Err(RestoreError::OtherHasher));
    assert_eq!(sharded.restore(keyed.snapshot(), down), Err(RestoreError::OtherHasher));
    // Another limit does not make another kind, and the rest of a block counts as used.
    assert_eq!(sharded.restore(counter.snapshot(), down).unwrap().raised, 1);
    assert!(sharded.check().is_allowed());
    assert_eq!(units(sharded.snapshot()), [(Duration::from_nanos(70), 3)]);
}

/// A snapshot may contain anything, in any order: times and units saturate, and what is not a unit
/// is skipped.
#[test]
fn outlandish_units_saturate() {
    let lefts = [Duration::from_nanos(1), Duration::MAX, Duration::ZERO, Duration::from_secs(1)];
    for (now, down) in [0, 7, u64::MAX].into_iter().flat_map(|now| lefts.map(|down| (now, down))) {
        let (counter, log) = (sub_windows(5, 60, 6, now), log(5, 60, now));
        let key = KeyHash::from_bits(0);
        let states = lefts.map(|left| SavedState::Units { left, units: u64::MAX });
        let states = states.into_iter().chain([SavedState::Debt(Duration::MAX)]);
        let keys: Vec<_> = states.map(|state| SavedKey { key, state }).collect();
        let fingerprint = log.snapshot().fingerprint();
        let snapshot = |kind| Snapshot::new(fingerprint, kind, keys.clone());
        let restored = counter.restore(snapshot(counter.snapshot().kind()), down).unwrap();
        assert_eq!(log.restore(snapshot(log.snapshot().kind()), down).unwrap(), restored);
        let is_held = down < Duration::MAX;
        assert_eq!((restored.raised, restored.dropped), (u64::from(is_held), 1));
        assert_eq!(counter.check().is_allowed(), !is_held, "{now} {down:?}");
        assert_eq!(log.check().is_allowed(), !is_held, "{now} {down:?}");
    }
}
