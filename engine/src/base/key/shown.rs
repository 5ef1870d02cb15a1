//! Keys as they were given, for readers of logs, and how they are printed.
//!
//! Most keys come from clients, and a client chooses them with a log in mind: what is printed has
//! no character that ends a line or moves a cursor, and is short.

use core::fmt::{self, Write};
use core::net::IpAddr;

use super::{Key, KeyHash};

/// The most bytes that are printed of a key, escapes included, and then an ellipsis. Parts of a
/// pair or triple share them: each has at least its half or third. Quotes, and what separates
/// parts, come on top.
pub const MAX_SHOWN_BYTES: usize = 128;

/// Stands for what is left out.
const ELLIPSIS: &str = "…";

/// A key as it was given, before hashing; from [`Key::shown`].
///
/// # Printing
/// `{}` is the plain form (`user:42`, `-7`, `2001:db8::/64`), `{:?}` has text in quotes; parts of a
/// pair are printed in the latter form in both: `("user:42", "/upload")`. Bytes are printed as the
/// text they are, and what is not UTF-8 as `\xff`.
///
/// A client that chooses a key cannot forge lines or fields of a log by it. Escaped are, as `{:?}`
/// of a `str` does, characters that control or format (line breaks, direction, zero width), spaces
/// but U+0020, combining marks, unassigned characters, quotes and backslashes; at most
/// [`MAX_SHOWN_BYTES`](crate::key::MAX_SHOWN_BYTES) are printed. Letters and symbols that look
/// blank are printed as they are: U+115F, U+1160, U+2800, U+3164, U+FFA0. Where spaces separate
/// fields take `{:?}`: a plain key may have spaces. O([`MAX_SHOWN_BYTES`]), whatever the key's
/// length.
///
/// [`MAX_SHOWN_BYTES`]: crate::key::MAX_SHOWN_BYTES
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum ShownKey<'k> {
    /// Text, unescaped.
    Text(&'k str),
    /// Bytes, unescaped.
    Bytes(&'k [u8]),
    /// An unsigned integer of any width.
    Unsigned(u128),
    /// A signed integer of any width.
    Signed(i128),
    /// The first address of a network, and the bits of its prefix.
    Network(IpAddr, u8),
    /// Two keys that are one.
    Pair(&'k dyn Key, &'k dyn Key),
    /// Three keys that are one.
    Triple(&'k dyn Key, &'k dyn Key, &'k dyn Key),
    /// A hash that was given in place of the key.
    Hash(KeyHash),
    /// A key of another type, as it prints itself; escaped and cut like text when it is printed.
    Other(&'k dyn fmt::Display),
    /// A key of a type that does not show itself.
    Hidden,
    /// The key of a limit without keys.
    Keyless,
}

impl<'k> ShownKey<'k> {
    /// The key as text, in full and unescaped, if it was given as text.
    #[must_use]
    pub const fn as_str(self) -> Option<&'k str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The key's bytes, in full, if it was given as text or bytes.
    #[must_use]
    pub const fn as_bytes(self) -> Option<&'k [u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The plain form.
impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Excerpt::new(f).show(*self, Form::Plain)
    }
}

/// With text in quotes.
impl fmt::Debug for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Excerpt::new(f).show(*self, Form::Quoted)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Quoted,
}

/// What is printed of a key: what is written to it, escaped, up to a number of bytes.
///
/// Beyond that it fails, which ends the formatting of whatever is printed: so that is bounded too.
struct Excerpt<'f, 'b> {
    to: &'f mut fmt::Formatter<'b>,
    /// Bytes that may still be written.
    left: usize,
    /// Whether something did not fit.
    is_cut: bool,
}

impl<'f, 'b> Excerpt<'f, 'b> {
    fn new(to: &'f mut fmt::Formatter<'b>) -> Self {
        Self { to, left: MAX_SHOWN_BYTES, is_cut: false }
    }

    /// Prints a key, and an ellipsis in the place of what does not fit. Quotes and what separates
    /// parts are always written; each pair takes room, so there is an end to pairs of pairs.
    fn show(&mut self, key: ShownKey<'_>, form: Form) -> fmt::Result {
        match key {
            ShownKey::Pair(first, second) => self.show_parts(&[first, second]),
            ShownKey::Triple(first, second, third) => self.show_parts(&[first, second, third]),
            ShownKey::Text(text) => self.quoted(form, |to| to.write_str(text)),
            ShownKey::Bytes(bytes) => self.quoted(form, |to| to.bytes(bytes)),
            ShownKey::Unsigned(value) => self.piece(|to| write!(to, "{value}")),
            ShownKey::Signed(value) => self.piece(|to| write!(to, "{value}")),
            ShownKey::Network(address, bits) => self.piece(|to| write!(to, "{address}/{bits}")),
            ShownKey::Hash(hash) => self.piece(|to| write!(to, "{hash:?}")),
            ShownKey::Other(key) => self.quoted(form, |to| write!(to, "{key}")),
            ShownKey::Hidden => self.piece(|to| to.write_char('?')),
            ShownKey::Keyless => self.piece(|to| to.write_char('-')),
        }
    }

    fn show_parts(&mut self, parts: &[&dyn Key]) -> fmt::Result {
        let Some(mut left) = self.left.checked_sub(1) else {
            return self.to.write_str(ELLIPSIS);
        };
        self.to.write_str("(")?;
        for (part, following) in parts.iter().zip((0..parts.len()).rev()) {
            self.left = left / (following + 1);
            left -= self.left;
            self.show(part.shown(), Form::Quoted)?;
            // What it leaves is for the parts that follow.
            left += self.left;
            self.to.write_str(if following > 0 { ", " } else { ")" })?;
        }
        self.left = left;
        Ok(())
    }

    /// Writes in quotes, if the form has them.
    fn quoted(&mut self, form: Form, write: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        match form {
            Form::Plain => self.piece(write),
            Form::Quoted => {
                self.to.write_str("\"")?;
                self.piece(write)?;
                self.to.write_str("\"")
            }
        }
    }

    /// Writes as much as fits, and an ellipsis if that is not all.
    fn piece(&mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.is_cut = false;
        let result = write(self);
        if self.is_cut { self.to.write_str(ELLIPSIS) } else { result }
    }

    /// Bytes that are UTF-8 as text, and the others one by one.
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        // Each takes at least one byte, so a character that is cut in two here is left out.
        let most = bytes.len().min(MAX_SHOWN_BYTES + char::MAX.len_utf8());
        for chunk in bytes[..most].utf8_chunks() {
            self.write_str(chunk.valid())?;
            for byte in chunk.invalid() {
                self.escaped(byte.escape_ascii().map(char::from))?;
            }
        }
        Ok(())
    }

    /// Writes one character, or its escape as a whole.
    fn escaped(&mut self, characters: impl Iterator<Item = char> + Clone) -> fmt::Result {
        let length = characters.clone().map(char::len_utf8).sum();
        let Some(left) = self.left.checked_sub(length) else {
            // Nothing that is shorter may follow in its place.
            (self.left, self.is_cut) = (0, true);
            return Err(fmt::Error);
        };
        self.left = left;
        for character in characters {
            self.to.write_char(character)?;
        }
        Ok(())
    }
}

impl Write for Excerpt<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                // As in a `str`: quotes of the other kind cannot end it.
                '\'' => self.escaped(core::iter::once(character))?,
                _ => self.escaped(character.escape_debug())?,
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "shown_tests.rs"]
mod tests;
