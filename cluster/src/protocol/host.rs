//! The interface to the limiters: the source of local deltas and the sink of remote debt.

use bincode::{Decode, Encode};

use super::time::Nanos;

/// Debt on one key of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Delta {
    /// The limit, as a [`LimitId`](crate::LimitId)'s bits.
    pub limit: u64,
    /// The key, as a [`KeyHash`](tidegate_engine::KeyHash)'s bits.
    pub key: u64,
    /// The debt, in nanoseconds.
    pub debt: Nanos,
}

/// The limiters of this node, as the protocol sees them.
pub trait Host {
    /// Takes every delta recorded since the last call, each key at most once.
    fn take_recorded(&mut self, into: &mut Vec<Delta>);

    /// `TAT = max(TAT, now - age) + debt`. False when this node has no such limit.
    fn charge(&mut self, delta: Delta, age: Nanos) -> bool;

    /// `TAT = max(TAT, now + debt)`. False when this node has no such limit.
    fn raise(&mut self, delta: Delta) -> bool;

    /// Every key that has debt.
    fn live(&mut self) -> Vec<Delta>;
}
