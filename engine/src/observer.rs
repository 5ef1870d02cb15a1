//! Hearing of decisions.

use alloc::sync::Arc;

use crate::decision::Decision;
use crate::key::KeyHash;

/// Hears of each decision that a [`Limiter`](crate::Limiter) or a [`Single`](crate::Single) makes, on the thread that asked and before
/// the answer is returned. Given to the builder; without one, nothing is called and nothing is paid.
///
/// An observer must not panic: what a set of limits or a charge has taken by then would stay taken.
pub trait Observer {
    /// Whether [`Observer::decided`] does anything.
    const LISTENS: bool = true;

    /// A check of `cost` units (0: a look) of `key` was decided; where there are no keys, of
    /// `KeyHash::from_bits(0)`.
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision);
}

/// Nobody listens.
impl Observer for () {
    const LISTENS: bool = false;

    #[inline]
    fn decided(&self, _: KeyHash, _: u64, _: &Decision) {}
}

impl<O: Observer> Observer for &O {
    const LISTENS: bool = O::LISTENS;

    #[inline]
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision) {
        (**self).decided(key, cost, decision);
    }
}

impl<O: Observer> Observer for Arc<O> {
    const LISTENS: bool = O::LISTENS;

    #[inline]
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision) {
        (**self).decided(key, cost, decision);
    }
}

/// Both hear of each decision, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const LISTENS: bool = A::LISTENS || B::LISTENS;

    #[inline]
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision) {
        self.0.decided(key, cost, decision);
        self.1.decided(key, cost, decision);
    }
}
