//! The table: one word a key in cache lines of slots, shared without a lock.
//!
//! A key has at most one slot, in one of at most [`CANDIDATES`](lines::CANDIDATES) lines. A value
//! is *live* until its [`State`] counts the key as fresh; from then on it is *expired* and another
//! key may reuse the slot, because an expired word is exactly a fresh key. The table knows nothing
//! else about values: their meaning is the caller's `decide`.
//!
//! Values may decrease (refund, reset). A word that is back at what a thread read before is the
//! same key in the same state, so the thread's decision still holds, unless the slot has been
//! reused in between (ABA); the generation in the word rules that out.
//!
//! This file is the path of a key that has its slot; `claim.rs` is slot reuse.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | U1 tag, probe (`named.rs` too) | relaxed | none: a hint, confirmed by U2 and U3 | - | - |
//! | U2 word | acquire | confirm (C6), U5 | a label older than the word: a charge to the previous key | `word-relaxed` |
//! | U3 tag | acquire | label (C5), by the fence before it (C4) | U4 may miss the claim that wrote the tag | `tag-relaxed` |
//! | U4 word, re-read | relaxed | ordered after U3 by its acquire; a label the load saw was written after the claim, so coherence shows the claim or later | - | `denial-without-second-read` |
//! | U5 word, charge | release | U2; as a read-modify-write it also continues the release sequence of C6 | a value made by a changed quota is read under the quota before it (`live`): a denial by neither; a thread that lowers the word after a charge may miss that a lease entry was busy (`limiter/lease/entry.rs`, L7) | `live-charge-not-released`, `lease-charged-before-it-is-busy` |
//! | U6 word, listing and lookup | acquire | C6 | as U2: a value with the label before it | `listing-word-relaxed` |
//! | U7 tag, listing and lookup | acquire | as U3 | the re-read of the word, relaxed as U4, may miss the claim | `listing-tag-relaxed` |

pub(crate) mod answer;
mod bits;
mod claim;
#[cfg(feature = "std")]
mod convert;
mod homes;
mod line;
mod lines;
mod memory;
#[cfg(all(test, any(loom, interleave)))]
mod models;
mod named;
pub(crate) mod overflow;
mod probe;
#[cfg(all(test, not(any(loom, interleave))))]
mod progress;
mod strikes;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

use crate::base::backoff::Backoff;
use crate::base::key::KeyHash;
use crate::base::sync::{AtomicU64, Ordering};
use crate::base::word::{State, Update};
use crate::table::overflow::{Counters, Event, OverflowCounts, OverflowPolicy};

use bits::{Tag, Word};
use homes::{COSTLY_LINES, WHOLE_KEY_LINES};
use line::{CacheLine, SLOTS, Slot};
use lines::{BLOCK, Lines};
pub(crate) use probe::Spot;

/// The share of slots that may be live before keys compete for slots, as a fraction.
const FILL: (usize, usize) = (4, 5);

/// The lines of a part of a table: 256 slots.
const PART_LINES: usize = 256 / SLOTS;

#[derive(Debug)]
pub struct Table<S> {
    lines: Lines,
    state: S,
    policy: OverflowPolicy,
    /// Not 0 after a claim has found the table crowded.
    pressed: AtomicU64,
    counters: Counters,
}

impl<S: State> Table<S> {
    /// A table in which `keys` live keys fit at the intended fill; `None` when the memory cannot be
    /// allocated.
    pub(crate) fn new(keys: usize, state: S) -> Option<Self> {
        let slots = keys.checked_mul(FILL.1)?.div_ceil(FILL.0);
        let lines = match slots.div_ceil(SLOTS).next_multiple_of(BLOCK) {
            // More room in less memory.
            COSTLY_LINES..WHOLE_KEY_LINES => WHOLE_KEY_LINES,
            lines => lines,
        };
        Self::with_lines(lines, state)
    }

    /// A table of exactly `count` lines: one, two, or whole blocks.
    pub(crate) fn with_lines(count: usize, state: S) -> Option<Self> {
        Some(Self {
            lines: Lines::new(count)?,
            state,
            policy: OverflowPolicy::default(),
            pressed: AtomicU64::new(0),
            counters: Counters::new(),
        })
    }

    /// Replaces the default policy.
    pub(crate) fn with_policy(self, policy: OverflowPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The entry point for operations on a key.
    #[inline]
    pub(crate) fn home(&self, key: KeyHash) -> Home<'_, S> {
        Home { table: self, key, line: self.lines.home(key) }
    }

    /// Key and value of every settled slot, each read at its own moment.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (KeyHash, u64)> + '_ {
        let slots = self.lines.all().iter().flat_map(|line| &line.slots);
        slots.enumerate().filter_map(|(index, slot)| {
            let (tag, value) = slot.settled(|tag| tag.key_tag() != 0)?;
            Some((self.lines.key_at(index, tag)?, value))
        })
    }

    /// How many parts [`Table::entries_of_part`] knows.
    pub(crate) fn parts(&self) -> usize {
        self.lines.all().len().div_ceil(PART_LINES)
    }

    /// The entries in one part of the slots; none behind the last part. A key stays in its slot, so
    /// also in its part, as long as it has one.
    pub(crate) fn entries_of_part(&self, part: usize) -> impl Iterator<Item = (KeyHash, u64)> + '_ {
        let first = part.saturating_mul(PART_LINES);
        let lines = self.lines.all().iter().enumerate().skip(first).take(PART_LINES);
        lines.flat_map(move |(line, of)| {
            of.slots.iter().enumerate().filter_map(move |(slot, word)| {
                let (tag, value) = word.settled(|tag| tag.key_tag() != 0)?;
                Some((self.lines.key_at(line * SLOTS + slot, tag)?, value))
            })
        })
    }

    /// How many keys are live at `now`: counted in at most `lines` lines, and scaled to all.
    pub(crate) fn live_keys(&self, lines: usize, now: u64) -> usize {
        let all = self.lines.all();
        let seen = &all[..lines.min(all.len())];
        let slots = seen.iter().flat_map(|line| &line.slots);
        let values = slots.filter_map(|slot| slot.settled(|tag| tag.key_tag() != 0));
        let live = values.filter(|(_, value)| self.state.fresh_from(*value) > now).count();
        live * all.len() / seen.len().max(1)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.lines.all().len() * SLOTS * FILL.0 / FILL.1
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes()
    }

    pub(crate) fn policy(&self) -> OverflowPolicy {
        self.policy
    }

    pub(crate) fn count(&self, event: Event) {
        self.counters.count(event);
    }

    pub(crate) fn counts(&self) -> OverflowCounts {
        self.counters.counts()
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.counters.sum(Event::Evicted)
    }
}

/// In debug builds, tests among them, the table calls its closures dynamically, and its loops are
/// compiled once for each [`State`]; in release builds they are compiled for each caller.
#[cfg(debug_assertions)]
pub(crate) type Decide<'d> = &'d dyn Fn(u64, u64) -> Option<u64>;
#[cfg(debug_assertions)]
pub(crate) type Reread<'r> = &'r dyn Fn() -> u64;

/// A key and its home line, not read yet.
pub(crate) struct Home<'t, S> {
    table: &'t Table<S>,
    key: KeyHash,
    line: &'t CacheLine,
}

impl<S> Clone for Home<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Home<'_, S> {}

impl<S: State> Home<'_, S> {
    #[inline]
    pub(crate) fn key(self) -> KeyHash {
        self.key
    }

    /// Replaces the key's value by what `decide(value, now)` returns, in one atomic step; `None`
    /// leaves it. A key without a live word has the value 0. `decide` may be called several times;
    /// the last call counts.
    ///
    /// A key that has no slot is decided at the later of `now` and `reread()`, so that a delayed
    /// thread cannot treat a key as fresh at a time when it was not.
    #[inline]
    pub(crate) fn update(
        self,
        now: u64,
        reread: impl Fn() -> u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        #[cfg(debug_assertions)]
        let (reread, decide): (Reread<'_>, Decide<'_>) = (&reread, &decide);
        match self.try_at_home::<true>(now, &decide) {
            Ok(update) => update,
            Err(missed) => self.update_after(missed, now, reread, decide),
        }
    }

    /// One attempt at [`Home::update`] in the key's home line; if it fails, [`Home::update_after`]
    /// does the rest.
    ///
    /// In two parts, so that an uncontended check carries no state of a loop. `PREDICTED` chooses
    /// how the slot is found.
    #[inline]
    pub(crate) fn try_at_home<const PREDICTED: bool>(
        self,
        now: u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<Update, Missed> {
        // Branches are cheapest where one key is checked again and again; arithmetic costs a little
        // more and is never mispredicted.
        let slot =
            if PREDICTED { self.line.find(self.key) } else { Some(self.line.probe(self.key).0.0) };
        slot.ok_or(Missed::Elsewhere)?.try_update(self.key, now, &decide)
    }

    /// The key's value, if it is settled in its home line and unchanged while it is read.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn value(self) -> Option<u64> {
        let mut slots = self.line.slots.iter();
        slots.find_map(|slot| slot.settled(|tag| tag.names(self.key))).map(|(_, value)| value)
    }

    /// [`Home::update`] for a key that was missed in its home line.
    pub(crate) fn update_after(
        self,
        missed: Missed,
        now: u64,
        reread: impl Fn() -> u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        #[cfg(debug_assertions)]
        let (reread, decide): (Reread<'_>, Decide<'_>) = (&reread, &decide);
        self.update_missed(missed, now, &reread, &decide)
    }

    #[inline]
    fn update_missed(
        self,
        missed: Missed,
        now: u64,
        reread: &impl Fn() -> u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        if missed == Missed::Contended {
            let backoff = Backoff::new().pause();
            let slot = self.line.find(self.key);
            if let Some(update) = slot.and_then(|slot| slot.update(self.key, now, backoff, decide))
            {
                return update;
            }
        }
        self.table.update_beyond(1, self.key, now, reread, decide)
    }
}

/// Why a slot was not updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It is not settled, or not the key's.
    Elsewhere,
    /// Another thread changed its word at the same time.
    Contended,
}

impl CacheLine {
    /// The first slot whose tag names `key`.
    #[inline]
    fn find(&self, key: KeyHash) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.hints_at(key))
    }
}

impl Slot {
    /// Whether the tag names `key`. A hint, which proves nothing.
    #[inline]
    fn hints_at(&self, key: KeyHash) -> bool {
        Tag(self.tag.load(Ordering::Relaxed)).names(key) // U1
    }

    /// Updates the slot if it is settled and belongs to `key`; `None` if not.
    #[expect(clippy::inline_always, reason = "a call hands the result over in memory, and stalls")]
    #[inline(always)]
    fn update(
        &self,
        key: KeyHash,
        now: u64,
        mut backoff: Backoff,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<Update> {
        loop {
            match self.try_update(key, now, decide) {
                Ok(update) => return Some(update),
                Err(Missed::Elsewhere) => return None,
                Err(Missed::Contended) => backoff = backoff.pause(),
            }
        }
    }

    /// One attempt to update the slot, if it is settled and belongs to `key`.
    #[expect(clippy::inline_always, reason = "a call hands the result over in memory, and stalls")]
    #[inline(always)]
    fn try_update(
        &self,
        key: KeyHash,
        now: u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<Update, Missed> {
        let word = Word(self.word.load(Ordering::Acquire)); // U2
        if word.is_claimed() {
            return Err(Missed::Elsewhere);
        }
        let tag = Tag(self.tag.load(Ordering::Acquire)); // U3
        if !tag.names(key) {
            return Err(Missed::Elsewhere);
        }
        let before = word.value();
        let Some(value) = decide(before, now) else {
            // An unchanged word proves that the tag belongs to it.
            let is_unchanged = self.word.load(Ordering::Relaxed) == word.0; // U4
            return if is_unchanged {
                Ok(Update::Unchanged { found: before, now })
            } else {
                Err(Missed::Contended)
            };
        };
        let new = word.with_value(value);
        // U5
        match self.word.compare_exchange(word.0, new.0, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(Update::Written { before, now }),
            Err(_) => Err(Missed::Contended),
        }
    }

    /// Tag and value of the slot, if it is settled and its tag is wanted.
    #[inline]
    fn settled(&self, is_wanted: impl Fn(Tag) -> bool) -> Option<(Tag, u64)> {
        let word = Word(self.word.load(Ordering::Acquire)); // U6
        let tag = Tag(self.tag.load(Ordering::Acquire)); // U7
        let whole =
            // U4
            !word.is_claimed() && is_wanted(tag) && self.word.load(Ordering::Relaxed) == word.0;
        whole.then(|| (tag, word.value()))
    }
}
