use core::cell::Cell;
use core::time::Duration;

use super::{Inheritance, LiveQuota, Words};
use crate::base::word::State as _;
use crate::rule::Rule as _;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::quota::Quota;
use crate::time::Timestamp;

fn at(millis: u64) -> Timestamp {
    Timestamp::ORIGIN.saturating_add(Duration::from_millis(millis))
}

/// One word.
pub(super) struct TestWord(Cell<u64>);

impl TestWord {
    pub(super) fn new(value: u64) -> Self {
        Self(Cell::new(value))
    }

    pub(super) fn get(&self) -> u64 {
        self.0.get()
    }
}

impl Words for TestWord {
    fn highest(&self, tat: impl Fn(u64) -> u64) -> u64 {
        tat(self.get())
    }

    fn convert(&self, convert: impl Fn(u64) -> Option<u64>) {
        self.0.set(convert(self.get()).unwrap_or(self.get()));
    }
}

/// Words of which a change sees nothing before it is over.
struct Late<'a>(&'a dyn Fn());

impl Words for Late<'_> {
    fn highest(&self, _: impl Fn(u64) -> u64) -> u64 {
        0
    }

    fn convert(&self, _: impl Fn(u64) -> Option<u64>) {
        self.0();
    }
}

/// Also before the sweep has rewritten it: a new key must not take its slot. And of two keys
/// the one that owes less is evicted, on whichever side of a change it was charged.
#[test]
fn a_value_from_before_a_change_is_live_until_its_debt_has_drained() {
    let quota = Quota::per_second(1).burst(5);
    let gcra = LiveQuota::new(quota).algorithm().unwrap();
    let state = gcra.state();
    let now = gcra.instant(at(0));
    let [little, value, much] = [1, 3, 4].map(|cost| gcra.admit(0, now, cost).unwrap());
    let seen = || {
        assert!(state.fresh_from(value) > gcra.instant(at(2_999)));
        assert_eq!(state.fresh_from(value), gcra.instant(at(3_000)));
        assert_eq!(state.fresh_from(0), 0);
        let between = gcra.admit(0, gcra.instant(at(1_000)), 1).unwrap();
        let ranks = [little, between, value, much].map(|value| state.rank(value));
        assert!(ranks.is_sorted(), "{ranks:?}");
    };
    gcra.change(quota, Inheritance::Keep, &Late(&seen), || at(1_000)).unwrap();
}
