//! The most that is admitted in any interval while a quota changes.

use proptest::prelude::*;
use tidegate_engine::Clock as _;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::Inheritance;

use crate::live_change::{Oracle, any_quota, inheritance, limiter, whole_quota};

enum Event {
    Change(Timestamp, Oracle),
    Admitted(Timestamp, i128),
}

/// What is admitted from some moment on, and how much may be, in 1 / 10^9 of a unit, or of a
/// nanosecond where durations are kept.
struct Bound {
    how: Inheritance,
    at: Timestamp,
    quota: Oracle,
    bursts: i128,
    granted: i128,
    admitted: i128,
}

impl Bound {
    fn new(how: Inheritance, at: Timestamp, before: &[Event]) -> Self {
        let quota = before.iter().rev().find_map(|event| match event {
            Event::Change(_, quota) => Some(*quota),
            Event::Admitted(..) => None,
        });
        let quota = quota.unwrap();
        let bursts = Self::whole(how, quota);
        Self { how, at, quota, bursts, granted: 0, admitted: 0 }
    }

    /// A burst; a duration where durations are kept.
    fn whole(how: Inheritance, quota: Oracle) -> i128 {
        if how == Inheritance::Keep { quota.tau() } else { quota.burst }
    }

    fn pass(&mut self, now: Timestamp) {
        let nanos = now.since(self.at).as_nanos().cast_signed();
        let keep = self.how == Inheritance::Keep;
        // The intervals of these quotas divide a second.
        let rate = if keep { 1 } else { 1_000_000_000 / self.quota.interval };
        self.granted += nanos * rate;
        self.at = now;
    }

    fn change(&mut self, to: Oracle) {
        let (old, new) = (Self::whole(self.how, self.quota), Self::whole(self.how, to));
        self.bursts = match self.how {
            Inheritance::Keep => self.bursts.max(new),
            Inheritance::Reset => self.bursts + new,
            // What a lowered burst forgets comes on top.
            _ => self.bursts + (new - old).abs(),
        };
        self.quota = to;
    }

    fn hold_against(mut self, events: &[Event]) -> Result<(), TestCaseError> {
        let keep = self.how == Inheritance::Keep;
        for event in events {
            match *event {
                Event::Change(at, to) => {
                    self.pass(at);
                    self.change(to);
                }
                Event::Admitted(at, cost) => {
                    self.pass(at);
                    self.admitted += if keep { cost * self.quota.interval } else { cost };
                    let scale = if keep { 1 } else { 1_000_000_000 };
                    let most = self.bursts * scale + self.granted;
                    prop_assert!(self.admitted * scale <= most, "{} {most}", self.admitted);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Across changes of one kind, between any two checks: the bound that `Inheritance` states.
    #[test]
    fn every_interval_is_bounded_across_changes(
        quotas in prop::collection::vec(whole_quota(), 1..6),
        how in inheritance(),
        steps in prop::collection::vec((0_u32..9, 1_u64..30), 1..25),
    ) {
        let (limiter, clock) = limiter(quotas[0]);
        let mut log = Vec::new();
        for (epoch, quota) in quotas.iter().enumerate() {
            if epoch > 0 {
                limiter.set_quota(*quota, how).unwrap();
            }
            log.push(Event::Change(clock.now(), Oracle::new(*quota)));
            for (thirds, cost) in &steps {
                clock.advance(quota.debt_of(1) * *thirds / 3);
                if limiter.check_n("key", *cost).is_allowed() {
                    log.push(Event::Admitted(clock.now(), i128::from(*cost)));
                }
            }
        }
        for first in 0..log.len() {
            if let Event::Admitted(start, _) = log[first] {
                Bound::new(how, start, &log[..first]).hold_against(&log[first..])?;
            }
        }
    }

    /// From a change on, no more than the new quota, whatever was owed and however it is inherited.
    #[test]
    fn after_a_change_the_new_quota_bounds_what_is_admitted(
        quotas in prop::collection::vec((any_quota(), inheritance()), 2..6),
        steps in prop::collection::vec((0_u64..3, 1_u64..4), 1..40),
    ) {
        let (limiter, clock) = limiter(quotas[0].0);
        for (quota, how) in quotas {
            limiter.set_quota(quota, how).unwrap();
            let (at, mut sum) = (clock.now(), 0);
            for (intervals, cost) in &steps {
                clock.advance(quota.debt_of(*intervals));
                sum += if limiter.check_n("key", *cost).is_allowed() { *cost } else { 0 };
                // One unit, below 2 ns, is the error of an interval's length.
                let span = clock.now().since(at).as_nanos() + 2;
                let bound = u128::from(quota.burst_size()) * 1_000_000_000
                    + span * u128::from(quota.count());
                prop_assert!(u128::from(sum) * 1_000_000_000 <= bound);
            }
        }
    }
}
