//! A quota for each request: plans of tenants, which are loaded and changed while servers run.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tidegate_engine::rule::Inheritance;
use tidegate_engine::tower::{Head, RateLimitLayer, Reason, RequestLimit, ResponseBody, keys};
use tidegate_engine::{
    DirectLimiter, Limiter, LiveQuota, ManualClock, OverflowPolicy, Quota, QuotaError,
};
use tower_layer::Layer as _;

use crate::layered::{Behind, ask, fields, limiter, request};

type Answered = Response<ResponseBody<()>>;

/// What an authentication layer found out.
#[derive(Clone, Copy)]
struct Tenant {
    id: u64,
    plan: Option<Quota>,
}

fn tenant<'a>(head: &Head<'a>) -> Option<&'a Tenant> {
    head.extensions().get()
}

/// A request of a tenant.
fn of(id: u64, plan: Option<Quota>) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(Tenant { id, plan });
    request
}

fn per_tenant(limiter: Arc<Limiter<Quota, ManualClock>>) -> RequestLimit {
    let key = keys::custom(|head| tenant(head).map(|tenant| tenant.id));
    RequestLimit::with_quotas("tenant", limiter, key, |head| tenant(head)?.plan)
}

fn state(response: &Answered) -> (StatusCode, String) {
    let policy = fields(response, "ratelimit-policy").concat();
    (response.status(), format!("{policy} {}", fields(response, "ratelimit").concat()))
}

#[test]
fn each_request_is_limited_by_its_own_quota_and_learns_it() {
    let limiter = limiter(Quota::per_hour(1));
    let mut service = RateLimitLayer::new(per_tenant(limiter)).layer(Behind::default());
    let mut ask = |id, plan| state(&ask(&mut service, of(id, plan)));
    let (ok, denied) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    let big = Some(Quota::per_minute(600).burst(3));
    for left in ["r=2;t=1", "r=1;t=1", "r=0;t=1"] {
        assert_eq!(ask(1, big), (ok, format!(r#""tenant";q=3;w=1 "tenant";{left}"#)));
    }
    assert_eq!(ask(1, big), (denied, r#""tenant";q=3;w=1 "tenant";r=0;t=1"#.into()));
    // Without a plan, the limiter's own.
    assert_eq!(ask(2, None), (ok, r#""tenant";q=1;w=3600 "tenant";r=0;t=3600"#.into()));
    assert_eq!(ask(2, None).0, denied);
}

#[test]
fn a_plan_that_changes_takes_effect_at_once_and_debt_carries_over() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_hour(1)).capacity(100).clock(clock.clone());
    let plans = Arc::new(RwLock::new(HashMap::from([("a", Quota::per_hour(2))])));
    let loaded = Arc::clone(&plans);
    let limit = RequestLimit::with_quotas(
        "tenant",
        builder.build().unwrap(),
        keys::api_key(),
        move |head| {
            let key = head.headers().get("x-api-key")?.to_str().ok()?;
            loaded.read().unwrap().get(key).copied()
        },
    );
    let mut service = RateLimitLayer::new(limit).layer(Behind::default());
    let mut ask = || {
        let response: Answered = ask(&mut service, request(&[("x-api-key", "a")]));
        (response.status().as_u16(), fields(&response, "retry-after").concat(), state(&response).1)
    };
    assert_eq!((ask().0, ask().0), (200, 200));
    let full = r#""tenant";q=2;w=3600 "tenant";r=0;t=3600"#;
    assert_eq!(ask(), (429, "1800".into(), full.into()));

    plans.write().unwrap().insert("a", Quota::per_minute(60).burst(3_610));
    // An hour of debt is 3600 units of the 3610.
    let upgraded = r#""tenant";q=3610;w=3610 "tenant";r=9;t=3601"#;
    assert_eq!(ask(), (200, String::new(), upgraded.into()));

    plans.write().unwrap().insert("a", Quota::per_hour(2));
    clock.advance(Duration::from_secs(1));
    assert_eq!(ask(), (429, "1800".into(), full.into()), "and back");
    plans.write().unwrap().clear();
    let own = r#""tenant";q=1;w=3600 "tenant";r=0;t=3600"#;
    assert_eq!(ask(), (429, "3600".into(), own.into()));
    clock.advance(Duration::from_secs(1) * 3_600);
    assert_eq!(ask().0, 200);
}

#[test]
fn a_tenant_can_be_blocked_or_let_off() {
    let limiter = limiter(Quota::per_hour(1));
    let mut service = RateLimitLayer::new(per_tenant(limiter)).layer(Behind::default());
    let mut ask = |plan| -> Answered { ask(&mut service, of(1, Some(plan))) };
    let blocked = ask(Quota::blocked());
    let (denied, ok) = (StatusCode::TOO_MANY_REQUESTS, StatusCode::OK);
    assert_eq!(state(&blocked), (denied, r#""tenant";q=0 "tenant";r=0"#.into()));
    assert_eq!(fields(&blocked, "retry-after"), [""; 0]);
    let most = "999999999999999";
    for _ in 0..5 {
        let unlimited = format!(r#""tenant";q={most} "tenant";r={most};t=0"#);
        assert_eq!(state(&ask(Quota::unlimited())), (ok, unlimited));
    }
    assert_eq!(ask(Quota::per_hour(1)).status(), ok);
}

#[test]
fn a_quota_that_cannot_be_enforced_refuses_and_charges_nothing() {
    let (tenants, in_all) = (limiter(Quota::per_hour(9)), limiter(Quota::per_hour(9)));
    let limits =
        [RequestLimit::shared("in-all", Arc::clone(&in_all)), per_tenant(Arc::clone(&tenants))];
    let layer = RateLimitLayer::all(limits).legacy_headers();
    let mut service = layer.clone().layer(Behind::default());
    let wrong = Some(Quota::per_hour(5).burst(0));
    let refused: Answered = ask(&mut service, of(1, wrong));
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let reason = Reason::Quota(QuotaError::ZeroBurst);
    assert_eq!(refused.extensions().get(), Some(&reason), "for logs");
    assert_eq!(fields(&refused, "ratelimit"), [""; 0]);
    assert_eq!(fields(&refused, "retry-after"), [""; 0]);
    assert_eq!(service.get_ref().calls.get(), 0);

    let mut grpc = of(1, wrong);
    grpc.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let refused: Answered = ask(&mut service, grpc);
    assert_eq!((refused.status(), fields(&refused, "grpc-status")), (StatusCode::OK, vec!["13"]));
    assert_eq!(refused.extensions().get(), Some(&reason));
    let message = r#"rate limit "tenant": its quota cannot be enforced"#;
    assert_eq!(fields(&refused, "grpc-message"), [message]);
    assert_eq!((tenants.live().count(), in_all.live().count()), (0, 0));

    let mut service = layer
        .answer(move |denial| {
            assert_eq!((denial.reason(), denial.retry_after()), (reason, None));
            assert_eq!(denial.reason().to_string(), QuotaError::ZeroBurst.to_string());
            assert_eq!(denial.line(), message);
            denial.response::<()>()
        })
        .layer(Behind::default());
    assert_eq!(ask(&mut service, of(1, wrong)).status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(ask(&mut service, of(1, None)).status(), StatusCode::OK);
}

#[test]
fn of_several_limits_each_has_its_own_quota() {
    let (tenants, users) = (limiter(Quota::per_hour(9)), limiter(Quota::per_hour(9)));
    let plan = |name, limiter: &Arc<_>, plan: Quota| {
        RequestLimit::with_quotas(name, Arc::clone(limiter), keys::api_key(), move |_| Some(plan))
    };
    let in_all = DirectLimiter::builder(Quota::per_day(7)).clock(ManualClock::new());
    let limits = [
        plan("tenant", &tenants, Quota::per_minute(4)),
        RequestLimit::shared("in-all", in_all.build().unwrap()),
        plan("user", &users, Quota::per_hour(2)).cost(|_| 1),
    ];
    let mut service = RateLimitLayer::all(limits).layer(Behind::default());
    let mut ask = || -> Answered { ask(&mut service, request(&[("x-api-key", "a")])) };
    let policy = r#""tenant";q=4;w=60, "in-all";q=7;w=86400, "user";q=2;w=3600"#;
    for left in [[3, 6, 1], [2, 5, 0], [2, 5, 0], [2, 5, 0]] {
        let response = ask();
        assert_eq!(fields(&response, "ratelimit-policy"), [policy]);
        let state = fields(&response, "ratelimit").concat();
        let remaining = state.split(", ").map(|item| {
            item.split(";r=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
        });
        assert_eq!(remaining.collect::<Vec<u64>>(), left);
    }
    let denied = ask();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&denied, "retry-after"), ["1800"]);
}

/// Two limits with plans on one limiter and key: two charges, of which each fits its own plan.
#[test]
fn one_key_under_two_plans_is_charged_under_both() {
    let limiter = limiter(Quota::per_hour(9));
    let plan = |name, plan: Quota| {
        RequestLimit::with_quotas(name, Arc::clone(&limiter), keys::api_key(), move |_| Some(plan))
    };
    let limits = [plan("second", Quota::per_second(1)), plan("minute", Quota::per_minute(2))];
    let mut service = RateLimitLayer::all(limits).layer(Behind::default());
    let mut ask = || -> Answered { ask(&mut service, request(&[("x-api-key", "a")])) };
    assert_eq!(
        state(&ask()).1,
        r#""second";q=1;w=1, "minute";q=2;w=60 "second";r=0;t=1, "minute";r=0;t=31"#
    );
    assert_eq!(ask().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(limiter.peek("a").reset_after(), Duration::from_secs(31));
}

#[test]
fn a_quota_that_changes_can_be_the_one_of_those_without_a_plan() {
    let builder = Limiter::builder(LiveQuota::new(Quota::per_minute(3))).capacity(9);
    let builder = builder.clock(ManualClock::new()).overflow_policy(OverflowPolicy::Deny);
    let limiter = Arc::new(builder.build().unwrap());
    let key = keys::custom(|head| tenant(head).map(|tenant| tenant.id));
    let limit =
        RequestLimit::with_quotas("t", Arc::clone(&limiter), key, |head| tenant(head)?.plan);
    let mut service = RateLimitLayer::new(limit).layer(Behind::default());
    let mut ask = |plan| state(&ask(&mut service, of(1, plan))).1;
    assert_eq!(ask(None), r#""t";q=3;w=60 "t";r=2;t=20"#);
    limiter.set_quota(Quota::per_hour(5), Inheritance::Keep).unwrap();
    assert_eq!(ask(Some(Quota::per_minute(6))), r#""t";q=6;w=60 "t";r=3;t=30"#);
    assert_eq!(ask(None), r#""t";q=5;w=3600 "t";r=3;t=750"#);
}

#[test]
fn no_quota_is_asked_for_without_a_key() {
    let limit =
        RequestLimit::with_quotas("t", limiter(Quota::per_hour(1)), keys::api_key(), |_| {
            panic!("there is no key")
        });
    let mut service = RateLimitLayer::new(limit).layer(Behind::default());
    let refused: Answered = ask(&mut service, request(&[]));
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[test]
fn requests_of_a_class_leave_a_share_to_others() {
    let limit = RequestLimit::new("all", limiter(Quota::per_hour(5)), keys::constant())
        .headroom(|head| if head.uri().path() == "/export" { 3 } else { 0 });
    let mut service = RateLimitLayer::new(limit).layer(Behind::default());
    let mut status =
        |path: &str| ask(&mut service, Request::builder().uri(path).body(()).unwrap()).status();
    let (ok, denied) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!([(); 4].map(|()| status("/export")), [ok, ok, denied, denied]);
    assert_eq!([(); 4].map(|()| status("/")), [ok, ok, ok, denied]);
}
