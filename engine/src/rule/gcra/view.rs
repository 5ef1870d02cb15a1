//! A key's value in terms of the quota in force: what quotas that change have in common with those
//! that do not.

use core::time::Duration;

use crate::rule::algorithm::Algorithm;
use crate::time::{Timestamp, saturating_nanos};

#[cfg(feature = "std")]
use super::TAT_MAX;
#[cfg(feature = "std")]
use super::ring::{self, DEBT_MAX};
use super::{Gcra, NOW_MAX, Scale, TAU_MAX, Terms, charge, lowered, raised};

/// Algorithms whose values are theoretical arrival times.
pub trait Bucket: Algorithm {
    /// What decides on a value, given as a TAT.
    type Terms: Terms;

    /// The scale of charges from here on.
    fn scale(&self) -> Scale;

    /// The value and a `now`, both of which may precede a change of the quota, in terms of the
    /// quota in force. A value from before more than one change is as good as none.
    fn view(&self, value: u64, now: u64) -> View<Self::Terms>;
}

/// How the values of a quota count time: in units since the quota came into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub(crate) scale: Scale,
    /// The clock's reading when the quota came into force, in units.
    pub(crate) base: u64,
    /// The value of that moment; 0 for a quota that cannot change, whose values are TATs.
    #[cfg(feature = "std")]
    pub(crate) floor: u64,
}

impl Time {
    /// For a quota that has always been in force.
    #[inline]
    pub(crate) const fn always(scale: Scale) -> Self {
        Self {
            scale,
            base: 0,
            #[cfg(feature = "std")]
            floor: 0,
        }
    }

    /// A point in time; 0 if it precedes the quota. Never beyond `NOW_MAX`.
    #[inline]
    pub(crate) fn point(self, at: Timestamp) -> u64 {
        self.scale.to_units(at.as_nanos()).saturating_sub(self.base).min(NOW_MAX)
    }

    /// How long before the quota came into force a point in time is, in units.
    pub(crate) fn lead(self, at: Timestamp) -> u64 {
        self.base.saturating_sub(self.scale.to_units(at.as_nanos()))
    }
}

/// A key's value under the quota in force.
#[derive(Clone, Copy, Debug)]
pub struct View<T = Gcra> {
    pub(crate) gcra: T,
    pub(crate) time: Time,
    pub(crate) tat: u64,
    pub(crate) now: u64,
}

impl<T> View<T> {
    /// The value of a TAT to which a charge has led. Under a quota that changes it saturates.
    #[inline]
    #[cfg_attr(not(feature = "std"), expect(clippy::unused_self, reason = "as with std"))]
    pub(crate) fn value(&self, tat: u64) -> u64 {
        #[cfg(feature = "std")]
        if self.time.floor != 0 {
            let most = (self.now + DEBT_MAX).max(self.tat).min(TAT_MAX);
            return ring::value(self.time.floor, tat.min(most));
        }
        tat
    }
}

impl<T: Terms> View<T> {
    /// How long before `now` a reading of the clock was, in units.
    pub(crate) fn since(&self, reading: Timestamp) -> u64 {
        let since = self.now.saturating_sub(self.time.point(reading));
        since.saturating_add(self.time.lead(reading))
    }

    /// The debt, rounded up to a nanosecond; `None` if it is 0.
    pub(crate) fn debt(&self) -> Option<Duration> {
        let debt = self.tat.saturating_sub(self.now);
        (debt > 0).then(|| Duration::from_nanos(self.gcra.scale().to_nanos(debt)))
    }

    /// The TAT after charging a denied check of `cost`, until the debt is `bursts` bursts beyond
    /// the burst; `None` when it does not change. A cost that never fits is not charged.
    pub(crate) fn charge_denied(&self, cost: u64, bursts: u64) -> Option<u64> {
        let Self { gcra, tat, now, .. } = self;
        let charged = Algorithm::charge(gcra, *tat, *now, cost).filter(|_| gcra.can_fit(cost))?;
        let charged = charged.min(now + ceiling(gcra.tau(), bursts));
        (charged > *tat).then_some(charged)
    }

    /// The TAT after charging debt that was consumed at `at`; `None` if it does not change.
    pub(crate) fn charge_debt(&self, debt: Duration, at: Timestamp) -> Option<u64> {
        self.with_debt(self.tat, debt, at)
    }

    /// The TAT of a key that has at least this debt at `at`; `None` if it does not change.
    pub(crate) fn raise_debt(&self, debt: Duration, at: Timestamp) -> Option<u64> {
        self.with_debt(0, debt, at)
    }

    /// The TAT after taking back debt, at most to none; `None` if it does not change.
    pub(crate) fn lower_debt(&self, debt: Duration) -> Option<u64> {
        lowered(self.tat, self.now, self.gcra.scale().to_units(saturating_nanos(debt)))
    }

    /// The TAT after a charge to `tat`, if that raises it.
    fn with_debt(&self, tat: u64, debt: Duration, at: Timestamp) -> Option<u64> {
        let debt = self.gcra.scale().to_units(saturating_nanos(debt));
        // Of the debt of a fresh key, part has drained before the quota came into force.
        let drained = if tat == 0 { self.time.lead(at) } else { 0 };
        let charged = charge(tat, self.time.point(at), debt.saturating_sub(drained));
        raised(self.tat, self.now, charged)
    }
}

impl Bucket for Gcra {
    type Terms = Self;

    fn scale(&self) -> Scale {
        self.scale
    }

    #[inline]
    fn view(&self, value: u64, now: u64) -> View {
        View { gcra: *self, time: Time::always(self.scale), tat: value, now }
    }
}

/// The debt up to which denied checks are charged, in units; at most what fits into a word above
/// the last instant.
fn ceiling(tau: u64, bursts: u64) -> u64 {
    tau.saturating_mul(bursts.saturating_add(1)).min(TAU_MAX)
}
