//! What is known of a command before it is run.

use super::command::Command;
use super::reply::Reply;
use super::session::Session;

/// Runs a command and appends its reply.
pub type Handler = fn(&mut Session, &Command<'_>, &mut Reply<'_>);

/// A subcommand in lower case, with the fewest arguments and the most, the command's name included.
pub type Subcommand = (&'static str, usize, usize);

/// One command.
pub struct Spec {
    /// In lower case.
    pub name: &'static str,
    /// The same, to compare at once.
    pub folded: Folded,
    /// The fewest arguments, the name included.
    pub least: usize,
    /// The most arguments, the name included.
    pub most: usize,
    /// The position of the key; 0 without one.
    pub key: i64,
    /// What `COMMAND` says of it: its category and its flags.
    pub category: &'static str,
    pub flags: &'static [&'static str],
    /// Its subcommands; none for a command without.
    pub subcommands: &'static [Subcommand],
    /// Whether it is run at once in a transaction too, instead of being queued.
    pub at_once: bool,
    /// Whether it may be decided together with others: see [`super::checks`].
    pub is_check: bool,
    pub run: Handler,
}

/// A name in lower case, and its length in the last byte; 0 for one longer than those of commands.
pub type Folded = u128;

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = size_of::<Folded>() - 1;

/// The name in lower case.
#[inline]
pub const fn folded(name: &[u8]) -> Folded {
    let mut lower = [0; size_of::<Folded>()];
    if name.len() <= MAX_NAME_BYTES {
        let (start, _) = lower.split_at_mut(name.len());
        start.copy_from_slice(name);
        lower.make_ascii_lowercase();
        lower[MAX_NAME_BYTES] = name.len() as u8;
    }
    Folded::from_le_bytes(lower)
}

/// The most arguments of a command that takes any number.
pub const ANY: usize = usize::MAX;

impl Spec {
    /// A command of `least` to `most` arguments, the name included.
    pub const fn new(name: &'static str, (least, most): (usize, usize), run: Handler) -> Self {
        Self {
            name,
            folded: folded(name.as_bytes()),
            least,
            most,
            key: 0,
            category: "",
            flags: &[],
            subcommands: &[],
            at_once: false,
            is_check: false,
            run,
        }
    }

    /// The same in this category and with these flags.
    pub const fn are(self, category: &'static str, flags: &'static [&'static str]) -> Self {
        Self { category, flags, ..self }
    }

    /// The same with these subcommands.
    pub const fn with(self, subcommands: &'static [Subcommand]) -> Self {
        Self { subcommands, ..self }
    }

    /// The same for a check, whose key is its first argument.
    pub const fn check(self) -> Self {
        Self { key: 1, is_check: true, ..self }
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

#[cfg(test)]
mod tests {
    use super::folded;
    use crate::front::resp::commands::TABLE;

    #[test]
    fn names_are_found_in_any_case_and_only_as_a_whole() {
        for spec in &TABLE {
            assert_eq!(folded(spec.name.to_uppercase().as_bytes()), spec.folded);
            assert_ne!(spec.folded, 0, "{}", spec.name);
            assert_ne!(folded(&spec.name.as_bytes()[1..]), spec.folded);
        }
        assert_eq!([folded(&[b'a'; 16]), folded(&[0; 20]), folded(b"")], [0; 3]);
        assert_ne!(folded(b"ping"), folded(b"ping\0"));
        assert_ne!(folded(b"pinG"), folded(b"pin\x07"));
    }
}
