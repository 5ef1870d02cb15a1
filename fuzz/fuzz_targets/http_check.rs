//! The body of a check: a decision with its header fields, or an error of one line.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tidegate::fuzzing::Node;

fuzz_target!(|body: &[u8]| {
    static NODE: OnceLock<Node> = OnceLock::new();
    match NODE.get_or_init(Node::alone).check(body) {
        Ok((status, fields)) => {
            let asked: serde_json::Value =
                serde_json::from_slice(body).expect("what was decided is JSON");
            let key = asked["key"].as_str().expect("a key");
            assert!((1..=1024).contains(&key.len()));
            let has = |name: &str| fields.iter().any(|(field, _)| field == name);
            assert!(has("ratelimit") && has("ratelimit-policy"));
            assert!(status == 429 || status == 200 && !has("retry-after"));
        }
        Err(problem) => assert!(!problem.is_empty()),
    }
});
