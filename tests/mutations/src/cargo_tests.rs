use super::*;

#[test]
fn the_binary_is_what_cargo_calls_executable() {
    let library = r#"{"reason":"compiler-artifact","executable":null}"#;
    let test = r#"{"reason":"compiler-artifact","executable":"/t/debug/deps/it-1"}"#;
    let end = r#"{"reason":"build-finished","success":true}"#;
    let binary = [library, test, end].into_iter().find_map(executable);
    assert_eq!(binary, Some(PathBuf::from("/t/debug/deps/it-1")));
}

#[test]
fn no_verdict_without_a_test_that_ran() {
    assert!(has_run("\nrunning 1 test\ntest a ... ok\n"));
    assert!(has_run("running 12 tests\n"));
    assert!(!has_run("running 0 tests\n"));
    assert!(!has_run("error: could not compile\n"));
}

#[test]
fn the_first_panic_is_where_it_turned_red() {
    let log = "failures:\nthread 't' panicked at src/a.rs:1:2:\nassertion failed: b\nand more\n";
    let at = "thread 't' panicked at src/a.rs:1:2: assertion failed: b";
    assert_eq!(panic_in(log).as_deref(), Some(at));
    assert_eq!(panic_in("nothing of the kind"), None);
    let overflow = "thread 't' has overflowed its stack";
    assert_eq!(panic_in(overflow).as_deref(), Some(overflow));
}

#[test]
fn a_log_is_cut_to_its_end() {
    let log: String = (0..100).flat_map(|line| [line.to_string(), "\n".to_owned()]).collect();
    let end = end_of(&log);
    assert_eq!(end.lines().count(), LOG_LINES);
    assert!(end.ends_with("\n99"));
    assert_eq!(end_of("short\n"), "short");
}

#[test]
fn a_test_that_runs_too_long_is_ended() {
    let file = |name: &str| env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let (printed, errors) = (file("printed"), file("errors"));
    let run = |limit, seconds: &str| {
        within(limit, Command::new("sleep").arg(seconds), &printed, &errors).expect("it starts")
    };
    assert!(run(Duration::from_mins(1), "0").is_some_and(|status| status.success()));
    assert!(run(Duration::from_millis(20), "60").is_none());
    for file in [printed, errors] {
        fs::remove_file(file).expect("it is there");
    }
}
