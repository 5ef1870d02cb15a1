//! The lists of mutations lie as the modules that they break.

use super::files;

/// Of breakages that a run of the simulator finds, wherever they are.
const SEEDED: &str = ".ci/mutations.d/cluster/chaos.toml";

#[test]
fn a_list_breaks_the_module_that_it_is_named_after() {
    let lists = files::with_extension(&["toml"]);
    let lists = lists.iter().filter(|file| file.path.starts_with(".ci/mutations.d/"));
    let (mut astray, mut count) = (Vec::new(), 0);
    for list in lists.filter(|list| list.path != SEEDED) {
        let module = module(list.path.trim_start_matches(".ci/mutations.d/"));
        for file in list.text.lines().filter_map(broken) {
            count += 1;
            let broken = module_of(file);
            let is_below = broken.strip_prefix(module).is_some_and(|rest| rest.starts_with('/'));
            if broken != module && !is_below {
                astray.push(format!("{}: {file}", list.path));
            }
        }
    }
    assert!(count > 500, "the lists of mutations are not where they are looked for");
    assert!(astray.is_empty(), "in the list of another module:\n{}", astray.join("\n"));
}

/// The file that a line of a list names.
fn broken(line: &str) -> Option<&str> {
    line.strip_prefix("file = '")?.strip_suffix('\'')
}

/// `engine/table` of `engine/src/table/mod.rs`.
fn module_of(file: &str) -> String {
    module(file).replacen("/src/", "/", 1)
}

fn module(path: &str) -> &str {
    let path = path.trim_end_matches(".toml").trim_end_matches(".rs");
    path.trim_end_matches("/mod")
}
