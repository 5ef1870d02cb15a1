//! Mistakes that servers of rate limits have made, each as a test of a real node.

use std::ops::Range;

use redis::Value;
use tidegate_tests::{Node, Raw, get, post, redis as client};

/// A check over HTTP that is allowed.
fn allowed(node: &Node, body: &str) -> tidegate_tests::Reply {
    let reply = post(node, "/v1/check", body);
    assert_eq!(reply.status, 200, "{body}");
    reply
}

/// Kong #14995: seconds were read as milliseconds. Wherever whole numbers of time enter or leave,
/// one unit of one period is owed for as long as the period, in the unit that the field is said to
/// have.
#[test]
fn trap_ttl_in_seconds_read_as_milliseconds() {
    let node = Node::start(&[]);
    for (letter, seconds) in [('s', 1_u64), ('m', 60), ('h', 3_600), ('d', 86_400)] {
        let body = format!(r#"{{"key":"http {letter}","rate":"1/{letter}","burst":1}}"#);
        let reply = allowed(&node, &body);
        assert_eq!(reply.json()["reset_after_ms"], seconds * 1_000);
        let policy = format!(r#""inline";q=1;w={seconds}"#);
        assert_eq!(reply.header("ratelimit-policy"), Some(policy.as_str()));
        let state = format!(r#""inline";r=0;t={seconds}"#);
        assert_eq!(reply.header("ratelimit"), Some(state.as_str()));

        let mut redis = client(&node, 2);
        let mut throttle = |command: &str, max_burst: u64| -> Vec<i64> {
            let key = format!("{command} {letter}");
            redis::cmd(command)
                .arg(key)
                .arg(max_burst)
                .arg(1)
                .arg(seconds)
                .query(&mut redis)
                .unwrap()
        };
        let seconds = seconds.cast_signed();
        assert_eq!(throttle("CL.THROTTLE", 0), [0, 1, 0, -1, seconds]);
        assert_eq!(throttle("THROTTLE", 1), [1, 1, 0, seconds, 0]);
    }
    // Time to wait, of one key, for any caller.
    let body = r#"{"key":"CL.THROTTLE d","rate":"1/d","burst":1}"#;
    let reply = post(&node, "/v1/check", body);
    let millis = reply.json()["retry_after_ms"].as_u64().unwrap();
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert_eq!((reply.status, seconds), (429, millis.div_ceil(1_000)));
    let denied: Vec<Value> = redis::cmd("CL.THROTTLE")
        .arg(&["CL.THROTTLE d", "0", "1", "86400"])
        .query(&mut client(&node, 2))
        .unwrap();
    let Value::Int(wait) = denied[3] else { panic!("{denied:?}") };
    assert!(
        (1..=seconds).contains(&wait.cast_unsigned()) && seconds <= 86_400,
        "{wait} of {seconds}"
    );
    assert!(wait > 86_400 - 300, "{wait}");
}

/// envoyproxy/ratelimit #275: a sample for each key, until the scraper runs out of memory.
#[test]
fn trap_metric_cardinality_grows_with_keys() {
    let node = Node::start(&[]);
    let samples_after = |keys| {
        check_each(&node, keys);
        let metrics = get(&node, "/metrics").body;
        assert!(!metrics.contains("trap"), "a key stands in\n{metrics}");
        metrics.lines().count()
    };
    let few = samples_after(0..10);
    assert_eq!(samples_after(10..10_010), few);
}

/// Checks each key over the Redis protocol, and one in a hundred over HTTP.
fn check_each(node: &Node, keys: Range<usize>) {
    const BATCH: usize = 100;
    let mut raw = Raw::connect(node.resp);
    for first in keys.clone().step_by(BATCH) {
        let batch = first..keys.end.min(first + BATCH);
        let command = |key| format!("CL.THROTTLE trap{key} 9 10 60\r\n");
        let commands: Vec<_> = batch.clone().map(command).collect();
        raw.send(commands.concat().as_bytes());
        for _ in batch {
            let reply = [(); 6].map(|()| raw.line());
            assert_eq!(reply[..4], ["*5", ":0", ":10", ":9"]);
        }
        allowed(node, &format!(r#"{{"key":"trap{first}","limit":"default"}}"#));
        allowed(node, &format!(r#"{{"key":"trap http {first}","rate":"1/s","burst":1}}"#));
    }
}
