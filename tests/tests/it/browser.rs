//! What a page in a browser can make it send, and what is answered.

use tidegate_tests::{Node, Raw};

const BODY: &str = r#"{"key":"k","rate":"3/d"}"#;

/// The status, the header fields and the body of the answer to a request with these fields.
fn ask(node: &Node, request: &str, fields: &[&str], body: &str) -> (String, Vec<String>, String) {
    let mut raw = Raw::connect(node.http);
    let fields = fields.join("\r\n");
    let length = body.len();
    let text = format!("{request} HTTP/1.1\r\n{fields}\r\ncontent-length: {length}\r\n\r\n{body}");
    raw.send(text.as_bytes());
    let status = raw.line()["HTTP/1.1 ".len()..].to_owned();
    let mut found = Vec::new();
    loop {
        let line = raw.line();
        if line.is_empty() {
            break;
        }
        found.push(line);
    }
    let length = found.iter().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    (status, found, String::from_utf8(raw.bytes(length)).unwrap())
}

/// What is left after requests that took nothing, of three units.
fn left(node: &Node) -> serde_json::Value {
    let look = r#"{"key":"k","rate":"3/d","cost":0}"#;
    let (_, _, body) = ask(node, "POST /v1/check", &["host: limits.test"], look);
    serde_json::from_str::<serde_json::Value>(&body).unwrap()["remaining"].clone()
}

#[test]
fn a_page_cannot_drain_a_limit() {
    let node = Node::start(&["--allow-origin", "https://app.test"]);
    let host = format!("host: {}", node.http);
    for origin in ["https://evil.test", "null", "http://127.0.0.1:7380", "https://app.test.evil"] {
        let fields = [&host, &format!("origin: {origin}"), "content-type: text/plain"];
        let (status, fields, body) = ask(&node, "POST /v1/check", &fields, BODY);
        assert_eq!(status, "403 Forbidden", "{origin}");
        assert!(body.ends_with(r#","code":"origin_not_allowed"}"#), "{body}");
        assert!(!fields.iter().any(|field| field.starts_with("access-control-")), "{fields:?}");
    }
    let ask_first = ["access-control-request-method: POST", "origin: https://evil.test"];
    let (status, ..) =
        ask(&node, "OPTIONS /v1/check", &[&[host.as_str()], &ask_first[..]].concat(), "");
    assert_eq!(status, "403 Forbidden");
    assert_eq!(left(&node), 3);
    for path in ["/metrics", "/v1/cluster"] {
        let (status, ..) = ask(&node, &format!("GET {path}"), &[&host, "origin: null"], "");
        assert_eq!(status, "403 Forbidden");
    }
    assert_eq!(node.metric("tidegate_http_refused_total{reason=\"origin_not_allowed\"}"), 7);
    assert_eq!(node.metric("tidegate_http_refused_total{reason=\"host_not_allowed\"}"), 0);
}

#[test]
fn an_allowed_page_asks_as_its_browser_does() {
    let node = Node::start(&[
        "--allow-origin",
        "https://other.test",
        "--allow-origin",
        "https://app.test",
    ]);
    let fields = ["host: limits.test", "origin: https://app.test"];
    let has = |fields: &[String], line: &str| fields.iter().any(|found| found == line);
    let leave = [&fields[..], &["access-control-request-method: POST"]].concat();
    let (status, found, _) = ask(&node, "OPTIONS /v1/check", &leave, "");
    assert_eq!(status, "204 No Content");
    assert!(has(&found, "access-control-allow-origin: https://app.test"), "{found:?}");
    assert!(has(&found, "access-control-allow-headers: content-type"), "{found:?}");
    let json = [&fields[..], &["content-type: application/json"]].concat();
    let (status, found, _) = ask(&node, "POST /v1/check", &json, BODY);
    assert_eq!(status, "200 OK");
    assert!(has(&found, "access-control-allow-origin: https://app.test"), "{found:?}");
    assert!(has(&found, "vary: origin"), "{found:?}");
    assert_eq!(left(&node), 2);
    // An answer about a mistake can be read as well.
    let (status, found, _) = ask(&node, "POST /v1/check", &json, "{}");
    assert_eq!(status, "400 Bad Request");
    assert!(has(&found, "access-control-allow-origin: https://app.test"), "{found:?}");
}

#[test]
fn once_hosts_are_listed_others_are_refused() {
    let node = Node::start(&["--allow-host", "limits.test", "--allow-host", "::1"]);
    for path in ["POST /v1/check", "GET /metrics", "GET /v1/cluster", "GET /"] {
        let (status, _, body) = ask(&node, path, &["host: evil.test:7380"], BODY);
        assert_eq!(status, "421 Misdirected Request", "{path}");
        assert!(body.ends_with(r#","code":"host_not_allowed"}"#), "{body}");
    }
    assert_eq!(left(&node), 3);
    for host in ["Limits.test:1", "[::1]:7380"] {
        let (status, _, metrics) = ask(&node, "GET /metrics", &[&format!("host: {host}")], "");
        assert_eq!(status, "200 OK");
        let count = "tidegate_http_refused_total{reason=\"host_not_allowed\"} 4\n";
        assert!(metrics.contains(count), "{metrics}");
    }
    // Probes name an address.
    let probe = ["host: 10.0.0.7:7380", "origin: https://status.test"];
    for path in ["GET /healthz", "GET /readyz"] {
        assert_eq!(ask(&node, path, &probe, "").0, "200 OK", "{path}");
    }
}
