//! A cache line of slots.

use crate::base::sync::AtomicU64;

/// Slots a line: four pairs of integers fill 64 bytes. Two in models, so that every order of claims
/// over two lines can be explored.
pub(super) const SLOTS: usize = if cfg!(any(loom, interleave)) { 2 } else { 4 };

#[derive(Debug)]
#[repr(C)]
pub(super) struct Slot {
    pub(super) tag: AtomicU64,
    pub(super) word: AtomicU64,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct CacheLine {
    pub(super) slots: [Slot; SLOTS],
}
