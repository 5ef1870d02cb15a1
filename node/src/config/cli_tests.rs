use super::{Addresses, CliCommand, Exit, addresses, parse};

fn mistake(args: &[&str]) -> String {
    let args = [&["tidegate"], args].concat();
    match parse(&args) {
        Err(Exit::Mistake(report)) => report,
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn serving_is_the_default() {
    let cli = parse(["tidegate"]).unwrap();
    assert!(cli.command.is_none());
    assert_eq!(cli.serve.resp.to_string(), "127.0.0.1:7379");
    assert_eq!(cli.serve.http.to_string(), "127.0.0.1:7380");
    let cli = parse(["tidegate", "--resp", "127.0.0.1:0"]).unwrap();
    assert_eq!(cli.serve.resp.port(), 0);
    let cli = parse(["tidegate", "serve", "--http", "[::1]:1"]).unwrap();
    let Some(CliCommand::Serve(serve)) = cli.command else { panic!("{cli:?}") };
    assert_eq!(serve.http.to_string(), "[::1]:1");
}

#[test]
fn a_mistake_names_its_flag() {
    for (args, name) in [
        (&["--resp", "x"][..], "--resp"),
        (&["--http", "127.0.0.1:99999"], "--http"),
        (&["--resp"], "--resp"),
        (&["--nonsense"], "--nonsense"),
        (&["nonsense"], "nonsense"),
        (&["serve", "--rate", "1/s"], "--rate"),
        (&["--config", "a", "--config", "b"], "--config"),
        (&["--allow-origin", "null"], "--allow-origin"),
        (&["--allow-origin", "https://example.org/"], "an origin without a path"),
        (&["--allow-host", "example.org:80"], "a host without a port"),
        (&["--cluster", "127.0.0.1:0"], "--cluster-secret-file"),
        (&["--join", "127.0.0.1:1"], "--cluster"),
        (&["--cluster-secret-file", "x"], "--cluster"),
        (&["--cluster-name", "x"], "--cluster"),
        (
            &["--cluster", "127.0.0.1:0", "--cluster-secret-file", "x", "--cluster-name", "A"],
            "lower-case",
        ),
        (&["--advertise", "127.0.0.1:1"], "--cluster"),
        (&["--name-server", "127.0.0.1:53"], "--join"),
        (&["--found-after", "1s"], "--cluster"),
        (&["--flush-interval", "5ms"], "--cluster"),
        (&["--max-send-delay", "5ms"], "--cluster"),
        (&["--flush-interval", "0s"], "from 1ms to 1s"),
        (&["--flush-interval", "2s"], "from 1ms to 1s"),
        (&["--max-send-delay", "61s"], "at most 1m"),
        (&["--cluster-byte-cap", "65536"], "--cluster"),
        (
            &["--cluster", "127.0.0.1:0", "--cluster-secret-file", "x", "--cluster-byte-cap", "9"],
            "at least 64KiB",
        ),
        (&["--found-after", "x"], "--found-after"),
        (&["--drain-timeout", "2h"], "at most 1h"),
        (&["--lame-duck", "61m"], "at most 1h"),
        (&["--lame-duck=-1s"], "--lame-duck"),
        (&["--max-connections", "0"], "from 1 to 1000000"),
        (&["--max-connections-per-address=-1"], "0 for no bound"),
        (&["--idle-timeout", "999ms"], "from 1s to 24h"),
        (&["--write-timeout", "0s"], "from 1s to 24h"),
        (&["--max-unread-bytes", "1MiB"], "at least 8MiB"),
        (&["--max-unsent-bytes", "64MB"], "at least 8MiB"),
        (&["--log-format", "xml"], "[possible values: text, json]"),
        (&["--confg", "x"], "'--config'"),
        (&["serv"], "'serve'"),
        (&["--config", "x", "relpay"], "similar subcommands exist: 'help', 'replay'"),
        (&["--log", "warn", "serve"], "'serve' cannot be used with '--log <LEVEL>'"),
        (&["--log", "warn", "serve"], "options of a subcommand stand behind it"),
        (&["--log", "warn", "help"], "'help' cannot be used with '--log <LEVEL>'"),
        (&["limits.toml"], "use '--config limits.toml'"),
        (&["--log", "warn", "limits.toml"], "use '--config limits.toml'"),
        (&["replay"], "Usage: tidegate replay --rate <RATE> <LOG>"),
        (&["--found-after=-1s"], "expected a time"),
        (&["replay", "log", "--burst", "1"], "--rate"),
        (&["replay", "--rate", "1/s", "--burst", "1"], "LOG"),
        (&["replay", "log", "--rate", "1", "--burst", "1"], "--rate"),
        (&["replay", "log", "--rate", "1/15x"], "`1/15x`: unknown unit `x`"),
        (&["replay", "log", "--rate", "1/m fixed"], "a node enforces no windows"),
        (&["replay", "log", "--rate", "1/s", "--burst", "0"], "--burst"),
    ] {
        assert!(mistake(args).contains(name), "{args:?}: {}", mistake(args));
    }
}

#[test]
fn nodes_to_join_are_listed_and_a_mistake_names_the_entry() {
    let cluster = ["tidegate", "--cluster", "127.0.0.1:1", "--cluster-secret-file", "x", "--join"];
    let list = "10.0.0.1:1,nodes.test:7381,dnssrv+_tidegate._udp.test,file:seeds";
    let cli = parse([&cluster[..], &[list]].concat()).unwrap();
    let join: Vec<String> = cli.serve.join.iter().map(ToString::to_string).collect();
    assert_eq!(join.join(","), list);
    let line = mistake(&[&cluster[1..], &["10.0.0.1:1,nodes.test"]].concat());
    assert!(
        line.contains("--join") && line.contains("`nodes.test`: expected ADDRESS:PORT"),
        "{line}"
    );
}

#[test]
fn a_name_stands_for_its_first_address_that_fits() {
    let [v6, v4, other] =
        ["[fd00::1]:7", "192.0.2.1:7", "192.0.2.2:7"].map(|address| address.parse().unwrap());
    let named = Addresses { first: v6, others: vec![v4, other] };
    assert_eq!(named.choose(|address| address.is_ipv4()), v4);
    assert_eq!(named.choose(|_| true), v6);
    assert_eq!(named.choose(|_| false), v6);

    let all = addresses("localhost:7").unwrap();
    assert!(all.choose(|address| address.is_ipv4()).ip().is_loopback(), "{all:?}");
    assert_eq!(addresses("192.0.2.1:7"), Ok(Addresses { first: v4, others: Vec::new() }));
}

#[test]
fn help_and_version_are_shown() {
    let version = env!("CARGO_PKG_VERSION");
    for (args, word) in [
        (&["--help"][..], "replay"),
        (&["--version"], version),
        (&["serve", "--version"], version),
        (&["replay", "-V"], version),
    ] {
        let args = [&["tidegate"], args].concat();
        let Err(Exit::Show(text)) = parse(&args) else { panic!("{args:?}") };
        assert!(text.contains(word), "{text}");
    }
}
