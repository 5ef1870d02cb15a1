//! The password of Redis clients.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// The longest password, in bytes.
const MAX_PASSWORD_BYTES: usize = 512;

/// A password that is shorter, in bytes, is guessed sooner or later.
const LONG_BYTES: usize = 16;
/// As is one of fewer bytes that differ.
const DIFFERENT_BYTES: usize = 5;

/// A password, which is never shown.
#[derive(Clone)]
pub struct Password(Vec<u8>);

impl Password {
    /// Reads the only line of a file.
    ///
    /// # Errors
    /// One line, when the file cannot be read or holds something else.
    pub fn read(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        // Two more for the end of the line, and one that would be too many.
        let most = MAX_PASSWORD_BYTES as u64 + 3;
        let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|error| format!("{}: {error}", path.display()))?;
        Self::of(&bytes).ok_or_else(|| {
            format!(
                "{}: expected a password of 1 to {MAX_PASSWORD_BYTES} bytes in one line",
                path.display()
            )
        })
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_one_line = !line.contains(&b'\n') && !line.contains(&b'\r');
        let fits = (1..=MAX_PASSWORD_BYTES).contains(&line.len());
        (is_one_line && fits).then(|| Self(line.to_vec()))
    }

    /// Whether it takes little to guess.
    pub fn is_weak(&self) -> bool {
        let different: BTreeSet<&u8> = self.0.iter().collect();
        self.0.len() < LONG_BYTES || different.len() < DIFFERENT_BYTES
    }

    /// Whether this is what a client gives. The time that it takes reveals the length at most.
    pub fn is(&self, given: &[u8]) -> bool {
        let differences = self.0.iter().zip(given).fold(0, |all, (own, other)| all | (own ^ other));
        self.0.len() == given.len() && differences == 0
    }
}

/// The password in force, which may be replaced while clients are served. All clones are the same
/// one.
#[derive(Clone, Debug)]
pub struct InForce(Arc<RwLock<Password>>);

impl InForce {
    pub fn new(password: Password) -> Self {
        Self(Arc::new(RwLock::new(password)))
    }

    /// From now on clients give this one. Those that are let in stay so.
    pub fn replace(&self, password: Password) {
        // No panic leaves a password half written.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = password;
    }

    /// [`Password::is`] for the one in force.
    pub fn is(&self, given: &[u8]) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is(given)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PASSWORD_BYTES, Password};

    #[test]
    fn a_weak_password_is_short_or_of_few_letters() {
        for (text, is_weak) in [
            ("secret", true),
            ("0123456789abcde", true),
            ("0123456789abcdef", false),
            ("aaaaaaaaaaaaaaaaaaaabbccdd", true),
            ("aaaaaaaaaaaaaaaaaaaabbccdde", false),
        ] {
            assert_eq!(Password::of(text.as_bytes()).unwrap().is_weak(), is_weak, "{text}");
        }
    }

    #[test]
    fn a_password_is_one_line() {
        for bytes in [&b"secret"[..], b"secret\n", b"secret\r\n"] {
            let password = Password::of(bytes).unwrap();
            assert!(password.is(b"secret"));
            for other in [&b""[..], b"secre", b"secrets", b"Secret", b"secret\n"] {
                assert!(!password.is(other), "{}", other.escape_ascii());
            }
        }
        let longest = vec![b'x'; MAX_PASSWORD_BYTES];
        assert!(Password::of(&longest).unwrap().is(&longest));
        let longer = vec![b'x'; MAX_PASSWORD_BYTES + 1];
        for bytes in [&b""[..], b"\n", b"\r\n", b"a\nb", b"a\n\n", &longer] {
            assert!(Password::of(bytes).is_none(), "{}", bytes.escape_ascii());
        }
    }
}
