//! The only source of atomics: std's, loom's under `--cfg loom`, or those of the exhaustive search
//! under `--cfg interleave`. In unit tests each operation of std's can be watched and stopped.

#[cfg(all(test, not(any(loom, interleave))))]
pub(crate) mod watched;

#[cfg(not(any(test, loom, interleave)))]
pub(crate) use core::sync::atomic::{AtomicU64, fence};
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(all(test, not(any(loom, interleave))))]
pub(crate) use watched::{AtomicU64, fence};
#[cfg(not(any(loom, interleave)))]
pub(crate) use {alloc::sync::Arc, core::sync::atomic::Ordering};

/// Without std, waiters spin for the lock of their list.
#[cfg(not(any(feature = "std", loom)))]
pub(crate) use spin::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};

#[cfg(interleave)]
pub(crate) use {
    crate::interleave::{AtomicU64, Ordering, fence},
    std::sync::Arc,
};

/// Locks a mutex whose holder leaves what it guards consistent even if it panics.
#[cfg(any(feature = "std", loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(not(any(feature = "std", loom)))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
