//! Whether the documents are true, their Rust apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tidegate_tests::{Node, repository, run};

/// The Rust that stands in the documents is compiled in these.
const SOURCES: [&str; 3] =
    [include_str!("../readme.rs"), include_str!("embedding.rs"), include_str!("cluster.rs")];

#[derive(Clone)]
pub(super) struct Document {
    /// From the root of the repository.
    pub(super) path: PathBuf,
    text: String,
}

impl Document {
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The contents of fenced blocks in this language.
    fn blocks(&self, language: &str) -> impl Iterator<Item = &str> {
        let fence = format!("```{language}\n");
        self.text.split("\n```").zip(0..).filter_map(move |(part, nth)| {
            (nth % 2 == 1).then(|| part.strip_prefix(&fence[3..])).flatten()
        })
    }

    /// What stands in backticks outside of fenced blocks.
    pub(super) fn spans(&self) -> impl Iterator<Item = &str> {
        self.prose().flat_map(spans)
    }

    /// The lines outside of fenced blocks.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_prose = true;
        self.text.lines().filter(move |line| {
            let is_fence = line.starts_with("```");
            is_prose ^= is_fence;
            is_prose && !is_fence
        })
    }
}

/// All documents at the root and below docs/.
pub(super) fn documents() -> Vec<Document> {
    let is_document = |path: &PathBuf| {
        let at_root = path.parent() == Some(Path::new(""));
        (at_root || path.starts_with("docs")) && path.extension().is_some_and(|end| end == "md")
    };
    read(is_document)
}

/// The README of each crate that has one.
fn readmes() -> Vec<Document> {
    read(|path| path.components().count() == 2 && path.ends_with("README.md"))
}

fn read(is_meant: impl Fn(&PathBuf) -> bool) -> Vec<Document> {
    files()
        .into_iter()
        .filter(is_meant)
        .map(|path| {
            let text = fs::read_to_string(repository().join(&path)).unwrap();
            Document { path, text }
        })
        .collect()
}

/// All files of the repository but what is built, from its root.
pub(super) fn files() -> BTreeSet<PathBuf> {
    fn visit(folder: &Path, files: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default();
            let is_built = name == ".git" || name.to_string_lossy().starts_with("target");
            if path.is_dir() && !is_built {
                visit(&path, files);
            } else if !is_built {
                files.insert(path.strip_prefix(repository()).unwrap().to_owned());
            }
        }
    }
    let mut files = BTreeSet::new();
    visit(repository(), &mut files);
    files
}

#[test]
fn all_rust_is_compiled() {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let sources = SOURCES.map(lines);
    let mut count = 0;
    for document in documents() {
        for example in document.blocks("rust") {
            let lines = lines(example);
            let has = |source: &Vec<String>| source.windows(lines.len()).any(|w| w == lines);
            let name = document.name();
            assert!(sources.iter().any(has), "not compiled, in {name}:\n{example}");
            count += 1;
        }
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn a_node_takes_each_configuration() {
    let documents = documents();
    let configurations: Vec<_> = documents.iter().flat_map(|page| page.blocks("toml")).collect();
    assert!(!configurations.is_empty());
    for text in configurations {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let _ = Node::start(&["--config", file.path().to_str().unwrap()]);
    }
}

#[test]
fn commands_name_what_exists() {
    let files = files();
    let exists = |path: String| files.contains(Path::new(&path));
    let is_folder = |path: &str| files.iter().any(|file| file.starts_with(path));
    let help = ["serve", "replay"].map(|command| run(&[command, "--help"]).stdout);
    let has_option = |of_replay: bool, option: &str| {
        help[usize::from(of_replay)].split_whitespace().any(|word| word == option)
    };
    let mut count = 0;
    let mut wrong = Vec::new();
    for document in documents() {
        for command in commands(&document) {
            let words: Vec<_> = command.split_whitespace().collect();
            let after = |option: &str| {
                let at = words.iter().position(|word| *word == option)?;
                words.get(at + 1).copied()
            };
            let is_right = if words[0].starts_with(".ci/") {
                exists(words[0].to_owned()) || is_folder(words[0])
            } else if let Some(bin) = after("--bin") {
                exists(format!("benches/src/bin/{bin}.rs"))
                    || exists(format!("benches/src/bin/{bin}/main.rs"))
                    || exists(format!("tests/{bin}/main.rs"))
            } else if let Some(example) = after("--example") {
                exists(format!("engine/examples/{example}.rs"))
            } else if command.starts_with("cargo run --release -- ") {
                let options = words.iter().skip(4).filter(|word| word.starts_with("--"));
                options.into_iter().all(|option| has_option(words[4] == "replay", option))
            } else {
                continue;
            };
            count += 1;
            if !is_right {
                wrong.push(format!("{}: {command}", document.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 12, "{count}");
}

/// Commands in fenced blocks and in the text, without comments.
fn commands(document: &Document) -> Vec<String> {
    let blocks: String = document.blocks("sh").collect::<Vec<_>>().join("\n");
    let blocks = blocks.replace("\\\n", " ");
    let is_ours = |command: &String| command.starts_with(".ci/") || command.starts_with("cargo ");
    blocks
        .lines()
        .chain(document.spans())
        .map(|line| line.split('#').next().unwrap_or_default().trim().to_owned())
        .filter(is_ours)
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let all = [documents(), readmes()].concat();
    let mut broken = Vec::new();
    for document in &all {
        let links = document.prose().flat_map(|line| line.split("](").skip(1));
        for link in links.filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("https://") && !leads_somewhere(document, link, &all) {
                broken.push(format!("{}: {link}", document.name()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn leads_somewhere(from: &Document, link: &str, all: &[Document]) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = from.path.parent().unwrap();
    let target = if path.is_empty() { from.path.clone() } else { normal(&folder.join(path)) };
    let has_anchor =
        |page: &Document| page.prose().any(|line| line.starts_with('#') && slug(line) == anchor);
    repository().join(&target).exists()
        && (anchor.is_empty() || all.iter().any(|page| page.path == target && has_anchor(page)))
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path {
        match part.to_str() {
            Some("..") => assert!(normal.pop(), "{}", path.display()),
            Some(".") => {}
            _ => normal.push(part),
        }
    }
    normal
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The pages on the cluster and the node say what each file is about.
#[test]
fn each_file_of_the_cluster_and_the_node_has_its_place() {
    const PAGES: [(&str, &[&str]); 2] = [
        ("cluster", &["cluster", "cluster-debt", "cluster-room", "cluster-membership"]),
        ("node", &["node"]),
    ];
    let is_product = |file: &&PathBuf| {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_test =
            name.ends_with("tests") || ["testing", "fuzzing", "dns_server"].contains(&name);
        let is_root = ["lib", "mod"].contains(&name);
        let in_tests = file.components().any(|part| part.as_os_str() == "tests");
        file.extension().is_some_and(|end| end == "rs") && !is_test && !is_root && !in_tests
    };
    let mut missing = Vec::new();
    let documents = documents();
    for (name, pages) in PAGES {
        let page = |page: &&str| {
            let page = format!("docs/internals/{page}.md");
            documents.iter().find(|one| one.name() == page).expect("there is a page")
        };
        let spans: Vec<_> = pages.iter().map(page).flat_map(Document::spans).collect();
        let files = files();
        let sources = files.iter().filter(|file| file.starts_with(format!("{name}/src")));
        let is_named = |file: &&PathBuf| spans.iter().any(|span| file.ends_with(span));
        let unnamed = sources.filter(is_product).filter(|file| !is_named(file));
        missing.extend(unnamed.map(|file| file.display().to_string()));
    }
    assert!(missing.is_empty(), "files without a place: {missing:#?}");
}

/// docs/internals/traps.md has a table of tests and mutations, and one of tests between nodes.
#[test]
fn each_trap_has_its_tests_and_mutations() {
    let page = fs::read_to_string(repository().join("docs/internals/traps.md")).unwrap();
    let (rust, mutations) = (rust().into_values().collect::<String>(), names_of_mutations());
    let mut rows = 0;
    let mut missing = Vec::new();
    for line in rows_of(&page) {
        rows += 1;
        let cells: Vec<_> = line.trim_matches('|').split(" | ").collect();
        let is_name = |span: &&str| !span.contains(['.', '/']);
        let tests = spans(cells[1]).filter(is_name).map(|name| match cells.len() {
            4 => format!("fn trap_{name}"),
            _ => format!("fn {name}"),
        });
        let others = cells.get(2).into_iter().flat_map(|cell| spans(cell));
        let others = others.filter(|span| {
            is_name(span) && span.contains('_') && cells[2].contains(&format!("`: `{span}`"))
        });
        for test in tests.chain(others.map(|name| format!("fn {name}"))) {
            if !rust.contains(test.trim_end_matches('*')) {
                missing.push(test);
            }
        }
        for mutation in cells.get(3).into_iter().flat_map(|cell| spans(cell)) {
            if !mutations.contains(mutation) {
                missing.push(mutation.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(rows >= 33, "{rows}");
}

/// Rows of tables that name something, without their heads.
fn rows_of(page: &str) -> impl Iterator<Item = &str> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| trap |");
    page.lines().filter(is_row).filter(|line| line.contains('`'))
}

/// ARCHITECTURE.md has a table of invariants, guards and mutations.
#[test]
fn each_invariant_has_its_mutations() {
    let page = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = page.split_once("| invariant |").expect("a table of invariants");
    let rows = table.split("\n\n").next().unwrap_or_default().lines().skip(2);
    let known = names_of_mutations();
    let named: Vec<_> = rows.flat_map(|row| spans(row.rsplit(" | ").next().unwrap())).collect();
    let missing: Vec<_> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(named.len() >= 40, "{}", named.len());
}

/// What stands in backticks.
pub(super) fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// All Rust of the repository, by its files.
pub(super) fn rust() -> BTreeMap<PathBuf, String> {
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(repository().join(&path)).unwrap();
        (path, text)
    };
    files().into_iter().filter(is_rust).map(read).collect()
}

/// The names in the lists of mutations.
pub(super) fn names_of_mutations() -> BTreeSet<String> {
    let is_list = |path: &PathBuf| path.starts_with(".ci/mutations.d");
    let read = |path: PathBuf| fs::read_to_string(repository().join(path)).unwrap();
    let text: String = files().into_iter().filter(is_list).map(read).collect();
    let names = text.lines().filter_map(|line| line.strip_prefix("name = '")?.strip_suffix('\''));
    names.map(str::to_owned).collect()
}

#[test]
fn the_first_pages_stay_short() {
    for (path, bytes) in [("README.md", 10_000), ("ARCHITECTURE.md", 14_000)] {
        let size = fs::metadata(repository().join(path)).unwrap().len();
        assert!(size <= bytes, "{path} has {size} bytes, more than {bytes}");
    }
}

/// docs/internals/peers.md says how many lines programs have: behind each link to one.
#[test]
fn programs_have_as_many_lines_as_published() {
    let page = fs::read_to_string(repository().join("docs/internals/peers.md")).unwrap();
    let mut counted = BTreeSet::new();
    for cell in page.split('|') {
        let Some((path, lines)) =
            cell.split_once("](../../").and_then(|(_, it)| it.split_once("): "))
        else {
            continue;
        };
        let code = fs::read_to_string(repository().join(path)).unwrap();
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let count = code.lines().map(str::trim).filter(is_code).count();
        assert_eq!(lines.trim(), count.to_string(), "{path}");
        counted.insert(path.to_owned());
    }
    assert_eq!(counted.len(), 13, "{counted:?}");
}
