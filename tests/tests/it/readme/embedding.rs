//! The Rust of docs/embedding.md.
#![allow(clippy::duration_suboptimal_units, reason = "the engine does without `from_mins`")]

use std::net::{IpAddr, Ipv4Addr};

use tidegate_engine::{Decision, DirectLimiter, Limiter, Quota};

use super::{Result, limiter};

#[test]
#[rustfmt::skip]
fn choices() -> Result {
    use tidegate_engine::{Limiter, OverflowPolicy, Quota};

    let limiter = Limiter::builder(Quota::per_minute(600).burst(100))
        .capacity(100_000) // keys that are live at the same time: 20 bytes each
        .overflow_policy(OverflowPolicy::EvictLeastDebt) // what happens with more of them
        .build()?;
    let decision = limiter.check_n("user:42", 5);
    println!("{} left, all of it in {:?}", decision.remaining(), decision.reset_after());

    assert_eq!(decision.remaining(), 95);
    Ok(())
}

#[test]
#[rustfmt::skip]
fn rules_as_text() -> Result {
    use tidegate_engine::rule::AnyRule;
    use tidegate_engine::{Limiter, Quota};

    let login: Quota = "5/15m".parse()?;
    let limiter = Limiter::new(login)?;
    assert_eq!(limiter.quota().to_string(), "5/15m");

    // A rule of any kind, and a limit of that kind with room for 100,000 keys:
    let configured: AnyRule = "100/m sliding".parse()?;
    let limit = configured.limiter(100_000)?; // an `Arc<dyn Limit>`, for sets and layers

    let error = "5/15x".parse::<Quota>().unwrap_err();
    assert_eq!(error.to_string(), "`5/15x`: unknown unit `x`, expected s, m, h or d");

    let ask = tidegate_engine::set::Ask::new(&*limit, "user:42", 101);
    assert!(!tidegate_engine::LimitSet::new([ask]).check().is_allowed());
    Ok(())
}

#[test]
#[rustfmt::skip]
fn limiters_without_keys() -> Result {
    use std::time::Duration;
    use tidegate_engine::{Concurrency, DirectLimiter, Queue, Quota};

    let outgoing = DirectLimiter::builder(Quota::per_second(1_000).burst(100))
        .initial(0)
        .warm_up(Duration::from_secs(30), 10) // from 10 percent of the rate to all of it
        .build()?;
    let calls = Queue::new(Quota::per_second(1_000).burst(1))?; // starts are 1 ms apart
    let connections = Concurrency::new(64);

    if let Ok(permit) = connections.try_acquire(1) {
        // Sleeps until its start, if that is at most a second away.
        if calls.acquire_blocking(1, Duration::from_secs(1)).is_allowed() {
            println!("{} left in all", outgoing.check().remaining());
        }
        drop(permit); // the unit comes back
    }

    assert_eq!(connections.in_flight(), 0);
    Ok(())
}

#[tokio::test]
async fn reserve_and_wait() -> Result {
    let (budget, limiter) = (limiter(Quota::per_hour(10_000))?, limiter(Quota::per_hour(1))?);
    let (left, decision) = reserve_then_acquire(&budget, &limiter).await.unwrap();
    assert_eq!((left.remaining(), decision.is_allowed()), (7_000, true));
    Ok(())
}

#[rustfmt::skip]
#[expect(clippy::items_after_statements, reason = "the page names what it uses first")]
async fn reserve_then_acquire(
    budget: &Limiter,
    limiter: &Limiter,
) -> Result<(Decision, Decision), Decision> {
    let ask_model = |prompt, most: u64| (prompt, most - 1_000);
    let prompt = "answer";

    use std::time::Duration;

    let reserved = budget.reserve("user:42", 4_000)?; // Err is the denial
    let (answer, used) = ask_model(prompt, 4_000);
    let left = reserved.commit(used); // less: given back; more: debt; dropped: all given back

    // Any runtime, or none; bounded; first come first served; safe to cancel:
    let decision = limiter.acquire("user:42", 1, Duration::from_millis(500)).await;

    assert_eq!(answer, "answer");
    Ok((left, decision))
}

#[test]
#[rustfmt::skip]
fn a_limit_of_configurable_kind() -> Result {
    use std::time::Duration;
    use tidegate_engine::counter::SubWindowCounter;
    use tidegate_engine::{BuildError, DirectLimiter, Limit, Limiter, Quota};

    fn limit(kind: &str, units: u64, period: Duration) -> Result<Box<dyn Limit>, BuildError> {
        Ok(match kind {
            "each" => Box::new(Limiter::new(Quota::new(units, period))?),
            "all" => Box::new(DirectLimiter::new(Quota::new(units, period))?),
            _ => Box::new(SubWindowCounter::new(units, period)?),
        })
    }

    let limit = limit("each", 100, Duration::from_secs(60))?; // from a configuration
    if limit.check("user:42").is_allowed() {
        println!("{} left", limit.peek("user:42").remaining());
    }

    assert_eq!(limit.peek("user:42").remaining(), 99);
    Ok(())
}

#[test]
#[rustfmt::skip]
fn observers() -> Result {
    use tidegate_engine::{Limiter, Quota, observer};

    let log = observer::from_fn(|user, cost, decision| {
        if let (false, Some(wait)) = (decision.is_allowed(), decision.retry_after()) {
            eprintln!("login of {user:?} ({cost}) denied for {wait:?}");
        }
    });
    let logins = Limiter::builder(Quota::per_minute(3)).observer(log).build()?;
    let decision = logins.check_n("mallory", 3);

    assert!(decision.is_allowed() && !logins.check("mallory").is_allowed());
    Ok(())
}

#[test]
#[rustfmt::skip]
fn a_clock_of_either_kind() -> Result {
    use std::sync::Arc;
    use tidegate_engine::clock::SharedClock;
    use tidegate_engine::{Limiter, ManualClock, Quota};

    struct Logins {
        limiter: Limiter<Quota, SharedClock>,
    }

    let clock = ManualClock::new(); // in production `clock::TscClock::new()`
    let builder = Limiter::builder(Quota::per_minute(1)).clock::<SharedClock>(Arc::new(clock.clone()));
    let logins = Logins { limiter: builder.build()? };
    let decision = logins.limiter.check("user:42");

    assert!(decision.is_allowed() && !logins.limiter.check("user:42").is_allowed());
    clock.advance(std::time::Duration::from_secs(60));
    assert!(logins.limiter.check("user:42").is_allowed());
    Ok(())
}

#[test]
#[rustfmt::skip]
fn several_limits() -> Result {
    let (per_user, per_address) = (limiter(Quota::per_hour(2))?, limiter(Quota::per_hour(1))?);
    let in_all = DirectLimiter::new(Quota::per_hour(100))?;
    let (user, peer, cost) = ("user:42", IpAddr::from(Ipv4Addr::LOCALHOST), 10);
    let mut denied_by = Vec::new();
    for _ in 0..2 {
        use tidegate_engine::{IpKey, LimitSet};

        let decision = LimitSet::new([
            per_user.ask(user, 1).named("per-user"),
            per_address.ask(IpKey::from(peer), 1).named("per-address"), // an IPv6 /64 is one client
            in_all.ask(cost), // a `DirectLimiter`: one limit on everything together
        ])
        .check();
        if let Some(blocked) = decision.blocked() {
            println!("{}: wait {:?}", blocked.name(), decision.retry_after()); // the longest
        }

        denied_by.push(decision.blocked().map(|blocked| blocked.name().to_owned()));
    }
    assert_eq!(denied_by, [None, Some("per-address".to_owned())]);
    Ok(())
}

#[tokio::test]
#[rustfmt::skip]
async fn several_limits_to_wait_for() -> Result {
    let hosts = limiter(Quota::per_second(10))?;
    let (accounts, in_all) = (limiter(Quota::per_minute(100))?, limiter(Quota::per_hour(1_000))?);
    for allowed in [true, false] {
        use std::time::Duration;
        use tidegate_engine::LimitSet;

        // 10 a second to this host, 100 a minute for this account, 1,000 an hour in all.
        let decision = LimitSet::new([
            hosts.ask("api.example", 1).named("host"),
            accounts.ask("account:7", 1).named("account"),
            in_all.ask("", 1).named("in all"),
        ])
        .acquire(Duration::from_secs(2)) // `acquire_on` takes a timer, `acquire_blocking` a thread
        .await;
        if let Some(blocked) = decision.blocked() {
            println!("not within 2 s: {}", blocked.name());
        }

        assert_eq!(decision.is_allowed(), allowed);
        let _ = accounts.charge("account:7", 200);
    }
    Ok(())
}

#[test]
#[rustfmt::skip]
fn in_front_of_a_server() -> Result {
    use axum::{Router, routing::get};
    use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    use tidegate_engine::{DirectLimiter, Limiter, Quota};

    fn router() -> Result<Router, Box<dyn std::error::Error>> {
        let per_key = Limiter::new(Quota::per_minute(600).burst(100))?;
        let per_address = Limiter::new(Quota::per_second(50))?;
        let in_all = DirectLimiter::new(Quota::per_second(10_000))?;
        let layer = RateLimitLayer::all([
            // X-Api-Key; a request without one is answered 400, unless `missing_key` says otherwise.
            RequestLimit::new("per-key", per_key, keys::api_key()),
            // Behind exactly one proxy. Without one `keys::peer_address`; `keys::address` for a field
            // that a proxy sets, as X-Real-IP.
            RequestLimit::new("per-address", per_address, keys::forwarded_for(1)?),
            // All requests together.
            RequestLimit::shared("in-all", in_all),
        ]);
        Ok(Router::new().route("/", get(async || "hello")).layer(layer))
    }

    let _: Router = router()?;
    Ok(())
}

#[test]
#[rustfmt::skip]
fn a_quota_for_each_request() -> Result {
    use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    use tidegate_engine::{Limiter, Quota};

    #[derive(Clone)]
    struct Tenant {
        id: u64,
        plan: Option<Quota>,
    }

    let limiter = Limiter::new(Quota::per_minute(60))?; // for tenants without a plan
    let layer = RateLimitLayer::new(RequestLimit::with_quotas(
        "per-tenant",
        limiter,
        keys::custom(|head| head.extensions().get::<Tenant>().map(|tenant| tenant.id)),
        |head| head.extensions().get::<Tenant>()?.plan,
    ));

    let _: axum::Router = axum::Router::new().layer(layer);
    Ok(())
}

#[test]
#[rustfmt::skip]
#[expect(clippy::items_after_statements, reason = "the page names what it uses first")]
fn measure_first() -> Result {
    let per_key = limiter(Quota::per_hour(2))?;

    use std::sync::Arc;
    use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    use tidegate_engine::{Limiter, Quota, Shadow};

    let new = Arc::new(Shadow::new(Limiter::new(Quota::per_minute(60))?));
    let layer = RateLimitLayer::all([
        RequestLimit::new("per-key", per_key, keys::api_key()), // as before
        RequestLimit::new("new", Arc::clone(&new), keys::api_key()),
    ]);
    // Some days later, from a metrics endpoint:
    let counts = new.counts();
    println!("{} of {} denied", counts.denied, counts.allowed + counts.denied);
    println!("{} without a usable key", counts.refused);

    let _: axum::Router = axum::Router::new().layer(layer);
    Ok(())
}

#[test]
#[rustfmt::skip]
fn quotas_that_change() -> Result {
    use tidegate_engine::rule::Inheritance;
    use tidegate_engine::{Limiter, LiveQuota, Quota};

    let limiter = Limiter::new(Quota::per_hour(1))?; // for customers without a plan

    let plan = Quota::per_minute(6_000).burst(500); // what this customer has bought
    let decision = limiter.with_quota(&plan)?.check("user:42");

    let live = Limiter::new(LiveQuota::new(Quota::per_second(5)))?;
    assert!(live.check_n("user:42", 5).is_allowed());
    // Units that were taken stay taken; `Keep` keeps durations, `Reset` forgets.
    live.set_quota(Quota::per_second(50), Inheritance::Proportional)?;
    assert!(live.check_n("user:42", 45).is_allowed());

    assert_eq!(decision.remaining(), 499);
    Ok(())
}

#[test]
#[rustfmt::skip]
fn leases() -> Result {
    use std::time::Duration;
    use tidegate_engine::clock::RecentClock;
    use tidegate_engine::{Limiter, Quota};

    let hot = Limiter::builder(Quota::per_second(10_000_000).burst(1_000_000))
        .clock(RecentClock::start(Duration::from_millis(1))?)
        .lease_units(1_024)
        .build()?;
    assert!(hot.check("tenant:1").is_allowed());

    assert!(hot.lease_units() > 0);
    Ok(())
}

#[test]
#[rustfmt::skip]
fn restarts() -> Result {
    use std::time::Duration;
    use tidegate_engine::snapshot::Snapshot;
    use tidegate_engine::{KeyHasher, Limiter, Quota};

    let build = || Limiter::builder(Quota::per_hour(3)).hasher(KeyHasher::rapid(0x5eed)).build();
    let before = build()?;
    let _ = before.check_n("user:42", 3);
    let bytes = before.snapshot().to_bytes();

    let after = build()?;
    let downtime = Duration::from_secs(2);
    let restored = after.restore(Snapshot::from_bytes(&bytes)?, downtime)?;
    assert_eq!(restored.raised, 1);
    assert!(!after.check("user:42").is_allowed());

    Ok(())
}
