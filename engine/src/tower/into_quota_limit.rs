//! Limits under a quota for each request, as a layer takes them: by value, or shared.

use std::sync::Arc;

use crate::contract::limit::Limit;
use crate::contract::observer::Observer;
use crate::contract::shadow::Shadow;
use crate::limiter::Limiter;
use crate::rule::DebtRule;
use crate::rule::quota::{Quota, QuotaError};
use crate::time::Clock;

use super::IntoLimit;

/// A [`QuotaLimit`] by value or in an [`Arc`], as
/// [`RequestLimit::with_quotas`](super::RequestLimit::with_quotas) takes it.
pub trait IntoQuotaLimit: IntoLimit {
    /// The type of the limit.
    #[doc(hidden)]
    type Limit: QuotaLimit + 'static;

    /// The limit, shared.
    #[doc(hidden)]
    fn into_quota_limit(self) -> Arc<Self::Limit>;
}

impl<L: QuotaLimit + 'static> IntoQuotaLimit for L {
    type Limit = L;

    fn into_quota_limit(self) -> Arc<L> {
        Arc::new(self)
    }
}

impl<L: QuotaLimit + 'static> IntoQuotaLimit for Arc<L> {
    type Limit = L;

    fn into_quota_limit(self) -> Self {
        self
    }
}

/// A [`Limit`] that can be asked under a quota given with the call: a [`Limiter`] whose rule is a
/// [`DebtRule`], or a [`Shadow`] of one, by value or in an [`Arc`]. Sealed, like [`Limit`].
pub trait QuotaLimit: Limit {
    /// Whether the limit can enforce `quota`.
    #[doc(hidden)]
    fn can_enforce(&self, quota: &Quota) -> Result<(), QuotaError>;
}

impl<R, C, O> QuotaLimit for Limiter<R, C, O>
where
    R: DebtRule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    fn can_enforce(&self, quota: &Quota) -> Result<(), QuotaError> {
        self.with_quota(quota).map(|_| ())
    }
}

impl<L: QuotaLimit> QuotaLimit for Shadow<L> {
    fn can_enforce(&self, quota: &Quota) -> Result<(), QuotaError> {
        self.limit().can_enforce(quota)
    }
}

impl<L: QuotaLimit> QuotaLimit for Shadow<Arc<L>> {
    fn can_enforce(&self, quota: &Quota) -> Result<(), QuotaError> {
        self.limit().can_enforce(quota)
    }
}
