//! Building a sharded counter.

use core::time::Duration;

use crate::base::source::Source;
use crate::time::Clock;
use crate::time::TscClock;

use super::sharded::{MAX_SHARDS, ShardedCounter, UnitShards};
use super::sub_window::SubWindows;
use super::{CounterError, DEFAULT_SUB_WINDOWS};

/// Default blocks leave at most this share (a divisor) of the limit unused per window.
const UNUSED_SHARE: u64 = 16;

/// Builds a [`ShardedCounter`]; see [`ShardedCounter::builder`].
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::counter::ShardedCounter;
///
/// let window = Duration::from_secs(1);
/// let counter =
///     ShardedCounter::builder(1_000_000, window).sub_windows(20).shards(8).block(64).build()?;
/// assert_eq!((counter.limit(), counter.block()), (1_000_000, 64));
/// # Ok::<(), tidegate_engine::counter::CounterError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ShardedCounterBuilder<C = TscClock> {
    limit: u64,
    window: Duration,
    sub_windows: u64,
    shards: usize,
    /// `None` for the default, which depends on the other settings.
    block: Option<u64>,
    clock: Source<C>,
}

impl ShardedCounter {
    /// At most `limit` units per `window`, on the time-stamp counter, with
    /// [`DEFAULT_SUB_WINDOWS`](crate::counter::DEFAULT_SUB_WINDOWS), one shard for each thread that
    /// can run in parallel, and blocks that leave at most about 1/16 of the limit unused per
    /// window. Blocks the thread for up to 200 ms if it makes the first [`TscClock`] of the
    /// process.
    ///
    /// # Errors
    /// As [`ShardedCounterBuilder::build`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, CounterError> {
        Self::builder(limit, window).build()
    }

    /// Starts building a counter of at most `limit` units per `window`, on the time-stamp counter
    /// unless another clock is set.
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
}

impl ShardedCounterBuilder {
    pub(super) fn of(limit: u64, window: Duration) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = threads.min(MAX_SHARDS);
        let (sub_windows, clock) = (DEFAULT_SUB_WINDOWS, Source::Made(TscClock::new));
        Self { limit, window, sub_windows, shards, block: None, clock }
    }
}

impl<C: Clock> ShardedCounterBuilder<C> {
    /// Number of sub-windows in the window, from 1 to
    /// [`MAX_SUB_WINDOWS`](crate::counter::MAX_SUB_WINDOWS); [`DEFAULT_SUB_WINDOWS`] unless set. A
    /// unit counts for at most one sub-window longer than the window.
    pub fn sub_windows(self, sub_windows: u64) -> Self {
        Self { sub_windows, ..self }
    }

    /// Number of shards, each a word that a thread spends from alone, from 1 to [`MAX_SHARDS`],
    /// rounded up to a power of two; unless set, the number of threads that can run in parallel.
    pub fn shards(self, shards: usize) -> Self {
        Self { shards, ..self }
    }

    /// Number of units a shard takes at once, at least 1; unless set, chosen so that at most about
    /// 1/16 of the limit is left unused per window.
    pub fn block(self, units: u64) -> Self {
        Self { block: Some(units), ..self }
    }

    /// The clock to read; a new `TscClock` unless set.
    pub fn clock<D: Clock>(self, clock: D) -> ShardedCounterBuilder<D> {
        let Self { limit, window, sub_windows, shards, block, clock: _ } = self;
        let clock = Source::Given(clock);
        ShardedCounterBuilder { limit, window, sub_windows, shards, block, clock }
    }

    /// Makes the counter: the only step that allocates. O(sub-windows + shards). With the default
    /// clock it blocks for up to 200 ms if it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// As
    /// [`SubWindowCounter::with_sub_windows`](crate::counter::SubWindowCounter::with_sub_windows),
    /// or when the number of shards is 0 or above [`MAX_SHARDS`], or a block has no units.
    pub fn build(self) -> Result<ShardedCounter<C>, CounterError> {
        let Self { limit, window, sub_windows, shards, block, clock } = self;
        let source = SubWindows::new(limit, window, sub_windows)?;
        let block = block.unwrap_or_else(|| default_block(limit, sub_windows, shards));
        Ok(ShardedCounter { shards: UnitShards::new(source, shards, block)?, clock: clock.get() })
    }
}

/// A window overlaps one sub-window more than it has, and each shard can waste one block in each.
fn default_block(limit: u64, sub_windows: u64, shards: usize) -> u64 {
    let shards = shards.min(MAX_SHARDS).next_power_of_two() as u64;
    let wasted = sub_windows.saturating_add(1).saturating_mul(shards);
    (limit / UNUSED_SHARE / wasted).max(1)
}
