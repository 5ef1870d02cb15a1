//! Bytes that call themselves a snapshot: refused, or exactly what would be written again; and restored
//! without a debt that nobody saved.
#![no_main]

use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_engine::{KeyHasher, Limiter, ManualClock, Quota, Snapshot};
use tidegate_fuzz::memory;

#[derive(Arbitrary, Debug)]
enum Input {
    /// As they are.
    Raw(Vec<u8>),
    /// With the right checksum behind them.
    Summed(Vec<u8>),
    /// With a right beginning and a right end: entries of 16 bytes, whatever they hold. Then a byte of it
    /// all is changed, and the checksum is right again.
    Entries { entries: Vec<[u64; 2]>, nanos_down: u64, at: u16, flip: u8 },
}

/// Bytes of the byte form before the entries, and of its checksum.
const HEADER: usize = 24;
const CHECKSUM: usize = 8;
/// No word holds a debt that is longer: 18.3 years.
const MAX_DEBT: Duration = Duration::from_hours(24 * 6_680);
/// Two units of time, below 2 ns each.
const ROUNDING: Duration = Duration::from_nanos(4);

/// How a snapshot of the limiter here begins.
static HEAD: OnceLock<Vec<u8>> = OnceLock::new();

fuzz_target!(|input: Input| {
    let mut down = Duration::ZERO;
    let bytes = match input {
        Input::Raw(bytes) => bytes,
        Input::Summed(bytes) => summed(bytes),
        Input::Entries { entries, nanos_down, at, flip } => {
            down = Duration::from_nanos(nanos_down);
            let mut bytes =
                HEAD.get_or_init(|| limiter().snapshot().to_bytes()[..HEADER].to_vec()).clone();
            let count = entries.len() as u64;
            let words = entries.iter().flatten().chain([&count]);
            bytes.extend(words.flat_map(|word| word.to_le_bytes()));
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= flip;
            summed(bytes)
        }
    };
    let (snapshot, asked) = memory::asked(|| Snapshot::from_bytes(&bytes));
    assert_eq!(asked, 0, "bytes of memory");
    let Ok(snapshot) = snapshot else { return };
    assert_eq!(snapshot.clone().to_bytes(), bytes);

    let keys = snapshot.clone().into_iter().count() as u64;
    let longest = snapshot.clone().into_iter().map(|saved| saved.debt).max();
    let longest = longest.unwrap_or_default().saturating_sub(down).min(MAX_DEBT);
    let limiter = limiter();
    if let Ok(restored) = limiter.restore(snapshot, down) {
        assert_eq!(restored.raised + restored.unchanged + restored.dropped, keys);
        for (_, debt) in limiter.live() {
            assert!(debt <= longest + ROUNDING, "{debt:?} beyond {longest:?}");
        }
    }
});

fn limiter() -> Limiter<Quota, ManualClock> {
    let limiter = Limiter::builder(Quota::per_hour(3)).capacity(64).hasher(KeyHasher::rapid(7));
    limiter.clock(ManualClock::new()).build().expect("a sound quota")
}

/// The bytes and their FNV-1a.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let sum: [u8; CHECKSUM] = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes();
    bytes.extend(sum);
    bytes
}
