//! Limits without keys where several limits are asked at once, or units are given back: all keys are one.

use alloc::sync::Arc;

use crate::clock::Clock;
#[cfg(feature = "std")]
use crate::counter::ShardedCounter;
use crate::counter::SubWindowCounter;
use crate::decision::Decision;
use crate::key::{KeyHash, KeyHasher};
use crate::limit::{Limit, Subject};
use crate::observer::Observer;
use crate::reserve::Reservation;
use crate::rule::Rule;
use crate::set::Ask;
use crate::single::Single;

/// Hashes keys that are then left out of account, so its seed need not be secret.
pub(crate) static HASHER: KeyHasher = KeyHasher::rapid(0);

/// The key of all there is, which observers hear of.
pub(crate) const KEY: KeyHash = KeyHash::from_bits(0);

/// How a limit without keys is asked for units that may be given back.
macro_rules! lends {
    ([$($parameters:tt)*] $limit:ty) => {
        impl<$($parameters)*> $limit {
            /// `cost` units, to be asked for together with what other limits have to admit: see
            /// [`LimitSet`](crate::LimitSet).
            pub fn ask(&self, cost: u64) -> Ask<'_> {
                Ask::new(self, KEY, cost)
            }

            /// As `ask`, for a set whose reservation goes with a task: it keeps the limit alive.
            pub fn ask_owned(self: &Arc<Self>, cost: u64) -> Ask<'static>
            where
                Self: 'static,
            {
                let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
                Ask::owned(limit, KEY, cost)
            }

            /// Takes `cost` units when they fit, and hands out the right to give back what is not used of
            /// them: [`Limiter::reserve`](crate::Limiter::reserve). Neither locks nor allocates.
            ///
            /// # Errors
            /// The denial when the units do not fit.
            pub fn reserve(&self, cost: u64) -> Result<Reservation<'_>, Decision> {
                Reservation::borrowed(self, Subject::from(KEY), cost)
            }

            /// As `reserve`, for a reservation that goes with a task: it keeps the limit alive.
            ///
            /// # Errors
            /// The denial when the units do not fit.
            pub fn reserve_owned(self: &Arc<Self>, cost: u64) -> Result<Reservation<'static>, Decision>
            where
                Self: 'static,
            {
                let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
                Reservation::shared(limit, Subject::from(KEY), cost)
            }
        }
    };
}

lends!([R: Rule, C: Clock + Send + Sync, O: Observer + Send + Sync] Single<R, C, O>);
lends!([C: Clock + Send + Sync] SubWindowCounter<C>);
#[cfg(feature = "std")]
lends!([C: Clock + Send + Sync] ShardedCounter<C>);
