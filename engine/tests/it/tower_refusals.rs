//! What a client reads when its request is not let through, and that all else is passed on.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use proptest::prelude::*;
use tidegate_engine::tower::{
    Denial, KeyExtractor, MissingKey, RateLimitLayer, RequestLimit, ResponseBody, keys,
};
use tidegate_engine::{Key as _, Limiter, ManualClock, Quota};
use tower_layer::Layer as _;
use tower_service::Service;

use crate::layered::{ask, fields, limiter, request};

const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// A body of two frames and trailers.
#[derive(Debug, Default)]
struct Parts(Vec<Frame<Bytes>>);

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let sizes = self.0.iter().filter_map(|frame| frame.data_ref().map(Bytes::len));
        SizeHint::with_exact(sizes.sum::<usize>() as u64)
    }
}

/// Answers with parts.
struct Speaking;

impl Service<Request<()>> for Speaking {
    type Response = Response<Parts>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Parts>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", "1".parse().unwrap());
        let parts =
            [Frame::trailers(trailers), Frame::data("lo".into()), Frame::data("hel".into())];
        ready(Ok(Response::new(Parts(parts.into()))))
    }
}

/// A body's text and trailers, read as a server reads it: nothing is polled beyond what it states.
fn read<B: Body<Data = Bytes, Error = Infallible>>(body: B) -> (String, Option<HeaderMap>) {
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let (stated, mut text, mut trailers) = (body.size_hint(), String::new(), None);
    while !body.is_end_stream() {
        match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    text.push_str(std::str::from_utf8(&data).unwrap());
                    assert!(text.len() < 10_000, "no end");
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
            Poll::Ready(None) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(stated.exact(), Some(text.len() as u64));
    assert_eq!(body.size_hint().exact(), Some(0), "nothing is left");
    assert!(matches!(body.poll_frame(&mut context), Poll::Ready(None)), "the end stays the end");
    (text, trailers)
}

fn behind(limit: RequestLimit) -> impl FnMut(Request<()>) -> Response<ResponseBody<Parts>> {
    let mut service = RateLimitLayer::new(limit).layer(Speaking);
    move |request| ask(&mut service, request)
}

/// Of a second request.
fn second(
    name: &str,
    quota: Quota,
    again: &dyn Fn() -> Request<()>,
) -> Response<ResponseBody<Parts>> {
    let mut ask = behind(RequestLimit::new(name, limiter(quota), keys::constant()));
    ask(request(&[]));
    ask(again())
}

#[test]
fn bodies_of_the_service_are_passed_on() {
    let mut ask = behind(RequestLimit::new("l", limiter(Quota::per_hour(1)), keys::constant()));
    let response = ask(request(&[]));
    assert_eq!(response.status(), StatusCode::OK);
    assert!(!response.headers().contains_key("content-type"));
    let (text, trailers) = read(response.into_body());
    assert_eq!(text, "hello");
    assert_eq!(trailers.unwrap()["x-end"], "1");
    assert_eq!(read(ResponseBody::<Parts>::default()), (String::new(), None));
    assert_eq!(read(ResponseBody::from(Parts(vec![Frame::data("a".into())]))).0, "a");
}

#[test]
fn a_denial_is_a_line_that_says_when_to_come_back() {
    for (quota, wait) in [
        (Quota::new(1, Duration::from_millis(2_001)), "retry after 3 s"),
        (Quota::per_second(1_000).burst(1), "retry after 1 s"),
        (Quota::per_hour(1), "retry after 3600 s"),
        (Quota::blocked(), "waiting does not help"),
    ] {
        let response = second("per-key", quota, &|| request(&[]));
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(fields(&response, "content-type"), ["text/plain; charset=utf-8"]);
        assert_eq!(fields(&response, "content-length"), [""; 0], "servers add it");
        if let Some(seconds) = fields(&response, "retry-after").first() {
            assert_eq!(wait, format!("retry after {seconds} s"));
        }
        let line = format!(r#"rate limit "per-key" exceeded: {wait}"#);
        assert_eq!(read(response.into_body()), (line, None));
    }
}

#[test]
fn the_limit_that_denied_is_named() {
    let limits = [("short", Quota::per_minute(1)), ("long", Quota::per_hour(1))]
        .map(|(name, quota)| RequestLimit::new(name, limiter(quota), keys::constant()));
    let mut service = RateLimitLayer::all(limits).layer(Speaking);
    ask(&mut service, request(&[]));
    let line = read(ask(&mut service, request(&[])).into_body()).0;
    assert_eq!(line, r#"rate limit "long" exceeded: retry after 3600 s"#);
}

/// A limit by what finds its key.
fn limit<K: KeyExtractor>(key: fn() -> K) -> Box<dyn Fn() -> RequestLimit> {
    Box::new(move || RequestLimit::new("l", limiter(Quota::per_hour(1)), key()))
}

#[test]
fn a_refusal_says_what_is_wrong_with_the_key() {
    let refused = |key: Box<dyn Fn() -> RequestLimit>, headers: &[(&str, &str)]| {
        let response = behind(key())(request(headers));
        assert_eq!(fields(&response, "content-type"), ["text/plain; charset=utf-8"]);
        let (line, _) = read(response.into_body());
        let grpc = behind(key())(request(&[headers, &[GRPC]].concat()));
        assert_eq!(fields(&grpc, "grpc-message"), [&*line]);
        let line = line.strip_prefix(r#"rate limit "l": "#).unwrap().to_owned();
        (grpc.headers()["grpc-status"].to_str().unwrap().to_owned(), line)
    };
    let is = |(code, line): (String, String), expected: (&str, &str)| {
        assert_eq!((&*code, &*line), expected);
    };
    is(refused(limit(keys::api_key), &[]), ("3", "the request has no key"));
    let denied: Box<dyn Fn() -> RequestLimit> =
        Box::new(move || limit(keys::api_key)().missing_key(MissingKey::Deny));
    is(refused(denied, &[]), ("8", "the request has no key"));
    let twice = [("x-api-key", "a"), ("x-api-key", "b")];
    let several = "there are several keys where one is expected";
    is(refused(limit(keys::api_key), &twice), ("3", several));
    let long = [("x-api-key", "four")];
    is(refused(limit(|| keys::api_key().max_bytes(3)), &long), ("3", "the key is too long"));
    let malformed = [("x-forwarded-for", "unknown host")];
    let forwarded = limit(|| keys::forwarded_for(1).unwrap());
    is(refused(forwarded, &malformed), ("3", "the key is malformed"));
    let peer = limit(|| keys::peer_address(|_| None));
    is(refused(peer, &[]), ("13", "the address of the peer is unknown"));
}

#[test]
fn a_grpc_denial_is_in_its_message_and_has_no_body() {
    let response = second("per-key", Quota::per_hour(1), &|| request(&[GRPC]));
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(fields(&response, "grpc-status"), ["8"]);
    let line = r#"rate limit "per-key" exceeded: retry after 3600 s"#;
    assert_eq!(fields(&response, "grpc-message"), [line]);
    assert_eq!(fields(&response, "content-type"), ["application/grpc"]);
    assert_eq!(fields(&response, "content-length"), [""; 0]);
    assert!(response.body().is_end_stream(), "or it is not of trailers only");
    assert_eq!(read(response.into_body()).0, "");
}

#[test]
fn a_head_request_is_answered_without_the_body_it_announces() {
    let head = || Request::builder().method(Method::HEAD).body(()).unwrap();
    let response = second("per-key", Quota::per_hour(1), &head);
    let get = second("per-key", Quota::per_hour(1), &|| request(&[]));
    let length = get.body().size_hint().exact().unwrap().to_string();
    assert_eq!(fields(&response, "content-length"), [length]);
    for name in ["content-type", "retry-after", "ratelimit"] {
        assert_eq!(fields(&response, name), fields(&get, name));
    }
    assert_eq!(response.status(), get.status());
    assert!(response.body().is_end_stream());
    assert_eq!(read(response.into_body()).0, "");
}

#[test]
fn hostile_names_are_escaped() {
    for (name, quoted) in [
        ("", r#""""#),
        ("100%", r#""100%""#),
        ("a\"b\\c", r#""a\"b\\c""#),
        ("line\r\nset-cookie: x", r#""line??set-cookie: x""#),
        ("\u{e9}\0\u{7f}\u{2028}", r#""????""#),
        ("<script>%0d%0a", r#""<script>%0d%0a""#),
    ] {
        let line = format!("rate limit {quoted} exceeded: retry after 3600 s");
        let response = second(name, Quota::per_hour(1), &|| request(&[]));
        assert_eq!(read(response.into_body()).0, line);
        let grpc = second(name, Quota::per_hour(1), &|| request(&[GRPC]));
        assert_eq!(fields(&grpc, "grpc-message"), [line.replace('%', "%25")]);
    }
}

#[test]
fn an_answer_of_ones_own_has_the_service_s_own_body_and_the_line_at_hand() {
    let limit = RequestLimit::new("a\"b", limiter(Quota::per_hour(1)), keys::constant());
    let layer = RateLimitLayer::new(limit).answer(|denial| {
        assert_eq!(denial.line(), denial.to_string());
        let json = format!(r#"{{"error":{:?}}}"#, denial.line());
        denial.response::<()>().map(|()| Parts(vec![Frame::data(json.into())]))
    });
    let mut service = layer.layer(Speaking);
    let response: Response<Parts> = ask(&mut service, request(&[]));
    assert_eq!(read(response.into_body()).0, "hello");
    let json = read(ask(&mut service, request(&[])).into_body()).0;
    assert_eq!(json, r#"{"error":"rate limit \"a\\\"b\" exceeded: retry after 3600 s"}"#);
}

/// By its key, its peer or its path, as they came.
#[test]
fn a_custom_answer_learns_which_key_was_denied() {
    let limit = RequestLimit::new("all", limiter(Quota::per_hour(1)), keys::constant());
    let layer = RateLimitLayer::new(limit).answer(|denial| {
        let head = denial.head();
        let key =
            head.headers().get("x-api-key").map(http::HeaderValue::as_bytes).unwrap_or_default();
        let peer = head.extensions().get::<u16>();
        let who = format!("{:?} {peer:?} {} {}", key.shown(), head.method(), head.uri());
        assert!(!format!("{denial:?}").contains("secret"), "{denial:?}");
        denial.response::<()>().map(|()| Parts(vec![Frame::data(who.into())]))
    });
    let mut service = layer.layer(Speaking);
    let mut denied = |key| {
        let mut request = request(&[("x-api-key", key)]);
        request.extensions_mut().insert(7_u16);
        read(ask(&mut service, request).into_body()).0
    };
    assert_eq!(denied("first"), "hello");
    assert_eq!(denied("secret"), r#""secret" Some(7) GET /"#);
    assert_eq!(denied("b\"\tsecret"), r#""b\"\tsecret" Some(7) GET /"#);
}

/// A layer whose answers are the default ones behind one whose answers are the program's own.
#[test]
fn layers_can_be_nested() {
    let limit = |name, quota| RequestLimit::new(name, limiter(quota), keys::constant());
    let inner = RateLimitLayer::new(limit("inner", Quota::per_hour(1)));
    let outer = RateLimitLayer::new(limit("outer", Quota::per_hour(2)))
        .answer(|denial: &Denial<'_>| denial.response().map(|body: ResponseBody<Parts>| body));
    let mut service = outer.layer(inner.layer(Speaking));
    let mut ask = || read(ask(&mut service, request(&[])).into_body()).0;
    assert_eq!(ask(), "hello");
    assert_eq!(ask(), r#"rate limit "inner" exceeded: retry after 3600 s"#);
    assert_eq!(ask(), "");
}

proptest! {
    /// Whatever a limit is called, the line is printable ASCII, of one length everywhere, and its
    /// `Debug` form is JSON.
    #[test]
    fn whatever_the_name_the_line_can_be_sent(name in "(?s).*", millis in 1..100_000_u64) {
        let quota = Quota::new(1, Duration::from_millis(millis));
        let builder = Limiter::builder(quota).capacity(1).clock(ManualClock::new());
        let limit = RequestLimit::new(&name, builder.build().unwrap(), keys::constant());
        let mut ask = behind(limit);
        ask(request(&[]));
        let (line, _) = read(ask(request(&[])).into_body());
        prop_assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        let seconds = millis.div_ceil(1_000);
        let wait = format!("exceeded: retry after {seconds} s");
        prop_assert!(line.ends_with(&wait), "{line}");
        let escaped = line.replace('\\', r"\\").replace('"', "\\\"");
        prop_assert_eq!(format!("{line:?}"), format!("\"{escaped}\""));
        let grpc = ask(request(&[GRPC]));
        prop_assert_eq!(fields(&grpc, "grpc-message"), [line.replace('%', "%25")]);
    }
}
