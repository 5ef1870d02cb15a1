//! Keys, which name the client that is limited, and how they are hashed and shown.

mod shown;

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::cold::cold_path;
pub use shown::{MAX_SHOWN_BYTES, ShownKey};

/// Bits of a [`KeyHash`] that a table keeps as the key's tag.
pub(crate) const TAG_BITS: u32 = 47;
/// Bits of a [`KeyHash`] that are not in the tag and choose the home bucket.
pub(crate) const HOME_BITS: u32 = 12;

/// The key of limits without keys: all keys are this one, which observers are given.
pub(crate) const KEYLESS: KeyHash = KeyHash::from_bits(0);

/// The same as a key.
pub(crate) struct Keyless;

/// Hashes keys that limits without keys then leave out of account, so its seed need not be secret.
pub(crate) static KEYLESS_HASHER: KeyHasher = KeyHasher::rapid(0);

/// Bits of an integer that a [`KeyHash`] does not use.
const UNUSED_BITS: u32 = u64::BITS - HOME_BITS - TAG_BITS;

/// A key after hashing: 59 bits that represent the key everywhere, in a table and on the wire.
///
/// Two keys with one `KeyHash` share one state. Among `n` live keys a given key collides with a
/// probability of about `n / 2^59` (2 in 10^11 at ten million keys). A table
/// distinguishes keys by 47 of these bits and by their position. That makes a collision up to
/// twenty times as likely in a table of 13 104 keys, and 5 in 10^13 in one of fewer than 8 730.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(
    /// From the highest bit on: the home's bits, the tag's, zeros. So position and tag start at the
    /// highest bit after at most one shift.
    u64,
);

impl KeyHash {
    /// Takes the low 59 bits of a well-mixed hash.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        let key = Self(bits << UNUSED_BITS);
        // A tag of 0 marks a slot that names no key.
        if key.high_tag() == 0 {
            cold_path();
            return Self(key.0 | 1 << UNUSED_BITS);
        }
        key
    }

    /// The 59 bits; `from_bits(to_bits())` is the same hash.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0 >> UNUSED_BITS
    }

    #[inline]
    pub(crate) const fn tag(self) -> u64 {
        self.high_tag() >> (HOME_BITS + UNUSED_BITS)
    }

    /// The tag in the highest bits; all lower ones are 0.
    #[inline]
    pub(crate) const fn high_tag(self) -> u64 {
        self.0 << HOME_BITS
    }

    /// The key's position in a whole table, as a 64-bit fraction. The highest bits are the home's,
    /// so they can be recovered from a bucket and a tag.
    #[inline]
    pub(crate) const fn position(self) -> u64 {
        self.0
    }

    /// The bits that are not in the tag.
    pub(crate) const fn home_bits(self) -> u64 {
        self.0 >> (u64::BITS - HOME_BITS)
    }

    #[inline]
    pub(crate) const fn from_parts(home: u64, tag: u64) -> Self {
        Self((home << (u64::BITS - HOME_BITS)) | (tag << UNUSED_BITS))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({:#017x})", self.to_bits())
    }
}

/// Turns keys into [`KeyHash`]es. The output is fixed by the algorithm, the seed and the key's
/// bytes alone: every process and platform with the same seed agrees.
#[derive(Clone)]
pub struct KeyHasher(HashAlgorithm);

#[derive(Clone)]
enum HashAlgorithm {
    Rapid(RapidSecrets),
    Sip([u8; 16]),
    Source(Arc<dyn HasherSource>),
}

/// Gives the hasher in force, where that may change: see [`KeyHasher::from_source`].
pub trait HasherSource: Send + Sync {
    /// The hasher in force, which does not follow this source itself. Called for each key.
    fn current(&self) -> &KeyHasher;
}

impl KeyHasher {
    /// rapidhash V3 under a secret seed: about 1 ns for a short key.
    ///
    /// Adversary model: an attacker who can choose keys but sees neither the seed nor hashes cannot
    /// find collisions except by trying. It is not a cryptographic function: where attackers choose
    /// keys *and* can observe how keys influence each other, use [`KeyHasher::siphash`].
    #[must_use]
    pub const fn rapid(seed: u64) -> Self {
        Self(HashAlgorithm::Rapid(RapidSecrets::seed(seed)))
    }

    /// SipHash-1-3-128 under a 128-bit secret: about 13 ns for a short key, a keyed pseudo-random
    /// function, also against attackers who choose keys and observe.
    #[must_use]
    pub fn siphash(secret: [u8; 16]) -> Self {
        Self(HashAlgorithm::Sip(secret))
    }

    /// The hasher that `source` gives at the time of each call, for nodes that agree on one while
    /// they run.
    ///
    /// With another hasher every key is another one: its word begins anew, and the word under its
    /// earlier hash drains. A pair of keys that is hashed meanwhile may be a third.
    #[must_use]
    pub fn from_source(source: Arc<dyn HasherSource>) -> Self {
        Self(HashAlgorithm::Source(source))
    }

    /// rapidhash under a random seed from the operating system, as std's hash maps use.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::rapid(RandomState::new().hash_one(0_u64))
    }

    /// Hashes a key given as bytes. O(length).
    #[inline]
    #[must_use]
    pub fn hash_bytes(&self, bytes: &[u8]) -> KeyHash {
        KeyHash::from_bits(self.hash64(bytes))
    }

    /// Hashes an integer key, distinct from every byte string.
    #[inline]
    #[must_use]
    pub fn hash_u128(&self, value: u128) -> KeyHash {
        KeyHash::from_bits(self.hash64(&value.to_le_bytes()).rotate_left(32))
    }

    /// Hashes an integer key, distinct from every byte string. Equal to [`KeyHasher::hash_u128`] of
    /// the same value is *not* promised.
    #[inline]
    #[must_use]
    pub fn hash_u64(&self, value: u64) -> KeyHash {
        KeyHash::from_bits(self.hash64(&value.to_le_bytes()).rotate_left(32))
    }

    /// Two keys as one, distinct from every byte string and every integer.
    #[inline]
    pub(crate) fn pair(&self, first: KeyHash, second: KeyHash) -> KeyHash {
        let bits = u128::from(first.to_bits()) << 64 | u128::from(second.to_bits());
        KeyHash::from_bits(self.hash64(&bits.to_le_bytes()).rotate_left(16))
    }

    #[inline]
    pub(crate) fn hash64(&self, bytes: &[u8]) -> u64 {
        if let HashAlgorithm::Rapid(secrets) = &self.0 {
            return rapid(bytes, secrets);
        }
        // Costs the others a jump, which is little next to the call, and keeps this path straight.
        cold_path();
        hash_by_other(bytes, &self.0)
    }
}

/// Out of line: inlined, it would keep the hash above from being inlined. One call for all others,
/// so that the caller compares once; of those, `SipHash` is distinguished by one comparison as
/// well.
#[inline(never)]
fn hash_by_other(bytes: &[u8], algorithm: &HashAlgorithm) -> u64 {
    use core::hash::Hasher as _;
    let HashAlgorithm::Sip(secret) = algorithm else { return hash_by_source(bytes, algorithm) };
    // Of a new one the compiler knows that it has no bytes yet.
    let mut hasher = SipHasher13::new_with_key(secret);
    hasher.write(bytes);
    hasher.finish128().h1
}

/// Out of line, so that `SipHash` carries none of its registers.
#[inline(never)]
fn hash_by_source(bytes: &[u8], algorithm: &HashAlgorithm) -> u64 {
    match algorithm {
        HashAlgorithm::Source(source) => match &source.current().0 {
            HashAlgorithm::Rapid(secrets) => rapid_any(bytes, secrets),
            present => hash_by_other(bytes, present),
        },
        HashAlgorithm::Rapid(secrets) => rapid_any(bytes, secrets),
        sip @ HashAlgorithm::Sip(_) => hash_by_other(bytes, sip),
    }
}

/// rapidhash V3. Keys of 8 to 16 bytes are hashed inline, in two multiplications.
#[inline]
fn rapid(bytes: &[u8], secrets: &RapidSecrets) -> u64 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) if bytes.len() <= 16 => {
            let (secret, length) = (secrets.secrets[1], bytes.len() as u64);
            let first = u64::from_le_bytes(*first) ^ secret;
            let last = u64::from_le_bytes(*last) ^ secrets.seed ^ length;
            let product = u128::from(first) * u128::from(last);
            let (low, high) = (product as u64, (product >> 64) as u64);
            let mixed =
                u128::from(low ^ 0xaaaa_aaaa_aaaa_aaaa) * u128::from(high ^ secret ^ length);
            mixed as u64 ^ (mixed >> 64) as u64
        }
        // Shorter and longer keys: the jump is little next to the call.
        _ => {
            cold_path();
            rapid_any(bytes, secrets)
        }
    }
}

/// rapidhash V3 of a key of any length.
#[inline(never)]
fn rapid_any(bytes: &[u8], secrets: &RapidSecrets) -> u64 {
    rapidhash_v3_seeded(bytes, secrets)
}

impl fmt::Debug for KeyHasher {
    /// Names the algorithm and keeps the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            HashAlgorithm::Rapid(_) => "KeyHasher(rapidhash-v3)",
            HashAlgorithm::Sip(_) => "KeyHasher(siphash-1-3-128)",
            HashAlgorithm::Source(_) => "KeyHasher(source)",
        })
    }
}

/// What can name a client: text, bytes, integers, a hash made earlier, and pairs and triples of
/// keys.
///
/// * Text and bytes with the same content are the same key, whatever their type: `"a"`, `String`,
///   `Box<str>`, `Arc<[u8]>`, `Cow<str>`.
/// * Integers of up to 64 bits are the same key when they are the same 64 bits, sign-extended where
///   they are signed: `1_u8` and `1_i64` are one key, and so are `-1_i8` and `u64::MAX`. `u128` and
///   `i128` are likewise keys of 128 bits, distinct from those of 64.
/// * `(a, b)` is one key for both together. Its parts are hashed separately: `("ab", "c")` and
///   `("a", "bc")` are two keys, and a part may be the [`KeyHash`] of that part. `(a, b, c)` is
///   `((a, b), c)`.
///
/// `&dyn Key` is a key as well.
///
/// ```
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(1)).capacity(1_000).build()?;
/// assert!(limiter.check(("user:42", "/upload")).is_allowed());
/// assert!(limiter.check(("user:42", "/search")).is_allowed());
/// assert!(!limiter.check((String::from("user:42"), "/upload")).is_allowed());
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a key",
    label = "not a key",
    note = "keys are text, bytes, integers, tuples of keys, and a `KeyHash`",
    note = "for an `IpAddr` use `IpKey::from(address)`",
    note = "for a type of your own implement `Key`, or give a reference to one of its fields"
)]
pub trait Key {
    /// The key's hash under `hasher`.
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash;

    /// The key as it was given, for an [`Observer`](crate::Observer) that asks for it; no limit
    /// does. [`ShownKey::Hidden`] unless overridden: for a type of your own return what names the
    /// client in a log, such as [`ShownKey::Text`] of a field, or [`ShownKey::Other`].
    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Hidden
    }
}

impl Key for KeyHash {
    #[inline]
    fn hash_with(&self, _: &KeyHasher) -> KeyHash {
        *self
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Hash(*self)
    }
}

impl Key for Keyless {
    fn hash_with(&self, _: &KeyHasher) -> KeyHash {
        KEYLESS
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Keyless
    }
}

macro_rules! held_keys {
    ($($held:ty),*) => {$(
        impl<K: Key + ?Sized> Key for $held {
            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                (**self).hash_with(hasher)
            }

            fn shown(&self) -> ShownKey<'_> {
                (**self).shown()
            }
        }
    )*};
}

held_keys!(&K, Box<K>, Rc<K>, Arc<K>);

impl<K: Key + ToOwned + ?Sized> Key for Cow<'_, K> {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        (**self).hash_with(hasher)
    }

    fn shown(&self) -> ShownKey<'_> {
        (**self).shown()
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        let (first, second) = self;
        hasher.pair(first.hash_with(hasher), second.hash_with(hasher))
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Pair(&self.0, &self.1)
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        let (first, second, third) = self;
        ((first, second), third).hash_with(hasher)
    }

    fn shown(&self) -> ShownKey<'_> {
        let (first, second, third) = self;
        ShownKey::Triple(first, second, third)
    }
}

macro_rules! byte_keys {
    ($($type:ty => $shown:ident),*) => {$(
        impl Key for $type {
            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                hasher.hash_bytes(self.as_ref())
            }

            fn shown(&self) -> ShownKey<'_> {
                ShownKey::$shown(self)
            }
        }
    )*};
}

byte_keys!(str => Text, String => Text, [u8] => Bytes, Vec<u8> => Bytes);

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        hasher.hash_bytes(self)
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Bytes(self)
    }
}

macro_rules! integer_keys {
    ($shown:ident: $($type:ty => $wide:ty),*) => {$(
        impl Key for $type {
            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                hasher.hash_u64(*self as $wide as u64)
            }

            fn shown(&self) -> ShownKey<'_> {
                ShownKey::$shown((*self as $wide).into())
            }
        }
    )*};
}

integer_keys!(Unsigned: u8 => u64, u16 => u64, u32 => u64, u64 => u64, usize => u64);
integer_keys!(Signed: i8 => i64, i16 => i64, i32 => i64, i64 => i64, isize => i64);

impl Key for u128 {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        hasher.hash_u128(*self)
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Unsigned(*self)
    }
}

impl Key for i128 {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        hasher.hash_u128(*self as u128)
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Signed(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_are_hashed_as_rapidhash_does() {
        let bytes: Vec<u8> = (0..200_u8).map(|byte| byte.wrapping_mul(167)).collect();
        for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let secrets = RapidSecrets::seed(seed);
            for length in 0..bytes.len() {
                let key = &bytes[..length];
                assert_eq!(rapid(key, &secrets), rapidhash_v3_seeded(key, &secrets), "{length}");
            }
        }
    }

    #[test]
    fn a_hasher_that_follows_is_the_present_one() {
        struct Shared(std::sync::Mutex<usize>, [KeyHasher; 2]);
        impl HasherSource for Shared {
            fn current(&self) -> &KeyHasher {
                &self.1[*self.0.lock().unwrap()]
            }
        }
        let each = [KeyHasher::rapid(1), KeyHasher::siphash([2; 16])];
        let source = Arc::new(Shared(std::sync::Mutex::new(0), each.clone()));
        let following = KeyHasher::from_source(Arc::clone(&source) as Arc<dyn HasherSource>);
        for (place, hasher) in each.iter().enumerate() {
            *source.0.lock().unwrap() = place;
            assert_eq!("key".hash_with(&following), "key".hash_with(hasher));
            assert_eq!(7_u64.hash_with(&following), 7_u64.hash_with(hasher));
            assert_eq!(("a", 7_u128).hash_with(&following), ("a", 7_u128).hash_with(hasher));
        }
    }
}
