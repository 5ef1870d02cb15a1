//! What a limiter knew, restored: as if there had been no downtime, and never worse than before.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::{
    Fingerprint, KeyHash, KeyHasher, Limiter, ManualClock, OverflowPolicy, Quota, RestoreError,
    SNAPSHOT_VERSION, SavedKey, Snapshot, SnapshotError, Timestamp,
};

mod exact;
use exact::{Oracle, answer};

/// Bytes of the byte form before, and behind, the entries.
const HEADER: usize = 24;
const TRAILER: usize = 16;

fn limiter(quota: Quota, start: u64) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(start));
    let limiter = Limiter::builder(quota).capacity(1).hasher(KeyHasher::rapid(7));
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

fn keys() -> impl Strategy<Value = Vec<SavedKey>> {
    let key = (any::<u64>(), any::<u64>()).prop_map(|(key, nanos)| SavedKey {
        key: KeyHash::from_bits(key),
        debt: Duration::from_nanos(nanos),
    });
    prop::collection::vec(key, 0..40)
}

fn debts(limiter: &Limiter<Quota, ManualClock>) -> HashMap<KeyHash, Duration> {
    limiter.live().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Through bytes, onto another clock, after any downtime: every figure is the oracle's, which never
    /// stopped.
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
            // A look at debt beyond the burst says when a first unit fits, the oracle when nothing does.
            if cost > 0 || oracle.missing(now, 0) <= 0 {
                expected = Some(oracle.check(now, cost));
            }
            prop_assert!(expected.is_none_or(|expected| expected == decision));
        }
    }

    /// Into a limiter with another quota: as the duration it was, rounded by less than a unit each way.
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
            prop_assert!(found.abs_diff(expected) <= Duration::from_nanos(2), "{found:?} {expected:?}");
        }
    }

    /// On a running limiter: the larger debt of the two, and once is as good as twice.
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

    #[test]
    fn bytes_hold_every_snapshot(bits in any::<u64>(), keys in keys()) {
        let fingerprint = Fingerprint::from_bits(bits);
        let bytes = Snapshot::new(fingerprint, keys.clone()).to_bytes();
        prop_assert_eq!(bytes.len(), HEADER + 16 * keys.len() + TRAILER);
        let mut written = Vec::new();
        Snapshot::new(fingerprint, keys.clone()).write_to(&mut written).unwrap();
        prop_assert_eq!(&written, &bytes);
        let read = Snapshot::from_bytes(&bytes).unwrap();
        prop_assert_eq!(read.fingerprint(), fingerprint);
        prop_assert_eq!(read.into_iter().collect::<Vec<_>>(), keys);
    }

    /// A change to one byte is always noticed, any other with all but certainty; nothing panics.
    #[test]
    fn changed_bytes_are_an_error(
        keys in keys(),
        at in any::<prop::sample::Index>(),
        flip in 1_u8..=255,
        tail in prop::collection::vec(any::<u8>(), 1..40),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = Snapshot::new(Fingerprint::from_bits(1), keys).to_bytes();
        let at = at.index(bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= flip;
        prop_assert!(Snapshot::from_bytes(&changed).is_err());
        prop_assert!(Snapshot::from_bytes(&bytes[..at]).is_err());
        prop_assert!(Snapshot::from_bytes(&[&bytes[..], &tail].concat()).is_err());
        prop_assert!(Snapshot::from_bytes(&noise).is_err());
        prop_assert!(Snapshot::from_bytes(&[&bytes[..HEADER], &noise].concat()).is_err());
    }
}

/// The form is stable: these bytes are read, and written, by every version that calls itself 1.
#[test]
fn the_byte_form_is_what_it_was() {
    let key = SavedKey { key: KeyHash::from_bits(0x0102_0304), debt: Duration::from_nanos(0x0a0b) };
    let bytes = Snapshot::new(Fingerprint::from_bits(0x1122), [key]).to_bytes();
    let mut expected = b"tidesnap\x01\0\0\0\x01\0\0\0\x22\x11\0\0\0\0\0\0".to_vec();
    expected.extend(b"\x04\x03\x02\x01\0\0\0\0\x0b\x0a\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(bytes[..bytes.len() - 8], expected);
    // FNV-1a as others compute it.
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let checksum = expected.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    assert_eq!(bytes[bytes.len() - 8..], checksum.to_le_bytes());
    // As long as seeds are kept, so are fingerprints.
    assert_eq!(KeyHasher::rapid(7).fingerprint(), Fingerprint::from_bits(0x7e17_2be4_69fe_666f));
    assert_eq!(
        KeyHasher::siphash([7; 16]).fingerprint(),
        Fingerprint::from_bits(0xb6f6_0986_4b31_fab3)
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let with = |offset: usize, byte: u8| {
        let mut bytes = Snapshot::new(Fingerprint::from_bits(1), []).to_bytes();
        bytes[offset] = byte;
        Snapshot::from_bytes(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, b'T'), SnapshotError::NotASnapshot);
    assert_eq!(with(8, 2), SnapshotError::UnknownVersion(SNAPSHOT_VERSION + 1));
    assert_eq!(with(12, 9), SnapshotError::UnknownKind(9));
    assert_eq!(with(16, 9), SnapshotError::Corrupt);
    assert_eq!(with(24, 1), SnapshotError::Corrupt);
    assert_eq!(Snapshot::from_bytes(&[]).map(|_| ()), Err(SnapshotError::Truncated));
}

#[test]
fn another_hashers_keys_are_refused() {
    let build = |hasher| {
        let limiter = Limiter::builder(Quota::per_hour(5)).capacity(1).clock(ManualClock::new());
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
        .map(|n| SavedKey {
            key: KeyHash::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            debt: Duration::from_secs(n),
        })
        .collect();
    for policy in [OverflowPolicy::Deny, OverflowPolicy::Allow, OverflowPolicy::EvictLeastDebt] {
        let limiter = Limiter::builder(Quota::per_hour(5)).capacity(1).overflow(policy);
        let limiter =
            limiter.hasher(KeyHasher::rapid(7)).clock(ManualClock::new()).build().unwrap();
        let snapshot = Snapshot::new(KeyHasher::rapid(7).fingerprint(), keys.iter().copied());
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

/// What a snapshot says can be anything: debts saturate, and nothing wraps.
#[test]
fn outlandish_debts_saturate() {
    let (limiter, clock) = limiter(Quota::per_second(3), u64::MAX);
    let key = SavedKey { key: limiter.hash("key"), debt: Duration::MAX };
    let snapshot = || Snapshot::new(KeyHasher::rapid(7).fingerprint(), [key]);
    assert_eq!(limiter.restore(snapshot(), Duration::MAX).unwrap().unchanged, 1);
    assert!(limiter.check("key").is_allowed());
    clock.set(Timestamp::ORIGIN);
    assert_eq!(limiter.restore(snapshot(), Duration::from_secs(1)).unwrap().raised, 1);
    assert!(!limiter.check("key").is_allowed());
}
