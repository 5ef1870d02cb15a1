//! Building a sharded counter.

use core::time::Duration;

use crate::builder::Source;
use crate::clock::Clock;
use crate::tsc::TscClock;

use super::sharded::{MAX_SHARDS, ShardedCounter, Shards};
use super::sub_window::SubWindows;
use super::{CounterError, DEFAULT_SUB_WINDOWS};

/// Default blocks leave unused at most this share of the limit a window, as a divisor.
const UNUSED_SHARE: u64 = 16;

/// What a [`ShardedCounter`] is to be made of; see [`ShardedCounter::builder`].
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::ShardedCounter;
///
/// let window = Duration::from_secs(1);
/// let counter = ShardedCounter::builder(1_000_000, window).sub_windows(20).shards(8).block(64).build()?;
/// assert_eq!((counter.limit(), counter.block()), (1_000_000, 64));
/// # Ok::<(), tidegate_engine::CounterError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ShardedCounterBuilder<C = TscClock> {
    limit: u64,
    window: Duration,
    sub_windows: u64,
    shards: usize,
    /// `None` for the default, which depends on the others.
    block: Option<u64>,
    clock: Source<C>,
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
    /// Into how many parts the window is divided, from 1 to [`MAX_SUB_WINDOWS`](crate::MAX_SUB_WINDOWS);
    /// [`DEFAULT_SUB_WINDOWS`] unless set. A unit counts for up to a part longer than the window.
    pub fn sub_windows(self, sub_windows: u64) -> Self {
        Self { sub_windows, ..self }
    }

    /// How many threads can spend from words of their own, from 1 to [`MAX_SHARDS`], rounded up to a power of two;
    /// as many as can run at once unless set.
    pub fn shards(self, shards: usize) -> Self {
        Self { shards, ..self }
    }

    /// How many units a shard takes at once, at least 1; unless set, as many as leave at most about 1/16 of the limit
    /// unused a window.
    pub fn block(self, units: u64) -> Self {
        Self { block: Some(units), ..self }
    }

    /// The clock to read; a new `TscClock` unless set.
    pub fn clock<D: Clock>(self, clock: D) -> ShardedCounterBuilder<D> {
        let Self { limit, window, sub_windows, shards, block, clock: _ } = self;
        let clock = Source::Given(clock);
        ShardedCounterBuilder { limit, window, sub_windows, shards, block, clock }
    }

    /// Makes the counter: the only step that allocates. O(sub-windows + shards). On the default clock blocks for up to 200 ms
    /// where it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// As [`SubWindowCounter::with_sub_windows`](crate::SubWindowCounter::with_sub_windows), or when the number
    /// of shards is 0 or above [`MAX_SHARDS`], or a block has no units.
    pub fn build(self) -> Result<ShardedCounter<C>, CounterError> {
        let Self { limit, window, sub_windows, shards, block, clock } = self;
        let source = SubWindows::new(limit, window, sub_windows)?;
        let block = block.unwrap_or_else(|| default_block(limit, sub_windows, shards));
        Ok(ShardedCounter { shards: Shards::new(source, shards, block)?, clock: clock.get() })
    }
}

/// A window touches one sub-window more than it has, and each shard can waste a block in each.
fn default_block(limit: u64, sub_windows: u64, shards: usize) -> u64 {
    let shards = shards.min(MAX_SHARDS).next_power_of_two() as u64;
    let wasted = sub_windows.saturating_add(1).saturating_mul(shards);
    (limit / UNUSED_SHARE / wasted).max(1)
}
