use super::super::testing::{session, talk};
use super::MAX_EXEC_REPLY_BYTES;

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

/// The replies to lines, one a line of text; the integers of an array follow its head.
fn replies(lines: &[&str]) -> Vec<String> {
    talk(&mut session(), lines).split("\r\n").map(str::to_owned).collect()
}

#[test]
fn nothing_is_run_before_exec() {
    let (mut first, mut second) = (session(), session());
    let check = "CL.THROTTLE queued 2 3 86400";
    let queued = talk(&mut first, &["MULTI", check, check]);
    assert_eq!(queued, "+OK\r\n+QUEUED\r\n+QUEUED");
    let look = "CL.THROTTLE queued 2 3 86400 0";
    assert_eq!(talk(&mut second, &[look]), "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0");
    let run = talk(&mut first, &["EXEC"]);
    assert!(run.starts_with("*2\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:28800\r\n*5\r\n:0\r\n:3\r\n:1"));
    assert!(talk(&mut second, &[look]).starts_with("*5\r\n:0\r\n:3\r\n:1"));
}

#[test]
fn a_refused_command_aborts() {
    for bad in [
        "NOPE",
        "PING a b",
        "CLIENT REPLY OFF",
        "CLIENT FOO",
        "CLIENT SETNAME",
        "CONFIG SET maxclients 1",
        "COMMAND GETKEYS x",
    ] {
        let replies = replies(&["MULTI", bad, "PING", "EXEC", "EXEC"]);
        assert!(replies[1].starts_with("-ERR "), "{bad}: {replies:?}");
        assert_eq!(replies[2..], ["+QUEUED", ABORTED, "-ERR EXEC without MULTI"], "{bad}");
    }
}

/// As in Redis.
#[test]
fn an_exec_with_arguments_ends_its_transaction() {
    let error = "-EXECABORT Transaction discarded because of: wrong number of arguments for \
                 'exec' command";
    let ended = "-ERR EXEC without MULTI";
    assert_eq!(replies(&["MULTI", "EXEC now", "EXEC"]), ["+OK", error, ended]);
    assert_eq!(replies(&["EXEC now", "PING"]), [error, "+PONG"]);
}

#[test]
fn what_redis_answers_at_once_does_not_abort() {
    let replies = replies(&["MULTI", "MULTI", "WATCH k", "PING", "EXEC"]);
    assert_eq!(
        replies,
        [
            "+OK",
            "-ERR MULTI calls can not be nested",
            "-ERR WATCH inside MULTI is not allowed",
            "+QUEUED",
            "*1",
            "+PONG"
        ]
    );
}

#[test]
fn discard_and_reset_forget_what_is_queued() {
    let replies = replies(&["MULTI", "DISCARD", "EXEC", "MULTI", "RESET", "DISCARD"]);
    assert_eq!(
        replies,
        ["+OK", "+OK", "-ERR EXEC without MULTI", "+OK", "+RESET", "-ERR DISCARD without MULTI"]
    );
}

/// Few bytes can ask for many.
#[test]
fn replies_are_bounded() {
    let mut session = session();
    talk(&mut session, &["MULTI"]);
    talk(&mut session, &vec!["COMMAND"; 5_000]);
    let replies = talk(&mut session, &["EXEC"]);
    let refusals = replies.matches("-ERR not run").count();
    let one = talk(&mut session, &["COMMAND"]).len();
    assert!((4_000..5_000).contains(&refusals), "{refusals}");
    assert!(replies.len() - refusals * 14 < MAX_EXEC_REPLY_BYTES + one, "{}", replies.len());
}
