//! The engine's layer in a real axum server, asked over loopback by clients of HTTP/1.1 and HTTP/2.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::get;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use sfv::{BareItem, Item, List, ListEntry, Parser};
use tidegate_engine::tower::{
    Answer, Head, KeyExtractor, MissingKey, RateLimitLayer, RequestLimit, keys,
};
use tidegate_engine::{DirectLimiter, Limiter, Quota, Shadow};

/// Limits do not refill noticeably while a test runs: one unit in 20 minutes.
fn three_an_hour() -> Arc<Limiter> {
    Arc::new(Limiter::builder(Quota::per_hour(3)).capacity(1_000).build().unwrap())
}

fn per_key() -> RequestLimit {
    RequestLimit::new("per-key", three_an_hour(), keys::api_key())
}

/// Serves `hello` behind a layer until the test's runtime ends.
async fn serve<A>(layer: RateLimitLayer<A>) -> SocketAddr
where
    A: Answer<Body> + Send + Sync + 'static,
    Response<A::Body>: IntoResponse,
    A::Body: Send,
{
    listen(Router::new().route("/", get(async || "hello")).layer(layer)).await
}

async fn listen(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

struct Asker {
    client: Client<HttpConnector, Body>,
    address: SocketAddr,
}

impl Asker {
    fn new(address: SocketAddr, version: Version) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        let client = builder.http2_only(version == Version::HTTP_2).build_http();
        Self { client, address }
    }

    async fn ask(&self, key: Option<&[u8]>) -> (StatusCode, HeaderMap, String) {
        self.ask_by(Method::GET, key).await
    }

    async fn ask_by(&self, method: Method, key: Option<&[u8]>) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = format!("http://{}/", self.address).parse().unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("x-api-key", HeaderValue::from_bytes(key).unwrap());
        }
        let response = self.client.request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn parameter(item: &Item, name: &str) -> i64 {
    match item.params.get(name) {
        Some(BareItem::Integer(value)) => (*value).into(),
        other => panic!("{name} is {other:?}"),
    }
}

/// The items of a field that is a list of structured fields, which are strings.
fn items(headers: &HeaderMap, name: &str) -> Vec<(String, Item)> {
    let value = headers.get(name).unwrap_or_else(|| panic!("no {name} in {headers:?}"));
    let list: List = Parser::new(value.as_bytes()).parse().unwrap();
    let item = |entry| match entry {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::String(text) => (text.as_str().to_owned(), item),
            other => panic!("{name} is {other:?}"),
        },
        ListEntry::InnerList(other) => panic!("{name} is {other:?}"),
    };
    list.into_iter().map(item).collect()
}

fn only_item(headers: &HeaderMap, name: &str) -> (String, Item) {
    let [item] = items(headers, name).try_into().unwrap_or_else(|all| panic!("{name} is {all:?}"));
    item
}

fn peer() -> impl KeyExtractor {
    keys::peer_address(|extensions| {
        extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    })
}

async fn three_pass_and_the_fourth_is_denied(version: Version) {
    let asker = Asker::new(serve(RateLimitLayer::new(per_key())).await, version);
    for left in [2, 1, 0] {
        let (status, headers, body) = asker.ask(Some(b"a")).await;
        assert_eq!((status, &*body), (StatusCode::OK, "hello"));
        assert_eq!(headers["ratelimit-policy"], r#""per-key";q=3;w=3600"#);
        let (name, item) = only_item(&headers, "ratelimit");
        assert_eq!((&*name, parameter(&item, "r")), ("per-key", left));
        let reset = (3 - left) * 1_200;
        assert!((reset - 60..=reset).contains(&parameter(&item, "t")), "{item:?}");
        assert!(!headers.contains_key("retry-after"));
    }
    let (status, headers, body) = asker.ask(Some(b"a")).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let (name, item) = only_item(&headers, "ratelimit-policy");
    assert_eq!((&*name, parameter(&item, "q"), parameter(&item, "w")), ("per-key", 3, 3_600));
    assert_eq!(parameter(&only_item(&headers, "ratelimit").1, "r"), 0);
    let wait: i64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1_140..=1_200).contains(&wait), "{wait}");
    assert_eq!(body, format!(r#"rate limit "per-key" exceeded: retry after {wait} s"#));
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["content-length"], body.len().to_string());
    assert!(!headers.contains_key("transfer-encoding"));

    // The same of a request that wants the head alone; the connection serves the next one.
    let (status, head, nothing) = asker.ask_by(Method::HEAD, Some(b"a")).await;
    assert_eq!((status, &*nothing), (StatusCode::TOO_MANY_REQUESTS, ""));
    for name in ["content-type", "content-length"] {
        assert_eq!(head.get_all(name).iter().collect::<Vec<_>>(), [&headers[name]]);
    }
    let (status, headers, line) = asker.ask(None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(line, r#"rate limit "per-key": the request has no key"#);
    assert_eq!(headers["content-length"], line.len().to_string());

    let (status, headers, _) = asker.ask(Some(b"b")).await;
    assert_eq!(status, StatusCode::OK, "another key has a limit of its own");
    assert_eq!(parameter(&only_item(&headers, "ratelimit").1, "r"), 2);
    assert_eq!(asker.ask(Some(b"\xff\xfe odd")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn three_pass_and_the_fourth_is_denied_over_http_1() {
    three_pass_and_the_fourth_is_denied(Version::HTTP_11).await;
}

#[tokio::test]
async fn three_pass_and_the_fourth_is_denied_over_http_2() {
    three_pass_and_the_fourth_is_denied(Version::HTTP_2).await;
}

#[tokio::test]
async fn never_more_than_the_limit_from_concurrent_clients() {
    let address = serve(RateLimitLayer::new(per_key())).await;
    let asks = (0..64).map(|asker| {
        let version = if asker % 2 == 0 { Version::HTTP_11 } else { Version::HTTP_2 };
        tokio::spawn(async move { Asker::new(address, version).ask(Some(b"a")).await.0 })
    });
    let asks: Vec<_> = asks.collect();
    let mut admitted = 0;
    for ask in asks {
        admitted += u32::from(ask.await.unwrap() == StatusCode::OK);
    }
    assert_eq!(admitted, 3);
}

#[tokio::test]
async fn peers_are_known_by_their_address() {
    let limit = RequestLimit::new("per-address", three_an_hour(), peer());
    let address = serve(RateLimitLayer::new(limit)).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        // Another connection, from another port of the same address.
        statuses.push(Asker::new(address, Version::HTTP_11).ask(None).await.0);
    }
    let ok = StatusCode::OK;
    assert_eq!(statuses, [ok, ok, ok, StatusCode::TOO_MANY_REQUESTS]);
}

#[tokio::test]
async fn of_several_limits_none_is_charged_when_one_denies_and_the_longest_wait_is_answered() {
    let per_key = three_an_hour();
    let per_address = Limiter::builder(Quota::per_hour(2)).capacity(1_000).build().unwrap();
    let in_all = Arc::new(DirectLimiter::new(Quota::per_day(4)).unwrap());
    let limits = [
        RequestLimit::new("per-key", Arc::clone(&per_key), keys::api_key()),
        RequestLimit::new("per-address", per_address, peer()),
        RequestLimit::shared("in-all", Arc::clone(&in_all)),
    ];
    let asker = Asker::new(serve(RateLimitLayer::all(limits)).await, Version::HTTP_11);
    let left = |headers: &HeaderMap| -> Vec<_> {
        let of = |(name, item): &(String, Item)| (name.clone(), parameter(item, "r"));
        items(headers, "ratelimit").iter().map(of).collect()
    };
    let are = |left: [i64; 3]| -> Vec<_> {
        ["per-key", "per-address", "in-all"].map(String::from).into_iter().zip(left).collect()
    };
    let wait =
        |headers: &HeaderMap| -> i64 { headers["retry-after"].to_str().unwrap().parse().unwrap() };

    for after in [[2, 1, 3], [1, 0, 2]] {
        let (status, headers, _) = asker.ask(Some(b"a")).await;
        assert_eq!((status, left(&headers)), (StatusCode::OK, are(after)));
    }
    for _ in 0..5 {
        let (status, headers, body) = asker.ask(Some(b"a")).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(left(&headers), are([1, 0, 2]), "the second limit denies");
        let seconds = wait(&headers);
        assert!((1_740..=1_800).contains(&seconds), "{headers:?}");
        let line = format!(r#"rate limit "per-address" exceeded: retry after {seconds} s"#);
        assert_eq!(body, line);
    }
    assert_eq!((per_key.peek("a").remaining(), in_all.peek().remaining()), (1, 2));

    in_all.charge(2);
    let (status, headers, _) = asker.ask(Some(b"b")).await;
    assert_eq!((status, left(&headers)), (StatusCode::TOO_MANY_REQUESTS, are([3, 0, 0])));
    assert!((21_540..=21_600).contains(&wait(&headers)), "{headers:?}");
}

#[tokio::test]
async fn a_request_without_a_key_is_treated_as_stated() {
    let (ok, denied) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    for (policy, expected) in [
        (MissingKey::Refuse, [StatusCode::BAD_REQUEST; 4]),
        (MissingKey::Deny, [denied; 4]),
        (MissingKey::Share, [ok, ok, ok, denied]),
        (MissingKey::Allow, [ok; 4]),
    ] {
        let layer = RateLimitLayer::new(per_key().missing_key(policy));
        let asker = Asker::new(serve(layer).await, Version::HTTP_11);
        for (ask, expected) in expected.into_iter().enumerate() {
            let (status, headers, _) = asker.ask(None).await;
            assert_eq!(status, expected, "{policy:?}, request {ask}");
            assert_eq!(headers.contains_key("ratelimit"), policy == MissingKey::Share);
        }
    }
}

#[tokio::test]
async fn the_answer_can_be_ones_own() {
    let layer = RateLimitLayer::new(per_key().cost(|_| 2)).legacy_headers().answer(|denial| {
        let body = format!(r#"{{"denied by":"{}"}}"#, denial.name());
        Response::builder().status(503).body(Body::from(body)).unwrap()
    });
    let asker = Asker::new(serve(layer).await, Version::HTTP_11);
    assert_eq!(asker.ask(Some(b"a")).await.0, StatusCode::OK);
    let (status, headers, body) = asker.ask(Some(b"a")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body, r#"{"denied by":"per-key"}"#);
    let names = ["x-ratelimit-limit", "x-ratelimit-remaining"];
    assert_eq!(names.map(|name| &headers[name]), ["3", "1"]);
    assert!(headers.contains_key("retry-after") && headers.contains_key("x-ratelimit-reset"));
}

/// What an authentication layer puts into a request's extensions decides on its quota, and a limit
/// in shadow behind it denies nothing.
#[tokio::test]
async fn plans_come_from_a_layer_in_front_and_can_change() {
    let plans = Arc::new(Mutex::new(Quota::per_hour(1)));
    let new = Arc::new(Shadow::new(Limiter::new(Quota::per_hour(2)).unwrap()));
    let plan = |head: &Head<'_>| head.extensions().get::<Quota>().copied();
    let layer = RateLimitLayer::all([
        RequestLimit::with_quotas("plan", three_an_hour(), keys::api_key(), plan),
        RequestLimit::shared("new", Arc::clone(&new)),
    ]);
    let loaded = Arc::clone(&plans);
    let authenticate = middleware::from_fn(move |mut request: Request<Body>, next: Next| {
        request.extensions_mut().insert(*loaded.lock().unwrap());
        next.run(request)
    });
    let router = Router::new().route("/", get(async || "hello")).layer(layer).layer(authenticate);
    let asker = Asker::new(listen(router).await, Version::HTTP_11);
    let mut statuses = Vec::new();
    for count in [1, 1, 4, 4] {
        *plans.lock().unwrap() = Quota::per_hour(count);
        let (status, headers, _) = asker.ask(Some(b"a")).await;
        statuses.push(status);
        assert_eq!(headers["ratelimit-policy"], format!(r#""plan";q={count};w=3600"#));
    }
    // An hour of debt is all of the larger plan, too.
    let denied = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(statuses, [StatusCode::OK, denied, denied, denied]);
    let (status, headers, _) = asker.ask(Some(b"b")).await;
    assert_eq!(
        (status, headers["ratelimit"].as_bytes()),
        (StatusCode::OK, &br#""plan";r=3;t=900"#[..])
    );
    *plans.lock().unwrap() = Quota::per_hour(1).burst(0);
    let (status, _, line) = asker.ask(Some(b"b")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(line, r#"rate limit "plan": its quota cannot be enforced"#);
    assert_eq!((new.counts().allowed, new.counts().denied), (2, 0));
}
