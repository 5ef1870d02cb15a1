//! What this node has consumed and not sent yet.
//!
//! Sending is urgent where a key is near its limit, and lazy where it is far from it. Let `left` be
//! what a node's word of a key has left, and let a node keep to itself at most `left / (16 *
//! nodes)` in addition to half of an even part of the refill, `1 / (2 * nodes)` of its rate. While
//! all do, all nodes together consume at most half of what refills and a sixteenth of what is left:
//! no node denies anything, and what was consumed half a bucket ago has drained everywhere. So what
//! that part of the refill covers is never sent, and what exceeds the bound is sent with the next
//! flush. What others send counts against the refill first, also what they sent before a key begins
//! to wait ([`Reported`]): where all consume more than half of the limit, nothing is covered and
//! all of it is sent.
//!
//! Waiting pays where a key is used again meanwhile, or the refill covers it. In a spray of keys
//! neither is so: as long as few of those that waited have saved a delta, few begin to wait.
//!
//! What waits is composed ([`Change::then`]), and what was consumed is as exact later as it is at
//! once. What was given back is not: composed with what was consumed after it, it has no date of
//! its own, and others take it from what they consumed until it is sent. So the sum of what was
//! given back counts against that bound as well, until it is sent, whatever was consumed after it.
//! Nothing waits for longer than half of the burst tolerance, so nothing is late.
//!
//! Where bytes are capped, a key that is to be sent may have to wait, and is *capped* until there
//! is room. Such keys are sent in the order in which keys became urgent, and before all that is far
//! from its limit. Nothing covers what is capped: others do not know of it, so it may be more than
//! its part of the refill. It is not sent once all of it has drained and it would reach the others
//! late.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::change::Change;
use super::delta::{Delta, KeyId, signed, word_id};
use super::time::Nanos;
use reported::Reported;

mod reported;

/// Keys that wait, at most: about 2 MiB, and what one step sends where all of them are to be sent.
/// Further ones are sent at once, as a spray of keys saves no frames by waiting.
const MAX_WAITING: usize = 1 << 13;
/// Keys that begin to wait between two evaluations of whether it pays.
const EVALUATE_EVERY: u64 = 1 << 12;
/// Waiting pays from one saved delta per this many keys that began to wait.
const PAYS_DIVISOR: u64 = 8;
/// The share of keys, as a divisor, that may wait while it does not pay, to see when it does.
const SAMPLE_DIVISOR: u64 = 16;
/// The share of what is left, as a divisor, that all nodes together keep to themselves.
const KEPT: i128 = 16;
/// Of a word that quotas share which come with checks, the keys that wait, at most: each step looks
/// at all of them.
const MAX_QUOTAS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Pace {
    keys: FxHashMap<KeyId, Waiting>,
    /// The keys among these whose words quotas share that come with checks, the key before the
    /// limit.
    shared: BTreeSet<(u64, u64)>,
    /// How many of these share a word with another one: mostly none, and then nothing is looked up.
    several: usize,
    due: BTreeSet<(Nanos, KeyId)>,
    /// Keys that are urgent, by when they became so.
    capped: BTreeSet<(Nanos, KeyId)>,
    reported: Reported,
    covered: u64,
    /// Keys that began to wait since the last evaluation, and deltas that need not be sent because
    /// they did.
    begun: u64,
    saved: u64,
    /// Few of the keys that waited before that evaluation have saved one.
    is_vain: bool,
    /// How many were capped.
    times_capped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    change: Change,
    /// What of it was given back, in all: it is to be sent even where nothing is left of the sum.
    given_back: i64,
    /// Up to when the refill was counted.
    counted: Nanos,
    /// When the flush before the one that took it was.
    since: Nanos,
    due: Nanos,
    capped: Option<Nanos>,
}

/// What waits, as it is taken out.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub deltas: Vec<Delta>,
    /// Nothing of it was consumed before this.
    pub since: Option<Nanos>,
}

impl Taken {
    pub(super) fn add(&mut self, since: Nanos, delta: Delta) {
        self.deltas.push(delta);
        self.since = Some(self.since.map_or(since, |known| known.min(since)));
    }
}

impl Pace {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Deltas that were never sent because the even part of the refill covers them.
    pub(super) fn covered(&self) -> u64 {
        self.covered
    }

    /// Keys that are urgent and wait for room.
    pub(super) fn capped(&self) -> usize {
        self.capped.len()
    }

    /// How many times a key was capped.
    pub(super) fn times_capped(&self) -> u64 {
        self.times_capped
    }

    pub(super) fn waits(&self, id: KeyId) -> bool {
        self.keys.contains_key(&id)
    }

    /// Whether a key that does not wait may begin to: there is room, and it is likely to pay.
    pub(super) fn may_begin(&self, id: KeyId) -> bool {
        (!self.is_vain || id.1.is_multiple_of(SAMPLE_DIVISOR)) && self.has_room(id)
    }

    /// Whether a key that does not wait finds room.
    pub(super) fn has_room(&self, id: KeyId) -> bool {
        let is_crowded = || is_shared(id) && self.of_key(id.1).count() >= MAX_QUOTAS;
        self.keys.len() < MAX_WAITING && (self.several < MAX_QUOTAS || !is_crowded())
    }

    /// The keys of a shared word that wait.
    fn of_key(&self, key: u64) -> impl Iterator<Item = KeyId> {
        self.shared.range((key, 0)..=(key, u64::MAX)).map(|(key, limit)| (*limit, *key))
    }

    /// Whether other keys of its word may wait than this one.
    pub(super) fn may_share(&self, id: KeyId) -> bool {
        is_shared(id)
            && !self.shared.is_empty()
            && (self.several > 0 || !self.keys.contains_key(&id))
    }

    /// Calls with each key that waits of the word of this one.
    fn each_of_word(&mut self, id: KeyId, mut call: impl FnMut(&mut Self, KeyId)) {
        if self.may_share(id) {
            let of_word: Vec<_> = self.of_key(id.1).collect();
            for id in of_word {
                call(self, id);
            }
        } else {
            call(self, id);
        }
    }

    /// The words of which something that was given back waits.
    pub(super) fn given_back(&self) -> impl Iterator<Item = KeyId> {
        let waiting = self.keys.iter().filter(|(_, waiting)| waiting.given_back > 0);
        waiting.map(|(id, _)| word_id(*id))
    }

    /// When the first of the keys that are not capped is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due.first().map(|(due, _)| *due)
    }

    /// This was consumed since the time `since`, and is sent by `due` at the latest.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        (since, due): (Nanos, Nanos),
        delta: Delta,
        nodes: usize,
    ) {
        let id = delta.id();
        self.cover(now, id, nodes);
        if let Some(waiting) = self.keys.get_mut(&id) {
            self.saved += 1;
            if waiting.is_covered() {
                self.covered += 1;
                self.due.remove(&(waiting.due, id));
                *waiting = Waiting::new(now, (since, due), delta.change);
                self.due.insert((due, id));
            } else {
                waiting.add(now, delta.change);
            }
        } else {
            self.keys.insert(id, Waiting::new(now, (since, due), delta.change));
            self.due.insert((due, id));
            if is_shared(id) {
                self.several += of_others(self.of_key(id.1).count());
                self.shared.insert((id.1, id.0));
            }
            self.begin();
        }
    }

    /// Takes off what the refill since the last call covers of what waits of a word: whatever
    /// quotas share it, it refills once. The oldest goes first: the key of an idle node ends as it
    /// did.
    fn cover(&mut self, now: Nanos, id: KeyId, nodes: usize) {
        let (word, mut covered) = (word_id(id), 0);
        let may_share = self.may_share(id);
        let Self { keys, shared, reported, .. } = self;
        let mut cover = |id: KeyId| {
            let waiting = keys.get_mut(&id).filter(|waiting| waiting.capped.is_none());
            if let Some(waiting) = waiting {
                // All that wait of a word are covered up to the same time.
                let rest = reported.rest((waiting.counted, now), word, nodes);
                covered += waiting.cover(now, rest.saturating_sub(covered));
            }
        };
        if may_share {
            let of_word = shared.range((id.1, 0)..=(id.1, u64::MAX));
            of_word.for_each(|(key, limit)| cover((*limit, *key)));
        } else {
            cover(id);
        }
    }

    /// Another key waits. Evaluates now and then whether that pays.
    fn begin(&mut self) {
        self.begun += 1;
        if self.begun == EVALUATE_EVERY {
            self.is_vain = self.saved < self.begun / PAYS_DIVISOR;
            (self.begun, self.saved) = (0, 0);
        }
    }

    /// Another node has reported that it consumed this.
    pub(super) fn landed(&mut self, now: Nanos, id: KeyId, debt: i64, nodes: usize) {
        // What refilled until then covers as it would without this.
        self.cover(now, id, nodes);
        self.reported.add(now, word_id(id), debt, nodes);
    }

    /// Whether what waits of a key's word is to be sent at once: more than its part of what is
    /// `left`.
    pub(super) fn is_urgent(&mut self, now: Nanos, id: KeyId, left: Nanos, nodes: usize) -> bool {
        self.cover(now, id, nodes);
        let unsent = |id: KeyId| self.keys.get(&id).map_or(0, Waiting::unsent);
        let unsent = if self.may_share(id) {
            self.of_key(id.1).fold(0_i64, |sum, id| sum.saturating_add(unsent(id)))
        } else {
            unsent(id)
        };
        is_much(unsent, left, nodes)
    }

    /// What waits of a key's word is to be sent as soon as there is room.
    pub(super) fn cap(&mut self, now: Nanos, id: KeyId) {
        self.each_of_word(id, |pace, id| {
            let waiting = pace.keys.get_mut(&id).filter(|waiting| waiting.capped.is_none());
            let Some(waiting) = waiting else { return };
            waiting.capped = Some(now);
            pace.due.remove(&(waiting.due, id));
            pace.capped.insert((now, id));
            pace.times_capped += 1;
        });
    }

    /// The keys that are capped, at most `most`: those that became urgent first.
    pub(super) fn first_capped(&self, most: usize) -> Vec<KeyId> {
        self.capped.iter().take(most).map(|(_, id)| *id).collect()
    }

    /// Takes out those of the first `most` capped keys that need not be sent any more.
    pub(super) fn drop_void(&mut self, most: usize, is_void: impl Fn(&Delta) -> bool) {
        for id in self.first_capped(most) {
            let Some(waiting) = self.keys.get(&id) else { continue };
            if is_void(&Delta { limit: id.0, key: id.1, change: waiting.change }) {
                let at = waiting.capped.unwrap_or(0);
                self.capped.remove(&(at, id));
                self.remove(id);
                self.covered += 1;
            }
        }
    }

    /// Takes out a key, if anything of it is to be sent.
    pub(super) fn take(&mut self, now: Nanos, id: KeyId, nodes: usize, into: &mut Taken) {
        self.cover(now, id, nodes);
        let Some(waiting) = self.remove(id) else { return };
        self.due.remove(&(waiting.due, id));
        if let Some(at) = waiting.capped {
            self.capped.remove(&(at, id));
        }
        if waiting.is_covered() {
            self.covered += 1;
            self.saved += 1;
        } else {
            let delta = Delta { limit: id.0, key: id.1, change: waiting.change };
            into.add(waiting.since, delta);
        }
    }

    /// Takes out all keys of a key's word, whatever quotas came with checks.
    pub(super) fn take_word(&mut self, now: Nanos, id: KeyId, nodes: usize, into: &mut Taken) {
        self.each_of_word(id, |pace, id| pace.take(now, id, nodes, into));
    }

    fn remove(&mut self, id: KeyId) -> Option<Waiting> {
        let waiting = self.keys.remove(&id)?;
        if self.shared.remove(&(id.1, id.0)) {
            self.several -= of_others(self.of_key(id.1).count());
        }
        Some(waiting)
    }

    /// The keys that are due, at most `most`.
    pub(super) fn due(&self, now: Nanos, most: usize) -> Vec<KeyId> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        due.take(most).map(|(_, id)| *id).collect()
    }

    /// All keys that wait, in order.
    pub(super) fn keys(&self) -> Vec<KeyId> {
        let mut keys: Vec<_> = self.keys.keys().copied().collect();
        keys.sort_unstable();
        keys
    }
}

impl Waiting {
    fn new(now: Nanos, (since, due): (Nanos, Nanos), change: Change) -> Self {
        let given_back = change.given_back(signed(now));
        Self { change, given_back, counted: now, since, due, capped: None }
    }

    fn add(&mut self, now: Nanos, change: Change) {
        let given_back = change.given_back(signed(now));
        self.given_back = self.given_back.saturating_add(given_back);
        self.change = self.change.then(change);
    }

    /// Takes off what this much refill covers; by how much.
    fn cover(&mut self, now: Nanos, refill: i64) -> i64 {
        self.counted = now;
        let own = refill.min(self.change.debt).max(0);
        self.change = Change::new(self.change.debt - own, self.change.date.saturating_add(own));
        own
    }

    /// Whether nothing is left to send; what was given back is always sent, and what is capped.
    fn is_covered(&self) -> bool {
        self.change.debt == 0 && self.given_back == 0 && self.capped.is_none()
    }

    /// What others do not know of.
    fn unsent(&self) -> i64 {
        self.change.debt.max(self.given_back)
    }
}

/// How many keys more share their word with another one once one is added to this many.
fn of_others(keys: usize) -> usize {
    match keys {
        0 => 0,
        1 => 2,
        _ => 1,
    }
}

/// Whether quotas that come with checks share the word of a key.
fn is_shared(id: KeyId) -> bool {
    word_id(id).0 == 0
}

/// Whether it is more than a node may keep to itself of what is left.
pub(super) fn is_much(unsent: i64, left: Nanos, nodes: usize) -> bool {
    i128::from(unsent) * KEPT * nodes.max(1) as i128 > i128::from(left)
}

#[cfg(test)]
mod tests;
