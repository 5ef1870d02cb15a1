use super::*;
use crate::list;

fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("the root of the repository")
}

fn wrong(change: impl FnOnce(&mut Vec<Mutation>)) -> Vec<String> {
    let mut mutations = list::load(repository()).expect("the lists");
    mutations.truncate(2);
    change(&mut mutations);
    fit(repository(), mutations).expect_err("they do not fit")
}

#[test]
fn all_lists_fit() {
    let mutations = list::load(repository()).expect("the lists");
    let count = mutations.len();
    let fitted = fit(repository(), mutations).map(|fitted| fitted.len());
    assert_eq!(fitted, Ok(count));
}

#[test]
fn a_name_that_stands_twice_is_reported() {
    let wrong = wrong(|mutations| mutations.push(mutations[0].clone()));
    assert!(wrong[0].ends_with(": TWICE"), "{wrong:?}");
}

#[test]
fn what_no_longer_fits_the_code_is_reported() {
    let wrong = wrong(|mutations| {
        mutations[0].from = "no such text".to_owned();
        mutations[1].file = "engine/src/no_such_file.rs".into();
    });
    assert!(wrong[0].contains("STALE: `from` stands 0 times"), "{wrong:?}");
    assert!(wrong[1].contains("STALE: no file"), "{wrong:?}");
}

#[test]
fn a_test_that_is_gone_is_reported() {
    let wrong = wrong(|mutations| mutations[0].test = "models::no_such_model".to_owned());
    assert!(wrong[0].contains("NO TEST models::no_such_model"), "{wrong:?}");
}

#[test]
fn crates_have_a_src_folder() {
    assert_eq!(package_of(Path::new("cluster/src/core/log.rs")), Some("cluster"));
    assert_eq!(package_of(Path::new("engine/tests/traps.rs")), None);
}
