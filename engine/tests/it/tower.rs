//! Requests through the layer, one by one, without a server; the clock stands still.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, header};
use tidegate_engine::counter::SubWindowCounter;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::tower::{MissingKey, RateLimitLayer, Reason, RequestLimit, keys};
use tidegate_engine::{
    CalendarWindow, DirectLimiter, FixedWindow, Limiter, LiveQuota, ManualClock, Quota, Rule,
    SlidingWindow,
};
use tower_layer::Layer as _;

use crate::layered::{Behind, ask, fields, limit, limiter, request, service};

#[test]
fn answers_tell_where_the_client_stands() {
    let mut service = service(limit(Quota::per_hour(3), keys::constant()));
    for state in ["r=2;t=1200", "r=1;t=2400", "r=0;t=3600"] {
        let response = ask(&mut service, request(&[]));
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(fields(&response, "ratelimit-policy"), [r#""default";q=3;w=3600"#]);
        assert_eq!(fields(&response, "ratelimit"), [format!("\"default\";{state}")]);
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }
    let response = ask(&mut service, request(&[]));
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&response, "ratelimit-policy"), [r#""default";q=3;w=3600"#]);
    assert_eq!(fields(&response, "ratelimit"), [r#""default";r=0;t=3600"#]);
    assert_eq!(fields(&response, "retry-after"), ["1200"]);
    assert_eq!(service.get_ref().calls.get(), 3, "a denied request does not reach the service");
}

#[test]
fn trap_retry_after_truncated_to_0_s() {
    for (quota, seconds) in [
        (Quota::per_second(1_000).burst(1), "1"),
        (Quota::new(1, Duration::from_nanos(999_999_999)), "1"),
        (Quota::new(1, Duration::from_secs(1)), "1"),
        (Quota::new(1, Duration::from_nanos(1_000_000_001)), "2"),
    ] {
        let mut service = service(limit(quota, keys::constant()));
        assert_eq!(ask(&mut service, request(&[])).status(), StatusCode::OK);
        let response = ask(&mut service, request(&[]));
        assert_eq!(fields(&response, "retry-after"), [seconds], "{quota:?}");
    }
}

#[test]
fn a_cost_that_never_fits_is_denied_without_a_time_to_retry() {
    let limit = limit(Quota::per_second(5), keys::constant());
    let mut service = service(limit.cost(|head| head.uri().path().len() as u64));
    let to = |path: &str| Request::builder().uri(path).body(()).unwrap();
    let response = ask(&mut service, to("/12345"));
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&response, "retry-after"), [""; 0]);
    assert_eq!(fields(&response, "ratelimit"), [r#""default";r=5;t=0"#]);
    assert_eq!(fields(&ask(&mut service, to("/123")), "ratelimit"), [r#""default";r=1;t=1"#]);
}

#[test]
fn a_client_that_hammers_stays_banned() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_second(1)).charge_denied(3).clock(clock.clone());
    let banning = RequestLimit::new("ban", builder.build().unwrap(), keys::api_key());
    let others = limit(Quota::per_hour(9), keys::constant());
    let mut service = RateLimitLayer::all([banning, others]).layer(Behind::default());
    let mut allowed = || {
        let response = ask(&mut service, request(&[("x-api-key", "client")]));
        (response.status() == StatusCode::OK, response.headers().get(header::RETRY_AFTER).cloned())
    };
    assert!(allowed().0);
    for _ in 0..100 {
        clock.advance(Duration::from_millis(500));
        assert!(!allowed().0);
    }
    assert_eq!(allowed().1, Some(HeaderValue::from_static("4")));
    clock.advance(Duration::from_secs(4));
    assert!(allowed().0);
}

/// A limit without keys counts all requests together, whatever key it is given, and charges nothing
/// when another limit denies.
#[test]
fn limits_without_keys_are_shared_by_all_requests() {
    let minute = Duration::from_mins(1);
    let single = Arc::new(
        DirectLimiter::builder(Quota::per_hour(3)).clock(ManualClock::new()).build().unwrap(),
    );
    let counter = SubWindowCounter::with_clock(9, minute, ManualClock::new()).unwrap();
    let limits = [
        RequestLimit::shared("single", Arc::clone(&single)),
        RequestLimit::new("counter", counter, keys::api_key()).cost(|_| 2),
        limit(Quota::per_hour(2), keys::api_key()),
    ];
    let mut service = RateLimitLayer::all(limits).layer(Behind::default());
    let mut ask = |key| ask(&mut service, request(&[("x-api-key", key)]));
    let statuses = ["a", "a", "a", "b", "b"].map(|key| ask(key).status());
    let (ok, denied) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(statuses, [ok, ok, denied, ok, denied]);
    assert_eq!(single.peek().remaining(), 0);
    let fields = ask("c").headers().clone();
    let policy = r#""single";q=3;w=3600, "counter";q=9;w=61, "default";q=2;w=3600"#;
    assert_eq!(fields["ratelimit-policy"], policy);
    assert_eq!(
        fields["ratelimit"],
        r#""single";r=0;t=3600, "counter";r=3;t=61, "default";r=2;t=0"#
    );
}

#[test]
fn a_rule_of_windows_states_its_length() {
    fn policy(rule: impl Rule) -> String {
        let builder = Limiter::builder(rule).clock(ManualClock::new()).capacity(1_000);
        let limit = RequestLimit::new("default", builder.build().unwrap(), keys::constant());
        fields(&ask(&mut service(limit), request(&[])), "ratelimit-policy").concat()
    }
    assert_eq!(policy(FixedWindow::per_minute(3)), r#""default";q=3;w=60"#);
    assert_eq!(policy(SlidingWindow::per_hour(3)), r#""default";q=3;w=3600"#);
    assert_eq!(policy(LiveQuota::new(Quota::per_minute(3))), r#""default";q=3;w=60"#);
    let anchored = |window: CalendarWindow| policy(window.anchored(Duration::ZERO));
    assert_eq!(anchored(CalendarWindow::per_minute(3)), r#""default";q=3;w=60"#);
    assert_eq!(anchored(CalendarWindow::per_hour(3)), r#""default";q=3;w=3600"#);
    assert_eq!(anchored(CalendarWindow::per_day(3)), r#""default";q=3;w=86400"#);
    assert_eq!(anchored(CalendarWindow::per_month(3)), r#""default";q=3"#, "months differ");
}

#[test]
fn a_quota_that_was_changed_states_its_own_window() {
    let builder = Limiter::builder(LiveQuota::new(Quota::per_minute(3))).capacity(1);
    let limiter = Arc::new(builder.clock(ManualClock::new()).build().unwrap());
    let limit = RequestLimit::new("default", Arc::clone(&limiter), keys::constant());
    let mut service = service(limit);
    limiter.set_quota(Quota::per_hour(5), Inheritance::Reset).unwrap();
    let response = ask(&mut service, request(&[]));
    assert_eq!(fields(&response, "ratelimit-policy"), [r#""default";q=5;w=3600"#]);
}

#[test]
fn a_blocked_limit_has_no_window() {
    let mut service = service(limit(Quota::per_second(0), keys::constant()));
    let response = ask(&mut service, request(&[]));
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&response, "ratelimit-policy"), [r#""default";q=0"#]);
    assert_eq!(fields(&response, "retry-after"), [""; 0]);
}

#[test]
fn names_are_quoted_and_numbers_stay_what_a_structured_field_can_hold() {
    let quota = Quota::per_second(1_000_000_000).burst(1 << 56);
    let limit = RequestLimit::new("a\"b\\c\n\u{e9}", limiter(quota), keys::constant());
    let response = ask(&mut service(limit), request(&[]));
    let policy = r#""a\"b\\c??";q=999999999999999;w=72057595"#;
    assert_eq!(fields(&response, "ratelimit-policy"), [policy]);
    assert_eq!(fields(&response, "ratelimit"), [r#""a\"b\\c??";r=999999999999999;t=1"#]);
}

#[test]
fn older_fields_are_sent_where_asked_for() {
    let limit = limit(Quota::per_hour(3), keys::constant());
    let mut service = RateLimitLayer::new(limit).legacy_headers().layer(Behind::default());
    let response = ask(&mut service, request(&[]));
    let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    assert_eq!(names.map(|name| fields(&response, name)), [["3"], ["2"], ["1200"]]);
}

#[test]
fn layers_behind_each_other_add_an_item_each() {
    let inner = RateLimitLayer::new(limit(Quota::per_hour(60), keys::constant()));
    let outer = RequestLimit::new("outer", limiter(Quota::per_hour(3)), keys::constant());
    let mut service = RateLimitLayer::new(outer).layer(inner.layer(Behind::default()));
    let response = ask(&mut service, request(&[]));
    let states = [r#""default";r=59;t=60"#, r#""outer";r=2;t=1200"#];
    assert_eq!(fields(&response, "ratelimit"), states);
    assert_eq!(fields(&response, "ratelimit-policy").len(), 2);
}

#[test]
fn trap_composite_limits_leak_tokens_when_a_later_one_denies() {
    let per_key = limiter(Quota::per_hour(3));
    let limits = [
        RequestLimit::new("per-key", Arc::clone(&per_key), keys::api_key()),
        RequestLimit::new("in-all", limiter(Quota::per_minute(2)), keys::constant()),
    ];
    let mut service = RateLimitLayer::all(limits).legacy_headers().layer(Behind::default());
    let mut ask = |key| ask(&mut service, request(&[("x-api-key", key)]));

    let response = ask("a");
    let policy = r#""per-key";q=3;w=3600, "in-all";q=2;w=60"#;
    assert_eq!(fields(&response, "ratelimit-policy"), [policy]);
    let state = r#""per-key";r=2;t=1200, "in-all";r=1;t=30"#;
    assert_eq!(fields(&response, "ratelimit"), [state]);
    assert_eq!(fields(&response, "x-ratelimit-limit"), ["2"], "the tightest");

    assert_eq!(ask("a").status(), StatusCode::OK);
    for _ in 0..5 {
        let response = ask("a");
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        let state = r#""per-key";r=1;t=2400, "in-all";r=0;t=60"#;
        assert_eq!(fields(&response, "ratelimit"), [state]);
        assert_eq!(fields(&response, "retry-after"), ["30"]);
    }
    assert_eq!(per_key.peek("a").remaining(), 1);
}

#[test]
fn of_several_limits_the_one_to_wait_for_longest_is_named() {
    let limits = [("short", Quota::per_minute(1)), ("long", Quota::per_hour(1))]
        .map(|(name, quota)| RequestLimit::new(name, limiter(quota), keys::constant()));
    let layer = RateLimitLayer::all(limits).answer(|denial| {
        let mut response = denial.response::<()>();
        let limit = HeaderValue::try_from(denial.name()).unwrap();
        response.headers_mut().insert("x-denied-by", limit);
        response
    });
    let mut service = layer.layer(Behind::default());
    ask(&mut service, request(&[]));
    let response = ask(&mut service, request(&[]));
    assert_eq!(fields(&response, "retry-after"), ["3600"]);
    assert_eq!(fields(&response, "x-denied-by"), ["long"]);
}

#[test]
fn a_refused_key_charges_no_limit() {
    let in_all = limiter(Quota::per_hour(3));
    let limits = [
        RequestLimit::new("in-all", Arc::clone(&in_all), keys::constant()),
        RequestLimit::new("per-key", limiter(Quota::per_hour(3)), keys::api_key()),
    ];
    let mut service = RateLimitLayer::all(limits).layer(Behind::default());
    assert_eq!(ask(&mut service, request(&[])).status(), StatusCode::BAD_REQUEST);
    assert_eq!(in_all.peek(b"").remaining(), 3);
}

#[test]
fn a_limit_without_a_key_can_be_left_out() {
    let per_key = RequestLimit::new("per-key", limiter(Quota::per_hour(1)), keys::api_key());
    let per_token = RequestLimit::new("per-token", limiter(Quota::per_hour(1)), keys::bearer());
    let limits = [per_key, per_token].map(|limit| limit.missing_key(MissingKey::Allow));
    let mut service = RateLimitLayer::all(limits).layer(Behind::default());
    let mut state =
        |headers: &[_]| fields(&ask(&mut service, request(headers)), "ratelimit").concat();
    assert_eq!(state(&[]), "");
    assert_eq!(state(&[("x-api-key", "a")]), r#""per-key";r=0;t=3600"#);
    assert_eq!(state(&[("authorization", "Bearer b")]), r#""per-token";r=0;t=3600"#);
}

#[test]
fn a_request_without_a_key_is_treated_as_stated() {
    use StatusCode as S;
    for (policy, expected) in [
        (MissingKey::Refuse, [S::BAD_REQUEST, S::BAD_REQUEST]),
        (MissingKey::Deny, [S::TOO_MANY_REQUESTS, S::TOO_MANY_REQUESTS]),
        (MissingKey::Share, [S::OK, S::TOO_MANY_REQUESTS]),
        (MissingKey::Allow, [S::OK, S::OK]),
    ] {
        for without in [vec![], vec![("x-api-key", "")]] {
            let limit = limit(Quota::per_hour(1), keys::api_key()).missing_key(policy);
            let mut service = service(limit);
            let statuses = [(); 2].map(|()| ask(&mut service, request(&without)).status());
            assert_eq!(statuses, expected, "{policy:?}");
            assert_eq!(ask(&mut service, request(&[("x-api-key", "a")])).status(), S::OK);
        }
    }
}

#[test]
fn refusing_is_what_happens_unless_stated_otherwise() {
    let mut service = service(limit(Quota::per_hour(1), keys::api_key()));
    let response = ask(&mut service, request(&[]));
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(fields(&response, "ratelimit"), [""; 0]);
}

#[test]
fn grpc_is_answered_in_its_own_words() {
    for (content_type, code) in [
        ("application/grpc", Some("8")),
        ("application/grpc+proto", Some("8")),
        ("application/grpc-web+json", Some("8")),
        ("Application/GRPC;x=y", Some("8")),
        ("application/grpcx", None),
        ("application/json", None),
    ] {
        let mut service = service(limit(Quota::per_hour(1), keys::constant()));
        ask(&mut service, request(&[]));
        let response = ask(&mut service, request(&[("content-type", content_type)]));
        assert_eq!(fields(&response, "grpc-status"), Vec::from_iter(code), "{content_type}");
        let status = code.map_or(StatusCode::TOO_MANY_REQUESTS, |_| StatusCode::OK);
        assert_eq!(response.status(), status, "{content_type}");
        assert_eq!(fields(&response, "retry-after"), ["3600"]);
        let answered = code.map_or("text/plain; charset=utf-8", |_| content_type);
        assert_eq!(fields(&response, "content-type"), [answered]);
    }
    let refused = |limit: RequestLimit| {
        let grpc = request(&[("content-type", "application/grpc")]);
        fields(&ask(&mut service(limit), grpc), "grpc-status").concat()
    };
    let no_key = || limit(Quota::per_hour(1), keys::api_key());
    assert_eq!(refused(no_key()), "3");
    assert_eq!(refused(no_key().missing_key(MissingKey::Deny)), "8");
    assert_eq!(refused(limit(Quota::per_hour(1), keys::peer_address(|_| None))), "13");
}

#[test]
fn the_answer_can_be_ones_own() {
    let layer = RateLimitLayer::new(limit(Quota::per_hour(1), keys::api_key())).answer(|denial| {
        let mut response = denial.response::<()>();
        if let Reason::Limit(decision) = denial.reason() {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            assert_eq!(denial.retry_after(), decision.retry_after());
            response.headers_mut().insert("retry-after", HeaderValue::from_static("7"));
        }
        response.headers_mut().insert("x-denied-by", HeaderValue::from_static("test"));
        response
    });
    let mut service = layer.layer(Behind::default());
    assert_eq!(
        ask(&mut service, request(&[("x-api-key", "a")])).headers().get("x-denied-by"),
        None
    );
    let response = ask(&mut service, request(&[("x-api-key", "a")]));
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fields(&response, "retry-after"), ["7"]);
    assert_eq!(fields(&response, "ratelimit"), [r#""default";r=0;t=3600"#]);
    assert_eq!(fields(&response, "x-denied-by"), ["test"]);
    let response = ask(&mut service, request(&[]));
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(fields(&response, "x-denied-by"), ["test"]);
}

#[test]
fn clones_of_a_service_share_the_limit() {
    let mut first = service(limit(Quota::per_hour(1), keys::constant()));
    let mut second = first.clone();
    assert_eq!(ask(&mut first, request(&[])).status(), StatusCode::OK);
    assert_eq!(ask(&mut second, request(&[])).status(), StatusCode::TOO_MANY_REQUESTS);
}

#[test]
fn the_instance_that_was_polled_ready_is_called_also_after_a_denial() {
    let mut service = service(limit(Quota::per_hour(2), keys::api_key()));
    for key in ["a", "", "a", "a", "b"] {
        // `Behind` panics when an instance is called without having been polled ready.
        ask(&mut service, request(&[("x-api-key", key)]));
    }
    assert_eq!(service.get_ref().calls.get(), 3);
}
