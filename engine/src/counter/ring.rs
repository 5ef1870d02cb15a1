//! The state of a sub-window counter: a head that all charges go through, and the counts of the
//! sub-windows before it.
//!
//! # Protocol
//! The *head* names the latest sub-window `i` that anything was charged in, and the units of `i` and the
//! N sub-windows before it. A charge in `i` is one compare-and-swap of the head: nothing else can
//! change what counts, so the last unit is taken by one thread and nothing is rolled back.
//!
//! A *cell* keeps the count of a past sub-window; there are N + 1 of them, a sub-window has the
//! one at its number modulo N + 1. The count of `i` itself is what the head holds beyond the cells.
//! To begin a later sub-window `j`:
//! 1. *Seal* the head: from now on nobody charges `i`, so its count is final.
//! 2. *Record* that count in the cell of `i`. All who do so write the same, once: from a content
//!    that names an earlier sub-window.
//! 3. *Turn* the head to `j`, less what has expired by then, and charge in the same step.
//!
//! Each step can be done by anybody who finds the one before it done, from what the words say. So a
//! thread that stops between two steps stops nobody. The index of a head never goes down, and a
//! sealed head never returns: a turn that was prepared for another head fails.
//!
//! A reset puts a head of no units in the state *resetting*; whoever charges next empties the cells of
//! the window by naming them with a count of 0 (so that a late recorder's step fails), then opens
//! the head. Cells are not changed otherwise, so a reader needs no second look at the head: a cell
//! that names a later sub-window than the one looked for says that the head has moved on. A head that was reset
//! and charged to the same units again is met only by charges that need the units alone, since
//! who turns the head looks at the cells after the seal.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker |
//! |---|---|---|---|
//! | R1 head, load by a charge or a look | acquire | R2 | cells older than the head: a count is taken for 0 and never expires from the head, or is missed |
//! | R2 head, exchange | release | R1 | as R1. Cells are read only after an R1 that follows the last exchange |
//! | R3 cell, load | acquire | R4 | the head may be read as before the turn that wrote the cell, again and again |
//! | R4 cell, exchange | release | R3 | as R3 |
//! | R5 cell, load before an exchange; head, load by a reset | relaxed | none: what a cell names only grows, and an exchange of the head decides | - |

use alloc::{boxed::Box, vec::Vec};

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

use super::CounterError;
use super::span::{Span, Status, Word};

/// The units of the last window, whatever the limit.
#[derive(Debug)]
pub(super) struct Ring {
    span: Span,
    head: CachePadded<AtomicU64>,
    cells: Box<[AtomicU64]>,
}

/// The units that count at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// The sub-window of the instant, or the head's if that is later.
    pub(super) index: u64,
    pub(super) units: u64,
    /// The sub-window of the newest units.
    newest: u64,
}

impl Usage {
    /// How long after `now` nothing counts any more.
    #[inline]
    pub(super) fn reset_after(&self, span: Span, now: u64) -> u64 {
        if self.units == 0 { 0 } else { span.expires_after(self.newest, now) }
    }
}

/// What came of a charge.
#[derive(Clone, Copy, Debug)]
pub(super) enum Charge {
    /// So many units were added; the usage is that after it.
    Made { units: u64, usage: Usage },
    /// Nothing was added. What was asked for fits so many nanoseconds later.
    Refused { usage: Usage, fits_after: u64 },
}

impl Ring {
    pub(super) fn new(span: Span) -> Result<Self, CounterError> {
        let count = span.count() as usize + 1;
        let mut cells = Vec::new();
        cells.try_reserve_exact(count).map_err(|_| CounterError::OutOfMemory)?;
        cells.resize_with(count, AtomicU64::default);
        let head = CachePadded::new(AtomicU64::new(span.pack(Word::open(1, 0))));
        Ok(Self { span, head, cells: cells.into_boxed_slice() })
    }

    #[inline]
    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.cells.len() * size_of::<AtomicU64>()
    }

    /// Adds at `now` what `grant` makes of the units that count, if it grants any; else tells when no
    /// more than `room` units count.
    #[inline]
    pub(super) fn charge(&self, now: u64, room: u64, grant: impl Fn(u64) -> Option<u64>) -> Charge {
        loop {
            let bits = self.head.load(Ordering::Acquire); // R1
            let head = self.span.unpack(bits);
            let Some(usage) = self.usage_at(head, now) else { continue };
            let Some(units) = grant(usage.units) else {
                match self.fits_after(head, usage, room, now) {
                    Some(fits_after) => return Charge::Refused { usage, fits_after },
                    None => continue,
                }
            };
            let after = Word::open(usage.index, usage.units + units);
            if self.is_ready(bits, head, usage.index) && self.exchange(bits, after) {
                let usage = Usage { units: after.units, newest: usage.index, ..usage };
                return Charge::Made { units, usage };
            }
        }
    }

    /// The units that count at `now`.
    pub(super) fn usage(&self, now: u64) -> Usage {
        loop {
            let head = self.span.unpack(self.head.load(Ordering::Acquire)); // R1
            if let Some(usage) = self.usage_at(head, now) {
                return usage;
            }
        }
    }

    /// Makes nothing count any more.
    pub(super) fn reset(&self, now: u64) {
        loop {
            let bits = self.head.load(Ordering::Relaxed); // R5
            let head = self.span.unpack(bits);
            let status = Status::Resetting;
            let reset = Word { index: self.index_at(head, now), units: 0, status };
            if head == reset || self.exchange(bits, reset) {
                return;
            }
        }
    }

    /// Whether the head can be exchanged for one of the sub-window `index`; if not, one step was
    /// done towards it.
    #[inline]
    fn is_ready(&self, bits: u64, head: Word, index: u64) -> bool {
        match head.status {
            Status::Open if head.index == index => true,
            Status::Open => {
                self.exchange(bits, Word { status: Status::Sealed, ..head });
                false
            }
            Status::Sealed => self.record(head),
            Status::Resetting => {
                self.empty(head.index);
                self.exchange(bits, Word { status: Status::Open, ..head });
                false
            }
        }
    }

    /// The sub-window in which a charge at `now` counts.
    #[inline]
    fn index_at(&self, head: Word, now: u64) -> u64 {
        // Who sealed the head read a time at which the next sub-window had begun.
        let least = head.index + u64::from(head.status == Status::Sealed);
        if self.span.is_over(least, now) { self.span.index(now) } else { least }
    }

    /// What counts at `now`; `None` when the head has moved on.
    #[inline]
    fn usage_at(&self, head: Word, now: u64) -> Option<Usage> {
        let index = self.index_at(head, now);
        let units = if index == head.index { head.units } else { self.units_at(head, index)? };
        Some(Usage { index, units, newest: head.index })
    }

    /// What is left of the head's units at a later sub-window; `None` when the head has moved on.
    #[cold]
    fn units_at(&self, head: Word, index: u64) -> Option<u64> {
        let (oldest, still) = (self.span.oldest(head.index), self.span.oldest(index));
        if still > head.index {
            return Some(0);
        }
        // Saturates where the head is being reset and its cells are not empty yet.
        Some(head.units.saturating_sub(self.sum(oldest, still)?))
    }

    /// The counts of the sub-windows from `first` to before `end`.
    fn sum(&self, first: u64, end: u64) -> Option<u64> {
        let mut sum = 0;
        for index in first..end {
            sum += self.units_of(index)?;
        }
        Some(sum)
    }

    /// The count of a past sub-window; `None` when its cell has been taken by a later one.
    fn units_of(&self, index: u64) -> Option<u64> {
        let cell = self.span.unpack(self.cell(index).load(Ordering::Acquire)); // R3
        match cell.index.cmp(&index) {
            // Nothing was charged in it.
            core::cmp::Ordering::Less => Some(0),
            core::cmp::Ordering::Equal => Some(cell.units),
            core::cmp::Ordering::Greater => None,
        }
    }

    fn cell(&self, index: u64) -> &AtomicU64 {
        &self.cells[index as usize % self.cells.len()]
    }

    /// How long after `now` at most `room` units count; `None` when the head has moved on.
    #[cold]
    fn fits_after(&self, head: Word, usage: Usage, room: u64, now: u64) -> Option<u64> {
        let mut left = usage.units;
        for index in self.span.oldest(usage.index)..head.index {
            if left <= room {
                break;
            }
            left = left.saturating_sub(self.units_of(index)?);
            if left <= room {
                return Some(self.span.expires_after(index, now));
            }
        }
        Some(self.span.expires_after(head.index, now))
    }

    /// Records the count of a sealed head; false when the head has moved on.
    #[cold]
    fn record(&self, head: Word) -> bool {
        let Some(past) = self.sum(self.span.oldest(head.index), head.index) else { return false };
        self.name(Word::open(head.index, head.units.saturating_sub(past)));
        true
    }

    /// Empties the cells of the window before `index`.
    #[cold]
    fn empty(&self, index: u64) {
        for index in self.span.oldest(index)..index {
            self.name_anew(Word::open(index, 0));
        }
    }

    /// Lets a cell name the sub-window, unless it names that or a later one.
    fn name(&self, word: Word) {
        self.write(word, |seen| seen.index < word.index);
    }

    /// As `name`, also where the cell names the sub-window with another count.
    fn name_anew(&self, word: Word) {
        self.write(word, |seen| seen.index <= word.index && seen != word);
    }

    fn write(&self, word: Word, wanted: impl Fn(Word) -> bool) {
        let cell = self.cell(word.index);
        let mut seen = cell.load(Ordering::Relaxed); // R5
        while wanted(self.span.unpack(seen)) {
            let new = self.span.pack(word);
            // R4
            match cell.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    #[inline]
    fn exchange(&self, bits: u64, new: Word) -> bool {
        let new = self.span.pack(new);
        // R2
        self.head.compare_exchange(bits, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
