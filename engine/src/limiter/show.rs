//! What a limiter prints of itself.

use core::fmt;

use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::time::Clock;

use super::Limiter;

/// Lines of the table that are looked at, so that printing takes some 10 us.
const LINES: usize = 4_096;

/// Rule, capacity, and how many keys are live: counted in a part of a large table, and scaled. Has
/// no internals. Reads the clock.
impl<R: Rule, C: Clock, O> fmt::Debug for Limiter<R, C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.table.live_keys(LINES, self.algorithm.instant(self.clock.now()));
        f.debug_struct("Limiter")
            .field("rule", &self.rule)
            .field("capacity", &self.table.capacity())
            .field("live_keys", &live)
            .field("evicted", &self.table.evicted())
            .finish_non_exhaustive()
    }
}
