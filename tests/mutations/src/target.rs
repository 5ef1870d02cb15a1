//! What is built and run for a mutation's `test`.
//!
//! * `models::...`: the engine's unit tests built for loom, `interleave/models::...` for the
//!   exhaustive search.
//! * `file::part` where the crate's `tests` has a file of that name: its tests whose path contains
//!   the part.
//! * `module::part` where a `tests/*/main.rs` has that module: its tests whose path contains all
//!   of it, in a binary with that [`Narrow`] part of the whole.
//! * Otherwise the crate's unit tests whose path contains it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::list::Mutation;
use crate::narrow::Narrow;
use crate::sources::{Source, sources};

/// How a test is compiled.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    Std,
    Interleave,
    Loom,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Std => "std",
            Self::Interleave => "interleave",
            Self::Loom => "loom",
        }
    }
}

/// Entries that are built alike follow each other in this order.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Build {
    pub kind: Kind,
    /// The folder of the package.
    pub package: String,
    /// The integration test binary; `None` is the unit tests'.
    pub binary: Option<String>,
    pub has_tower: bool,
}

/// Where a mutation's test is.
#[derive(Clone, Debug)]
pub struct Target {
    pub build: Build,
    /// What the paths of the tests contain.
    pub filter: String,
    /// What they begin with, as several modules may have a path that contains the filter.
    pub module: Option<String>,
    /// The binary that is added for it.
    pub narrow: Option<Narrow>,
    /// The files that hold the tests, and the code that only tests use; with the paths of their
    /// modules.
    pub files: Files,
}

/// The paths of modules, by their files.
pub type Files = BTreeMap<PathBuf, String>;

/// What a replay by an integration test of the cluster costs, in replays by other tests: it
/// simulates, or explores models, for longer than it takes to build.
const SIMULATION: u64 = 4;

impl Target {
    /// What a replay costs, about, while others run.
    pub fn cost(&self) -> u64 {
        let simulates = self.build.package == "cluster" && self.build.binary.is_some();
        if simulates { SIMULATION } else { 1 }
    }

    pub fn is_meant(&self, test: &str) -> bool {
        is_meant(test, &self.filter, self.module.as_deref())
    }
}

/// A crate's files and tests.
#[derive(Debug)]
pub struct Package {
    /// Of the repository.
    root: PathBuf,
    pub unit: Vec<Source>,
    integration: BTreeMap<String, Vec<Source>>,
    mentioned: RefCell<Mentioned>,
}

/// Of a binary, which its first file stands for, a file and its module: the places of those that it
/// mentions.
type Mentioned = BTreeMap<(PathBuf, PathBuf, String), Rc<[usize]>>;

impl Package {
    /// `folder` is below `root`, the repository's.
    pub fn load(root: &Path, folder: &str) -> Self {
        let src = Path::new(folder).join("src");
        let unit = sources(root, &src.join("lib.rs"));
        let tests = Path::new(folder).join("tests");
        let mut integration = BTreeMap::new();
        let entries = fs::read_dir(root.join(&tests)).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let path = tests.join(&name);
            let name = Path::new(&name).with_extension("").to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "rs") {
                integration.insert(name, sources(root, &path));
            } else if root.join(&path).join("main.rs").is_file() {
                integration.insert(name, sources(root, &path.join("main.rs")));
            }
        }
        Self { root: root.to_owned(), unit, integration, mentioned: RefCell::default() }
    }

    /// Where the test is that `mutation` names; `None` if there is none.
    pub fn target(&self, package: &str, mutation: &Mutation) -> Option<Target> {
        let test = mutation.test.as_str();
        let searched = test.strip_prefix("interleave/");
        let kind = match searched {
            Some(_) => Kind::Interleave,
            None if test.starts_with("models::") => Kind::Loom,
            None => Kind::Std,
        };
        let integration = if kind == Kind::Std { self.integration(package, test) } else { None };
        integration.or_else(|| {
            let filter = searched.unwrap_or(test).to_owned();
            let files = files_of(&self.unit, &filter, None, |source| source.is_test)?;
            let files = self.with_mentioned(&self.unit, files, |source| source.is_test);
            let package = package.to_owned();
            let build = Build { kind, package, binary: None, has_tower: false };
            Some(Target { build, filter, module: None, narrow: None, files })
        })
    }

    fn integration(&self, package: &str, test: &str) -> Option<Target> {
        let (first, rest) = test.split_once("::")?;
        let of_file = self.integration.get_key_value(first).map(|found| (found, rest, None));
        let prefix = format!("{first}::");
        let of_module = || {
            let is_in =
                |source: &Source| source.module == first || source.module.starts_with(&prefix);
            let mut binaries = self.integration.iter();
            let found = binaries.find(|(_, sources)| sources.iter().any(is_in))?;
            Some((found, test, Some(prefix.clone())))
        };
        let ((binary, sources), filter, module) = of_file.or_else(of_module)?;
        let is_helper = |source: &Source| !source.module.is_empty();
        let files = files_of(sources, filter, module.as_deref(), is_helper)?;
        let files = self.with_mentioned(sources, files, is_helper);
        let read = |path: &Path| fs::read_to_string(self.root.join(path)).unwrap_or_default();
        let narrow = module.as_ref().and_then(|_| Narrow::new(sources, first, read));
        let binary = narrow.as_ref().map_or(binary, |narrow| &narrow.name).clone();
        let (package, has_tower) = (package.to_owned(), first.starts_with("tower"));
        let build = Build { kind: Kind::Std, package, binary: Some(binary), has_tower };
        Some(Target { build, filter: filter.to_owned(), module, narrow, files })
    }
}

impl Package {
    /// Adds test code that these files mention, and what that mentions: a file with tests of its
    /// own may help others.
    fn with_mentioned(
        &self,
        sources: &[Source],
        mut files: Files,
        is_helper: impl Fn(&Source) -> bool,
    ) -> Files {
        let mut open: Vec<_> =
            sources.iter().filter(|source| files.contains_key(&source.path)).collect();
        while let Some(source) = open.pop() {
            let may_help = |other: &Source| is_helper(other) && !other.tests.is_empty();
            let mentioned = self.mentioned(sources, source);
            for other in mentioned.iter().map(|at| &sources[*at]).filter(|other| may_help(other)) {
                if files.insert(other.path.clone(), other.module.clone()).is_none() {
                    open.push(other);
                }
            }
        }
        files
    }

    /// Which of the sources a file mentions; it is read once, as many mutations name its tests.
    fn mentioned(&self, sources: &[Source], source: &Source) -> Rc<[usize]> {
        let mut known = self.mentioned.borrow_mut();
        let place = (sources[0].path.clone(), source.path.clone(), source.module.clone());
        let find = || {
            let text = fs::read_to_string(self.root.join(&source.path)).unwrap_or_default();
            let is_mentioned = |at: &usize| mentions(&text, &source.module, &sources[*at].module);
            (0..sources.len()).filter(is_mentioned).collect()
        };
        Rc::clone(known.entry(place).or_insert_with(find))
    }
}

/// Whether the text of `module` has a path through `other`, from the root or from above.
fn mentions(text: &str, module: &str, other: &str) -> bool {
    let (parent, name) = other.rsplit_once("::").unwrap_or(("", other));
    let is_above = parent.is_empty() || module.starts_with(&format!("{parent}::"));
    text.contains(&format!("crate::{other}::"))
        || is_above && text.contains(&format!("super::{name}::"))
}

/// Whether a test of this path is meant.
pub fn is_meant(test: &str, filter: &str, module: Option<&str>) -> bool {
    test.contains(filter) && module.is_none_or(|module| test.starts_with(module))
}

/// The files with tests that are meant, the test code that they are nested in, and the helpers
/// that have no tests.
fn files_of(
    sources: &[Source],
    filter: &str,
    module: Option<&str>,
    is_helper: impl Fn(&Source) -> bool,
) -> Option<Files> {
    let has_meant =
        |source: &&Source| source.tests.iter().any(|test| is_meant(test, filter, module));
    let meant: Vec<_> = sources.iter().filter(has_meant).collect();
    if meant.is_empty() {
        return None;
    }
    let is_around = |outer: &Source| {
        let prefix = format!("{}::", outer.module);
        meant.iter().any(|source| source.module.starts_with(&prefix))
    };
    let helpers = sources
        .iter()
        .filter(|source| is_helper(source) && (source.tests.is_empty() || is_around(source)));
    let files = meant.iter().copied().chain(helpers);
    Some(files.map(|source| (source.path.clone(), source.module.clone())).collect())
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
