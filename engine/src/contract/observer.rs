//! Observers of decisions.

use alloc::sync::Arc;

use crate::base::decision::Decision;
use crate::base::key::KeyHash;

/// Is notified of each decision of a [`Limiter`](crate::Limiter) or a
/// [`DirectLimiter`](crate::DirectLimiter), on the calling thread and before the decision is
/// returned. Set on the builder; without one, nothing is called and it costs nothing.
///
/// An observer must not panic: units that a set of limits or a charge has taken by then would stay
/// taken.
pub trait Observer {
    /// Whether [`Observer::decided`] does anything.
    const LISTENS: bool = true;

    /// A check of `cost` units (0: a peek) for `key` was decided; without keys, for
    /// `KeyHash::from_bits(0)`. Of a check that takes as much as fits, `cost` is what it took, or 1
    /// where it was denied.
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision);
}

/// No observer.
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

/// Both are notified of each decision, in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const LISTENS: bool = A::LISTENS || B::LISTENS;

    #[inline]
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision) {
        self.0.decided(key, cost, decision);
        self.1.decided(key, cost, decision);
    }
}
