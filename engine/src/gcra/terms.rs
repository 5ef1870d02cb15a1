//! What decides on a TAT: a limiter's own quota, or one that is given with the call.

use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::quota::Quota;
use crate::rule::Algorithm;
use crate::table::Update;

use super::view::{Bucket, Time, View};
use super::{Fractional, Gcra, Scale, Tat};

/// A quota in the units of one scale.
pub trait Terms: Algorithm<State = Tat> + Copy {
    fn scale(&self) -> Scale;

    /// The burst tolerance, in units.
    fn tau(&self) -> u64;

    /// As [`Gcra::admit_by`].
    fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64>;

    /// As [`Gcra::answer_by`].
    fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision;

    /// How long after `now` a charge that made the TAT `charged` starts.
    fn wait(&self, charged: u64, now: u64) -> u64 {
        charged.saturating_sub(now + self.tau())
    }
}

impl Terms for Gcra {
    #[inline]
    fn scale(&self) -> Scale {
        self.scale
    }

    #[inline]
    fn tau(&self) -> u64 {
        self.tau
    }

    fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64> {
        self.admit_by(tat, now, cost, max_wait)
    }

    fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision {
        self.answer_by(update, cost, max_wait)
    }
}

/// A limiter's own algorithm, under which a key can also be asked by a quota that is given with the call.
pub trait Plans: Bucket {
    /// The quota on this one's values.
    type Given<'a>: Bucket<State = Self::State>
    where
        Self: 'a;

    /// The quota, given that it was `rounded` in [`Bucket::scale`]. Where the scale has changed since, and it can not be
    /// enforced in the new one, it denies everything.
    fn given<'a>(&'a self, quota: &'a Quota, rounded: &Gcra) -> Self::Given<'a>;

    /// The rounded quota, where it decides just as [`Plans::given`] would.
    fn plain(rounded: &Gcra) -> Option<&Self>;
}

/// As [`Plans::given`], rounded now. A quota that can not be enforced in the present scale denies everything: it could
/// be in the one in which it was first given.
pub(crate) fn given<'a, A: Plans>(algorithm: &'a A, quota: &'a Quota) -> A::Given<'a> {
    let scale = algorithm.scale();
    let rounded = Gcra::in_scale(quota, scale).unwrap_or_else(|_| Gcra::blocked(scale));
    algorithm.given(quota, &rounded)
}

impl Plans for Gcra {
    type Given<'a> = Scaled;

    fn given<'a>(&'a self, quota: &'a Quota, rounded: &Gcra) -> Scaled {
        Scaled::of(quota, rounded)
    }

    #[inline]
    fn plain(rounded: &Gcra) -> Option<&Self> {
        (!rounded.rounded).then_some(rounded)
    }
}

/// A quota given with the call, in the units of a scale that was made for another one.
#[derive(Clone, Copy, Debug)]
pub struct Scaled {
    rounded: Gcra,
    /// `None` where the rounded one is as good.
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
    /// The quota, given that it is `rounded` in the scale.
    pub(crate) fn of(quota: &Quota, rounded: &Gcra) -> Self {
        Self { rounded: *rounded, fractional: Fractional::of(quota, rounded) }
    }

    /// The quota in the scale; one that denies everything where it can not be enforced there.
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
