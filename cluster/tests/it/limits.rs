//! A limiter of the cluster: every operation of one node reaches the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use tidegate_cluster::{Cluster, Config, GossipLimiter, LimitError, LimitId, Secret};
use tidegate_engine::rule::Inheritance;
use tidegate_engine::{LimitSet, Limiter, LiveQuota, OverflowPolicy, Quota, Shadow, observer};

use crate::waiting::{TIMEOUT, eventually};

const KEY: &str = "user:42";

/// A node that has joined.
async fn start(join: &[&Cluster]) -> Cluster {
    let secret = Secret::from_bytes(b"a secret of the tests of limits").unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret);
    config.join = join.iter().map(|cluster| cluster.local_addr()).collect();
    let cluster = Cluster::start(config).await.unwrap();
    eventually("joined", || cluster.has_joined()).await;
    cluster
}

/// The same limit on three nodes: 100 a day, so that nothing refills while a test runs.
async fn three() -> [Arc<GossipLimiter>; 3] {
    let a = start(&[]).await;
    let (b, c) = (start(&[&a]).await, start(&[&a]).await);
    let quota = Quota::per_day(100);
    [a, b, c].map(|cluster| {
        let builder = Limiter::builder(quota).capacity(1_000);
        cluster.limit_with("daily", builder).unwrap()
    })
}

async fn all_have(limits: &[Arc<GossipLimiter>], left: u64, after: &str) {
    let same = || limits.iter().all(|limit| limit.peek(KEY).remaining() == left);
    eventually(&format!("{left} left after {after}"), same).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_reaches_the_others() {
    let limits @ [a, b, c] = &three().await;
    assert!(a.check(KEY).is_allowed());
    all_have(limits, 99, "a check").await;
    assert!(b.check_n(KEY, 9).is_allowed());
    all_have(limits, 90, "a check of several units").await;
    b.check_many_n(&[(KEY, 4), ("other", 1), (KEY, 6)], &mut Vec::new());
    all_have(limits, 80, "a batch").await;
    assert!(c.check_with_headroom(KEY, 5, 50).is_allowed());
    all_have(limits, 75, "a check that leaves a share").await;
    a.refund(KEY, 15);
    all_have(limits, 90, "a refund").await;
    assert_eq!(b.charge(KEY, 100).remaining(), 0);
    all_have(limits, 0, "a charge beyond the burst").await;
    c.refund(KEY, 70);
    all_have(limits, 60, "a refund of another node's charge").await;

    let reserved = a.reserve(KEY, 40).unwrap();
    all_have(limits, 20, "a reservation").await;
    reserved.commit(10);
    all_have(limits, 50, "its settlement").await;
    drop(b.reserve_owned(KEY, 50).unwrap());
    all_have(limits, 50, "one that was dropped").await;
    c.reset(KEY);
    all_have(limits, 100, "a reset").await;

    assert_eq!(a.check_up_to(KEY, 130).units(), 100);
    all_have(limits, 0, "a check that takes what fits").await;
    b.reset(KEY);
    all_have(limits, 100, "a reset by another node than was charged").await;

    let plan = Quota::per_day(1_000);
    assert!(b.with_quota(&plan).unwrap().check_n(KEY, 500).is_allowed());
    all_have(limits, 50, "a check under a plan").await;
    assert!(a.acquire(KEY, 10, Duration::from_secs(1)).await.is_allowed());
    all_have(limits, 40, "a place in line").await;
    let shadow = Shadow::new(Arc::clone(c));
    assert!(shadow.check_n(KEY, 5).is_allowed());
    all_have(limits, 35, "a check in shadow").await;
    assert_eq!(a.observer().cluster().stats().violations, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_reach_the_others_whole_or_not_at_all() {
    let limits @ [a, b, _] = &three().await;
    let small = b.observer().cluster().limit("small", Quota::per_day(10)).unwrap();
    assert!(LimitSet::new([b.ask(KEY, 20), small.ask(KEY, 10)]).check().is_allowed());
    all_have(limits, 80, "a set").await;
    assert!(!LimitSet::new([b.ask(KEY, 20), small.ask(KEY, 1)]).check().is_allowed());
    let reserved = LimitSet::new([a.ask(KEY, 30), a.ask("other", 1)]).reserve().unwrap();
    all_have(limits, 50, "a set that is reserved").await;
    reserved.commit([20, 1]);
    all_have(limits, 60, "its settlement").await;
    // What the second limit gets there later than the first is no less.
    let there = a.observer().cluster().limit("small", Quota::per_day(10)).unwrap();
    assert!(!there.check(KEY).is_allowed(), "it was exhausted before this node had it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_comes_later_has_what_was_sent_before() {
    let a = start(&[]).await;
    let b = start(&[&a]).await;
    let quota = Quota::per_day(100);
    let on_a = a.limit("late", quota).unwrap();
    assert!(on_a.check_n(KEY, 30).is_allowed() && on_a.check_n("other", 100).is_allowed());
    eventually("b has received it", || b.stats().deltas_unknown == 2).await;
    // A node that joins takes over what its server has no limit for either.
    b.leave(TIMEOUT).await;
    let c = start(&[&a]).await;
    on_a.refund(KEY, 10);
    eventually("c has received it", || c.stats().deltas_unknown > 0).await;
    let on_c = c.limit("late", quota).unwrap();
    assert_eq!(on_c.peek(KEY).remaining(), 80);
    assert_eq!(on_c.peek("other").remaining(), 0);
    assert_eq!(c.stats().unknown_dropped, 0);
}

#[tokio::test]
async fn a_limit_has_one_limiter_and_choices_of_the_builder() {
    let cluster = start(&[]).await;
    let denied = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&denied);
    let count = observer::from_fn(move |_, _, decision| {
        counted.fetch_add(u64::from(!decision.is_allowed()), Ordering::Relaxed);
    });
    let builder = Limiter::builder(Quota::per_day(2))
        .capacity(10)
        .overflow_policy(OverflowPolicy::Deny)
        .lease_units(512)
        .observer(count);
    let limit = cluster.limit_with("one", builder).unwrap();
    assert_eq!((limit.overflow_policy(), limit.lease_units()), (OverflowPolicy::Deny, 0));
    assert_eq!(limit.observer().id(), LimitId::named("one"));
    assert_eq!(limit.hash(KEY), cluster.hash(KEY));
    assert!(limit.check_n(KEY, 2).is_allowed() && !limit.check(KEY).is_allowed());
    assert_eq!(denied.load(Ordering::Relaxed), 1);

    let again = cluster.limit("one", Quota::per_day(2)).unwrap_err();
    assert_eq!(again, LimitError::Exists);
    drop(limit);
    assert!(cluster.limit("one", Quota::per_day(2)).is_ok());
    let zero = cluster.limit("zero", Quota::per_day(1).burst(0)).unwrap_err();
    assert!(matches!(zero, LimitError::Build(_)), "{zero}");
    let quota = Quota::per_day(2);
    let inline = cluster.limit(LimitId::inline(Duration::from_secs(1), 10), quota).unwrap_err();
    assert_eq!(inline, LimitError::Inline);
}

#[tokio::test]
async fn a_node_that_would_flush_without_a_pause_does_not_start() {
    let secret = Secret::from_bytes(b"a secret of the tests of limits").unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret);
    config.flush_interval = Duration::from_micros(999);
    let error = Cluster::start(config).await.unwrap_err().to_string();
    assert_eq!(error, "a flush interval of 999µs: it is at least 1ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_keeps_its_cluster_running_and_its_quota_may_change() {
    let (a, b) = {
        let a = start(&[]).await;
        let b = start(&[&a]).await;
        let live = || LiveQuota::new(Quota::per_day(100));
        (a.limit("live", live()).unwrap(), b.limit("live", live()).unwrap())
    };
    for limit in [&a, &b] {
        limit.set_quota(Quota::per_day(200), Inheritance::Proportional).unwrap();
    }
    assert!(a.check_n(KEY, 50).is_allowed());
    eventually("b knows", || b.peek(KEY).remaining() == 150).await;
}

/// A call, and its units.
type Call = (u8, u64);

fn call(limit: &GossipLimiter, (kind, cost): Call) {
    match kind {
        0..=2 => drop(limit.check_n(KEY, cost)),
        3 => drop(limit.charge(KEY, cost)),
        4 => limit.refund(KEY, cost),
        5 => drop(limit.reserve(KEY, 20).map(|it| it.commit(cost))),
        6 => drop(limit.check_up_to(KEY, cost)),
        7 => drop(LimitSet::new([limit.ask(KEY, cost), limit.ask(KEY, 2)]).check()),
        8 => drop(limit.enqueue(KEY, cost, Duration::from_hours(9))),
        _ => limit.reset(KEY),
    }
}

/// While the other node is idle, its word is this node's, but for what a node need not send: half
/// of its part of what refills. A call's unit is worth 864 s.
#[test]
fn what_a_word_went_through_the_other_one_shows() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let nodes = runtime.block_on(three());
    let [a, b, _] = &nodes;
    let started = Instant::now();
    let calls = prop::collection::vec((0_u8..10, 0_u64..40), 1..30);
    let mut runner = TestRunner::new(Cases::with_cases(40));
    let same = |calls: Vec<Call>| {
        let after = format!("{calls:?}");
        for one in calls {
            call(a, one);
        }
        runtime.block_on(eventually(&after, || {
            let (there, here) = (b.debt(KEY), a.debt(KEY));
            let unsent = started.elapsed() / (2 * nodes.len() as u32);
            // As read at two moments.
            there.abs_diff(here) < unsent + Duration::from_millis(100)
        }));
        Ok(())
    };
    runner.run(&calls, same).unwrap();
}
