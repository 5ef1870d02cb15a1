//! Reservations, whose units may be given back, alone and together with other limits.

use alloc::sync::Arc;

use crate::base::decision::Decision;
use crate::base::key::Key;
use crate::contract::limit::{Limit, Subject};
use crate::contract::observer::Observer;
use crate::contract::reserve::Reservation;
use crate::contract::set::Ask;
use crate::rule::Rule;
use crate::time::Clock;

use super::Limiter;

impl<R, C, O> Limiter<R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    /// Takes `cost` units when they fit, and returns the right to give back those that are not
    /// used. A cost of 0 takes nothing and can still be committed to more.
    ///
    /// O(1), neither locks nor allocates.
    ///
    /// # Errors
    /// The denial when the units do not fit; nothing is charged then, unless the limiter
    /// [charges what it denies](crate::limiter::LimiterBuilder::charge_denied).
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'_>, Decision> {
        Reservation::borrowed(self, Subject::from(self.hash(&key)), &key, cost)
    }

    /// As [`Limiter::reserve`], for a reservation that moves into a task: it keeps the limiter
    /// alive.
    ///
    /// # Errors
    /// The denial when the units do not fit; nothing is charged then, unless the limiter
    /// [charges what it denies](crate::limiter::LimiterBuilder::charge_denied).
    pub fn reserve_owned(
        self: &Arc<Self>,
        key: impl Key,
        cost: u64,
    ) -> Result<Reservation<'static>, Decision>
    where
        C: 'static,
        O: 'static,
    {
        let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
        Reservation::shared(limit, Subject::from(self.hash(&key)), &key, cost)
    }

    /// `cost` units of `key`, to be asked for together with what other limits have to admit: see
    /// [`LimitSet`](crate::LimitSet).
    pub fn ask(&self, key: impl Key, cost: u64) -> Ask<'_> {
        Ask::new(self, key, cost)
    }

    /// As [`Limiter::ask`], for a set whose reservation moves into a task: it keeps the limiter
    /// alive.
    pub fn ask_owned(self: &Arc<Self>, key: impl Key, cost: u64) -> Ask<'static>
    where
        C: 'static,
        O: 'static,
    {
        let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
        Ask::owned(limit, key, cost)
    }
}
