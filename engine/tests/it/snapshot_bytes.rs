//! A snapshot as bytes: every one is read as it was written, and changed bytes are an error.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::snapshot::{
    Fingerprint, SNAPSHOT_VERSION, SavedKey, SavedState, Snapshot, SnapshotError, SnapshotKind,
};
use tidegate_engine::{KeyHash, KeyHasher, Quota};

use crate::snapshot::limiter;

/// Bytes of the encoded form before and after the entries.
const HEADER: usize = 24;
const TRAILER: usize = 16;

fn kinds() -> impl Strategy<Value = SnapshotKind> {
    any::<u64>().prop_map(Duration::from_nanos).prop_flat_map(|length| {
        prop::sample::select(vec![
            SnapshotKind::Debts,
            SnapshotKind::FixedWindows(length),
            SnapshotKind::SlidingWindows(length),
            SnapshotKind::CalendarMinutes,
            SnapshotKind::CalendarHours,
            SnapshotKind::CalendarDays,
            SnapshotKind::CalendarMonths,
            SnapshotKind::SubWindows { window: length, count: 60 },
            SnapshotKind::SlidingLogs(length),
        ])
    })
}

/// A state of this kind.
fn state(kind: SnapshotKind, [first, current, previous]: [u64; 3]) -> SavedState {
    let left = Duration::from_nanos(first);
    match kind {
        SnapshotKind::Debts => SavedState::Debt(left),
        SnapshotKind::FixedWindows(_) => SavedState::Window { left, current, previous: 0 },
        SnapshotKind::SlidingWindows(_) => SavedState::Window { left, current, previous },
        SnapshotKind::SubWindows { .. } | SnapshotKind::SlidingLogs(_) => {
            SavedState::Units { left, units: current }
        }
        _ => SavedState::Period { ends: first.cast_signed(), count: current },
    }
}

fn saved() -> impl Strategy<Value = (SnapshotKind, Vec<SavedKey>)> {
    (kinds(), prop::collection::vec((any::<u64>(), any::<[u64; 3]>()), 0..40)).prop_map(
        |(kind, keys)| {
            let key =
                |(key, words)| SavedKey { key: KeyHash::from_bits(key), state: state(kind, words) };
            (kind, keys.into_iter().map(key).collect())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bytes_hold_every_snapshot(bits in any::<u64>(), (kind, keys) in saved()) {
        let fingerprint = Fingerprint::from_bits(bits);
        let bytes = Snapshot::new(fingerprint, kind, keys.clone()).to_bytes();
        let (window, entry) = match kind {
            SnapshotKind::Debts => (0, 16),
            SnapshotKind::FixedWindows(_) | SnapshotKind::SlidingLogs(_) => (8, 24),
            SnapshotKind::SlidingWindows(_) => (8, 32),
            SnapshotKind::SubWindows { .. } => (16, 24),
            _ => (0, 24),
        };
        prop_assert_eq!(bytes.len(), HEADER + window + entry * keys.len() + TRAILER);
        let mut written = Vec::new();
        Snapshot::new(fingerprint, kind, keys.clone()).write_to(&mut written).unwrap();
        prop_assert_eq!(&written, &bytes);
        let read = Snapshot::from_bytes(&bytes).unwrap();
        prop_assert_eq!((read.fingerprint(), read.kind()), (fingerprint, kind));
        prop_assert_eq!(read.into_iter().collect::<Vec<_>>(), keys);
    }

    /// A change of one byte is always detected, any other almost certainly; nothing panics.
    #[test]
    fn changed_bytes_are_an_error(
        (kind, keys) in saved(),
        at in any::<prop::sample::Index>(),
        flip in 1_u8..=255,
        tail in prop::collection::vec(any::<u8>(), 1..40),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = Snapshot::new(Fingerprint::from_bits(1), kind, keys).to_bytes();
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

/// The format is stable: these bytes are read and written by every version numbered 1.
#[test]
fn the_byte_form_is_what_it_was() {
    let length = Duration::from_nanos(0x7f);
    let kinds: [(_, u8, &[u64]); 9] = [
        (SnapshotKind::Debts, 1, &[0x0102_0304, 0x0a0b, 1]),
        (SnapshotKind::FixedWindows(length), 2, &[0x7f, 0x0102_0304, 0x0a0b, 0x0c, 1]),
        (SnapshotKind::SlidingWindows(length), 3, &[0x7f, 0x0102_0304, 0x0a0b, 0x0c, 0x0d, 1]),
        (SnapshotKind::CalendarMinutes, 4, &[0x0102_0304, 0x0a0b, 0x0c, 1]),
        (SnapshotKind::CalendarHours, 5, &[0x0102_0304, 0x0a0b, 0x0c, 1]),
        (SnapshotKind::CalendarDays, 6, &[0x0102_0304, 0x0a0b, 0x0c, 1]),
        (SnapshotKind::CalendarMonths, 7, &[0x0102_0304, 0x0a0b, 0x0c, 1]),
        (
            SnapshotKind::SubWindows { window: length, count: 0x3c },
            8,
            &[0x7f, 0x3c, 0x0102_0304, 0x0a0b, 0x0c, 1],
        ),
        (SnapshotKind::SlidingLogs(length), 9, &[0x7f, 0x0102_0304, 0x0a0b, 0x0c, 1]),
    ];
    for (kind, code, words) in kinds {
        let key = KeyHash::from_bits(0x0102_0304);
        let key = SavedKey { key, state: state(kind, [0x0a0b, 0x0c, 0x0d]) };
        let bytes = Snapshot::new(Fingerprint::from_bits(0x1122), kind, [key]).to_bytes();
        let mut expected = b"tidesnap\x01\0\0\0".to_vec();
        expected.extend([code, 0, 0, 0]);
        expected.extend(b"\x22\x11\0\0\0\0\0\0");
        expected.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        // FNV-1a, computed independently of the engine.
        let fnv =
            |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let checksum = expected.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
        expected.extend(checksum.to_le_bytes());
        assert_eq!(bytes, expected, "{kind:?}");
    }
    // While seeds stay the same, so do fingerprints.
    assert_eq!(KeyHasher::rapid(7).fingerprint(), Fingerprint::from_bits(0x7e17_2be4_69fe_666f));
    assert_eq!(
        KeyHasher::siphash([7; 16]).fingerprint(),
        Fingerprint::from_bits(0xb6f6_0986_4b31_fab3)
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let with = |offset: usize, byte: u8| {
        let mut bytes =
            Snapshot::new(Fingerprint::from_bits(1), SnapshotKind::Debts, []).to_bytes();
        bytes[offset] = byte;
        Snapshot::from_bytes(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, b'T'), SnapshotError::NotASnapshot);
    assert_eq!(with(8, 2), SnapshotError::UnknownVersion(SNAPSHOT_VERSION + 1));
    assert_eq!(with(12, 10), SnapshotError::UnknownKind(10));
    assert_eq!(with(12, 0), SnapshotError::UnknownKind(0));
    assert_eq!(with(12, 2), SnapshotError::Truncated);
    assert_eq!(with(12, 8), SnapshotError::Truncated);
    assert_eq!(with(12, 9), SnapshotError::Truncated);
    assert_eq!(with(12, 4), SnapshotError::Corrupt);
    assert_eq!(with(16, 9), SnapshotError::Corrupt);
    assert_eq!(with(24, 1), SnapshotError::Corrupt);
    assert_eq!(Snapshot::from_bytes(&[]).map(|_| ()), Err(SnapshotError::Truncated));
}

/// Snapshots that only a caller can construct.
#[test]
fn states_of_another_kind_than_the_snapshots_are_left_out() {
    let (limiter, _) = limiter(Quota::per_second(3), 0);
    let left = Duration::from_secs(1);
    let states = [
        SavedState::Period { ends: 1, count: 1 },
        SavedState::Window { left, current: 1, previous: 1 },
        SavedState::Debt(left),
    ];
    let keys = states.map(|state| SavedKey { key: limiter.hash("key"), state });
    let fingerprint = KeyHasher::rapid(7).fingerprint();
    let kinds = [
        SnapshotKind::CalendarDays,
        SnapshotKind::SlidingWindows(left),
        SnapshotKind::FixedWindows(left),
        SnapshotKind::Debts,
    ];
    for (kind, left) in kinds.into_iter().zip([0, 1, 1, 2]) {
        let bytes = Snapshot::new(fingerprint, kind, keys).to_bytes();
        let read: Vec<_> = Snapshot::from_bytes(&bytes).unwrap().into_iter().collect();
        assert_eq!(read.len(), 1, "{kind:?}");
        assert_eq!(std::mem::discriminant(&read[0].state), std::mem::discriminant(&states[left]));
    }
    let snapshot = Snapshot::new(fingerprint, SnapshotKind::Debts, keys);
    let restored = limiter.restore(snapshot, Duration::ZERO).unwrap();
    assert_eq!((restored.raised, restored.dropped), (1, 2));
}
