//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file, named from the repository's root.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == extension)
    }

    /// Code of a published crate, without its tests and models.
    pub fn is_product(&self) -> bool {
        const TESTS: [&str; 6] =
            ["tests", "models", "progress", "explore", "interleave", "watched"];
        let crates = ["engine/src/", "cluster/src/", "node/src/"];
        crates.iter().any(|src| self.path.starts_with(src))
            && !self.path.split(['/', '.', '_']).any(|part| TESTS.contains(&part))
    }
}

/// All files with one of these extensions; the empty one means files without an extension.
pub fn with_extension(extensions: &[&str]) -> Vec<File> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    let mut files: Vec<_> = paths
        .into_iter()
        .filter(|path| {
            let extension = path.extension().unwrap_or_default().to_str().unwrap_or_default();
            extensions.contains(&extension)
        })
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a text");
            let path = path.strip_prefix(&root).expect("a path below the root");
            File { path: path.to_str().expect("a name in UTF-8").replace('\\', "/"), text }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 10, "the repository is not where it is looked for");
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository's root").to_owned()
}

/// Builds, what git keeps, and what fuzzing has found are no part of the repository.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    const FOREIGN: [&str; 6] =
        ["target", ".git", "fuzz/corpus", "fuzz/artifacts", "fuzz/seeds", "tests/fixtures"];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !FOREIGN.iter().any(|foreign| path.ends_with(foreign)) {
            collect(&path, paths);
        } else if path.is_file() {
            paths.push(path);
        }
    }
}
