//! The body of a check: a decision with its header fields, or an error of one line. And of a batch:
//! what is decided alone is decided in a batch too.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidegate::fuzzing::Node;

fuzz_target!(|body: &[u8]| {
    static NODE: OnceLock<Node> = OnceLock::new();
    let node = NODE.get_or_init(Node::alone);
    let alone = node.check(body);
    // A byte order mark before the body says nothing; within a batch it is no JSON.
    let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    match &alone {
        Ok((status, fields)) => {
            let asked: Value = serde_json::from_slice(text).expect("what was decided is JSON");
            let key = asked["key"].as_str().expect("a key");
            assert!((1..=1024).contains(&key.len()));
            let has = |name: &str| fields.iter().any(|(field, _)| field == name);
            assert!(has("ratelimit") && has("ratelimit-policy"));
            assert!(*status == 429 || *status == 200 && !has("retry-after"));
        }
        Err(problem) => assert!(!problem.is_empty()),
    }
    let results = results(node, body);
    assert!(results.is_none_or(|results| (1..=1000).contains(&results.len())));
    let wrapped = [b"{\"checks\":[", text, b",", text, b"]}"].concat();
    let wrapped = self::results(node, &wrapped);
    if alone.is_ok() {
        let wrapped = wrapped.expect("results");
        assert!(wrapped.len() == 2 && wrapped.iter().all(|result| result["allowed"].is_boolean()));
    }
});

/// The results of a batch, if it is one.
fn results(node: &Node, body: &[u8]) -> Option<Vec<Value>> {
    let answer = node.check_batch(body).inspect_err(|problem| assert!(!problem.is_empty()));
    let mut answer: Value = serde_json::from_slice(&answer.ok()?).expect("JSON");
    let Value::Array(results) = answer["results"].take() else { panic!("no results") };
    let is_result = |result: &Value| result["allowed"].is_boolean() != result["error"].is_string();
    assert!(results.iter().all(is_result));
    Some(results)
}
