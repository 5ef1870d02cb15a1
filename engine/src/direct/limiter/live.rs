//! Changing the quota of a limiter without keys while it is enforced.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | S4 word, read | relaxed | none: S5 fails if it has changed | - | - |
//! | S5 word, rewritten | release | S1 | as S1 | `direct-sweep-relaxed` |

use crate::base::sync::{AtomicU64, Ordering};
use crate::contract::observer::Observer;
use crate::rule::live::{Inheritance, LiveQuota, Words};
use crate::rule::quota::{Quota, QuotaError};
use crate::time::Clock;

use super::DirectLimiter;

impl<C: Clock, O: Observer> DirectLimiter<LiveQuota, C, O> {
    /// Puts `quota` in force; what is owed is carried over as `inheritance` says.
    ///
    /// Checks go on meanwhile and never wait: each is decided by the quota before or after, as a
    /// whole. Concurrent changes are made one after another. O(1). Changes may be frequent, and use
    /// nothing up: after each of them the limiter keeps time for 13.7 years.
    ///
    /// Charges concurrent with the change, and reservations that are open across it, are treated as
    /// [`Inheritance`] and [`Limiter::set_quota`](crate::Limiter::set_quota) state for one key.
    ///
    /// ```
    /// use tidegate_engine::rule::Inheritance;
    /// use tidegate_engine::{DirectLimiter, LiveQuota, Quota};
    ///
    /// let calls = DirectLimiter::new(LiveQuota::new(Quota::per_second(5)))?;
    /// assert!(calls.check_n(5).is_allowed());
    /// calls.set_quota(Quota::per_second(50), Inheritance::Proportional)?;
    /// assert!(calls.check_n(45).is_allowed());
    /// # Ok::<(), tidegate_engine::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// When the quota cannot be enforced; the quota stays as it is.
    pub fn set_quota(&self, quota: Quota, inheritance: Inheritance) -> Result<(), QuotaError> {
        let now = || self.warped(self.clock.now());
        self.algorithm.change(quota, inheritance, &OneWord(&self.word), now)
    }

    /// The quota in force. [`DirectLimiter::rule`] is the one that the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.algorithm.quota()
    }
}

/// The word of a limiter.
struct OneWord<'a>(&'a AtomicU64);

impl Words for OneWord<'_> {
    fn highest(&self, tat: impl Fn(u64) -> u64) -> u64 {
        tat(self.0.load(Ordering::Relaxed)) // S4
    }

    /// Also a word that has never been charged, so that no charge of it from before succeeds.
    fn convert(&self, convert: impl Fn(u64) -> Option<u64>) {
        let mut found = self.0.load(Ordering::Relaxed); // S4
        while let Some(value) = convert(found) {
            // S5
            let exchanged =
                self.0.compare_exchange(found, value, Ordering::Release, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return,
                Err(other) => found = other,
            }
        }
    }
}
