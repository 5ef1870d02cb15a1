//! Keys that lie scattered in memory.

use crate::draw::{key_of, shuffled};

/// One string and one number for each key, at places that have nothing to do with its index, and so
/// with when it is asked for.
///
/// The place decides the address both of the `String` and of its bytes, an allocation of their own:
/// neither is in the cache when a key comes up that is not frequent, as neither is in a server that
/// takes the key from a session that it has looked up.
#[derive(Debug)]
pub struct Pool {
    /// By index.
    places: Vec<u32>,
    /// By place.
    strings: Vec<String>,
    /// By place.
    numbers: Vec<u64>,
}

impl Pool {
    /// The keys of all indexes below `keys`, in an order that follows from the seed.
    #[must_use]
    pub fn new(keys: usize, seed: u64) -> Self {
        // Not the order in which `arrivals` ends, in which limiters copy keys.
        let order = shuffled(keys, !seed);
        let mut places = vec![0; keys];
        for (place, index) in (0..).zip(&order) {
            places[*index as usize] = place;
        }
        // Allocated in the order of their places.
        let strings = order.iter().map(|index| key_of(*index)).collect();
        Self { places, strings, numbers: order.into_iter().map(u64::from).collect() }
    }

    /// Where the key of an index lies.
    #[must_use]
    pub fn place(&self, index: u32) -> u32 {
        self.places[index as usize]
    }

    /// The keys as strings, by place.
    #[must_use]
    pub fn strings(&self) -> &[String] {
        &self.strings
    }

    /// The keys as numbers, by place.
    #[must_use]
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }
}
