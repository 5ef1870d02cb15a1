//! The least that any table costs on this machine: a hash, a clock, and one word at a position
//! derived from the hash.
//!
//! Not a limiter: keys at the same position share a word, and no key is ever removed. It has our
//! hash, our clocks, as much memory as our table, and huge pages if the system has them.

use core::hint::black_box;
use core::marker::PhantomData;
use core::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapMut};
use tidegate_engine::{Clock as _, KeyHasher};
use zerocopy::FromBytes as _;

use super::gcra::Gcra;
use crate::contenders::{Batch32, Contender, Precise, Recent, Style};
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// Words in the memory of one key: a table stores a tag with each word.
const STRIDE: usize = 2;
/// Number of keys that are hashed before the first of their words is used.
const TOGETHER: usize = 32;

/// One word per key at a hashed position, called in the style of one of our variants.
#[derive(Debug)]
pub struct Bare<S: Style> {
    hasher: KeyHasher,
    clock: S::Clock,
    gcra: Gcra,
    words: &'static [AtomicU64],
    style: PhantomData<fn(S)>,
}

impl<S: Style> Bare<S> {
    #[inline]
    fn word(&self, key: &str) -> &AtomicU64 {
        let bits = self.hasher.hash_bytes(key.as_bytes()).to_bits();
        let places = (self.words.len() / STRIDE) as u128;
        let place = (u128::from(bits << 5) * places) >> 64;
        &self.words[place as usize * STRIDE]
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    #[inline]
    fn ask(&self, word: &AtomicU64, now: u64) -> bool {
        black_box(self.gcra.admit(word, now, 1)).is_ok()
    }

    /// Like our batches: one reading of the clock, and all words are requested before the first is
    /// used.
    fn ask_together(&self, keys: &[impl AsRef<str>]) -> u64 {
        let mut words = [&self.words[0]; TOGETHER];
        for (word, key) in words.iter_mut().zip(keys) {
            *word = self.word(key.as_ref());
        }
        let words = &words[..keys.len()];
        // Loads without dependents act as prefetches.
        black_box(words.iter().fold(0, |all, word| all ^ word.load(Ordering::Relaxed)));
        let now = self.now();
        words.iter().map(|word| u64::from(self.ask(word, now))).sum()
    }
}

/// A style, and the name of the bare words in it.
pub trait Named: Style {
    /// The contender's name.
    const BARE: &'static str;
    /// Whether keys are checked in batches.
    const TOGETHER: bool = false;
}

impl Named for Precise {
    const BARE: &'static str = "bare-words";
}

impl Named for Recent {
    const BARE: &'static str = "bare-words-recent";
}

impl Named for Batch32 {
    const BARE: &'static str = "bare-words-batch32";
    const TOGETHER: bool = true;
}

impl<S: Named> Contender for Bare<S> {
    const NAME: &'static str = S::BARE;
    const AGAINST: &'static str = S::NAME;
    type Key = String;

    fn absence(workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::NewKey | Workload::Memory => Some("it has no keys to put in place"),
            _ => S::absence(workload),
        }
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let places = plan.keys.div_ceil(4) * 5;
        let words = zeroed(places * STRIDE).map_err(|error| Failure::SetUp(error.to_string()))?;
        let (hasher, clock, gcra) = (KeyHasher::random(), S::clock()?, Gcra::new(plan));
        Ok(Self { hasher, clock, gcra, words, style: PhantomData })
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.ask(self.word(key), self.now())
    }

    #[inline]
    fn check_all(&self, keys: &[String]) -> u64 {
        if S::TOGETHER {
            return keys.chunks(TOGETHER).map(|keys| self.ask_together(keys)).sum();
        }
        self.check_each(keys.iter())
    }

    #[inline]
    fn check_each<'k>(&self, mut keys: impl Iterator<Item = &'k String>) -> u64 {
        if !S::TOGETHER {
            return keys.map(|key| u64::from(self.check(black_box(key)))).sum();
        }
        let mut batch: Vec<&String> = Vec::with_capacity(TOGETHER);
        let mut allowed = 0;
        loop {
            batch.clear();
            batch.extend(keys.by_ref().take(TOGETHER));
            if batch.is_empty() {
                return allowed;
            }
            allowed += self.ask_together(&batch);
        }
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.gcra.admit(self.word(key), self.now(), units.get()).is_ok()
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

/// Zeros for the life of the process, so that borrowers need no lifetime.
fn zeroed(words: usize) -> std::io::Result<&'static [AtomicU64]> {
    let memory = Box::leak(Box::new(MmapMut::map_anon(words * size_of::<AtomicU64>())?));
    // A failure costs only speed.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(Advice::HugePage);
    Ok(<[AtomicU64]>::mut_from_bytes(memory).expect("pages are aligned and whole words"))
}
