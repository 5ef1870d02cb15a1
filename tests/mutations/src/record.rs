//! What need not run again: the hashes under which mutations last turned red, and the share of
//! them that runs all the same.

use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher as _;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::fit::{Fitted, package_of};
use crate::list::FOLDER;
use crate::lock::Lock;
use crate::sources::other_tests;
use crate::target::Target;

/// What all mutations depend on.
const GROUND: &str = "rust-toolchain.toml";

/// The hash of each mutation that turned red when it was last recorded, by name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recorded(BTreeMap<String, String>);

impl Recorded {
    pub fn load(root: &Path) -> io::Result<Self> {
        match fs::read_to_string(Self::path(root)) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Self(lines.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
    }

    /// Replaces the file in one step, so that an interruption leaves the old one or the new one.
    pub fn save(&self, root: &Path) -> io::Result<()> {
        let path = Self::path(root);
        let new = path.with_extension("new");
        fs::write(&new, self.text())?;
        fs::rename(new, path)
    }

    fn text(&self) -> String {
        self.0.iter().flat_map(|(name, hash)| [name, " ", hash, "\n"]).collect()
    }

    fn path(root: &Path) -> PathBuf {
        root.join(FOLDER).join("recorded")
    }

    pub fn is(&self, name: &str, hash: &str) -> bool {
        self.0.get(name).is_some_and(|recorded| recorded == hash)
    }

    /// After a replay; one that did not turn red is not to be skipped.
    pub fn set(&mut self, name: &str, hash: &str, is_red: bool) {
        if is_red {
            self.0.insert(name.to_owned(), hash.to_owned());
        } else {
            self.0.remove(name);
        }
    }

    /// Forgets all others.
    pub fn keep(&mut self, mut is_listed: impl FnMut(&str) -> bool) {
        self.0.retain(|name, _| is_listed(name));
    }
}

/// A package's `Cargo.toml`.
#[derive(Debug, Deserialize)]
struct Manifest {
    package: Named,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

/// Hashes each file of product code, and what each package is built with, once.
#[derive(Debug)]
pub struct Hashes<'a> {
    root: &'a Path,
    files: BTreeMap<PathBuf, u128>,
    lock: Option<Lock>,
    /// Of what each package is built with, by its folder.
    locked: BTreeMap<String, u128>,
}

impl<'a> Hashes<'a> {
    pub fn new(root: &'a Path) -> Self {
        Self { root, files: BTreeMap::new(), lock: None, locked: BTreeMap::new() }
    }

    /// The hash of the entry, the file it breaks, its tests with what they share, what the package
    /// is built with and what all depend on. Other files of the product, by which a test may cease
    /// to see the breakage, are not in it: the share that runs all the same is for those. Where a
    /// file lies counts for the broken one alone: a test may move.
    pub fn of(&mut self, fitted: &Fitted) -> io::Result<String> {
        let mutation = &fitted.mutation;
        let mut hasher = SipHasher13::new();
        let file = mutation.file.to_string_lossy();
        for text in [&mutation.test, &*file, &mutation.from, &mutation.to] {
            hasher.write_usize(text.len());
            hasher.write(text.as_bytes());
        }
        let package = package_of(&mutation.file).unwrap_or_default();
        hasher.write(&self.locked(package)?.to_le_bytes());
        for file in [Path::new(GROUND), &mutation.file] {
            hasher.write(&self.file(file)?.to_le_bytes());
        }
        hasher.write_usize(fitted.target.files.len());
        for file in &fitted.target.files {
            hasher.write(&self.tests(file, &fitted.target)?.to_le_bytes());
        }
        Ok(format!("{:032x}", hasher.finish128().as_u128()))
    }

    /// The hash of what the package in this folder is built with: a dependency that others alone
    /// have changes nothing.
    fn locked(&mut self, folder: &str) -> io::Result<u128> {
        if let Some(hash) = self.locked.get(folder) {
            return Ok(*hash);
        }
        let lock = match self.lock.take() {
            Some(lock) => lock,
            None => Lock::parse(&fs::read_to_string(self.root.join("Cargo.lock"))?)
                .map_err(io::Error::other)?,
        };
        let manifest = fs::read_to_string(self.root.join(folder).join("Cargo.toml"))?;
        let manifest: Manifest = toml::from_str(&manifest).map_err(io::Error::other)?;
        let name = manifest.package.name;
        let closure = lock.closure(&name);
        let closure = closure.ok_or_else(|| io::Error::other(format!("{name} is not locked")))?;
        let mut hasher = SipHasher13::new();
        for line in closure {
            hasher.write(line.as_bytes());
            hasher.write_u8(b'\n');
        }
        let hash = hasher.finish128().as_u128();
        self.lock = Some(lock);
        self.locked.insert(folder.to_owned(), hash);
        Ok(hash)
    }

    fn file(&mut self, path: &Path) -> io::Result<u128> {
        if let Some(hash) = self.files.get(path) {
            return Ok(*hash);
        }
        let text = fs::read_to_string(self.root.join(path))?;
        let hash = code_hash(text.lines());
        self.files.insert(path.to_owned(), hash);
        Ok(hash)
    }

    /// The hash of a file without tests that are not meant, which do not run, and without the names
    /// of modules in files of their own: those that matter are among the target's files.
    fn tests(&self, (path, module): (&PathBuf, &String), target: &Target) -> io::Result<u128> {
        let text = fs::read_to_string(self.root.join(path))?;
        let others = other_tests(&text, module, |test| target.is_meant(test));
        let is_other = |line: &usize| others.iter().any(|other| other.contains(line));
        let lines = text.lines().enumerate().filter(|(line, _)| !is_other(line));
        let is_file = |text: &&str| text.starts_with("mod ") && text.ends_with(';');
        Ok(code_hash(lines.map(|(_, text)| text).filter(|text| !is_file(text))))
    }
}

/// The hash of a text without blank lines and lines of comments, which turn no test red.
fn code_hash<'a>(lines: impl Iterator<Item = &'a str>) -> u128 {
    let mut hasher = SipHasher13::new();
    for line in lines {
        let code = line.trim_start();
        if !code.is_empty() && !code.starts_with("//") {
            hasher.write(line.as_bytes());
            hasher.write_u8(b'\n');
        }
    }
    hasher.finish128().as_u128()
}

/// Whether an unchanged mutation is in the one of `share` parts that runs at this commit. `before`
/// it in an order of builds are mutations that cost so much of `all`: a part takes few builds, and
/// no part much longer than another. What is added or removed moves a part's bounds.
pub fn is_due(before: u64, all: u64, share: u64, commits: u64) -> bool {
    // In 128 bits no share is too large.
    let part = |share: u64| u128::from(before) * u128::from(share) / u128::from(all);
    share > 0 && part(share) == u128::from(commits % share)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
