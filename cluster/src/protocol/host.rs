//! The interface to the limiters: the source of local deltas and the sink of remote ones.

use bincode::{Decode, Encode};

use super::delta::Delta;
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

/// The limiters of this node, as the protocol sees them.
pub trait Host {
    /// Takes every delta recorded since the last call, each key at most once, with dates up to
    /// `now` on the protocol's clock.
    fn take_recorded(&mut self, now: Nanos, into: &mut Vec<Delta>);

    /// Applies the change of a key, whose date is on the protocol's clock. False when this node has
    /// no such limit.
    fn apply(&mut self, now: Nanos, delta: Delta) -> bool;

    /// Adds to a key's debt, or takes from it, at most to none; not recorded.
    fn shift(&mut self, limit: u64, key: u64, by: i64);

    /// `TAT = max(TAT, now + debt)`. False when this node has no such limit.
    fn raise(&mut self, level: Level) -> bool;

    /// The key's debt in nanoseconds, 0 when it has none.
    fn debt(&mut self, limit: u64, key: u64) -> Nanos;

    /// The burst tolerance of a limit in nanoseconds; `None` when this node has no such limit.
    fn tolerance(&self, limit: u64) -> Option<Nanos>;

    /// What a key of this limit can owe in nanoseconds, at most, with what is charged without a
    /// check; a node that tells more is not believed.
    fn most_debt(&self, limit: u64) -> Nanos;

    /// Every key that has debt.
    fn live(&mut self) -> Vec<Level>;
}
