use super::*;

fn tests(text: &str) -> Vec<String> {
    items(text, "outer").tests.into_iter().map(|test| test.path).collect()
}

fn modules(text: &str) -> Vec<(String, bool)> {
    let modules = items(text, "").modules.into_iter();
    modules.map(|module| (module.name, module.is_test)).collect()
}

#[test]
fn tests_are_found_by_their_attributes() {
    let text = "
#[test]
fn plain() {}

#[tokio::test(start_paused = true)]
async fn of_tokio() {}

#[test]
#[should_panic = \"words\"]
// A remark.
fn panics() {}

fn helper() {}

proptest! {
    #[test]
    fn of_proptest(x in 0..1) {}
}
";
    assert_eq!(
        tests(text),
        ["plain", "of_tokio", "panics", "of_proptest"].map(|name| { format!("outer::{name}") })
    );
}

#[test]
fn tests_in_inline_modules_have_their_path() {
    let text = "
#[cfg(test)]
mod tests {
    mod inner {
        #[test]
        fn deep() {
        }
    }
    #[test]
    fn shallow() {}
}

#[test]
fn outside() {}
";
    assert_eq!(
        tests(text),
        ["outer::tests::inner::deep", "outer::tests::shallow", "outer::outside"]
    );
}

#[test]
fn a_test_begins_with_its_attributes_and_ends_with_its_brace() {
    let text = "fn helper() {
}

/// Documented.
#[test]
#[should_panic]
fn panics() {
    if helper() {
    }
}
#[test]
fn short() {}
proptest! {
    #[test]
    fn long(
        x in 0..1,
    ) {
        f(x);
    }
}
fn last() {}
";
    let lines = |is_meant: fn(&str) -> bool| other_tests(text, "outer", is_meant);
    assert_eq!(lines(|_| false), [4..=9, 10..=11, 13..=18]);
    assert_eq!(lines(|test| test == "outer::short"), [4..=9, 13..=18]);
    let commented = "#[test]\nfn short() {} // Why.\nfn helper() {\n}\n";
    assert_eq!(other_tests(commented, "", |_| false), [0..=1]);
    let made = format!("macro_rules! tests {{\n{text}}}\n");
    assert_eq!(other_tests(&made, "", |_| false), []);
}

#[test]
fn modules_for_tests_alone_are_known_by_their_condition() {
    let text = "
mod product;
pub(crate) mod wide;
#[cfg(test)]
mod tests;
#[cfg(all(test, any(loom, interleave)))]
mod models;
#[cfg(not(test))]
mod real;
#[cfg(feature = \"tower\")]
pub mod tower;
";
    let expected = [
        ("product", false),
        ("wide", false),
        ("tests", true),
        ("models", true),
        ("real", false),
        ("tower", false),
    ];
    assert_eq!(modules(text), expected.map(|(name, is_test)| (name.to_owned(), is_test)));
}

#[test]
fn this_crate_is_followed_through_its_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = sources(root, Path::new("src/main.rs"));
    let found = |path: &str| sources.iter().find(|source| source.path == Path::new(path));
    assert_eq!(sources[0].module, "");
    assert!(!found("src/sources.rs").expect("this module").is_test);
    let tests = found("src/sources_tests.rs").expect("this file");
    assert!(tests.is_test);
    let this = "sources::tests::this_crate_is_followed_through_its_files";
    assert!(tests.tests.iter().any(|test| test == this), "{:?}", tests.tests);
}
