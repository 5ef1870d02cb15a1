//! Files, functions and lines that a reader can take in at once.

use super::files;

const MAX_FILE_LINES: usize = 500;
/// From the signature to the closing brace.
const MAX_FUNCTION_LINES: usize = 70;
const MAX_COLUMNS: usize = 100;

#[test]
fn files_are_short() {
    let long: Vec<_> = files::with_extension(&["rs", "toml", "md", "py", "js", "lua", ""])
        .iter()
        // A line for each mutation, for programs to read.
        .filter(|file| file.path != ".ci/mutations.d/recorded")
        .map(|file| (file.path.clone(), file.text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_FILE_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "more than {MAX_FILE_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for file in files::with_extension(&["rs"]) {
        for (line, length) in functions(&file.text) {
            if length > MAX_FUNCTION_LINES {
                long.push(format!("{}:{line}: {length} lines", file.path));
            }
        }
    }
    assert!(long.is_empty(), "more than {MAX_FUNCTION_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn lines_are_narrow() {
    let mut wide = Vec::new();
    for file in files::with_extension(&["rs", "toml", "md", "py", "js", "lua", ""]) {
        let (mut is_code_block, is_page) = (false, file.has_extension("md"));
        for (number, line) in file.text.lines().enumerate() {
            is_code_block ^= is_page && line.trim_start().starts_with("```");
            if line.chars().count() > MAX_COLUMNS && !is_code_block && !may_be_wide(&file, line) {
                wide.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "more than {MAX_COLUMNS} columns:\n{}", wide.join("\n"));
}

/// A row of a table, a line of one word, as a link is, and the text that a mutation breaks.
fn may_be_wide(file: &files::File, line: &str) -> bool {
    let text = line.trim_start().trim_start_matches("//!").trim_start_matches("///").trim();
    text.starts_with('|')
        || !text.trim_start_matches("* ").contains(' ')
        || file.path.starts_with(".ci/mutations.d/")
        // What stands in the documents word for word, indented.
        || file.path.starts_with("tests/tests/it/readme/")
        || file.path.starts_with("LICENSE")
}

/// The line at which each function begins, and its length. The code is formatted by rustfmt, so a
/// function ends with the first brace at its own indentation.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indentation = &line[..line.len() - code.len()];
        if !is_function(code) {
            continue;
        }
        let end = lines[start..].iter().position(|line| {
            line.strip_prefix(indentation).is_some_and(|rest| {
                rest == "}" || rest.ends_with('}') && rest == code || is_declaration(rest)
            })
        });
        if let Some(end) = end {
            functions.push((start + 1, end + 1));
        }
    }
    functions
}

/// `fn` behind visibility and qualifiers.
fn is_function(code: &str) -> bool {
    let Some((before, _)) = code.split_once("fn ") else { return false };
    before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "\"C\"", "in"].contains(&word)
            || word.ends_with(')')
    })
}

/// The end of a function without a body.
fn is_declaration(rest: &str) -> bool {
    rest.ends_with(';') && !rest.starts_with(char::is_whitespace)
}

#[test]
fn the_length_of_a_function_is_counted() {
    let text = "fn a() {\n    b();\n}\n\nimpl X {\n    pub(crate) const fn c() {\n    }\n}\n";
    assert_eq!(functions(text), [(1, 3), (6, 2)]);
    assert_eq!(functions("    fn a(&self) -> u8;\n    fn b();\n"), [(1, 1), (2, 1)]);
    assert_eq!(functions("fn a() {}\nfn b(\n    c: u8,\n) {\n    d()\n}\n"), [(1, 1), (2, 5)]);
}
