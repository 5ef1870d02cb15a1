use std::sync::Arc;

use proptest::prelude::*;
use tidegate_engine::KeyHasher;

use super::super::commands::TABLE;
use super::super::server_info::{RespBounds, ServerInfo};
use super::super::testing::{answer, session, talk};
use super::{ProtocolError, Session};
use crate::config::file::LimitConfig;
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::telemetry::exposition::Format;

fn replies(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut input = Vec::new();
    for args in commands {
        input.extend(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            input.extend([format!("${}\r\n", arg.len()).as_bytes(), arg, b"\r\n"].concat());
        }
    }
    answer(&mut session(), &input)
}

/// The integers in the reply to each line.
fn integers<const N: usize>(lines: [&str; N]) -> [Vec<i64>; N] {
    lines.map(|line| {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let reply = String::from_utf8(replies(&[words])).unwrap();
        reply.split("\r\n").filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect()
    })
}

/// What follows the reply at the front of `bytes`, or `None` when that is not a reply.
fn after_reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&bytes[1..end], &bytes[end + 2..]);
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    match bytes[0] {
        b'+' | b'-' => (!line.contains(&b'\n') && !line.contains(&b'\r')).then_some(rest),
        b':' => number().map(|_| rest),
        b'_' => line.is_empty().then_some(rest),
        b'$' | b'=' => match number()? {
            -1 => Some(rest),
            length => rest.get(usize::try_from(length).ok()?..)?.strip_prefix(b"\r\n"),
        },
        b'*' | b'~' => (0..number()?).try_fold(rest, |rest, _| after_reply(rest)),
        b'%' => (0..number()? * 2).try_fold(rest, |rest, _| after_reply(rest)),
        _ => None,
    }
}

fn arg() -> impl Strategy<Value = Vec<u8>> {
    let words =
        ["2", "3", "AUTH", "default", "SETNAME", "setinfo", "ID", "info", "docs", "lib-name"];
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        (-2_i64..5).prop_map(|number| number.to_string().into_bytes()),
        prop::sample::select(vec![i64::MAX, i64::MIN, 1 << 57, 1_000_000_000])
            .prop_map(|number| number.to_string().into_bytes()),
        prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let known: Vec<&str> =
        TABLE.iter().map(|spec| spec.name).filter(|name| *name != "quit").collect();
    let name = prop_oneof![
        9 => prop::sample::select(known).prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    (name, prop::collection::vec(arg(), 0..7))
        .prop_map(|(name, args)| [name].into_iter().chain(args).collect())
}

/// A peek that is charged as one unit.
#[test]
fn trap_quantity_0_charges() {
    for (command, max_burst) in [("CL.THROTTLE", 1), ("THROTTLE", 2)] {
        let line = |quantity| format!("{command} look:{command} {max_burst} 2 86400 {quantity}");
        let remaining = [0, 0, 0, 1, 0, 1, 0].map(|quantity| integers([&line(quantity)])[0][2]);
        assert_eq!(remaining, [2, 2, 2, 1, 1, 0, 0], "{command}");
    }
}

/// throttlecrab replies with the same figures in another order, and a flag of the opposite meaning.
#[test]
fn trap_one_dialect_answered_in_the_other() {
    // One of two units is used, which takes half a day to drain.
    let answers = integers(["CL.THROTTLE cell 1 2 86400", "THROTTLE crab 2 2 86400"]);
    assert_eq!(answers, [[0, 2, 1, -1, 43_200], [1, 2, 1, 43_200, 0]]);
}

/// x/time/rate: a request for more than the burst waits for ever.
#[test]
fn trap_cost_above_the_burst_is_answered_with_a_time_to_retry() {
    let answers = integers(["CL.THROTTLE large 1 2 86400 3", "THROTTLE large 2 2 86400 3"]);
    assert_eq!(answers, [[1, 2, 2, -1, 0], [0, 2, 2, 0, -1]]);
}

proptest! {
    #[test]
    fn each_command_has_one_reply(commands in prop::collection::vec(command(), 1..6)) {
        let out = replies(&commands);
        let mut rest = out.as_slice();
        for command in &commands {
            let after = after_reply(rest);
            prop_assert!(after.is_some(), "{:?}: {}", command, rest.escape_ascii());
            rest = after.unwrap();
        }
        prop_assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }
}

#[test]
fn what_is_refused_is_counted_by_its_code() {
    let hasher = KeyHasher::siphash([7; 16]);
    let limiters = Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &hasher).unwrap();
    let service = Arc::new(Service::new(limiters, Gossip::alone()));
    let address = "127.0.0.1:1".parse().unwrap();
    let mut bounds = RespBounds::default();
    (bounds.transaction.commands, bounds.transaction.bytes) = (usize::MAX, usize::MAX);
    let server = ServerInfo::new(Arc::clone(&service), address, None, bounds);
    let mut session = Session::new(Arc::new(server), None);
    let refused = ["CL.THROTTLE a -1 1 60", "CL.THROTTLE a x 1 60", "THROTTLE a 0 1 60"];
    talk(&mut session, &refused);
    talk(&mut session, &["CL.THROTTLE a", "CLIENT FOO", "NOPE", "CL.THROTTLE a 5 1 60"]);
    // Of those that are queued each counts once, when it is run.
    talk(&mut session, &["MULTI", "CL.THROTTLE a -1 1 60", "EXEC"]);
    // What a command itself finds wrong, also where no reply is wanted.
    talk(&mut session, &["SELECT 16", "HELLO 4", "CLIENT LIST ID x", "EXEC", "WATCH a"]);
    talk(&mut session, &["MULTI", "MULTI", "ECHO", "EXEC", "AUTH p"]);
    talk(&mut session, &["CLIENT REPLY SKIP", "DISCARD", "SELECT 1", "MULTI", "PING", "EXEC"]);
    talk(&mut session, &["AUTH other x"]);
    // One that takes all room of transactions.
    talk(&mut session, &["MULTI"]);
    let large = format!("ECHO {}", "x".repeat(60_000));
    assert!((0..10_000).any(|_| talk(&mut session, &[&large]) != "+QUEUED"));
    talk(&mut session, &["DISCARD"]);
    session.is_let_in = false;
    talk(&mut session, &["PING", "HELLO 3"]);
    session.fail(ProtocolError::ArgumentCount, &mut Vec::new());
    let text = service.metrics().render(Format::Classic);
    for (code, count) in [
        ("invalid_request", 6 + 10),
        ("unknown_command", 1),
        ("no_password", 2),
        ("wrong_password", 1),
        ("no_room", 1),
        ("protocol", 1),
    ] {
        let line = format!("tidegate_errors_total{{frontend=\"resp\",code=\"{code}\"}} {count}\n");
        assert!(text.contains(&line), "{line} in\n{text}");
    }
}
