//! First looks at many keys, without a branch that depends on where a key lies.
//!
//! Whether a key is in its home line can not be predicted, and a wrong guess is found out only when
//! the line has come from memory. So a look finds a place by arithmetic, and the caller sorts keys
//! by what was found before it acts on any. A look proves nothing: [`Home::try_at`] does what
//! [`Home::update`] does with a slot, and tells if the slot is not the key's.

use core::ops::Range;

use crate::key::KeyHash;

use super::lines::{CANDIDATES, LIKELY, Line, SLOTS, Slot};
use super::{Home, Missed, State, Update, lines};

/// A slot that may be a key's.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'t>(pub(super) &'t Slot);

impl<'t, S: State> Home<'t, S> {
    /// A slot in the key's home line, and whether its tag names the key.
    #[inline]
    pub(crate) fn look(self) -> (Spot<'t>, bool) {
        self.line.look(self.key)
    }

    /// As [`Home::look`], in the likeliest of the key's other lines.
    #[inline]
    pub(crate) fn look_further(self) -> (Spot<'t>, bool) {
        let lines = &self.table.lines;
        let place = lines.place(self.key);
        let (mut spot, mut is_named) = (Spot(&self.line.slots[0]), false);
        for line in lines.likeliest(place, 1..LIKELY) {
            let (other, names) = line.look(self.key);
            spot = if names { other } else { spot };
            is_named |= names;
        }
        (spot, is_named)
    }

    /// [`Home::update`] in one step, if the slot is settled and the key's and nobody steps in between.
    #[expect(clippy::inline_always, reason = "a call hands the result over in memory, and stalls")]
    #[inline(always)]
    pub(crate) fn try_at(
        self,
        spot: Spot<'t>,
        now: u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<Update, Missed> {
        spot.0.try_update(self.key, now, decide)
    }

    /// [`Home::update`] for a key that looks did not find.
    pub(crate) fn update_unfound(
        self,
        now: u64,
        reread: impl Fn() -> u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        self.table.update_beyond(LIKELY, self.key, now, &reread, &decide)
    }

    /// Brings the lines of [`Home::look_further`] nearer.
    #[inline]
    pub(crate) fn prefetch_further(self) {
        self.prefetch(1..LIKELY);
    }

    /// Brings the lines nearer that no look has looked at.
    pub(crate) fn prefetch_rest(self) {
        self.prefetch(LIKELY..CANDIDATES);
    }

    #[inline]
    fn prefetch(self, likeliest: Range<usize>) {
        let lines = &self.table.lines;
        lines.likeliest(lines.place(self.key), likeliest).for_each(lines::prefetch);
    }
}

impl Line {
    /// The slot whose tag names `key` if there is exactly one, else any; and whether any does.
    #[inline]
    pub(super) fn look(&self, key: KeyHash) -> (Spot<'_>, bool) {
        let (mut index, mut is_named) = (0, false);
        for (number, slot) in self.slots.iter().enumerate() {
            let names = slot.hints_at(key);
            index |= number * usize::from(names);
            is_named |= names;
        }
        (Spot(&self.slots[index % SLOTS]), is_named)
    }
}
