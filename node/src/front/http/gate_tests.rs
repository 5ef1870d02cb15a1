use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};

use super::Gate;

fn gate(origins: &[&str], hosts: &[&str]) -> Gate {
    Gate {
        origins: origins.iter().map(|origin| origin.parse().unwrap()).collect(),
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
    }
}

fn request(method: &str, uri: &str, fields: &[(&str, &str)]) -> Request<()> {
    let builder = Request::builder().method(method).uri(uri);
    let with_fields =
        fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    with_fields.body(()).unwrap()
}

/// The status of the refusal, if there is one.
fn refused(gate: &Gate, uri: &str, fields: &[(&str, &str)]) -> Option<StatusCode> {
    gate.pass(&request("POST", uri, fields)).err().map(|stopped| stopped.answer().status())
}

#[test]
fn a_page_is_refused_unless_its_origin_is_allowed() {
    let (forbidden, host) = (Some(StatusCode::FORBIDDEN), ("host", "any.test"));
    let (none, one) = (gate(&[], &[]), gate(&["https://example.org", "http://a.test:1"], &[]));
    for gate in [&none, &one] {
        assert_eq!(refused(gate, "/", &[host]), None);
        for origin in ["https://evil.test", "null", "", "https://example.org.evil.test"] {
            assert_eq!(refused(gate, "/", &[host, ("origin", origin)]), forbidden, "{origin}");
        }
    }
    let origin = ("origin", "https://example.org");
    assert_eq!(refused(&none, "/", &[host, origin]), forbidden);
    assert_eq!(refused(&one, "/", &[host, origin]), None);
    assert_eq!(refused(&one, "/", &[host, ("origin", "http://a.test:1")]), None);
    assert_eq!(refused(&one, "/", &[origin, ("origin", "https://evil.test")]), forbidden);
    // A page that has the node's address under its own name: the same origin, to its browser.
    let rebound = [("host", "evil.test:7380"), ("origin", "http://evil.test:7380")];
    assert_eq!(refused(&none, "/", &rebound), forbidden);
}

#[test]
fn once_there_is_a_list_other_hosts_are_refused() {
    let (gate, misdirected) =
        (gate(&[], &["limits.test", "::1"]), Some(StatusCode::MISDIRECTED_REQUEST));
    for host in ["limits.test", "LIMITS.test.:7380", "[::1]:7380"] {
        assert_eq!(refused(&gate, "/", &[("host", host)]), None, "{host}");
    }
    for host in ["evil.test", "limits.test.evil.test", "127.0.0.1", "", "a b"] {
        assert_eq!(refused(&gate, "/", &[("host", host)]), misdirected, "{host}");
    }
    assert_eq!(refused(&gate, "/", &[]), misdirected);
    let ours = ("host", "limits.test");
    assert_eq!(refused(&gate, "http://limits.test/", &[ours]), None);
    assert_eq!(refused(&gate, "http://evil.test/", &[ours]), misdirected);
}

#[test]
fn a_browser_learns_what_an_allowed_page_may_do() {
    let gate = gate(&["https://example.org"], &[]);
    let origin = ("origin", "https://example.org");
    let ask = ("access-control-request-method", "POST");
    let private = ("access-control-request-private-network", "true");
    let field = |headers: &HeaderMap, name: &str| {
        headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let leave = gate.pass(&request("OPTIONS", "/", &[origin, ask, private])).unwrap_err().answer();
    assert_eq!(leave.status(), StatusCode::NO_CONTENT);
    for (name, value) in [
        ("access-control-allow-origin", "https://example.org"),
        ("access-control-allow-methods", "GET, HEAD, POST"),
        ("access-control-allow-headers", "content-type"),
        ("access-control-max-age", "600"),
        ("access-control-allow-private-network", "true"),
        ("vary", "origin"),
    ] {
        assert_eq!(field(leave.headers(), name).as_deref(), Some(value), "{name}");
    }
    let public = gate.pass(&request("OPTIONS", "/", &[origin, ask])).unwrap_err().answer();
    assert_eq!(field(public.headers(), "access-control-allow-private-network"), None);

    let mut headers = HeaderMap::new();
    gate.pass(&request("POST", "/", &[origin])).unwrap().add_to(&mut headers);
    let exposed: Vec<_> = headers.get_all("access-control-expose-headers").iter().collect();
    assert_eq!(exposed, ["ratelimit", "ratelimit-policy", "retry-after"]);
    let allowed = field(&headers, "access-control-allow-origin");
    assert_eq!(allowed.as_deref(), Some("https://example.org"));
    // To others it says only that this depends on the origin.
    let mut headers = HeaderMap::new();
    gate.pass(&request("POST", "/", &[])).unwrap().add_to(&mut headers);
    assert_eq!((headers.len(), field(&headers, "vary").as_deref()), (1, Some("origin")));
    let mut headers = HeaderMap::new();
    Gate::default().pass(&request("OPTIONS", "/", &[ask])).unwrap().add_to(&mut headers);
    assert!(headers.is_empty());
}
