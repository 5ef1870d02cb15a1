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
//! Units are given back by the number of the sub-window in which they were charged. While that is the head's, one
//! exchange lowers the head. Once it is past, its count stays, and a second row of cells, the *returns*, counts what
//! of it was given back; so a turn and a give-back do not meet. What counts is what the head holds, less the returns
//! of the window. The head names no sub-window to which units can still be returned in both ways: returns are
//! written only after it was seen sealed or beyond. A reader that misses a return counts too much, never too little.
//! Returned units keep their place in the head until they expire. So returns are believed up to the *spare*, what a word
//! holds beyond the limit: then what keeps to the limit fits the word.
//!
//! A reset puts a head of no units in the state *resetting*; whoever charges next empties the cells of
//! the window by naming them with a count of 0 (so that a late recorder's step fails), then their returns, then opens
//! the head. Who returns units reads the cell of the returns before the count, so it fails or finds the count of 0.
//! Cells of counts are not changed otherwise, and returns only grow, so a reader needs no second look at the head: a cell
//! that names a later sub-window than the one looked for says that the head has moved on. A head that was reset
//! and charged to the same units again is met only by charges that need the units alone, since
//! who turns the head looks at the cells after the seal; one that was admitted for the sake of returns from before the
//! reset counts as made before the reset, which forgot it. The same holds of a head that was lowered and charged again.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | R1 head, load, but by a reset | acquire | R2 | cells older than the head: a count is taken for 0 and never expires from the head, or is missed | `ring-head-load-relaxed` |
//! | R2 head, exchange | release | R1 | as R1. Cells are read only after an R1 that follows the last exchange | `ring-head-relaxed` |
//! | R5 latest return | relaxed | none: who misses it counts what was given back | - | - |
//! | R6 head, load by a reset | relaxed | none: an exchange of the head decides | - | - |
//! | R7 first used, load and raise | acquire, release | each other | who finds what a later head made known may take its own head for the latest, and tells too long a wait | - |
//!
//! R3 and R4 are in `cells.rs`.

use alloc::vec::Vec;

use crossbeam_utils::CachePadded;

use crate::backoff::Backoff;
use crate::sync::{AtomicU64, Ordering};

use super::CounterError;
use super::cells::Cells;
use super::restore::Charged;
use super::span::{Span, Status, Word};

/// The units of the last window, whatever the limit.
#[derive(Debug)]
pub(super) struct Ring {
    span: Span,
    /// Returns of a window beyond this count as if they had not been given back.
    spare: u64,
    front: CachePadded<Front>,
    /// What was charged in past sub-windows.
    cells: Cells,
    /// What of it was given back when they were past.
    returns: Cells,
}

/// What each check reads.
#[derive(Debug)]
struct Front {
    head: AtomicU64,
    /// The latest sub-window that has returns; 0 for none.
    latest_return: AtomicU64,
    /// In past sub-windows before this one nothing was charged that counts for anybody with the present head.
    first_used: AtomicU64,
}

/// The units that count at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// The sub-window of the instant, or the head's if that is later.
    pub(super) index: u64,
    pub(super) units: u64,
    /// The same with what was given back of past sub-windows: what the head holds.
    pub(super) charged: u64,
    /// The sub-window of the newest units, given back or not.
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
    /// For limits of up to `limit`, which a word holds.
    pub(super) fn new(span: Span, limit: u64) -> Result<Self, CounterError> {
        let spare = span.most_units() - limit;
        let head = AtomicU64::new(span.pack(Word::open(1, 0)));
        let front = CachePadded::new(Front {
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

    /// Adds at `now` what `grant` makes of the units that count, if it grants any; else tells when it does.
    #[inline]
    pub(super) fn charge(&self, now: u64, grant: impl Fn(&Usage) -> Option<u64>) -> Charge {
        let mut backoff = Backoff::new();
        loop {
            let bits = self.front.head.load(Ordering::Acquire); // R1
            let head = self.span.unpack(bits);
            let Some(usage) = self.usage_at(head, now) else { continue };
            let Some(units) = grant(&usage) else {
                match self.fits_after(head, usage, now, |usage| grant(usage).is_some()) {
                    Some(fits_after) => return Charge::Refused { usage, fits_after },
                    None => continue,
                }
            };
            let after = Word::open(usage.index, usage.charged + units);
            if !self.is_ready(bits, head, usage.index) {
                continue;
            }
            if self.exchange(bits, after) {
                let (counted, charged) = (usage.units + units, after.units);
                let usage = Usage { units: counted, charged, newest: usage.index, ..usage };
                return Charge::Made { units, usage };
            }
            backoff = backoff.pause();
        }
    }

    /// What counts at `now`, and how long after `now` it fits: 0 if it does.
    pub(super) fn look(&self, now: u64, fits: impl Fn(&Usage) -> bool) -> (Usage, u64) {
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

    /// The units that count at `now`, by their sub-windows, in order. O(N).
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
                    // What was charged before a reset may be more than there is.
                    let less = Word { units: head.units.saturating_sub(units), ..head };
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
        // Where a later sub-window has the cell of the returns, it has that of the count.
        self.returns.add(index, units, || self.cells.units_of(index));
    }

    /// Makes nothing count any more.
    pub(super) fn reset(&self, now: u64) {
        let mut backoff = Backoff::new();
        loop {
            let bits = self.front.head.load(Ordering::Relaxed); // R6
            let head = self.span.unpack(bits);
            let status = Status::Resetting;
            let reset = Word { index: self.index_at(head, now), units: 0, status };
            if head == reset || self.exchange(bits, reset) {
                return;
            }
            backoff = backoff.pause();
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

    /// What is left of the head's units at a later sub-window; `None` when the head has moved on.
    #[cold]
    fn units_at(&self, head: Word, index: u64) -> Option<u64> {
        let (oldest, still) = (self.span.oldest(head.index), self.span.oldest(index));
        if still > head.index {
            return Some(0);
        }
        // Saturates where the head is being reset and its cells are not empty yet.
        Some(head.units.saturating_sub(self.cells.sum(oldest, still)?))
    }

    /// How long after `now` what is left of the usage lets it fit; `None` when the head has moved on.
    #[cold]
    fn fits_after(
        &self,
        head: Word,
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

    /// The first past sub-window that counts for anybody with this head and in which something was charged, or the head's; `None`
    /// when the head has moved on.
    ///
    /// What is found is remembered: nothing is charged in a sub-window once it is past. So a denial passes each empty one once,
    /// and writes only then.
    fn first_used(&self, head: Word) -> Option<u64> {
        let known = self.front.first_used.load(Ordering::Acquire); // R7
        let oldest = self.span.oldest(head.index);
        let from = known.max(oldest);
        let found = self.cells.counts(from, head.index).find(|(_, units)| *units != Some(0));
        let first = found.map_or(head.index.max(from), |(index, _)| index);
        if first > from {
            self.front.first_used.fetch_max(first, Ordering::Release); // R7
        }
        // What is known from a later head leaves out what counts for this one.
        let is_latest =
            || self.span.unpack(self.front.head.load(Ordering::Relaxed)).index == head.index;
        (known <= oldest || is_latest()).then_some(first)
    }

    /// The units that count at `now`, by what is left of them as their sub-windows expire; `None` when the head has moved on.
    fn counted_by(&self, head: Word, now: u64) -> Option<Vec<Charged>> {
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
    fn record(&self, head: Word) -> bool {
        let Some(past) = self.cells.sum(self.span.oldest(head.index), head.index) else {
            return false;
        };
        self.cells.name(Word::open(head.index, head.units.saturating_sub(past)));
        true
    }

    /// Empties the cells of the window before `index`.
    #[cold]
    fn empty(&self, index: u64) {
        for index in self.span.oldest(index)..index {
            self.cells.name_anew(Word::open(index, 0));
            self.returns.name_anew(Word::open(index, 0));
        }
    }

    #[inline]
    fn exchange(&self, bits: u64, new: Word) -> bool {
        let new = self.span.pack(new);
        // R2
        self.front.head.compare_exchange(bits, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
