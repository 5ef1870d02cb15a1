//! A limiter without keys whose quota changes, against a keyed one on one key: each answer is the
//! same, so the oracles of `live_change.rs` and `live_calls.rs` cover it too.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::{
    DirectLimiter, Limiter, LiveQuota, ManualClock, Quota, QuotaError, Reservation,
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Check(u64),
    Charge(u64),
    Refund(u64),
    Reset,
    Reserve(u64),
    Settle(usize, u64),
    Change(Quota, Inheritance),
}

fn any_quota() -> impl Strategy<Value = Quota> {
    prop_oneof![
        8 => (1_u64..1_000_000_000, 1_u64..20)
            .prop_map(|(count, burst)| Quota::per_second(count).burst(burst)),
        4 => (1_u64..60, 1_u64..20)
            .prop_map(|(count, burst)| Quota::per_minute(count).burst(burst)),
        1 => Just(Quota::blocked()),
        1 => Just(Quota::unlimited()),
        1 => Just(Quota::strict(9, Duration::from_secs(1), 4)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(u32, u64, Step)>> {
    let how = prop_oneof![
        Just(Inheritance::Proportional),
        Just(Inheritance::Keep),
        Just(Inheritance::Reset)
    ];
    let step = prop_oneof![
        6 => (0_u64..22).prop_map(Step::Check),
        1 => (0_u64..40).prop_map(Step::Charge),
        1 => (0_u64..9).prop_map(Step::Refund),
        1 => Just(Step::Reset),
        2 => (0_u64..9).prop_map(Step::Reserve),
        2 => (any::<usize>(), 0_u64..12).prop_map(|(which, used)| Step::Settle(which, used)),
        2 => (any_quota(), how).prop_map(|(quota, how)| Step::Change(quota, how)),
    ];
    prop::collection::vec((0_u32..7, 0_u64..3, step), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_answer_is_that_of_a_key(first in any_quota(), steps in steps()) {
        let clock = ManualClock::new();
        let rule = LiveQuota::new(first);
        let keyed = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
        let single = DirectLimiter::builder(rule).clock(clock.clone()).build().unwrap();
        let mut reserved: Vec<[Reservation<'_>; 2]> = Vec::new();
        for (thirds, nanos, step) in steps {
            clock.advance(single.quota().debt_of(1) * thirds / 3 + Duration::from_nanos(nanos));
            match step {
                Step::Check(cost) => {
                    prop_assert_eq!(keyed.check_n("key", cost), single.check_n(cost));
                }
                Step::Charge(cost) => {
                    prop_assert_eq!(keyed.charge("key", cost), single.charge(cost));
                }
                Step::Refund(cost) => {
                    keyed.refund("key", cost);
                    single.refund(cost);
                }
                Step::Reset => {
                    keyed.reset("key");
                    single.reset();
                }
                Step::Reserve(cost) => match (keyed.reserve("key", cost), single.reserve(cost)) {
                    (Ok(keyed), Ok(single)) => reserved.push([keyed, single]),
                    (Err(keyed), Err(single)) => prop_assert_eq!(keyed, single),
                    (keyed, single) => prop_assert!(false, "{keyed:?} {single:?}"),
                },
                Step::Settle(which, used) if !reserved.is_empty() => {
                    let [keyed, single] = reserved.remove(which % reserved.len());
                    prop_assert_eq!(keyed.commit(used), single.commit(used));
                }
                Step::Settle(..) => {}
                Step::Change(quota, how) => {
                    prop_assert_eq!(keyed.set_quota(quota, how), single.set_quota(quota, how));
                    prop_assert_eq!(single.quota(), quota);
                }
            }
            prop_assert_eq!(keyed.peek("key"), single.peek());
        }
    }
}

#[test]
fn a_quota_that_cannot_be_enforced_changes_nothing() {
    let first = Quota::per_second(5);
    let single = DirectLimiter::new(LiveQuota::new(first)).unwrap();
    assert!(single.check_n(2).is_allowed());
    let refused = single.set_quota(Quota::per_second(5).burst(0), Inheritance::Reset);
    assert_eq!(refused, Err(QuotaError::ZeroBurst));
    assert_eq!((single.quota(), single.rule().quota()), (first, first));
    assert!(!single.check_n(5).is_allowed());
}

/// Time stands still: what is admitted while the quota is raised and lowered is the burst plus what
/// the changes forget.
#[test]
fn threads_check_while_the_quota_changes() {
    let quota = |burst| Quota::per_second(1).burst(burst);
    let rule = LiveQuota::new(quota(1_000));
    let single = DirectLimiter::builder(rule).clock(ManualClock::new()).build().unwrap();
    let admitted: u64 = std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| {
            scope.spawn(|| (0..20_000).map(|_| u64::from(single.check().is_allowed())).sum::<u64>())
        });
        for change in 0..500 {
            single.set_quota(quota(1_000 + change % 2), Inheritance::Proportional).unwrap();
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Each cut forgets a unit.
    assert!((1_000..=1_250).contains(&admitted), "{admitted}");
}
