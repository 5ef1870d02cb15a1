//! What every limit provides to sets of limits and reservations, and as an object.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::{KEYLESS, KEYLESS_HASHER, Key, KeyHash, KeyHasher};
use crate::contract::observer::ObservedKey;
use crate::contract::wait::{JoinRequest, JoinResult};
use crate::rule::quota::Quota;
use crate::time::Timestamp;

/// A limit of any kind: as `dyn Limit` it is asked without knowing which, and it can be part of a
/// [`LimitSet`](crate::LimitSet) and hand out a [`Reservation`](crate::Reservation).
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::counter::SubWindowCounter;
/// use tidegate_engine::{BuildError, FixedWindow, Limit, Limiter, Quota};
///
/// fn limit(kind: &str, units: u64, period: Duration) -> Result<Box<dyn Limit>, BuildError> {
///     Ok(match kind {
///         "window" => Box::new(Limiter::new(FixedWindow::new(units, period))?),
///         "counter" => Box::new(SubWindowCounter::new(units, period)?), // one for all keys
///         _ => Box::new(Limiter::new(Quota::new(units, period))?),
///     })
/// }
///
/// for kind in ["quota", "window", "counter"] {
///     let limit = limit(kind, 2, Duration::from_secs(3_600))?; // from a configuration
///     assert!(limit.check_n("user:42", 2).is_allowed());
///     assert!(!limit.check("user:42").is_allowed());
/// }
/// # Ok::<(), BuildError>(())
/// ```
///
/// These are [`Limiter`](crate::Limiter) and, without keys,
/// [`DirectLimiter`](crate::DirectLimiter), with any rule, and any clock and observer that are
/// `Send` and `Sync`; [`SubWindowCounter`](crate::counter::SubWindowCounter) and
/// `ShardedCounter`; and a [`Shadow`](crate::Shadow) of any of them. The trait is sealed:
/// all-or-nothing relies on each limit taking back exactly what it charged.
///
/// # As an object
/// `check`, `peek`, `reserve` and `refund` are methods of `dyn Limit`, and so of `&dyn Limit`,
/// `Box<dyn Limit>` and `Arc<dyn Limit>`; it is `Send` and `Sync`. Each calls the method of that
/// name of the limit, with the same effect on leases, charged denials and observers. A limit
/// without keys ignores the key. The price is two calls through pointers, to the limit and to the
/// key.
pub trait Limit: Send + Sync + sealed::Sealed {
    /// The hasher of this limit's keys.
    #[doc(hidden)]
    fn hasher(&self) -> &KeyHasher {
        &KEYLESS_HASHER
    }

    /// The key under which `key` is charged: always the same one for a limit without keys.
    #[doc(hidden)]
    fn charged_key(&self, _key: KeyHash) -> KeyHash {
        KEYLESS
    }

    /// The present reading of this limit's clock.
    #[doc(hidden)]
    fn now(&self) -> Timestamp;

    /// What a check of `cost` would find, without charging anything: what remains if it fits, else
    /// the denial. A `cost` of 0 is a peek.
    #[doc(hidden)]
    fn peek_at(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Decision;

    /// Takes `cost` units if they fit, with a receipt for them. A `cost` of 0 is a peek. A limit
    /// that charges denied checks charges a denial.
    #[doc(hidden)]
    fn try_charge(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt);

    /// Charges the denial that [`Limit::peek_at`] found, if the limit charges denied checks
    /// and the cost still does not fit; returns the new denial in that case.
    #[doc(hidden)]
    fn charge_denied(
        &self,
        _subject: Subject<'_>,
        _cost: u64,
        _now: Timestamp,
    ) -> Option<Decision> {
        None
    }

    /// Gives back `cost` units of the charge that the receipt is for, as far as they still count,
    /// and returns what remains.
    #[doc(hidden)]
    fn give_back(&self, subject: Subject<'_>, cost: u64, receipt: Receipt) -> Decision;

    /// Charges `cost` units whether or not they fit, and returns what remains.
    #[doc(hidden)]
    fn force_charge(&self, subject: Subject<'_>, cost: u64) -> Decision;

    /// Takes a place in the line of the key, if the limit has lines; see [`JoinRequest`]. Does not
    /// notify the observer.
    #[doc(hidden)]
    fn join(&self, _subject: Subject<'_>, _cost: u64, _request: &JoinRequest) -> JoinResult<'_> {
        JoinResult::NoLine
    }

    /// The time in which all that fits at once is granted again, for reports to clients; `None` if
    /// it never is, or if that time varies.
    #[doc(hidden)]
    fn refill_time(&self) -> Option<Duration>;

    /// Notifies the observer, if there is one, of a decision on `cost` units.
    #[doc(hidden)]
    fn notify(&self, _key: ObservedKey<'_>, _cost: u64, _decision: &Decision) {}

    /// Whether denials are only counted: a caller answers them by [`answered`], and has nothing to
    /// settle of what was denied.
    #[doc(hidden)]
    fn is_shadow(&self) -> bool {
        false
    }

    /// Counts a call that was refused before this limit was asked, for want of a key or of a quota
    /// that can be enforced. Does nothing where a limit counts none.
    #[doc(hidden)]
    fn count_refusal(&self) {}

    /// `check_n` of this limit.
    #[doc(hidden)]
    fn check_key(&self, key: &dyn Key, cost: u64) -> Decision;

    /// `peek_n` of this limit, or what it would be.
    #[doc(hidden)]
    fn peek_key(&self, key: &dyn Key, cost: u64) -> Decision;

    /// `refund` of this limit; false if it has none, and then nothing is given back.
    #[doc(hidden)]
    fn refund_key(&self, key: &dyn Key, cost: u64) -> bool;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The key to charge, the quota to charge it under, one given with the call or else that of the
/// limit, and what to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'q> {
    pub(crate) key: KeyHash,
    pub(crate) quota: Option<&'q Quota>,
    /// Units that must be left for others after the cost.
    pub(crate) left: u64,
}

impl Subject<'_> {
    /// The units that must fit for a charge of `cost`; a peek needs none.
    pub(crate) fn needed(&self, cost: u64) -> u64 {
        if cost == 0 { 0 } else { cost.saturating_add(self.left) }
    }
}

/// Under the limit's own rule.
impl From<KeyHash> for Subject<'_> {
    fn from(key: KeyHash) -> Self {
        Self { key, quota: None, left: 0 }
    }
}

/// Proof of one charge: the value it left in the word of the key, or the number of its sub-window;
/// or that there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt(Option<u64>);

impl Receipt {
    /// For no charge: nothing can be given back.
    pub(crate) const NOTHING: Self = Self(None);

    /// For the charge that left this value, or was made in this sub-window.
    pub(crate) const fn new(charged: Option<u64>) -> Self {
        Self(charged)
    }

    pub(crate) const fn charged(self) -> Option<u64> {
        self.0
    }
}

/// The limit that the units belong to.
#[derive(Clone)]
pub(crate) enum LimitRef<'l> {
    Borrowed(&'l dyn Limit),
    Shared(Arc<dyn Limit>),
}

impl LimitRef<'_> {
    pub(crate) fn limit(&self) -> &dyn Limit {
        match self {
            Self::Borrowed(limit) => *limit,
            Self::Shared(limit) => &**limit,
        }
    }
}

/// The answer to a decision of `limit`: of a shadow, a denial lets through.
pub(crate) fn answered(limit: &dyn Limit, decision: Decision) -> Decision {
    if decision.is_allowed() || !limit.is_shadow() { decision } else { decision.let_through() }
}

/// Changes a charge of `cost` units to one of `actual`, and returns what remains.
pub(crate) fn settle(
    limit: &dyn Limit,
    subject: Subject<'_>,
    cost: u64,
    receipt: Receipt,
    actual: u64,
) -> Decision {
    match actual.cmp(&cost) {
        Ordering::Greater => limit.force_charge(subject, actual - cost),
        Ordering::Less => limit.give_back(subject, cost - actual, receipt),
        Ordering::Equal => limit.peek_at(subject, 0, limit.now()),
    }
}
