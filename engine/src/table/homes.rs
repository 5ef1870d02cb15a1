//! The bits of a key that its position in a small table does not give back.
//!
//! The tag of a slot holds 47 of the 59 bits of its key. In a table of at least
//! [`WHOLE_KEY_LINES`] lines the position gives back the others, the home bits. A smaller table
//! keeps them next to its lines, an integer a slot, which only claims write and only listings read.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | H1 home bits, listing | relaxed | none: written before the confirm (C6) that the listing has read by U6, so they are those of that claim or of a later one, whose generation differs from the tag's | - | `home-of-any-claim` |

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::key::{HOME_BITS, KeyHash};
use crate::base::sync::{AtomicU64, Ordering};

use super::bits::{HomeBits, Tag};
use super::line::{CacheLine, SLOTS};

/// With at least this many lines a slot's position gives back the home bits of its key.
pub(super) const WHOLE_KEY_LINES: usize = 1 << HOME_BITS;
/// A table of this many lines takes as much memory with the home bits of its slots as one that
/// keeps none.
pub(super) const COSTLY_LINES: usize = costly_lines();

const fn costly_lines() -> usize {
    let line = size_of::<CacheLine>() + SLOTS * size_of::<AtomicU64>();
    (WHOLE_KEY_LINES * size_of::<CacheLine>()).div_ceil(line)
}

/// The home bits of each slot's key; empty where positions give them back.
#[derive(Debug)]
pub(super) struct Homes(Box<[AtomicU64]>);

impl Homes {
    /// For a table of `lines` lines; `None` when the memory cannot be allocated. Models ask for
    /// them by name: without, there are fewer orders to explore.
    pub(super) fn of_table(lines: usize) -> Option<Self> {
        let are_kept = lines < WHOLE_KEY_LINES && !cfg!(any(loom, interleave));
        Self::of_slots(if are_kept { lines * SLOTS } else { 0 })
    }

    pub(super) fn of_slots(slots: usize) -> Option<Self> {
        let mut homes = Vec::new();
        homes.try_reserve_exact(slots).ok()?;
        homes.extend((0..slots).map(|_| AtomicU64::new(0)));
        Some(Self(homes.into_boxed_slice()))
    }

    /// The home bits of a slot, if they are kept.
    #[inline]
    pub(super) fn of(&self, slot: usize) -> Option<&AtomicU64> {
        self.0.get(slot)
    }

    pub(super) fn are_kept(&self) -> bool {
        !self.0.is_empty()
    }

    /// The key of a slot in which this tag was read; `None` if the slot has been claimed since.
    pub(super) fn key(&self, slot: usize, tag: Tag) -> Option<KeyHash> {
        let home = HomeBits(self.of(slot)?.load(Ordering::Relaxed)); // H1
        let is_same = home.generation() == tag.generation();
        is_same.then(|| KeyHash::from_parts(home.bits(), tag.key_tag()))
    }

    #[cfg(all(test, interleave))]
    pub(super) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}
