//! `POST /v1/check-batch`.

use serde_json::{Value, json};
use tidegate_tests::{Node, Raw, get, post};

fn batch(node: &Node, checks: &[Value]) -> (u16, Value) {
    let reply = post(node, "/v1/check-batch", &json!({ "checks": checks }).to_string());
    (reply.status, reply.json())
}

/// A check of a limit that does not refill while a test runs.
fn slow(key: &str, cost: u64) -> Value {
    json!({"key": key, "cost": cost, "rate": "1/d", "burst": 3})
}

/// What is left of the keys of [`slow`].
fn left(node: &Node, key: &str) -> Value {
    post(node, "/v1/check", &slow(key, 0).to_string()).json()["remaining"].clone()
}

#[test]
fn the_first_batch_of_the_built_in_limit() {
    let node = Node::start(&[]);
    let check = json!({"key": "user:42", "limit": "default"});
    let body = json!({ "checks": [check] }).to_string();
    let reply = post(&node, "/v1/check-batch", &body);
    assert_eq!(reply.status, 200);
    let result =
        r#"{"allowed":true,"limit":200,"remaining":199,"retry_after_ms":0,"reset_after_ms":10}"#;
    assert_eq!(reply.body, format!(r#"{{"results":[{result}]}}"#));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("ratelimit"), None);
}

/// A denial is no error, and a key that comes several times is charged each time.
#[test]
fn checks_are_decided_in_their_order() {
    let node = Node::start(&[]);
    let checks = [slow("a", 2), slow("b", 1), slow("a", 2), slow("a", 1), slow("b", 4)];
    let (status, answer) = batch(&node, &checks);
    let results = answer["results"].as_array().unwrap();
    let seen: Vec<(&Value, &Value)> =
        results.iter().map(|result| (&result["allowed"], &result["remaining"])).collect();
    let (yes, no) = (&json!(true), &json!(false));
    let expected = [(yes, 1), (yes, 2), (no, 1), (yes, 0), (no, 2)];
    let expected = expected.map(|(allowed, remaining)| (allowed.clone(), json!(remaining)));
    assert_eq!(status, 200);
    assert_eq!(seen, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    assert_eq!(results[4]["retry_after_ms"], Value::Null);
    let metrics = get(&node, "/metrics").body;
    for line in [
        r#"tidegate_decisions_total{limit="inline",frontend="http",outcome="allowed"} 3"#,
        r#"tidegate_decisions_total{limit="inline",frontend="http",outcome="denied"} 2"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
}

#[test]
fn what_cannot_be_decided_is_answered_in_its_place() {
    let node = Node::start(&[]);
    let checks = [
        slow("a", 1),
        json!({"key": "a", "limit": "defualt"}),
        json!({"key": "", "rate": "1/d", "burst": 3}),
        json!({"key": "k".repeat(1_025), "limit": "default"}),
        json!({"key": "a", "rate": "1/s", "burst": 0}),
        json!({"key": "a", "rate": "1000000001/s"}),
        slow("a", 1),
    ];
    let (status, answer) = batch(&node, &checks);
    let results = answer["results"].as_array().unwrap();
    assert_eq!((status, results.len()), (200, checks.len()));
    let problem = "limit: there is no limit `defualt`, did you mean `default`?";
    assert_eq!(results[1], json!({"error": problem, "code": "unknown_limit"}));
    for (result, expected) in results[2..6].iter().zip([
        "key: must be 1 to 1024 bytes",
        "key: must be 1 to 1024 bytes",
        "burst: burst must be at least 1 (the rate `blocked` admits nothing)",
        "rate: rate must be at most 1000000000 units per second: count in larger units",
    ]) {
        assert_eq!(result["error"], expected);
        assert_eq!(result["code"], "invalid_request");
    }
    assert_eq!([&results[0]["remaining"], &results[6]["remaining"]], [2, 1]);
}

#[test]
fn a_body_with_a_malformed_check_charges_nothing() {
    let node = Node::start(&[]);
    for (bad, problem) in [
        (json!({"key": "k", "limit": "default", "cost": "1"}), "checks[2].cost: expected an int"),
        (json!({"key": "k", "limit": "default", "colour": 1}), "checks[2]: unknown field `colour`"),
        (json!({"key": "k", "rate": "1/w"}), "checks[2].rate: `1/w`"),
        (json!(7), "checks[2]: invalid type: integer `7`, expected an object"),
    ] {
        let (status, answer) = batch(&node, &[slow("a", 1), slow("a", 1), bad]);
        assert_eq!((status, &answer["code"]), (400, &json!("invalid_request")));
        let text = answer["error"].as_str().unwrap();
        assert!(text.starts_with(problem), "{text}");
    }
    assert_eq!(left(&node, "a"), 3);
}

#[test]
fn batches_are_bounded() {
    let node = Node::start(&[]);
    let many = |checks| vec![slow("a", 1); checks];
    let (status, answer) = batch(&node, &many(1_001));
    let expected = json!({"error": "checks: more than 1000", "code": "too_many_checks"});
    assert_eq!((status, answer), (413, expected));
    let reply = post(&node, "/v1/check-batch", &" ".repeat(256 * 1024 + 1));
    assert_eq!((reply.status, &reply.json()["code"]), (413, &json!("body_too_large")));
    let (status, answer) = batch(&node, &[]);
    assert_eq!((status, &answer["code"]), (400, &json!("invalid_request")));
    assert_eq!(left(&node, "a"), 3);

    let (status, answer) = batch(&node, &many(1_000));
    let results = answer["results"].as_array().unwrap();
    let allowed = results.iter().filter(|result| result["allowed"] == true).count();
    assert_eq!((status, results.len(), allowed), (200, 1_000, 3));
}

#[test]
fn batches_are_pipelined_and_take_only_posts() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.http);
    let requests: Vec<String> = (0..4)
        .map(|_| {
            let body = json!({"checks": [slow("a", 1), slow("b", 1)]}).to_string();
            let length = body.len();
            let head = format!("host: x\r\ncontent-length: {length}");
            format!("POST /v1/check-batch HTTP/1.1\r\n{head}\r\n\r\n{body}")
        })
        .collect();
    raw.send(requests.concat().as_bytes());
    for remaining in [2, 1, 0, 0] {
        let (status, body) = raw.http_answer();
        assert_eq!(status, "HTTP/1.1 200 OK");
        let answer: Value = serde_json::from_str(&body).unwrap();
        for result in answer["results"].as_array().unwrap() {
            assert_eq!(result["remaining"], remaining);
        }
    }
    let reply = get(&node, "/v1/check-batch");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
}
