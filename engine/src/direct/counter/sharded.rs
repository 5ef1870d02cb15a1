//! A sub-window counter whose units are handed out in blocks, for one very hot key.
//!
//! A block's units are charged to the ring as a whole, in one sub-window, and spent from a word of
//! its shard that holds the sub-window's index. A unit is spent only at a reading no later than
//! that sub-window, so it counts for at least as long as one charged alone: spending never breaks
//! the ring's limit. Units left when the sub-window ends are void.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | B1 word of a shard, all accesses | relaxed | none: it is the whole state of a block, equal values always mean the same, and it guards no other memory | - | `block-word-stored` |

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::base::decision::Decision;
use crate::base::stripe::Seat;
use crate::base::sync::{AtomicU64, Ordering};
use crate::time::TscClock;
use crate::time::{Clock, Timestamp};

use super::CounterError;
use super::ring::Ring;
use super::span::CellWord;
use super::sub_window::SubWindows;

/// Maximum number of shards of a [`ShardedCounter`].
pub const MAX_SHARDS: usize = 1024;

/// A [`SubWindowCounter`](crate::counter::SubWindowCounter) for a key that all cores check at once:
/// each thread takes blocks of units and spends them from a shard on a separate cache line. A
/// thread that collides with another one there moves to the next shard.
///
/// # When to use it
/// For one limit of millions of units per window that several cores use up. With few units per
/// block it is no faster than a `SubWindowCounter`.
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval as long as the window, exactly as with a
///   `SubWindowCounter`; its guarantees about `now` hold here too.
/// * The error is on the other side: units of a block that are not spent in the sub-window in which
///   they were handed out count as used. Per sub-window that is at most `block - 1` for each shard
///   and for each thread that is taking a block. A window overlaps N + 1 sub-windows. With the
///   default block this is at most about 1/16 of the limit per window.
/// * A cost of 1 is denied only when no shard has a unit left, except for blocks that another
///   thread is taking. A higher cost is paid as a whole by the counter or by one shard, so it can
///   be denied while enough units are spread over several shards.
/// * Lock-free: a thread that stalls anywhere never blocks the others; at worst the block it has
///   taken is lost.
/// * A [`Reservation`](crate::Reservation) and a [`LimitSet`](crate::LimitSet) give units they took
///   from a block back to the counter, exactly as with a `SubWindowCounter`; the shards are
///   unchanged.
/// * [`Decision::remaining`] of an admitted check is at least what is left of the block; for a
///   denied check and a peek it includes the shards, read one after another.
///
/// [`ShardedCounter::snapshot`] preserves the counted units across a restart.
///
/// # Cost
/// 16 bytes for each of N + 1 sub-windows, 128 bytes per shard, plus 768 bytes on x86-64 with the
/// default clock. A check is O(1) while its shard has units; one in `block` costs as much as that
/// of a `SubWindowCounter`, which is O(N) while the window has units that were given back late. A
/// denial is O(N + shards) and writes what a `SubWindowCounter` does.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::counter::ShardedCounter;
/// use tidegate_engine::ManualClock;
///
/// let clock = ManualClock::new();
/// let counter = ShardedCounter::with_clock(1_000_000, Duration::from_secs(1), &clock)?;
/// assert!(counter.check().is_allowed());
/// assert_eq!(counter.peek().remaining(), 999_999);
/// # Ok::<(), tidegate_engine::counter::CounterError>(())
/// ```
#[derive(Debug)]
pub struct ShardedCounter<C = TscClock> {
    pub(super) shards: UnitShards,
    pub(super) clock: C,
}

impl<C: Clock> ShardedCounter<C> {
    /// Takes one unit if it fits.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Takes `cost` units if they fit, all or none. A cost of 0 is a [`ShardedCounter::peek`].
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`ShardedCounter::check_n`], at a time given by the caller, on the scale of the counter's
    /// clock.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        let (seat, shard) = self.seat();
        self.shards.check(shard, cost, self.shards.source.instant(now), || seat.move_on())
    }

    /// The decision of a check that charges nothing: denied if even a cost of 1 has to wait for
    /// debt beyond the limit. `remaining` includes units in all shards. O(N + shards).
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Charges `cost` units whether or not they fit; see
    /// [`SubWindowCounter::charge`](crate::counter::SubWindowCounter::charge). Blocks held in
    /// shards are not taken back.
    pub fn charge(&self, cost: u64) -> Decision {
        let now = self.now();
        let _ = self.shards.source.charge(cost, now);
        self.shards.peek(now)
    }

    /// Erases all units and voids the blocks. A block that another thread takes during the call may
    /// be spent on top of the full limit. O(shards).
    pub fn reset(&self) {
        self.shards.empty();
        self.shards.source.ring.reset(self.now());
        self.shards.empty();
    }

    /// The limit, in units per window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.shards.source.limit
    }

    /// The length of a window as enforced: its sub-windows are rounded up to a nanosecond.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.shards.source.ring.span().window()
    }

    /// The number of sub-windows in a window.
    #[must_use]
    pub fn sub_windows(&self) -> u64 {
        self.shards.source.ring.span().count()
    }

    /// The units of a block: what a thread takes at once.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.shards.block
    }

    /// The counter's clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all allocated at construction.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Ring>()
            + size_of_val(&*self.shards.words)
            + self.shards.source.ring.memory_bytes()
    }

    fn now(&self) -> u64 {
        self.shards.source.instant(self.clock.now())
    }

    /// This thread's seat, and its shard.
    #[inline]
    pub(super) fn seat(&self) -> (Seat, usize) {
        let seat = Seat::here();
        (seat, seat.among(self.shards.words.len()))
    }
}

#[derive(Debug)]
pub(super) struct UnitShards {
    pub(super) source: SubWindows,
    /// A power of two of them.
    words: Box<[CachePadded<AtomicU64>]>,
    block: u64,
}

impl UnitShards {
    pub(super) fn new(source: SubWindows, shards: usize, block: u64) -> Result<Self, CounterError> {
        if shards == 0 || shards > MAX_SHARDS || block == 0 {
            return Err(CounterError::Shards);
        }
        let count = shards.next_power_of_two();
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| CounterError::OutOfMemory)?;
        words.resize_with(count, || CachePadded::new(AtomicU64::new(0)));
        let words = words.into_boxed_slice();
        Ok(Self { source, words, block })
    }

    /// Calls `crowded` when another thread spends from the same shard.
    #[inline]
    pub(super) fn check(&self, shard: usize, cost: u64, now: u64, crowded: impl Fn()) -> Decision {
        if cost == 0 {
            return self.peek(now);
        }
        match self.spend(shard, cost, now, crowded) {
            Some(left) => self.paid(left, now),
            None => self.take_from_source(shard, cost, now).0,
        }
    }

    /// As `check` of a cost above 0, with the sub-window in which the units were charged.
    pub(super) fn take(
        &self,
        shard: usize,
        cost: u64,
        now: u64,
        crowded: impl Fn(),
    ) -> (Decision, Option<u64>) {
        match self.spend(shard, cost, now, crowded) {
            Some(left) => (self.paid(left, now), Some(left.index)),
            None => self.take_from_source(shard, cost, now),
        }
    }

    #[cold]
    fn take_from_source(&self, shard: usize, cost: u64, now: u64) -> (Decision, Option<u64>) {
        match self.source.take(cost, self.block.max(cost), now) {
            Ok(taken) => {
                let rest = taken.units - cost;
                if rest > 0 {
                    self.stock(shard, CellWord::open(taken.usage.index, rest));
                }
                let left = self.source.limit - taken.usage.units + rest;
                let reset_after = taken.usage.reset_after(self.source.ring.span(), now);
                let decision = Decision::allowed(self.source.limit, left, reset_after);
                (decision, Some(taken.usage.index))
            }
            Err(denied) => {
                let held = self.held(now);
                match self.search(cost, held, now) {
                    Some(left) => (self.paid(left, now), Some(left.index)),
                    None => (self.with_held(denied, held), None),
                }
            }
        }
    }

    /// Pays from any shard that has the units; `held` is the sum over all of them.
    fn search(&self, cost: u64, held: u64, now: u64) -> Option<CellWord> {
        if held < cost {
            return None;
        }
        (0..self.words.len()).find_map(|shard| self.spend(shard, cost, now, || ()))
    }

    /// Takes `cost` units from a shard's block, and returns what is left of it.
    #[inline]
    fn spend(&self, shard: usize, cost: u64, now: u64, crowded: impl Fn()) -> Option<CellWord> {
        let span = self.source.ring.span();
        let word = &self.words[shard];
        let mut seen = word.load(Ordering::Relaxed); // B1
        loop {
            let block = self.alive(seen, now)?;
            let left = CellWord { units: block.units.checked_sub(cost)?, ..block };
            let new = span.pack(left);
            // B1
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(left),
                Err(current) => {
                    crowded();
                    seen = current;
                }
            }
        }
    }

    /// Adds units to a shard's block of the same sub-window, or replaces an earlier block.
    fn stock(&self, shard: usize, block: CellWord) {
        let span = self.source.ring.span();
        let word = &self.words[shard];
        let mut seen = word.load(Ordering::Relaxed); // B1
        loop {
            let found = span.unpack(seen);
            if found.index > block.index {
                return;
            }
            let left = if found.index == block.index { found.units } else { 0 };
            // Concurrent resets can leave more here than fits the word.
            let units = left.saturating_add(block.units).min(span.most_units());
            let new = span.pack(CellWord::open(block.index, units));
            // B1
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    pub(super) fn peek(&self, now: u64) -> Decision {
        self.peek_n(0, now)
    }

    /// The decision of a check of `cost` that charges nothing. A peek is denied if a cost of 1 has
    /// to wait for debt.
    pub(super) fn peek_n(&self, cost: u64, now: u64) -> Decision {
        let answer = self.with_held(self.source.peek_n(cost, now), self.held(now));
        let holds = |word| self.units_in(word, now) >= cost.max(1);
        if self.words.iter().any(|word| holds(word)) { answer.admitted() } else { answer }
    }

    /// A decision of the source, plus what the shards hold.
    fn with_held(&self, answer: Decision, held: u64) -> Decision {
        let left = answer.remaining().saturating_add(held);
        answer.with_remaining(left.min(self.source.limit))
    }

    /// The units in all shards, read one after another.
    fn held(&self, now: u64) -> u64 {
        self.words.iter().map(|word| self.units_in(word, now)).sum()
    }

    fn units_in(&self, word: &AtomicU64, now: u64) -> u64 {
        self.alive(word.load(Ordering::Relaxed), now).map_or(0, |block| block.units) // B1
    }

    #[inline]
    fn paid(&self, left: CellWord, now: u64) -> Decision {
        let reset_after = self.source.ring.span().expires_after(left.index, now);
        Decision::allowed(self.source.limit, left.units, reset_after)
    }

    /// The block in a shard, unless its sub-window is over.
    #[inline]
    fn alive(&self, bits: u64, now: u64) -> Option<CellWord> {
        let span = self.source.ring.span();
        let block = span.unpack(bits);
        (!span.is_over(block.index, now)).then_some(block)
    }

    fn empty(&self) {
        for word in &self.words {
            let mut seen = word.load(Ordering::Relaxed); // B1
            // 0 is a block of no sub-window.
            while let Err(current) =
                word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed)
            // B1
            {
                seen = current;
            }
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::*;

    #[test]
    fn units_in_another_shard_are_found_unless_they_lie_in_parts() {
        let source = SubWindows::new(4, Duration::from_secs(60), 60).expect("in range");
        let shards = UnitShards::new(source, 2, 2).expect("in range");
        let check = |shard, cost| shards.check(shard, cost, 0, || ());
        assert!(check(0, 1).is_allowed());
        assert!(check(1, 1).is_allowed());

        let in_parts = check(0, 2);
        assert!(!in_parts.is_allowed());
        assert_eq!(in_parts.remaining(), 2);
        assert!(check(0, 1).is_allowed());
        assert!(check(0, 1).is_allowed(), "the last unit is in shard 1");
        assert!(!check(0, 1).is_allowed());
    }
}
