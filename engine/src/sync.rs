//! The one door to atomics: std's, loom's under `--cfg loom`, or those of the exhaustive search under
//! `--cfg interleave`. In unit tests each of std's operations can be watched and stopped.

#[cfg(all(test, not(any(loom, interleave))))]
pub(crate) mod watched;

#[cfg(not(any(test, loom, interleave)))]
pub(crate) use std::sync::atomic::{AtomicU64, fence};
#[cfg(not(any(loom, interleave)))]
pub(crate) use std::sync::{Arc, atomic::Ordering};
#[cfg(all(test, not(any(loom, interleave))))]
pub(crate) use watched::{AtomicU64, fence};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};

#[cfg(interleave)]
pub(crate) use {
    crate::interleave::{AtomicU64, Ordering, fence},
    std::sync::Arc,
};
