//! Counts of past sub-windows, each in a word that also holds its sub-window's index: units
//! charged, or units given back. The index in a word never decreases.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | R3 cell, load | acquire | R4 | the head may be read as before the advance that wrote the cell, indefinitely; a give-back finds the count from before the reset that emptied the returns | `ring-cell-relaxed` |
//! | R4 cell, exchange | release | R3 | as R3 | `ring-cell-written-relaxed` |

use alloc::{boxed::Box, vec::Vec};
use core::cmp;

use crate::base::sync::{AtomicU64, Ordering};

use super::CounterError;
use super::span::{CellWord, Span};

/// One cell more than a window has sub-windows; a sub-window uses the cell at its index modulo
/// their number.
#[derive(Debug)]
pub(super) struct Cells {
    span: Span,
    words: Box<[AtomicU64]>,
}

impl Cells {
    pub(super) fn new(span: Span) -> Result<Self, CounterError> {
        let count = span.count() as usize + 1;
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| CounterError::OutOfMemory)?;
        words.resize_with(count, AtomicU64::default);
        Ok(Self { span, words: words.into_boxed_slice() })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The counts of the sub-windows from `first` to before `end`.
    pub(super) fn sum(&self, first: u64, end: u64) -> Option<u64> {
        self.counts(first, end).map(|(_, units)| units).sum()
    }

    /// Each sub-window and its count, as by `units_of`. One division in all, and a single
    /// comparison for a cell that was not charged since `first`.
    #[inline]
    pub(super) fn counts(
        &self,
        first: u64,
        end: u64,
    ) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        debug_assert!(end.saturating_sub(first) <= self.words.len() as u64, "cell visited twice");
        let (before, from) = self.words.split_at(self.place(first));
        let least = self.span.pack(CellWord::open(first, 0));
        (first..end).zip(from.iter().chain(before)).map(move |(index, word)| {
            let bits = word.load(Ordering::Acquire); // R3
            (index, if bits < least { Some(0) } else { self.units_in(bits, index) })
        })
    }

    /// The count of a past sub-window; `None` when its cell has been taken by a later one.
    pub(super) fn units_of(&self, index: u64) -> Option<u64> {
        self.units_in(self.word(index).load(Ordering::Acquire), index) // R3
    }

    #[inline]
    fn units_in(&self, bits: u64, index: u64) -> Option<u64> {
        let cell = self.span.unpack(bits);
        match cell.index.cmp(&index) {
            // Nothing was charged in the sub-window.
            cmp::Ordering::Less => Some(0),
            cmp::Ordering::Equal => Some(cell.units),
            cmp::Ordering::Greater => None,
        }
    }

    /// Adds units to the count of a sub-window, up to `most`, which is called after the count was
    /// read; it returns `None` when a later sub-window may have the cell.
    pub(super) fn add(&self, index: u64, units: u64, most: impl Fn() -> Option<u64>) {
        let cell = self.word(index);
        let mut seen = cell.load(Ordering::Acquire); // R3
        loop {
            let found = self.span.unpack(seen);
            let before = if found.index == index { found.units } else { 0 };
            let Some(most) = most().filter(|most| before < *most) else { return };
            let sum = CellWord::open(index, before.saturating_add(units).min(most));
            match self.exchange(cell, seen, sum) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    /// Stores the word unless the cell names that sub-window or a later one.
    pub(super) fn name(&self, word: CellWord) {
        self.write(word, |seen| seen.index < word.index);
    }

    /// As `name`, but also overwrites another count of the same sub-window.
    pub(super) fn name_anew(&self, word: CellWord) {
        self.write(word, |seen| seen.index <= word.index && seen != word);
    }

    fn write(&self, word: CellWord, wanted: impl Fn(CellWord) -> bool) {
        let cell = self.word(word.index);
        let mut seen = cell.load(Ordering::Acquire); // R3
        while wanted(self.span.unpack(seen)) {
            match self.exchange(cell, seen, word) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    /// Fails with the current content if it is not `seen`.
    fn exchange(&self, cell: &AtomicU64, seen: u64, new: CellWord) -> Result<u64, u64> {
        // R4; R3 on failure
        cell.compare_exchange(seen, self.span.pack(new), Ordering::Release, Ordering::Acquire)
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        &self.words[self.place(index)]
    }

    fn place(&self, index: u64) -> usize {
        index as usize % self.words.len()
    }
}
