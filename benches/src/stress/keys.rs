//! Keys that compete for the same slots.

use std::collections::HashSet;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::{KeyHash, Limiter, ManualClock, Quota};

use super::Violation;

/// Low bits of a key's hash that do not choose its home in a table of [`CAPACITY`] keys.
const TAG_BITS: u32 = 47;
/// Keys of the table in which [`rivals`] compete: 4,096 lines.
pub const CAPACITY: usize = 13_107;
/// Slots of the buckets that a key may live in.
pub const PLACES: usize = 48;

/// `count` keys with the same home bucket but different further ones.
#[must_use]
pub fn neighbours(count: usize, seed: u64) -> Vec<KeyHash> {
    tags(seed).map(KeyHash::from_bits).take(count).collect()
}

/// `count` keys, more than [`PLACES`], that may live in the same slots of a table of [`CAPACITY`]
/// keys, and nowhere else.
///
/// The engine defines how tags choose their buckets. The assumptions made here are verified, so a
/// change there makes this fail instead of silently weakening a run.
///
/// # Errors
/// When the keys do not compete for the same slots.
pub fn rivals(count: usize, seed: u64) -> Result<Vec<KeyHash>, Violation> {
    /// The multiplier that spreads the further buckets of tags, and the number of distances.
    const STRIDE: u64 = 0xb504_f333_f9de_6485;
    const DISTANCES: u64 = 340;
    let nearest = |tag: &u64| tag.wrapping_mul(STRIDE) < u64::MAX / DISTANCES;
    let keys: Vec<_> = tags(seed).filter(nearest).map(KeyHash::from_bits).take(count).collect();

    let limiter = Limiter::builder(Quota::per_hour(1)).capacity(CAPACITY).clock(ManualClock::new());
    let limiter = limiter.build().map_err(|error| Violation::SetUp(error.to_string()))?;
    for (index, key) in keys.iter().take(PLACES + 1).enumerate() {
        let _ = limiter.check(*key);
        if limiter.evicted() != u64::from(index >= PLACES) {
            return Err(Violation::SetUp("the keys do not want the same slots".to_owned()));
        }
    }
    Ok(keys)
}

/// Distinct tags, none of them 0.
fn tags(seed: u64) -> impl Iterator<Item = u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn = HashSet::new();
    let tags = core::iter::repeat_with(move || rng.random_range(1..1_u64 << TAG_BITS));
    tags.filter(move |tag| drawn.insert(*tag))
}
