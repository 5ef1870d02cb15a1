//! An observer that counts decisions.

use crate::base::decision::Decision;
use crate::base::shards::Shards;
use crate::contract::observer::{ObservedKey, Observer};

/// Counts the decisions of a limiter, or of several: give one to
/// [`LimiterBuilder::observer`](crate::limiter::LimiterBuilder::observer) or
/// [`DirectLimiterBuilder::observer`](crate::direct::DirectLimiterBuilder::observer), by reference
/// or in an [`Arc`](std::sync::Arc) where it is shared.
///
/// Threads count in separate shards, 2 KiB in total, so counting costs one addition in a cache line
/// that is usually local to the core, also for denials, which write nothing else. Keys that found
/// no room are counted without an observer, see [`Limiter::overflow`](crate::Limiter::overflow).
///
/// ```
/// use tidegate_engine::observer::Counts;
/// use tidegate_engine::{Limiter, Quota};
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

/// The number of decisions that a [`Counts`] has observed. Each counter wraps after 2^64.
///
/// Shards are added up one after another, so figures read during checks need not belong to one
/// instant; none ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionCounts {
    /// Checks that were admitted, whatever their cost.
    pub allowed: u64,
    /// Checks that were denied, whatever their cost.
    pub denied: u64,
    /// Decisions that take nothing: checks of cost 0, peeks, and the peek that ends a charge.
    pub peeks: u64,
}

const EVENTS: usize = 3;
const ALLOWED: usize = 0;
const DENIED: usize = 1;
const PEEKS: usize = 2;

impl Counts {
    /// New counters at 0. Allocates.
    #[must_use]
    pub fn new() -> Self {
        Self(Shards::new())
    }

    /// The counts so far. O(1): a few dozen loads.
    #[must_use]
    pub fn sum(&self) -> DecisionCounts {
        DecisionCounts {
            allowed: self.0.sum(ALLOWED),
            denied: self.0.sum(DENIED),
            peeks: self.0.sum(PEEKS),
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
    fn on_decision(&self, _: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self.0.count(match (cost, decision.is_allowed()) {
            (0, _) => PEEKS,
            (_, true) => ALLOWED,
            (_, false) => DENIED,
        });
    }
}

impl Observer for &Counts {
    #[inline]
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        (**self).on_decision(key, cost, decision);
    }
}
