//! A key's value in terms of the quota in force: what quotas that change have in common with those that
//! stay.

use core::time::Duration;

use crate::clock::{Timestamp, saturating_nanos};
use crate::rule::Algorithm;

use super::{Gcra, NOW_MAX, Scale, Terms, charge, raised};

/// Algorithms whose values are theoretical arrival times.
pub trait Bucket: Algorithm {
    /// What decides on a value once it is known as a TAT.
    type Terms: Terms;

    /// The scale of what is charged from here on.
    fn scale(&self) -> Scale;

    /// The value, and a `now` that may be from before a change of the quota, in terms of the quota in
    /// force.
    fn view(&self, value: u64, now: u64) -> View<Self::Terms>;
}

/// How the values of a quota count time.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub(crate) scale: Scale,
    /// The first instant at which the quota is in force: no value of its own is below it.
    pub(crate) floor: u64,
    /// What the clock showed then, in units.
    pub(crate) base: u64,
}

impl Time {
    /// Of a quota that has always been in force.
    #[inline]
    pub(crate) const fn always(scale: Scale) -> Self {
        Self { scale, floor: 0, base: 0 }
    }

    /// A point in time, which may lie before the quota came into force. Never beyond `NOW_MAX`.
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

    /// The debt, rounded up to a nanosecond; `None` for none.
    pub(crate) fn debt(&self) -> Option<Duration> {
        let debt = self.tat.saturating_sub(self.now);
        (debt > 0).then(|| Duration::from_nanos(self.gcra.scale().to_nanos(debt)))
    }

    /// The value after charging debt that was consumed at `at`; `None` when it stays.
    pub(crate) fn charge_debt(&self, debt: Duration, at: Timestamp) -> Option<u64> {
        self.told(self.tat, debt, at)
    }

    /// The value of a key that has at least this debt at `at`; `None` when it stays.
    pub(crate) fn raise_debt(&self, debt: Duration, at: Timestamp) -> Option<u64> {
        self.told(0, debt, at)
    }

    fn told(&self, tat: u64, debt: Duration, at: Timestamp) -> Option<u64> {
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
