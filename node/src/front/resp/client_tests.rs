use super::super::parser::Parser;
use super::super::testing::{session, talk};

#[test]
fn replies_are_left_out_as_asked() {
    let mut session = session();
    let skipped = talk(&mut session, &["CLIENT REPLY SKIP", "PING one", "PING two"]);
    assert_eq!(skipped, "$3\r\ntwo");
    assert_eq!(talk(&mut session, &["CLIENT REPLY OFF", "PING", "NOPE", "CLIENT REPLY SKIP"]), "");
    assert_eq!(talk(&mut session, &["PING", "CLIENT REPLY ON", "PING"]), "+OK\r\n+PONG");
    let twice = ["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING one", "PING two"];
    assert_eq!(talk(&mut session, &twice), "$3\r\ntwo");
    assert_eq!(talk(&mut session, &["CLIENT REPLY SKIP", "CLIENT REPLY ON"]), "+OK");
    assert_eq!(talk(&mut session, &["CLIENT REPLY SKIP", "RESET", "PING"]), "+PONG");
    assert_eq!(talk(&mut session, &["CLIENT REPLY MAYBE"]), "-ERR syntax error");
    // Asking again for what is off changes nothing.
    assert_eq!(talk(&mut session, &["CLIENT REPLY OFF", "RESET", "PING"]), "+RESET\r\n+PONG");
}

/// Else a client could have any number of long ones made in one turn.
#[test]
fn replies_that_are_left_out_are_counted_as_work() {
    let (mut session, mut out) = (session(), Vec::new());
    let mut run = |input: &[u8]| {
        let mut parser = Parser::default();
        let (command, _) = parser.next(input).unwrap().unwrap();
        session.run(&command, &mut out)
    };
    assert_eq!(run(b"COMMAND\r\n"), 0);
    run(b"CLIENT REPLY OFF\r\n");
    assert!(run(b"COMMAND\r\n") > 1_000);
}

#[test]
fn a_client_sees_itself_as_it_is() {
    let mut session = session();
    let names = ["CLIENT SETNAME me", "CLIENT SETINFO lib-name x", "CLIENT SETINFO LIB-VER 1.0"];
    talk(&mut session, &names);
    let line = talk(&mut session, &["SELECT 3", "CLIENT INFO"]);
    for field in ["id=1", "name=me", "db=3", "multi=-1", "cmd=client", "resp=2", "lib-name=x"] {
        assert!(line.contains(&format!("{field} ")), "{field} in {line}");
    }
    assert!(line.ends_with(" lib-ver=1.0"), "{line}");
    let queued = talk(&mut session, &["MULTI", "PING", "PING"]);
    assert_eq!(queued, "+OK\r\n+QUEUED\r\n+QUEUED");
    let clients = session.server.clients().list(std::time::Duration::ZERO, |_| None, None);
    assert!(String::from_utf8(clients).unwrap().contains(" flags=x db=3 "));
    assert!(talk(&mut session, &["RESET", "CLIENT INFO"]).contains(" name= "));
}

#[test]
fn a_list_is_of_a_type_and_of_ids() {
    let lines = |command: &str| talk(&mut session(), &[command]).matches("id=").count();
    for (command, count) in [
        ("CLIENT LIST", 1),
        ("CLIENT LIST TYPE normal", 1),
        ("CLIENT LIST TYPE pubsub", 0),
        ("CLIENT LIST ID 1 2", 1),
        ("CLIENT LIST ID 2", 0),
        ("CLIENT LIST TYPE replica ID 1", 0),
    ] {
        assert_eq!(lines(command), count, "{command}");
    }
    for (command, problem) in [
        ("CLIENT LIST TYPE", "syntax error"),
        ("CLIENT LIST ID", "syntax error"),
        ("CLIENT LIST TYPE odd", "Unknown client type"),
        ("CLIENT LIST ID 0", "Invalid client ID"),
        ("CLIENT LIST ID 1 x", "Invalid client ID"),
        ("CLIENT LIST 1", "syntax error"),
        ("CLIENT NO-EVICT perhaps", "syntax error"),
        (
            "CLIENT SETINFO lib-name \"a b\"",
            "lib-name cannot contain spaces, newlines or special \
          characters.",
        ),
    ] {
        assert_eq!(talk(&mut session(), &[command]), format!("-ERR {problem}"), "{command}");
    }
}
