//! The module import graph of each crate: siblings import each other in no circle, and the folders
//! of the engine and of the node are floors.
//!
//! A module is a node. A path that begins with `crate`, `self`, `super` or a module's name is an
//! edge to the module that defines what the path names, re-exports resolved. What only a test build
//! compiles is left out, and so is what macros make.
//!
//! Circles are looked for among siblings, each taken together with the modules below it, at every
//! level of the tree; and among all modules, wherever they lie, so that a module and one below it
//! use each other only where that is argued.

mod graph;
mod source;

use std::path::Path;

use graph::Graph;

use super::files::{self, File};

/// The floors of a crate's `src`: each uses only those above it in this list.
const FLOORS: [(&str, &[&str]); 2] = [
    ("engine", &["base", "time", "rule", "contract", "direct", "table", "limiter", "tower"]),
    ("node", &["config", "limits", "telemetry", "service", "front", "replay", "serve"]),
];

/// The product crates: each uses only those above it in this list.
const CRATES: [&str; 3] = ["engine", "cluster", "node"];

/// The sources of each crate, from its first file on.
const ROOTS: [&str; 15] = [
    "engine/src/lib.rs",
    "cluster/src/lib.rs",
    "node/src/lib.rs",
    "benches/src/lib.rs",
    "benches/src/bin/counts/main.rs",
    "tests/src/lib.rs",
    "tests/sim/main.rs",
    "tests/figures/main.rs",
    "tests/mutations/src/main.rs",
    "node/src/main.rs",
    "engine/tests/it/main.rs",
    "cluster/tests/it/main.rs",
    "tests/tests/it/main.rs",
    "tests/tests/tidy/main.rs",
    "fuzz/src/lib.rs",
];

/// Modules of which the second may import the first as well, by the first file of their crate, with
/// the reason.
const ARGUED: [(&str, [&str; 2], &str); 14] = [
    (ENGINE, ["base::key", "base::key::shown"], "a key is shown by itself"),
    (
        ENGINE,
        ["direct::concurrency", "direct::concurrency::permit"],
        "a permit gives back to it, and is made by it",
    ),
    (
        ENGINE,
        ["direct::concurrency", "direct::concurrency::line"],
        "a waiter takes from it, and is made by it",
    ),
    (
        ENGINE,
        ["rule::live", "rule::live::per_call"],
        "its checks with a quota, which begin by its own",
    ),
    (CLUSTER, ["protocol::machine", "protocol::machine::beat"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::census"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::founding"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::frames"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::report"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::seeds"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::stale"], STATE),
    (CLUSTER, ["protocol::machine", "protocol::machine::unlinked"], STATE),
    (
        "benches/src/lib.rs",
        ["markdown", "markdown::algorithms"],
        "a kind of table, in the parts of all",
    ),
    ("tests/sim/main.rs", ["world", "world::clients"], "its clients, which act on it"),
];
const ENGINE: &str = "engine/src/lib.rs";
const CLUSTER: &str = "cluster/src/lib.rs";
/// Small states of which only these steps know lie next to them.
const STATE: &str = "a part of the core's state, with the steps of the core that alone use it";

fn graph_of(name: &str) -> Graph {
    graph_from(&format!("{name}/src/lib.rs"))
}

fn argued(root: &str) -> Vec<[&'static str; 2]> {
    let of_it = ARGUED.iter().filter(|(of, ..)| *of == root);
    of_it.map(|(_, pair, _)| *pair).collect()
}

fn graph_from(root: &str) -> Graph {
    Graph::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(root))
}

/// But for those that include the files of others, in whose graph they are.
#[test]
fn each_crate_with_modules_has_its_graph() {
    let includes = |file: &File| file.text.contains("#[path");
    let has_modules = |file: &File| file.text.lines().any(declares_module);
    let missing: Vec<_> = files::with_extension(&["rs"])
        .into_iter()
        .filter(|file| is_root(&file.path) && has_modules(file) && !includes(file))
        .filter(|file| !ROOTS.contains(&&*file.path))
        .map(|file| file.path)
        .collect();
    assert!(missing.is_empty(), "crates without a graph: {missing:?}");
}

/// Whether a file is the first one of a crate.
fn is_root(path: &str) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let of_programs = ["tests", "benches", "examples", "bin", "fuzz_targets"];
    let parent = folder.rsplit('/').next();
    let is_program = file != "mod.rs" && parent.is_some_and(|name| of_programs.contains(&name));
    matches!(file, "lib.rs" | "main.rs") || is_program
}

/// Whether a line declares a module that is a file.
fn declares_module(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line).trim();
    let declared = code.strip_suffix(';').and_then(|code| code.rsplit_once("mod "));
    declared.is_some_and(|(before, name)| {
        let is_word = before.is_empty() || before.ends_with([' ', ']']);
        is_word && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

#[test]
fn no_siblings_import_each_other_in_a_circle() {
    let mut failures = Vec::new();
    for name in ROOTS {
        let graph = graph_from(name);
        let circles = graph.circles(&argued(name));
        let largest = circles.iter().map(|circle| circle.modules.len()).max().unwrap_or(0);
        println!(
            "{name}: {} modules, {} imports, {} circles, the largest of {largest}",
            graph.len(),
            graph.imports(),
            circles.len(),
        );
        failures.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(failures.is_empty(), "siblings import each other in circles:\n{}", failures.join("\n"));
}

#[test]
fn modules_that_import_each_other_are_argued() {
    let mut failures = Vec::new();
    for name in ROOTS {
        let (graph, argued) = (graph_from(name), argued(name));
        let circles = graph.circles_of_all(&argued);
        failures.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
        for pair in &argued {
            let others: Vec<_> = argued.iter().filter(|other| *other != pair).copied().collect();
            let is_needed = graph.circles_of_all(&others).len() > circles.len();
            if !is_needed {
                failures.push(format!("{name}: {pair:?} is no circle"));
            }
        }
    }
    assert!(failures.is_empty(), "modules import each other in circles:\n{}", failures.join("\n"));
}

#[test]
fn each_folder_uses_only_the_floors_below_it() {
    let mut failures = Vec::new();
    for (name, floors) in FLOORS {
        failures.extend(imports_that_go_up(&graph_of(name), "", floors, name));
    }
    assert!(failures.is_empty(), "imports go up:\n{}", failures.join("\n"));
}

/// The list is that of its documentation.
#[test]
fn each_module_of_the_protocol_uses_only_those_listed_before_it() {
    let source = include_str!("../../../cluster/src/protocol/mod.rs");
    let (_, list) = source.split_once("//! # Modules\n").expect("there is a list");
    let list = list.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>();
    let list = list.join("\n");
    let modules: Vec<_> = list.split('`').skip(1).step_by(2).collect();
    let failures = imports_that_go_up(&graph_of("cluster"), "protocol", &modules, "protocol");
    assert!(failures.is_empty(), "imports go up:\n{}", failures.join("\n"));
}

/// What is wrong with the rooms of `parent` as floors, each of which uses only those above it.
fn imports_that_go_up(graph: &Graph, parent: &str, floors: &[&str], name: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let floor_of = |room: &str| floors.iter().position(|floor| *floor == room);
    let rooms = graph.rooms(parent);
    let missing = floors.iter().filter(|floor| !rooms.iter().any(|room| room == *floor));
    failures.extend(missing.map(|floor| format!("{name}: there is no {floor}")));
    let astray = rooms.iter().filter(|room| floor_of(room).is_none());
    failures.extend(astray.map(|room| format!("{name}: {room} is on no floor")));
    for (from, to, evidence) in graph.imports_between_rooms(parent) {
        if floor_of(&to) > floor_of(&from) {
            failures.push(format!("{name}: {from} is below {to}: {evidence}"));
        }
    }
    failures
}

#[test]
fn crates_are_used_in_one_direction() {
    for (index, name) in CRATES.iter().enumerate() {
        let graph = graph_of(name);
        for above in &CRATES[index + 1..] {
            // The node's own name is that of the product.
            let package = if *above == "node" { "tidegate" } else { &format!("tidegate_{above}") };
            let users = graph.users_of(package);
            assert!(users.is_empty(), "{name} uses {package}: {users:?}");
        }
    }
}
