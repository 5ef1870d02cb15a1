//! `POST /v1/check` and its neighbours.

use serde_json::{Value, json};
use tidegate_tests::{Node, Raw, get, get_as, post};

/// A limit that does not refill while a test runs.
const SLOW: &str = r#""rate":"1/d","burst":10"#;

fn check(node: &Node, body: &str) -> (u16, Value) {
    let reply = post(node, "/v1/check", body);
    (reply.status, reply.json())
}

#[test]
fn the_first_check_of_the_built_in_limit() {
    let node = Node::start(&[]);
    let reply = post(&node, "/v1/check", r#"{"key":"user:42","limit":"default"}"#);
    assert_eq!(reply.status, 200);
    let expected =
        r#"{"allowed":true,"limit":200,"remaining":199,"retry_after_ms":0,"reset_after_ms":10}"#;
    assert_eq!(reply.body, expected);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""default";q=200;w=2"#));
    assert_eq!(reply.header("ratelimit"), Some(r#""default";r=199;t=1"#));
    assert_eq!(reply.header("retry-after"), None);
}

#[test]
fn a_denial_says_when_to_come_back() {
    let node = Node::start(&[]);
    let body = format!(r#"{{"key":"k","cost":10,{SLOW}}}"#);
    assert_eq!(check(&node, &body).0, 200);
    let reply = post(&node, "/v1/check", &body);
    assert_eq!(reply.status, 429);
    let answer = reply.json();
    assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(false), &json!(0)));
    let days = 10 * 86_400;
    let wait = answer["retry_after_ms"].as_u64().unwrap();
    assert!((days - 300) * 1_000 < wait && wait <= days * 1_000, "{wait}");
    assert_eq!(answer["reset_after_ms"], wait);
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, wait.div_ceil(1_000));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""inline";q=10;w=864000"#));
    assert_eq!(reply.header("ratelimit"), Some(format!(r#""inline";r=0;t={seconds}"#).as_str()));
}

/// The burst stands in the rate or next to it, and else equals the count.
#[test]
fn a_rate_is_any_quota() {
    let node = Node::start(&[]);
    for (rate, status, limit, policy) in [
        (r#""10/d""#, 200, 10, "q=10;w=86400"),
        (r#""10/24h","burst":5"#, 200, 5, "q=5;w=43200"),
        (r#""10/1d burst 5""#, 200, 5, "q=5;w=43200"),
        (r#""5/15m""#, 200, 5, "q=5;w=900"),
        (r#""20/d strict burst 10""#, 200, 10, "q=10;w=86400"),
        (r#""unlimited""#, 200, (1_u64 << 53) - 1, "q=999999999999999"),
        (r#""blocked""#, 429, 0, "q=0"),
        (r#""0/s""#, 429, 0, "q=0"),
    ] {
        let reply = post(&node, "/v1/check", &format!(r#"{{"key":{rate:?},"rate":{rate}}}"#));
        assert_eq!((reply.status, &reply.json()["limit"]), (status, &json!(limit)), "{rate}");
        let expected = format!(r#""inline";{policy}"#);
        assert_eq!(reply.header("ratelimit-policy"), Some(expected.as_str()), "{rate}");
    }
}

#[test]
fn a_cost_that_never_fits_has_no_time_to_come_back() {
    let node = Node::start(&[]);
    for cost in [11, u64::MAX] {
        let reply = post(&node, "/v1/check", &format!(r#"{{"key":"k","cost":{cost},{SLOW}}}"#));
        assert_eq!(reply.status, 429);
        assert_eq!(reply.header("retry-after"), None);
        let expected = json!({
            "allowed": false,
            "limit": 10,
            "remaining": 10,
            "retry_after_ms": null,
            "reset_after_ms": 0,
        });
        assert_eq!(reply.json(), expected);
    }
}

#[test]
fn a_cost_of_0_looks_and_takes_nothing() {
    let node = Node::start(&[]);
    let look = format!(r#"{{"key":"k","cost":0,{SLOW}}}"#);
    let fresh =
        json!({"allowed":true,"limit":10,"remaining":10,"retry_after_ms":0,"reset_after_ms":0});
    for _ in 0..2 {
        assert_eq!(check(&node, &look), (200, fresh.clone()));
    }
    assert_eq!(check(&node, &format!(r#"{{"key":"k",{SLOW}}}"#)).1["remaining"], 9);
    assert_eq!(check(&node, &look).1["remaining"], 9);
}

#[test]
fn json_is_read_whatever_it_is_called() {
    let node = Node::start(&[]);
    for media_type in ["", "content-type: text/plain\r\n", "content-type: nonsense\r\n"] {
        let body = r#" {"key":"\u006b","limit":"default"} "#;
        let head = format!("POST /v1/check HTTP/1.1\r\nhost: x\r\n{media_type}");
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let mut raw = Raw::connect(node.http);
        raw.send(request.as_bytes());
        assert_eq!(raw.line(), "HTTP/1.1 200 OK");
    }
}

#[test]
fn bad_input_is_refused_by_name() {
    let node = Node::start(&[]);
    let long = format!(r#"{{"key":"{}","limit":"default"}}"#, "k".repeat(1_025));
    let longer = format!(r#"{{"key":"{}","limit":"default"}}"#, "k".repeat(20_000));
    for (body, word) in [
        ("", "object"),
        ("{", "EOF"),
        ("null", "object"),
        (r#"["k",1,"default",null,null]"#, "object"),
        (r#"{"limit":"default"}"#, "key"),
        (r#"{"key":7,"limit":"default"}"#, "key"),
        (r#"{"key":"","limit":"default"}"#, "key"),
        (&long, "key: must be 1 to 1024 bytes"),
        (&longer, "key: must be 1 to 1024 bytes"),
        (r#"{"key":"k"}"#, "limit"),
        (r#"{"key":"k","limit":7}"#, "limit"),
        (r#"{"key":"k","limit":"default","rate":"1/s","burst":1}"#, "limit"),
        (r#"{"key":"k","limit":"default","rate":"1/s"}"#, "limit"),
        (r#"{"key":"k","limit":"default","burst":1}"#, "limit"),
        (r#"{"key":"k","rate":"1/s burst 2","burst":2}"#, "burst: the rate has a burst as well"),
        (r#"{"key":"k","rate":"1/15x"}"#, "rate: `1/15x`: unknown unit `x`, expected s, m, h or d"),
        (r#"{"key":"k","rate":"1/m sliding"}"#, "rate: a node enforces no windows"),
        (r#"{"key":"k","rate":"unlimited","burst":3}"#, "burst: does not go with `unlimited`"),
        (
            r#"{"key":"k","rate":"1/0s"}"#,
            "rate: period must be longer than 0 (the rate `unlimited`",
        ),
        (r#"{"key":"k","burst":1}"#, "rate"),
        (r#"{"key":"k","rate":"1/s","burst":0}"#, "burst: burst must be at least 1 (the rate"),
        (r#"{"key":"k","rate":"1/s burst 0"}"#, "rate: burst must be at least 1 (the rate"),
        (r#"{"key":"k","rate":"1/s","burst":-1}"#, "burst"),
        (r#"{"key":"k","rate":"1/d","burst":10000000}"#, "burst: burst must refill within"),
        (r#"{"key":"k","rate":"1000000001/s","burst":1}"#, "rate: rate must be at most 1000000000"),
        (r#"{"key":"k","rate":"1/w","burst":1}"#, "rate"),
        (r#"{"key":"k","rate":1,"burst":1}"#, "rate"),
        (r#"{"key":"k","limit":"default","cost":-1}"#, "cost"),
        (r#"{"key":"k","limit":"default","cost":1.5}"#, "cost"),
        (r#"{"key":"k","limit":"default","cost":"1"}"#, "cost"),
        (r#"{"key":"k","limit":"default","cost":18446744073709551616}"#, "cost"),
        (r#"{"key":"k","limit":"default","colour":1}"#, "colour"),
        (r#"{"key":"k","key":"l","limit":"default"}"#, "key"),
        (r#"{"key":"k","limit":"default"} {}"#, "trailing"),
    ] {
        let (status, answer) = check(&node, body);
        let problem = answer["error"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(problem.contains(word), "{body}: {answer}");
        assert!(!problem.contains(char::is_control), "{body}: {answer}");
        assert_eq!(answer["code"], "invalid_request", "{body}");
        assert_eq!(answer.as_object().unwrap().len(), 2);
    }
    let longest = format!(r#"{{"key":"{}","limit":"default"}}"#, "k".repeat(1_024));
    assert_eq!(check(&node, &longest).0, 200);
}

#[test]
fn an_unknown_limit_is_not_found_and_the_nearest_is_named() {
    let node = Node::start(&[]);
    for (limit, problem) in [
        ("nope", "limit: there is no limit `nope`"),
        ("inline", "limit: there is no limit `inline`"),
        ("Defualt", "limit: there is no limit `Defualt`, did you mean `default`?"),
    ] {
        let answer = check(&node, &format!(r#"{{"key":"k","limit":"{limit}"}}"#));
        assert_eq!(answer, (404, json!({"error": problem, "code": "unknown_limit"})));
    }
}

#[test]
fn an_error_is_short_and_printable() {
    let node = Node::start(&[]);
    let body = json!({"key": "k", "limit": "\r\n\u{1b}".repeat(3_000)}).to_string();
    let (status, answer) = check(&node, &body);
    let problem = answer["error"].as_str().unwrap();
    assert_eq!((status, &answer["code"]), (404, &json!("unknown_limit")));
    assert!(problem.len() <= 300 && !problem.contains(char::is_control), "{problem:?}");
}

#[test]
fn bodies_are_bounded() {
    let node = Node::start(&[]);
    let (status, answer) = check(&node, &" ".repeat(64 * 1024 + 1));
    assert_eq!((status, &answer["code"]), (413, &json!("body_too_large")));
    assert!(answer["error"].as_str().unwrap().contains("65536"));
    // Also when their length is not given.
    let mut raw = Raw::connect(node.http);
    raw.send(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    raw.send(format!("10001\r\n{}\r\n", " ".repeat(0x1_0001)).as_bytes());
    assert_eq!(raw.line(), "HTTP/1.1 413 Payload Too Large");
}

#[test]
fn a_request_says_once_which_host_it_means() {
    let node = Node::start(&[]);
    for (head, expected) in [
        ("HTTP/1.1\r\n", "HTTP/1.1 400 Bad Request"),
        ("HTTP/1.1\r\nhost: x\r\nhost: y\r\n", "HTTP/1.1 400 Bad Request"),
        ("HTTP/1.1\r\nhost:\r\n", "HTTP/1.1 200 OK"),
        ("HTTP/1.0\r\n", "HTTP/1.0 200 OK"),
    ] {
        let mut raw = Raw::connect(node.http);
        raw.send(format!("GET /healthz {head}\r\n").as_bytes());
        assert_eq!(raw.http_answer().0, expected, "{head:?}");
    }
}

#[test]
fn connections_are_kept_and_requests_pipelined() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.http);
    raw.send(&b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(3));
    for _ in 0..3 {
        assert_eq!(raw.line(), "HTTP/1.1 200 OK");
        while !raw.line().is_empty() {}
        raw.expect(r#"{"status":"ok"}"#);
    }
}

#[test]
fn what_comes_after_a_request_does_not_hold_its_answer_back() {
    let node = Node::start(&[]);
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut raw = Raw::connect(node.http);
    raw.send(&[request.as_slice(), b"\r\n"].concat());
    assert_eq!(raw.http_answer().0, "HTTP/1.1 200 OK");
    let (begin, end) = request.split_at(10);
    raw.send(&[request.as_slice(), begin].concat());
    assert_eq!(raw.http_answer().0, "HTTP/1.1 200 OK");
    raw.send(end);
    assert_eq!(raw.http_answer().0, "HTTP/1.1 200 OK");
}

#[test]
fn what_is_not_http_is_refused_and_hung_up_on() {
    let node = Node::start(&[]);
    let large = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", "x".repeat(20_000));
    for (request, expected) in [
        ("*1\r\n$4\r\nPING\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET /healthz\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (&large, "HTTP/1.1 431 Request Header Fields Too Large"),
    ] {
        let mut raw = Raw::connect(node.http);
        raw.send(request.as_bytes());
        assert_eq!(raw.http_answer().0, expected);
        raw.expect_end();
    }
    assert_eq!(get(&node, "/healthz").status, 200);
}

#[test]
fn other_paths_and_methods_are_refused_as_json() {
    let node = Node::start(&[]);
    assert_eq!(get(&node, "/healthz").body, r#"{"status":"ok"}"#);
    assert_eq!(get(&node, "/healthz?verbose").status, 200);
    for (reply, status, code) in [
        (get(&node, "/"), 404, "unknown_path"),
        (post(&node, "/v1/checks", "{}"), 404, "unknown_path"),
        (get(&node, "/v1/check"), 405, "method_not_allowed"),
        (post(&node, "/metrics", ""), 405, "method_not_allowed"),
        (get(&node, "/v1/cluster"), 404, "no_cluster"),
    ] {
        assert_eq!(reply.status, status);
        assert!(reply.json()["error"].is_string());
        assert_eq!(reply.json()["code"], code);
    }
    assert_eq!(get(&node, "/v1/check").header("allow"), Some("POST"));
}

#[test]
fn metrics_count_decisions_by_limit_front_end_and_outcome() {
    let node = Node::start(&[]);
    for cost in [1, 201, 0] {
        check(&node, &format!(r#"{{"key":"k","limit":"default","cost":{cost}}}"#));
    }
    let mut raw = Raw::connect(node.resp);
    raw.send(&b"CL.THROTTLE k 1 1 86400\r\n".repeat(3));
    for _ in 0..3 * 6 {
        let _ = raw.line();
    }
    let reply = get(&node, "/metrics");
    assert_eq!(reply.status, 200);
    for line in [
        r#"tidegate_decisions_total{limit="default",frontend="http",outcome="allowed"} 1"#,
        r#"tidegate_decisions_total{limit="default",frontend="http",outcome="denied"} 1"#,
        r#"tidegate_decisions_total{limit="default",frontend="http",outcome="peeked"} 1"#,
        r#"tidegate_decisions_total{limit="inline",frontend="resp",outcome="allowed"} 2"#,
        r#"tidegate_decisions_total{limit="inline",frontend="resp",outcome="denied"} 1"#,
        r#"tidegate_connections{frontend="resp"} 1"#,
        r#"tidegate_overflow_total{limit="inline",outcome="evicted"} 0"#,
        r#"tidegate_overflow_total{limit="default",outcome="denied"} 0"#,
        "# TYPE tidegate_decisions_total counter",
        "# TYPE tidegate_clock_fallback gauge",
    ] {
        assert!(reply.body.lines().any(|found| found == line), "{line} in\n{}", reply.body);
    }
}

/// What stands in one format and not in the other.
#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let node = Node::start(&[]);
    let (classic, open) = (
        "text/plain; version=0.0.4; charset=utf-8",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    );
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    for (accept, expected) in [("*/*", classic), ("text/plain", classic), (prometheus, open)] {
        let reply = get_as(&node, "/metrics", accept);
        assert_eq!(reply.header("content-type"), Some(expected), "{accept}");
        let has = |line: &str| reply.body.lines().any(|found| found == line);
        let is_open = expected == open;
        assert_eq!(has("# EOF"), is_open);
        assert_eq!(has("# TYPE tidegate_build info"), is_open);
        assert_eq!(has("# TYPE tidegate_decisions counter"), is_open);
        assert_eq!(has("# TYPE tidegate_build_info gauge"), !is_open);
        assert_eq!(has("# TYPE tidegate_decisions_total counter"), !is_open);
        if !is_open {
            // Each sample belongs to the family described last.
            let mut family = "";
            for line in reply.body.lines() {
                if let Some(typed) = line.strip_prefix("# TYPE ") {
                    family = typed.split(' ').next().unwrap();
                } else if !line.starts_with("# HELP ") {
                    assert_eq!(line.split(['{', ' ']).next(), Some(family), "{line}");
                }
            }
        }
    }
}
