use proptest::prelude::*;

use super::MAX_TOGETHER;
use crate::resp::testing::{answer, session, talk};

/// What is sent, with an own prefix for the keys of each case and of each way to send it.
fn lines(commands: &[String], prefix: &str) -> Vec<String> {
    commands.iter().map(|command| command.replace("KEY", prefix)).collect()
}

fn command() -> impl Strategy<Value = String> {
    // Of half a day a unit: nothing drains meanwhile.
    let check = (0..3_u8, prop::sample::select(vec!["CL.THROTTLE", "throttle"]), 1..4_u8, 0..3_u8);
    let check = check
        .prop_map(|(key, name, burst, cost)| format!("{name} KEY:{key} {burst} 2 86400 {cost}"));
    let others = vec![
        "PING",
        "MULTI",
        "EXEC",
        "DISCARD",
        "CLIENT REPLY OFF",
        "CLIENT REPLY ON",
        "CLIENT REPLY SKIP",
        "THROTTLE KEY:0 1",
        "THROTTLE KEY:0 0 1 1",
        "THROTTLE KEY:0 x 1 1",
        "THROTTLE \"\" 1 1 1",
        "unknown",
        "SELECT 1",
        "HELLO 3",
        "RESET",
    ];
    prop_oneof![4 => check, 1 => prop::sample::select(others).prop_map(str::to_owned)]
}

proptest! {
    /// Also where a key is new and comes several times.
    #[test]
    fn pipelined_answers_equal_unpipelined_ones(
        commands in prop::collection::vec(command(), 1..40),
        case in any::<u64>(),
    ) {
        let lines = |way| lines(&commands, &format!("{way}:{case}"));
        let together = lines("together").join("\r\n") + "\r\n";
        let together = answer(&mut session(), together.as_bytes());
        let mut alone = session();
        let alone: Vec<u8> = lines("alone")
            .iter()
            .flat_map(|line| answer(&mut alone, format!("{line}\r\n").as_bytes()))
            .collect();
        let [together, alone] = [together, alone].map(|bytes| String::from_utf8(bytes).unwrap());
        prop_assert_eq!(without_ids(&together), without_ids(&alone));
    }
}

/// The greeting has a number of its own for each connection.
fn without_ids(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    for at in (1..lines.len()).rev() {
        if lines[at - 1] == "id" {
            lines.remove(at);
        }
    }
    lines
}

#[test]
fn more_checks_than_are_decided_together_are_answered_in_order() {
    let checks = 3 * MAX_TOGETHER + 1;
    let lines: Vec<String> =
        (0..checks).map(|_| "CL.THROTTLE many 9999 9 86400".to_owned()).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let replies = talk(&mut session(), &lines);
    let remaining: Vec<usize> = replies
        .split("*5\r\n")
        .skip(1)
        .map(|reply| reply.split("\r\n").nth(2).unwrap()[1..].parse().unwrap())
        .collect();
    assert_eq!(remaining, (0..checks).map(|done| 9_999 - done).collect::<Vec<_>>());
}
