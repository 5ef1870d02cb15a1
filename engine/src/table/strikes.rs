//! Which key gives way: the one that was denied least, then the one with the least debt.
//!
//! Least debt alone does not protect a key that is being limited: keys that are sprayed at the cost
//! of a whole burst owe more than it does. What tells it from them is that it comes back. So a
//! slot's tag counts denials of its key as *strikes*, and slots without strikes are evicted first.
//! The first denial counts; from then on one in 16, then one in 256, so that three strikes take
//! some hundred denials, and sprayed keys have to be denied about as often as the key they replace.
//!
//! Strikes are counted only in a table that is *pressed*: some claim found it crowded. A denial then
//! writes to its slot at most three times a key's life there, and nothing before; denied traffic
//! goes on without writing to what others read.
//!
//! A table stays pressed. What that costs is a look for the slot in each denial, mostly in the line that
//! the check has just read, and a draw. To clear it would take somebody who knows that no claim will find
//! the table crowded soon; keys that were denied while it was clear would be the first to give way in
//! the next spray, which is what strikes are for.
//!
//! A claim that was withdrawn after its label leaves the label behind until somebody claims the slot. If it
//! lies in front of the key's own slot, checks of the key take the longer way through all its lines, and
//! strikes pass it by.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | K1 tag, any look | relaxed | none: K2 fails if the tag has changed | - | - |
//! | K2 tag, strike | relaxed | none: a strike guards nothing, and a read-modify-write continues the release sequence by which a label reaches U3 and C5 | - | `strike-stored` |
//! | K3 pressed | relaxed | none: a denial that sees it late is not counted | - | - |
//! | K4 word, any look | relaxed | none: a hint; a strike of a label that was left behind is lost | - | - |
//!
//! K2 is a compare-and-swap from a label that names the key, so it can not undo or outrun a later
//! label: either the label comes first, and K2 fails, or it comes second, finds the tag changed
//! (C5) and is written over the strike. That retry happens at most three times a label.

use crate::key::KeyHash;
use crate::sync::Ordering;

use super::bits::{STRIKES_MAX, Tag, Word};
use super::lines::Slot;
use super::{Home, State, Table};

/// Of denials at so many strikes, one in 2^(`STEP_BITS` * strikes) is the next strike.
const STEP_BITS: u32 = 4;

impl<S: State> Table<S> {
    /// Whether denials are to be counted.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) != 0
    }

    pub(super) fn press(&self) {
        // The line is read by every check and written only once.
        if !self.is_pressed() {
            self.pressed.store(1, Ordering::Relaxed);
        }
    }
}

impl<S: State> Home<'_, S> {
    /// Counts a denial at `now` with the key, if it has a place.
    #[cold]
    pub(crate) fn strike(self, now: u64) {
        let lines = &self.table.lines;
        let place = lines.place(self.key);
        for candidate in 0..lines.candidates() {
            for slot in &lines.line(place, candidate).slots {
                let named = Tag(slot.tag.load(Ordering::Relaxed)).names(self.key);
                // A claim that was withdrawn leaves its label, perhaps in front of the key's slot.
                if named && !Word(slot.word.load(Ordering::Relaxed)).is_claimed() {
                    return slot.strike(self.key, now);
                }
            }
        }
    }
}

impl Slot {
    fn strike(&self, key: KeyHash, now: u64) {
        let tag = Tag(self.tag.load(Ordering::Relaxed));
        if tag.names(key) && counts(key, now, tag.strikes()) {
            // Failure means that somebody else counted, or that the slot changed hands.
            let _ = self.tag.compare_exchange(
                tag.0,
                tag.struck().0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

/// Whether a denial at `now` is the next strike after `strikes`: a draw that follows from the key's
/// hash and the time, so denials at one reading of the clock share one draw.
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
