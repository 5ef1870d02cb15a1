//! What a limiter's decision modes need of an algorithm.

use super::algorithm::Algorithm;
use super::gcra::Gcra;
use super::window::{Count, Periods, Sliding};

/// An algorithm, and by what more than a key's word its checks may be decided.
pub trait Modes: Algorithm {
    /// Whether denied checks can be charged, or units leased: where the state is debt.
    const HAS_MODES: bool = false;

    /// The arithmetic by which units can be leased; `None` where they cannot be.
    #[inline]
    fn leasable(&self) -> Option<&Gcra> {
        None
    }
}

impl Modes for Gcra {
    const HAS_MODES: bool = true;

    #[inline]
    fn leasable(&self) -> Option<&Gcra> {
        Some(self)
    }
}

impl<P: Periods> Modes for Count<P> {}

impl Modes for Sliding {}
