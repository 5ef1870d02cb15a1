//! The README's Rust, word for word in functions that supply what it leaves out.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tidegate_engine::{Decision, Limiter, Quota, Single};

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn limiter(quota: Quota) -> Result<Arc<Limiter>> {
    Ok(Arc::new(Limiter::builder(quota).capacity(1_000).build()?))
}

#[test]
fn each_example_stands_here() {
    let text = |lines: &str| -> Vec<String> {
        lines.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let here = text(include_str!("readme.rs"));
    let readme = include_str!("../../README.md");
    let examples = readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for example in examples {
        let lines = text(example);
        assert!(here.windows(lines.len()).any(|w| w == lines), "not compiled here:\n{example}");
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
#[rustfmt::skip]
fn a_first_limiter() -> Result {
    use tidegate_engine::{Limiter, Quota};

    let limiter = Limiter::new(Quota::per_second(100).burst(20))?;
    let decision = limiter.check("user:42");       // also bytes, integers, an IpKey, a KeyHash
    if !decision.is_allowed() {
        println!("retry after {:?}, {} left", decision.retry_after(), decision.remaining());
    }
    assert_eq!(decision.remaining(), 19);
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
#[expect(clippy::items_after_statements, reason = "the README names what it uses first")]
async fn reserve_then_acquire(budget: &Limiter, limiter: &Limiter) -> Result<(Decision, Decision), Decision> {
    let ask_model = |prompt, most: u64| (prompt, most - 1_000);
    let prompt = "answer";

    use std::time::Duration;

    let reserved = budget.reserve("user:42", 4_000)?;         // Err is the denial
    let (answer, used) = ask_model(prompt, 4_000);
    let left = reserved.commit(used);                           // less: given back; more: debt; dropped: all given back

    let decision = limiter.acquire("user:42", 1, Duration::from_millis(500)).await;   // any runtime, or none; safe to cancel
    assert_eq!(answer, "answer");
    Ok((left, decision))
}

#[test]
#[rustfmt::skip]
#[expect(unused_variables, reason = "what to do with `blocked` is left to the reader")]
fn several_limits() -> Result {
    let (per_user, per_address) = (limiter(Quota::per_hour(2))?, limiter(Quota::per_hour(1))?);
    let in_all = Single::new(Quota::per_hour(100))?;
    let (user, peer, cost) = ("user:42", IpAddr::from(Ipv4Addr::LOCALHOST), 10);
    let mut denied_by = Vec::new();
    for _ in 0..2 {
        use tidegate_engine::{IpKey, LimitSet};

        let decision = LimitSet::new([
            per_user.ask(user, 1).named("per-user"),
            per_address.ask(IpKey::from(peer), 1).named("per-address"),   // an IPv6 /64 is one client
            in_all.ask(cost),                                             // a `Single`: one limit on everything together
        ])
        .check();
        if let Some(blocked) = decision.blocked() { /* blocked.name(), decision.retry_after(): the longest */ }

        denied_by.push(decision.blocked().map(|blocked| blocked.name().to_owned()));
    }
    assert_eq!(denied_by, [None, Some("per-address".to_owned())]);
    Ok(())
}

#[test]
#[rustfmt::skip]
fn in_front_of_a_server() -> Result {
    use axum::{Router, routing::get};
    use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    use tidegate_engine::{Limiter, Quota, Single};

    fn router() -> Result<Router, Box<dyn std::error::Error>> {
        let per_key = Limiter::new(Quota::per_minute(600).burst(100))?;
        let per_address = Limiter::new(Quota::per_second(50))?;
        let in_all = Single::new(Quota::per_second(10_000))?;
        let layer = RateLimitLayer::all([
            RequestLimit::new("per-key", per_key, keys::api_key()),   // X-Api-Key; without it 400, unless .missing_key(…)
            // Behind exactly one proxy; else keys::peer_address(…), or keys::address(…) for X-Real-IP and its kind.
            RequestLimit::new("per-address", per_address, keys::forwarded_for(1)?),
            RequestLimit::shared("in-all", in_all),                   // all requests together
        ]);
        Ok(Router::new().route("/", get(async || "hello")).layer(layer))
    }

    let _: Router = router()?;
    Ok(())
}
