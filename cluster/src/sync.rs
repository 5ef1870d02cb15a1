//! The atomics of the recorder's tables: std's. In unit tests each operation can be watched and
//! stopped; the models (`tests/recorder_models.rs`) put loom's in place of this module.

#[cfg(test)]
pub(crate) mod watched;

#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::atomic::{Ordering, compiler_fence};
#[cfg(test)]
pub(crate) use watched::AtomicU64;
