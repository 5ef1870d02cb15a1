//! What a Rust source says that matters to imports: its modules and its paths.
//!
//! A scan of tokens, not a parser: comments and literals are dropped, and items that only test
//! builds compile are skipped.

use std::collections::VecDeque;

/// A module as its source has it.
#[derive(Debug, Default)]
pub struct Module {
    /// Modules declared here, with the body of those that are written in place.
    pub modules: Vec<(String, Option<Self>)>,
    /// What `use` brings in, by the name that it has here.
    pub uses: Vec<(String, Vec<String>)>,
    /// Paths from here to other modules, those of `use` among them.
    pub paths: Vec<Vec<String>>,
    /// Of these, those that are brought in for others: by a `use` with a visibility.
    pub reexports: Vec<Vec<String>>,
}

/// Reads a file.
pub fn module(text: &str) -> Module {
    let mut tokens = tokens(text).into();
    let mut module = Module::default();
    read_items(&mut tokens, &mut module);
    module
}

type Tokens = VecDeque<String>;

/// Reads until the brace that ends the module, or all there is.
fn read_items(tokens: &mut Tokens, module: &mut Module) {
    let mut depth = 0_u32;
    let mut is_visible = false;
    while let Some(token) = tokens.pop_front() {
        let was_visible = std::mem::take(&mut is_visible);
        match &*token {
            "pub" => {
                skip_scope(tokens);
                is_visible = true;
            }
            "#" if !read_attribute(tokens) => skip_item(tokens),
            "{" => depth += 1,
            "}" if depth == 0 => return,
            "}" => depth -= 1,
            "use" => {
                let before = module.paths.len();
                read_uses(tokens, Vec::new(), module);
                if was_visible {
                    module.reexports.extend_from_slice(&module.paths[before..]);
                }
            }
            "mod" => read_module(tokens, module),
            // What goes on with a path that began elsewhere, or with an external crate.
            "::" if tokens.front().is_some_and(|next| is_word(next)) => drop(tokens.pop_front()),
            word if is_word(word) && tokens.front().is_some_and(|next| next == "::") => {
                let path = read_path(tokens, token);
                module.paths.push(path);
            }
            _ => {}
        }
    }
}

/// Skips what follows `pub` in parentheses, which is no tuple's field.
fn skip_scope(tokens: &mut Tokens) {
    const SCOPES: [&str; 3] = ["crate", "super", "in"];
    if tokens.len() > 1 && tokens[0] == "(" && SCOPES.contains(&&*tokens[1]) {
        while tokens.pop_front().is_some_and(|token| token != ")") {}
    }
}

fn read_module(tokens: &mut Tokens, module: &mut Module) {
    let Some(name) = tokens.pop_front() else { return };
    if tokens.pop_front().is_some_and(|next| next == "{") {
        let mut inner = Module::default();
        read_items(tokens, &mut inner);
        module.modules.push((name, Some(inner)));
    } else {
        module.modules.push((name, None));
    }
}

/// The words of a path whose first one has been read.
fn read_path(tokens: &mut Tokens, first: String) -> Vec<String> {
    let mut path = vec![first];
    while tokens.len() > 1 && tokens[0] == "::" && is_word(&tokens[1]) {
        tokens.pop_front();
        path.extend(tokens.pop_front());
    }
    path
}

/// Reads the tree of a `use` up to what ends it here: a semicolon, a comma or a closing brace,
/// which is returned.
fn read_uses(tokens: &mut Tokens, prefix: Vec<String>, module: &mut Module) -> Option<String> {
    let mut path = prefix;
    let mut name = None;
    let mut is_group = false;
    let end = loop {
        let token = tokens.pop_front()?;
        match &*token {
            "{" => {
                is_group = true;
                while read_uses(tokens, path.clone(), module)? == "," {}
            }
            "as" => name = tokens.pop_front(),
            "," | "}" | ";" => break token,
            "::" => {}
            _ => path.push(token),
        }
    };
    if !is_group && !path.is_empty() {
        if path.last().is_some_and(|last| last == "self" || last == "*") && path.len() > 1 {
            path.pop();
        }
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        module.paths.push(path.clone());
        module.uses.push((name, path));
    }
    Some(end)
}

/// Reads an attribute; whether a product build may compile what follows.
fn read_attribute(tokens: &mut Tokens) -> bool {
    let inner = tokens.front().is_some_and(|next| next == "!");
    if inner {
        tokens.pop_front();
    }
    if tokens.pop_front().is_none_or(|open| open != "[") {
        return true;
    }
    let is_cfg = tokens.front().is_some_and(|name| name == "cfg");
    let mut may_hold = true;
    if is_cfg && !inner {
        tokens.drain(..2);
        may_hold = read_condition(tokens).0;
    }
    let mut depth = 1_u32;
    while depth > 0 {
        match tokens.pop_front().as_deref() {
            Some("[") => depth += 1,
            Some("]") => depth -= 1,
            Some(_) => {}
            None => break,
        }
    }
    may_hold
}

/// Whether a condition of `cfg` may hold, and whether it may not, in a product build.
fn read_condition(tokens: &mut Tokens) -> (bool, bool) {
    let Some(name) = tokens.pop_front() else { return (true, true) };
    if tokens.front().is_none_or(|next| next != "(") {
        let is_of_tests = matches!(&*name, "test" | "loom" | "interleave" | "fuzzing" | "miri");
        // The value of a key, as that of a feature, was a literal.
        while tokens.front().is_some_and(|next| next == "=") {
            tokens.pop_front();
        }
        return (!is_of_tests, true);
    }
    tokens.pop_front();
    let mut parts = Vec::new();
    while let Some(next) = tokens.front() {
        match &**next {
            ")" => {
                tokens.pop_front();
                break;
            }
            "," => {
                tokens.pop_front();
            }
            _ => parts.push(read_condition(tokens)),
        }
    }
    match &*name {
        "not" => parts.first().map_or((true, true), |(holds, fails)| (*fails, *holds)),
        "all" => (parts.iter().all(|part| part.0), parts.iter().any(|part| part.1)),
        _ => (parts.iter().any(|part| part.0), parts.iter().all(|part| part.1)),
    }
}

/// Skips what an attribute is of: an item up to its body's end or its semicolon, a field or an arm
/// up to its comma.
fn skip_item(tokens: &mut Tokens) {
    let mut first = None;
    let mut depth = 0_u32;
    while let Some(token) = tokens.pop_front() {
        if first.is_none() && depth == 0 && is_word(&token) && token != "pub" {
            first = Some(token.clone());
        }
        let is_item = first.as_deref().is_some_and(begins_an_item);
        match &*token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                let is_body = token == "}" && first.as_deref() != Some("use");
                if depth == 0 && is_body {
                    return;
                }
            }
            ";" if depth == 0 => return,
            "," if depth == 0 && !is_item => return,
            _ => {}
        }
        if depth == 0 && tokens.front().is_some_and(|next| next == "}") {
            return;
        }
    }
}

fn begins_an_item(word: &str) -> bool {
    let is_declared =
        matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static");
    is_declared
        || matches!(word, "use" | "mod" | "impl" | "macro_rules" | "unsafe" | "async" | "extern")
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The words and signs of a source, without comments, literals and lifetimes. `::` is one sign.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if let Some(length) = comment(rest).or_else(|| literal(rest)) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let is_inside = |it: char| it.is_alphanumeric() || it == '_';
            let length = rest.find(|it| !is_inside(it)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            tokens.push(rest[..length].to_owned());
            length
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of the comment that the text begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(at)
}

/// The length of the text, character or lifetime that the text begins with.
fn literal(text: &str) -> Option<usize> {
    let unprefixed = text.strip_prefix('b').unwrap_or(text);
    let prefix = text.len() - unprefixed.len();
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(body) = raw[hashes..].strip_prefix('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let length = body.find(&end).map_or(body.len(), |at| at + end.len());
            return Some(prefix + 1 + hashes + 1 + length);
        }
    }
    let quoted = |body: &str, quote: char| {
        let mut escaped = false;
        let end = body.find(|it: char| {
            let ends = it == quote && !escaped;
            escaped = it == '\\' && !escaped;
            ends
        });
        end.map_or(body.len(), |at| at + 1)
    };
    if let Some(body) = unprefixed.strip_prefix('"') {
        return Some(prefix + 1 + quoted(body, '"'));
    }
    let body = unprefixed.strip_prefix('\'')?;
    let mut letters = body.chars();
    let (first, second) = (letters.next()?, letters.next());
    if first == '\\' || second == Some('\'') {
        return Some(prefix + 1 + quoted(body, '\''));
    }
    // A lifetime.
    let is_inside = |it: char| it.is_alphanumeric() || it == '_';
    Some(prefix + 1 + body.find(|it| !is_inside(it)).unwrap_or(body.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        module(text).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_groups_and_in_expressions() {
        let text = "use crate::{a::{self, B as C}, d}; fn f() -> super::E { crate::g::h::<I>() }";
        assert_eq!(paths(text), ["crate::a", "crate::a::B", "crate::d", "super::E", "crate::g::h"]);
        assert_eq!(module(text).uses[1].0, "C");
    }

    #[test]
    fn comments_literals_and_test_builds_are_left_out() {
        let text = r##"
            // crate::a
            /* crate::b /* */ crate::c */
            const D: &str = "crate::d \" crate::e";
            const F: &str = r#"crate::f"#;
            const G: char = '\'';
            #[cfg(test)] use crate::h;
            #[cfg(all(test, loom))] mod i { use crate::i; }
            #[cfg(any(test, not(loom)))] use crate::j;
            #[cfg(all(feature = "std", not(test)))] use crate::k;
            #[cfg(test)] impl<L, M> crate::N { fn o() { crate::p(); } }
            fn q<'a>(_: &'a str) -> crate::R { }
        "##;
        assert_eq!(paths(text), ["crate::j", "crate::k", "crate::R"]);
    }
}
