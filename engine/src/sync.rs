//! The one door to atomics: std's, or loom's under `--cfg loom`. In unit tests each operation can
//! be watched and stopped.

#[cfg(all(test, not(loom)))]
pub(crate) mod watched;

#[cfg(all(test, not(loom)))]
pub(crate) use watched::{AtomicU64, fence};

#[cfg(not(any(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, atomic::Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};
