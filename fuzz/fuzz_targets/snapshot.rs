//! Bytes that claim to be a snapshot: refused, or exactly what would be written again; and restored
//! under each rule without any debt that was not saved.
#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_engine::counter::{ShardedCounter, SlidingLog, SubWindowCounter};
use tidegate_engine::snapshot::{
    RestoreError, Restored, SavedKey, SavedKeys, SavedState, Snapshot,
};
use tidegate_engine::{
    CalendarWindow, Decision, FixedWindow, KeyHasher, Limiter, ManualClock, Queue, Quota, Rule,
    SlidingWindow,
};
use tidegate_fuzz::memory;

#[derive(Arbitrary, Debug)]
enum Input {
    /// The bytes as they are.
    Raw(Vec<u8>),
    /// With a correct checksum appended.
    Summed(Vec<u8>),
    /// With a correct header and trailer: whole entries, with any content. Then one byte is
    /// changed, and the checksum is made correct again.
    Entries { of: Of, words: Vec<u64>, nanos_down: u64, at: u16, flip: u8 },
}

/// The rule whose states the entries hold.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Of {
    Quota,
    Fixed,
    Sliding,
    Calendar,
    Queue,
    SubWindows,
    Log,
}

impl Of {
    /// The bytes before the entries.
    fn head(self) -> Vec<u8> {
        let mut empty = match self {
            Self::Quota => limiter(QUOTA).snapshot().to_bytes(),
            Self::Fixed => limiter(FIXED).snapshot().to_bytes(),
            Self::Sliding => limiter(SLIDING).snapshot().to_bytes(),
            Self::Calendar => limiter(CALENDAR).snapshot().to_bytes(),
            Self::Queue => queue().snapshot().to_bytes(),
            Self::SubWindows => sub_windows().snapshot().to_bytes(),
            Self::Log => log().snapshot().to_bytes(),
        };
        empty.truncate(empty.len() - TRAILER);
        empty
    }

    /// 8-byte words in an entry.
    fn words(self) -> usize {
        match self {
            Self::Quota | Self::Queue => 2,
            Self::Fixed | Self::Calendar | Self::SubWindows | Self::Log => 3,
            Self::Sliding => 4,
        }
    }
}

const QUOTA: Quota = Quota::per_hour(3);
const FIXED: FixedWindow = FixedWindow::per_hour(3);
const SLIDING: SlidingWindow = SlidingWindow::per_hour(3);
const CALENDAR: CalendarWindow = CalendarWindow::per_month(3);

/// The window of the limits without keys.
const WINDOW: Duration = Duration::from_hours(1);
const PARTS: u32 = 6;

/// Bytes after the entries, and those of the checksum among them.
const TRAILER: usize = 16;
const CHECKSUM: usize = 8;
/// The longest debt that a word can hold: 18.3 years.
const MAX_DEBT: Duration = Duration::from_hours(24 * 6_680);
/// The bits of a key by which a table distinguishes keys that may share a slot.
const TAG: u64 = (1 << 47) - 1;
/// Two units of time, each below 2 ns.
const ROUNDING: Duration = Duration::from_nanos(4);

fuzz_target!(|input: Input| {
    let mut down = Duration::ZERO;
    let bytes = match input {
        Input::Raw(bytes) => bytes,
        Input::Summed(bytes) => summed(bytes),
        Input::Entries { of, words, nanos_down, at, flip } => {
            down = Duration::from_nanos(nanos_down);
            let mut bytes = of.head();
            let entries = words.chunks_exact(of.words());
            let count = entries.len() as u64;
            bytes.extend(entries.flatten().chain([&count]).flat_map(|word| word.to_le_bytes()));
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= flip;
            summed(bytes)
        }
    };
    let (snapshot, asked) = memory::asked(|| Snapshot::from_bytes(&bytes));
    assert_eq!(asked, 0, "bytes of memory");
    let Ok(snapshot) = snapshot else { return };
    assert_eq!(snapshot.clone().to_bytes(), bytes);

    let debts = snapshot.clone().into_iter().filter_map(|saved| match saved.state {
        SavedState::Debt(debt) => Some(debt),
        _ => None,
    });
    let longest = debts.max().unwrap_or_default().saturating_sub(down).min(MAX_DEBT);
    for (_, debt) in restored(QUOTA, &snapshot, down).live() {
        assert!(debt <= longest + ROUNDING, "{debt:?} beyond {longest:?}");
    }
    restored(FIXED, &snapshot, down);
    restored(SLIDING, &snapshot, down);
    restored(CALENDAR, &snapshot, down);

    let (queue, counter, sharded, log) = (queue(), sub_windows(), sharded(), log());
    restored_in(
        &snapshot,
        |saved| queue.restore(saved, down),
        || queue.snapshot(),
        || queue.peek(),
    );
    let waits = queue.peek().reset_after();
    assert!(waits <= longest + ROUNDING, "{waits:?} beyond {longest:?}");
    restored_in(
        &snapshot,
        |saved| counter.restore(saved, down),
        || counter.snapshot(),
        || counter.peek(),
    );
    restored_in(
        &snapshot,
        |saved| sharded.restore(saved, down),
        || sharded.snapshot(),
        || sharded.peek(),
    );
    restored_in(&snapshot, |saved| log.restore(saved, down), || log.snapshot(), || log.peek());
    // Units count until their sub-window has left the window.
    let longest = [WINDOW + WINDOW / PARTS, WINDOW + WINDOW / PARTS, WINDOW];
    for (peek, longest) in [counter.peek(), sharded.peek(), log.peek()].into_iter().zip(longest) {
        assert!(peek.reset_after() <= longest, "{:?} beyond {longest:?}", peek.reset_after());
    }
});

/// Restores into a limit without keys, if the snapshot is of its kind. The result accounts for it,
/// and what was restored is saved again.
fn restored_in<S: IntoIterator<Item = SavedKey>>(
    snapshot: &Snapshot<SavedKeys<'_>>,
    restore: impl Fn(Snapshot<std::vec::IntoIter<SavedKey>>) -> Result<Restored, RestoreError>,
    save: impl Fn() -> Snapshot<S>,
    peek: impl Fn() -> Decision,
) {
    let of =
        |keys: Vec<_>| Snapshot::new(snapshot.fingerprint(), snapshot.kind(), keys.into_iter());
    let keys: Vec<_> = snapshot.clone().into_iter().collect();
    if let Ok(restored) = restore(of(keys.clone())) {
        assert!(restored.raised + restored.unchanged <= keys.len() as u64);
        assert_eq!(restored.raised + restored.unchanged == 0, keys.is_empty());
        let found = peek();
        let again = restore(of(keys)).expect("of its own kind");
        assert_eq!((again.raised, again.dropped), (0, 0));
        assert_eq!(peek(), found);
        let saved = save().to_bytes();
        let read = Snapshot::from_bytes(&saved).expect("what was written can be read");
        assert_eq!(read.to_bytes(), saved);
    }
}

fn queue() -> Queue<ManualClock> {
    Queue::with_clock(QUOTA, ManualClock::new()).expect("a sound quota")
}

fn sub_windows() -> SubWindowCounter<ManualClock> {
    SubWindowCounter::with_sub_windows(3, WINDOW, PARTS.into(), ManualClock::new())
        .expect("a sound limit")
}

fn sharded() -> ShardedCounter<ManualClock> {
    let builder = ShardedCounter::builder(3, WINDOW).sub_windows(PARTS.into()).shards(2);
    builder.clock(ManualClock::new()).build().expect("a sound limit")
}

fn log() -> SlidingLog<ManualClock> {
    SlidingLog::with_clock(3, WINDOW, ManualClock::new()).expect("a sound limit")
}

/// A limiter into which the snapshot was restored, if it is of its kind. Every key is accounted
/// for, and what was restored is saved again.
fn restored<R: Rule>(
    rule: R,
    snapshot: &Snapshot<SavedKeys<'_>>,
    down: Duration,
) -> Limiter<R, ManualClock> {
    let limiter = limiter(rule);
    if let Ok(restored) = limiter.restore(snapshot.clone(), down) {
        let keys = snapshot.clone().into_iter().count() as u64;
        assert_eq!(restored.raised + restored.unchanged + restored.dropped, keys);
        let saved = limiter.snapshot().to_bytes();
        let again = Snapshot::from_bytes(&saved).expect("what was written can be read");
        let are_distinct = are_distinct(again.clone());
        let restored = limiter.restore(again, Duration::ZERO).expect("of its own kind");
        assert_eq!(restored.dropped, 0);
        assert!(restored.raised == 0 || !are_distinct, "{restored:?}");
    }
    limiter
}

/// Whether a small table takes no two of these keys for one: their tags differ. A hasher's keys
/// are, all but surely; keys of crafted bytes need not be.
fn are_distinct(keys: impl IntoIterator<Item = SavedKey>) -> bool {
    let mut tags = HashSet::new();
    keys.into_iter().all(|saved| tags.insert(saved.key.to_bits() & TAG))
}

fn limiter<R: Rule>(rule: R) -> Limiter<R, ManualClock> {
    let limiter = Limiter::builder(rule).capacity(64).hasher(KeyHasher::rapid(7));
    limiter.clock(ManualClock::new()).build().expect("a sound rule")
}

/// The bytes and their FNV-1a.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let sum: [u8; CHECKSUM] = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes();
    bytes.extend(sum);
    bytes
}
