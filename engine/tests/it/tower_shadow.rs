//! Limits of the layer in shadow: clients notice nothing.

use std::sync::Arc;

use http::{Response, StatusCode};
use tidegate_engine::tower::{MissingKey, RateLimitLayer, RequestLimit, ResponseBody, keys};
use tidegate_engine::{Limiter, ManualClock, Quota, Shadow};
use tower_layer::Layer as _;

use crate::layered::{Behind, ask, fields, limiter, request};

type Answered = Response<ResponseBody<()>>;

fn shadow(quota: Quota) -> Arc<Shadow<Limiter<Quota, ManualClock>>> {
    let builder = Limiter::builder(quota).capacity(100).clock(ManualClock::new());
    Arc::new(Shadow::new(builder.build().unwrap()))
}

/// Allowed, denied, refused.
fn counts<L>(shadow: &Shadow<L>) -> [u64; 3] {
    let counts = shadow.counts();
    [counts.allowed, counts.denied, counts.refused]
}

fn names_of_fields(response: &Answered) -> Vec<&str> {
    response.headers().keys().map(http::HeaderName::as_str).collect()
}

#[test]
fn a_limit_in_shadow_lets_all_through_without_a_header() {
    let shadow = shadow(Quota::per_hour(2));
    let limit = RequestLimit::new("new", Arc::clone(&shadow), keys::api_key());
    let layer = RateLimitLayer::new(limit).legacy_headers();
    let mut service = layer.layer(Behind::default());
    for _ in 0..5 {
        let response: Answered = ask(&mut service, request(&[("x-api-key", "a")]));
        assert_eq!((response.status(), names_of_fields(&response)), (StatusCode::OK, vec![]));
    }
    assert_eq!((counts(&shadow), service.get_ref().calls.get()), ([2, 3, 0], 5));
}

/// Requests without a usable key, which the limit would refuse, are not refused in shadow.
#[test]
fn what_the_limit_would_refuse_passes_and_is_counted() {
    let refuse = || MissingKey::Refuse;
    for (headers, policy, expected) in [
        (vec![], refuse(), [0, 0, 1]),
        (vec![], MissingKey::Deny, [0, 0, 1]),
        (vec![], MissingKey::Allow, [0, 0, 0]),
        (vec![], MissingKey::Share, [1, 0, 0]),
        (vec![("x-api-key", "a"), ("x-api-key", "b")], MissingKey::Allow, [0, 0, 1]),
    ] {
        let alone = shadow(Quota::per_hour(1));
        let limit = |shadow: &Arc<_>| {
            RequestLimit::new("new", Arc::clone(shadow), keys::api_key()).missing_key(policy)
        };
        let mut service = RateLimitLayer::new(limit(&alone)).layer(Behind::default());
        let response: Answered = ask(&mut service, request(&headers));
        assert_eq!((response.status(), names_of_fields(&response)), (StatusCode::OK, vec![]));
        assert_eq!(counts(&alone), expected, "{headers:?} {policy:?}");

        let shadowed = shadow(Quota::per_hour(1));
        let enforced = RequestLimit::shared("old", limiter(Quota::per_hour(1)));
        let limits = [limit(&shadowed), enforced];
        let mut service = RateLimitLayer::all(limits).layer(Behind::default());
        let mut status = || ask(&mut service, request(&headers)).status();
        assert_eq!((status(), status()), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(counts(&shadowed), expected, "only of what the other limit lets through");
    }
}

#[test]
fn among_enforced_limits_it_changes_nothing() {
    let shadow = shadow(Quota::per_hour(1));
    let limits = [
        RequestLimit::new("new", Arc::clone(&shadow), keys::api_key()),
        RequestLimit::new("old", limiter(Quota::per_minute(3)), keys::api_key()),
    ];
    let layer = RateLimitLayer::all(limits).legacy_headers();
    let mut service = layer.layer(Behind::default());
    let mut ask = || -> Answered { ask(&mut service, request(&[("x-api-key", "a")])) };
    for left in 0..3 {
        let response = ask();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(fields(&response, "ratelimit-policy"), [r#""old";q=3;w=60"#]);
        let (left, reset) = (2 - left, 20 + 20 * left);
        assert_eq!(fields(&response, "ratelimit"), [format!(r#""old";r={left};t={reset}"#)]);
        assert_eq!(fields(&response, "x-ratelimit-limit"), ["3"], "not that of the shadow");
        assert_eq!(fields(&response, "x-ratelimit-remaining"), [left.to_string()]);
    }
    let denied = ask();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&denied, "retry-after"), ["20"]);
    assert_eq!(fields(&denied, "ratelimit"), [r#""old";r=0;t=60"#]);
    assert_eq!(counts(&shadow), [1, 2, 0], "nothing of what another limit denied");
}

#[test]
fn plans_can_be_tried_in_shadow() {
    let shadow = shadow(Quota::per_hour(1));
    let plan = |head: &tidegate_engine::tower::Head<'_>| match head.uri().path() {
        "/two" => Some(Quota::per_hour(2)),
        "/wrong" => Some(Quota::per_hour(1).burst(0)),
        _ => None,
    };
    let limit = RequestLimit::with_quotas("new", Arc::clone(&shadow), keys::path(), plan);
    let mut service = RateLimitLayer::new(limit).layer(Behind::default());
    for path in ["/own", "/own", "/two", "/two", "/two", "/wrong"] {
        let request = http::Request::builder().uri(path).body(()).unwrap();
        let response: Answered = ask(&mut service, request);
        assert_eq!((response.status(), names_of_fields(&response)), (StatusCode::OK, vec![]));
    }
    assert_eq!(counts(&shadow), [3, 2, 1]);
}

#[test]
fn a_shared_limiter_can_be_tried_in_shadow_under_quotas() {
    let builder = Limiter::builder(Quota::per_hour(9)).capacity(9).clock(ManualClock::new());
    let limiter = Arc::new(builder.build().unwrap());
    let shadow = Arc::new(Shadow::new(Arc::clone(&limiter)));
    let plan = |_: &tidegate_engine::tower::Head<'_>| Some(Quota::per_hour(1));
    let limit = RequestLimit::with_quotas("new", Arc::clone(&shadow), keys::api_key(), plan);
    let mut service = RateLimitLayer::new(limit).layer(Behind::default());
    for _ in 0..3 {
        let response: Answered = ask(&mut service, request(&[("x-api-key", "a")]));
        assert_eq!(response.status(), StatusCode::OK);
    }
    assert_eq!((counts(&shadow), limiter.peek("a").remaining()), ([1, 2, 0], 0));
}
