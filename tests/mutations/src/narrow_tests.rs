use super::*;

fn source(path: &str, module: &str, tests: &[&str]) -> Source {
    let tests = tests.iter().map(|&test| test.to_owned()).collect();
    Source { path: path.into(), module: module.to_owned(), is_test: false, tests }
}

fn sources() -> Vec<Source> {
    vec![
        source("e/tests/it/main.rs", "", &[]),
        source("e/tests/it/units.rs", "units", &[]),
        source("e/tests/it/sets.rs", "sets", &["sets::one"]),
        source("e/tests/it/traps.rs", "traps", &["traps::two"]),
        source("e/tests/it/tower.rs", "tower", &["tower::three"]),
    ]
}

const MAIN: &str = "//! All.

mod units;

mod sets;
#[cfg(feature = \"tower\")]
mod tower;
mod traps;
";

fn read(path: &Path) -> String {
    let text = match path.file_name().and_then(|name| name.to_str()) {
        Some("main.rs") => MAIN,
        Some("traps.rs") => "use crate::sets::helper;\n",
        Some("tower.rs") => "use tower::sets;\n",
        _ => "",
    };
    text.to_owned()
}

fn narrow(module: &str) -> Narrow {
    Narrow::new(&sources(), module, read).expect("a root")
}

#[test]
fn a_module_keeps_the_helpers_alone() {
    let sets = narrow("sets");
    assert_eq!((&*sets.name, sets.root), ("only_sets", "e/tests/it/only_sets.rs".into()));
    assert_eq!(sets.text, "//! All.\n\nmod units;\n\nmod sets;\n");
}

#[test]
fn a_module_keeps_what_it_uses() {
    assert_eq!(narrow("traps").text, "//! All.\n\nmod units;\n\nmod sets;\nmod traps;\n");
}

#[test]
fn a_module_keeps_its_attributes() {
    let text = narrow("tower").text;
    assert_eq!(text, "//! All.\n\nmod units;\n\n#[cfg(feature = \"tower\")]\nmod tower;\n");
}
