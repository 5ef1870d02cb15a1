//! Lookups without a branch that depends on where a key is.
//!
//! Where a key is cannot be predicted, and a misprediction shows only when the line has come from
//! memory. So a probe finds a slot by arithmetic, and a batch sorts its keys by what was found
//! before it acts on any. The result is a hint and proves nothing: [`Home::try_at`] does what
//! [`Home::update`] does with a slot, and fails if the slot is not the key's.

use crate::base::key::KeyHash;

use super::bits::Word;
use super::line::{CacheLine, SLOTS, Slot};
use super::lines::{CANDIDATES, LIKELIEST, LIKELY, Lines, Placement};
use super::{Home, Missed, Table, lines};
use crate::base::word::{State, Update};

/// A slot that may belong to a key.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'t>(pub(super) &'t Slot);

impl<'t, S: State> Home<'t, S> {
    /// A slot in the key's home line, and whether its tag seems to name the key.
    #[inline]
    pub(crate) fn probe(self) -> (Spot<'t>, bool) {
        self.line.probe(self.key)
    }

    /// As [`Home::probe`], in the likeliest of the key's other lines.
    #[inline]
    pub(crate) fn probe_further(self) -> (Spot<'t>, bool) {
        let lines = &self.table.lines;
        let slot = lines.probe::<1, LIKELY>(lines.place(self.key), self.key);
        (Spot(slot.unwrap_or(&self.line.slots[0])), slot.is_some())
    }

    /// One attempt at [`Home::update`] in a slot; it fails unless the slot is settled and the
    /// key's.
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

    /// [`Home::update`] for a key that neither probe found.
    pub(crate) fn update_unfound(
        self,
        now: u64,
        reread: impl Fn() -> u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        #[cfg(debug_assertions)]
        let (reread, decide): (super::Reread<'_>, super::Decide<'_>) = (&reread, &decide);
        self.table.update_beyond(LIKELY, self.key, now, &reread, &decide)
    }

    /// Prefetches the line of [`Home::probe`].
    #[inline]
    pub(crate) fn prefetch(self) {
        lines::prefetch(self.line);
    }

    /// Prefetches the lines of [`Home::probe_further`].
    #[inline]
    pub(crate) fn prefetch_further(self) {
        let lines = &self.table.lines;
        lines
            .likeliest(lines.place(self.key), 1..LIKELY)
            .for_each(|(_, line)| lines::prefetch(line));
    }

    /// Prefetches all lines of the key.
    pub(crate) fn prefetch_all(self) {
        let lines = &self.table.lines;
        lines.prefetch(lines.place(self.key));
    }
}

impl<S: State> Table<S> {
    /// A slot that seems to name `key`, in lines beyond the `probed` likeliest, which have been
    /// probed.
    ///
    /// The least likely lines are skipped if there is room at home: the key is new then, most
    /// likely, and a scan can start while lines still come. If all likely lines have been probed,
    /// the others are too.
    #[inline]
    pub(super) fn probe_beyond(
        &self,
        probed: usize,
        place: Placement,
        key: KeyHash,
        now: u64,
    ) -> Option<&Slot> {
        if probed < LIKELY {
            let slot = self.lines.probe::<1, LIKELY>(place, key);
            if slot.is_some() || self.has_room_at_home(key, now) {
                return slot;
            }
        }
        self.lines.probe::<LIKELY, CANDIDATES>(place, key)
    }

    /// A hint; models leave it out: fewer orders to explore.
    #[inline]
    fn has_room_at_home(&self, key: KeyHash, now: u64) -> bool {
        let is_room = |word: Word| {
            word.is_free() || !word.is_claimed() && self.state.fresh_from(word.value()) <= now
        };
        !cfg!(any(loom, interleave))
            && self.lines.home(key).seen().iter().any(|seen| is_room(seen.word))
    }
}

impl Lines {
    /// A slot that seems to name `key`, in the lines `FROM..TO` of [`LIKELIEST`].
    #[inline]
    pub(super) fn probe<const FROM: usize, const TO: usize>(
        &self,
        place: Placement,
        key: KeyHash,
    ) -> Option<&Slot> {
        let named = self
            .likeliest(place, FROM..TO)
            .fold(0, |named, (likely, line)| named | line.named(key) << ((likely - FROM) * SLOTS));
        let index = (named != 0).then(|| named.trailing_zeros() as usize)?;
        let line = self.line(place, LIKELIEST[FROM + index / SLOTS]);
        Some(&line.slots[index % SLOTS])
    }
}

impl CacheLine {
    /// A slot that seems to name `key`, or else any slot; and whether one does.
    #[inline]
    pub(super) fn probe(&self, key: KeyHash) -> (Spot<'_>, bool) {
        let named = self.named(key);
        // Without a match, the last slot.
        let index = (named | 1 << (SLOTS - 1)).trailing_zeros() as usize;
        (Spot(&self.slots[index % SLOTS]), named != 0)
    }
}

// `Lines::probe` has a bit for each slot.
const _: () = assert!((LIKELY - 1) * SLOTS <= u32::BITS as usize);
const _: () = assert!((CANDIDATES - LIKELY) * SLOTS <= u32::BITS as usize);
