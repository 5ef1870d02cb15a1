//! Finding the key in the head of a request.

mod address;
mod header;
mod route;

use core::fmt;

use http::StatusCode;

use crate::base::key::{Key, KeyHash, KeyHasher};

use super::Head;

pub use address::{
    Address, ForwardedFor, MAX_TRUSTED_HOPS, PeerAddress, TrustedHopsError, address, forwarded_for,
    peer_address,
};
pub use header::{Bearer, DEFAULT_MAX_KEY_BYTES, Header, api_key, bearer, header};
pub use route::{MethodAndPath, Path, method_and_path, path};

/// Finds the key of a request.
///
/// [`keys`](super::keys) has the usual ones, and [`keys::custom`](custom) takes a closure. A pair
/// of extractors is an extractor too: its key is the pair of the keys they find, such as an API key
/// on a path.
///
/// ```
/// use tidegate_engine::tower::{Head, KeyError, KeyExtractor};
/// use tidegate_engine::{KeyHash, KeyHasher};
///
/// /// The tenant in `https://tenant.example.org/`.
/// struct Tenant;
///
/// impl KeyExtractor for Tenant {
///     fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
///         let host = head.uri().host().ok_or(KeyError::NoKey)?;
///         let (tenant, _) = host.split_once('.').ok_or(KeyError::Malformed)?;
///         Ok(hasher.hash_bytes(tenant.as_bytes()))
///     }
/// }
/// ```
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key's hash under `hasher`, which is the limiter's.
    ///
    /// # Errors
    /// When there is no key, or no usable one; see [`KeyError`] for what follows.
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError>;
}

/// Why a request has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyError {
    /// The request names no key. [`MissingKey`](super::MissingKey) says what follows.
    NoKey,
    /// The peer's address is unknown: the server was not set up to attach it, or the peer has none.
    /// [`MissingKey`](super::MissingKey) says what follows.
    NoPeer,
    /// The key is longer than allowed.
    TooLong,
    /// There are several keys where one is expected, so other components may use another one of
    /// them.
    Ambiguous,
    /// The key cannot be parsed.
    Malformed,
}

impl KeyError {
    /// The status of a request refused with this error: 400, 431 for a key that is too long, 500
    /// where the server is at fault.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::NoKey | Self::Ambiguous | Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::NoPeer => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoKey => "the request has no key",
            Self::NoPeer => "the address of the peer is unknown",
            Self::TooLong => "the key is too long",
            Self::Ambiguous => "there are several keys where one is expected",
            Self::Malformed => "the key is malformed",
        })
    }
}

impl std::error::Error for KeyError {}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for (A, B) {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        Ok(hasher.pair(self.0.key(head, hasher)?, self.1.key(head, hasher)?))
    }
}

/// One key for all requests: [`constant`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Constant;

/// All requests share one key.
#[must_use]
pub fn constant() -> Constant {
    Constant
}

impl KeyExtractor for Constant {
    fn key(&self, _: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        Ok(hasher.hash_bytes(&[]))
    }
}

/// A key found by a closure: [`custom`].
#[derive(Clone, Copy, Debug)]
pub struct Custom<F>(F);

/// The key that `find` returns; `None` where there is none. For keys that borrow from the request,
/// write a [`KeyExtractor`].
///
/// ```
/// use tidegate_engine::tower::keys;
///
/// #[derive(Clone)]
/// struct User { id: u64 }
///
/// // The user that an outer layer authenticated.
/// let key = keys::custom(|head| head.extensions().get::<User>().map(|user| user.id));
/// # let _ = key;
/// ```
pub fn custom<K, F>(find: F) -> Custom<F>
where
    K: Key,
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
{
    Custom(find)
}

impl<K, F> KeyExtractor for Custom<F>
where
    K: Key,
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
{
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        (self.0)(head).map(|key| key.hash_with(hasher)).ok_or(KeyError::NoKey)
    }
}
