//! `MULTI` and `EXEC`, as pipelines of client libraries send them by default.

use redis::Value;
use tidegate_tests::{Node, Raw, redis as client};

/// A check that takes one of three units, none of which comes back while a test runs.
const CHECK: &str = "CL.THROTTLE k 2 3 86400";
/// A look at the same units.
const LOOK: &str = "CL.THROTTLE k 2 3 86400 0";

/// Sends each line and expects its reply.
fn talk(raw: &mut Raw, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        raw.send(format!("{line}\r\n").as_bytes());
        raw.expect(&format!("{reply}\r\n"));
    }
}

/// Expects that this many units are left.
fn expect_left(raw: &mut Raw, units: u64) {
    raw.send(format!("{LOOK}\r\n").as_bytes());
    raw.expect(&format!("*5\r\n:0\r\n:3\r\n:{units}\r\n"));
    let _ = (raw.line(), raw.line());
}

#[test]
fn a_transaction_is_queued_and_then_run() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    talk(
        &mut raw,
        &[("MULTI", "+OK"), (CHECK, "+QUEUED"), ("PING", "+QUEUED"), (CHECK, "+QUEUED")],
    );
    // Others see no charge before it is run.
    expect_left(&mut Raw::connect(node.resp), 3);
    raw.send(b"EXEC\r\n");
    raw.expect("*3\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:28800\r\n+PONG\r\n*5\r\n:0\r\n:3\r\n:1\r\n");
    let _ = (raw.line(), raw.line());
    talk(&mut raw, &[("EXEC", "-ERR EXEC without MULTI"), ("MULTI", "+OK"), ("EXEC", "*0")]);
    expect_left(&mut raw, 1);
    // What it changes counts for the commands after it.
    talk(&mut raw, &[("MULTI", "+OK"), ("HELLO x", "+QUEUED"), ("COMMAND INFO x", "+QUEUED")]);
    talk(&mut raw, &[("EXEC", "*2\r\n-ERR Protocol version is not an integer or out of range")]);
    raw.expect("*1\r\n$-1\r\n");
}

#[test]
fn a_refused_command_aborts_its_transaction() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    for (bad, error) in [
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
        ("CL.THROTTLE k", "-ERR wrong number of arguments for 'cl.throttle' command"),
    ] {
        talk(&mut raw, &[("MULTI", "+OK"), (CHECK, "+QUEUED"), (bad, error), (CHECK, "+QUEUED")]);
        talk(&mut raw, &[("EXEC", aborted), ("EXEC", "-ERR EXEC without MULTI")]);
    }
    expect_left(&mut raw, 3);
    let ended = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
                 command";
    talk(&mut raw, &[("MULTI", "+OK"), (CHECK, "+QUEUED"), ("EXEC now", ended)]);
    talk(&mut raw, &[("EXEC", "-ERR EXEC without MULTI")]);
    expect_left(&mut raw, 3);
    // An error of a command that is run is its reply, and the others are run.
    talk(&mut raw, &[("MULTI", "+OK"), ("CL.THROTTLE k x 3 86400", "+QUEUED"), (CHECK, "+QUEUED")]);
    talk(&mut raw, &[("EXEC", "*2\r\n-ERR value is not an integer or out of range\r\n*5\r\n:0")]);
    let _ = [(); 4].map(|()| raw.line());
    expect_left(&mut raw, 2);
}

#[test]
fn what_is_no_part_of_a_transaction_is_answered_at_once() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let nested = [
        ("MULTI", "+OK"),
        (CHECK, "+QUEUED"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH k", "-ERR WATCH inside MULTI is not allowed"),
        ("UNWATCH", "+QUEUED"),
        // Neither error aborts it.
        ("EXEC", "*2\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:28800\r\n+OK"),
    ];
    talk(&mut raw, &nested);
    talk(&mut raw, &[("MULTI", "+OK"), (CHECK, "+QUEUED"), ("DISCARD", "+OK")]);
    talk(&mut raw, &[("DISCARD", "-ERR DISCARD without MULTI"), ("UNWATCH", "+OK")]);
    talk(&mut raw, &[("WATCH k", "-ERR WATCH is not supported: there are no values to watch")]);
    talk(&mut raw, &[("MULTI", "+OK"), (CHECK, "+QUEUED"), ("RESET", "+RESET")]);
    talk(&mut raw, &[("EXEC", "-ERR EXEC without MULTI")]);
    talk(&mut raw, &[("MULTI", "+OK"), (CHECK, "+QUEUED"), ("QUIT", "+OK")]);
    raw.expect_end();
    let mut cut = Raw::connect(node.resp);
    talk(&mut cut, &[("MULTI", "+OK"), (CHECK, "+QUEUED")]);
    drop(cut);
    expect_left(&mut Raw::connect(node.resp), 2);
}

#[test]
fn a_transaction_is_bounded() {
    const MOST: usize = 10_000;
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    let bound = "is not queued: a transaction takes at most 10000 commands and 1048576 bytes";
    talk(&mut raw, &[("MULTI", "+OK")]);
    raw.send(&b"PING\r\n".repeat(MOST));
    raw.expect(&"+QUEUED\r\n".repeat(MOST));
    talk(&mut raw, &[("EXEC", &format!("*{MOST}{}", "\r\n+PONG".repeat(MOST)))]);
    talk(&mut raw, &[("MULTI", "+OK")]);
    raw.send(&b"PING\r\n".repeat(MOST));
    raw.expect(&"+QUEUED\r\n".repeat(MOST));
    talk(&mut raw, &[("PING", &format!("-ERR 'ping' {bound}")), (CHECK, "+QUEUED")]);
    talk(&mut raw, &[("EXEC", aborted)]);
    // 16 arguments of 64 KiB, with what they take in addition.
    talk(&mut raw, &[("MULTI", "+OK")]);
    let argument = vec![b'x'; 64 * 1024];
    for _ in 0..15 {
        raw.command(&[b"ECHO", &argument]);
        raw.expect("+QUEUED\r\n");
    }
    raw.command(&[b"ECHO", &argument]);
    raw.expect(&format!("-ERR 'echo' {bound}\r\n"));
    talk(&mut raw, &[("EXEC", aborted)]);
    expect_left(&mut raw, 3);
}

/// Few bytes can ask for many.
#[test]
fn the_replies_of_a_transaction_are_bounded() {
    const COMMANDS: usize = 5_000;
    const MOST: usize = 1024 * 1024;
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    talk(&mut raw, &[("COMMAND COUNT", ":20"), ("MULTI", "+OK")]);
    raw.send(&b"COMMAND\r\n".repeat(COMMANDS));
    raw.expect(&"+QUEUED\r\n".repeat(COMMANDS));
    raw.send(b"EXEC\r\n");
    raw.expect(&format!("*{COMMANDS}\r\n*20\r\n"));
    let refusal = "-ERR not run: the replies of the transaction exceed 1048576 bytes";
    let (mut bytes, mut line) = (0, raw.line());
    while line != refusal {
        bytes += line.len() + 2;
        line = raw.line();
    }
    assert!((MOST / 2..MOST + 64 * 1024).contains(&bytes), "{bytes}");
    // Only such refusals follow.
    raw.send(b"PING\r\n");
    while line.starts_with("-ERR not run") {
        line = raw.line();
    }
    assert_eq!(line, "+PONG");
}

#[test]
fn a_pipeline_of_a_client_library_answers_the_same_as_a_transaction() {
    for version in [2, 3] {
        let node = Node::start(&[]);
        let mut redis = client(&node, version);
        let mut ask = |key: &str, is_atomic: bool| -> Vec<Value> {
            let mut pipe = redis::pipe();
            if is_atomic {
                pipe.atomic();
            }
            for _ in 0..4 {
                pipe.cmd("CL.THROTTLE").arg(key).arg(2).arg(3).arg(86_400);
            }
            pipe.query(&mut redis).unwrap()
        };
        let first = |replies: &[Value]| -> Vec<(Value, Value)> {
            let figures = |reply: &Value| match reply {
                Value::Array(figures) => (figures[0].clone(), figures[2].clone()),
                other => panic!("{other:?}"),
            };
            replies.iter().map(figures).collect()
        };
        let (plain, atomic) = (ask("plain", false), ask("atomic", true));
        assert_eq!(first(&plain), first(&atomic));
        assert_eq!(first(&atomic)[3], (Value::Int(1), Value::Int(0)));
    }
}
