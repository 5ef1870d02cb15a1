//! Whether the lists fit the code: a stale entry shows before the minutes of a replay.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::list::Mutation;
use crate::target::{Package, Target};

/// A mutation with all that its replay needs to know of the repository.
#[derive(Debug)]
pub struct Fitted {
    pub mutation: Mutation,
    /// The text of the file that it breaks.
    pub original: String,
    pub target: Target,
}

/// The crates that mutations break, read once.
type Packages = BTreeMap<String, Package>;

/// Every mutation with its test, or what is wrong with the lists.
pub fn fit(root: &Path, mutations: Vec<Mutation>) -> Result<Vec<Fitted>, Vec<String>> {
    let mut packages = Packages::new();
    let mut texts = BTreeMap::new();
    let mut names = BTreeSet::new();
    let (mut fitted, mut wrong) = (Vec::new(), Vec::new());
    for mutation in mutations {
        if !names.insert(mutation.name.clone()) {
            wrong.push(format!("{}: TWICE", mutation.name));
        }
        match fit_one(root, &mutation, &mut packages, &mut texts) {
            Ok((original, target)) => fitted.push(Fitted { mutation, original, target }),
            Err(why) => wrong.push(format!("{}: {why}", mutation.name)),
        }
    }
    if wrong.is_empty() { Ok(fitted) } else { Err(wrong) }
}

fn fit_one(
    root: &Path,
    mutation: &Mutation,
    packages: &mut Packages,
    texts: &mut BTreeMap<PathBuf, Option<String>>,
) -> Result<(String, Target), String> {
    let file = &mutation.file;
    let package = package_of(file)
        .ok_or_else(|| format!("STALE: {} is not in a crate's src", file.display()))?;
    let read = || fs::read_to_string(root.join(file)).ok();
    let text = texts.entry(file.clone()).or_insert_with(read);
    let text = text.as_ref().ok_or_else(|| format!("STALE: no file {}", file.display()))?;
    mutation.apply(text).map_err(|why| format!("STALE: {why}"))?;
    if !packages.contains_key(package) {
        packages.insert(package.to_owned(), Package::load(root, package));
    }
    let target = packages[package].target(package, mutation);
    let target = target.ok_or_else(|| format!("NO TEST {} in {package}", mutation.test))?;
    Ok((text.clone(), target))
}

/// The folder of the crate that the file belongs to.
pub fn package_of(file: &Path) -> Option<&str> {
    let mut parts = file.components();
    let package = parts.next()?.as_os_str().to_str()?;
    (parts.next()?.as_os_str() == "src").then_some(package)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
