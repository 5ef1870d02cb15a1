//! Limits without keys as part of sets and reservations: all keys are one.

use alloc::sync::Arc;

use crate::base::decision::Decision;
use crate::base::key::{KEYLESS, Keyless};
use crate::contract::limit::{Limit, Subject};
use crate::contract::observer::Observer;
use crate::contract::reserve::Reservation;
use crate::contract::set::Ask;
#[cfg(feature = "std")]
use crate::direct::counter::ShardedCounter;
use crate::direct::counter::SubWindowCounter;
use crate::direct::limiter::DirectLimiter;
use crate::rule::Rule;
use crate::time::Clock;

/// Asks and reservations of a limit without keys.
macro_rules! reserves {
    ([$($parameters:tt)*] $limit:ty) => {
        impl<$($parameters)*> $limit {
            /// `cost` units, to be asked for together with other limits: see
            /// [`LimitSet`](crate::LimitSet).
            pub fn ask(&self, cost: u64) -> Ask<'_> {
                Ask::new(self, KEYLESS, cost)
            }

            /// As `ask`, for a set whose reservation moves into a task: it keeps the limit alive.
            pub fn ask_owned(self: &Arc<Self>, cost: u64) -> Ask<'static>
            where
                Self: 'static,
            {
                let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
                Ask::owned(limit, KEYLESS, cost)
            }

            /// Takes `cost` units if they fit, and hands out the right to give back what is not
            /// used: [`Limiter::reserve`](crate::Limiter::reserve). Neither locks nor allocates.
            ///
            /// # Errors
            /// The denial when the units do not fit.
            pub fn reserve(&self, cost: u64) -> Result<Reservation<'_>, Decision> {
                Reservation::borrowed(self, Subject::from(KEYLESS), &Keyless, cost)
            }

            /// As `reserve`, for a reservation that moves into a task: it keeps the limit alive.
            ///
            /// # Errors
            /// The denial when the units do not fit.
            pub fn reserve_owned(
                self: &Arc<Self>,
                cost: u64,
            ) -> Result<Reservation<'static>, Decision>
            where
                Self: 'static,
            {
                let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
                Reservation::shared(limit, Subject::from(KEYLESS), &Keyless, cost)
            }
        }
    };
}

reserves!([R: Rule, C: Clock + Send + Sync, O: Observer + Send + Sync] DirectLimiter<R, C, O>);
reserves!([C: Clock + Send + Sync] SubWindowCounter<C>);
#[cfg(feature = "std")]
reserves!([C: Clock + Send + Sync] ShardedCounter<C>);
