//! Limits by the id that all nodes share.

use std::collections::BTreeMap;
use std::sync::Arc;

use ring::digest;
use tidegate_engine::Limiter;

/// The id of a limit, the same on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(u64);

impl LimitId {
    /// The id of limits whose parameters come with each request. No name has it.
    pub const INLINE: Self = Self(0);

    /// The id of the limit with this name: the first 64 bits of its SHA-256.
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
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a limiter, which is asked with keys hashed by [`Cluster::hash`](crate::Cluster::hash).
    /// Replaces a limiter of the same id.
    pub fn add(&mut self, id: LimitId, limiter: Arc<Limiter>) {
        self.0.insert(id, limiter);
    }

    pub(crate) fn get(&self, id: LimitId) -> Option<&Limiter> {
        self.0.get(&id).map(Arc::as_ref)
    }

    /// The first limit whose id is not less than this one.
    pub(crate) fn from(&self, id: LimitId) -> Option<(LimitId, &Limiter)> {
        self.0.range(id..).next().map(|(id, limiter)| (*id, limiter.as_ref()))
    }
}
