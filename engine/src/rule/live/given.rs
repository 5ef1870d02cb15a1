//! Quotas given with a call, on the values of a quota that changes.

use crate::base::decision::Decision;
use crate::base::word::Update;
use crate::rule::algorithm::Algorithm;
use crate::rule::gcra::{self, Bucket, Scale, Scaled, View};
use crate::rule::quota::Quota;
use crate::time::Timestamp;

use super::{LiveGcra, LiveTat, answer_across};

/// A quota given with the call. Debt is carried over as under the quota in force, and kept as a
/// duration between the two quotas.
#[derive(Debug)]
pub struct Given<'a> {
    live: &'a LiveGcra,
    quota: &'a Quota,
    scaled: Scaled,
}

impl<'a> Given<'a> {
    /// The quota, and the same quota `scaled` to the quota in force.
    pub(super) const fn new(live: &'a LiveGcra, quota: &'a Quota, scaled: Scaled) -> Self {
        Self { live, quota, scaled }
    }

    #[inline]
    fn in_scale(&self, scale: Scale) -> Scaled {
        if scale == self.scaled.rounded().scale() { self.scaled } else { self.rescaled(scale) }
    }

    /// The quota rescaled after a change. One whose burst takes close to the longest time may not
    /// be enforceable in the other scale: then it denies everything.
    #[cold]
    fn rescaled(&self, scale: Scale) -> Scaled {
        Scaled::or_blocked(self.quota, scale)
    }
}

impl Bucket for Given<'_> {
    type Terms = Scaled;

    fn scale(&self) -> Scale {
        self.live.scale()
    }

    #[inline]
    fn view(&self, value: u64, now: u64) -> View<Scaled> {
        let View { time, tat, now, .. } = self.live.view(value, now);
        View { gcra: self.in_scale(time.scale), time, tat, now }
    }
}

impl Algorithm for Given<'_> {
    type State = LiveTat;

    fn state(&self) -> LiveTat {
        self.live.state()
    }

    fn instant(&self, now: Timestamp) -> u64 {
        self.live.instant(now)
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.admit(tat, now, cost)
    }

    fn admit_up_to(&self, value: u64, now: u64, cost: u64) -> Option<(u64, u64)> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.admit_up_to(tat, now, cost)
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.charge(tat, now, cost)
    }

    fn charge_denied(&self, value: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        self.view(value, now).charge_denied(cost, bursts)
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        gcra.refund(tat, now, cost)
    }

    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        let View { gcra, time, tat, now } = self.view(value, now);
        // Nothing of a charge from before a change is given back.
        if charged < time.floor { None } else { gcra.give_back(tat, now, cost, charged) }
    }

    fn owes_beyond(&self, value: u64, now: u64, tolerance: u64) -> bool {
        self.live.owes_beyond(value, now, tolerance)
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        let View { tat, now, .. } = self.live.view(value, now);
        gcra::reset(tat, now)
    }

    fn can_fit(&self, cost: u64) -> bool {
        self.scaled.can_fit(cost)
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        let (view, update) = self.live.seen(update);
        let scaled = self.in_scale(view.time.scale);
        answer_across(&scaled, scaled.rounded(), update, cost)
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use core::time::Duration;

    use super::super::{Inheritance, LiveQuota};
    use super::*;
    use crate::rule::Rule as _;

    /// The quotas in force count time in units of 5/3 ns and of 1 ns.
    #[test]
    fn a_quota_given_before_a_change_is_the_same_after_it() {
        let live = LiveQuota::new(Quota::per_second(600_000_000)).algorithm().unwrap();
        let quota = Quota::per_second(1_000).burst(4);
        let given = gcra::given(&live, &quota);
        let at = |micros| Timestamp::ORIGIN.saturating_add(Duration::from_micros(micros));
        let value = given.admit(0, given.instant(at(0)), 3).unwrap();
        let change = live.change();
        change.publish(Quota::per_second(1), Inheritance::Keep, at(0), value).unwrap();
        drop(change);
        // What a change makes of debt is rounded up, by less than a microsecond.
        let value = given.admit(value, given.instant(at(1)), 1).unwrap();
        let now = given.instant(at(900));
        assert_eq!(given.admit(value, now, 1), None);
        let denied = given.answer(Update::Unchanged { found: value, now }, 1);
        assert_eq!(denied.retry_after().map(|wait| wait.as_micros()), Some(100));
        assert!(given.admit(value, given.instant(at(1_001)), 1).is_some());
    }
}
