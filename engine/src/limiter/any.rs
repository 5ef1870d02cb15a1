//! A limiter of a rule whose kind is known only at run time.

use alloc::sync::Arc;

use crate::contract::limit::Limit;
use crate::rule::{AnyRule, Rule};

use super::Limiter;
use super::builder::BuildError;

impl AnyRule {
    /// A [`Limiter`] that enforces this rule on each of its keys, with room for `capacity` of them
    /// ([`LimiterBuilder::capacity`](crate::limiter::LimiterBuilder::capacity)) and else as
    /// [`Limiter::builder`] makes it. For other choices, match the rule and build the limiter of
    /// its kind.
    ///
    /// # Errors
    /// As [`LimiterBuilder::build`](crate::limiter::LimiterBuilder::build).
    ///
    /// ```
    /// use tidegate_engine::LimitSet;
    /// use tidegate_engine::rule::AnyRule;
    /// use tidegate_engine::set::Ask;
    ///
    /// let texts = ["2/h", "10/d fixed"];
    /// let mut limits = Vec::new();
    /// for text in texts {
    ///     limits.push(text.parse::<AnyRule>()?.limiter(1_000)?);
    /// }
    /// let set = |user| LimitSet::new([
    ///     Ask::new(&*limits[0], user, 1),
    ///     Ask::new(&*limits[1], user, 1),
    /// ]);
    /// assert!(set("user:42").check().is_allowed());
    /// assert!(set("user:42").check().is_allowed());
    /// assert!(!set("user:42").check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limiter(&self, capacity: usize) -> Result<Arc<dyn Limit>, BuildError> {
        fn built<R: Rule>(rule: R, capacity: usize) -> Result<Arc<dyn Limit>, BuildError> {
            Ok(Arc::new(Limiter::builder(rule).capacity(capacity).build()?))
        }
        match *self {
            Self::Quota(rule) => built(rule, capacity),
            Self::Sliding(rule) => built(rule, capacity),
            Self::Fixed(rule) => built(rule, capacity),
            Self::Calendar(rule) => built(rule, capacity),
        }
    }
}
