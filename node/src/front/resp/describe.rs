//! What `COMMAND` says of a command: ten fields, as since Redis 7.

use super::parameters::matches;
use super::reply::Reply;
use super::spec::Spec;

/// The number of fields.
const FIELDS: usize = 10;

/// Name, arity, flags, the first key, the last and the step between them, categories, tips, where
/// its keys are, and subcommands.
pub fn describe(spec: &Spec, reply: &mut Reply<'_>) {
    reply.array(FIELDS);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity());
    simple_set(spec.flags, reply);
    for place in [spec.key, spec.key, spec.key.min(1)] {
        reply.integer(place);
    }
    simple_set(&categories(spec), reply);
    reply.array(0);
    if spec.key == 0 {
        reply.array(0);
    } else {
        reply.array(1);
        key_place(spec.key, reply);
    }
    reply.array(0);
}

fn categories(spec: &Spec) -> Vec<&'static str> {
    let speed = if spec.flags.contains(&"fast") { "@fast" } else { "@slow" };
    let write = spec.flags.contains(&"write").then_some("@write");
    write.into_iter().chain([speed, spec.category]).collect()
}

/// Which commands `COMMAND LIST` names.
pub enum Filter<'a> {
    All,
    /// Those of a module: none is.
    Module,
    Category(&'a [u8]),
    Pattern(&'a [u8]),
}

impl<'a> Filter<'a> {
    /// `None` where there is no such kind.
    pub fn of(kind: &[u8], value: &'a [u8]) -> Option<Self> {
        match kind.to_ascii_lowercase().as_slice() {
            b"module" => Some(Self::Module),
            b"aclcat" => Some(Self::Category(value)),
            b"pattern" => Some(Self::Pattern(value)),
            _ => None,
        }
    }

    pub fn passes(&self, spec: &Spec) -> bool {
        match self {
            Self::All => true,
            Self::Module => false,
            Self::Category(name) => {
                let is = |of: &&str| of.as_bytes()[1..].eq_ignore_ascii_case(name);
                categories(spec).iter().any(is)
            }
            Self::Pattern(pattern) => matches(pattern, spec.name.as_bytes()),
        }
    }
}

/// One key, at a place of its own.
fn key_place(key: i64, reply: &mut Reply<'_>) {
    reply.map(3);
    reply.bulk(b"flags");
    simple_set(&["RW", "access", "update"], reply);
    for (part, kind, numbers) in [
        ("begin_search", "index", &[("index", key)][..]),
        ("find_keys", "range", &[("lastkey", 0), ("keystep", 1), ("limit", 0)]),
    ] {
        reply.bulk(part.as_bytes());
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(numbers.len());
        for (name, value) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer(*value);
        }
    }
}

fn simple_set(texts: &[&'static str], reply: &mut Reply<'_>) {
    reply.set(texts.len());
    for text in texts {
        reply.simple(text);
    }
}
