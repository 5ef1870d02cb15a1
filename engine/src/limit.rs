//! What every limit can do for those who ask several at once, or give back later.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::time::Duration;

use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::key::{KeyHash, KeyHasher};
use crate::keyless;
use crate::quota::Quota;

/// A limit that can be part of a [`LimitSet`](crate::LimitSet) and lend to a
/// [`Reservation`](crate::Reservation), whatever its algorithm.
///
/// [`Limiter`](crate::Limiter) is one, and without keys [`Single`](crate::Single), with any rule, clock and observer that threads
/// may share; so are [`SubWindowCounter`](crate::SubWindowCounter) and `ShardedCounter`.
/// The trait is sealed: all-or-nothing rests on each limit taking back exactly what it charged.
pub trait Limit: Send + Sync + sealed::Sealed {
    /// What hashes this limit's keys.
    #[doc(hidden)]
    fn hasher(&self) -> &KeyHasher {
        &keyless::HASHER
    }

    /// The key under which `key` is charged. All are one where a limit has no keys.
    #[doc(hidden)]
    fn place(&self, _key: KeyHash) -> KeyHash {
        keyless::KEY
    }

    /// The time now on this limit's clock.
    #[doc(hidden)]
    fn now(&self) -> Timestamp;

    /// What a check of `cost` would find, without charging anything: what is left where it fits,
    /// else the denial. A `cost` of 0 is a peek.
    #[doc(hidden)]
    fn look(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> Decision;

    /// Takes `cost` units if they fit, with a receipt for them. A `cost` of 0 is a peek. A limit that charges
    /// denied checks charges a denial.
    #[doc(hidden)]
    fn take(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt);

    /// Charges the denial of a look at `cost`, if the limit charges denied checks and the cost still does not
    /// fit; the denial then.
    #[doc(hidden)]
    fn deny(&self, _whom: Subject<'_>, _cost: u64, _now: Timestamp) -> Option<Decision> {
        None
    }

    /// Gives back `cost` units of the charge that the receipt is for, as far as they still count,
    /// and tells what is left.
    #[doc(hidden)]
    fn give_back(&self, whom: Subject<'_>, cost: u64, receipt: Receipt) -> Decision;

    /// Charges `cost` units whether or not they fit, and tells what is left.
    #[doc(hidden)]
    fn take_anyway(&self, whom: Subject<'_>, cost: u64) -> Decision;

    /// In what time all that the limit admits at once is granted anew, which clients are told; `None` where it
    /// never is, or not always the same.
    #[doc(hidden)]
    fn refill_time(&self) -> Option<Duration>;

    /// Lets the observer hear of a decision on `cost` units, if there is one.
    #[doc(hidden)]
    fn tell(&self, _key: KeyHash, _cost: u64, _decision: &Decision) {}
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Who is asked for, and under which quota: one that was given with the call, or the limit's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'q> {
    pub(crate) key: KeyHash,
    pub(crate) quota: Option<&'q Quota>,
}

/// Under the limit's own rule.
impl From<KeyHash> for Subject<'_> {
    fn from(key: KeyHash) -> Self {
        Self { key, quota: None }
    }
}

/// Proof of one charge: what it left in the key's word or the number of its sub-window, or that there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt(Option<u64>);

impl Receipt {
    /// Of what was not charged: nothing can be given back for it.
    pub(crate) const NOTHING: Self = Self(None);

    /// Of the charge that left this value, or was made in this sub-window.
    pub(crate) const fn new(charged: Option<u64>) -> Self {
        Self(charged)
    }

    pub(crate) const fn charged(self) -> Option<u64> {
        self.0
    }
}

/// Whose units they are.
#[derive(Clone)]
pub(crate) enum Lender<'l> {
    Borrowed(&'l dyn Limit),
    Shared(Arc<dyn Limit>),
}

impl Lender<'_> {
    pub(crate) fn limit(&self) -> &dyn Limit {
        match self {
            Self::Borrowed(limit) => *limit,
            Self::Shared(limit) => &**limit,
        }
    }
}

/// Makes of a charge of `cost` units one of `actual`, and tells what is left.
pub(crate) fn settle(
    limit: &dyn Limit,
    whom: Subject<'_>,
    cost: u64,
    receipt: Receipt,
    actual: u64,
) -> Decision {
    match actual.cmp(&cost) {
        Ordering::Greater => limit.take_anyway(whom, actual - cost),
        Ordering::Less => limit.give_back(whom, cost - actual, receipt),
        Ordering::Equal => limit.look(whom, 0, limit.now()),
    }
}
