//! Keys from the request line.

use crate::base::key::{KeyHash, KeyHasher};

use super::super::Head;
use super::{KeyError, KeyExtractor};

/// The path as a key: [`path`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Path;

/// The path, without the query, as it was sent. O(length).
///
/// Where one resource has several spellings (`/a`, `/a/`, `/%61`), each is a key of its own; a
/// [`custom`](super::custom) key can be the matched route instead.
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

/// The method and the [`path`] together, as a pair of texts. O(length).
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
