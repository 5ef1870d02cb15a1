//! The module import graph of each crate: siblings import each other in no circle, and the folders
//! of the engine and of the node are floors.
//!
//! A module is a node. A path that begins with `crate`, `self`, `super` or a module's name is an
//! edge to the module that defines what the path names, re-exports resolved. What only a test build
//! compiles is left out, and so is what macros make.
//!
//! Circles are looked for among siblings, each taken together with the modules below it, at every
//! level of the tree. A parent uses its children and they use it: that is what nesting is for, and
//! no circle here.

mod graph;
mod source;

use std::path::Path;

use graph::Graph;

/// The floors of a crate's `src`: each uses only those above it in this list.
const FLOORS: [(&str, &[&str]); 2] = [
    ("engine", &["base", "time", "rule", "contract", "direct", "table", "limiter", "tower"]),
    ("node", &["config", "limits", "telemetry", "service", "front", "replay", "serve"]),
];

/// The product crates: each uses only those above it in this list.
const CRATES: [&str; 3] = ["engine", "cluster", "node"];

/// The sources of each crate, from its first file on.
const ROOTS: [&str; 8] = [
    "engine/src/lib.rs",
    "cluster/src/lib.rs",
    "node/src/lib.rs",
    "benches/src/lib.rs",
    "tests/src/lib.rs",
    "tests/sim/main.rs",
    "tests/figures/main.rs",
    "tests/mutations/src/main.rs",
];

/// Siblings that may use each other, by the first file of their crate, with the reason.
const ARGUED: [(&str, [&str; 2], &str); 0] = [];

fn graph_of(name: &str) -> Graph {
    graph_from(&format!("{name}/src/lib.rs"))
}

fn graph_from(root: &str) -> Graph {
    Graph::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(root))
}

#[test]
fn no_siblings_import_each_other_in_a_circle() {
    let mut failures = Vec::new();
    for name in ROOTS {
        let graph = graph_from(name);
        let argued = ARGUED.iter().filter(|(of, ..)| *of == name);
        let argued: Vec<_> = argued.map(|(_, pair, _)| *pair).collect();
        let circles = graph.circles(&argued);
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
        let graph = graph_from(name);
        let circles = graph.circles_of_all(&[]);
        failures.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(failures.is_empty(), "modules import each other in circles:\n{}", failures.join("\n"));
}

#[test]
fn each_folder_uses_only_the_floors_below_it() {
    let mut failures = Vec::new();
    for (name, floors) in FLOORS {
        let graph = graph_of(name);
        let floor_of = |room: &str| floors.iter().position(|floor| *floor == room);
        let rooms = graph.rooms();
        let missing = floors.iter().filter(|floor| !rooms.iter().any(|room| room == *floor));
        failures.extend(missing.map(|floor| format!("{name}: there is no {floor}")));
        let astray = rooms.iter().filter(|room| floor_of(room).is_none());
        failures.extend(astray.map(|room| format!("{name}: {room} is on no floor")));
        for (from, to, evidence) in graph.imports_between_rooms() {
            if floor_of(&to) > floor_of(&from) {
                failures.push(format!("{name}: {from} is below {to}: {evidence}"));
            }
        }
    }
    assert!(failures.is_empty(), "imports go up:\n{}", failures.join("\n"));
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
