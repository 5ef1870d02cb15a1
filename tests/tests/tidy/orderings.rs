//! Memory orderings are argued in the table that heads their file.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{self, File};

/// The head of a table of orderings.
const TABLE: &str =
    "//! | site | ordering | partner | what breaks if weaker | mutation that shows it |";

/// Those of atomics.
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Atomics that no model needs to see.
const UNMODELLED: [(&str, &str); 1] =
    [("engine/src/limiter/lease/entry.rs", "numbers of epochs are distinct and order nothing")];

/// How far above its ordering a site's mark may stand, in lines.
const MARKED_ABOVE: usize = 3;

#[test]
fn orderings_stand_where_a_table_argues_them() {
    let sources = files::with_extension(&["rs"]);
    let tables: Vec<_> = sources.iter().filter(|file| file.text.contains(TABLE)).collect();
    let astray: Vec<_> = sources
        .iter()
        .filter(|file| file.is_product() && uses_orderings(file))
        .filter(|file| !tables.iter().any(|of| of.path == file.path || is_child(file, of)))
        .map(|file| &*file.path)
        .collect();
    assert!(astray.is_empty(), "orderings without a table:\n{}", astray.join("\n"));
}

#[test]
fn the_engine_takes_atomics_from_its_own_module() {
    let astray: Vec<_> = files::with_extension(&["rs"])
        .into_iter()
        .filter(|file| file.path.starts_with("engine/src/") && file.is_product())
        .filter(|file| !file.path.starts_with("engine/src/base/sync"))
        .filter(|file| !UNMODELLED.iter().any(|(path, _)| *path == file.path))
        .filter(|file| code(file).any(|line| line.contains("sync::atomic")))
        .map(|file| file.path)
        .collect();
    assert!(astray.is_empty(), "atomics of the standard library:\n{}", astray.join("\n"));
}

#[test]
fn the_mutations_that_tables_name_exist() {
    let listed: BTreeSet<_> = files::with_extension(&["toml"])
        .iter()
        .filter(|file| file.path.starts_with(".ci/mutations.d/"))
        .flat_map(|file| file.text.lines().filter_map(name).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(listed.len() > 300, "the lists of mutations are not where they are looked for");
    let mut missing = Vec::new();
    for file in files::with_extension(&["rs"]).iter().filter(|file| file.text.contains(TABLE)) {
        for row in file.text.lines().filter(|line| line.starts_with("//! |")) {
            let Some(cell) = row.trim_end_matches('|').rsplit('|').next() else { continue };
            for named in cell.split('`').skip(1).step_by(2) {
                if !listed.contains(named) {
                    missing.push(format!("{}: {named}", file.path));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no such mutations:\n{}", missing.join("\n"));
}

#[test]
fn the_sites_that_tables_name_are_marked() {
    let sources = files::with_extension(&["rs"]);
    let mut unmarked = Vec::new();
    for file in sources.iter().filter(|file| file.is_product() && file.text.contains(TABLE)) {
        let labels: Vec<_> = labels(file).collect();
        assert!(!labels.is_empty(), "{}: a table without rows", file.path);
        let marks: BTreeSet<_> = sources
            .iter()
            .filter(|other| other.path == file.path || is_child(other, file))
            .filter(|other| other.is_product())
            .flat_map(marks)
            .collect();
        let missing = labels.iter().filter(|label| !marks.contains(**label));
        unmarked.extend(missing.map(|label| format!("{}: {label}", file.path)));
    }
    assert!(unmarked.is_empty(), "rows whose label is at no site:\n{}", unmarked.join("\n"));
}

#[test]
fn every_ordering_is_marked_as_a_table_names_it() {
    let unmarked = unargued(str::to_owned);
    let unmarked = unmarked.join("\n");
    assert!(unmarked.is_empty(), "orderings without the mark of a row that has them:\n{unmarked}");
}

/// No mark but that of a site argues its ordering.
#[test]
fn a_weaker_ordering_is_no_row_s() {
    let weakened = |line: &str| {
        let stronger = named(line).next().filter(|ordering| *ordering != "Relaxed");
        stronger.map_or(line.to_owned(), |ordering| line.replacen(ordering, "Relaxed", 1))
    };
    let (caught, all) = (unargued(weakened), unargued(|line| line.replace("Ordering::", "O::")));
    assert!(all.is_empty(), "none is named: {all:?}");
    let sources = files::with_extension(&["rs"]);
    let product = sources.iter().filter(|file| file.is_product());
    let strong = product.flat_map(|file| {
        let lines = before_tests(file).into_iter().enumerate();
        lines.filter(|(_, line)| weakened(line) != **line).map(|(at, _)| site(file, at))
    });
    let missed: Vec<_> =
        strong.filter(|site| !caught.iter().any(|caught| caught.starts_with(site))).collect();
    assert!(missed.is_empty(), "may be relaxed unnoticed:\n{}", missed.join("\n"));
}

/// The orderings of product code that no row argues, if each line with one were `changed` so.
fn unargued(changed: impl Fn(&str) -> String) -> Vec<String> {
    let sources = files::with_extension(&["rs"]);
    let tables: Vec<_> = sources.iter().filter(|file| file.text.contains(TABLE)).collect();
    let mut unargued = Vec::new();
    for file in sources.iter().filter(|file| file.is_product()) {
        let over = tables.iter().filter(|of| of.path == file.path || is_child(file, of));
        let known: BTreeMap<_, _> = over.flat_map(|of| rows(of)).collect();
        let lines = before_tests(file);
        for (at, line) in lines.iter().enumerate() {
            let line = changed(line);
            let Some(ordering) = named(&line).next() else { continue };
            if is_of_failure(lines[..at].last(), &line) {
                continue;
            }
            if !rows_of(&lines, at, &known).iter().any(|row| argues(row, ordering)) {
                unargued.push(format!("{} {}", site(file, at), line.trim()));
            }
        }
    }
    unargued
}

fn before_tests(file: &File) -> Vec<&str> {
    file.text.lines().take_while(|line| !line.starts_with("mod tests {")).collect()
}

fn site(file: &File, at: usize) -> String {
    format!("{}:{}:", file.path, at + 1)
}

/// The rows that a line of code is marked with: by itself, or on its second line, or else by the
/// nearest mark above it.
fn rows_of<'a>(lines: &[&str], at: usize, known: &BTreeMap<&str, &'a str>) -> Vec<&'a str> {
    let below = lines.get(at + 1).filter(|line| !line.trim_start().starts_with("//"));
    let below = below.filter(|line| !has_ordering(line));
    let above = lines[..at].iter().rev().take(MARKED_ABOVE);
    let above = above.take_while(|line| !line.contains("fn "));
    let marked = [&lines[at]].into_iter().chain(below).chain(above);
    let mut marked = marked.map(|line| marks_in(line).filter_map(|mark| known.get(mark).copied()));
    marked
        .find_map(|rows| Some(rows.collect::<Vec<_>>()).filter(|rows| !rows.is_empty()))
        .unwrap_or_default()
}

/// Whether the second cell of a row names an ordering.
fn argues(cell: &str, ordering: &str) -> bool {
    // Contains neither of the two.
    const BOTH: &str = "both";
    let word = match ordering {
        "Relaxed" => "relaxed",
        "Acquire" => "acquire",
        "Release" => "release",
        "AcqRel" => BOTH,
        _ => "sequentially consistent",
    };
    cell.replace("acquire and release", BOTH).contains(word)
}

/// Whether a line is the second ordering of an exchange, for when it fails, and orders nothing.
fn is_of_failure(before: Option<&&str>, line: &str) -> bool {
    line.trim() == "Ordering::Relaxed," && before.is_some_and(|before| has_ordering(before))
}

/// The first word of each row of a file's table.
fn labels(file: &File) -> impl Iterator<Item = &str> {
    rows(file).map(|(label, _)| label)
}

/// The same, each with the ordering of its row.
fn rows(file: &File) -> impl Iterator<Item = (&str, &str)> {
    let rows = file.text.lines().skip_while(|line| !line.starts_with(TABLE)).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("//! |"));
    rows.filter_map(|row| {
        let (site, rest) = row.split_once('|')?;
        Some((site.split_whitespace().next()?, rest.split('|').next()?))
    })
}

/// Words of comments that are no documentation.
fn marks(file: &File) -> impl Iterator<Item = &str> {
    file.text.lines().flat_map(marks_in)
}

fn marks_in(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.split_once("// ").filter(|_| !line.trim_start().starts_with("///"));
    comment.into_iter().flat_map(|(_, text)| text.split(|c: char| !c.is_alphanumeric()))
}

/// Whether `file` is in the folder of modules that `parent` heads.
fn is_child(file: &File, parent: &File) -> bool {
    let folder = parent.path.trim_end_matches(".rs").trim_end_matches("mod");
    let folder = format!("{}/", folder.trim_end_matches('/'));
    file.path.starts_with(&folder)
}

/// The name that a line of a list gives a mutation.
fn name(line: &str) -> Option<&str> {
    line.strip_prefix("name = '")?.strip_suffix('\'')
}

fn uses_orderings(file: &File) -> bool {
    code(file).any(has_ordering)
}

/// Whether a line of code names an ordering.
fn has_ordering(line: &str) -> bool {
    named(line).next().is_some()
}

/// The orderings that a line of code names.
fn named(line: &str) -> impl Iterator<Item = &'static str> {
    let paths = line.split("Ordering::").skip(1);
    let is_code = !line.trim_start().starts_with("//");
    paths.filter(move |_| is_code).filter_map(|rest| {
        ORDERINGS.into_iter().find(|ordering| {
            let rest = rest.strip_prefix(ordering);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
    })
}

/// Lines that are no comments, up to the tests in the same file.
fn code(file: &File) -> impl Iterator<Item = &str> {
    let lines = file.text.lines().take_while(|line| !line.starts_with("mod tests {"));
    lines.filter(|line| !line.trim_start().starts_with("//"))
}
