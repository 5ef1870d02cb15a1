//! What nodes of a cluster do, and say, when one of them is stopped, killed or foreign.

use std::time::Instant;

use rustix::process::Signal;
use tidegate_tests::{Node, Raw, Starting, wait_until};

use super::cluster::{
    ask, free_addresses, granted, is_in_state, joining_args, secret, start, wait_until_together,
};

/// Its clients' requests wait in its sockets, and are decided by words as old as the stop unless it
/// catches up with the others first.
#[test]
fn a_node_that_goes_on_after_a_stop_catches_up_before_it_decides() {
    const CHECKS: usize = 100;
    let secret = secret();
    let first = start(&secret, &[]);
    let second = start(&secret, &[&first]);
    wait_until_together(&[&first, &second]);
    let mut client = Raw::connect(second.resp);
    client.expect_alive();

    second.signal(Signal::STOP);
    wait_until("it is missed", || !is_in_state(&first, &second, "alive"));
    let begin = Instant::now();
    assert_eq!(ask(&first, "k", CHECKS), CHECKS);
    for _ in 0..CHECKS {
        client.command(&[b"CL.THROTTLE", b"k", b"99", b"100", b"60"]);
    }
    second.signal(Signal::CONT);
    let mut admitted = 0;
    for _ in 0..CHECKS {
        client.expect("*5\r\n");
        admitted += usize::from(client.line() == ":0");
        (0..4).for_each(|_| drop(client.line()));
    }
    let most = granted(begin);
    assert!(admitted <= most, "{admitted} admitted, expected at most {most}");
    wait_until_together(&[&first, &second]);
}

#[test]
fn suspicion_death_leave_and_refusal_are_logged_on_standard_error() {
    let (ours, theirs) = (secret(), secret());
    let [address, other] = &free_addresses(2)[..] else { unreachable!() };
    let args = |secret, own| {
        let mut args = joining_args(secret, address);
        args[1] = own;
        args
    };
    let file = ours.path().to_str().unwrap();
    let mut node = Starting::start(&["--cluster", address, "--cluster-secret-file", file]);
    node.wait_for_error("founded a cluster");

    let second = Node::start(&args(&ours, other));
    let expect = |node: &mut Starting, level: &str, what: &str| {
        let line = node.wait_for_error(what);
        assert!(line.contains(level) && line.contains("tidegate_cluster"), "{line}");
        line
    };
    assert!(expect(&mut node, "INFO", "member joined").contains(other));
    second.signal(Signal::KILL);
    for what in ["member suspect: it does not answer", "member down"] {
        assert!(expect(&mut node, "WARN", what).contains(other));
    }
    let mut again = Node::start(&args(&ours, other));
    assert!(expect(&mut node, "INFO", "member joined").contains(other));
    again.signal(Signal::TERM);
    assert_eq!(again.wait().code(), Some(0));
    assert!(expect(&mut node, "INFO", "member left").contains(other));

    let stranger = Starting::start(&args(&theirs, other));
    expect(&mut node, "WARN", "handshake refused");
    for node in [node, stranger] {
        assert_eq!(node.stop().code, Some(0));
    }
}

/// What it admitted last is lost for the member that does not answer.
#[test]
fn a_leave_that_a_member_has_not_acknowledged_is_logged() {
    let secret = secret();
    let [address, resp] = &free_addresses(2)[..] else { unreachable!() };
    let file = secret.path().to_str().unwrap();
    let mut args = vec!["--cluster", address, "--cluster-secret-file", file];
    args.extend(["--resp", resp, "--drain-timeout", "1s"]);
    let mut node = Starting::start(&args);
    node.wait_for_error("founded a cluster");
    let second = Node::start(&joining_args(&secret, address));
    node.wait_for_error("member joined");

    second.signal(Signal::STOP);
    let mut client = Raw::connect(resp.parse().unwrap());
    client.command(&[b"CL.THROTTLE", b"k", b"99", b"100", b"60", b"50"]);
    client.expect("*5\r\n:0\r\n");
    drop(client);
    let output = node.stop();
    assert_eq!(output.code, Some(0));
    assert!(output.stderr.contains("left before all members acknowledged"), "{}", output.stderr);
}
