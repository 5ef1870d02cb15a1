//! The keys that the layer finds in requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Request, StatusCode};
use proptest::prelude::*;
use tidegate_engine::tower::{MissingKey, RequestLimit, keys};
use tidegate_engine::{IpKey, Quota};

use crate::layered::{ask, limit, limiter, request, service};

const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

#[test]
fn keys_are_limited_apart_and_are_those_of_the_limiter() {
    let limiter = limiter(Quota::per_hour(1));
    let limit = RequestLimit::new("default", Arc::clone(&limiter), keys::api_key());
    let mut service = service(limit);
    let mut status = |key| ask(&mut service, request(&[("x-api-key", key)])).status();
    assert_eq!((status("a"), status("a")), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(status("b"), StatusCode::OK);
    assert_eq!(limiter.peek("a").remaining(), 0);
    limiter.reset("a");
    assert_eq!(status("a"), StatusCode::OK);
}

#[test]
fn trap_over_long_key_silently_unlimited() {
    let long = "k".repeat(70_000);
    for (key, expected) in [
        (keys::api_key(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        (keys::api_key().max_bytes(70_000), StatusCode::TOO_MANY_REQUESTS),
    ] {
        let limit = limit(Quota::per_hour(1), key).missing_key(MissingKey::Allow);
        let mut service = service(limit);
        ask(&mut service, request(&[("x-api-key", &long)]));
        let response = ask(&mut service, request(&[("x-api-key", &long)]));
        assert_eq!(response.status(), expected);
    }
}

#[test]
fn a_malformed_key_does_not_let_off_the_limit() {
    let refused = |key: &dyn Fn() -> RequestLimit, headers: &[(&str, &str)]| {
        let limit = key().missing_key(MissingKey::Allow);
        assert_eq!(ask(&mut service(limit), request(headers)).status(), StatusCode::BAD_REQUEST);
    };
    let api_key = || limit(Quota::per_hour(1), keys::api_key());
    refused(&api_key, &[("x-api-key", "a"), ("x-api-key", "b")]);
    let forwarded = || limit(Quota::per_hour(1), keys::forwarded_for(1).unwrap());
    for entry in ["unknown", "", "192.0.2.1 192.0.2.2", "192.0.2.256"] {
        let list = format!("192.0.2.1, {entry}");
        refused(&forwarded, &[("x-forwarded-for", &list)]);
    }
    let real_ip = || limit(Quota::per_hour(1), keys::address(REAL_IP));
    refused(&real_ip, &[("x-real-ip", "192.0.2.1"), ("x-real-ip", "192.0.2.1")]);
    for value in ["unknown", "", "192.0.2.1, 192.0.2.2", "192.0.2.256"] {
        refused(&real_ip, &[("x-real-ip", value)]);
    }
}

#[test]
fn the_scheme_of_a_token_counts_in_any_case() {
    let mut service = service(limit(Quota::per_hour(1), keys::bearer()));
    let mut status = |value| ask(&mut service, request(&[("authorization", value)])).status();
    assert_eq!(status("Bearer one"), StatusCode::OK);
    for again in ["Bearer one", "bEARER one", "bearer   one"] {
        assert_eq!(status(again), StatusCode::TOO_MANY_REQUESTS, "{again}");
    }
    assert_eq!(status("Bearer ONE"), StatusCode::OK);
    for none in ["Basic one", "Digest one", "Bearer", "Bearer ", "Bearerone", "Bearerone ", "B"] {
        assert_eq!(status(none), StatusCode::BAD_REQUEST, "{none}");
    }
}

#[test]
fn what_a_client_claims_of_its_address_is_not_read() {
    let mut service = service(limit(Quota::per_hour(1), keys::forwarded_for(2).unwrap()));
    let mut status = |values: &[&str]| {
        let values: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
        ask(&mut service, request(&values)).status()
    };
    assert_eq!(status(&["192.0.2.1, 10.0.0.1"]), StatusCode::OK);
    for again in [
        &["192.0.2.1, 10.0.0.2"][..],
        &["192.0.2.1:4711,10.0.0.1"],
        &["203.0.113.9, 192.0.2.1, 10.0.0.1"],
        &["203.0.113.9", "192.0.2.1", "10.0.0.1"],
        &["nonsense, 192.0.2.1", "10.0.0.1"],
        &["::ffff:192.0.2.1, 10.0.0.1"],
    ] {
        assert_eq!(status(again), StatusCode::TOO_MANY_REQUESTS, "{again:?}");
    }
    assert_eq!(status(&["192.0.2.2, 10.0.0.1"]), StatusCode::OK);
    assert_eq!(status(&["10.0.0.1"]), StatusCode::BAD_REQUEST, "one proxy is missing");
}

#[test]
fn no_trusted_proxies_and_too_many_are_errors() {
    for hops in [0, keys::MAX_TRUSTED_HOPS + 1, usize::MAX] {
        assert!(keys::forwarded_for(hops).is_err(), "{hops}");
    }
}

#[test]
fn trap_every_ipv6_address_its_own_key_of_a_peer() {
    let peer = keys::peer_address(|extensions| extensions.get::<SocketAddr>().map(SocketAddr::ip));
    let mut service = service(limit(Quota::per_hour(1), peer));
    let mut status = |address: &str| {
        let mut request = request(&[]);
        let address: IpAddr = address.parse().unwrap();
        request.extensions_mut().insert(SocketAddr::new(address, 80));
        ask(&mut service, request).status()
    };
    assert_eq!(status("2001:db8:1:2::1"), StatusCode::OK);
    assert_eq!(status("2001:db8:1:2:3::4"), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status("2001:db8:1:3::1"), StatusCode::OK);
    let response = ask(&mut service, request(&[]));
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "no address was attached");
}

#[test]
fn trap_every_ipv6_address_its_own_key_in_a_field() {
    let limiter = limiter(Quota::per_hour(1));
    let key = keys::address(REAL_IP);
    let mut service = service(RequestLimit::new("default", Arc::clone(&limiter), key));
    let mut status = |address| ask(&mut service, request(&[("x-real-ip", address)])).status();
    assert_eq!(status("2001:db8:1:2::1"), StatusCode::OK);
    for again in ["2001:db8:1:2:3::4", "[2001:db8:1:2::5]:80", "2001:DB8:1:2::1"] {
        assert_eq!(status(again), StatusCode::TOO_MANY_REQUESTS, "{again}");
    }
    assert_eq!(status("2001:db8:1:3::1"), StatusCode::OK);
    assert_eq!(status("192.0.2.1"), StatusCode::OK);
    assert_eq!(status("::ffff:192.0.2.1"), StatusCode::TOO_MANY_REQUESTS);
    let key = IpKey::from("2001:db8:1:2:9::".parse::<IpAddr>().unwrap());
    assert_eq!(limiter.peek(key).remaining(), 0, "the same key as the limiter's own");
    let response = ask(&mut service, request(&[("x-forwarded-for", "192.0.2.9")]));
    assert_eq!(response.status(), StatusCode::BAD_REQUEST, "the proxy set no such field");
}

#[test]
fn a_prefix_makes_more_of_a_network_in_a_proxys_field_one_key() {
    let mut service = service(limit(Quota::per_hour(1), keys::address(REAL_IP).ipv6_prefix(56)));
    let mut status = |address| ask(&mut service, request(&[("x-real-ip", address)])).status();
    assert_eq!(status("2001:db8:1:200::1"), StatusCode::OK);
    assert_eq!(status("2001:db8:1:2ff::2"), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status("2001:db8:1:300::1"), StatusCode::OK);
}

#[test]
fn a_prefix_makes_more_of_a_network_one_key() {
    let key = keys::forwarded_for(1).unwrap().ipv6_prefix(56);
    let limiter = limiter(Quota::per_hour(1));
    let mut service = service(RequestLimit::new("default", Arc::clone(&limiter), key));
    let mut status = |address| ask(&mut service, request(&[("x-forwarded-for", address)])).status();
    assert_eq!(status("2001:db8:1:200::1"), StatusCode::OK);
    assert_eq!(status("[2001:db8:1:2ff::2]:80"), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status("2001:db8:1:300::1"), StatusCode::OK);
    let key = IpKey::from("2001:db8:1:211::".parse::<IpAddr>().unwrap()).ipv6_prefix(56);
    assert_eq!(limiter.peek(key).remaining(), 0, "the same key as the limiter's own");
}

#[test]
fn a_prefix_makes_more_of_a_peers_network_one_key() {
    let peer = keys::peer_address(|extensions| extensions.get::<IpAddr>().copied());
    let mut service = service(limit(Quota::per_hour(1), peer.ipv6_prefix(56)));
    let mut status = |address: &str| {
        let mut request = request(&[]);
        request.extensions_mut().insert(address.parse::<IpAddr>().unwrap());
        ask(&mut service, request).status()
    };
    assert_eq!(status("2001:db8:1:200::1"), StatusCode::OK);
    assert_eq!(status("2001:db8:1:2ff::2"), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status("2001:db8:1:300::1"), StatusCode::OK);
}

#[test]
fn a_pair_of_keys_is_a_key() {
    let key = (keys::api_key(), keys::method_and_path());
    let mut service = service(limit(Quota::per_hour(1), key));
    let mut status = |method, path, key| {
        let request = Request::builder().method(method).uri(path).header("x-api-key", key);
        ask(&mut service, request.body(()).unwrap()).status()
    };
    for (method, path, key) in [("GET", "/a", "k"), ("PUT", "/a", "k"), ("GET", "/b", "k")] {
        assert_eq!(status(method, path, key), StatusCode::OK, "{method} {path}");
    }
    assert_eq!(status("GET", "/a?query", "k"), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status("GET", "/a", "l"), StatusCode::OK);
}

proptest! {
    /// Any bytes that a header field may hold: no panic, no response without a decision, and never
    /// more requests let through than there are keys.
    #[test]
    fn odd_header_bytes_are_refused_or_limited(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6),
        name in ".{0,20}",
    ) {
        let limiter = limiter(Quota::per_hour(1));
        let limits: [RequestLimit; 5] = [
            RequestLimit::new(&name, Arc::clone(&limiter), keys::api_key()),
            RequestLimit::new(&name, Arc::clone(&limiter), keys::bearer()),
            RequestLimit::new(&name, Arc::clone(&limiter), keys::forwarded_for(1).unwrap()),
            RequestLimit::new(&name, Arc::clone(&limiter), keys::forwarded_for(3).unwrap()),
            RequestLimit::new(&name, limiter, keys::address(REAL_IP)),
        ];
        let mut odd = request(&[]);
        for value in &values {
            for field in
                ["x-api-key", "authorization", "x-forwarded-for", "x-real-ip", "content-type"]
            {
                if let Ok(value) = HeaderValue::from_bytes(value) {
                    odd.headers_mut().append(field, value);
                }
            }
        }
        for limit in limits {
            let mut service = service(limit);
            ask(&mut service, odd.clone());
            let again = ask(&mut service, odd.clone());
            let is_grpc = again.headers().get("grpc-status").is_some();
            prop_assert!(is_grpc || !again.status().is_success(), "{:?}", again);
        }
    }
}
