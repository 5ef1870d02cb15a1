//! How a slot changes hands, without a lock.
//!
//! A key without a slot *claims* one: it replaces the word by an *intent* that names the key, looks
//! through all places the key may live in for others doing the same (*resolve*), writes the tag
//! (*label*), and replaces the intent by the value (*confirm*). Any thread that meets an intent
//! of its own key carries it through, so nobody waits for anybody; an intent of another key is
//! passed by, or taken over when no other place is left.
//!
//! Of two intents of one key the one in the earlier place survives, in the key's own order of
//! lines and slots. A loser's word becomes free in the same generation, never what it was
//! before. Each claim begins a new generation, which is part of the intent, the label and
//! (its low bits) the settled word, so a delayed step of an earlier claim finds nothing it
//! expects. A tag that is newer than the word read before it does no harm: every step ends in a
//! compare-and-swap or a second look at the word, and both fail.
//!
//! # Lock-freedom
//! Suppose that threads take steps for ever, and from some time on no call ends. Then no word gets
//! settled or charged, so claims of settled words come to an end, and so do the turns of a charge, which are repeated only
//! after another's charge, of a label, whose slot counts a bounded number of strikes, and of a full table, which are
//! repeated only until the clock has passed what was found live; so do takeovers, of which one call makes at most as
//! many as its key has places. Withdrawals and claims of free slots are left. Who withdraws met its
//! key settled, and will be decided by that, or met an earlier intent of its key. Take a key whose
//! intents come up again and again, and the earliest place where they do, or where one stands for good:
//! nothing ends the next intent there, all threads of the key join it, and one confirms it after all.
//!
//! Each takeover of a call begins one place further. So where intents stand in all places, a call tries
//! each once, and runs out only if it lost each to another call that came later. (Where live keys stand among them, a call
//! that runs out evicts one of those, or finds the table full.) A call holds one
//! place at a time: more calls are in the middle of a claim than there are places, and one of them
//! has to go without. It counts as charged and evicted at once, by those that were faster; where
//! live keys are not evicted, as one that found all places live.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | C1 word, any scan | acquire | confirm (C6) | a word is taken with an older tag: a key evicts or overlooks its own | `scan-word-relaxed` |
//! | C2 tag, any scan | relaxed | none: at least as new as the word by C1; if newer, the step it leads to fails | - | - |
//! | C3 word, claim | release | C1 | who finds its key gone may read a clock that is a shared word older than the taker read it. No model tells: loom never moves a load behind a later store. The fence (C4) orders the claim before the look at the other places | none |
//! | C4 fence | sequentially consistent | the same fence of another claimer; as a release fence it also orders C3 before C5 | both look before either has published: two live words | `fence-acquire-release`, `no-fence` |
//! | C5 tag, label | relaxed; its load acquire | U3 and this load of others, by C4 | load: a claim that was taken over labels the next owner's slot | `label-load-relaxed` |
//! | C6 word, confirm | release | U2, C1 | a settled word whose label is not visible | `confirm-relaxed` |
//! | C7 word, withdraw | relaxed | none: a free slot says nothing about its tag | - | - |

use crate::backoff::Backoff;
use crate::key::KeyHash;
use crate::sync::{Ordering, fence};

use super::bits::{Generation, Tag, Word};
use super::lines::{BLOCK, Line, Place, SLOTS, Slot};
use super::{State, Table, Update};
use crate::overflow::{Event, OverflowPolicy};

/// A key goes into its home block while so many slots there are vacant. More would send keys away
/// from home for nothing; with fewer, full blocks become so frequent that insertions find no room.
const HOME_VACANCIES: usize = 3;

/// A slot as a scan met it, in the `candidate`-th line of the key.
#[derive(Clone, Copy)]
pub(super) struct Met<'t> {
    slot: &'t Slot,
    candidate: usize,
    word: Word,
    /// The generation of the next claim; of the present one where an intent is joined.
    generation: Generation,
}

/// What a scan of all places of a key found.
pub(super) enum Scan<'t> {
    /// The key's own settled slot.
    Found(&'t Slot),
    /// No settled slot of the key.
    Absent(Absent<'t>),
}

#[derive(Default)]
pub(super) struct Absent<'t> {
    /// The earliest intent of this very key.
    joinable: Option<Met<'t>>,
    /// An expired or free slot: in the home block unless that is nearly full, else in the emptiest
    /// block.
    vacant: Option<Met<'t>>,
    /// There is an intent of another key.
    is_contested: bool,
    /// The live slot that gives way first: of those whose keys were denied least, the one with the
    /// least value, which is nearest to fresh.
    least: Option<Met<'t>>,
    /// No block has more than one vacancy.
    crowded: bool,
}

/// The vacancies that a scan has met so far.
///
/// Of a block's the first is taken that is unused, which is vacant since 0: it never had a key, or a claim of it was
/// withdrawn, or what it holds counts as nothing. An expired slot is found again by its key, if that comes back
/// before somebody else needs the slot. Where all are used, it is the one that has been vacant the longest in the
/// first line with a vacancy.
#[derive(Default)]
struct Room<'t> {
    /// The one to take in the block with the most.
    best: Option<Met<'t>>,
    /// In that block.
    most: usize,
    /// The one to take in the present block, and since when it has been vacant.
    choice: Option<(u64, Met<'t>)>,
    /// In the present block.
    count: usize,
    /// The home block has so many that no other is looked for.
    is_enough: bool,
}

impl<'t> Room<'t> {
    fn begin_block(&mut self, block: usize) {
        self.is_enough |= block == 1 && self.most >= HOME_VACANCIES;
        (self.choice, self.count) = (None, 0);
    }

    fn add(&mut self, met: Met<'t>, since: u64) {
        if self.is_enough {
            return;
        }
        self.count += 1;
        let is_better = |(best_since, best): (u64, Met<'_>)| {
            best_since > 0 && (since == 0 || since < best_since && met.candidate == best.candidate)
        };
        if self.choice.is_none_or(is_better) {
            self.choice = Some((since, met));
        }
        if self.count > self.most {
            (self.best, self.most) = (self.choice.map(|(_, met)| met), self.count);
            let is_unused = matches!(self.choice, Some((0, _)));
            self.is_enough = met.candidate < BLOCK && self.count >= HOME_VACANCIES && is_unused;
        }
    }
}

/// What became of an attempt to claim a place.
pub(super) enum Claim<'t> {
    /// An intent of the key stands.
    Intent(Met<'t>),
    /// The place changed; look again.
    Lost,
    /// All places are live and the policy is not to evict; the first expires then.
    Full { fresh_from: u64 },
    /// All places are being claimed for other keys, and others have been faster at each.
    Outrun,
}

impl<S: State> Table<S> {
    /// [`Home::update`](super::Home::update) for a key that a first look at so many of its likeliest
    /// lines did not find.
    #[inline(never)]
    pub(super) fn update_beyond(
        &self,
        looked_at: usize,
        key: KeyHash,
        mut now: u64,
        reread: &impl Fn() -> u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Update {
        let place = self.lines.place(key);
        // A newcomer needs all lines, and waits for memory once.
        self.lines.prefetch(place);
        // A key that has its slot is spared the scan, unless a hint misleads.
        if let Some(slot) = self.look_beyond(looked_at, place, key, now)
            && let Some(update) = slot.update(key, now, Backoff::new(), decide)
        {
            return update;
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
            // Fresh and refused, or only looked at: no place is needed.
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
                    // The thread may have been delayed, and the place be free by now.
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

    pub(super) fn scan(&self, key: KeyHash, place: Place, now: u64) -> Scan<'_> {
        let (mut absent, mut room) = (Absent::default(), Room::default());
        let mut least_rank = u64::MAX;
        for candidate in 0..self.lines.candidates() {
            if candidate % BLOCK == 0 {
                room.begin_block(candidate / BLOCK);
            }
            let line = self.lines.line(place, candidate);
            let seen = line.seen();
            if room.is_enough && are_quiet(&seen, key) {
                continue;
            }
            for (slot, Seen { word, tag }) in line.slots.iter().zip(seen) {
                if word.is_claimed() {
                    let next = word.generation().next();
                    let met = Met { slot, candidate, word, generation: next };
                    if word.is_free() {
                        room.add(met, 0);
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
                if room.is_enough {
                    continue;
                }
                let met = Met { slot, candidate, word, generation: tag.generation().next() };
                let fresh_from = self.state.fresh_from(word.value());
                if fresh_from <= now {
                    room.add(met, fresh_from);
                    continue;
                }
                let rank = tag.rank(self.state.rank(word.value()));
                if rank < least_rank {
                    least_rank = rank;
                    absent.least = Some(met);
                }
            }
        }
        absent.crowded = room.most <= 1;
        absent.vacant = room.best;
        Scan::Absent(absent)
    }

    /// Publishes an intent in the best place, or joins the one that is there.
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
            // A parked thread's intent must not cost a slot for ever, nor threads take turns at each
            // other's for ever.
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
            .compare_exchange(met.word.0, intent.0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            return Claim::Lost;
        }
        if is_live {
            self.counters.count(Event::Evicted);
        }
        Claim::Intent(Met { word: intent, ..met })
    }

    /// The first intent of another key from the `first` of this one's places on, around the end.
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

    /// Decides for a key that is outrun by claims of others, which are to have its places.
    #[cold]
    fn give_way(&self, now: u64, decide: &impl Fn(u64, u64) -> Option<u64>) -> Update {
        if decide(0, now).is_none() {
            return Update::Unchanged { found: 0, now };
        }
        if self.policy == OverflowPolicy::EvictLeastDebt {
            self.counters.count(Event::Evicted);
            return Update::Written { before: 0, now };
        }
        // How long the claims take is not known; they may be over at once.
        let admitted = self.policy == OverflowPolicy::Allow;
        Update::Full { fresh_from: now + 1, now, admitted }
    }

    /// Carries an intent through: resolve, label, confirm. `None`: the claim was lost, or the key
    /// has another place; look again.
    fn settle(
        &self,
        key: KeyHash,
        place: Place,
        claim: Met<'_>,
        now: u64,
        reread: &impl Fn() -> u64,
        decide: &impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<Update> {
        if !self.resolve(key, place, claim) {
            claim.slot.withdraw(claim.word);
            return None;
        }
        if !claim.slot.label(claim.word, Tag::new(key, claim.candidate, claim.generation)) {
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
                Ordering::Release,
                Ordering::Relaxed,
            )
            .ok()
            .map(|_| Update::Written { before: 0, now })
    }

    /// Whether the claim may go on: the key is settled nowhere else and no earlier intent of it
    /// stands. Withdraws later ones.
    fn resolve(&self, key: KeyHash, place: Place, claim: Met<'_>) -> bool {
        fence(Ordering::SeqCst);
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

/// What was read of a slot: the word, and the tag after it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) word: Word,
    tag: Tag,
}

/// Whether none of these slots is claimed or names `key`, without a branch on any one.
#[inline]
fn are_quiet(seen: &[Seen; SLOTS], key: KeyHash) -> bool {
    seen.iter().fold(true, |quiet, Seen { word, tag }| quiet & !word.is_claimed() & !tag.names(key))
}

impl Line {
    #[inline]
    pub(super) fn seen(&self) -> [Seen; SLOTS] {
        self.slots.each_ref().map(Slot::seen)
    }
}

impl Slot {
    #[inline]
    fn seen(&self) -> Seen {
        let word = Word(self.word.load(Ordering::Acquire)); // C1
        // Nobody uses a claimed slot's tag. Models leave it unread: fewer orders to explore.
        if cfg!(any(loom, interleave)) && word.is_claimed() {
            return Seen { word, tag: Tag(0) };
        }
        Seen { word, tag: Tag(self.tag.load(Ordering::Relaxed)) } // C2
    }

    /// Whether this slot ends another claim of `key`: it is settled for the key, or holds an
    /// intent of it that is earlier. A later intent is withdrawn.
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
        self.word.compare_exchange(intent.0, free.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Writes the tag; `false` when the intent is gone.
    fn label(&self, intent: Word, label: Tag) -> bool {
        loop {
            let seen = self.tag.load(Ordering::Acquire);
            // The tag is read first: if the intent still stands after it, `seen` is not newer than
            // the claim, and replacing it can not undo a later label.
            if self.word.load(Ordering::Relaxed) != intent.0 {
                return false;
            }
            if seen == label.0
                || self
                    .tag
                    .compare_exchange(seen, label.0, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return true;
            }
        }
    }
}
