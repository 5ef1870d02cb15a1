//! Which limiter a delta lands on.

use std::collections::BTreeMap;
use std::sync::Arc;

use ring::digest;
use tidegate_engine::{KeyHasher, Limiter};

/// Names a limit among all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(u64);

impl LimitId {
    /// The namespace of limits whose parameters come with each request. No name leads here.
    pub const INLINE: Self = Self(0);

    /// The limit of this name: the first 64 bits of its SHA-256, the same on every node.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, name.as_bytes());
        let bits = hash.as_ref().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Self(bits.max(1))
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }
}

/// The limiters of a node that take part in gossip.
#[derive(Clone, Debug, Default)]
pub struct Limits(BTreeMap<LimitId, Arc<Limiter>>);

impl Limits {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a limiter, which must hash with [`Secret::key_hasher`](crate::Secret::key_hasher). A
    /// limiter added under the same id before is replaced.
    pub fn add(&mut self, id: LimitId, limiter: Arc<Limiter>) {
        self.0.insert(id, limiter);
    }

    /// A limit whose limiter hashes in another way.
    pub(crate) fn with_other_hasher(&self, hasher: &KeyHasher) -> Option<LimitId> {
        let probe = "tidegate";
        let expected = hasher.hash_bytes(probe.as_bytes());
        self.iter().find(|(_, limiter)| limiter.hash(probe) != expected).map(|(id, _)| id)
    }

    pub(crate) fn get(&self, id: LimitId) -> Option<&Limiter> {
        self.0.get(&id).map(Arc::as_ref)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LimitId, &Limiter)> {
        self.0.iter().map(|(id, limiter)| (*id, limiter.as_ref()))
    }
}
