//! What the client sends: bytes made in advance, with a key drawn anew each time.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};

/// Keys are drawn evenly out of this number.
pub const KEYS: u32 = 1_000_000;

/// What stands where a key is to be drawn.
pub const KEY: &str = "key:0000000";

/// Requests that are sent by one write.
#[derive(Clone, Debug)]
pub struct Requests {
    bytes: Vec<u8>,
    /// Where the last six digits of each key are.
    digits: Vec<usize>,
    /// `000` to `999`.
    thousand: Vec<[u8; 3]>,
    random: Xoshiro256PlusPlus,
}

impl Requests {
    /// `count` copies of one request, in which keys stand as [`KEY`].
    #[must_use]
    pub fn new(request: &str, count: usize, seed: u64) -> Self {
        let text = request.repeat(count);
        let six_digits = |(start, _)| start + KEY.len() - 6;
        let digits = text.match_indices(KEY).map(six_digits).collect();
        let digit = |number: u32| b'0' + (number % 10) as u8;
        let thousand = (0..1_000).map(|n| [digit(n / 100), digit(n / 10), digit(n)]).collect();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { bytes: text.into_bytes(), digits, thousand, random }
    }

    /// The requests, each with keys of its own.
    #[inline]
    pub fn draw(&mut self) -> &[u8] {
        for start in &self.digits {
            let key = ((u64::from(self.random.next_u32()) * u64::from(KEYS)) >> 32) as usize;
            self.bytes[*start..start + 3].copy_from_slice(&self.thousand[key / 1_000]);
            self.bytes[start + 3..start + 6].copy_from_slice(&self.thousand[key % 1_000]);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_a_key_of_its_own() {
        let mut requests = Requests::new("<key:0000000 1>", 3, 7);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100 {
            let text = str::from_utf8(requests.draw()).expect("text");
            for request in text.split_terminator('>') {
                let key = request.strip_prefix("<key:0").and_then(|key| key.strip_suffix(" 1"));
                let key: u32 = key.expect("a request").parse().expect("six digits");
                assert!(key < KEYS && seen.insert(key), "{text}");
            }
        }
    }
}
