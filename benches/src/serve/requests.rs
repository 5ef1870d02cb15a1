//! What the client sends: bytes made in advance, with another key each time.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};

/// Keys are drawn evenly out of this number.
pub const KEYS: u32 = 1_000_000;

/// What stands where a key is to be drawn.
pub const KEY: &str = "key:0000000";

/// Digits of a key that is drawn, the last ones of [`KEY`].
const DRAWN_DIGITS: usize = 6;
/// Digits of a key that is counted, in base 16.
const COUNTED_DIGITS: usize = 7;

/// Which keys are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each drawn evenly out of [`KEYS`].
    Drawn {
        /// Of all that are drawn.
        seed: u64,
    },
    /// One after another, each of 2^28 once.
    Counted,
}

/// Requests that are sent by one write.
#[derive(Clone, Debug)]
pub struct Requests {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
    /// `000` to `999`.
    thousand: Vec<[u8; 3]>,
    next: Next,
}

#[derive(Clone, Debug)]
enum Next {
    Drawn(Xoshiro256PlusPlus),
    Counted(u32),
}

impl Requests {
    /// `count` copies of one request, in which keys stand as [`KEY`].
    #[must_use]
    pub fn new(request: &str, count: usize, keys: Keys) -> Self {
        let text = request.repeat(count);
        let ends = text.match_indices(KEY).map(|(start, _)| start + KEY.len()).collect();
        let digit = |number: u32| b'0' + (number % 10) as u8;
        let thousand = (0..1_000).map(|n| [digit(n / 100), digit(n / 10), digit(n)]).collect();
        let next = match keys {
            Keys::Drawn { seed } => Next::Drawn(Xoshiro256PlusPlus::seed_from_u64(seed)),
            Keys::Counted => Next::Counted(0),
        };
        Self { bytes: text.into_bytes(), ends, thousand, next }
    }

    /// The requests, with the keys that are next.
    #[inline]
    pub fn draw(&mut self) -> &[u8] {
        for end in &self.ends {
            match &mut self.next {
                Next::Drawn(random) => {
                    let key = ((u64::from(random.next_u32()) * u64::from(KEYS)) >> 32) as usize;
                    let start = end - DRAWN_DIGITS;
                    self.bytes[start..start + 3].copy_from_slice(&self.thousand[key / 1_000]);
                    self.bytes[start + 3..*end].copy_from_slice(&self.thousand[key % 1_000]);
                }
                Next::Counted(next) => {
                    let digits = &mut self.bytes[end - COUNTED_DIGITS..*end];
                    write_in_hexadecimal(*next, digits);
                    *next = next.wrapping_add(1);
                }
            }
        }
        &self.bytes
    }
}

/// As many of the last digits as there is room for.
fn write_in_hexadecimal(mut number: u32, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[number as usize % 16];
        number /= 16;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn keys_of(requests: &mut Requests) -> Vec<String> {
        let text = str::from_utf8(requests.draw()).expect("text").to_owned();
        let key = |one: &str| {
            let key = one.strip_prefix("<key:").and_then(|key| key.strip_suffix(" 1"));
            key.expect("a request").to_owned()
        };
        text.split_terminator('>').map(key).collect()
    }

    #[test]
    fn each_request_has_a_key_of_its_own() {
        let mut requests = Requests::new("<key:0000000 1>", 3, Keys::Drawn { seed: 7 });
        let mut seen = HashSet::new();
        for key in (0..100).flat_map(|_| keys_of(&mut requests)) {
            let key: u32 = key.parse().expect("digits");
            assert!(key < KEYS && seen.insert(key), "{key}");
        }
    }

    #[test]
    fn keys_are_counted() {
        let mut requests = Requests::new("<key:0000000 1>", 3, Keys::Counted);
        let keys: Vec<_> = (0..100).flat_map(|_| keys_of(&mut requests)).collect();
        let expected: Vec<_> = (0..300).map(|key| format!("{key:07x}")).collect();
        assert_eq!(keys, expected);
    }
}
