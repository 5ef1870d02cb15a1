//! The interface to the limiters: the source of local deltas and the sink of remote ones.

use bincode::{Decode, Encode};

use super::delta::{Delta, KeyId};
use super::time::Nanos;

/// A key's debt at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Level {
    /// The limit, as a [`LimitId`](crate::LimitId)'s bits.
    pub limit: u64,
    /// The key, as a [`KeyHash`](tidegate_engine::KeyHash)'s bits.
    pub key: u64,
    /// The debt, in nanoseconds.
    pub debt: Nanos,
}

impl Level {
    pub(super) fn id(&self) -> KeyId {
        (self.limit, self.key)
    }
}

/// Where a scan of a host's keys goes on: a limit, in the order of their ids, and a part of its
/// keys, in an order of the host's; the default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanPosition(pub u64, pub u64);

/// Keys of a part, at most.
pub const MAX_PART_KEYS: usize = 256;

/// Deltas whose words are prefetched together: about as many lines as a processor fetches at once.
pub(super) const PREFETCHED: usize = 16;

/// The limiters of this node, as the protocol sees them.
pub trait Host {
    /// Takes deltas that were recorded, about `most` of them at most, each key at most once, as of
    /// `now`, when the step began, on the protocol's clock: what was consumed since is dated then.
    /// Only of what was given back, composed with what was consumed after it, is the date later, by
    /// as much. A drain takes as many calls as it needs: true is returned by the last one, and then
    /// all that was recorded before the first one is taken.
    fn take_recorded(&mut self, now: Nanos, most: usize, into: &mut Vec<Delta>) -> bool;

    /// A hint that the words of these few are read next, so that waits for memory overlap.
    fn prefetch(&self, _deltas: &[Delta]) {}

    /// Applies the change of a key, whose date is on the protocol's clock. False when nothing has
    /// changed, because this node has no such limit and no room to keep the change for it.
    fn apply(&mut self, now: Nanos, delta: Delta) -> bool;

    /// Adds to a key's debt, or takes from it, at most to none; not recorded.
    fn shift(&mut self, limit: u64, key: u64, by: i64);

    /// `TAT = max(TAT, now + debt)`. False as for [`Host::apply`].
    fn raise(&mut self, now: Nanos, level: Level) -> bool;

    /// By how much the key's TAT is ahead of `now`, in nanoseconds; 0 when it has no debt. `now` is
    /// when the step began, which may be some time ago. Checks may run meanwhile: what they consume
    /// is in the debt, and recorded soon.
    fn debt(&mut self, now: Nanos, limit: u64, key: u64) -> Nanos;

    /// The burst tolerance of a limit in nanoseconds; `None` when this node has no such limit.
    fn tolerance(&self, limit: u64) -> Option<Nanos>;

    /// The debt of one unit of a limit in nanoseconds; `None` where the quota comes with each
    /// request, or this node has no such limit.
    fn unit(&self, limit: u64) -> Option<Nanos>;

    /// What a key of this limit can owe in nanoseconds, at most, with what is charged without a
    /// check; a node that reports more is not believed. Of a limit that this node does not have,
    /// what a key of any limit can.
    fn most_debt(&self, limit: u64) -> Nanos;

    /// Lists keys that have debt, in bounded work: adds those of one part, at most
    /// [`MAX_PART_KEYS`], and returns where the next one is; `None` after the last one. A key stays
    /// in its part as long as it has debt.
    fn scan(&mut self, at: ScanPosition, into: &mut Vec<Level>) -> Option<ScanPosition>;
}
