//! The state of a sub-window counter: a head that every charge updates, and the counts of the
//! sub-windows before it.
//!
//! # Protocol
//! The *head* holds the latest sub-window `i` in which anything was charged, and the units of `i`
//! and the N sub-windows before it. A charge in `i` is one compare-and-swap of the head: nothing
//! else changes what counts, so exactly one thread takes the last unit and nothing is rolled back.
//!
//! A *cell* holds the count of a past sub-window. There are N + 1 cells; a sub-window uses the one
//! at its index modulo N + 1. The count of `i` itself is what the head holds beyond the cells. To
//! begin a later sub-window `j` (the tests call this a turn):
//! 1. *Seal* the head: nothing is charged to `i` from then on, so its count is final.
//! 2. *Record* that count in the cell of `i`. Every thread that does so writes the same value, and
//!    only over a cell that names an earlier sub-window.
//! 3. *Advance* the head to `j`, less what has expired by then, and charge in the same step.
//!
//! Any thread that finds a step done can do the next one from the words alone, so a thread that
//! stalls between two steps blocks no other. The index of the head never decreases, and a sealed
//! head never recurs, so an advance prepared for another head fails.
//!
//! Units are given back by the index of the sub-window in which they were charged. While that is
//! the head's, one exchange lowers the head. Once it is past, its count stays, and a second row of
//! cells, the *returns*, counts what was given back of it; so an advance and a give-back never
//! conflict. What counts is what the head holds, less the returns of the window. No unit is
//! returned both ways: returns are written only after the head was seen sealed or beyond. A reader
//! that misses a return counts too much, never too little. Returned units occupy the head until
//! they expire, so returns count only up to the *spare*, the capacity of a word beyond the limit:
//! then usage within the limit always fits the word.
//!
//! A reset installs a head with no units in the state *resetting*. The next charge empties the
//! cells of the window by naming them with a count of 0 (so that the step of a late recorder
//! fails), then their returns, then opens the head. A give-back reads the cell of the returns
//! before the count, so it fails or finds the count of 0. Cells of counts change in no other way,
//! and returns only grow, so a reader need not read the head again: a cell that names a later
//! sub-window than the expected one shows that the head has moved on.
//!
//! ABA: a head that was reset and charged to the same units again can be mistaken for the old one
//! only by a charge that depends on the units alone, since an advance reads the cells after the
//! seal. A charge that was admitted because of returns from before the reset counts as made before
//! the reset, which erased it. The same holds for a head that was lowered and charged again.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | R1 head, load, except by a reset | acquire | R2 | cells are older than the head: a count is read as 0 and never expires from the head, or is missed | `ring-head-load-relaxed` |
//! | R2 head, exchange | release | R1 | as R1. Cells are read only after an R1 that follows the last exchange | `ring-head-relaxed` |
//! | R5 latest return | relaxed | none: a reader that misses it counts what was given back | - | - |
//! | R6 head, load by a reset | relaxed | none: an exchange of the head decides | - | - |
//! | R7 first used, load and raise | acquire, release | each other | a reader that sees a value published under a later head may take its own head for the latest, and reports too long a wait | - |
//! | R8 head, re-read | relaxed | ordered after R7 by its acquire | as R7 | - |
//!
//! R3 and R4: `cells.rs`.

use alloc::vec::Vec;

use crossbeam_utils::CachePadded;

use crate::base::backoff::Backoff;
use crate::base::sync::{AtomicU64, Ordering};

use super::CounterError;
use super::cells::Cells;
use super::charged::Charged;
use super::span::{CellWord, Span, Status};

/// The units of the last window, independent of the limit.
#[derive(Debug)]
pub(super) struct Ring {
    span: Span,
    /// Returned units of a window beyond this number still count.
    spare: u64,
    front: CachePadded<RingFront>,
    /// Units charged in past sub-windows.
    cells: Cells,
    /// Units given back after their sub-window was past.
    returns: Cells,
}

/// Read by every check.
#[derive(Debug)]
struct RingFront {
    head: AtomicU64,
    /// The latest sub-window that has returns; 0 for none.
    latest_return: AtomicU64,
    /// No past sub-window before this one has units that count under the current head.
    first_used: AtomicU64,
}

/// The units that count at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// The sub-window of the instant, or the head's if that is later.
    pub(super) index: u64,
    pub(super) units: u64,
    /// The same, including what was given back of past sub-windows: what the head holds.
    pub(super) charged: u64,
    /// The sub-window of the newest units, given back or not.
    newest: u64,
}

impl Usage {
    /// How long after `now` until nothing counts.
    #[inline]
    pub(super) fn reset_after(&self, span: Span, now: u64) -> u64 {
        if self.units == 0 { 0 } else { span.expires_after(self.newest, now) }
    }
}

/// The result of a charge.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChargeResult {
    /// `units` were added; `usage` includes them.
    Made { units: u64, usage: Usage },
    /// Nothing was added. The request fits `fits_after` nanoseconds later.
    Refused { usage: Usage, fits_after: u64 },
}

impl Ring {
    /// For limits up to `limit`, which must fit a word.
    pub(super) fn new(span: Span, limit: u64) -> Result<Self, CounterError> {
        let spare = span.most_units() - limit;
        let head = AtomicU64::new(span.pack(CellWord::open(1, 0)));
        let front = CachePadded::new(RingFront {
            head,
            latest_return: AtomicU64::new(0),
            first_used: AtomicU64::new(0),
        });
        Ok(Self { span, spare, front, cells: Cells::new(span)?, returns: Cells::new(span)? })
    }

    #[inline]
    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.cells.bytes() + self.returns.bytes()
    }

    /// Adds at `now` what `grant` returns for the units that count; if it grants nothing, returns
    /// when it will.
    #[inline]
    pub(super) fn charge(&self, now: u64, grant: impl Fn(&Usage) -> Option<u64>) -> ChargeResult {
        let mut backoff = Backoff::new();
        loop {
            let bits = self.front.head.load(Ordering::Acquire); // R1
            let head = self.span.unpack(bits);
            let Some(usage) = self.usage_at(head, now) else { continue };
            let Some(units) = grant(&usage) else {
                match self.fits_after(head, usage, now, |usage| grant(usage).is_some()) {
                    Some(fits_after) => return ChargeResult::Refused { usage, fits_after },
                    None => continue,
                }
            };
            let after = CellWord::open(usage.index, usage.charged + units);
            if !self.is_ready(bits, head, usage.index) {
                continue;
            }
            if self.exchange(bits, after) {
                let (counted, charged) = (usage.units + units, after.units);
                let usage = Usage { units: counted, charged, newest: usage.index, ..usage };
                return ChargeResult::Made { units, usage };
            }
            backoff = backoff.pause();
        }
    }

    /// What counts at `now`, and how long after `now` until `fits` holds: 0 if it does.
    pub(super) fn peek_n(&self, now: u64, fits: impl Fn(&Usage) -> bool) -> (Usage, u64) {
        loop {
            let head = self.span.unpack(self.front.head.load(Ordering::Acquire)); // R1
            let Some(usage) = self.usage_at(head, now) else { continue };
            if fits(&usage) {
                return (usage, 0);
            }
            if let Some(fits_after) = self.fits_after(head, usage, now, &fits) {
                return (usage, fits_after);
            }
        }
    }

    /// The units that count at `now`, by sub-window, in order. O(N).
    pub(super) fn counted(&self, now: u64) -> Vec<Charged> {
        loop {
            let head = self.span.unpack(self.front.head.load(Ordering::Acquire)); // R1
            if let Some(counted) = self.counted_by(head, now) {
                return counted;
            }
        }
    }

    /// Gives back units that were charged in the sub-window `index`, as far as they count.
    pub(super) fn give_back(&self, index: u64, units: u64) {
        let mut backoff = Backoff::new();
        loop {
            let bits = self.front.head.load(Ordering::Acquire); // R1
            let head = self.span.unpack(bits);
            let is_past = match head.status {
                _ if head.index > index => true,
                Status::Open => {
                    // Units charged before a reset may exceed what is there.
                    let less = CellWord { units: head.units.saturating_sub(units), ..head };
                    if self.exchange(bits, less) {
                        return;
                    }
                    backoff = backoff.pause();
                    false
                }
                Status::Sealed => self.record(head),
                Status::Resetting => return,
            };
            if is_past {
                return self.give_back_past(index, units);
            }
        }
    }

    fn give_back_past(&self, index: u64, units: u64) {
        self.front.latest_return.fetch_max(index, Ordering::Relaxed); // R5
        // A later sub-window that took the cell of the returns has also taken that of the count.
        self.returns.add(index, units, || self.cells.units_of(index));
    }

    /// Erases everything that counts.
    pub(super) fn reset(&self, now: u64) {
        let mut backoff = Backoff::new();
        loop {
            let bits = self.front.head.load(Ordering::Relaxed); // R6
            let head = self.span.unpack(bits);
            let status = Status::Resetting;
            let reset = CellWord { index: self.index_at(head, now), units: 0, status };
            if head == reset || self.exchange(bits, reset) {
                return;
            }
            backoff = backoff.pause();
        }
    }

    /// Whether the head can be exchanged for one of the sub-window `index`; if not, one step
    /// towards it was taken.
    #[inline]
    fn is_ready(&self, bits: u64, head: CellWord, index: u64) -> bool {
        match head.status {
            Status::Open if head.index == index => true,
            Status::Open => {
                self.exchange(bits, CellWord { status: Status::Sealed, ..head });
                false
            }
            Status::Sealed => self.record(head),
            Status::Resetting => {
                self.empty(head.index);
                self.exchange(bits, CellWord { status: Status::Open, ..head });
                false
            }
        }
    }

    /// The sub-window in which a charge at `now` counts.
    #[inline]
    fn index_at(&self, head: CellWord, now: u64) -> u64 {
        // The thread that sealed the head read a time at which the next sub-window had begun.
        let least = head.index + u64::from(head.status == Status::Sealed);
        if self.span.is_over(least, now) { self.span.index(now) } else { least }
    }

    /// What counts at `now`; `None` when the head has moved on.
    #[inline]
    fn usage_at(&self, head: CellWord, now: u64) -> Option<Usage> {
        let index = self.index_at(head, now);
        let charged = if index == head.index { head.units } else { self.units_at(head, index)? };
        let units = self.less(charged, self.returned(index)?);
        Some(Usage { index, units, charged, newest: head.index })
    }

    /// What was given back of the window before `index`; `None` when the head has moved on.
    #[inline]
    fn returned(&self, index: u64) -> Option<u64> {
        match self.front.latest_return.load(Ordering::Relaxed) {
            0 => Some(0), // R5
            latest => self.sum_returned(latest, index),
        }
    }

    #[cold]
    fn sum_returned(&self, latest: u64, index: u64) -> Option<u64> {
        self.returns.sum(self.span.oldest(index), index.min(latest + 1))
    }

    /// What counts of units some of which were returned. Saturates where the head is being reset.
    #[inline]
    fn less(&self, charged: u64, returned: u64) -> u64 {
        charged.saturating_sub(returned.min(self.spare))
    }

    /// The head's units that still count at a later sub-window; `None` when the head has moved on.
    #[cold]
    fn units_at(&self, head: CellWord, index: u64) -> Option<u64> {
        let (oldest, still) = (self.span.oldest(head.index), self.span.oldest(index));
        if still > head.index {
            return Some(0);
        }
        // Saturates where the head is being reset and its cells are not empty yet.
        Some(head.units.saturating_sub(self.cells.sum(oldest, still)?))
    }

    /// How long after `now` enough of the usage has expired for `fits` to hold; `None` when the
    /// head has moved on.
    #[cold]
    fn fits_after(
        &self,
        head: CellWord,
        mut usage: Usage,
        now: u64,
        fits: impl Fn(&Usage) -> bool,
    ) -> Option<u64> {
        let mut returned = self.returned(usage.index)?;
        let oldest = self.span.oldest(usage.index);
        let first = if returned > 0 { oldest } else { self.first_used(head)?.max(oldest) };
        for (index, units) in self.cells.counts(first, head.index) {
            let units = units?;
            if returned > 0 {
                returned = returned.saturating_sub(self.returns.units_of(index)?);
            }
            usage.charged = usage.charged.saturating_sub(units);
            usage.units = self.less(usage.charged, returned);
            if fits(&usage) {
                return Some(self.span.expires_after(index, now));
            }
        }
        Some(self.span.expires_after(head.index, now))
    }

    /// The first past sub-window that counts under this head and in which something was charged, or
    /// the head's; `None` when the head has moved on.
    ///
    /// The result is cached: nothing is charged in a sub-window once it is past. So denials skip
    /// each empty one once, and write only then.
    fn first_used(&self, head: CellWord) -> Option<u64> {
        let known = self.front.first_used.load(Ordering::Acquire); // R7
        let oldest = self.span.oldest(head.index);
        let from = known.max(oldest);
        let found = self.cells.counts(from, head.index).find(|(_, units)| *units != Some(0));
        let first = found.map_or(head.index.max(from), |(index, _)| index);
        if first > from {
            self.front.first_used.fetch_max(first, Ordering::Release); // R7
        }
        // A value from a later head omits sub-windows that count for this one.
        let is_latest =
            || self.span.unpack(self.front.head.load(Ordering::Relaxed)).index == head.index; // R8
        (known <= oldest || is_latest()).then_some(first)
    }

    /// The units that count at `now`, as the decrease at each expiry of a sub-window; `None` when
    /// the head has moved on.
    fn counted_by(&self, head: CellWord, now: u64) -> Option<Vec<Charged>> {
        let usage = self.usage_at(head, now)?;
        let (mut charged, mut returned) = (usage.charged, self.returned(usage.index)?);
        let (mut units, mut counted) = (usage.units, Vec::new());
        for at in self.span.oldest(usage.index)..head.index {
            charged = charged.saturating_sub(self.cells.units_of(at)?);
            returned = returned.saturating_sub(self.returns.units_of(at)?);
            let left = self.less(charged, returned).min(units);
            counted.push(Charged { at, units: units - left });
            units = left;
        }
        counted.push(Charged { at: head.index, units });
        counted.retain(|charged| charged.units > 0);
        Some(counted)
    }

    /// Records the count of a sealed head; false when the head has moved on.
    #[cold]
    fn record(&self, head: CellWord) -> bool {
        let Some(past) = self.cells.sum(self.span.oldest(head.index), head.index) else {
            return false;
        };
        self.cells.name(CellWord::open(head.index, head.units.saturating_sub(past)));
        true
    }

    /// Empties the cells of the window before `index`.
    #[cold]
    fn empty(&self, index: u64) {
        for index in self.span.oldest(index)..index {
            self.cells.name_anew(CellWord::open(index, 0));
            self.returns.name_anew(CellWord::open(index, 0));
        }
    }

    #[inline]
    fn exchange(&self, bits: u64, new: CellWord) -> bool {
        let new = self.span.pack(new);
        // R2
        self.front.head.compare_exchange(bits, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
