//! The table: one word a key in cache lines of slots, shared without a lock.
//!
//! A key lives in at most one slot of at most [`CANDIDATES`](lines::CANDIDATES) lines. A value is
//! *live* until the time at which its [`State`] says the key is as good as new; from then on
//! another key may take the slot, because an expired word is exactly a fresh key. The table knows
//! nothing else about values: what they mean is the caller's `decide`.
//!
//! Values may go down again (a refund, a reset). A word that is back to what a thread read before
//! is then the same key in the same state, as long as the slot has not changed hands, so what the
//! thread decided still holds; the generation in the word tells whether it has.
//!
//! This file holds the path of a key that has its slot; `claim.rs` how a slot changes hands.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | U1 tag, first look (`named.rs` too) | relaxed | none: a hint, confirmed by U2 and U3 | - | - |
//! | U2 word | acquire | confirm (C6), U5 | an older label than the word's: a charge to the previous key | `word-relaxed` |
//! | U3 tag | acquire | label (C5), by the fence before it (C4) | U4 may miss the hand-over that wrote the tag | `tag-relaxed` |
//! | U4 word, second look | relaxed | ordered after U3 by its acquire; a label the load saw was written after the claim, so coherence shows the claim or later | - | `denial-without-second-look` |
//! | U5 word, charge | release | U2; as a read-modify-write it also continues the release sequence of C6 | a value that a changed quota made is read by the quota before it (`live`): a denial by neither; who lowers the word after a charge may miss that a lease entry was busy (`lease/entry.rs`, L7) | `live-charge-not-released`, `lease-charged-before-it-is-busy` |
//! | U6 word, listing and look | acquire | C6 | as U2: a value with the label before it | `listing-word-relaxed` |
//! | U7 tag, listing and look | acquire | as U3 | the second look, relaxed as U4, may miss the hand-over | `listing-tag-relaxed` |

mod bits;
mod claim;
mod lines;
mod look;
mod memory;
#[cfg(all(test, any(loom, interleave)))]
mod models;
mod named;
#[cfg(all(test, not(any(loom, interleave))))]
mod progress;
mod strikes;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

use crate::backoff::Backoff;
use crate::key::KeyHash;
use crate::overflow::{Counters, Event, OverflowCounts, OverflowPolicy};
use crate::sync::{AtomicU64, Ordering};

pub(crate) use bits::VALUE_BITS;
use bits::{Tag, Word};
use lines::{BLOCK, Line, Lines, MIN_LINES, SLOTS, Slot};
pub(crate) use look::Spot;

/// The share of slots that may be live before keys compete for places, as a fraction.
const FILL: (usize, usize) = (4, 5);

/// What a table has to know about the values of an algorithm.
pub trait State {
    /// The time from which a key with this value is exactly a fresh key. A fresh key's value, 0, is
    /// so at all times: this is 0 then.
    fn fresh_from(&self, value: u64) -> u64;

    /// Which of two live values gives way first: the one of which this is less, so it should be the one
    /// that is fresh first. At most the largest value.
    fn rank(&self, value: u64) -> u64 {
        value
    }
}

#[derive(Debug)]
pub struct Table<S> {
    lines: Lines,
    state: S,
    policy: OverflowPolicy,
    /// Not 0 once a claim has found the table crowded.
    pressed: AtomicU64,
    counters: Counters,
}

/// What [`Home::update`] did, with the `now` it decided at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The key's value was `before` (0: no live word) and has been replaced.
    Written { before: u64, now: u64 },
    /// The key's value was `found` (0: none) and was left so.
    Unchanged { found: u64, now: u64 },
    /// Every place the key may have belongs to a live key or is being claimed for one, the first of them
    /// until `fresh_from`, and the policy is not to evict: the key is `admitted` without a trace, or not.
    Full { fresh_from: u64, now: u64, admitted: bool },
}

impl<S: State> Table<S> {
    /// A table in which `keys` live keys fit at the intended fill; `None` when the memory is not
    /// to be had.
    pub(crate) fn new(keys: usize, state: S) -> Option<Self> {
        let slots = keys.checked_mul(FILL.1)?.div_ceil(FILL.0);
        Self::with_lines(slots.div_ceil(SLOTS).next_multiple_of(BLOCK).max(MIN_LINES), state)
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

    /// The table with another policy than the default one.
    pub(crate) fn with_policy(self, policy: OverflowPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Where to begin with a key.
    #[inline]
    pub(crate) fn home(&self, key: KeyHash) -> Home<'_, S> {
        Home { table: self, key, line: self.lines.home(key) }
    }

    /// Every settled slot's key and value, each read at its own moment.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (KeyHash, u64)> + '_ {
        self.lines.all().iter().enumerate().flat_map(move |(index, line)| {
            line.slots.iter().filter_map(move |slot| {
                let (tag, value) = slot.settled(|tag| tag.key_tag() != 0)?;
                let key = self.lines.key_at(index, tag.key_tag(), tag.candidate())?;
                Some((key, value))
            })
        })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.lines.all().len() * SLOTS * FILL.0 / FILL.1
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(self.lines.all())
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

/// A key in a table, not looked at yet.
pub(crate) struct Home<'t, S> {
    table: &'t Table<S>,
    key: KeyHash,
    line: &'t Line,
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
    /// leaves it. A key without a live word has the value 0. `decide` may be called several
    /// times; the last call is the one that counts.
    ///
    /// A key that has no slot yet is decided at the later of `now` and `reread()`, so that a
    /// thread that was delayed can not treat a key as fresh at a time when it was not.
    #[inline]
    pub(crate) fn update(
        self,
        now: u64,
        reread: impl Fn() -> u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        match self.try_at_home::<true>(now, &decide) {
            Ok(update) => update,
            Err(missed) => self.update_after(missed, now, reread, decide),
        }
    }

    /// [`Home::update`] in one step, if the key is in its home line and nobody steps in between; else
    /// [`Home::update_after`] goes on.
    ///
    /// In two parts, so that a check which meets nobody carries nothing of a loop along. `PREDICTED` is how the
    /// slot is found.
    #[inline]
    pub(crate) fn try_at_home<const PREDICTED: bool>(
        self,
        now: u64,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<Update, Missed> {
        // Branches cost nothing where one key is asked for again and again; arithmetic costs a little more,
        // and is never mispredicted.
        let slot =
            if PREDICTED { self.line.find(self.key) } else { Some(self.line.look(self.key).0.0) };
        slot.ok_or(Missed::Elsewhere)?.try_update(self.key, now, &decide)
    }

    /// The key's value, if it is settled in its home line and nobody steps in between.
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
        if missed == Missed::Contended {
            let backoff = Backoff::new().pause();
            let slot = self.line.find(self.key);
            if let Some(update) = slot.and_then(|slot| slot.update(self.key, now, backoff, &decide))
            {
                return update;
            }
        }
        self.table.update_beyond(1, self.key, now, &reread, &decide)
    }
}

/// Why a slot was not updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It is not settled, or not the key's.
    Elsewhere,
    /// Another thread has changed its word meanwhile.
    Contended,
}

impl Line {
    /// The first slot whose tag names `key`.
    #[inline]
    fn find(&self, key: KeyHash) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.hints_at(key))
    }
}

impl Slot {
    /// Whether the tag names `key` at a first look, which proves nothing.
    #[inline]
    fn hints_at(&self, key: KeyHash) -> bool {
        Tag(self.tag.load(Ordering::Relaxed)).names(key)
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

    /// Updates the slot, if it is settled and belongs to `key` and nobody else changes it meanwhile.
    #[expect(clippy::inline_always, reason = "a call hands the result over in memory, and stalls")]
    #[inline(always)]
    fn try_update(
        &self,
        key: KeyHash,
        now: u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<Update, Missed> {
        let word = Word(self.word.load(Ordering::Acquire));
        if word.is_claimed() {
            return Err(Missed::Elsewhere);
        }
        let tag = Tag(self.tag.load(Ordering::Acquire));
        if !tag.names(key) {
            return Err(Missed::Elsewhere);
        }
        let before = word.value();
        let Some(value) = decide(before, now) else {
            // An unchanged word is proof that the tag was its own.
            let is_unchanged = self.word.load(Ordering::Relaxed) == word.0;
            return if is_unchanged {
                Ok(Update::Unchanged { found: before, now })
            } else {
                Err(Missed::Contended)
            };
        };
        let new = word.with_value(value);
        match self.word.compare_exchange(word.0, new.0, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(Update::Written { before, now }),
            Err(_) => Err(Missed::Contended),
        }
    }

    /// The tag and value of a slot that is settled, if the tag is wanted.
    #[inline]
    fn settled(&self, is_wanted: impl Fn(Tag) -> bool) -> Option<(Tag, u64)> {
        let word = Word(self.word.load(Ordering::Acquire));
        let tag = Tag(self.tag.load(Ordering::Acquire));
        let whole =
            !word.is_claimed() && is_wanted(tag) && self.word.load(Ordering::Relaxed) == word.0;
        whole.then(|| (tag, word.value()))
    }
}
