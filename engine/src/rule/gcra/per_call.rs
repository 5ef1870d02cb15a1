//! Quotas that are given with the call, on the values of a limiter's own.

use crate::base::decision::Decision;
use crate::base::word::Update;
use crate::rule::algorithm::Algorithm;
use crate::rule::quota::Quota;
use crate::time::Timestamp;

use super::fractional::Fractional;
use super::terms::Terms;
use super::view::{Bucket, Time, View};
use super::{Gcra, Scale, Tat};

/// A limiter's own algorithm, on whose values a quota passed with the call can also decide.
pub trait PerCallQuotas: Bucket {
    /// The quota on this one's values.
    type PerCall<'a>: Bucket<State = Self::State>
    where
        Self: 'a;

    /// The quota, given its `rounded` form in [`Bucket::scale`]. It denies everything if the scale
    /// has changed since and it cannot be enforced in the new one.
    fn per_call<'a>(&'a self, quota: &'a Quota, rounded: &Gcra) -> Self::PerCall<'a>;

    /// The rounded quota, if it decides exactly as [`PerCallQuotas::per_call`] would.
    fn plain(rounded: &Gcra) -> Option<&Self>;
}

/// As [`PerCallQuotas::per_call`], rounded in the present scale. A quota that cannot be enforced
/// there denies everything: it could be enforced in the scale in which it was first given.
pub(crate) fn per_call<'a, A: PerCallQuotas>(algorithm: &'a A, quota: &'a Quota) -> A::PerCall<'a> {
    let scale = algorithm.scale();
    let rounded = Gcra::in_scale(quota, scale).unwrap_or_else(|_| Gcra::blocked(scale));
    algorithm.per_call(quota, &rounded)
}

impl PerCallQuotas for Gcra {
    type PerCall<'a> = Scaled;

    fn per_call<'a>(&'a self, quota: &'a Quota, rounded: &Gcra) -> Scaled {
        Scaled::of(quota, rounded)
    }

    #[inline]
    fn plain(rounded: &Gcra) -> Option<&Self> {
        (!rounded.rounded).then_some(rounded)
    }
}

/// A quota passed with the call, in the units of another quota's scale.
#[derive(Clone, Copy, Debug)]
pub struct Scaled {
    rounded: Gcra,
    /// `None` if the rounded one is as good.
    fractional: Option<Fractional>,
}

/// What the quota's fractional form returns, or else its rounded one.
macro_rules! either {
    ($scaled:expr, $it:ident => $result:expr) => {
        match &$scaled.fractional {
            Some($it) => $result,
            None => {
                let $it = &$scaled.rounded;
                $result
            }
        }
    };
}

impl Scaled {
    /// The quota, given its `rounded` form in the scale.
    pub(crate) fn of(quota: &Quota, rounded: &Gcra) -> Self {
        Self { rounded: *rounded, fractional: Fractional::of(quota, rounded) }
    }

    /// The quota in the scale; if it cannot be enforced there, one that denies everything.
    #[cfg(feature = "std")]
    pub(crate) fn or_blocked(quota: &Quota, scale: Scale) -> Self {
        let rounded = Gcra::in_scale(quota, scale).unwrap_or_else(|_| Gcra::blocked(scale));
        Self::of(quota, &rounded)
    }

    /// The quota with its interval rounded up to a whole unit.
    #[cfg(feature = "std")]
    pub(crate) const fn rounded(&self) -> &Gcra {
        &self.rounded
    }
}

impl Bucket for Scaled {
    type Terms = Self;

    fn scale(&self) -> Scale {
        self.rounded.scale
    }

    fn view(&self, value: u64, now: u64) -> View<Self> {
        View { gcra: *self, time: Time::always(self.rounded.scale), tat: value, now }
    }
}

impl Terms for Scaled {
    fn scale(&self) -> Scale {
        self.rounded.scale
    }

    fn tau(&self) -> u64 {
        either!(self, it => it.tau)
    }

    fn interval(&self) -> u64 {
        self.rounded.interval
    }

    fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64> {
        either!(self, it => it.admit_by(tat, now, cost, max_wait))
    }

    fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision {
        either!(self, it => it.answer_by(update, cost, max_wait))
    }
}

impl Algorithm for Scaled {
    type State = Tat;

    fn state(&self) -> Tat {
        Tat
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        self.rounded.scale.instant(now)
    }

    #[inline]
    fn admit(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        either!(self, it => it.admit(tat, now, cost))
    }

    fn charge(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        either!(self, it => Algorithm::charge(it, tat, now, cost))
    }

    fn charge_denied(&self, tat: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        self.view(tat, now).charge_denied(cost, bursts)
    }

    fn refund(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        either!(self, it => it.refund(tat, now, cost))
    }

    fn give_back(&self, tat: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        either!(self, it => it.give_back(tat, now, cost, charged))
    }

    fn owes_beyond(&self, tat: u64, now: u64, tolerance: u64) -> bool {
        self.rounded.owes_beyond(tat, now, tolerance)
    }

    fn reset(&self, tat: u64, now: u64) -> Option<u64> {
        super::reset(tat, now)
    }

    fn can_fit(&self, cost: u64) -> bool {
        self.rounded.can_fit(cost)
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        either!(self, it => it.answer(update, cost))
    }
}
