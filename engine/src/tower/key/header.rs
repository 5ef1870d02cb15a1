//! Keys from header fields.

use http::header::{AUTHORIZATION, HeaderName};

use crate::base::key::{KeyHash, KeyHasher};

use super::super::Head;
use super::{KeyError, KeyExtractor};

/// The default limit, in bytes, on a key in a header field; see [`Header::max_bytes`] and
/// [`Bearer::max_bytes`].
pub const DEFAULT_MAX_KEY_BYTES: usize = 4096;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The scheme of bearer tokens, in any case.
const BEARER: &[u8] = b"bearer";

/// The value of a header field as a key: [`header`].
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
    max_bytes: usize,
}

/// The value of a header field, any bytes: the same key as
/// [`Limiter::check`](crate::Limiter::check) of those bytes. O(length), at most
/// [`DEFAULT_MAX_KEY_BYTES`].
///
/// An empty value is [`KeyError::NoKey`], a longer one is [`KeyError::TooLong`], and a repeated
/// field is [`KeyError::Ambiguous`]. Clients choose what they send: unless the value was verified
/// before this layer, a client evades the limit by inventing a new one for each request. For a
/// client's address in a field use [`address`](super::address()): as bytes, every IPv6 address
/// would be a key of its own.
#[must_use]
pub fn header(name: HeaderName) -> Header {
    Header { name, max_bytes: DEFAULT_MAX_KEY_BYTES }
}

/// The value of `X-Api-Key`: a [`header`].
#[must_use]
pub fn api_key() -> Header {
    header(API_KEY)
}

impl Header {
    /// Refuses longer values.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes, ..self }
    }
}

impl KeyExtractor for Header {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        let value = only_value(head, &self.name)?;
        bounded(value, self.max_bytes).map(|value| hasher.hash_bytes(value))
    }
}

/// A bearer token as a key: [`bearer`].
#[derive(Clone, Debug)]
pub struct Bearer {
    max_bytes: usize,
}

/// The token in `Authorization: Bearer ...`, as with [`header`]. The scheme is matched in any case,
/// so `bearer` does not make a second key of the same token; another scheme is [`KeyError::NoKey`].
#[must_use]
pub fn bearer() -> Bearer {
    Bearer { max_bytes: DEFAULT_MAX_KEY_BYTES }
}

impl Bearer {
    /// Refuses longer tokens.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes }
    }
}

impl KeyExtractor for Bearer {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        let value = only_value(head, &AUTHORIZATION)?;
        let token = bearer_token(value).ok_or(KeyError::NoKey)?;
        bounded(token, self.max_bytes).map(|token| hasher.hash_bytes(token))
    }
}

/// The value of a field that occurs once.
pub(super) fn only_value<'a>(head: &Head<'a>, name: &HeaderName) -> Result<&'a [u8], KeyError> {
    let mut values = head.headers().get_all(name).iter();
    let value = values.next().ok_or(KeyError::NoKey)?;
    if values.next().is_some() { Err(KeyError::Ambiguous) } else { Ok(value.as_bytes()) }
}

/// The value, if it is neither empty nor longer than `most`.
fn bounded(value: &[u8], most: usize) -> Result<&[u8], KeyError> {
    match value.len() {
        0 => Err(KeyError::NoKey),
        length if length > most => Err(KeyError::TooLong),
        _ => Ok(value),
    }
}

fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(BEARER.len())?;
    let ends = rest.first().is_some_and(u8::is_ascii_whitespace);
    (ends && scheme.eq_ignore_ascii_case(BEARER)).then(|| rest.trim_ascii())
}
