//! Quotas given with a call, on the values of a quota that changes.

use crate::base::decision::Decision;
use crate::base::word::Update;
use crate::rule::algorithm::Algorithm;
use crate::rule::gcra::ring;
use crate::rule::gcra::{Bucket, Scale, Scaled, View};
use crate::rule::quota::Quota;
use crate::time::Timestamp;

use super::{LiveGcra, LiveTat, answer_across, full, in_terms, value_of};

/// A quota given with the call. Debt is carried over as under the quota in force, and kept as a
/// duration between the two quotas.
#[derive(Debug)]
pub struct LivePerCall<'a> {
    live: &'a LiveGcra,
    quota: &'a Quota,
    scaled: Scaled,
}

impl<'a> LivePerCall<'a> {
    /// The quota, and the same quota `scaled` to the quota in force.
    pub(super) const fn new(live: &'a LiveGcra, quota: &'a Quota, scaled: Scaled) -> Self {
        Self { live, quota, scaled }
    }

    #[inline]
    fn in_scale(&self, scale: Scale) -> Scaled {
        if scale == self.scaled.rounded().scale() { self.scaled } else { self.rescaled(scale) }
    }

    #[inline]
    fn in_view(&self, View { time, tat, now, .. }: View) -> View<Scaled> {
        View { gcra: self.in_scale(time.scale), time, tat, now }
    }

    /// As [`LiveGcra::view_word`].
    #[inline]
    fn view_word(&self, value: u64, now: u64) -> View<Scaled> {
        self.in_view(self.live.view_word(value, now))
    }

    /// The quota rescaled after a change. One whose burst takes close to the longest time may not
    /// be enforceable in the other scale: then it denies everything.
    #[cold]
    fn rescaled(&self, scale: Scale) -> Scaled {
        Scaled::or_blocked(self.quota, scale)
    }
}

impl Bucket for LivePerCall<'_> {
    type Terms = Scaled;

    fn scale(&self) -> Scale {
        self.live.scale()
    }

    #[inline]
    fn view(&self, value: u64, now: u64) -> View<Scaled> {
        self.in_view(self.live.view(value, now))
    }
}

impl Algorithm for LivePerCall<'_> {
    type State = LiveTat;

    const CHANGES: bool = true;

    fn state(&self) -> LiveTat {
        self.live.state()
    }

    fn instant(&self, now: Timestamp) -> u64 {
        self.live.instant(now)
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, time, tat, now } = self.view_word(value, now);
        gcra.admit(tat, now, cost).map(|tat| value_of(time, tat))
    }

    fn admit_up_to(&self, value: u64, now: u64, cost: u64) -> Option<(u64, u64)> {
        let View { gcra, time, tat, now } = self.view_word(value, now);
        let (units, tat) = gcra.admit_up_to(tat, now, cost)?;
        Some((units, value_of(time, tat)))
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let view = self.view_word(value, now);
        view.gcra.charge(view.tat, view.now, cost).map(|tat| view.value(tat))
    }

    fn charge_denied(&self, value: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        let view = self.view_word(value, now);
        view.charge_denied(cost, bursts).map(|tat| view.value(tat))
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, time, tat, now } = self.view_word(value, now);
        gcra.refund(tat, now, cost).map(|tat| value_of(time, tat))
    }

    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        let View { gcra, time, tat, now } = self.view_word(value, now);
        // Nothing of a charge from before a change is given back.
        let charged = ring::whole_tat(time.floor, charged)?;
        gcra.give_back(tat, now, cost, charged).map(|tat| value_of(time, tat))
    }

    fn owes_beyond(&self, value: u64, now: u64, tolerance: u64) -> bool {
        self.live.owes_beyond(value, now, tolerance)
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        self.live.reset(value, now)
    }

    fn can_fit(&self, cost: u64) -> bool {
        self.scaled.can_fit(cost)
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        let (value, now) = match update {
            Update::Written { before: value, now } | Update::Unchanged { found: value, now } => {
                (value, now)
            }
            Update::Full { fresh_from, now, admitted } => {
                return full(self.scaled.rounded(), fresh_from, now, admitted);
            }
        };
        let View { gcra, tat, now, .. } = self.view(value, now);
        answer_across(&gcra, gcra.rounded(), in_terms(update, tat, now), cost)
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use core::time::Duration;

    use super::super::tests::TestWord;
    use super::super::{Inheritance, LiveQuota};
    use super::*;
    use crate::rule::Rule as _;
    use crate::rule::gcra;

    /// The quotas in force count time in units of 5/3 ns and of 1 ns.
    #[test]
    fn a_quota_given_before_a_change_is_the_same_after_it() {
        let live = LiveQuota::new(Quota::per_second(600_000_000)).algorithm().unwrap();
        let quota = Quota::per_second(1_000).burst(4);
        let given = gcra::per_call(&live, &quota);
        let at = |micros| Timestamp::ORIGIN.saturating_add(Duration::from_micros(micros));
        let word = TestWord::new(given.admit(0, given.instant(at(0)), 3).unwrap());
        live.change(Quota::per_second(1), Inheritance::Keep, &word, || at(0)).unwrap();
        // What a change makes of debt is rounded up, by less than a microsecond.
        let value = given.admit(word.get(), given.instant(at(1)), 1).unwrap();
        let now = given.instant(at(900));
        assert_eq!(given.admit(value, now, 1), None);
        let denied = given.answer(Update::Unchanged { found: value, now }, 1);
        assert_eq!(denied.retry_after().map(|wait| wait.as_micros()), Some(100));
        assert!(given.admit(value, given.instant(at(1_001)), 1).is_some());
    }
}
