//! A limiter without keys, of a rule whose kind is known only at run time.

use alloc::sync::Arc;

use crate::contract::limit::Limit;
use crate::rule::quota::QuotaError;
use crate::rule::{AnyRule, Rule};

use super::limiter::DirectLimiter;

impl AnyRule {
    /// A [`DirectLimiter`] that enforces this rule, as
    /// [`DirectLimiter::new`](crate::DirectLimiter::new) makes it.
    ///
    /// # Errors
    /// When the rule cannot be enforced.
    pub fn direct(&self) -> Result<Arc<dyn Limit>, QuotaError> {
        fn built<R: Rule>(rule: R) -> Result<Arc<dyn Limit>, QuotaError> {
            Ok(Arc::new(DirectLimiter::new(rule)?))
        }
        match *self {
            Self::Quota(rule) => built(rule),
            Self::Sliding(rule) => built(rule),
            Self::Fixed(rule) => built(rule),
            Self::Calendar(rule) => built(rule),
        }
    }
}
