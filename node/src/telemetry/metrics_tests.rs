use std::sync::Arc;

use tidegate_engine::{OverflowPolicy, Quota};

use super::{Format, Metrics};
use crate::config::file::LimitConfig;
use crate::limits::gossip::{Gossip, Limiter};
use crate::limits::limiters::Limiters;

/// More keys than the smallest table has slots, each fresh only after hours.
const KEYS: u64 = 40_000;

fn full(overflow: OverflowPolicy) -> Arc<Limiter> {
    let limiter = tidegate_engine::Limiter::builder(Quota::per_hour(1)).observer(None);
    let limiter = limiter.capacity(1).overflow_policy(overflow).build().unwrap();
    for key in 0..KEYS {
        let _ = limiter.check(key);
    }
    Arc::new(limiter)
}

/// The value of a sample.
fn sample(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap_or_else(|| panic!("{name} in\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_a_full_table_did_is_counted_by_limit_and_outcome() {
    let policies = [
        ("evicted", OverflowPolicy::EvictLeastDebt),
        ("denied", OverflowPolicy::Deny),
        ("allowed", OverflowPolicy::Allow),
    ];
    let limits: Vec<_> =
        policies.iter().map(|(name, policy)| ((*name).to_owned(), full(*policy))).collect();
    let text = Metrics::new(limits.clone(), Gossip::alone()).render(Format::Classic);
    let name = |limit: &str, outcome: &str| {
        format!("tidegate_overflow_total{{limit=\"{limit}\",outcome=\"{outcome}\"}}")
    };
    let outcomes = ["evicted", "denied", "allowed", "charge_dropped"];
    for (limit, limiter) in limits {
        for outcome in outcomes {
            let count = sample(&text, &name(&limit, outcome));
            assert_eq!(count > 0, limit == outcome, "{limit}, {outcome}: {count}");
        }
        let counts = limiter.overflow();
        let counted = counts.evicted + counts.denied + counts.allowed;
        assert_eq!(sample(&text, &name(&limit, &limit)), counted);
        let fallback = u64::from(limiter.clock().is_fallback());
        assert_eq!(sample(&text, "tidegate_clock_fallback"), fallback);
    }
}

#[test]
fn each_limit_has_the_policy_of_its_configuration() {
    let config = |name: &str, overflow| LimitConfig {
        name: name.to_owned(),
        quota: Quota::per_second(1),
        overflow,
    };
    let limits = [config("deny", OverflowPolicy::Deny), config("allow", OverflowPolicy::Allow)];
    let limiters =
        Limiters::build(&limits, &Gossip::alone(), &tidegate_engine::KeyHasher::siphash([0; 16]))
            .unwrap();
    let policies: Vec<_> =
        limiters.named.iter().map(|(_, limiter)| limiter.overflow_policy()).collect();
    assert_eq!(policies, [OverflowPolicy::Deny, OverflowPolicy::Allow]);
    assert_eq!(limiters.inline.overflow_policy(), OverflowPolicy::EvictLeastDebt);
}
