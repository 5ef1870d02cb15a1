//! What happens to keys for which there is no slot, under each policy.

use std::env;
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, Limiter, ManualClock, OverflowPolicy, Quota};

type Manual = Limiter<Quota, ManualClock>;

const QUOTA: Quota = Quota::per_minute(60).burst(5);

/// A limiter of 16 384 slots.
fn limiter(policy: OverflowPolicy) -> (Manual, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(QUOTA).capacity(13_107).overflow_policy(policy);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

/// Evicted, denied, allowed, dropped.
fn counts(limiter: &Manual) -> [u64; 4] {
    let counts = limiter.overflow();
    [counts.evicted, counts.denied, counts.allowed, counts.charges_dropped]
}

/// Checks this many keys, each at another time, that new keys find no slot for a while; returns one
/// that finds none, although it has no debt.
fn fill(limiter: &Manual, clock: &ManualClock) -> u64 {
    for key in 0..40_000 {
        clock.advance(Duration::from_micros(1));
        let _ = limiter.check(key);
    }
    let live: Vec<_> = limiter.live().map(|(key, _)| key).collect();
    assert!(live.len() > limiter.capacity());
    (0..40_000).find(|key| !live.contains(&limiter.hash(*key))).unwrap()
}

#[test]
fn deny_denies_until_a_place_is_free() {
    let (limiter, clock) = limiter(OverflowPolicy::Deny);
    let key = fill(&limiter, &clock);
    let before = counts(&limiter)[1];
    assert!(before > 0);
    let denied = limiter.check(key);
    assert!(!denied.is_allowed());
    assert_eq!((denied.limit(), denied.remaining()), (5, 0));
    let wait = denied.retry_after().unwrap();
    assert_eq!(wait, denied.reset_after());
    assert!(Duration::ZERO < wait && wait < Duration::from_secs(1), "{wait:?}");
    assert_eq!(counts(&limiter), [0, before + 1, 0, 0]);

    // Neither too late nor too early.
    clock.advance(wait.saturating_sub(Duration::from_nanos(1)));
    assert_eq!(limiter.check_n(key, 5).retry_after(), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check_n(key, 5).is_allowed());
    assert!(!limiter.check(key).is_allowed(), "it is charged like any other");
    assert_eq!(counts(&limiter), [0, before + 2, 0, 0]);
}

#[test]
fn deny_and_allow_evict_no_key() {
    for policy in [OverflowPolicy::Deny, OverflowPolicy::Allow] {
        let (limiter, clock) = limiter(policy);
        fill(&limiter, &clock);
        let mut before: Vec<_> = limiter.live().collect();
        for key in 0..40_000 {
            let _ = limiter.check(1_000_000 + key);
        }
        before.sort_unstable();
        let mut after: Vec<_> = limiter.live().collect();
        after.sort_unstable();
        // Some keys may have found the last slots, none has lost its own.
        after.retain(|entry| before.binary_search(entry).is_ok());
        assert_eq!(before.len(), after.len());
        assert_eq!(limiter.overflow().evicted, 0);
        assert_eq!(limiter.overflow_policy(), policy);
    }
}

#[test]
fn allow_admits_without_a_charge() {
    let (limiter, clock) = limiter(OverflowPolicy::Allow);
    let key = fill(&limiter, &clock);
    let before = counts(&limiter)[2];
    assert!(before > 0);
    for _ in 0..10 {
        let decision = limiter.check_n(key, 5);
        assert!(decision.is_allowed());
        assert_eq!((decision.remaining(), decision.reset_after()), (5, Duration::ZERO));
    }
    assert!(!limiter.check_n(key, 6).is_allowed(), "what exceeds the burst never fits");
    assert_eq!(counts(&limiter), [0, 0, before + 10, 0]);
}

#[test]
fn evict_makes_room_for_everybody_and_counts_each_loss() {
    let (limiter, _) = limiter(OverflowPolicy::EvictLeastDebt);
    for key in 0..40_000 {
        assert!(limiter.check(key).is_allowed());
    }
    let evicted = limiter.evicted();
    assert_eq!(counts(&limiter), [evicted, 0, 0, 0]);
    assert_eq!(limiter.live().count() as u64 + evicted, 40_000);
}

#[test]
fn remote_debt_is_dropped_and_counted_where_no_key_is_evicted() {
    for policy in [OverflowPolicy::Deny, OverflowPolicy::Allow] {
        let (limiter, clock) = limiter(policy);
        let key = fill(&limiter, &clock);
        let (hash, live) = (limiter.hash(key), limiter.live().count());
        let [evicted, denied, allowed, dropped] = counts(&limiter);
        assert_eq!((evicted, dropped), (0, 0));
        limiter.charge_debt(hash, Duration::from_secs(9), clock.now());
        limiter.raise_debt(hash, Duration::from_secs(9));
        assert_eq!(counts(&limiter), [0, denied, allowed, 2]);
        // Debt that has drained needs no slot.
        limiter.charge_debt(hash, Duration::from_nanos(1), Timestamp::ORIGIN);
        assert_eq!(counts(&limiter), [0, denied, allowed, 2]);
        assert_eq!(limiter.live().count(), live);
    }
}

#[test]
fn remote_debt_evicts_under_the_default_policy() {
    let (limiter, clock) = limiter(OverflowPolicy::default());
    let key = fill(&limiter, &clock);
    let evicted = limiter.evicted();
    limiter.raise_debt(limiter.hash(key), Duration::from_secs(9));
    assert_eq!(limiter.evicted(), evicted + 1);
    assert_eq!(limiter.peek(key).reset_after(), Duration::from_secs(9));
    assert_eq!(limiter.overflow().charges_dropped, 0);
}

#[test]
fn batches_and_inline_quotas_follow_the_policy_too() {
    let inline = Quota::per_hour(60);
    for (policy, admitted) in [(OverflowPolicy::Deny, false), (OverflowPolicy::Allow, true)] {
        let (limiter, clock) = limiter(policy);
        let key = fill(&limiter, &clock);
        let [_, denied, allowed, _] = counts(&limiter);
        let mut decisions = Vec::new();
        limiter.check_many(&[key; 3], &mut decisions);
        decisions.push(limiter.check_with(key, 60, &inline).unwrap());
        let grant = limiter.check_up_to(key, u64::MAX);
        assert_eq!(grant.units(), if admitted { limiter.quota().burst_size() } else { 0 });
        decisions.push(grant.decision());
        assert!(decisions.iter().all(|decision| decision.is_allowed() == admitted));
        let more = if admitted { [0, denied, allowed + 5, 0] } else { [0, denied + 5, allowed, 0] };
        assert_eq!(counts(&limiter), more);
    }
}

#[test]
fn a_peek_needs_no_place() {
    let (limiter, clock) = limiter(OverflowPolicy::Deny);
    let key = fill(&limiter, &clock);
    let before = counts(&limiter);
    assert!(limiter.peek(key).is_allowed());
    assert_eq!(counts(&limiter), before);
}

/// Without evictions no key is ever admitted beyond its quota, however crowded the table. The keys
/// compete all the time, with checks of any cost, and time that moves at random.
#[test]
fn under_deny_no_charge_is_ever_lost() {
    let seed = env::var("TIDEGATE_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("TIDEGATE_SEED={seed}");
    let (limiter, clock) = limiter(OverflowPolicy::Deny);
    let keys = 30_000;
    let mut tats = vec![0_u64; keys];
    let mut random: u64 = seed;
    let (mut now, mut denied_for_want_of_a_place) = (0, 0);
    for _ in 0..300_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = (random >> 33) as usize % keys;
        let cost = 1 + (random >> 20) % 5;
        let step = (random >> 8) % 60_000;
        clock.advance(Duration::from_nanos(step));
        now += step;
        let charged = tats[key].max(now) + cost * 1_000_000_000;
        let fits = charged - now <= 5_000_000_000;
        let counted = limiter.overflow().denied;
        let allowed = limiter.check_n(key as u64, cost).is_allowed();
        let roomless = limiter.overflow().denied > counted;
        assert_eq!(allowed, fits && !roomless);
        assert!(!roomless || tats[key] <= now, "a key with debt has lost its slot");
        denied_for_want_of_a_place += u64::from(roomless);
        if allowed {
            tats[key] = charged;
        }
    }
    assert!(denied_for_want_of_a_place > 10_000);
    assert_eq!(limiter.overflow().evicted, 0);
}
