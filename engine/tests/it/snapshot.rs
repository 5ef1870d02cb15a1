//! A limiter's state, restored: as if there had been no downtime, and never weaker than before.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::observer::Counts;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::snapshot::{RestoreError, SavedKey, SavedState, Snapshot, SnapshotKind};
use tidegate_engine::{
    CalendarWindow, DirectLimiter, FixedWindow, KeyHash, KeyHasher, Limiter, LiveQuota,
    ManualClock, OverflowPolicy, Queue, Quota, Rule, SlidingWindow,
};

use crate::exact::{Oracle, answer};

pub(crate) fn limiter(quota: Quota, start: u64) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(start));
    let limiter = Limiter::builder(quota).capacity(13_107).hasher(KeyHasher::rapid(7));
    (limiter.clock(clock.clone()).build().unwrap(), clock)
}

/// Emission intervals of whole nanoseconds.
fn whole_quota() -> impl Strategy<Value = Quota> {
    let count = prop::sample::select(vec![1_u64, 5, 100, 1_000, 1_000_000]);
    (count, 1_u64..60).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

fn any_quota() -> impl Strategy<Value = Quota> {
    (1_u64..100_000_000, 1_u64..60).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

/// A gap, a key and a charge.
fn charges() -> impl Strategy<Value = Vec<(u64, u8, u64)>> {
    prop::collection::vec((0_u64..300_000_000, 0_u8..20, 0_u64..70), 0..60)
}

fn debt(key: KeyHash, debt: Duration) -> SavedKey {
    SavedKey { key, state: SavedState::Debt(debt) }
}

fn debts(limiter: &Limiter<Quota, ManualClock>) -> HashMap<KeyHash, Duration> {
    limiter.live().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Through bytes, onto another clock, after any downtime: every figure equals the oracle's,
    /// which never stopped.
    #[test]
    fn a_restored_limiter_decides_as_if_it_had_never_stopped(
        quota in whole_quota(),
        (start, other_start) in (0_u64..1 << 50, 0_u64..1 << 50),
        charges in charges(),
        downtime in prop_oneof![Just(0_u64), 0_u64..5_000_000_000],
        late in 0_u64..2_000_000_000,
        checks in charges(),
    ) {
        let (before, clock) = limiter(quota, start);
        let mut oracles: HashMap<u8, Oracle> = HashMap::new();
        let mut now = start;
        for (gap, key, cost) in charges {
            now += gap;
            clock.set(Timestamp::from_nanos(now));
            let _ = before.charge(key, cost);
            if cost > 0 {
                oracles.entry(key).or_insert_with(|| Oracle::new(&quota)).admit(now, cost);
            }
        }
        // The debts are those of the moment of the snapshot, however late it is read.
        let snapshot = before.snapshot();
        clock.advance(Duration::from_nanos(late));
        let snapshot_was = now;
        let bytes = snapshot.to_bytes();
        let (after, other) = limiter(quota, other_start);
        let snapshot = Snapshot::from_bytes(&bytes).unwrap();
        let downtime = late + downtime;
        let restored = after.restore(snapshot, Duration::from_nanos(downtime)).unwrap();
        prop_assert_eq!((restored.dropped, restored.evicted), (0, 0));
        let (mut now, mut other_now) = (snapshot_was + downtime, other_start);
        for (gap, key, cost) in checks {
            now += gap;
            other_now += gap;
            other.set(Timestamp::from_nanos(other_now));
            let decision = answer(&after.check_n(key, cost));
            let mut expected = None;
            let oracle = oracles.entry(key).or_insert_with(|| Oracle::new(&quota));
            // A peek at debt beyond the burst says when a first unit fits, the oracle when nothing
            // is owed.
            if cost > 0 || oracle.missing(now, 0) <= 0 {
                expected = Some(oracle.check(now, cost));
            }
            prop_assert!(expected.is_none_or(|expected| expected == decision));
        }
    }

    /// Into a limiter with another quota: debt stays the same duration, rounded by less than a unit
    /// each way.
    #[test]
    fn debt_is_restored_as_a_duration_whatever_the_quota(
        (quota, other) in (any_quota(), any_quota()),
        charges in charges(),
        downtime in 0_u64..5_000_000_000,
    ) {
        let (before, clock) = limiter(quota, 0);
        for (gap, key, cost) in charges {
            clock.advance(Duration::from_nanos(gap));
            let _ = before.charge(key, cost);
        }
        let downtime = Duration::from_nanos(downtime);
        let (after, _) = limiter(other, 1 << 40);
        let restored = after.restore(before.snapshot(), downtime).unwrap();
        let after = debts(&after);
        prop_assert_eq!(restored.raised, after.len() as u64);
        prop_assert_eq!(restored.raised + restored.unchanged, debts(&before).len() as u64);
        for (key, debt) in debts(&before) {
            let expected = debt.saturating_sub(downtime);
            let found = after.get(&key).copied().unwrap_or_default();
            let error = found.abs_diff(expected);
            prop_assert!(error <= Duration::from_nanos(2), "{found:?} {expected:?}");
        }
    }

    /// Into a running limiter: the larger debt of the two, and idempotent.
    #[test]
    fn a_merge_never_lowers_a_debt_and_is_idempotent(
        quota in whole_quota(),
        (here, there) in (charges(), charges()),
    ) {
        let fill = |charges: Vec<(u64, u8, u64)>| {
            let (limiter, _) = limiter(quota, 1_000);
            for (_, key, cost) in charges {
                let _ = limiter.charge(key, cost);
            }
            limiter
        };
        let (here, there) = (fill(here), fill(there));
        let (mut expected, other) = (debts(&here), debts(&there));
        for (key, debt) in other {
            let held = expected.entry(key).or_default();
            *held = debt.max(*held);
        }
        let first = here.restore(there.snapshot(), Duration::ZERO).unwrap();
        prop_assert_eq!(&debts(&here), &expected);
        let second = here.restore(there.snapshot(), Duration::ZERO).unwrap();
        prop_assert_eq!(&debts(&here), &expected);
        prop_assert_eq!((second.raised, second.unchanged), (0, first.raised + first.unchanged));
    }
}

#[test]
fn another_hashers_keys_are_refused() {
    let build = |hasher| {
        let limiter =
            Limiter::builder(Quota::per_hour(5)).capacity(13_107).clock(ManualClock::new());
        limiter.hasher(hasher).build().unwrap()
    };
    let secret = *b"sixteen secrets!";
    let hashers =
        [KeyHasher::rapid(1), KeyHasher::rapid(2), KeyHasher::siphash(secret), KeyHasher::random()];
    for (one, hasher) in hashers.iter().enumerate() {
        let before = build(hasher.clone());
        let _ = before.charge("key", 3);
        for (other, hasher) in hashers.iter().enumerate() {
            let after = build(hasher.clone());
            let restored = after.restore(before.snapshot(), Duration::ZERO);
            if one == other {
                assert_eq!(restored.unwrap().raised, 1);
                assert_eq!(after.peek("key").remaining(), 2);
            } else {
                assert_eq!(restored, Err(RestoreError::OtherHasher));
                assert_eq!(debts(&after), HashMap::new());
            }
        }
    }
}

#[test]
fn keys_without_a_place_are_counted() {
    const KEYS: u64 = 40_000;
    let keys: Vec<_> = (1..=KEYS)
        .map(|n| {
            let key = KeyHash::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            debt(key, Duration::from_secs(n))
        })
        .collect();
    for policy in [OverflowPolicy::Deny, OverflowPolicy::Allow, OverflowPolicy::EvictLeastDebt] {
        let limiter = Limiter::builder(Quota::per_hour(5)).capacity(13_107).overflow_policy(policy);
        let limiter =
            limiter.hasher(KeyHasher::rapid(7)).clock(ManualClock::new()).build().unwrap();
        let fingerprint = KeyHasher::rapid(7).fingerprint();
        let snapshot = Snapshot::new(fingerprint, SnapshotKind::Debts, keys.iter().copied());
        let restored = limiter.restore(snapshot, Duration::ZERO).unwrap();
        let live = limiter.live().count() as u64;
        assert_eq!(restored.raised + restored.dropped, KEYS, "{policy:?}");
        assert_eq!(restored.raised - restored.evicted, live, "{policy:?}");
        assert!(live >= limiter.capacity() as u64, "{policy:?}");
        assert_eq!(restored.evicted, limiter.overflow().evicted);
        assert_eq!(restored.dropped, limiter.overflow().charges_dropped);
        assert_eq!(restored.evicted > 0, policy == OverflowPolicy::EvictLeastDebt);
    }
}

/// A snapshot may contain anything: debts saturate, and nothing wraps.
#[test]
fn outlandish_debts_saturate() {
    let (limiter, clock) = limiter(Quota::per_second(3), u64::MAX);
    let key = debt(limiter.hash("key"), Duration::MAX);
    let snapshot = || Snapshot::new(KeyHasher::rapid(7).fingerprint(), SnapshotKind::Debts, [key]);
    assert_eq!(limiter.restore(snapshot(), Duration::MAX).unwrap().unchanged, 1);
    assert!(limiter.check("key").is_allowed());
    clock.set(Timestamp::ORIGIN);
    assert_eq!(limiter.restore(snapshot(), Duration::from_secs(1)).unwrap().raised, 1);
    assert!(!limiter.check("key").is_allowed());
}

/// A limiter under `rule`, what it saves, and whether it accepts what others saved.
fn takes(
    rule: impl Rule,
    snapshots: &[(SnapshotKind, Vec<u8>)],
) -> (SnapshotKind, Vec<u8>, Vec<bool>) {
    let limiter = || {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(1_000));
        Limiter::builder_with(rule, clock, KeyHasher::rapid(7)).capacity(13_107).build().unwrap()
    };
    let charged = limiter();
    let _ = charged.charge("key", 3);
    let takes = |(kind, bytes): &(SnapshotKind, Vec<u8>)| {
        let other = limiter();
        let snapshot = Snapshot::from_bytes(bytes).unwrap();
        let restored = other.restore(snapshot, Duration::ZERO);
        if let Err(error) = restored {
            assert_eq!(error, RestoreError::OtherKind(*kind));
            assert_eq!(other.snapshot().into_iter().count(), 0);
        }
        restored.is_ok_and(|restored| restored.raised == 1)
    };
    let kind = charged.snapshot().kind();
    (kind, charged.snapshot().to_bytes(), snapshots.iter().map(takes).collect())
}

/// Each kind belongs to one rule, whatever its rate and limit, and no other rule accepts it.
#[test]
fn a_snapshot_is_restored_under_rules_of_its_kind_only() {
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
    let date = Duration::from_secs(1_796_079_590);
    let run = |limit: u64, snapshots: &[(SnapshotKind, Vec<u8>)]| {
        let calendar = |rule: CalendarWindow| takes(rule.anchored(date), snapshots);
        vec![
            takes(Quota::per_hour(limit), snapshots),
            takes(FixedWindow::new(limit, second), snapshots),
            takes(FixedWindow::new(limit, minute), snapshots),
            takes(SlidingWindow::new(limit, second), snapshots),
            takes(SlidingWindow::new(limit, minute), snapshots),
            calendar(CalendarWindow::per_minute(limit)),
            calendar(CalendarWindow::per_hour(limit)),
            calendar(CalendarWindow::per_day(limit)),
            calendar(CalendarWindow::per_month(limit)),
        ]
    };
    let saved: Vec<_> = run(5, &[]).into_iter().map(|(kind, bytes, _)| (kind, bytes)).collect();
    let kinds: HashSet<_> = saved.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), saved.len());
    for (rule, (_, _, takes)) in run(900, &saved).into_iter().enumerate() {
        let expected: Vec<_> = (0..saved.len()).map(|other| other == rule).collect();
        assert_eq!(takes, expected, "{:?}", saved[rule].0);
    }
}

/// A limiter without keys accepts what it saved, and nothing that has keys.
#[test]
fn a_limiter_without_keys_is_saved_like_one_key() {
    let clock = ManualClock::new();
    let builder = || DirectLimiter::builder(Quota::per_second(10).burst(5)).observer(Counts::new());
    let single = || builder().clock(clock.clone()).build();
    let before = single().unwrap();
    assert_eq!(before.snapshot().into_iter().count(), 0);
    let _ = before.charge(4);
    let bytes = before.snapshot().to_bytes();
    let after = single().unwrap();
    let restore = || {
        let snapshot = Snapshot::from_bytes(&bytes).unwrap();
        after.restore(snapshot, Duration::from_millis(150)).unwrap()
    };
    assert_eq!((restore().raised, restore().unchanged), (1, 1));
    assert_eq!(after.peek().reset_after(), Duration::from_millis(250));
    let keyed = limiter(Quota::per_second(10), 0).0;
    assert_eq!(after.restore(keyed.snapshot(), Duration::ZERO), Err(RestoreError::OtherHasher));
    let refused = keyed.restore(after.snapshot(), Duration::ZERO);
    assert_eq!(refused, Err(RestoreError::OtherHasher));
    let window =
        DirectLimiter::builder(FixedWindow::per_second(10)).clock(clock.clone()).build().unwrap();
    let refused = window.restore(after.snapshot(), Duration::ZERO);
    assert_eq!(refused, Err(RestoreError::OtherKind(SnapshotKind::Debts)));
}

/// A quota that changes saves debts like any other, as of the call, even if it changes while they
/// are read.
#[test]
fn a_live_quota_saves_what_a_quota_does() {
    let quota = Quota::per_second(10).burst(20);
    let (fixed, _) = limiter(quota, 0);
    let clock = ManualClock::new();
    let live = Limiter::builder(LiveQuota::new(quota)).hasher(KeyHasher::rapid(7));
    let live = live.capacity(13_107).clock(clock.clone()).build().unwrap();
    let (_, _) = (fixed.charge("key", 12), live.charge("key", 12));
    let debts = |snapshot: &[u8]| Snapshot::from_bytes(snapshot).unwrap().into_iter().collect();
    let expected: Vec<_> = debts(&fixed.snapshot().to_bytes());
    assert_eq!(debts(&live.snapshot().to_bytes()), expected);
    let snapshot = live.snapshot();
    clock.advance(Duration::from_millis(300));
    live.set_quota(Quota::per_second(3).burst(9), Inheritance::Keep).unwrap();
    clock.advance(Duration::from_millis(100));
    // Units of a third of a second are not whole nanoseconds.
    for (found, expected) in snapshot.into_iter().zip(&expected) {
        let (SavedState::Debt(found), SavedState::Debt(debt)) = (found.state, expected.state)
        else {
            panic!("{found:?}")
        };
        assert!(found.abs_diff(debt) <= Duration::from_nanos(3), "{found:?} {debt:?}");
    }
    live.reset("key");
    let saved = Snapshot::new(fixed.snapshot().fingerprint(), SnapshotKind::Debts, expected);
    assert_eq!(live.restore(saved.clone(), Duration::from_millis(200)).unwrap().raised, 1);
    assert_eq!(live.restore(saved, Duration::from_millis(200)).unwrap().unchanged, 1);
    let left = live.peek("key").reset_after();
    assert!(left.abs_diff(Duration::from_secs(1)) <= Duration::from_nanos(3), "{left:?}");
}

/// What was held before a restore is part of what is restored, and so is what of it is given back
/// later.
#[test]
fn what_was_reserved_before_a_restore_is_taken_out_of_it_when_given_back() {
    let quota = Quota::per_hour(10);
    let (before, _) = limiter(quota, 0);
    let _ = before.charge("key", 8);
    let (after, _) = limiter(quota, 0);
    let reserved = after.reserve("key", 5).unwrap();
    assert_eq!(after.restore(before.snapshot(), Duration::ZERO).unwrap().raised, 1);
    assert_eq!(after.peek("key").remaining(), 2);
    reserved.cancel();
    assert_eq!(after.peek("key").remaining(), 7);

    let queue = || Queue::with_clock(quota, ManualClock::new()).unwrap();
    let (saved, line) = (queue(), queue());
    assert!(saved.check_n(3).is_allowed());
    let turn = line.enqueue(4, Duration::ZERO).unwrap();
    assert_eq!(line.restore(saved.snapshot(), Duration::ZERO).unwrap().unchanged, 1);
    assert!(turn.cancel());
    assert_eq!(line.peek().remaining(), 10);
}
