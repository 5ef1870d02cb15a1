//! A test binary with one module of a merged one: with each mutation the whole would be compiled
//! anew, and only tests of that module are run.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sources::Source;

/// A root in the folder of the merged binary.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Narrow {
    /// The name of the binary.
    pub name: String,
    pub root: PathBuf,
    pub text: String,
}

impl Narrow {
    /// The `module` of the merged binary of these `sources`, with what it uses of the others.
    pub fn new(sources: &[Source], module: &str, read: impl Fn(&Path) -> String) -> Option<Self> {
        let merged = sources.first()?;
        let name = format!("only_{module}");
        let text = only(&read(&merged.path), &needed(sources, module, &read));
        Some(Self { root: merged.path.with_file_name(&name).with_extension("rs"), name, text })
    }

    /// Adds the binary to the package in `folder` of the copy `tree`.
    pub fn write(&self, tree: &Path, folder: &str) -> io::Result<()> {
        fs::write(tree.join(&self.root), &self.text)?;
        let manifest = tree.join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest)?;
        let path = self.root.strip_prefix(folder).unwrap_or(&self.root).display();
        let name = &self.name;
        fs::write(manifest, format!("{text}\n[[test]]\nname = \"{name}\"\npath = \"{path}\"\n"))
    }
}

/// `module`, the helpers that have no tests, and what these mention.
fn needed<'a>(
    sources: &'a [Source],
    module: &'a str,
    read: impl Fn(&Path) -> String,
) -> BTreeSet<&'a str> {
    let top = |source: &'a Source| source.module.split("::").next().unwrap_or("");
    let tested: BTreeSet<_> =
        sources.iter().filter(|source| !source.tests.is_empty()).map(top).collect();
    let mut needed: BTreeSet<_> =
        sources.iter().map(top).filter(|top| !tested.contains(top)).collect();
    let mut open = vec![module];
    open.extend(&needed);
    needed.insert(module);
    while let Some(module) = open.pop() {
        for source in sources.iter().filter(|source| top(source) == module && !module.is_empty()) {
            let text = read(&source.path);
            let is_used = |other: &&str| {
                let words = ["crate", "super"].map(|from| format!("{from}::{other}::"));
                words.iter().any(|word| text.contains(word))
            };
            open.extend(
                tested.iter().copied().filter(is_used).filter(|other| needed.insert(other)),
            );
        }
    }
    needed
}

/// The root without the `mod` items of other modules, and without their attributes.
fn only(root: &str, needed: &BTreeSet<&str>) -> String {
    let (mut kept, mut attributes) = (Vec::new(), Vec::new());
    for line in root.lines() {
        let module = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
        match module {
            None if line.starts_with("#[") => attributes.push(line),
            Some(module) if !needed.contains(module) => attributes.clear(),
            _ => {
                kept.append(&mut attributes);
                kept.push(line);
            }
        }
    }
    kept.join("\n") + "\n"
}

#[cfg(test)]
#[path = "narrow_tests.rs"]
mod tests;
