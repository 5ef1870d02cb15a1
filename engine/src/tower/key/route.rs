//! Keys from the request line.

use crate::key::{KeyHash, KeyHasher};

use super::super::Head;
use super::{KeyError, KeyExtractor};

/// The path as a key: [`path`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Path;

/// The path, without the query, as it was sent. O(length).
///
/// Where one resource answers to several spellings (`/a`, `/a/`, `/%61`) each has a limit of its own; a
/// [`custom`](super::custom) key can take the route that matched instead.
#[must_use]
pub fn path() -> Path {
    Path
}

impl KeyExtractor for Path {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        Ok(hasher.hash_bytes(head.uri().path().as_bytes()))
    }
}

/// The method and the path together as a key: [`method_and_path`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MethodAndPath;

/// The method and the [`path`] together: the key of the pair of texts. O(length).
#[must_use]
pub fn method_and_path() -> MethodAndPath {
    MethodAndPath
}

impl KeyExtractor for MethodAndPath {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        let method = hasher.hash_bytes(head.method().as_str().as_bytes());
        Ok(hasher.pair(method, Path.key(head, hasher)?))
    }
}
