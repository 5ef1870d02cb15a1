//! The Redis protocol, byte by byte and through a client library.

use std::io::Write;

use redis::Value;
use tidegate_tests::{Node, Raw, post, redis as client, wait_until};

#[test]
fn cl_throttle_answers_in_its_order() {
    let node = Node::start(&[]);
    for version in [2, 3] {
        let mut redis = client(&node, version);
        let key = format!("k{version}");
        let mut ask = |quantity: u64| -> Vec<i64> {
            let mut command = redis::cmd("CL.THROTTLE");
            command.arg(&key).arg(9).arg(10).arg(86_400).arg(quantity);
            command.query(&mut redis).unwrap()
        };
        assert_eq!(ask(0), [0, 10, 10, -1, 0]);
        assert_eq!(ask(1), [0, 10, 9, -1, 8_640]);
        assert_eq!(ask(11)[..4], [1, 10, 9, -1]);
        assert_eq!(ask(9)[..4], [0, 10, 0, -1]);
        let denied = ask(2);
        assert_eq!(denied[..3], [1, 10, 0]);
        assert!((2 * 8_640 - 300..=2 * 8_640).contains(&denied[3]), "{denied:?}");
        assert!((86_400 - 300..=86_400).contains(&denied[4]), "{denied:?}");
    }
}

#[test]
fn throttle_answers_in_its_own_order() {
    let node = Node::start(&[]);
    let mut redis = client(&node, 2);
    let mut ask = |quantity: u64| -> Vec<i64> {
        let mut command = redis::cmd("THROTTLE");
        command.arg("k").arg(10).arg(10).arg(86_400).arg(quantity);
        command.query(&mut redis).unwrap()
    };
    assert_eq!(ask(0), [1, 10, 10, 0, 0]);
    assert_eq!(ask(1), [1, 10, 9, 8_640, 0]);
    assert_eq!(ask(11)[..3], [0, 10, 9]);
    assert_eq!(ask(11)[4], -1);
    assert_eq!(ask(9)[..3], [1, 10, 0]);
    let denied = ask(2);
    assert_eq!(denied[..3], [0, 10, 0]);
    assert!((86_400 - 300..=86_400).contains(&denied[3]), "{denied:?}");
    assert!((2 * 8_640 - 300..=2 * 8_640).contains(&denied[4]), "{denied:?}");
}

#[test]
fn all_front_ends_share_the_keys_of_inline_limits() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    raw.send(b"CL.THROTTLE k 9 10 86400\r\n");
    raw.expect("*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:8640\r\n");
    raw.send(b"THROTTLE k 10 10 86400 0\r\n");
    raw.expect("*5\r\n:1\r\n:10\r\n:9\r\n");
    let _ = (raw.line(), raw.line());
    let inline = post(&node, "/v1/check", r#"{"key":"k","rate":"10/d","burst":10,"cost":0}"#);
    assert_eq!(inline.json()["remaining"], 9);
    // A named limit has keys of its own.
    let named = post(&node, "/v1/check", r#"{"key":"k","limit":"default","cost":0}"#);
    assert_eq!(named.json()["remaining"], 200);
}

const NO_PASSWORD: &str = "-ERR AUTH <password> called without any password configured for the \
    default user. Are you sure your configuration is correct?";

#[test]
fn every_reply_has_its_bytes() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    for (command, reply) in [
        ("PING", "+PONG"),
        ("ping hello", "$5\r\nhello"),
        ("ECHO \"a\\r\\nb\"", "$4\r\na\r\nb"),
        ("SELECT 0", "+OK"),
        ("SELECT 15", "+OK"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT -1", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT GETNAME", "$2\r\nme"),
        ("CLIENT SETINFO LIB-NAME redis-rs", "+OK"),
        ("CLIENT SETINFO lib-ver 1", "+OK"),
        ("CLIENT SETINFO colour red", "-ERR Unrecognized option for CLIENT SETINFO"),
        (
            "CLIENT SETINFO lib-ver \"1 2\"",
            "-ERR lib-ver cannot contain spaces, newlines or \
          special characters.",
        ),
        ("CLIENT NO-EVICT on", "+OK"),
        ("CLIENT NO-TOUCH off", "+OK"),
        ("CLIENT LIST ID 999999", "$0\r\n"),
        ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT WHAT", "-ERR unknown subcommand 'WHAT'"),
        ("COMMAND COUNT", ":20"),
        ("COMMAND DOCS", "*0"),
        ("COMMAND LIST FILTERBY PATTERN *exec", "*1\r\n$4\r\nexec"),
        (
            "command list filterby aclcat Transaction",
            "*5\r\n$5\r\nmulti\r\n$4\r\nexec\r\n$7\r\ndiscard\r\n$5\r\nwatch\r\n$7\r\nunwatch",
        ),
        ("COMMAND LIST FILTERBY ACLCAT write", "*2\r\n$11\r\ncl.throttle\r\n$8\r\nthrottle"),
        ("COMMAND LIST FILTERBY ACLCAT none", "*0"),
        ("COMMAND LIST FILTERBY MODULE x", "*0"),
        ("COMMAND LIST FILTERBY what x", "-ERR syntax error"),
        ("COMMAND LIST FILTERBY", "-ERR syntax error"),
        ("COMMAND INFO nope", "*1\r\n$-1"),
        ("AUTH x", NO_PASSWORD),
        ("AUTH default x", NO_PASSWORD),
        ("AUTH default \"\"", NO_PASSWORD),
        ("AUTH other x", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 AUTH default x", NO_PASSWORD),
        ("CONFIG GET save Append*", "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nsave\r\n$0\r\n"),
        ("CONFIG GET nothing", "*0"),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command"),
        ("CONFIG SET save x", "-ERR unknown subcommand 'SET'"),
        ("HELLO 3 WHAT", "-ERR Syntax error in HELLO"),
        ("RESET", "+RESET"),
        ("CLIENT GETNAME", "$-1"),
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
        ("NOPE a b", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "),
        ("\"NO\\r\\nPE\"", "-ERR unknown command 'NO??PE', with args beginning with: "),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
    ] {
        raw.send(format!("{command}\r\n").as_bytes());
        raw.expect(&format!("{reply}\r\n"));
    }
}

#[test]
fn a_refused_check_says_why_and_takes_nothing() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let long_key = "k".repeat(1_025);
    for (command, reply) in [
        ("CL.THROTTLE k 1 1", "-ERR wrong number of arguments for 'cl.throttle' command"),
        ("throttle k 1 1 1 1 1", "-ERR wrong number of arguments for 'throttle' command"),
        ("CL.THROTTLE k x 1 1", "-ERR value is not an integer or out of range"),
        ("CL.THROTTLE k 1 1.5 1", "-ERR value is not an integer or out of range"),
        ("CL.THROTTLE k 1 1 9223372036854775808", "-ERR value is not an integer or out of range"),
        ("CL.THROTTLE k 1 1 1 \"\"", "-ERR value is not an integer or out of range"),
        ("CL.THROTTLE k -1 1 1", "-ERR max_burst must be 0 or more"),
        ("THROTTLE k 0 1 1", "-ERR max_burst must be 1 or more"),
        ("CL.THROTTLE k 1 0 1", "-ERR count per period must be 1 or more"),
        ("CL.THROTTLE k 1 -1 1", "-ERR count per period must be 1 or more"),
        ("CL.THROTTLE k 1 1 0", "-ERR period must be 1 second or more"),
        ("CL.THROTTLE k 1 1 -1", "-ERR period must be 1 second or more"),
        ("CL.THROTTLE k 1 1 1 -1", "-ERR quantity must be 0 or more"),
        ("CL.THROTTLE \"\" 1 1 1", "-ERR the key must be 1 to 1024 bytes"),
        (&format!("CL.THROTTLE {long_key} 1 1 1"), "-ERR the key must be 1 to 1024 bytes"),
        (
            "CL.THROTTLE k 9223372036854775807 1 1",
            "-ERR the burst takes too long to refill at this rate",
        ),
        (
            "CL.THROTTLE k 1 9223372036854775807 1",
            "-ERR the rate must be at most 1000000000 per second",
        ),
        ("CL.THROTTLE k 1 1 9223372036854775807", "-ERR the period is too long"),
        // None of the refusals took anything.
        ("CL.THROTTLE k 1 1 86400 0", "*5\r\n:0\r\n:2\r\n:2\r\n:-1\r\n:0"),
        ("CL.THROTTLE k 0 1 1 9223372036854775807", "*5\r\n:1\r\n:1\r\n:1\r\n:-1\r\n:0"),
    ] {
        raw.send(format!("{command}\r\n").as_bytes());
        raw.expect(&format!("{reply}\r\n"));
    }
}

#[test]
fn hello_changes_the_version() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let greeting = |version: u8, head: &str| {
        let version_text = env!("CARGO_PKG_VERSION");
        format!(
            "{head}\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n${}\r\n{version_text}\r\n\
             $5\r\nproto\r\n:{version}\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n\
             $4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
            version_text.len()
        )
    };
    raw.send(b"HELLO\r\n");
    raw.expect(&greeting(2, "*14"));
    raw.send(b"hello 3 setname me\r\n");
    raw.expect(&greeting(3, "%7"));
    raw.send(b"CLIENT GETNAME\r\nCOMMAND DOCS\r\nCOMMAND INFO nope\r\n");
    raw.expect("$2\r\nme\r\n%0\r\n*1\r\n_\r\n");
    raw.send(b"INFO\r\n");
    assert!(raw.line().starts_with('='));
    raw.expect("txt:# Server\r\n");
    let mut raw = Raw::connect(node.resp);
    raw.send(b"HELLO 3 AUTH other x\r\nHELLO 3 SETNAME me AUTH default x\r\nCLIENT GETNAME\r\n");
    raw.expect("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    // A name that stands before it does not take effect either.
    raw.expect(&format!("{NO_PASSWORD}\r\n$-1\r\n"));
}

#[test]
fn a_password_that_is_configured_is_asked_for() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"secret\n").unwrap();
    let node = Node::start(&["--resp-password-file", file.path().to_str().unwrap()]);
    let mut raw = Raw::connect(node.resp);
    raw.send(b"CL.THROTTLE k 1 1 86400\r\nAUTH other\r\nAUTH secret\r\nPING\r\n");
    raw.expect("-NOAUTH Authentication required.\r\n");
    raw.expect(
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n+PONG\r\n",
    );
    for version in [2, 3] {
        let open = |login: &str| {
            let url = format!("redis://{login}@{}/?protocol=resp{version}", node.resp);
            redis::Client::open(url).unwrap().get_connection()
        };
        assert!(open(":other").is_err());
        let mut redis = open(":secret").unwrap();
        let left: Vec<i64> = redis::cmd("CL.THROTTLE")
            .arg(&["k", "1", "1", "86400", "0"])
            .query(&mut redis)
            .unwrap();
        assert_eq!(left, [0, 2, 2, -1, 0]);
    }
}

#[test]
fn a_client_library_finds_a_server() {
    for version in [2, 3] {
        // A node of its own: the end of an earlier connection may not have been detected yet.
        let node = Node::start(&[]);
        let mut redis = client(&node, version);
        let info: redis::InfoDict = redis::cmd("INFO").query(&mut redis).unwrap();
        assert!(info.get::<String>("tidegate_version").is_some());
        assert_eq!(info.get::<String>("redis_version").as_deref(), Some("7.4.0"));
        assert!(info.get::<u64>("total_commands_processed").is_some());
        assert_eq!(info.get::<u16>("tcp_port"), Some(node.resp.port()));
        let section: redis::InfoDict = redis::cmd("INFO").arg("clients").query(&mut redis).unwrap();
        assert!(section.get::<String>("tidegate_version").is_none());
        assert_eq!(section.get::<u64>("connected_clients"), Some(1));
        let first: i64 = redis::cmd("CLIENT").arg("ID").query(&mut redis).unwrap();
        let second: i64 = redis::cmd("CLIENT").arg("ID").query(&mut redis).unwrap();
        assert_eq!(first, second);
        let Value::Array(commands) = redis::cmd("COMMAND").query(&mut redis).unwrap() else {
            panic!("an array")
        };
        assert_eq!(commands.len(), 20);
        for command in commands {
            let Value::Array(fields) = command else { panic!("an array") };
            assert_eq!(fields.len(), 10);
        }
        let error = redis::cmd("NOPE").query::<()>(&mut redis).unwrap_err();
        assert!(error.to_string().contains("unknown command"), "{error}");
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let node = Node::start(&[]);
    let mut redis = client(&node, 2);
    let mut pipe = redis::pipe();
    for _ in 0..1_000 {
        pipe.cmd("CL.THROTTLE").arg("k").arg(499).arg(500).arg(86_400);
    }
    let replies: Vec<Vec<i64>> = pipe.query(&mut redis).unwrap();
    for (number, reply) in (0..).zip(&replies) {
        assert_eq!(reply[0], i64::from(number >= 500), "{number}");
        assert_eq!(reply[2], (499 - number).max(0), "{number}");
    }
}

#[test]
fn a_client_is_listed_while_it_is_connected() {
    let node = Node::start(&[]);
    let (mut one, mut other) = (Raw::connect(node.resp), Raw::connect(node.resp));
    one.send(b"CLIENT SETNAME one\r\n");
    one.expect("+OK\r\n");
    other.send(b"HELLO 3 SETNAME other\r\n");
    while other.line() != "modules" {}
    other.expect("*0\r\n");
    let list = || {
        let mut redis = client(&node, 2);
        let text: String = redis::cmd("CLIENT").arg("LIST").query(&mut redis).unwrap();
        text
    };
    let text = list();
    assert_eq!(text.lines().count(), 3, "{text}");
    for (line, fields) in text.lines().zip([["name=one", "resp=2"], ["name=other", "resp=3"]]) {
        let has = |field: &str| line.split(' ').any(|found| found == field);
        assert!(fields.into_iter().all(has), "{line}");
        assert!(
            has(&format!("laddr={}", node.resp)) && line.contains(" addr=127.0.0.1:"),
            "{line}"
        );
    }
    drop(one);
    wait_until("it is listed no more", || !list().contains("name=one"));
    other.expect_alive();
}

#[test]
fn keys_are_counted_and_time_is_answered() {
    let node = Node::start(&[]);
    let mut redis = client(&node, 2);
    for key in 0..100 {
        let mut check = redis::cmd("CL.THROTTLE");
        let _: Vec<i64> = check.arg(key).arg(9).arg(10).arg(86_400).query(&mut redis).unwrap();
    }
    let named = post(&node, "/v1/check", r#"{"key":"k","rate":"1/d"}"#);
    assert_eq!(named.status, 200);
    wait_until("all keys are counted", || {
        let keys: u64 = redis::cmd("DBSIZE").query(&mut redis).unwrap();
        keys == 101
    });
    let info: redis::InfoDict = redis::cmd("INFO").arg("keyspace").query(&mut redis).unwrap();
    assert_eq!(info.get::<String>("db0").as_deref(), Some("keys=101,expires=101,avg_ttl=0"));
    let [seconds, micros]: [u64; 2] = redis::cmd("TIME").query(&mut redis).unwrap();
    assert!(seconds > 1_700_000_000 && micros < 1_000_000, "{seconds}.{micros}");
}

/// All replies to one read leave in one write, so they arrive together.
#[test]
fn replies_to_one_read_are_written_at_once() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    raw.expect_alive();
    for _ in 0..20 {
        raw.send(&b"PING\r\n".repeat(500));
        assert_eq!(raw.read().len(), 500 * "+PONG\r\n".len());
    }
}

#[test]
fn a_command_may_arrive_byte_by_byte() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    for byte in b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\nPING\r\n" {
        raw.send(&[*byte]);
    }
    raw.expect("$5\r\nhello\r\n+PONG\r\n");
}

#[test]
fn what_is_not_the_protocol_ends_the_connection() {
    let node = Node::start(&[]);
    let words = "x ".repeat(65);
    let line = "x".repeat(64 * 1024 + 1);
    for (bytes, problem) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*65\r\n", "at most 64 arguments"),
        ("*1\r\n:1\r\n", "expected '$'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*2\r\n$4\r\nECHO\r\n$65537\r\n", "at most 65536 bytes"),
        ("*1\r\n$4\r\nPING!\r\n", "expected CRLF"),
        ("*1111111111111111111111111111111111111\r\n", "too big count string"),
        ("\"PING\r\n", "unbalanced quotes"),
        (&words, "at most 64 arguments"),
        (&line, "too big inline request"),
    ] {
        let mut raw = Raw::connect(node.resp);
        // What came before is answered, what comes after is not.
        raw.send(format!("PING\r\n{bytes}\r\nPING\r\n").as_bytes());
        raw.expect("+PONG\r\n");
        let error = raw.line();
        assert!(error.starts_with("-ERR Protocol error: "), "{bytes}: {error}");
        assert!(error.contains(problem), "{bytes}: {error}");
        raw.expect_end();
    }
}

/// Hanging up with bytes unread would reset the connection, and the error might never be seen.
#[test]
fn the_last_error_reaches_a_client_that_goes_on_sending() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    raw.send(&[b"*x\r\n".as_slice(), &vec![b'x'; 900 * 1024]].concat());
    assert_eq!(raw.line(), "-ERR Protocol error: invalid multibulk length");
    raw.expect_end();
}

#[test]
fn a_browser_is_answered_and_disconnected() {
    let node = Node::start(&[]);
    for (head, unknown) in [("POST / HTTP/1.1\r\n", "POST"), ("PING\r\nhost: x\r\n", "host:")] {
        let mut raw = Raw::connect(node.resp);
        raw.send(format!("{head}\r\nCL.THROTTLE k 1 1 86400\r\n").as_bytes());
        if head.starts_with("PING") {
            raw.expect("+PONG\r\n");
        }
        let error = raw.line();
        assert!(error.starts_with(&format!("-ERR unknown command '{unknown}'")), "{error}");
        raw.expect_end();
    }
    let mut raw = Raw::connect(node.resp);
    raw.send(b"CL.THROTTLE k 1 1 86400 0\r\n");
    raw.expect("*5\r\n:0\r\n:2\r\n:2\r\n");
}

#[test]
fn as_much_as_is_promised_is_taken() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let argument = vec![b'x'; 64 * 1024];
    raw.command(&[b"ECHO", &argument]);
    raw.expect(&format!("$65536\r\n{}\r\n", "x".repeat(64 * 1024)));
    let mut args = vec![argument.as_slice(); 64];
    args[0] = b"PING";
    raw.command(&args);
    raw.expect("-ERR wrong number of arguments for 'ping' command\r\n");
    raw.expect_alive();
}

#[test]
fn quit_says_goodbye_and_nothing_more() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    raw.send(b"QUIT\r\nPING\r\n");
    raw.expect("+OK\r\n");
    raw.expect_end();
}

/// A client that asks and never reads fills the buffers of both systems and no more: the node stops
/// reading. Others are served meanwhile, and every reply is there once it reads.
#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    const MOST: usize = 256 * 1024 * 1024;
    let node = Node::start(&[]);
    let mut deaf = Raw::connect(node.resp);
    let command = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", "x".repeat(1_000));
    let sent = deaf.flood(command.as_bytes(), MOST, std::time::Duration::from_secs(2));
    assert!(sent < MOST, "the node took everything");
    Raw::connect(node.resp).expect_alive();
    let reply = format!("$1000\r\n{}\r\n", "x".repeat(1_000));
    for _ in 0..sent / command.len() {
        deaf.expect(&reply);
    }
}

/// A client that sends all of a long pipeline before it reads, as most do: more than the buffers of
/// both systems hold.
#[test]
fn a_pipeline_is_answered_however_long_it_is() {
    const COMMANDS: usize = 200_000;
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.resp);
    let command = |more: usize| {
        let (digits, end) = (more.to_string().len(), "$1\r\n1\r\n$1\r\n0\r\n");
        let key = "*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n";
        format!("{key}${digits}\r\n{more}\r\n$2\r\n10\r\n{end}")
    };
    raw.send((0..COMMANDS).map(command).collect::<String>().as_bytes());
    for limit in 1..=COMMANDS {
        raw.expect(&format!("*5\r\n:0\r\n:{limit}\r\n:{limit}\r\n:-1\r\n:0\r\n"));
    }
}
