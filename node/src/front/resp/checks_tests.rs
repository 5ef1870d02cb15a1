use proptest::prelude::*;

use super::MAX_TOGETHER;
use crate::front::resp::parser::Parser;
use crate::front::resp::testing::{answer, session, talk};

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
        let in_one = |lines: Vec<String>, spell: fn(&str) -> String| {
            let sent: String = lines.iter().map(|command| spell(command)).collect();
            answer(&mut session(), sent.as_bytes())
        };
        let together = in_one(lines("together"), line);
        let arrays = in_one(lines("arrayall"), array);
        let mut alone = session();
        let alone: Vec<u8> = lines("by-self!")
            .iter()
            .flat_map(|command| answer(&mut alone, line(command).as_bytes()))
            .collect();
        let [together, arrays, alone] =
            [together, arrays, alone].map(|bytes| String::from_utf8(bytes).unwrap());
        prop_assert_eq!(without_ids(&together), without_ids(&alone));
        prop_assert_eq!(without_ids(&arrays), without_ids(&alone));
    }
}

fn line(command: &str) -> String {
    format!("{command}\r\n")
}

/// As client libraries send it.
fn array(command: &str) -> String {
    let args = command.split(' ').map(|arg| if arg == "\"\"" { "" } else { arg });
    let args: Vec<String> = args.map(|arg| format!("${}\r\n{arg}\r\n", arg.len())).collect();
    format!("*{}\r\n{}", args.len(), args.concat())
}

/// One that is spelled as the one before it in all but the key, and as one with other terms.
#[test]
fn a_check_is_taken_for_no_other_that_is_spelled_alike() {
    let commands = [
        "CL.THROTTLE alike:a 9 10 86400",
        "CL.THROTTLE alike:b 9 10 86400",
        "CL.THROTTLE alike:c 9 10 864000",
        "CL.THROTTLE alike:longer 9 10 864000",
        "cl.throttle alike:d 9 10 864000 2",
        "CL.THROTTLE  9 10 864000 2",
        "CL.THROTTLE alike:e 9 10 864000 2 3",
    ];
    let arrays = commands.map(array).concat();
    let replies = String::from_utf8(answer(&mut session(), arrays.as_bytes())).unwrap();
    let figures = |cost: u64, interval: u64| {
        format!("*5\r\n:0\r\n:10\r\n:{}\r\n:-1\r\n:{}\r\n", 10 - cost, cost * interval)
    };
    let expected = [
        figures(1, 8_640).repeat(2),
        figures(1, 86_400).repeat(2),
        figures(2, 86_400),
        "-ERR the key must be 1 to 1024 bytes\r\n".to_owned(),
        "-ERR wrong number of arguments for 'cl.throttle' command\r\n".to_owned(),
    ];
    assert_eq!(replies, expected.concat());
}

#[test]
fn a_check_that_is_spelled_alike_is_the_last_command() {
    let mut session = session();
    let check = |key| array(&format!("CL.THROTTLE last:{key} 9 10 86400"));
    answer(&mut session, check('a').as_bytes());
    let last = session.last;
    answer(&mut session, array("PING").as_bytes());
    assert_ne!(session.last, last);
    answer(&mut session, check('b').as_bytes());
    assert_eq!(session.last, last);
}

/// What a line leaves behind is no command of any spelling.
#[test]
fn nothing_is_spelled_as_a_check_in_a_line() {
    let sent = "THROTTLE ab 5 2 86400\r\nTHROTTLEab$1\r\nx5286400\r\n";
    let replies = String::from_utf8(answer(&mut session(), sent.as_bytes())).unwrap();
    assert_eq!(replies.matches("-ERR unknown command").count(), 2, "{replies}");
}

/// A command that has not arrived in full, and bytes that end otherwise.
#[test]
fn a_check_that_is_spelled_alike_is_read_whole() {
    let first = array("CL.THROTTLE whole:a 9 10 86400");
    let second = array("CL.THROTTLE whole:b 9 10 86400");
    let mut session = session();
    let mut out = Vec::new();
    let mut parser = Parser::default();
    let mut run = |input: &str| session.run_next(&mut parser, input.as_bytes(), &mut out);
    assert_eq!(run(&first).unwrap(), Some((first.len(), 0)));
    for end in 0..second.len() {
        assert_eq!(run(&second[..end]).unwrap(), None, "{end}");
    }
    assert_eq!(run(&second).unwrap(), Some((second.len(), 0)));
    let longer = second.clone() + &first;
    assert_eq!(run(&longer).unwrap(), Some((second.len(), 0)));
    assert!(run(&second.replace("86400\r\n", "86400xx")).is_err());
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
