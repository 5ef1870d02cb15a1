//! Eviction order: the key that was denied least, then the one with the least debt.
//!
//! Least debt alone does not protect a key that is being limited: keys that are sprayed at the cost
//! of a whole burst owe more than it does. The difference is that it comes back. So a slot's tag
//! counts denials of its key as *strikes*, and slots without strikes are evicted first. The first
//! denial counts; then one in 16, then one in 256, so that three strikes take a few hundred
//! denials, and sprayed keys have to be denied about as often as the key they replace.
//!
//! Strikes are counted only in a table that is *pressed*: a claim has found it crowded. Then
//! denials write to their slot at most three times a key's life there; before, never. So denied
//! traffic does not write to lines that others read.
//!
//! A table stays pressed. The price is a lookup of the slot in each denial, mostly in the line that
//! the check has just read, and a draw. Clearing it would take knowledge that no claim will find
//! the table crowded soon; keys denied while it was clear would be evicted first in the next spray,
//! which is what strikes prevent.
//!
//! A claim that was withdrawn after its label leaves the label until the slot is claimed again. If
//! that slot precedes the key's own, checks of the key probe all its lines, and strikes skip it.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | K1 tag, any read | relaxed | none: K2 fails if the tag has changed | - | - |
//! | K2 tag, strike | relaxed | none: a strike guards nothing, and a read-modify-write continues the release sequence by which a label reaches U3 and C5 | - | `strike-stored` |
//! | K3 pressed | relaxed | none: a denial that reads it late is not counted | - | - |
//! | K4 word, any read | relaxed | none: a hint; a strike of a label that was left behind is lost | - | - |
//!
//! K2 is a compare-and-swap from a label that names the key, so it cannot undo or outrun a later
//! label: either the label comes first, and K2 fails, or it comes second, finds the tag changed
//! (C5) and is written over the strike. That retry happens at most three times a label.

use crate::base::key::KeyHash;
use crate::base::sync::Ordering;

use super::bits::{STRIKES_MAX, Tag, Word};
use super::line::Slot;
use super::{Home, Table};
use crate::base::word::State;

/// Of the denials of a key with some strikes, one in 2^(`STEP_BITS` * strikes) is the next strike.
const STEP_BITS: u32 = 4;

impl<S: State> Table<S> {
    /// Whether denials are counted.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) != 0 // K3
    }

    pub(super) fn press(&self) {
        // The line is read by every check and written only once.
        if !self.is_pressed() {
            self.pressed.store(1, Ordering::Relaxed); // K3
        }
    }
}

impl<S: State> Home<'_, S> {
    /// Counts a denial at `now` in the key's slot, if it has one.
    #[cold]
    pub(crate) fn strike(self, now: u64) {
        let lines = &self.table.lines;
        let place = lines.place(self.key);
        for candidate in 0..lines.candidates() {
            for slot in &lines.line(place, candidate).slots {
                let named = Tag(slot.tag.load(Ordering::Relaxed)).names(self.key); // K1
                // K4. A withdrawn claim leaves its label, perhaps in front of the key's slot.
                if named && !Word(slot.word.load(Ordering::Relaxed)).is_claimed() {
                    return slot.strike(self.key, now);
                }
            }
        }
    }
}

impl Slot {
    fn strike(&self, key: KeyHash, now: u64) {
        let tag = Tag(self.tag.load(Ordering::Relaxed)); // K1
        if tag.names(key) && counts(key, now, tag.strikes()) {
            // K2. It fails if another thread counted, or the slot was reused.
            let _ = self.tag.compare_exchange(
                tag.0,
                tag.struck().0,
                Ordering::Relaxed, // K2
                Ordering::Relaxed,
            );
        }
    }
}

/// Whether a denial at `now` is the next strike after `strikes`: a draw from the key's hash and the
/// time, so denials at one reading of the clock share one draw.
fn counts(key: KeyHash, now: u64, strikes: u32) -> bool {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    if strikes == STRIKES_MAX {
        return false;
    }
    let draw = (key.to_bits() ^ now).wrapping_mul(SPREAD);
    let draw = (draw ^ (draw >> 32)).wrapping_mul(SPREAD);
    strikes == 0 || draw >> (u64::BITS - STEP_BITS * strikes) == 0
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "strikes_tests.rs"]
mod tests;
