//! The files of a crate and the tests in them, found by following `mod` items.
//!
//! Lines are read, not syntax: the code is formatted by rustfmt, so an item begins a line and a
//! block ends with a brace at its own indentation. Conditions are not evaluated.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// A file that `mod` items lead to.
#[derive(Debug)]
pub struct Source {
    /// From the root of the repository.
    pub path: PathBuf,
    /// The path of its module, empty for the root of the crate.
    pub module: String,
    /// Compiled for tests alone.
    pub is_test: bool,
    /// The paths of its tests, as the test binary lists them.
    pub tests: Vec<String>,
}

/// All files of the crate whose root is `file`, the root first. `root` is the repository's.
pub fn sources(root: &Path, file: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    follow(root, file.to_owned(), "", (true, false), &mut sources);
    sources
}

fn follow(
    root: &Path,
    path: PathBuf,
    module: &str,
    (is_root, is_test): (bool, bool),
    sources: &mut Vec<Source>,
) {
    let Ok(text) = fs::read_to_string(root.join(&path)) else { return };
    let items = items(&text, module);
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let heads_folder = is_root || path.ends_with("mod.rs");
    let below = if heads_folder { folder.clone() } else { path.with_extension("") };
    let tests = items.tests.into_iter().map(|test| test.path).collect();
    sources.push(Source { path, module: module.to_owned(), is_test, tests });
    for child in items.modules {
        let inline = child.inline.iter().fold(below.clone(), |path, name| path.join(name));
        let candidates = match &child.path {
            Some(path) => vec![folder.join(path)],
            None => vec![
                inline.join(format!("{}.rs", child.name)),
                inline.join(&child.name).join("mod.rs"),
            ],
        };
        let Some(path) = candidates.into_iter().find(|path| root.join(path).is_file()) else {
            continue;
        };
        let mut names = vec![module];
        names.extend(child.inline.iter().map(String::as_str));
        names.push(&child.name);
        names.retain(|name| !name.is_empty());
        follow(root, path, &names.join("::"), (false, is_test || child.is_test), sources);
    }
}

/// The lines of the text of `module` that hold its tests, but for those whose path `is_meant`. None
/// where macros are defined, as tests may come of them.
pub fn other_tests(
    text: &str,
    module: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Vec<RangeInclusive<usize>> {
    if text.contains("macro_rules!") {
        return Vec::new();
    }
    let tests = items(text, module).tests.into_iter();
    tests.filter(|test| !is_meant(&test.path)).map(|test| test.lines).collect()
}

/// What a file's text declares.
#[derive(Debug, Default)]
struct Items {
    tests: Vec<Test>,
    modules: Vec<Module>,
}

/// A test with its attributes.
#[derive(Debug)]
struct Test {
    path: String,
    /// Counted from 0. They end early where a literal in the test holds a line that is a brace at
    /// the test's own indentation.
    lines: RangeInclusive<usize>,
}

/// `mod name;`
#[derive(Debug)]
struct Module {
    name: String,
    /// The inline modules around it.
    inline: Vec<String>,
    path: Option<String>,
    is_test: bool,
}

/// `mod name {`, not closed yet.
struct Inline {
    name: String,
    indent: usize,
    is_test: bool,
}

/// The attributes in front of an item.
#[derive(Default)]
struct Attributes {
    makes_test: bool,
    is_test: bool,
    path: Option<String>,
    /// The line of the first.
    line: Option<usize>,
}

fn items(text: &str, module: &str) -> Items {
    let mut items = Items::default();
    let mut inline: Vec<Inline> = Vec::new();
    let mut attributes = Attributes::default();
    let lines: Vec<_> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code == "}" && inline.last().is_some_and(|open| open.indent == indent) {
            inline.pop();
        } else if code.is_empty() || code.starts_with("//") {
            continue;
        } else if let Some(attribute) = code.strip_prefix("#[") {
            attributes.add(number, attribute);
            continue;
        } else if let Some((name, rest)) = named(code, "mod ") {
            let is_test = attributes.is_test || inline.iter().any(|open| open.is_test);
            let name = name.to_owned();
            if rest.starts_with(';') {
                let inline = inline.iter().map(|open| open.name.clone()).collect();
                items.modules.push(Module { name, inline, path: attributes.path.take(), is_test });
            } else if rest.trim() == "{" {
                inline.push(Inline { name, indent, is_test });
            }
        } else if let Some((name, _)) = named(code, "fn ")
            && attributes.makes_test
        {
            let inline = inline.iter().map(|open| open.name.as_str());
            let names = std::iter::once(module).chain(inline).chain([name]);
            let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
            let begin = attributes.line.unwrap_or(number);
            let lines = begin..=end(&lines, number, indent);
            items.tests.push(Test { path: names.join("::"), lines });
        }
        attributes = Attributes::default();
    }
    items
}

/// The line that ends the function that begins in `line`.
fn end(lines: &[&str], line: usize, indent: usize) -> usize {
    let is_end = |text: &&str| text.len() == indent + 1 && text.ends_with('}');
    let has_ended = lines[line].split(" // ").next().is_some_and(|code| code.ends_with('}'));
    if has_ended { line } else { line + lines[line..].iter().position(is_end).unwrap_or(0) }
}

impl Attributes {
    /// `attribute` begins behind `#[`, in this line.
    fn add(&mut self, line: usize, attribute: &str) {
        self.line.get_or_insert(line);
        let name = attribute.split(['(', ']', ' ']).next().unwrap_or("");
        self.makes_test |= name == "test" || name.ends_with("::test");
        self.is_test |= name == "cfg"
            && !attribute.contains("not(test")
            && attribute
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "test");
        if name == "path" {
            self.path = attribute.split('"').nth(1).map(str::to_owned);
        }
    }
}

/// The name of the item that `keyword` begins, and what follows it.
fn named<'a>(code: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let mut code = code;
    if let Some(rest) = code.strip_prefix("pub") {
        let rest = rest.trim_start();
        code = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1.trim_start(),
            None => rest,
        };
    }
    for modifier in ["const ", "async ", "unsafe "] {
        code = code.strip_prefix(modifier).unwrap_or(code);
    }
    let code = code.strip_prefix(keyword)?;
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(code.split_at(end))
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
