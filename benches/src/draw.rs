//! Which key comes next.

use core::fmt::Write as _;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};

use crate::failure::Failure;
use crate::workloads::Workload;

/// The exponent of the skewed workload.
pub const ZIPF_EXPONENT: f64 = 0.99;

/// Draws the keys of one thread, the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Draw {
    rng: Xoshiro256PlusPlus,
    law: Law,
}

#[derive(Clone, Copy, Debug)]
enum Law {
    Only,
    Zipf(Zipf<f64>),
    Uniform(u32),
    /// Every index comes once: this is the next.
    Fresh(u32),
}

/// Far enough apart that threads which draw equally often never meet.
const FRESH_STRIDE: u32 = u32::MAX / MAX_THREADS;

/// No draw is for a thread of a higher number.
pub const MAX_THREADS: u32 = 64;

impl Draw {
    /// The draw of thread number `thread`, from 0, out of `keys` keys.
    ///
    /// # Errors
    /// When there are no keys, or more than 2^32 - 1, or [`MAX_THREADS`] threads are too few.
    pub fn new(workload: Workload, keys: usize, seed: u64, thread: usize) -> Result<Self, Failure> {
        let count = u32::try_from(keys).ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| Failure::SetUp(format!("cannot draw from {keys} keys")))?;
        let law = match workload {
            Workload::HotAllowed | Workload::HotDenied => Law::Only,
            Workload::Zipf1M | Workload::Zipf1MScattered => Law::Zipf(
                Zipf::new(f64::from(count), ZIPF_EXPONENT)
                    .map_err(|error| Failure::SetUp(format!("Zipf's law: {error}")))?,
            ),
            Workload::Uniform10M | Workload::Memory => Law::Uniform(count),
            Workload::NewKey => {
                let thread = u32::try_from(thread).ok().filter(|thread| *thread < MAX_THREADS);
                let thread = thread.ok_or_else(|| Failure::SetUp("too many threads".to_owned()))?;
                Law::Fresh(thread * FRESH_STRIDE)
            }
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..thread {
            rng = rng.fork();
        }
        Ok(Self { rng, law })
    }

    /// The next key's index, below the number of keys unless every key is new. Under Zipf's law,
    /// index 0 is the most frequent key.
    pub fn next_index(&mut self) -> u32 {
        match &mut self.law {
            Law::Only => 0,
            // Samples are the ranks 1.0 to the number of keys.
            Law::Zipf(zipf) => zipf.sample(&mut self.rng) as u32 - 1,
            Law::Uniform(count) => self.rng.random_range(0..*count),
            Law::Fresh(next) => {
                let index = *next;
                *next = next.wrapping_add(1);
                index
            }
        }
    }
}

/// All indexes below `keys`, in an order that follows from the seed.
#[must_use]
pub fn shuffled(keys: usize, seed: u64) -> Vec<u32> {
    let mut indexes: Vec<u32> = (0..keys as u32).collect();
    indexes.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    indexes
}

/// All indexes below `keys`, in the order in which a service meets them that is asked for keys by
/// the workload's law: frequent keys early, more or less. What has not come up after two draws a
/// key follows in any order.
///
/// # Errors
/// As [`Draw::new`].
pub fn arrivals(workload: Workload, keys: usize, seed: u64) -> Result<Vec<u32>, Failure> {
    let mut draw = Draw::new(workload, keys, seed, MAX_THREADS as usize - 1)?;
    let mut is_new = vec![true; keys];
    let drawn = (0..2 * keys).map(|_| draw.next_index());
    let mut order: Vec<u32> = Vec::with_capacity(keys);
    for index in drawn.chain(shuffled(keys, seed)) {
        if std::mem::take(&mut is_new[index as usize]) {
            order.push(index);
        }
    }
    Ok(order)
}

/// Writes the key of an index into `text`; 16 bytes for every index below 10^11.
pub fn write_key(text: &mut String, index: u32) {
    text.clear();
    // Writing into a `String` does not fail.
    let _ = write!(text, "user:{index:011}");
}

/// The key of an index.
#[must_use]
pub fn key_of(index: u32) -> String {
    let mut text = String::with_capacity(16);
    write_key(&mut text, index);
    text
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
