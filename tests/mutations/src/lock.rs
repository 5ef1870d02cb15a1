//! What a package is built with: its part of `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The packages of a lock file.
#[derive(Debug, Deserialize)]
pub struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Lock {
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// A line for each package that `root`, a member of the workspace, is built and tested with,
    /// itself included, in order: name, version and checksum. `None` when it is not locked.
    pub fn closure(&self, root: &str) -> Option<Vec<String>> {
        let mut by_name = BTreeMap::<&str, Vec<usize>>::new();
        for (index, package) in self.package.iter().enumerate() {
            by_name.entry(&package.name).or_default().push(index);
        }
        let mut open = by_name.get(root)?.clone();
        let mut closed = BTreeSet::new();
        while let Some(index) = open.pop() {
            if closed.insert(index) {
                let dependencies = self.package[index].dependencies.iter();
                open.extend(dependencies.flat_map(|text| self.named(&by_name, text)));
            }
        }
        let mut lines: Vec<_> = closed.iter().map(|index| self.package[*index].line()).collect();
        lines.sort();
        Some(lines)
    }

    /// The packages that a dependency names: `NAME`, or `NAME VERSION` where there are several.
    fn named(&self, by_name: &BTreeMap<&str, Vec<usize>>, text: &str) -> Vec<usize> {
        let mut words = text.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        let all = by_name.get(name).into_iter().flatten().copied();
        all.filter(|index| version.is_none_or(|known| self.package[*index].version == known))
            .collect()
    }
}

impl Locked {
    fn line(&self) -> String {
        let checksum = self.checksum.as_deref().unwrap_or("-");
        format!("{} {} {checksum}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        version = 4
        [[package]]
        name = "app"
        version = "0.1.0"
        dependencies = ["engine", "rand 0.9.0"]
        [[package]]
        name = "engine"
        version = "0.1.0"
        dependencies = ["rand 0.10.0"]
        [[package]]
        name = "rand"
        version = "0.9.0"
        checksum = "aa"
        [[package]]
        name = "rand"
        version = "0.10.0"
        checksum = "bb"
        dependencies = ["engine"]
    "#;

    #[test]
    fn a_package_is_built_with_what_it_reaches() {
        let lock = Lock::parse(TEXT).unwrap();
        let engine = ["engine 0.1.0 -", "rand 0.10.0 bb"];
        assert_eq!(lock.closure("engine").unwrap(), engine);
        let app = ["app 0.1.0 -", engine[0], engine[1], "rand 0.9.0 aa"];
        assert_eq!(lock.closure("app").unwrap(), app);
        assert_eq!(lock.closure("other"), None);
    }
}
