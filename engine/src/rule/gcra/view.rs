//! A key's value in terms of the quota in force: what quotas that change have in common with those
//! that do not.

use core::time::Duration;

use crate::rule::algorithm::Algorithm;
use crate::time::{Timestamp, saturating_nanos};

use super::{Gcra, NOW_MAX, Scale, TAU_MAX, Terms, charge, raised};

/// Algorithms whose values are theoretical arrival times.
pub trait Bucket: Algorithm {
    /// What decides on a value, given as a TAT.
    type Terms: Terms;

    /// The scale of charges from here on.
    fn scale(&self) -> Scale;

    /// The value, and a `now` that may precede a change of the quota, in terms of the quota in
    /// force.
    fn view(&self, value: u64, now: u64) -> View<Self::Terms>;
}

/// How the values of a quota count time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub(crate) scale: Scale,
    /// The first instant at which the quota is in force: no value made under it is below.
    pub(crate) floor: u64,
    /// The clock's reading then, in units.
    pub(crate) base: u64,
}

impl Time {
    /// For a quota that has always been in force.
    #[inline]
    pub(crate) const fn always(scale: Scale) -> Self {
        Self { scale, floor: 0, base: 0 }
    }

    /// A point in time, which may precede the quota. Never beyond `NOW_MAX`.
    #[inline]
    pub(crate) fn point(self, at: Timestamp) -> u64 {
        let point = self.floor.saturating_add(self.scale.to_units(at.as_nanos()));
        point.saturating_sub(self.base).min(NOW_MAX)
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

impl<T: Terms> View<T> {
    /// How long before `now` a reading of the clock was, in units.
    pub(crate) fn since(&self, reading: Timestamp) -> u64 {
        self.now.saturating_sub(self.time.point(reading))
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

    /// The value after charging debt that was consumed at `at`; `None` if it does not change.
    pub(crate) fn charge_debt(&self, debt: Duration, at: Timestamp) -> Option<u64> {
        self.with_debt(self.tat, debt, at)
    }

    /// The value of a key that has at least this debt at `at`; `None` if it does not change.
    pub(crate) fn raise_debt(&self, debt: Duration, at: Timestamp) -> Option<u64> {
        self.with_debt(0, debt, at)
    }

    /// The value after a charge to `tat`, if that raises it.
    fn with_debt(&self, tat: u64, debt: Duration, at: Timestamp) -> Option<u64> {
        let debt = self.gcra.scale().to_units(saturating_nanos(debt));
        raised(self.tat, self.now, charge(tat, self.time.point(at), debt))
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
