//! Units that were charged ahead of their use, as intervals of time.

use crate::rule::gcra::Gcra;

/// Consecutive units, each with one emission interval of time; the last interval ends at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) end: u64,
    pub(super) units: u64,
}

impl Block {
    /// When the first interval begins.
    #[inline]
    pub(super) fn start(self, gcra: &Gcra) -> u64 {
        // Saturates only where `end` and `units` were read of different leases of an entry.
        self.end.saturating_sub(self.units * gcra.interval())
    }

    /// The units whose intervals have not begun at `now`; the others have expired.
    #[inline]
    pub(super) fn unexpired(self, gcra: &Gcra, now: u64) -> u64 {
        if self.start(gcra) >= now {
            return self.units;
        }
        self.unexpired_part(gcra, now)
    }

    /// Out of line, because it divides, and units expire only where their thread was idle.
    #[cold]
    #[inline(never)]
    fn unexpired_part(self, gcra: &Gcra, now: u64) -> u64 {
        self.end.saturating_sub(now) / gcra.interval()
    }

    /// The first `units` of the last `left` ones.
    #[inline]
    pub(super) fn first(self, gcra: &Gcra, left: u64, units: u64) -> Self {
        Self { end: self.end - (left - units) * gcra.interval(), units }
    }

    /// Whether a word with this value counts the block as charged. If not, the word has been
    /// evicted or lowered since, and the block is void.
    #[inline]
    pub(super) fn is_covered(self, tat: u64) -> bool {
        tat >= self.end
    }

    /// The units whose intervals have not begun at `now` if the last one is moved to end at `end`,
    /// where it does not end earlier.
    pub(super) fn unexpired_before(self, gcra: &Gcra, end: u64, now: u64) -> u64 {
        let left = self.end.min(end).saturating_sub(now) / gcra.interval();
        left.min(self.units)
    }

    /// The units left after a use of `cost` units at `now`; `None` when they may not be used.
    ///
    /// Those used are the first that have not begun at `now`, and they must end by `now + tau`:
    /// they do unless `now` is earlier than the time at which the block was charged.
    #[inline]
    pub(super) fn take(self, gcra: &Gcra, cost: u64, now: u64) -> Option<u64> {
        self.take_whole(gcra, cost, now).or_else(|| self.take_rest(gcra, cost, now))
    }

    /// [`Block::take`] of a block of which nothing has expired; `None` of any other.
    #[inline]
    pub(super) fn take_whole(self, gcra: &Gcra, cost: u64, now: u64) -> Option<u64> {
        let start = self.start(gcra);
        if start < now {
            return None;
        }
        let left = self.units.checked_sub(cost)?;
        (start + cost * gcra.interval() - now <= gcra.tau()).then_some(left)
    }

    /// [`Block::take`] of a block of which some has expired; `None` of any other.
    #[inline]
    pub(super) fn take_rest(self, gcra: &Gcra, cost: u64, now: u64) -> Option<u64> {
        if self.start(gcra) >= now {
            return None;
        }
        // Those left begin before `now + T` and follow each other, and a block is at most a
        // sixteenth of tau: they end by `now + tau`.
        self.unexpired_part(gcra, now).checked_sub(cost)
    }
}
