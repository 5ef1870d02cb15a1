//! The mutations, as `.ci/mutations.d` lists them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The folder of the lists, from the root of the repository.
pub const FOLDER: &str = ".ci/mutations.d";

/// One breakage, and the test that must notice it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    pub name: String,
    /// What part of a test's path selects it; see [`crate::target`].
    pub test: String,
    /// The path of the broken file from the root of the repository.
    pub file: PathBuf,
    /// The text that stands exactly once in the file.
    pub from: String,
    /// What replaces it.
    pub to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutation: Vec<Mutation>,
}

impl Mutation {
    /// The text of the file with this breakage.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.from).count() {
            1 if self.from != self.to => Ok(text.replacen(&self.from, &self.to, 1)),
            1 => Err("it changes nothing".to_owned()),
            found => {
                Err(format!("`from` stands {found} times, not once, in {}", self.file.display()))
            }
        }
    }
}

pub fn parse(text: &str) -> Result<Vec<Mutation>, String> {
    toml::from_str::<List>(text).map(|list| list.mutation).map_err(|error| error.to_string())
}

/// All lists below the folder, in the order of their paths.
pub fn load(root: &Path) -> Result<Vec<Mutation>, String> {
    let mut lists = Vec::new();
    lists_below(&root.join(FOLDER), &mut lists)?;
    lists.sort();
    let mut mutations = Vec::new();
    for path in lists {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        mutations.extend(parse(&text).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(mutations)
}

fn lists_below(folder: &Path, lists: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            lists_below(&path, lists)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            lists.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
