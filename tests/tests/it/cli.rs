//! Flags, files and addresses, right and wrong.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tempfile::NamedTempFile;
use tidegate_tests::{Node, Starting, get, mistake, post, run, run_into};

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn a_node_on_port_0_says_where_it_is_and_what_to_try() {
    let node = Node::start(&[]);
    assert_ne!(node.resp.port(), 0);
    assert_ne!(node.http.port(), 0);
    assert_eq!(node.cluster, None);
    let port = node.resp.port();
    assert!(node.greeting.contains(&format!("redis-cli -h 127.0.0.1 -p {port} CL.THROTTLE ")));
    assert!(node.greeting.contains(&format!("curl -i http://{}/v1/check ", node.http)));
    assert!(node.greeting.contains(" replay tests/fixtures/access.log --rate "));
}

#[test]
fn the_replay_command_of_the_greeting_works() {
    let node = Node::start(&[]);
    let shown = node.greeting.lines().find_map(|line| line.split_once("-- replay ")).unwrap().1;
    let args: Vec<&str> = ["replay"].into_iter().chain(shown.split(' ')).collect();
    let output = run(&args);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("denied"));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (args, word) in [
        (&["--help"][..], "--cluster-secret-file"),
        (&["serve", "--help"], "--config"),
        (&["replay", "--help"], "--burst"),
        (&["replay", "--help"], "reordered, which are those whose time is earlier than"),
        (&["--version"], "tidegate "),
    ] {
        let output = run(args);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert!(output.stdout.contains(word), "{}", output.stdout);
    }
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    for args in [&["--help"][..], &["serve", "--version"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = run_into(args, full.into());
        let line = "tidegate: standard output: No space left on device (os error 28)\n";
        assert_eq!((output.code, output.stderr.as_str()), (Some(2), line), "{args:?}");
    }
}

#[test]
fn bad_flags_are_named() {
    for (args, name) in [
        (&["--resp", "nowhere"][..], "--resp"),
        (&["serve", "--http", "127.0.0.1"], "--http"),
        (&["--resp", "nosuchhost.invalid:80"], "nosuchhost.invalid does not resolve"),
        (&["--resp", "nosuchhost.invalid:port"], "expected ADDRESS:PORT"),
        (&["--frobnicate"], "--frobnicate"),
        (&["--jion", "127.0.0.1:1"], "tip: a similar argument exists: '--join'"),
        (&["frobnicate"], "frobnicate"),
        (&["--config"], "--config"),
        (&["--cluster", "127.0.0.1:0"], "--cluster-secret-file"),
        (&["--join", "127.0.0.1:1"], "--cluster"),
    ] {
        let line = mistake(args);
        assert!(line.contains(name), "{args:?}: {line}");
    }
}

#[test]
fn an_address_in_use_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--resp", "--http"] {
        let other = if flag == "--resp" { "--http" } else { "--resp" };
        let line = mistake(&[flag, &address, other, "127.0.0.1:0"]);
        assert!(line.contains(&format!("{flag} {address}: ")), "{line}");
    }
}

#[test]
fn a_bad_config_is_named_with_file_line_and_key() {
    let bad = file("[[limit]]\nname = \"a\"\nrate = \"1/x\"\nburst = 1\n");
    let path = bad.path().to_str().unwrap();
    let line = mistake(&["--config", path]);
    assert!(line.contains(&format!("{path}: line 3: limit.rate: ")), "{line}");

    let odd = file("\"a\\nb\" = 1\n");
    let line = mistake(&["--config", odd.path().to_str().unwrap()]);
    assert!(line.contains("line 1: "), "{line}");

    let empty = file("\n");
    let line = mistake(&["--resp-password-file", empty.path().to_str().unwrap()]);
    assert!(line.contains("--resp-password-file ") && line.contains("1 to 512 bytes"), "{line}");

    let line = mistake(&["--config", "no/such/file.toml"]);
    assert!(line.contains("--config no/such/file.toml: "), "{line}");
}

#[test]
fn the_limits_of_a_config_replace_the_built_in_one() {
    let config = file(
        "[[limit]]\nname = \"a\"\nrate = \"1/d\"\nburst = 2\n\n\
         [[limit]]\nname = \"b\"\nrate = \"1/h\"\nburst = 1_000\n",
    );
    let node = Node::start(&["--config", config.path().to_str().unwrap()]);
    assert!(node.greeting.contains(r#""limit":"a""#));
    let limit = |name: &str| {
        let reply = post(&node, "/v1/check", &format!(r#"{{"key":"k","limit":"{name}"}}"#));
        (reply.status, reply.json()["limit"].as_u64())
    };
    assert_eq!(limit("a"), (200, Some(2)));
    assert_eq!(limit("b"), (200, Some(1_000)));
    assert_eq!(limit("default"), (404, None));
    // Each limit has keys of its own.
    assert_eq!(limit("a"), (200, Some(2)));
    assert_eq!(limit("a"), (429, Some(2)));
    assert_eq!(limit("b"), (200, Some(1_000)));
    assert_eq!(get(&node, "/healthz").status, 200);
}

/// As after a write that a full disk has cut short.
#[test]
fn a_config_without_limits_does_not_start() {
    for text in ["", "# none\n"] {
        let config = file(text);
        let line = mistake(&["--config", config.path().to_str().unwrap()]);
        assert!(line.contains(": there is no limit"), "{line}");
    }
}

/// As an editor or a deployment may leave it.
#[test]
fn a_secret_that_is_none_is_refused_and_one_that_others_read_is_logged() {
    let secret = file("0123456789abcdef");
    let args = ["--cluster", "127.0.0.1:0", "--cluster-secret-file"];
    let args = [&args[..], &[secret.path().to_str().unwrap()]].concat();
    let allow = |mode| {
        std::fs::set_permissions(secret.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o646);
    let line = mistake(&args);
    assert!(line.ends_with(": other users may write it (mode 0646); chmod 600\n"), "{line}");
    for (mode, access) in [
        (0o600, None),
        (0o640, Some("its group may read it (mode 0640); chmod 600\n")),
        (0o624, Some("its group may write it and others may read it (mode 0624); chmod 600\n")),
    ] {
        allow(mode);
        let mut node = Starting::start(&args);
        node.wait_for_output();
        let said = node.stop().stderr;
        let path = format!("{}: ", secret.path().display());
        let logged = said.split_once(&path).map(|(_, rest)| rest);
        let is_expected = match access {
            None => logged.is_none(),
            Some(line) => logged.is_some_and(|logged| logged.starts_with(line)),
        };
        assert!(is_expected, "{mode:o}: {said}");
    }
    std::fs::write(secret.path(), "x".repeat(32)).unwrap();
    let line = mistake(&args);
    assert!(line.ends_with(": the secret must have at least 5 different bytes\n"), "{line}");
}

#[test]
fn a_node_says_what_it_enforces_and_where_it_is_exposed() {
    let config = file("[[limit]]\nname = \"a\"\nrate = \"1/d\"\nburst = 2\n");
    let config = ["--config", config.path().to_str().unwrap()];
    let said = |args: &[&str]| {
        let mut node = Starting::start(&[&config[..], args].concat());
        node.wait_for_output();
        node.stop().stderr
    };
    let text = said(&[]);
    assert!(
        text.contains("INFO tidegate::serve: limit name=a quota=1/d burst 2 overflow="),
        "{text}"
    );
    assert!(text.contains(" SIGTERM: drain begun connections=0"), "{text}");
    assert!(text.contains(" stopped; every connection had ended"), "{text}");
    assert!(!text.contains("plain text"), "{text}");
    let text = said(&["--log-format", "json", "--http", "0.0.0.0:0"]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |message: &str| lines.iter().find(|line| line["message"] == message);
    assert_eq!(of("limit").unwrap()["quota"], "1/d burst 2", "{text}");
    assert_eq!(lines.iter().filter(|line| line["level"] == "WARN").count(), 1, "{text}");
    assert_eq!(said(&["--log", "off"]), "");
}

/// Both outputs may be read as one stream.
#[test]
fn what_a_node_says_is_in_json_where_its_log_is() {
    let json = ["--log-format", "json"];
    let one_line = |text: &str| -> Value {
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (wrong, said) in [
        (&["--config", "no/such/file.toml"][..], "--config no/such/file.toml: "),
        (&["--max-held-body-bytes", "8MiB", "--max-batch-bytes", "16MiB"], "--max-batch-bytes"),
        (&["--http", "127.0.0.1:0", "--resp", &address], &format!("--resp {address}: ")),
    ] {
        for log in ["info", "off"] {
            let output = run(&[&json[..], &["--log", log], wrong].concat());
            assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output:?}");
            let line = one_line(&output.stderr);
            assert!(line["message"].as_str().unwrap().starts_with(said), "{line}");
            assert_eq!(line["level"], "ERROR");
        }
    }
    let mut node = Starting::start(&json);
    node.wait_for_output();
    let output = node.stop();
    // Its first byte has been waited for.
    let line = one_line(&format!("{{{}", output.stdout));
    assert_eq!((&line["message"], &line["level"]), (&"listening".into(), &"INFO".into()));
    for front_end in ["resp", "http"] {
        line[front_end].as_str().unwrap().parse::<SocketAddr>().unwrap();
    }
}
