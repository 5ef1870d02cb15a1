//! Flags, files and addresses, right and wrong.

use std::io::Write;
use std::net::TcpListener;

use tempfile::NamedTempFile;
use tidegate_tests::{Node, get, mistake, post, run};

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
fn bad_flags_are_named() {
    for (args, name) in [
        (&["--resp", "nowhere"][..], "--resp"),
        (&["serve", "--http", "127.0.0.1"], "--http"),
        (&["--resp", "nosuchhost.invalid:80"], "nosuchhost.invalid does not resolve"),
        (&["--resp", "nosuchhost.invalid:port"], "expected ADDRESS:PORT"),
        (&["--frobnicate"], "--frobnicate"),
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

#[test]
fn a_config_without_limits_leaves_the_built_in_one() {
    let config = file("# none\n");
    let node = Node::start(&["--config", config.path().to_str().unwrap()]);
    let reply = post(&node, "/v1/check", r#"{"key":"k","limit":"default"}"#);
    assert_eq!((reply.status, reply.json()["limit"].as_u64()), (200, Some(200)));
}
