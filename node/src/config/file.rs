//! The configuration file: which limits there are.
//!
//! ```toml
//! [[limit]]
//! name = "login"
//! rate = "10/m"
//! burst = 5
//! overflow = "deny"
//! ```
//!
//! `rate` is a quota in the engine's grammar. `burst` may be left out: it may also stand in `rate`,
//! and else equals the count. `overflow` may be left out: `evict-least-debt`, `deny` or `allow`,
//! the engine's [`OverflowPolicy`].
//!
//! A file is read whole and refused whole: every error names the line and the key.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use tidegate_engine::limiter::ParseOverflowPolicyError;
use tidegate_engine::{OverflowPolicy, Quota};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::quota::{self, WrittenQuota};

/// The name of limits given with a call, in answers and metrics.
pub const INLINE: &str = "inline";
/// The largest configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The most limits of one node.
const MAX_LIMITS: usize = 256;
/// The longest key that an error names, in bytes.
const MAX_SHOWN_KEY_BYTES: usize = 64;
/// The longest name of a limit, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitConfig {
    pub name: String,
    pub quota: Quota,
    /// What happens to a key that finds no slot.
    pub overflow: OverflowPolicy,
}

impl LimitConfig {
    /// The limit of a node without a configuration: 100 a second, 200 at once.
    pub fn built_in() -> Self {
        let quota = Quota::per_second(100).burst(200);
        Self { name: "default".to_owned(), quota, overflow: OverflowPolicy::default() }
    }
}

/// Reads the limits of a file, which replace the built-in one.
///
/// # Errors
/// One line that names the file, and the line and key in it; also where there is no limit.
pub fn read(path: &Path) -> Result<Vec<LimitConfig>, String> {
    let file = path.display();
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error: std::io::Error| format!("{file}: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{file}: the file is larger than {MAX_FILE_BYTES} bytes"));
    }
    text(&bytes).and_then(parse).map_err(|error| format!("{file}: {error}"))
}

/// The bytes of a file as text.
///
/// # Errors
/// The line of the first byte that is not.
pub fn text(bytes: &[u8]) -> Result<&str, ConfigError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (valid, _) = bytes.split_at(error.valid_up_to());
        let valid = String::from_utf8_lossy(valid);
        ConfigError::at_key(&valid, valid.len(), "not UTF-8")
    })
}

/// Reads the limits of a text.
///
/// # Errors
/// What is wrong, and in which line.
pub fn parse(text: &str) -> Result<Vec<LimitConfig>, ConfigError> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        ConfigError::at_key(text, at, &error.message().replace(['\n', '\r'], " "))
    })?;
    let mut limits = Vec::new();
    for (key, value) in document.get_ref() {
        if key.get_ref() != "limit" {
            let problem = format!("unknown key `{}`, expected `[[limit]]`", key.get_ref());
            return Err(ConfigError::at(text, key.span().start, problem));
        }
        let DeValue::Array(entries) = value.get_ref() else {
            let problem = "limit: expected `[[limit]]`, an array of tables".to_owned();
            return Err(ConfigError::at(text, key.span().start, problem));
        };
        for entry in entries {
            let limit = LimitEntry::new(text, entry)?.limit()?;
            if limits.iter().any(|other: &LimitConfig| other.name == limit.name) {
                let problem = format!("limit.name: `{}` is defined twice", limit.name);
                return Err(LimitEntry::new(text, entry)?.error("name", problem));
            }
            if limits.len() == MAX_LIMITS {
                let problem = format!("limit: there are more than {MAX_LIMITS}");
                return Err(ConfigError::at(text, entry.span().start, problem));
            }
            limits.push(limit);
        }
    }
    if limits.is_empty() {
        let problem = "there is no limit, expected `[[limit]]`: is the file cut short?".to_owned();
        return Err(ConfigError::at(text, text.len(), problem));
    }
    Ok(limits)
}

/// What is wrong with a text, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// From 1.
    pub line: usize,
    pub problem: String,
}

impl ConfigError {
    fn at(text: &str, offset: usize, problem: String) -> Self {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        Self { line, problem }
    }

    /// An error in a line that could not be read as TOML; names the key that the line begins with.
    fn at_key(text: &str, offset: usize, problem: &str) -> Self {
        let problem = match key_at(text, offset) {
            Some(key) => format!("{key}: {problem}"),
            None => problem.to_owned(),
        };
        Self::at(text, offset, problem)
    }
}

/// The key of the line that contains `offset`, with the table before it: a guess, as text that is
/// not TOML has no keys.
fn key_at(text: &str, offset: usize) -> Option<String> {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |found| found + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let key = line.split('=').next().unwrap_or_default().trim();
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.\"'".contains(c);
    if key.is_empty() || key.len() > MAX_SHOWN_KEY_BYTES || !key.chars().all(is_key) {
        return None;
    }
    let table = text[..start].lines().rev().find(|line| line.trim_start().starts_with('['));
    let in_limit = table.is_some_and(|line| line.trim_start().starts_with("[[limit]]"));
    Some(format!("{}{key}", if in_limit { "limit." } else { "" }))
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

/// One `[[limit]]` of the file.
struct LimitEntry<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
    span: Range<usize>,
}

impl<'a> LimitEntry<'a> {
    fn new(text: &'a str, value: &'a Spanned<DeValue<'a>>) -> Result<Self, ConfigError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Self { text, table, span: value.span() }),
            _ => {
                Err(ConfigError::at(text, value.span().start, "limit: expected a table".to_owned()))
            }
        }
    }

    fn limit(&self) -> Result<LimitConfig, ConfigError> {
        for key in self.table.keys() {
            if !["name", "rate", "burst", "overflow"].contains(&key.get_ref().as_ref()) {
                let problem = format!(
                    "limit.{}: unknown key, expected `name`, `rate`, `burst` or `overflow`",
                    key.get_ref()
                );
                return Err(ConfigError::at(self.text, key.span().start, problem));
            }
        }
        let name = self.string("name")?;
        if let Some(problem) = name_problem(name) {
            return Err(self.error("name", format!("limit.name: {problem}")));
        }
        Ok(LimitConfig { name: name.to_owned(), quota: self.quota()?, overflow: self.overflow()? })
    }

    fn quota(&self) -> Result<Quota, ConfigError> {
        let error =
            |key, problem: &dyn fmt::Display| self.error(key, format!("limit.{key}: {problem}"));
        let rate: WrittenQuota =
            self.string("rate")?.parse().map_err(|problem| error("rate", &problem))?;
        let has_burst = self.table.contains_key("burst");
        let burst = if has_burst { Some(self.integer("burst")?) } else { None };
        let quota = rate.with_burst(burst).map_err(|problem| error("burst", &problem))?;
        quota::enforceable(&quota).map_err(|problem| error(problem.field(has_burst), &problem))?;
        Ok(quota)
    }

    fn overflow(&self) -> Result<OverflowPolicy, ConfigError> {
        if !self.table.contains_key("overflow") {
            return Ok(OverflowPolicy::default());
        }
        self.string("overflow")?.parse().map_err(|error: ParseOverflowPolicyError| {
            self.error("overflow", format!("limit.overflow: {error}"))
        })
    }

    fn string(&self, key: &str) -> Result<&'a str, ConfigError> {
        let value = self.value(key)?;
        let wrong = || self.error(key, format!("limit.{key}: expected a string"));
        value.as_str().ok_or_else(wrong)
    }

    fn integer(&self, key: &str) -> Result<u64, ConfigError> {
        let value = self.value(key)?;
        let number = value.as_integer().and_then(|integer| {
            u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|value| *value > 0)
        });
        let wrong = || self.error(key, format!("limit.{key}: expected an integer of 1 or more"));
        number.ok_or_else(wrong)
    }

    fn value(&self, key: &str) -> Result<&'a DeValue<'a>, ConfigError> {
        let missing = || self.error(key, format!("limit.{key}: missing"));
        self.table.get(key).map(Spanned::get_ref).ok_or_else(missing)
    }

    /// An error in the line of this key, or of the table where the key is missing.
    fn error(&self, key: &str, problem: String) -> ConfigError {
        let at = self.table.get(key).map_or(self.span.start, |value| value.span().start);
        ConfigError::at(self.text, at, problem)
    }
}

/// Why a limit cannot have this name, which goes into a header and a metric's label.
fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("must not be empty".to_owned())
    } else if name.len() > MAX_NAME_BYTES {
        Some(format!("must be at most {MAX_NAME_BYTES} bytes"))
    } else if !name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        Some("must be printable ASCII".to_owned())
    } else if name == INLINE {
        Some(format!("`{INLINE}` is what limits given with a call are called"))
    } else {
        None
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
