use super::*;

fn source(path: &str, module: &str, is_test: bool, tests: &[&str]) -> Source {
    let tests = tests.iter().map(|&test| test.to_owned()).collect();
    Source { path: path.into(), module: module.to_owned(), is_test, tests }
}

/// A crate with one integration test in a file of its own, and others merged into `it`.
fn package() -> Package {
    let unit = vec![
        source("src/lib.rs", "", false, &[]),
        source("src/table.rs", "table", false, &[]),
        source("src/table/tests.rs", "table::tests", true, &["table::tests::keys_lie_in_lines"]),
        source("src/table/models.rs", "table::models", true, &["table::models::claims"]),
        source("src/explore.rs", "explore", true, &[]),
    ];
    let denials = vec![source("tests/denials.rs", "", false, &["a_denial", "another"])];
    let it = vec![
        source("tests/it/main.rs", "", false, &[]),
        source("tests/it/sets.rs", "sets", false, &["sets::trap_leak"]),
        source("tests/it/traps_sets.rs", "traps_sets", false, &["traps_sets::trap_leak"]),
        source("tests/it/units.rs", "units", false, &[]),
        source("tests/it/tower.rs", "tower", false, &["tower::names"]),
    ];
    let integration = [("denials".to_owned(), denials), ("it".to_owned(), it)].into();
    Package { root: PathBuf::new(), unit, integration, mentioned: RefCell::default() }
}

fn target(test: &str) -> Option<Target> {
    let [name, from, to] = ["name", "a", "b"].map(str::to_owned);
    let mutation = Mutation { name, test: test.to_owned(), file: "src/table.rs".into(), from, to };
    package().target("engine", &mutation)
}

fn files(target: &Target) -> Vec<&str> {
    target.files.keys().map(|path| path.to_str().expect("a name")).collect()
}

#[test]
fn unit_tests_and_models_are_built_apart() {
    let kinds = [
        ("keys_lie", Kind::Std, "keys_lie"),
        ("table::tests", Kind::Std, "table::tests"),
        ("models::cl", Kind::Loom, "models::cl"),
        ("interleave/models::cl", Kind::Interleave, "models::cl"),
    ];
    for (test, kind, filter) in kinds {
        let target = target(test).expect("a test");
        assert_eq!((target.build.kind, &*target.filter, target.build.binary), (kind, filter, None));
    }
}

#[test]
fn a_file_of_integration_tests_is_a_binary() {
    let target = target("denials::a_den").expect("a test");
    assert_eq!(target.build.binary.as_deref(), Some("denials"));
    assert_eq!((&*target.filter, &target.module), ("a_den", &None));
    assert!(!target.build.has_tower);
    assert_eq!(files(&target), ["tests/denials.rs"]);
}

#[test]
fn a_module_of_a_merged_binary_is_distinguished_from_one_whose_name_ends_alike() {
    let target = target("sets::trap_leak").expect("a test");
    assert_eq!(target.build.binary.as_deref(), Some("only_sets"));
    assert_eq!((&*target.filter, target.module.as_deref()), ("sets::trap_leak", Some("sets::")));
    assert!(!target.build.has_tower);
    assert_eq!(files(&target), ["tests/it/sets.rs", "tests/it/units.rs"]);
    assert!(!is_meant("traps_sets::trap_leak", &target.filter, target.module.as_deref()));
}

#[test]
fn helpers_without_tests_count_for_unit_tests_too() {
    let target = target("table::tests::keys").expect("a test");
    assert_eq!(files(&target), ["src/explore.rs", "src/table/tests.rs"]);
}

#[test]
fn a_file_with_tests_counts_where_it_is_mentioned() {
    let mentioned = |text, module| mentions(text, module, "table::tests::keys");
    assert!(mentioned("use super::keys::Key;", "table::tests::lines"));
    assert!(mentioned("use super::super::keys::Key;", "table::tests::deep::lines"));
    assert!(mentioned("use crate::table::tests::keys::Key;", "limiter"));
    assert!(!mentioned("use super::keys::Key;", "limiter::lines"));
    assert!(!mentioned("use super::lines::keys;", "table::tests::lines"));
    assert!(mentions("use crate::sets::limiter;", "pairs", "sets"));
}

#[test]
fn a_test_that_is_not_there_is_no_target() {
    for test in ["denials::gone", "sets::gone", "models::gone", "gone", "interleave/keys_lay"] {
        assert!(target(test).is_none(), "{test}");
    }
}
