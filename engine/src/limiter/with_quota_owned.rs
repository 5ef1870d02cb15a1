//! Values under a quota given with the call that move into a task.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use crate::base::decision::Decision;
use crate::base::key::Key;
use crate::contract::limit::Limit;
use crate::contract::observer::Observer;
use crate::contract::reserve::Reservation;
use crate::contract::set::Ask;
use crate::contract::wait::{Turn, Wait};
use crate::rule::quota::{Quota, QuotaError};
use crate::rule::{DebtRule, Rule};
use crate::time::{Clock, DefaultClock};

use super::{Limiter, WithQuota};

/// As [`WithQuota`], for values that move into a task: each of them keeps the limiter alive; from
/// [`Limiter::with_quota_owned`].
///
/// It dereferences to that [`WithQuota`], for the operations that end within the call:
/// [`check_many_n`](WithQuota::check_many_n), [`charge`](WithQuota::charge) and all others.
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Arc::new(Limiter::builder(Quota::per_hour(1_000)).capacity(1_000).build()?);
/// let plan = Quota::per_hour(10_000); // of this customer
/// if let Ok(reserved) = limiter.with_quota_owned(&plan)?.reserve("user:42", 4_000) {
///     let answered = thread::spawn(move || reserved.commit(812).remaining());
///     assert!(answered.join().is_ok_and(|left| left >= 10_000 - 812));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OwnedWithQuota<'l, 'q, R: Rule = Quota, C = DefaultClock, O = ()> {
    limiter: &'l Arc<Limiter<R, C, O>>,
    view: WithQuota<'l, 'q, R, C, O>,
}

impl<R, C, O> Limiter<R, C, O>
where
    R: DebtRule,
    C: Clock + 'static,
    O: Observer + 'static,
{
    /// As [`Limiter::with_quota`], for reservations, turns and asks that move into a task. Borrows
    /// the `Arc`, which only those values clone. O(1). Needs a [debt rule](crate::rule::DebtRule).
    ///
    /// # Errors
    /// When the quota cannot be enforced.
    pub fn with_quota_owned<'l, 'q>(
        self: &'l Arc<Self>,
        quota: &'q Quota,
    ) -> Result<OwnedWithQuota<'l, 'q, R, C, O>, QuotaError> {
        Ok(OwnedWithQuota { limiter: self, view: self.with_quota(quota)? })
    }
}

impl<'q, R, C, O> OwnedWithQuota<'_, 'q, R, C, O>
where
    R: DebtRule,
    C: Clock + 'static,
    O: Observer + 'static,
{
    /// As [`WithQuota::enqueue`], for a turn that keeps the limiter alive.
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(
        &self,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'static, Limiter<R, C, O>>, Decision> {
        self.view.enqueue(key, cost, wait).map(|turn| turn.into_owned(self.limiter))
    }

    /// As [`WithQuota::reserve`], for a reservation that keeps the limiter alive.
    ///
    /// # Errors
    /// The denial when the units do not fit.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'static>, Decision>
    where
        C: Send + Sync,
        O: Send + Sync,
    {
        Reservation::shared(self.limit(), self.view.subject(&key), &key, cost)
    }

    /// As [`WithQuota::ask`], for a set whose reservation keeps the limiter alive. It borrows the
    /// quota, so it can move into a task if that is `'static`.
    pub fn ask(&self, key: impl Key, cost: u64) -> Ask<'q>
    where
        C: Send + Sync,
        O: Send + Sync,
    {
        Ask::shared(self.limit(), self.view.subject(&key), cost)
    }

    fn limit(&self) -> Arc<dyn Limit>
    where
        C: Send + Sync,
        O: Send + Sync,
    {
        Arc::<Limiter<R, C, O>>::clone(self.limiter)
    }
}

impl<'l, 'q, R: Rule, C, O> Deref for OwnedWithQuota<'l, 'q, R, C, O> {
    type Target = WithQuota<'l, 'q, R, C, O>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.view
    }
}

impl<R: Rule, C, O> Clone for OwnedWithQuota<'_, '_, R, C, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Rule, C, O> Copy for OwnedWithQuota<'_, '_, R, C, O> {}

impl<R: Rule, C, O> fmt::Debug for OwnedWithQuota<'_, '_, R, C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedWithQuota").field(&self.view).finish()
    }
}
