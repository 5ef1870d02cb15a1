//! A sub-window counter whose units are handed out in blocks, for one very hot key.
//!
//! A block's units are charged to the ring as a whole, in one sub-window, and spent from a word of its shard that
//! names the sub-window. A unit is spent only at a reading that is not after that sub-window, so it counts
//! for as long as one that is charged on its own: what is spent never breaks the ring's limit. What is left
//! of a block when its sub-window is over is void.
//!
//! # Orderings
//! All accesses to a shard are relaxed: its word is all there is to a block, it means the same whenever it
//! has the same value, and it guards no other memory.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::lease::Seat;
use crate::sync::{AtomicU64, Ordering};
use crate::tsc::TscClock;

use super::CounterError;
use super::builder::ShardedCounterBuilder;
use super::ring::Ring;
use super::span::Word;
use super::sub_window::SubWindows;

/// The most shards of a [`ShardedCounter`].
pub const MAX_SHARDS: usize = 1024;

/// A [`SubWindowCounter`](crate::SubWindowCounter) for a key that all cores check at once: threads take
/// blocks of units and spend them on a cache line of their own. A thread that meets another one there moves to the next.
///
/// # When to use it
/// For one limit of millions of units a window that several cores use up. With few units a block it is no faster than a
/// `SubWindowCounter`.
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval as long as the window, exactly as by the
///   `SubWindowCounter`; all it says about `now` holds here too.
/// * The error is on the other side. Units of a block that are not spent in the sub-window in which they were
///   handed out count as used: at most `block - 1` a shard, and as many for each thread that is just taking a block, a
///   sub-window. A window touches N + 1 sub-windows. With the default block that is at most about 1/16 of the limit a
///   window.
/// * A cost of 1 is denied only when no shard has a unit left, but for blocks that another thread is just taking. A higher
///   cost is paid by the counter or by one shard as a whole, so it can be denied while units lie in parts.
/// * Lock-free: a thread that stops anywhere keeps nobody from deciding; at worst a block it has taken is lost.
/// * A [`Reservation`](crate::Reservation) and a [`LimitSet`](crate::LimitSet) give back to the counter what they took from a
///   block, exactly as the `SubWindowCounter` does; the shards keep what they have.
/// * [`Decision::remaining`] of an admitted check says what is left of the block at least; that of a denied one
///   and of a peek counts the shards, one after the other.
///
/// [`ShardedCounter::snapshot`] keeps over a restart what counts.
///
/// # Cost
/// 16 bytes for each of N + 1 sub-windows, 128 bytes a shard, and on x86-64 768 bytes with the default clock. A
/// check is O(1) while its shard has units, and one in `block` is that of a `SubWindowCounter`, so O(N) while units lie in the
/// window that were given back late; a denial is O(N + shards) and writes what one of a
/// `SubWindowCounter` does.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::{ManualClock, ShardedCounter};
///
/// let clock = ManualClock::new();
/// let counter = ShardedCounter::with_clock(1_000_000, Duration::from_secs(1), &clock)?;
/// assert!(counter.check().is_allowed());
/// assert_eq!(counter.peek().remaining(), 999_999);
/// # Ok::<(), tidegate_engine::CounterError>(())
/// ```
#[derive(Debug)]
pub struct ShardedCounter<C = TscClock> {
    pub(super) shards: Shards,
    pub(super) clock: C,
}

impl ShardedCounter {
    /// At most `limit` units each `window`, on the time-stamp counter: [`DEFAULT_SUB_WINDOWS`](crate::DEFAULT_SUB_WINDOWS),
    /// a shard for each thread that can run at once, and blocks of which at most 1/16 of the limit can be left unused
    /// a window. Blocks for up to 200 ms where it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// As [`ShardedCounterBuilder::build`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, CounterError> {
        Self::builder(limit, window).build()
    }

    /// Starts building a counter of at most `limit` units each `window`, on the time-stamp counter unless told otherwise.
    pub fn builder(limit: u64, window: Duration) -> ShardedCounterBuilder {
        ShardedCounterBuilder::of(limit, window)
    }
}

impl<C: Clock> ShardedCounter<C> {
    /// As [`ShardedCounter::new`], on another clock.
    ///
    /// # Errors
    /// As [`ShardedCounterBuilder::build`].
    pub fn with_clock(limit: u64, window: Duration, clock: C) -> Result<Self, CounterError> {
        ShardedCounter::builder(limit, window).clock(clock).build()
    }

    /// Asks for one unit.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, all or none. A cost of 0 is a
    /// [`ShardedCounter::peek`].
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`ShardedCounter::check_n`], at a time the caller gives, on the scale of the counter's clock.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        let (seat, shard) = self.seat();
        self.shards.check(shard, cost, self.shards.source.instant(now), || seat.move_on())
    }

    /// What a check would find, without charging anything: denied where even a cost of 1 has to wait for debt beyond
    /// the limit. Units in other shards count as left. O(N + shards).
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Charges `cost` units whether or not they fit; see
    /// [`SubWindowCounter::charge`](crate::SubWindowCounter::charge). Blocks that threads have are not taken
    /// back.
    pub fn charge(&self, cost: u64) -> Decision {
        let now = self.now();
        let _ = self.shards.source.charge(cost, now);
        self.shards.peek(now)
    }

    /// Forgets what has been admitted, and makes blocks void. A block that another thread takes during the call may be
    /// spent on top of the limit that begins anew. O(shards).
    pub fn reset(&self) {
        self.shards.empty();
        self.shards.source.ring.reset(self.now());
        self.shards.empty();
    }

    /// The units of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.shards.source.limit
    }

    /// The length of a window, as it is enforced: its sub-windows are rounded up to a nanosecond.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.shards.source.ring.span().window()
    }

    /// Into how many parts the window is divided.
    #[must_use]
    pub fn sub_windows(&self) -> u64 {
        self.shards.source.ring.span().count()
    }

    /// The units a thread takes at once.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.shards.block
    }

    /// The clock that is read.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all of them taken when the counter is made.
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
pub(super) struct Shards {
    pub(super) source: SubWindows,
    /// A power of two of them.
    words: Box<[CachePadded<AtomicU64>]>,
    block: u64,
}

impl Shards {
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
                    self.stock(shard, Word::open(taken.usage.index, rest));
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

    /// Pays from whichever shard has the units, of all those that are `held`.
    fn search(&self, cost: u64, held: u64, now: u64) -> Option<Word> {
        if held < cost {
            return None;
        }
        (0..self.words.len()).find_map(|shard| self.spend(shard, cost, now, || ()))
    }

    /// What is left of the block after `cost` units of it.
    #[inline]
    fn spend(&self, shard: usize, cost: u64, now: u64, crowded: impl Fn()) -> Option<Word> {
        let span = self.source.ring.span();
        let word = &self.words[shard];
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let block = self.alive(seen, now)?;
            let left = Word { units: block.units.checked_sub(cost)?, ..block };
            let new = span.pack(left);
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(left),
                Err(current) => {
                    crowded();
                    seen = current;
                }
            }
        }
    }

    /// Puts units into a shard, beside those of the same sub-window and in place of earlier ones.
    fn stock(&self, shard: usize, block: Word) {
        let span = self.source.ring.span();
        let word = &self.words[shard];
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let found = span.unpack(seen);
            if found.index > block.index {
                return;
            }
            let beside = if found.index == block.index { found.units } else { 0 };
            // Resets beside each other can leave more here than a word has bits for.
            let units = beside.saturating_add(block.units).min(span.most_units());
            let new = span.pack(Word::open(block.index, units));
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    pub(super) fn peek(&self, now: u64) -> Decision {
        self.look(0, now)
    }

    /// What a check of `cost` would find. A peek is denied where a cost of 1 has to wait for debt.
    pub(super) fn look(&self, cost: u64, now: u64) -> Decision {
        let answer = self.with_held(self.source.look(cost, now), self.held(now));
        let holds = |word| self.units_in(word, now) >= cost.max(1);
        if self.words.iter().any(|word| holds(word)) { answer.admitted() } else { answer }
    }

    /// An answer of the source, with what the shards hold.
    fn with_held(&self, answer: Decision, held: u64) -> Decision {
        let left = answer.remaining().saturating_add(held);
        answer.with_remaining(left.min(self.source.limit))
    }

    /// The units in all shards, one looked at after the other.
    fn held(&self, now: u64) -> u64 {
        self.words.iter().map(|word| self.units_in(word, now)).sum()
    }

    fn units_in(&self, word: &AtomicU64, now: u64) -> u64 {
        self.alive(word.load(Ordering::Relaxed), now).map_or(0, |block| block.units)
    }

    #[inline]
    fn paid(&self, left: Word, now: u64) -> Decision {
        let reset_after = self.source.ring.span().expires_after(left.index, now);
        Decision::allowed(self.source.limit, left.units, reset_after)
    }

    /// The block in a shard, while its sub-window is not over.
    #[inline]
    fn alive(&self, bits: u64, now: u64) -> Option<Word> {
        let span = self.source.ring.span();
        let block = span.unpack(bits);
        (!span.is_over(block.index, now)).then_some(block)
    }

    fn empty(&self) {
        for word in &self.words {
            let mut seen = word.load(Ordering::Relaxed);
            // 0 is a block of no sub-window.
            while let Err(current) =
                word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed)
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
        let source = SubWindows::new(4, Duration::from_mins(1), 60).expect("in range");
        let shards = Shards::new(source, 2, 2).expect("in range");
        let check = |shard, cost| shards.check(shard, cost, 0, || ());
        assert!(check(0, 1).is_allowed());
        assert!(check(1, 1).is_allowed());

        let in_parts = check(0, 2);
        assert!(!in_parts.is_allowed());
        assert_eq!(in_parts.remaining(), 2);
        assert!(check(0, 1).is_allowed());
        assert!(check(0, 1).is_allowed(), "the last unit lies in shard 1");
        assert!(!check(0, 1).is_allowed());
    }
}
