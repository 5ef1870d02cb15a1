//! What decides on a TAT: a limiter's own quota, or one that is given with the call.

use crate::base::decision::Decision;
use crate::base::word::Update;
use crate::rule::algorithm::Algorithm;

use super::{Gcra, Scale, Tat};

/// A quota in the units of one scale.
pub trait Terms: Algorithm<State = Tat> + Copy {
    fn scale(&self) -> Scale;

    /// The burst tolerance, in units.
    fn tau(&self) -> u64;

    /// The debt of one unit of the quota, in units of time, rounded up to a whole one.
    fn interval(&self) -> u64;

    /// As [`Gcra::admit_by`].
    fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64>;

    /// As [`Gcra::answer_by`].
    fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision;

    /// The time from `now` to the start of the charge that made the TAT `charged`.
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

    fn interval(&self) -> u64 {
        self.interval
    }

    fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64> {
        self.admit_by(tat, now, cost, max_wait)
    }

    fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision {
        self.answer_by(update, cost, max_wait)
    }
}
