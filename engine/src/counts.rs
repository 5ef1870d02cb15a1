//! An observer that counts what it hears.

use crate::decision::Decision;
use crate::key::KeyHash;
use crate::observer::Observer;
use crate::shards::Shards;

/// Counts the decisions of a limiter, or of several: give one to
/// [`LimiterBuilder::observer`](crate::LimiterBuilder::observer) or
/// [`SingleBuilder::observer`](crate::SingleBuilder::observer), by reference or in an
/// [`Arc`](std::sync::Arc) where it is shared.
///
/// Threads count in shards of their own, 2 KiB in all, so counting costs one addition in a cache line
/// that is usually the core's own, also for denials, which write nothing else. Keys that found no place
/// are counted without an observer, see [`Limiter::overflow`](crate::Limiter::overflow).
///
/// ```
/// use tidegate_engine::{Counts, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_hour(2)).observer(Counts::new()).build()?;
/// for _ in 0..5 {
///     let _ = limiter.check("user:42");
/// }
/// let counts = limiter.observer().sum();
/// assert_eq!((counts.allowed, counts.denied), (2, 3));
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Counts(Shards<EVENTS>);

/// How many decisions a [`Counts`] has heard of. Each counter wraps after 2^64.
///
/// Shards are added up one after another, so figures that are read while others check need not
/// belong to one instant; none ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionCounts {
    /// Checks that were admitted, whatever their cost.
    pub allowed: u64,
    /// Checks that were denied, whatever their cost.
    pub denied: u64,
    /// Looks: checks of cost 0, peeks, and the looks that a charge ends with.
    pub looks: u64,
}

const EVENTS: usize = 3;
const ALLOWED: usize = 0;
const DENIED: usize = 1;
const LOOKS: usize = 2;

impl Counts {
    /// Counters at 0. Allocates.
    #[must_use]
    pub fn new() -> Self {
        Self(Shards::new())
    }

    /// What has been counted so far. O(1): a few dozen loads.
    #[must_use]
    pub fn sum(&self) -> DecisionCounts {
        DecisionCounts {
            allowed: self.0.sum(ALLOWED),
            denied: self.0.sum(DENIED),
            looks: self.0.sum(LOOKS),
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Counts {
    #[inline]
    fn decided(&self, _: KeyHash, cost: u64, decision: &Decision) {
        self.0.count(match (cost, decision.is_allowed()) {
            (0, _) => LOOKS,
            (_, true) => ALLOWED,
            (_, false) => DENIED,
        });
    }
}
