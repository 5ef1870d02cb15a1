//! Client libraries of Rust, with what they send by default: redis-rs, blocking and not,
//! and fred. Those of other languages are in `.ci/end-to-end`.

use std::future::Future;

use fred::cmd;
use fred::prelude::{Builder, ClientLike, Config, TransactionInterface};
use fred::types::Value;
use redis::aio::MultiplexedConnection;
use tidegate_tests::{Node, PATIENCE, redis as client};

/// Three units a day.
const QUOTA: [&str; 3] = ["2", "3", "86400"];
const UNIT_SECONDS: i64 = 86_400 / 3;
/// How long a test may take between two checks, in seconds.
const SLACK_SECONDS: i64 = 600;

/// Expects the replies to four checks of a fresh key, the last of which is denied.
fn expect_replies(replies: &[Vec<i64>]) {
    let first = vec![0, 3, 2, -1, UNIT_SECONDS];
    assert_eq!(replies[0], first);
    let firsts: Vec<&[i64]> = replies.iter().map(|reply| &reply[..3]).collect();
    assert_eq!(firsts, [[0, 3, 2], [0, 3, 1], [0, 3, 0], [1, 3, 0]]);
    let [denied @ .., retry, reset] = &replies[3][..] else { panic!("{replies:?}") };
    assert_eq!(denied.len(), 3);
    assert!((UNIT_SECONDS - SLACK_SECONDS..=UNIT_SECONDS).contains(retry), "{replies:?}");
    assert!((3 * UNIT_SECONDS - SLACK_SECONDS..=3 * UNIT_SECONDS).contains(reset), "{replies:?}");
}

fn check(key: &str) -> redis::Cmd {
    let mut command = redis::cmd("CL.THROTTLE");
    command.arg(key).arg(&QUOTA);
    command
}

/// Four checks at once, in a transaction or not.
fn four(key: &str, atomic: bool) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    (0..4).for_each(|_| _ = pipeline.add_command(check(key)));
    if atomic {
        pipeline.atomic();
    }
    pipeline
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}

#[test]
fn redis_rs_blocking() {
    let node = Node::start(&[]);
    for version in [2, 3] {
        let mut connection = client(&node, version);
        let key = |name: &str| format!("{name}{version}");
        let single = (0..4).map(|_| check(&key("single")).query(&mut connection).unwrap());
        expect_replies(&single.collect::<Vec<_>>());
        expect_replies(&four(&key("plain"), false).query::<Vec<_>>(&mut connection).unwrap());
        expect_replies(&four(&key("atomic"), true).query::<Vec<_>>(&mut connection).unwrap());
        let info: redis::InfoDict = redis::cmd("INFO").query(&mut connection).unwrap();
        assert_eq!(info.get("maxclients"), Some(10_000));
        let named: String = redis::cmd("CLIENT").arg("INFO").query(&mut connection).unwrap();
        assert!(named.contains(" lib-name=redis-rs "), "{named}");
    }
}

#[test]
fn redis_rs_multiplexed() {
    let node = Node::start(&[]);
    let client = redis::Client::open(format!("redis://{}/?protocol=resp3", node.resp)).unwrap();
    run(async {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut single = Vec::new();
        for _ in 0..4 {
            single.push(check("single").query_async(&mut connection).await.unwrap());
        }
        expect_replies(&single);
        for (key, atomic) in [("plain", false), ("atomic", true)] {
            let replies: Vec<_> = four(key, atomic).query_async(&mut connection).await.unwrap();
            expect_replies(&replies);
        }
        // Tasks that share the connection each have their own replies.
        let ask = |key: &'static str, mut connection: MultiplexedConnection| async move {
            four(key, true).query_async::<Vec<_>>(&mut connection).await.unwrap()
        };
        let others = (ask("one", connection.clone()), ask("other", connection));
        let (one, other) = tokio::join!(others.0, others.1);
        expect_replies(&one);
        expect_replies(&other);
    });
}

#[test]
fn fred() {
    let node = Node::start(&[]);
    let config = Config::from_url(&format!("redis://{}", node.resp)).unwrap();
    run(async {
        let client = Builder::from_config(config).build().unwrap();
        client.init().await.unwrap();
        let args = |key| [&[key], &QUOTA[..]].concat();
        let mut single = Vec::new();
        for _ in 0..4 {
            single.push(client.custom(cmd!("CL.THROTTLE"), args("single")).await.unwrap());
        }
        expect_replies(&single);
        let pipeline = client.pipeline();
        let transaction = client.multi();
        for _ in 0..4 {
            let _: () = pipeline.custom(cmd!("CL.THROTTLE"), args("plain")).await.unwrap();
            let queued: Value =
                transaction.custom(cmd!("CL.THROTTLE"), args("atomic")).await.unwrap();
            assert!(queued.is_queued(), "{queued:?}");
        }
        expect_replies(&pipeline.all::<Vec<Vec<i64>>>().await.unwrap());
        expect_replies(&transaction.exec::<Vec<Vec<i64>>>(true).await.unwrap());
        client.quit().await.unwrap();
    });
}
