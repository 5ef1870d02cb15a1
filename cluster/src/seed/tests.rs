use proptest::prelude::*;

use super::*;

fn problem(text: &str) -> String {
    text.parse::<Seed>().expect_err(text).to_string()
}

#[test]
fn what_is_printed_of_a_seed_is_read_back() {
    for text in [
        "10.0.0.1:7381",
        "[fd00::1]:7381",
        "tidegate.example.org:7381",
        "localhost:1",
        "node_1.local.:65535",
        "dnssrv+_tidegate._udp.example.org",
        "dnssrv+tidegate",
        "file:/etc/tidegate/seeds",
        "file:a b",
    ] {
        let seed: Seed = text.parse().unwrap();
        assert_eq!(seed.to_string(), text);
        assert_eq!(seed.to_string().parse(), Ok(seed));
    }
    assert_eq!("dns+localhost:1".parse::<Seed>(), "localhost:1".parse());
    assert_eq!("[::ffff:10.0.0.1]:1".parse::<Seed>(), "10.0.0.1:1".parse());
}

#[test]
fn a_mistake_names_the_entry() {
    let long = "a".repeat(64);
    for text in [
        "",
        "x",
        "10.0.0.1",
        "10.0.0.1:0",
        "10.0.0.256:1",
        "fd00::1:7381",
        "[fd00::1]",
        "name:",
        "name:x",
        "name:0",
        "name:65536",
        ":1",
        "a..b:1",
        ".:1",
        "a b:1",
        "http://name:1",
        "1.2.3.4.5:1",
        "dns+10.0.0.1:1",
        "dnssrv+",
        "dnssrv+10.0.0.1",
        "dnssrv+name:1",
        "file:",
        &format!("{long}:1"),
    ] {
        let problem = problem(text);
        assert!(problem.starts_with(&format!("`{text}`: ")), "{problem}");
    }
    let problem = problem(&format!("\n{}", "a".repeat(10_000)));
    assert!(problem.len() < 200 && !problem.contains('\n'), "{problem}");
}

#[test]
fn a_file_lists_seeds_and_comments() {
    let text = "# all of them\n\n 10.0.0.1:1 # the first\nname:2\r\ndnssrv+c\n";
    let seeds = parse_file(text).unwrap();
    let seeds: Vec<String> = seeds.iter().map(Seed::to_string).collect();
    assert_eq!(seeds, ["10.0.0.1:1", "name:2", "dnssrv+c"]);
    assert_eq!(parse_file("# none\n"), Ok(Vec::new()));

    let line = |text: &str| parse_file(text).expect_err(text);
    assert!(line("a:1\n\nb\n").starts_with("line 3: `b`: expected"), "{}", line("a:1\n\nb\n"));
    assert!(line("a:1\nfile:x").starts_with("line 2: a file lists no files"));
    assert!(line(&"a:1\n".repeat(MAX_SEEDS_IN_FILE + 1)).starts_with("line 257: there are more"));
}

proptest! {
    #[test]
    fn whatever_is_read_is_a_seed_or_a_mistake(
        text in "(dns\\+|dnssrv\\+|file:)?\\PC{0,20}[a-z0-9.:\\[\\]_-]{0,20}(:[0-9]{0,6})?"
    ) {
        match text.parse::<Seed>() {
            Ok(seed) => prop_assert_eq!(seed.to_string().parse(), Ok(seed)),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
        let _ = parse_file(&text);
    }
}

#[test]
fn a_file_is_bounded_and_a_file() {
    let path = std::env::temp_dir().join(format!("tidegate-seeds-{}", std::process::id()));
    std::fs::write(&path, " ".repeat(MAX_SEED_FILE_BYTES)).unwrap();
    assert_eq!(read_file(&path), Ok(Vec::new()));
    std::fs::write(&path, " ".repeat(MAX_SEED_FILE_BYTES + 1)).unwrap();
    assert!(read_file(&path).is_err_and(|error| error.contains("larger than 65536 bytes")));
    std::fs::write(&path, b"\xff").unwrap();
    assert_eq!(read_file(&path), Err("not UTF-8".to_owned()));
    std::fs::remove_file(&path).unwrap();
    assert!(read_file(&path).is_err());
    assert!(read_file(&std::env::temp_dir()).is_err());
}
