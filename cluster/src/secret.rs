//! The secret that all nodes of a cluster share, and the keys derived from it.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::{fmt, io};

use ring::hkdf;

/// The shortest secret, in bytes.
const MIN_BYTES: usize = 16;
/// The fewest different bytes in a secret: one with fewer was not chosen at random. Of 16 random
/// hexadecimal digits fewer differ in one of two million cases.
const MIN_DIFFERENT: usize = 5;
/// The longest secret, in bytes: a larger file is hardly one.
const MAX_BYTES: usize = 64 * 1024;

/// The secret that only the nodes of one cluster know.
///
/// It should hold at least 128 bits of entropy, such as 32 bytes of `/dev/urandom`: any host that
/// can reach a node can test guesses.
#[derive(Clone)]
pub struct Secret(hkdf::Prk);

impl Secret {
    /// Takes a secret of 16 to 65 536 bytes, of which at least 5 differ; one newline at its end is
    /// ignored.
    ///
    /// # Errors
    /// When it is too short, too long or too uniform.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SecretError> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        match bytes.len() {
            0..MIN_BYTES => Err(SecretError::TooShort),
            _ if bytes.iter().collect::<BTreeSet<_>>().len() < MIN_DIFFERENT => {
                Err(SecretError::TooUniform)
            }
            MIN_BYTES..=MAX_BYTES => {
                let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate cluster secret 1");
                Ok(Self(salt.extract(bytes)))
            }
            _ => Err(SecretError::TooLong),
        }
    }

    /// Reads a secret from a file, as [`Secret::from_bytes`] takes it.
    ///
    /// # Errors
    /// When the file cannot be read, or does not hold a secret.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let unreadable = SecretError::Unreadable;
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // Two more than the maximum: a newline, and a byte that shows it is too long.
        file.take(MAX_BYTES as u64 + 2).read_to_end(&mut bytes).map_err(unreadable)?;
        Self::from_bytes(&bytes)
    }

    /// Seed of the Ed25519 key that signs the nodes' certificates.
    pub(crate) fn authority_seed(&self) -> [u8; 32] {
        self.derive(b"certificate authority")
    }

    fn derive<const N: usize>(&self, purpose: &[u8]) -> [u8; N] {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let mut key = [0; N];
        // HKDF-SHA256 yields up to 8 160 bytes; the keys here are 16 and 32.
        let filled = self.0.expand(&[purpose], Length(N)).and_then(|okm| okm.fill(&mut key));
        assert!(filled.is_ok(), "a derived key is at most 8160 bytes");
        key
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why there is no secret.
#[derive(Debug)]
#[non_exhaustive]
pub enum SecretError {
    /// Fewer than 16 bytes.
    TooShort,
    /// More than 65 536 bytes.
    TooLong,
    /// Fewer than 5 different bytes.
    TooUniform,
    /// The file cannot be read.
    Unreadable(io::Error),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => write!(f, "the secret must have at least {MIN_BYTES} bytes"),
            Self::TooUniform => {
                write!(f, "the secret must have at least {MIN_DIFFERENT} different bytes")
            }
            Self::TooLong => write!(f, "the secret must have at most {MAX_BYTES} bytes"),
            Self::Unreadable(error) => write!(f, "the secret cannot be read: {error}"),
        }
    }
}

impl std::error::Error for SecretError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
