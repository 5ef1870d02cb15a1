//! Whether what the documents and comments name exists: files, types, functions, mutations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_tests::repository;

use super::documents::{Document, documents, files, names_of_mutations, rust};

/// Names of other projects, which stand nowhere in our Rust.
const FOREIGN: [(&str, &[&str]); 3] = [
    ("a crate that docs/internals/waiting.md argues against", &["event-listener"]),
    (
        "Go's x/time/rate, next to which docs/internals/peers.md puts our calls",
        &["AllowN", "Cancel", "CancelAt", "ReserveN", "SetBurst", "SetLimit"],
    ),
    ("bucket4j, likewise", &["ProxyManager"]),
];

/// What files of ours are named by, in documents and in comments.
const ENDS: [&str; 5] = [".rs", ".toml", ".md", ".jsonl", ".txt"];

fn is_foreign(name: &str) -> bool {
    FOREIGN.iter().any(|(_, names)| names.contains(&name))
}

#[test]
fn files_that_are_named_exist() {
    let files = files();
    let mut missing = Vec::new();
    for document in documents() {
        for span in document.spans().filter(|span| ENDS.iter().any(|end| span.ends_with(end))) {
            let is_path = !span.contains(|c: char| c.is_whitespace() || c == '*');
            if is_path && !is_file(&files, span) {
                missing.push(format!("{}: {span}", document.name()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn files_that_comments_name_exist() {
    let (files, mut count, mut missing) = (files(), 0, Vec::new());
    for (path, text) in rust() {
        for (number, line) in text.lines().enumerate() {
            for name in comment(line).into_iter().flat_map(file_names) {
                count += 1;
                if !is_file(&files, name) {
                    missing.push(format!("{}:{}: {name}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count >= 60, "{count}");
}

/// Whether a file has this path, or ends with it.
fn is_file(files: &BTreeSet<PathBuf>, name: &str) -> bool {
    files.iter().any(|file| file.ends_with(name))
}

/// What a line of Rust says behind its code.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//").or_else(|| Some(line.split_once(" // ")?.1))
}

/// Words of a comment that are paths of files. Not one with a `*`, which is any of several, nor
/// with a colon, which is an address elsewhere.
fn file_names(comment: &str) -> impl Iterator<Item = &str> {
    let is_around = |c: char| c.is_whitespace() || "`()[]\",;".contains(c);
    let words = comment.split(is_around).map(|word| word.trim_end_matches(['.', ':']));
    words.filter(|word| {
        ENDS.iter().any(|end| word.strip_suffix(end).is_some_and(|stem| !stem.is_empty()))
            && !word.contains(['*', ':'])
            && *word != "docs.rs"
    })
}

#[test]
fn names_of_files_are_found_in_comments() {
    let found = |line| comment(line).map_or(Vec::new(), |text| file_names(text).collect());
    assert_eq!(found("    /// As in `a/b.rs`, c.toml: and (d.md)."), ["a/b.rs", "c.toml", "d.md"]);
    assert_eq!(found("let a = 1; // see main.rs."), ["main.rs"]);
    assert_eq!(found(r#"let a = "f.rs";"#), Vec::<&str>::new());
    assert_eq!(found("//! https://docs.rs, it/*.rs, ends in .rs"), Vec::<&str>::new());
}

/// In ARCHITECTURE.md and docs/internals, hyphenated names are those of mutations or packages, and
/// names with underscores stand in the Rust. docs/internals/peers.md names what other crates have.
#[test]
fn names_in_the_internals_exist() {
    let (rust, files, mutations) = (rust(), files(), names_of_mutations());
    let known: BTreeSet<_> = rust.values().flat_map(|text| words(text)).collect();
    let packages = ["Cargo.lock", "fuzz/Cargo.lock"].map(|path| repository().join(path));
    let packages: String = packages.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let is_mutation_or_package = |name: &str| {
        mutations.contains(name)
            || is_foreign(name)
            || packages.contains(&format!("name = \"{name}\"\n"))
    };
    let is_in_rust = |name: &str| {
        let name = without_trap(name);
        let is_meant = |word: &&str| {
            let word = without_trap(word);
            name.strip_suffix('*').map_or(word == name, |start| word.starts_with(start))
        };
        let is_file = |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == name);
        known.iter().any(is_meant) || files.iter().any(is_file)
    };
    let (mut count, mut missing) = (0, Vec::new());
    for document in documents() {
        let is_internal = document.path.starts_with("docs/internals");
        let is_checked = is_internal || document.path == Path::new("ARCHITECTURE.md");
        if !is_checked || document.path.ends_with("peers.md") {
            continue;
        }
        for span in document.spans() {
            let exists = if is_name_with(span, '-') {
                is_mutation_or_package(span)
            } else if is_name_with(span.trim_end_matches('*'), '_') {
                is_in_rust(span)
            } else {
                continue;
            };
            count += 1;
            if !exists {
                missing.push(format!("{}: {span}", document.name()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count >= 180, "{count}");
}

/// In every document: types, and paths with `::`. Each word of them stands in Rust that is compiled
/// or is foreign, and what is listed as foreign is named somewhere and not ours.
#[test]
fn types_and_paths_exist() {
    let rust = rust();
    // Not in comments, which could name the same wrongly, nor in the list of what is foreign.
    let compiled = rust.iter().filter(|(path, _)| !path.ends_with("readme/names.rs"));
    let lines = compiled.flat_map(|(_, text)| text.lines());
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    let known: BTreeSet<_> = lines.flat_map(words).collect();
    let documents = documents();
    let (mut count, mut missing) = (0, Vec::new());
    for document in &documents {
        for span in document.spans().filter(|span| is_type_or_path(span)) {
            count += 1;
            if !words(span).all(|word| known.contains(word) || is_foreign(word)) {
                missing.push(format!("{}: {span}", document.name()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count >= 350, "{count}");
    let spans: BTreeSet<_> = documents.iter().flat_map(Document::spans).collect();
    let foreign = FOREIGN.iter().flat_map(|(_, names)| *names);
    let stale: Vec<_> =
        foreign.filter(|name| known.contains(*name) || !spans.contains(*name)).collect();
    assert!(stale.is_empty(), "foreign, but ours or in no document: {stale:?}");
}

/// Whether a span is a path through modules, or begins as a type and has no other marks than those
/// of its arguments.
fn is_type_or_path(span: &str) -> bool {
    let is_type = span.starts_with(|c: char| c.is_ascii_uppercase())
        && span.contains(|c: char| c.is_ascii_lowercase())
        && span.chars().all(|c| c.is_ascii_alphanumeric() || "<>, _".contains(c))
        && (span.contains('<') || !span.contains(' '));
    is_type || span.contains("::")
}

#[test]
fn types_and_paths_are_told_from_the_rest() {
    for yes in ["Limiter", "LimitSet", "Arc<GossipLimiter>", "Limiter::check(key)", "a::b"] {
        assert!(is_type_or_path(yes), "{yes}");
    }
    for no in ["GET", "S", "Retry-After", "X-Api-Key: a", "check_n", "Too Many Requests"] {
        assert!(!is_type_or_path(no), "{no}");
    }
}

/// Words as Rust has them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// docs/internals/traps.md leaves out what all names of its tests begin with.
fn without_trap(name: &str) -> &str {
    name.strip_prefix("trap_").unwrap_or(name)
}

/// Whether a span is two or more words of lower case, joined by this character.
fn is_name_with(span: &str, joint: char) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    span.contains(joint) && span.split(joint).all(is_word)
}
