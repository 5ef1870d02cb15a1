//! What the layer needs of a limiter, whatever its rule, clock and observer are.

use core::time::Duration;

use crate::clock::Clock;
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::observer::Observer;
use crate::rule::Rule;

/// One limit as requests meet it.
pub(super) trait Enforce: Limit {
    /// In what time all that the limit admits at once is granted anew; `None` where it never is, or
    /// not always the same.
    fn window(&self) -> Option<Duration>;
}

impl<R, C, O> Enforce for Limiter<R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    fn window(&self) -> Option<Duration> {
        self.rule().window()
    }
}
