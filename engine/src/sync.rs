//! The one door to atomics: std's, loom's under `--cfg loom`, or those of the exhaustive search under
//! `--cfg interleave`.

#[cfg(not(any(loom, interleave)))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};

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
