//! Lock-free slot reuse.
//!
//! A key without a slot *claims* one: it publishes a descriptor, the *intent*, which names the key
//! in place of the word; scans all slots the key may have for other intents of it (*resolve*);
//! writes the tag, and in a small table the home bits (*label*); and replaces the intent by the
//! value (*confirm*, the commit). A claim is aborted by *withdrawing* its intent. A thread that
//! meets an intent of its own key helps it to completion (*joins* it), so no thread waits for
//! another; an intent of another key is passed by, or its slot is stolen (*taken over*) when no
//! other slot is left.
//!
//! Of two intents of one key the one in the earlier slot survives, in the key's own order of lines
//! and slots. The loser's word becomes free in the same generation, never what it was before. Each
//! claim begins a new generation, which is part of the intent, the label and (its low bits) the
//! settled word, so a delayed step of an earlier claim fails. A tag newer than the word read before
//! it is harmless: every step ends in a compare-and-swap or a re-read of the word, and both fail.
//!
//! # Lock-freedom
//! Suppose that threads take steps for ever, and from some time on no call ends. Then no word is
//! settled or charged, so claims of settled words end, and so do the retries of a charge, which
//! only follow another's charge; of a label, whose slot counts a bounded number of strikes; and of
//! a full table, which last until the clock has passed what was found live. Steals end too: one
//! call makes at most as many as its key has slots.
//!
//! Withdrawals and claims of free slots are left. A thread that withdraws either met its key
//! settled, and will be decided by that, or met an earlier intent of its key. Take a key whose
//! intents come up again and again, and the earliest slot where they do, or where one stays for
//! good: nothing ends the next intent there, all threads of the key join it, and one confirms it
//! after all.
//!
//! Each steal of a call begins one slot further. So where intents occupy all slots, a call tries
//! each once, and is outrun only if it lost each to another call that came later. (Where live keys
//! are among them, a call that has used up its steals evicts one of those, or finds the table
//! full.) A call holds one slot at a time: then more calls are in the middle of a claim than there
//! are slots, and one of them gets none. It counts as charged and evicted at once, by those that
//! were faster; where live keys are not evicted, as one that found all slots live.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | C1 word, any scan | acquire | confirm (C6) | a word is paired with an older tag: a key evicts or overlooks its own slot | `scan-word-relaxed` |
//! | C2 tag, any scan | relaxed | none: at least as new as the word by C1; if newer, the step it leads to fails | - | - |
//! | C3 word, claim | release | C1 | a thread that finds its key gone may read an older value of a clock in a shared word than the claimer did. No model shows it: loom never moves a load behind a later store. The fence (C4) orders the claim before the scan of the other slots | none |
//! | C4 fence | sequentially consistent | the same fence of another claimer; as a release fence it also orders C3 before C5 | both scan before either has published: two live words | `fence-acquire-release`, `no-fence` |
//! | C5 tag, home bits, label | relaxed | U3 and C9, by C4 | - | - |
//! | C6 word, confirm | release | U2, C1 | a settled word whose label is not visible | `confirm-relaxed` |
//! | C7 word, withdraw | relaxed | none: a free slot says nothing about its tag | - | - |
//! | C8 word, second look before the label | relaxed | ordered after C9 by its acquire | - | `label-without-second-read` |
//! | C9 tag, home bits, read before the label | acquire | C5 of others, by C4 | a claim whose slot was stolen labels the next owner's slot | `label-load-relaxed` |

mod met;
mod vacancy;

use crate::base::backoff::Backoff;
use crate::base::key::KeyHash;
use crate::base::sync::{AtomicU64, Ordering, fence};

use super::Table;
use super::bits::{HomeBits, Tag, Word};
use super::line::{CacheLine, SLOTS, Slot};
use super::lines::{BLOCK, Placement};
use crate::base::word::{State, Update};
use crate::table::overflow::{Event, OverflowPolicy};
use met::Met;
use vacancy::{Vacancy, VacancyChoice};

/// What a scan of all slots a key may have found.
pub(super) enum Scan<'t> {
    /// The key's own settled slot.
    Found(&'t Slot),
    /// No settled slot of the key.
    Absent(Absent<'t>),
}

#[derive(Default)]
pub(super) struct Absent<'t> {
    /// The earliest intent of this key.
    joinable: Option<Met<'t>>,
    /// An expired or free slot ([`vacancy`]).
    vacant: Option<Met<'t>>,
    /// There is an intent of another key.
    is_contested: bool,
    /// The live slot to evict: of those whose keys were denied least, the one with the least rank,
    /// which is nearest to fresh.
    least: Option<Met<'t>>,
    /// No block has more than one vacancy.
    crowded: bool,
}

/// The result of an attempt to claim a slot.
pub(super) enum Claim<'t> {
    /// There is an intent of the key.
    Intent(Met<'t>),
    /// The slot has changed; scan again.
    Lost,
    /// All slots are live and the policy is not to evict; the first expires at `fresh_from`.
    Full { fresh_from: u64 },
    /// All slots are being claimed for other keys, and each steal failed.
    Outrun,
}

impl<S: State> Table<S> {
    /// [`Home::update`](super::Home::update) for a key that was not found in its `probed`
    /// likeliest lines.
    #[inline(never)]
    pub(super) fn update_beyond(
        &self,
        probed: usize,
        key: KeyHash,
        mut now: u64,
        reread: &impl Fn() -> u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        let place = self.lines.place(key);
        // A new key needs all lines: this waits for memory once.
        self.lines.prefetch(place);
        // A key that has a slot needs no scan, unless the hint is wrong.
        if let Some(slot) = self.probe_beyond(probed, place, key, now) {
            if let Some(update) = slot.update(key, now, Backoff::new(), decide) {
                return update;
            }
        }
        let mut takeovers = 0;
        loop {
            let absent = match self.scan(key, place, now) {
                Scan::Found(slot) => match slot.update(key, now, Backoff::new(), decide) {
                    Some(update) => return update,
                    None => continue,
                },
                Scan::Absent(absent) => absent,
            };
            // Fresh and denied, or only read: no slot is needed.
            if decide(0, now).is_none() {
                return Update::Unchanged { found: 0, now };
            }
            match self.claim(key, &absent, &mut takeovers) {
                Claim::Intent(claim) => {
                    if let Some(update) = self.settle(key, place, claim, now, reread, decide) {
                        return update;
                    }
                }
                Claim::Lost => {}
                Claim::Full { fresh_from } => {
                    // The thread may have been delayed, and the slot have expired.
                    now = now.max(reread());
                    if fresh_from > now {
                        let admitted = self.policy == OverflowPolicy::Allow;
                        return Update::Full { fresh_from, now, admitted };
                    }
                }
                Claim::Outrun => return self.give_way(now.max(reread()), decide),
            }
        }
    }

    pub(super) fn scan(&self, key: KeyHash, place: Placement, now: u64) -> Scan<'_> {
        let (mut absent, mut vacancies) = (Absent::default(), VacancyChoice::default());
        let mut least_rank = u64::MAX;
        for candidate in 0..self.lines.candidates() {
            if candidate % BLOCK == 0 {
                vacancies.begin_block(candidate / BLOCK);
            }
            let line = self.lines.line(place, candidate);
            let seen = line.seen();
            if vacancies.is_enough && are_quiet(&seen, key) {
                continue;
            }
            for (slot, Seen { word, tag }) in line.slots.iter().zip(seen) {
                if word.is_claimed() {
                    let next = word.generation().next();
                    let met = Met { slot, candidate, word, generation: next };
                    if word.is_free() {
                        vacancies.add(Vacancy { met, since: 0 });
                    } else if word.is_intent_of(key) {
                        let joined = Met { generation: word.generation(), ..met };
                        absent.joinable = absent.joinable.or(Some(joined));
                    } else {
                        absent.is_contested = true;
                    }
                    continue;
                }
                if tag.names(key) {
                    return Scan::Found(slot);
                }
                if vacancies.is_enough {
                    continue;
                }
                let met = Met { slot, candidate, word, generation: tag.generation().next() };
                let fresh_from = self.state.fresh_from(word.value());
                if fresh_from <= now {
                    vacancies.add(Vacancy { met, since: fresh_from });
                    continue;
                }
                let rank = tag.rank(self.state.rank(word.value()));
                if rank < least_rank {
                    least_rank = rank;
                    absent.least = Some(met);
                }
            }
        }
        vacancies.end_block();
        absent.crowded = vacancies.emptiest.count <= 1;
        absent.vacant = vacancies.emptiest.best.map(|best| best.met);
        Scan::Absent(absent)
    }

    /// Publishes an intent in the best slot, or joins the one there is.
    pub(super) fn claim<'t>(
        &'t self,
        key: KeyHash,
        absent: &Absent<'t>,
        takeovers: &mut usize,
    ) -> Claim<'t> {
        if let Some(joined) = absent.joinable {
            return Claim::Intent(joined);
        }
        if absent.crowded {
            self.press();
        }
        let (met, is_live) = match absent.vacant {
            Some(vacant) => (vacant, false),
            // A stalled thread's intent must not cost a slot for ever, nor may threads steal from
            // each other for ever.
            None if absent.is_contested && *takeovers < self.lines.candidates() * SLOTS => {
                *takeovers += 1;
                match self.foreign_from(*takeovers - 1, key) {
                    Some(foreign) => (foreign, false),
                    None => return Claim::Lost,
                }
            }
            None => match absent.least {
                Some(least) if self.policy == OverflowPolicy::EvictLeastDebt => (least, true),
                Some(least) => {
                    return Claim::Full { fresh_from: self.state.fresh_from(least.word.value()) };
                }
                None => return Claim::Outrun,
            },
        };

        let intent = Word::intent(key, met.generation);
        if met
            .slot
            .word
            .compare_exchange(met.word.0, intent.0, Ordering::Release, Ordering::Relaxed) // C3
            .is_err()
        {
            return Claim::Lost;
        }
        if is_live {
            self.counters.count(Event::Evicted);
        }
        Claim::Intent(Met { word: intent, ..met })
    }

    /// The first intent of another key, in the order of this key's slots from number `first` on,
    /// cyclically.
    #[cold]
    fn foreign_from(&self, first: usize, key: KeyHash) -> Option<Met<'_>> {
        let place = self.lines.place(key);
        let places = self.lines.candidates() * SLOTS;
        (first..places).chain(0..first).find_map(|index| {
            let candidate = index / SLOTS;
            let slot = &self.lines.line(place, candidate).slots[index % SLOTS];
            let word = slot.seen().word;
            let is_foreign = word.is_claimed() && !word.is_free() && !word.is_intent_of(key);
            is_foreign.then(|| Met { slot, candidate, word, generation: word.generation().next() })
        })
    }

    /// Decides for a key that is outrun by claims of other keys, which get its slots.
    #[cold]
    fn give_way(&self, now: u64, decide: &impl Fn(u64, u64) -> Option<u64>) -> Update {
        if decide(0, now).is_none() {
            return Update::Unchanged { found: 0, now };
        }
        if self.policy == OverflowPolicy::EvictLeastDebt {
            self.counters.count(Event::Evicted);
            return Update::Written { before: 0, now };
        }
        // How long the claims take is unknown; they may end at once.
        let admitted = self.policy == OverflowPolicy::Allow;
        Update::Full { fresh_from: now + 1, now, admitted }
    }

    /// Completes an intent: resolve, label, confirm. `None`: the claim was lost, or the key has
    /// another slot; scan again.
    fn settle(
        &self,
        key: KeyHash,
        place: Placement,
        claim: Met<'_>,
        now: u64,
        reread: &impl Fn() -> u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<Update> {
        if !self.resolve(key, place, claim) {
            claim.slot.withdraw(claim.word);
            return None;
        }
        if !self.label(key, claim) {
            return None;
        }
        let now = now.max(reread());
        let Some(value) = decide(0, now) else {
            claim.slot.withdraw(claim.word);
            return Some(Update::Unchanged { found: 0, now });
        };
        claim
            .slot
            .word
            .compare_exchange(
                claim.word.0,
                claim.word.settled(value).0,
                Ordering::Release, // C6
                Ordering::Relaxed,
            )
            .ok()
            .map(|_| Update::Written { before: 0, now })
    }

    /// Writes what the slot is to say of its key; `false` when the intent is gone.
    fn label(&self, key: KeyHash, claim: Met<'_>) -> bool {
        let Met { slot, candidate, word, generation } = claim;
        let (tag, home) = (Tag::new(key, candidate, generation), HomeBits::new(key, generation));
        slot.note(word, &slot.tag, tag.0)
            && self.lines.home_bits(slot).is_none_or(|place| slot.note(word, place, home.0))
    }

    /// Whether the claim may go on: the key is settled in no other slot and has no earlier intent.
    /// Withdraws later ones.
    fn resolve(&self, key: KeyHash, place: Placement, claim: Met<'_>) -> bool {
        fence(Ordering::SeqCst); // C4
        let mut earlier = true;
        for candidate in 0..self.lines.candidates() {
            let line = self.lines.line(place, candidate);
            let seen = line.seen();
            // The claim's own line is not.
            if are_quiet(&seen, key) {
                continue;
            }
            for (slot, seen) in line.slots.iter().zip(seen) {
                if core::ptr::eq(slot, claim.slot) {
                    earlier = false;
                } else if slot.rivals(key, earlier, seen) {
                    return false;
                }
            }
        }
        true
    }
}

/// A slot as read: the word, and after it the tag.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) word: Word,
    tag: Tag,
}

/// Whether none of these slots is claimed or names `key`, without a branch on any of them.
#[inline]
fn are_quiet(seen: &[Seen; SLOTS], key: KeyHash) -> bool {
    seen.iter().fold(true, |quiet, Seen { word, tag }| quiet & !word.is_claimed() & !tag.names(key))
}

impl CacheLine {
    #[inline]
    pub(super) fn seen(&self) -> [Seen; SLOTS] {
        self.slots.each_ref().map(Slot::seen)
    }
}

impl Slot {
    #[inline]
    fn seen(&self) -> Seen {
        let word = Word(self.word.load(Ordering::Acquire)); // C1
        // A claimed slot's tag is unused. Models leave it unread: fewer orders to explore.
        if cfg!(any(loom, interleave)) && word.is_claimed() {
            return Seen { word, tag: Tag(0) };
        }
        Seen { word, tag: Tag(self.tag.load(Ordering::Relaxed)) } // C2
    }

    /// Whether this slot defeats a claim of `key` elsewhere: it is settled for the key, or holds an
    /// earlier intent of it. Withdraws a later intent.
    #[inline]
    fn rivals(&self, key: KeyHash, earlier: bool, mut seen: Seen) -> bool {
        loop {
            let Seen { word, tag } = seen;
            if !word.is_claimed() {
                return tag.names(key);
            }
            if !word.is_intent_of(key) {
                return false;
            }
            if earlier {
                return true;
            }
            if self.withdraw(word) {
                return false;
            }
            seen = self.seen();
        }
    }

    /// Frees the slot if it still holds this intent.
    fn withdraw(&self, intent: Word) -> bool {
        let free = intent.withdrawn();
        // C7
        self.word.compare_exchange(intent.0, free.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Writes a part of the label; `false` when the intent is gone.
    fn note(&self, intent: Word, place: &AtomicU64, new: u64) -> bool {
        loop {
            let seen = place.load(Ordering::Acquire); // C9
            // C8. The place is read first: if the intent is still there after that, `seen` is not
            // newer than the claim, and replacing it cannot undo what a later one writes.
            if self.word.load(Ordering::Relaxed) != intent.0 {
                return false;
            }
            // C5
            if seen == new
                || place.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return true;
            }
        }
    }
}
