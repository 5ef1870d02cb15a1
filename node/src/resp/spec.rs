//! What is known of a command before it is run.

use super::command::Command;
use super::reply::Reply;
use super::session::Session;

/// Runs a command and appends its reply.
pub type Run = fn(&mut Session, &Command<'_>, &mut Reply<'_>);

/// One command.
pub struct Spec {
    /// In lower case.
    pub name: &'static str,
    /// The fewest arguments, the name included.
    pub least: usize,
    /// The most arguments, the name included.
    pub most: usize,
    /// The position of the key; 0 without one.
    pub key: i64,
    /// What `COMMAND` says of it: its category and its flags.
    pub category: &'static str,
    pub flags: &'static [&'static str],
    /// Whether it is run at once in a transaction too, instead of being queued.
    pub at_once: bool,
    pub run: Run,
}

/// The most arguments of a command that takes any number.
pub const ANY: usize = usize::MAX;

impl Spec {
    /// A command of `least` to `most` arguments, the name included.
    pub const fn new(name: &'static str, (least, most): (usize, usize), run: Run) -> Self {
        Self { name, least, most, key: 0, category: "", flags: &[], at_once: false, run }
    }

    /// The same in this category and with these flags.
    pub const fn are(self, category: &'static str, flags: &'static [&'static str]) -> Self {
        Self { category, flags, ..self }
    }

    /// The same with the key as its first argument.
    pub const fn key(self) -> Self {
        Self { key: 1, ..self }
    }

    /// The same, run at once in a transaction too.
    pub const fn at_once(self) -> Self {
        Self { at_once: true, ..self }
    }

    /// The arity in `COMMAND`: negative when it is a minimum.
    pub fn arity(&self) -> i64 {
        let least = i64::try_from(self.least).unwrap_or(i64::MAX);
        if self.least == self.most { least } else { -least }
    }

    /// Whether a command of `count` arguments, the name included, is well formed.
    pub fn takes(&self, count: usize) -> bool {
        (self.least..=self.most).contains(&count)
    }
}
