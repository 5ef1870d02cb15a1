//! The sequence of keys that each thread checks.

use std::sync::Arc;

use crate::draw::{Draw, key_of, write_key};
use crate::failure::Failure;
use crate::pool::Pool;
use crate::workloads::Workload;

/// A type of keys, made from a key's index.
pub trait CallKey: Send + Sync + Sized + 'static {
    /// The part of a variant's name for keys of this type.
    const SUFFIX: &'static str;

    /// The key of an index.
    fn of(index: u32) -> Self;

    /// Overwrites this with the key of another index.
    fn set(&mut self, index: u32);

    /// The script's keys of this type, in order.
    fn of_script(script: &Script) -> &[Self];

    /// The pool's keys of this type, by place.
    fn of_pool(pool: &Pool) -> &[Self];
}

impl CallKey for String {
    const SUFFIX: &'static str = "";

    fn of(index: u32) -> Self {
        key_of(index)
    }

    fn set(&mut self, index: u32) {
        write_key(self, index);
    }

    fn of_script(script: &Script) -> &[Self] {
        &script.strings
    }

    fn of_pool(pool: &Pool) -> &[Self] {
        pool.strings()
    }
}

impl CallKey for u64 {
    const SUFFIX: &'static str = "-u64";

    fn of(index: u32) -> Self {
        index.into()
    }

    fn set(&mut self, index: u32) {
        *self = index.into();
    }

    fn of_script(script: &Script) -> &[Self] {
        &script.numbers
    }

    fn of_pool(pool: &Pool) -> &[Self] {
        pool.numbers()
    }
}

/// The keys one thread checks in a round, in order, repeated `laps` times: as strings, and the same
/// ones as integers.
///
/// They are in memory in the order of their use, as a request's key is in cache when it is checked:
/// the limiter is timed, not the load of the key's text. If they are
/// [scattered](Workload::is_scattered), a key's text is in the cache only where it comes up often,
/// and its load is timed too.
#[derive(Debug)]
pub struct Script {
    draw: Draw,
    strings: Vec<String>,
    numbers: Vec<u64>,
    laps: u32,
    scattered: Option<Scattered>,
}

/// The keys of a script.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a, K> {
    /// In the order of their use.
    InOrder(&'a [K]),
    /// Those of a pool, and their places in the order of their use.
    Scattered(&'a [K], &'a [u32]),
}

/// Keys that are taken from a pool.
#[derive(Debug)]
struct Scattered {
    pool: Arc<Pool>,
    /// In the order of their use.
    places: Vec<u32>,
}

impl Script {
    /// Repetitions of a single key, enough that iterating costs nothing and few enough for the
    /// first-level cache.
    const HOT_KEYS: u32 = 64;

    /// The script of thread `thread`, counted from 0, for `checks` checks of `keys` keys, in order.
    /// It is empty before [`Script::redraw`].
    ///
    /// # Errors
    /// When the keys cannot be drawn.
    pub fn new(
        workload: Workload,
        keys: usize,
        checks: u32,
        seed: u64,
        thread: usize,
    ) -> Result<Self, Failure> {
        let draw = Draw::new(workload, keys, seed, thread)?;
        let (length, laps) =
            if workload.is_hot() { (Self::HOT_KEYS, checks / Self::HOT_KEYS) } else { (checks, 1) };
        let strings = (0..length).map(|_| String::new()).collect();
        Ok(Self { draw, strings, numbers: vec![0; length as usize], laps, scattered: None })
    }

    /// The scripts of this number of threads. If the workload's keys are scattered, all take them
    /// from one pool.
    ///
    /// # Errors
    /// When the keys cannot be drawn.
    pub fn of_threads(
        workload: Workload,
        keys: usize,
        checks: u32,
        seed: u64,
        threads: usize,
    ) -> Result<Vec<Self>, Failure> {
        let pool = workload.is_scattered().then(|| Arc::new(Pool::new(keys, seed)));
        let script = |thread| {
            let script = Self::new(workload, keys, checks, seed, thread)?;
            Ok(match &pool {
                Some(pool) => script.scatter(Arc::clone(pool)),
                None => script,
            })
        };
        (0..threads).map(script).collect()
    }

    /// The same checks, with keys that lie where the pool has them.
    fn scatter(self, pool: Arc<Pool>) -> Self {
        let places = vec![0; self.numbers.len()];
        Self { strings: Vec::new(), scattered: Some(Scattered { pool, places }), ..self }
    }

    /// Draws new keys in place, and reports to `tally` how often each index is checked.
    pub fn redraw(&mut self, mut tally: impl FnMut(u32, u32)) {
        for nth in 0..self.numbers.len() {
            let index = self.draw.next_index();
            match &mut self.scattered {
                Some(Scattered { pool, places }) => places[nth] = pool.place(index),
                None => self.strings[nth].set(index),
            }
            self.numbers[nth].set(index);
            tally(index, self.laps);
        }
    }

    /// Checks in a round.
    #[must_use]
    pub fn checks(&self) -> u64 {
        self.numbers.len() as u64 * u64::from(self.laps)
    }

    /// The keys' indexes, in order.
    #[must_use]
    pub fn indexes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.numbers.iter().map(|number| *number as u32)
    }

    /// How often the keys are checked.
    #[must_use]
    pub fn laps(&self) -> u32 {
        self.laps
    }

    /// The keys, as they are in memory.
    #[must_use]
    pub fn keys<K: CallKey>(&self) -> Keys<'_, K> {
        match &self.scattered {
            None => Keys::InOrder(K::of_script(self)),
            Some(Scattered { pool, places }) => Keys::Scattered(K::of_pool(pool), places),
        }
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
