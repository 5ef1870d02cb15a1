//! Modules and what they import from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::source::{self, Module};

/// Longer chains of re-exports are taken for circles of them.
const REEXPORTS_MAX: u32 = 16;

/// The modules of a crate.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Debug)]
struct Node {
    /// Below the crate: `[]` is its root.
    path: Vec<String>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    uses: BTreeMap<String, Vec<String>>,
    paths: Vec<Vec<String>>,
    reexports: Vec<Vec<String>>,
    /// Written in place, in the source of its parent.
    is_inline: bool,
}

#[derive(Debug)]
struct Edge {
    from: usize,
    to: usize,
    /// As it is written.
    path: String,
    is_reexport: bool,
}

/// Modules that use each other, with the imports that make it so.
#[derive(Debug)]
pub struct Circle {
    pub modules: Vec<String>,
    imports: Vec<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} modules: {}", self.modules.len(), self.modules.join(", "))?;
        self.imports.iter().try_for_each(|import| write!(f, "\n    {import}"))
    }
}

/// Where a path leads.
enum Target {
    Module(usize),
    /// Something that this module defines.
    In(usize),
}

impl Graph {
    /// Of the crate whose first file is `root`.
    pub fn of(root: &Path) -> Self {
        let mut graph = Self::default();
        let folder = root.parent().unwrap_or(root);
        let text = fs::read_to_string(root);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        graph.add(None, String::new(), source::module(&text), folder, false);
        graph.link();
        graph
    }

    fn add(
        &mut self,
        parent: Option<usize>,
        name: String,
        module: Module,
        folder: &Path,
        is_inline: bool,
    ) {
        let index = self.nodes.len();
        let mut path = parent.map_or_else(Vec::new, |parent| self.nodes[parent].path.clone());
        if let Some(parent) = parent {
            path.push(name.clone());
            self.nodes[parent].children.insert(name, index);
        }
        let Module { modules, uses, paths, reexports } = module;
        let (children, uses) = (BTreeMap::new(), uses.into_iter().collect());
        self.nodes.push(Node { path, parent, children, uses, paths, reexports, is_inline });
        for (name, body) in modules {
            let below = folder.join(&name);
            let (below, module, is_inline) = match body {
                Some(body) => (below, body, true),
                None => (below.clone(), source::module(&text_of(&below)), false),
            };
            self.add(Some(index), name, module, &below, is_inline);
        }
    }

    fn link(&mut self) {
        let mut edges = Vec::new();
        for (from, node) in self.nodes.iter().enumerate() {
            for path in &node.paths {
                if let Some(Target::Module(to) | Target::In(to)) = self.resolve(from, path, 0)
                    && to != from
                {
                    let is_reexport = node.reexports.contains(path);
                    edges.push(Edge { from, to, path: path.join("::"), is_reexport });
                }
            }
        }
        self.edges = edges;
    }

    /// `None` for what lies outside of the crate.
    fn resolve(&self, from: usize, path: &[String], depth: u32) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match &**first {
            "crate" => 0,
            "self" => from,
            "super" => self.nodes[from].parent?,
            name if self.nodes[from].children.contains_key(name) => {
                return self.walk(from, path, depth);
            }
            name => {
                let import = self.nodes[from].uses.get(name).filter(|import| *import != path)?;
                // What is imported stands with the import.
                let is_own = import.first().is_some_and(|first| first == name);
                return if is_own || depth > REEXPORTS_MAX {
                    None
                } else {
                    match self.resolve(from, import, depth + 1)? {
                        Target::Module(module) => self.walk(module, rest, depth + 1),
                        defined @ Target::In(_) => Some(defined),
                    }
                };
            }
        };
        self.walk(start, rest, depth)
    }

    fn walk(&self, from: usize, path: &[String], depth: u32) -> Option<Target> {
        let Some((name, rest)) = path.split_first() else { return Some(Target::Module(from)) };
        let node = &self.nodes[from];
        if name == "super" {
            return self.walk(node.parent?, rest, depth);
        }
        if let Some(child) = node.children.get(name) {
            return self.walk(*child, rest, depth);
        }
        let Some(import) = node.uses.get(name).filter(|_| depth < REEXPORTS_MAX) else {
            return Some(Target::In(from));
        };
        match self.resolve(from, import, depth + 1) {
            Some(Target::Module(module)) => self.walk(module, rest, depth + 1),
            Some(defined) => Some(defined),
            // Of another crate: this module is its door.
            None => Some(Target::In(from)),
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many pairs of modules there are of which the first imports from the second.
    pub fn imports(&self) -> usize {
        self.edges.iter().map(|edge| (edge.from, edge.to)).collect::<BTreeSet<_>>().len()
    }

    /// The modules of this one, or of the crate (""), that have a source of their own.
    pub fn rooms(&self, parent: &str) -> Vec<String> {
        let rooms = self.nodes[self.at(parent)].children.iter();
        rooms
            .filter(|(_, room)| !self.nodes[**room].is_inline)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Imports from one room of a module into another, each with where it is written.
    pub fn imports_between_rooms(&self, parent: &str) -> Vec<(String, String, String)> {
        let (at, rooms) = (self.at(parent), self.rooms(parent));
        let between = self.edges.iter().filter_map(|edge| {
            let [from, to] = [edge.from, edge.to].map(|node| self.child_above(at, node));
            let [from, to] = [from?, to?].map(|node| self.nodes[node].path.last());
            let (from, to) = (from?, to?);
            let differ = from != to && rooms.contains(from) && rooms.contains(to);
            differ.then(|| (from.clone(), to.clone(), self.evidence(edge)))
        });
        between.collect()
    }

    fn at(&self, path: &str) -> usize {
        let is_it = |node: &Node| node.path.join("::") == path;
        self.nodes.iter().position(is_it).unwrap_or_else(|| panic!("there is no module {path}"))
    }

    /// The modules in which a path into another crate stands.
    pub fn users_of(&self, package: &str) -> Vec<String> {
        let uses = |node: &&Node| node.paths.iter().any(|path| path[0] == package);
        self.nodes.iter().filter(uses).map(Node::name).collect()
    }

    /// The circles among siblings, but those between the two of an argued pair.
    pub fn circles(&self, argued: &[[&str; 2]]) -> Vec<Circle> {
        let mut circles = Vec::new();
        for (parent, node) in self.nodes.iter().enumerate() {
            let siblings: Vec<_> = node.children.values().copied().collect();
            // Between which of the siblings there are imports, and which.
            let mut between: BTreeMap<(usize, usize), Vec<&Edge>> = BTreeMap::new();
            for edge in &self.edges {
                let [from, to] = [edge.from, edge.to].map(|node| self.child_above(parent, node));
                if let (Some(from), Some(to)) = (from, to)
                    && from != to
                {
                    between.entry((from, to)).or_default().push(edge);
                }
            }
            let arrows: BTreeSet<_> = between.keys().copied().collect();
            for circle in strongly_connected(&siblings, &arrows) {
                let names: Vec<_> =
                    circle.iter().map(|module| self.nodes[*module].name()).collect();
                if argued.iter().any(|pair| pair.len() == names.len() && names == *pair) {
                    continue;
                }
                let is_inside =
                    |(from, to): &&(usize, usize)| circle.contains(from) && circle.contains(to);
                let inside = arrows.iter().filter(is_inside);
                let imports = inside.map(|arrow| self.evidence(between[arrow][0])).collect();
                circles.push(Circle { modules: names, imports });
            }
        }
        circles
    }

    /// The circles among modules, wherever they lie, where the second of an argued pair may import
    /// the first. What a module offers of what lies below it counts as no import; what is written
    /// in place belongs to its source.
    pub fn circles_of_all(&self, argued: &[[&str; 2]]) -> Vec<Circle> {
        let mut arrows: BTreeMap<(usize, usize), &Edge> = BTreeMap::new();
        for edge in &self.edges {
            let (from, to) = (self.source_of(edge.from), self.source_of(edge.to));
            let offers = edge.is_reexport && self.child_above(from, to).is_some();
            let names = [to, from].map(|module| self.nodes[module].name());
            if from != to && !offers && !argued.iter().any(|pair| names == *pair) {
                arrows.entry((from, to)).or_insert(edge);
            }
        }
        let modules: Vec<_> = (0..self.nodes.len()).collect();
        let between: BTreeSet<_> = arrows.keys().copied().collect();
        let circles = strongly_connected(&modules, &between).into_iter();
        let circle = |set: BTreeSet<usize>| {
            let inside =
                arrows.iter().filter(|((from, to), _)| set.contains(from) && set.contains(to));
            let imports = inside.map(|(_, edge)| self.evidence(edge)).collect();
            Circle {
                modules: set.iter().map(|module| self.nodes[*module].name()).collect(),
                imports,
            }
        };
        circles.map(circle).collect()
    }

    /// The module with a source of its own in which this one is written.
    fn source_of(&self, module: usize) -> usize {
        let mut at = module;
        while let Some(parent) = self.nodes[at].parent.filter(|_| self.nodes[at].is_inline) {
            at = parent;
        }
        at
    }

    /// The child of `parent` that `node` is, or lies below.
    fn child_above(&self, parent: usize, node: usize) -> Option<usize> {
        let mut at = node;
        while let Some(above) = self.nodes[at].parent {
            if above == parent {
                return Some(at);
            }
            at = above;
        }
        None
    }

    fn evidence(&self, edge: &Edge) -> String {
        let [from, to] = [edge.from, edge.to].map(|node| self.nodes[node].name());
        format!("{from} -> {to}, by `{}`", edge.path)
    }
}

impl Node {
    fn name(&self) -> String {
        if self.path.is_empty() { "the crate's root".to_owned() } else { self.path.join("::") }
    }
}

/// The source of the module whose children lie in this folder.
fn text_of(folder: &Path) -> String {
    let files = [folder.with_extension("rs"), folder.join("mod.rs")];
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok());
    text.unwrap_or_else(|| panic!("no source of {}", folder.display()))
}

/// The sets of two nodes and more of which each reaches all others of its set.
fn strongly_connected(nodes: &[usize], arrows: &BTreeSet<(usize, usize)>) -> Vec<BTreeSet<usize>> {
    let reached: BTreeMap<_, _> = nodes.iter().map(|node| (*node, reach(*node, arrows))).collect();
    let mut sets = BTreeSet::new();
    for node in nodes {
        let mutual = reached[node].iter().filter(|other| reached[other].contains(node));
        let mut set: BTreeSet<_> = mutual.copied().collect();
        set.insert(*node);
        if set.len() > 1 {
            sets.insert(set);
        }
    }
    sets.into_iter().collect()
}

fn reach(start: usize, arrows: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
    let (mut reached, mut ahead) = (BTreeSet::new(), vec![start]);
    while let Some(node) = ahead.pop() {
        for (_, to) in arrows.range((node, 0)..=(node, usize::MAX)) {
            if reached.insert(*to) {
                ahead.push(*to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(sources: &[(&str, &str)]) -> Graph {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (file, text) in sources {
            let file: PathBuf = folder.path().join(file);
            fs::create_dir_all(file.parent().expect("it lies in a folder")).expect("made");
            fs::write(file, text).expect("written");
        }
        Graph::of(&folder.path().join("lib.rs"))
    }

    #[test]
    fn a_circle_is_found_through_a_re_export() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod inner; pub use inner::X;"),
            ("a/inner.rs", "pub struct X; use crate::b::Y;"),
            ("b.rs", "use crate::a::X; pub struct Y;"),
        ]);
        let circles = graph.circles(&[]);
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].modules, ["a", "b"]);
        assert!(circles[0].to_string().contains("b -> a::inner, by `crate::a::X`"));
        assert!(graph.circles(&[["a", "b"]]).is_empty());
    }

    #[test]
    fn what_a_module_offers_of_those_below_it_is_no_import() {
        let graph = graph(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub(crate) use b::X; pub struct P;"),
            ("a/b.rs", "use super::P; pub struct X;"),
        ]);
        assert!(graph.circles_of_all(&[]).is_empty());
        assert_eq!(graph.imports(), 2);
    }

    #[test]
    fn siblings_that_share_their_parents_items_are_no_circle() {
        let graph = graph(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; use b::X; pub struct P;"),
            ("a/b.rs", "use super::P; pub struct X;"),
            ("a/c.rs", "use super::{P, X};"),
        ]);
        assert!(graph.circles(&[]).is_empty());
        assert_eq!(graph.imports(), 4);
        let circles = graph.circles_of_all(&[]);
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].modules, ["a", "a::b"]);
        assert!(graph.circles_of_all(&[["a", "a::b"]]).is_empty());
    }
}
