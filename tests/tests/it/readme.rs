//! What the README and docs/ say, held true: each Rust example stands here word for word, in a
//! function that supplies what it leaves out; configurations are enforced by a node; commands have
//! the options that are written; links lead somewhere; names are those of the code.

mod cluster;
mod documents;
mod embedding;
mod names;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tidegate_engine::{DirectLimiter, Limiter, Quota};

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn limiter(quota: Quota) -> Result<Arc<Limiter>> {
    Ok(Arc::new(Limiter::builder(quota).capacity(1_000).build()?))
}

#[test]
#[rustfmt::skip]
fn a_first_limiter() -> Result {
    use tidegate_engine::{Limiter, Quota};

    let limiter = Limiter::new(Quota::per_second(100).burst(20))?;
    let decision = limiter.check("user:42"); // also bytes, integers, an IpKey, a KeyHash
    if !decision.is_allowed() {
        println!("retry after {:?}", decision.retry_after()); // `None`: the cost never fits
    }

    assert_eq!(decision.remaining(), 19);
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

    let (per_key, per_address) = (limiter(Quota::per_hour(2))?, limiter(Quota::per_hour(1))?);
    let in_all = DirectLimiter::new(Quota::per_hour(100))?;

    let layer = RateLimitLayer::all([
        RequestLimit::new("per-key", per_key, keys::api_key()), // X-Api-Key; without it 400
        RequestLimit::new("per-address", per_address, keys::forwarded_for(1)?), // behind one proxy
        RequestLimit::shared("in-all", in_all),
    ]);
    let app = Router::new().route("/", get(async || "hello")).layer(layer);

    let _: Router = app;
    Ok(())
}
