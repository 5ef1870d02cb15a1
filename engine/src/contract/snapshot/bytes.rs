//! Snapshots as bytes.
//!
//! ```text
//! header   magic "tidesnap" (8) | version (4) | kind (4) | fingerprint (8)
//! window   kinds 2, 3, 8 and 9: its length in nanoseconds (8); kind 8: number of sub-windows (8)
//! entries  key (8) | state (8 to 24), as many as the count
//! trailer  count (8) | checksum (8)
//! ```
//!
//! | kind | states of | state, in words of 8 bytes |
//! |---|---|---|
//! | 1 | debts | debt in nanoseconds |
//! | 2 | fixed windows | nanoseconds left in the window, its count |
//! | 3 | sliding windows | nanoseconds left in the window, its count, count of the window before |
//! | 4, 5, 6, 7 | calendar minutes, hours, days, months | end of the period in seconds since 1970, signed; its count |
//! | 8, 9 | sub-windows, sliding logs | nanoseconds for which units still count, number of units |
//!
//! All integers are little-endian. The count is in the trailer so that entries can be streamed. The
//! checksum is 64-bit FNV-1a over everything before it: each step is invertible, so any change of a
//! single byte is detected, and others with a probability of 1 - 2^-64.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::base::key::KeyHash;

use super::{Fingerprint, SavedKey, Snapshot};
use crate::rule::saved::{SavedState, SnapshotKind};

/// The version of the byte form that is written and read.
pub const SNAPSHOT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"tidesnap";
const WORD_BYTES: usize = 8;
const HEADER_BYTES: usize = 24;
const TRAILER_BYTES: usize = 16;

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// The keys of a snapshot in validated bytes.
#[derive(Clone, Debug)]
pub struct SavedKeys<'b> {
    kind: SnapshotKind,
    entries: core::slice::ChunksExact<'b, u8>,
}

impl Iterator for SavedKeys<'_> {
    type Item = SavedKey;

    fn next(&mut self) -> Option<SavedKey> {
        let entry = self.entries.next()?;
        let key = KeyHash::from_bits(word(entry, 0)?);
        Some(SavedKey { key, state: state(self.kind, entry)? })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl ExactSizeIterator for SavedKeys<'_> {}

impl<I: IntoIterator<Item = SavedKey>> Snapshot<I> {
    /// The snapshot as bytes: 40, and for each key 16 of debts, 32 of sliding windows, 24 of
    /// others; 8 more for a window's length, and for its number of sub-windows. Longer durations
    /// are clamped to 2^64 - 1 ns. The format is stable: [`SNAPSHOT_VERSION`] changes when it does.
    /// O(capacity).
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(|part| {
            bytes.extend_from_slice(part);
            Ok::<(), core::convert::Infallible>(())
        })
        .unwrap_or_else(|never| match never {});
        bytes
    }

    /// Writes the bytes of [`Snapshot::to_bytes`] as the keys are read, in pieces of up to 8, so
    /// the snapshot is never in memory as a whole; use a buffered writer. O(capacity).
    ///
    /// # Errors
    /// The writer's. What was written by then is incomplete, and [`Snapshot::from_bytes`] rejects
    /// it.
    #[cfg(feature = "std")]
    pub fn write_to(self, mut writer: impl std::io::Write) -> std::io::Result<()> {
        self.encode(|part| writer.write_all(part))
    }

    /// Passes the bytes to `write` in order.
    fn encode<E>(self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (mut checksum, mut count) = (FNV_BASIS, 0_u64);
        let mut put = |part: &[u8]| {
            checksum = fnv(checksum, part);
            write(part)
        };
        put(&MAGIC)?;
        put(&SNAPSHOT_VERSION.to_le_bytes())?;
        put(&code(self.kind).to_le_bytes())?;
        put(&self.fingerprint.to_bits().to_le_bytes())?;
        for word in window(self.kind).into_iter().flatten() {
            put(&word.to_le_bytes())?;
        }
        let kind = self.kind;
        for SavedKey { key, state } in self {
            let Some(words) = words(kind, state) else { continue };
            put(&key.to_bits().to_le_bytes())?;
            for word in &words[..entry_words(kind) - 1] {
                put(&word.to_le_bytes())?;
            }
            count += 1;
        }
        put(&count.to_le_bytes())?;
        write(&checksum.to_le_bytes())
    }
}

impl<'b> Snapshot<SavedKeys<'b>> {
    /// Reads the snapshot in these bytes and validates all of them. O(length), allocates nothing.
    ///
    /// # Errors
    /// When the bytes are not exactly those of a [`Snapshot::to_bytes`].
    pub fn from_bytes(bytes: &'b [u8]) -> Result<Self, SnapshotError> {
        let (header, rest) =
            bytes.split_at_checked(HEADER_BYTES).ok_or(SnapshotError::Truncated)?;
        if !header.starts_with(&MAGIC) {
            return Err(SnapshotError::NotASnapshot);
        }
        let kinds = word(header, 8).ok_or(SnapshotError::Truncated)?;
        let (version, kind) = (kinds as u32, (kinds >> 32) as u32);
        if version != SNAPSHOT_VERSION {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let fingerprint = word(header, 16).ok_or(SnapshotError::Truncated)?;
        let (kind, rest) = kind_of(kind, rest)?;
        let entry_bytes = entry_words(kind) * WORD_BYTES;
        let split = rest.len().checked_sub(TRAILER_BYTES).ok_or(SnapshotError::Truncated)?;
        let (entries, trailer) = rest.split_at(split);
        if split % entry_bytes != 0 {
            return Err(SnapshotError::Truncated);
        }
        let checked = &bytes[..bytes.len() - WORD_BYTES];
        if word(trailer, 8) != Some(fnv(FNV_BASIS, checked)) {
            return Err(SnapshotError::Corrupt);
        }
        let entries = entries.chunks_exact(entry_bytes);
        let is_hash = |bits| KeyHash::from_bits(bits).to_bits() == bits;
        let whole = entries.clone().all(|entry| word(entry, 0).is_some_and(is_hash));
        if !whole || word(trailer, 0) != Some(entries.len() as u64) {
            return Err(SnapshotError::Corrupt);
        }
        Ok(Self::new(Fingerprint::from_bits(fingerprint), kind, SavedKeys { kind, entries }))
    }
}

const fn code(kind: SnapshotKind) -> u32 {
    match kind {
        SnapshotKind::Debts => 1,
        SnapshotKind::FixedWindows(_) => 2,
        SnapshotKind::SlidingWindows(_) => 3,
        SnapshotKind::CalendarMinutes => 4,
        SnapshotKind::CalendarHours => 5,
        SnapshotKind::CalendarDays => 6,
        SnapshotKind::CalendarMonths => 7,
        SnapshotKind::SubWindows { .. } => 8,
        SnapshotKind::SlidingLogs(_) => 9,
    }
}

/// The kind with this code, and the bytes after its window.
fn kind_of(code: u32, bytes: &[u8]) -> Result<(SnapshotKind, &[u8]), SnapshotError> {
    let first = |bytes: &[u8]| word(bytes, 0).ok_or(SnapshotError::Truncated);
    let with = |kind: fn(Duration) -> SnapshotKind| {
        let length = Duration::from_nanos(first(bytes)?);
        Ok((kind(length), &bytes[WORD_BYTES..]))
    };
    let kind = match code {
        1 => SnapshotKind::Debts,
        2 => return with(SnapshotKind::FixedWindows),
        3 => return with(SnapshotKind::SlidingWindows),
        4 => SnapshotKind::CalendarMinutes,
        5 => SnapshotKind::CalendarHours,
        6 => SnapshotKind::CalendarDays,
        7 => SnapshotKind::CalendarMonths,
        8 => {
            let window = Duration::from_nanos(first(bytes)?);
            let count = first(&bytes[WORD_BYTES..])?;
            return Ok((SnapshotKind::SubWindows { window, count }, &bytes[2 * WORD_BYTES..]));
        }
        9 => return with(SnapshotKind::SlidingLogs),
        unknown => return Err(SnapshotError::UnknownKind(unknown)),
    };
    Ok((kind, bytes))
}

/// The words between header and entries.
fn window(kind: SnapshotKind) -> [Option<u64>; 2] {
    match kind {
        SnapshotKind::FixedWindows(length)
        | SnapshotKind::SlidingWindows(length)
        | SnapshotKind::SlidingLogs(length) => [Some(nanos(length)), None],
        SnapshotKind::SubWindows { window, count } => [Some(nanos(window)), Some(count)],
        _ => [None; 2],
    }
}

/// Words per entry, including its key.
const fn entry_words(kind: SnapshotKind) -> usize {
    match kind {
        SnapshotKind::Debts => 2,
        SnapshotKind::SlidingWindows(_) => 4,
        _ => 3,
    }
}

/// The words of a state, of which an entry stores the first `entry_words - 1`; `None` for a state
/// of another kind.
fn words(kind: SnapshotKind, state: SavedState) -> Option<[u64; 3]> {
    match (kind, state) {
        (SnapshotKind::Debts, SavedState::Debt(debt)) => Some([nanos(debt), 0, 0]),
        (
            SnapshotKind::FixedWindows(_) | SnapshotKind::SlidingWindows(_),
            SavedState::Window { left, current, previous },
        ) => Some([nanos(left), current, previous]),
        (
            SnapshotKind::CalendarMinutes
            | SnapshotKind::CalendarHours
            | SnapshotKind::CalendarDays
            | SnapshotKind::CalendarMonths,
            SavedState::Period { ends, count },
        ) => Some([ends as u64, count, 0]),
        (
            SnapshotKind::SubWindows { .. } | SnapshotKind::SlidingLogs(_),
            SavedState::Units { left, units },
        ) => Some([nanos(left), units, 0]),
        _ => None,
    }
}

/// The state of an entry.
fn state(kind: SnapshotKind, entry: &[u8]) -> Option<SavedState> {
    let first = word(entry, WORD_BYTES)?;
    let counted = || word(entry, 2 * WORD_BYTES);
    let left = Duration::from_nanos(first);
    Some(match kind {
        SnapshotKind::Debts => SavedState::Debt(left),
        SnapshotKind::FixedWindows(_) => {
            SavedState::Window { left, current: counted()?, previous: 0 }
        }
        SnapshotKind::SlidingWindows(_) => {
            let previous = word(entry, 3 * WORD_BYTES)?;
            SavedState::Window { left, current: counted()?, previous }
        }
        SnapshotKind::SubWindows { .. } | SnapshotKind::SlidingLogs(_) => {
            SavedState::Units { left, units: counted()? }
        }
        _ => SavedState::Period { ends: first as i64, count: counted()? },
    })
}

/// A duration in nanoseconds, at most 2^64 - 1.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The 64 bits at `offset`.
fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Why bytes are not a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The magic number is missing.
    NotASnapshot,
    /// The snapshot has another version than [`SNAPSHOT_VERSION`].
    UnknownVersion(u32),
    /// The snapshot has a kind unknown to this version.
    UnknownKind(u32),
    /// The bytes end too early, or within an entry.
    Truncated,
    /// The bytes are not what was written.
    Corrupt,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("the bytes are not a snapshot"),
            Self::UnknownVersion(version) => {
                write!(f, "the snapshot has version {version}, not {SNAPSHOT_VERSION}")
            }
            Self::UnknownKind(kind) => write!(f, "the snapshot has states of unknown kind {kind}"),
            Self::Truncated => f.write_str("the snapshot is truncated"),
            Self::Corrupt => f.write_str("the snapshot is corrupt"),
        }
    }
}

impl core::error::Error for SnapshotError {}
