use std::{env, process};

use super::*;
use crate::fit;
use crate::list;
use crate::target::{Build, Kind};

#[test]
fn a_mutation_that_fails_to_turn_red_is_forgotten() {
    let mut recorded = Recorded::parse("a 01\nb 02\ngone 03\n");
    assert!(recorded.is("a", "01") && !recorded.is("a", "02") && !recorded.is("c", "01"));
    recorded.set("a", "04", true);
    recorded.set("b", "02", false);
    recorded.set("0", "05", true);
    recorded.keep(|name| name != "gone");
    assert_eq!(recorded.text(), "0 05\na 04\n");
    assert_eq!(Recorded::parse(&recorded.text()), recorded);
}

#[test]
fn in_as_many_commits_as_the_share_each_is_due_once() {
    for all in [1, 19, 20, 21, 792, u64::MAX] {
        for before in (0..all.min(800)).chain([all - 1]) {
            let due = (1000..1020).filter(|&commits| is_due(before, all, 20, commits)).count();
            assert_eq!(due, 1, "{before} of {all}");
            assert!(is_due(before, all, 1, 7) && !is_due(before, all, 0, 7));
            assert_eq!(is_due(before, all, u64::MAX, 0), before == 0);
        }
    }
}

#[test]
fn those_that_are_due_follow_each_other() {
    for commits in 0..20 {
        let due: Vec<_> = (0..792).filter(|before| is_due(*before, 792, 20, commits)).collect();
        assert!((39..=40).contains(&due.len()), "{}", due.len());
        assert_eq!(due[due.len() - 1] - due[0] + 1, due.len() as u64);
    }
}

#[test]
fn the_hash_follows_entry_file_and_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the root");
    let mut mutations = list::load(root).expect("the lists");
    mutations.truncate(1);
    let mut fitted = fit::fit(root, mutations).expect("they fit");
    let hash = |fitted: &Fitted| Hashes::new(root).of(fitted).expect("a hash");
    let fitted = &mut fitted[0];
    let before = hash(fitted);
    assert_eq!((before.len(), &before), (32, &hash(fitted)));
    fitted.mutation.to.push(' ');
    let changed = hash(fitted);
    assert_ne!(changed, before);
    let test = fitted.target.files.pop_first().expect("a file with the test");
    assert_ne!(hash(fitted), changed);
    fitted.target.files.insert(test.0, test.1);
    assert_eq!(hash(fitted), changed);
    // As if the broken file had changed.
    fitted.mutation.to.pop();
    let mut hashes = Hashes::new(root);
    hashes.files.insert(fitted.mutation.file.clone(), 0);
    assert_ne!(hashes.of(fitted).expect("a hash"), before);
}

#[test]
fn comments_do_not_count() {
    let hash = |text: &str| code_hash(text.lines());
    let code = "fn f() {\n    g(1)\n}\n";
    assert_eq!(hash("// What it does.\n\nfn f() {\n    // Why.\n    g(1)\n}\n"), hash(code));
    assert_ne!(hash("fn f() {\n    g(2)\n}\n"), hash(code));
    assert_ne!(hash("fn f() {\n    g(1) // C1\n}\n"), hash(code));
}

#[test]
fn of_a_file_with_tests_those_count_that_run() {
    let folder = env::temp_dir().join(format!("mutations-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = PathBuf::from("tests.rs");
    let hash = |text: &str| {
        fs::write(folder.join(&path), text).expect("a file");
        let build = Build { kind: Kind::Std, package: "e".into(), binary: None, has_tower: false };
        let (filter, files) = ("sets::one".to_owned(), [].into());
        let target = Target { build, filter, module: None, narrow: None, files };
        Hashes::new(&folder).tests((&path, &"sets".to_owned()), &target).expect("a hash")
    };
    let unit = |name: &str, body: &str| format!("#[test]\nfn {name}() {{\n    {body}\n}}\n");
    let text = |[helper, one, other]: [&str; 3]| {
        format!("fn f() {{ {helper} }}\n{}{}", unit("one", one), unit("other", other))
    };
    let before = hash(&text(["1", "2", "3"]));
    assert_eq!(hash(&text(["1", "2", "4"])), before);
    assert_ne!(hash(&text(["1", "4", "3"])), before);
    assert_ne!(hash(&text(["4", "2", "3"])), before);
    assert_eq!(hash(&format!("mod more;\n{}", text(["1", "2", "3"]))), before);
    fs::remove_dir_all(folder).expect("the folder");
}
