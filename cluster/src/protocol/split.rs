//! Splitting what is left of a key among the nodes.
//!
//! Once nine tenths of a key are used up it is *scarce*, until less than half is used: then a node
//! takes no more than its part of what is left. The check does not know: the others' part is in the
//! word as *provisional debt*, which is never sent, is not part of a level or of a state, and
//! drains by itself where it is not taken back.
//!
//! A node's part of all that is consumed is what it had lately, at least an even one. It is a part
//! of what all nodes know to be left, so what this node has consumed and others have not received
//! counts as left, and as taken from its part. What another node turns out to have consumed comes
//! out of the others' part.
//!
//! Two TATs are kept of a key, with and without provisional debt. What happens to the word happens
//! to both, so their difference is what there is to take back, also where the word was empty
//! meanwhile. A key has one word, and so one split, whatever quotas come with its checks; the terms
//! are those of the limit under which it was split first.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::change::Change;
use super::delta::{Delta, KeyId, signed, word_id};
use super::id::Origin;
use super::time::{Nanos, SECOND};

/// Keys that are split, and keys that others call scarce, at most: about 1 MiB, and as much for
/// each four nodes that use all of them.
const MAX_SPLITS: usize = 4_096;
/// Other nodes whose use of a key is known apart, at most: those that used it most.
const MAX_USERS: usize = 16;
/// A key is scarce once less than the burst tolerance divided by this is left.
const SCARCE_DIVISOR: u64 = 10;
/// It stays so while more than the burst tolerance divided by this is used, at most.
const PLENTY_DIVISOR: i64 = 2;
/// Over how long use counts for a node's part.
const RECENT: Nanos = SECOND / 10;
/// A node that consumes less than an even part splits less of what may come, and none of it where
/// what it has less is an even part divided by this.
const MISSING_DIVISOR: i128 = 4;
/// The share of each node's part, as a divisor, that is even whatever it used: unequal parts of
/// equal demand become equal.
const EVEN_DIVISOR: i128 = 2;
/// The others' part is held back whole where they learn what is consumed here within the burst
/// tolerance divided by this. The later they do the less of it is, and nothing from a burst
/// tolerance on.
const SOON_DIVISOR: u64 = 2;
/// A node, where parts of nodes are counted.
const ONE_NODE: i128 = 256;
/// For how long a key stays scarce without use here, or after another node has called it so.
const KEEP: Nanos = SECOND / 2;
/// How long a key is scarce for others, and not for this node, before that is more than a
/// coincidence.
const LAGGING_FOR: Nanos = SECOND / 2;

#[derive(Debug, Default)]
pub(super) struct Splits {
    /// By word.
    split: FxHashMap<KeyId, KeySplit>,
    /// Until when keys are scarce because other nodes said so.
    scarce_elsewhere: FxHashMap<KeyId, Nanos>,
    /// Keys that are scarce for others and not for this node: since when, and when that was seen
    /// last. By word, likewise bounded.
    lagging: BTreeMap<KeyId, (Nanos, Nanos)>,
}

#[derive(Debug)]
struct KeySplit {
    /// The limit whose terms count.
    limit: u64,
    /// Its burst tolerance, and the debt of one unit.
    quota: (Nanos, Nanos),
    /// The TAT of the word, and what it would be without provisional debt.
    tat: i64,
    real: i64,
    /// What this node consumed lately, what all did, and what of its own others may not know.
    own: i64,
    all: i64,
    unpropagated: i64,
    /// What other nodes did, each by itself.
    others: Vec<(Origin, i64)>,
    /// Without provisional debt the word was empty since the last flush.
    was_empty: bool,
    observed_at: Nanos,
    used_at: Nanos,
}

/// What a key's part depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitTerms {
    /// The burst tolerance of the limit.
    pub tolerance: Nanos,
    /// The debt of one unit, which a node can always take where there is one.
    pub unit: Nanos,
    /// How long until the next split is due.
    pub refresh: Nanos,
    /// For how long what refills is split, no less than that.
    pub ahead: Nanos,
    /// How long until all others know what is consumed here, and until most do.
    pub lag: Nanos,
    pub most_know_after: Nanos,
    pub nodes: usize,
}

impl SplitTerms {
    /// What of them is the limit's.
    fn quota(&self) -> (Nanos, Nanos) {
        (self.tolerance, self.unit)
    }

    /// For how long what refills is split, by a node that consumed `own` of `all` lately, which is
    /// even where `users` nodes use the key, in parts of [`ONE_NODE`]. One that consumes less
    /// splits less, and soon no more than is due, or it would be left nothing where another one
    /// uses all it can: it would hold back each time what it has had to wait for.
    fn refill_of(&self, own: i128, all: i128, users: i128) -> i128 {
        let (refresh, ahead) = (i128::from(self.refresh), i128::from(self.ahead));
        let missing = (all - users * own / ONE_NODE).max(0);
        let kept = (all - MISSING_DIVISOR * missing).max(0);
        refresh + (ahead - refresh).max(0) * kept / all
    }

    /// What is held back of the others' part. Where they receive late, words from which all of it
    /// were held back would reach zero now and then. It fades with the lag: of nodes whose lags
    /// differ a little, one that split where another did not would leave the other all.
    fn held_of(&self, others: i128) -> i128 {
        let whole = self.tolerance / SOON_DIVISOR;
        let fades_in = (self.tolerance - whole).max(1);
        let is_left = self.tolerance.saturating_sub(self.lag).min(fades_in);
        others * i128::from(is_left) / i128::from(fades_in)
    }
}

/// How a word is to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    /// By how much the provisional debt grows.
    pub by: i64,
    /// Without provisional debt the key was empty since the last flush.
    pub was_empty: bool,
}

impl Splits {
    pub(super) fn len(&self) -> usize {
        self.split.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.split.iter().map(|((_, key), split)| (split.limit, *key))
    }

    pub(super) fn is_split(&self, id: KeyId) -> bool {
        self.split.contains_key(&word_id(id))
    }

    /// The provisional debt in the word of a key.
    pub(super) fn provisional(&self, id: KeyId) -> Nanos {
        self.split.get(&word_id(id)).map_or(0, |key| key.provisional().unsigned_abs())
    }

    /// Nothing is known any more of a key's limit, nor of the word that would hold what is
    /// provisional.
    pub(super) fn forget(&mut self, id: KeyId) {
        self.split.remove(&word_id(id));
    }

    /// The same where the limit's quota has changed, and its words with it: how much of what is
    /// provisional they contain is not known. From here on it counts as debt, until it has drained
    /// or words have been compared.
    fn forget_unless(&mut self, id: KeyId, quota: (Nanos, Nanos)) {
        let word = word_id(id);
        if self.split.get(&word).is_some_and(|key| key.quota != quota) {
            self.split.remove(&word);
        }
    }

    /// Another node says that a key is scarce.
    pub(super) fn mark_scarce(&mut self, now: Nanos, id: KeyId) {
        let id = word_id(id);
        if self.scarce_elsewhere.len() >= MAX_SPLITS && !self.scarce_elsewhere.contains_key(&id) {
            self.scarce_elsewhere.retain(|_, until| *until > now);
        }
        if self.scarce_elsewhere.len() < MAX_SPLITS || self.scarce_elsewhere.contains_key(&id) {
            self.scarce_elsewhere.insert(id, now.saturating_add(KEEP));
        }
    }

    /// This node has consumed this, which is in the word.
    pub(super) fn consumed(&mut self, now: Nanos, delta: &Delta) {
        let Some(key) = self.split.get_mut(&delta.word_id()) else { return };
        for change in delta.change.parts(signed(now)) {
            key.change(change, change);
            let debt = change.debt.max(0);
            key.own = key.own.saturating_add(debt);
            key.all = key.all.saturating_add(debt);
            key.unpropagated = key.unpropagated.saturating_add(debt);
        }
        key.used_at = now;
    }

    /// This node has consumed this too before the key was split, for what it has consumed under
    /// another quota.
    pub(super) fn add_own(&mut self, delta: &Delta) {
        let debt = delta.change.debt.max(0);
        if let Some(key) = self.split.get_mut(&delta.word_id()) {
            key.own = key.own.saturating_add(debt);
            key.unpropagated = key.unpropagated.saturating_add(debt);
            key.all = key.all.max(key.own);
        }
    }

    /// Another node has consumed this. The change of the word, which contains some of it as
    /// provisional debt.
    pub(super) fn landed(&mut self, delta: &Delta) -> Change {
        let mut change = delta.change;
        let Some(key) = self.split.get_mut(&delta.word_id()) else { return change };
        // A word that was empty then contains no provisional debt.
        if key.real >= change.date {
            change.debt -= key.provisional().min(change.debt.max(0));
        }
        key.change(delta.change, change);
        key.all = key.all.saturating_add(delta.change.debt.max(0));
        change
    }

    /// Which node it was that has consumed this.
    pub(super) fn consumed_by(&mut self, id: KeyId, origin: Origin, debt: i64) {
        let split = self.split.get_mut(&word_id(id)).filter(|_| debt > 0);
        if let Some(KeySplit { others, .. }) = split {
            add_use(others, origin, debt);
        }
    }

    /// The word of a key was moved.
    pub(super) fn shifted(&mut self, id: KeyId, by: i64) {
        if let Some(key) = self.split.get_mut(&word_id(id)) {
            key.real = key.real.saturating_add(by);
            key.tat = key.tat.saturating_add(by);
        }
    }

    /// The word of a key was raised to this debt and what is provisional.
    pub(super) fn raised(&mut self, now: Nanos, id: KeyId, debt: Nanos) {
        if let Some(key) = self.split.get_mut(&word_id(id)) {
            let provisional = key.provisional();
            key.real = key.real.max(signed(now).saturating_add(signed(debt)));
            key.tat = key.tat.max(key.real.saturating_add(provisional));
        }
    }

    /// At a flush: splits what is left of a key anew, if it is scarce. Its word owes `debt`; of a
    /// key that was not split before this node has just consumed `own`.
    pub(super) fn split(
        &mut self,
        now: Nanos,
        id: KeyId,
        debt: Nanos,
        own: i64,
        terms: SplitTerms,
    ) -> Split {
        self.forget_unless(id, terms.quota());
        if !self.is_split(id) {
            if !self.is_scarce(now, id, debt, terms.tolerance) || self.split.len() >= MAX_SPLITS {
                return Split::default();
            }
            self.split.insert(word_id(id), KeySplit::new(now, (id.0, terms.quota()), debt, own));
        }
        let Some(key) = self.split.get_mut(&word_id(id)) else { return Split::default() };
        key.age(now, terms.most_know_after);
        let provisional = key.provisional();
        let real = signed(debt).saturating_sub(provisional);
        let was_empty = std::mem::take(&mut key.was_empty) || real <= 0;
        let is_used = now.saturating_sub(key.used_at) < KEEP;
        let stays = real > signed(terms.tolerance) / PLENTY_DIVISOR && is_used;
        let others = if stays { key.others(real, 0, terms) } else { 0 };
        key.real = signed(now).saturating_add(real);
        key.tat = key.real.saturating_add(others);
        if !stays {
            self.split.remove(&word_id(id));
        }
        Split { by: others - provisional, was_empty }
    }

    /// Between two flushes: splits anew. By how much the provisional debt grows.
    pub(super) fn refresh(&mut self, now: Nanos, id: KeyId, debt: Nanos, terms: SplitTerms) -> i64 {
        self.forget_unless(id, terms.quota());
        let Some(key) = self.split.get_mut(&word_id(id)) else { return 0 };
        let provisional = key.provisional();
        let real = signed(debt).saturating_sub(provisional);
        // What was consumed here since the last flush shows in the word alone.
        let untaken = signed(now).saturating_add(real).saturating_sub(key.real).max(0);
        let by = key.others(real, untaken, terms) - provisional;
        key.tat = key.tat.saturating_add(by);
        by
    }

    /// Whether a key that is not split is to be: its word owes `debt`.
    pub(super) fn is_scarce(&self, now: Nanos, id: KeyId, debt: Nanos, tolerance: Nanos) -> bool {
        debt > tolerance - tolerance / SCARCE_DIVISOR
            || signed(debt) > signed(tolerance) / PLENTY_DIVISOR
                && self.is_scarce_elsewhere(now, id)
    }

    /// Notes that of a key, which is used here, this node has nearly all left. Whether others have
    /// said for a while that it is scarce: then the words have not only just parted.
    pub(super) fn is_lagging(&mut self, now: Nanos, id: KeyId) -> bool {
        if !self.is_scarce_elsewhere(now, id) {
            return false;
        }
        let is_recent = |seen: Nanos| now.saturating_sub(seen) < KEEP;
        if let Some((since, seen)) = self.lagging.get_mut(&word_id(id)) {
            if !is_recent(std::mem::replace(seen, now)) {
                *since = now;
            }
            return now.saturating_sub(*since) >= LAGGING_FOR;
        }
        if self.lagging.len() >= MAX_SPLITS {
            self.lagging.retain(|_, (_, seen)| is_recent(*seen));
        }
        if self.lagging.len() < MAX_SPLITS {
            self.lagging.insert(word_id(id), (now, now));
        }
        false
    }

    /// Of a key, this node has less than nearly all left.
    pub(super) fn not_lagging(&mut self, id: KeyId) {
        self.lagging.remove(&word_id(id));
    }

    /// Whether another node has lately said that a key is scarce.
    pub(super) fn is_scarce_elsewhere(&self, now: Nanos, id: KeyId) -> bool {
        self.scarce_elsewhere.get(&word_id(id)).is_some_and(|until| *until > now)
    }
}

impl KeySplit {
    fn new(now: Nanos, (limit, quota): (u64, (Nanos, Nanos)), debt: Nanos, own: i64) -> Self {
        let (own, debt) = (own.max(0), signed(debt));
        let tat = signed(now).saturating_add(debt);
        Self {
            limit,
            quota,
            tat,
            real: tat,
            own,
            all: own.max(debt),
            unpropagated: own,
            others: Vec::new(),
            was_empty: false,
            observed_at: now,
            used_at: now,
        }
    }

    fn provisional(&self) -> i64 {
        self.tat.saturating_sub(self.real).max(0)
    }

    fn change(&mut self, real: Change, word: Change) {
        self.was_empty |= self.real < real.date;
        self.real = real.apply(self.real);
        self.tat = word.apply(self.tat);
    }

    /// Of how many nodes equal use would be as concentrated as what all consumed lately (the
    /// inverse of Simpson's index), in parts of [`ONE_NODE`]: nodes that do not use the key, or
    /// little of it, hardly count. Use of unknown origin counts as that of many.
    fn users(&self, nodes: usize) -> i128 {
        let square = |used: i64| i128::from(used) * i128::from(used);
        let others = self.others.iter().map(|(_, used)| square(*used));
        let squares = others.fold(square(self.own), i128::saturating_add).max(1);
        let users = square(self.all).saturating_mul(ONE_NODE) / squares;
        users.clamp(ONE_NODE, ONE_NODE * nodes.max(1) as i128)
    }

    /// Use counts less the longer ago it was.
    fn age(&mut self, now: Nanos, most_know_after: Nanos) {
        let passed = now.saturating_sub(self.observed_at);
        self.observed_at = now;
        self.own = fade(self.own, passed, RECENT);
        self.all = fade(self.all, passed, RECENT);
        self.unpropagated = fade(self.unpropagated, passed, most_know_after);
        self.others.retain_mut(|(_, used)| {
            *used = fade(*used, passed, RECENT);
            *used > 0
        });
    }

    /// The others' part of what is left to all, and of what refills for as long as that is split,
    /// less a unit. `untaken` of this node's use is not counted yet.
    fn others(&self, debt: i64, untaken: i64, terms: SplitTerms) -> i64 {
        let (own, all) = (i128::from(self.own), i128::from(self.all.max(1)));
        let nodes = terms.nodes.max(1) as i128;
        let left = signed(terms.tolerance).saturating_sub(debt).max(0);
        let left = i128::from(left)
            + i128::from(self.unpropagated)
            + i128::from(untaken)
            + terms.refill_of(own, all, self.users(terms.nodes));
        let even = left * (nodes - 1) / nodes;
        let used = left * (all - own) / all;
        let others = even.min((even + (EVEN_DIVISOR - 1) * used) / EVEN_DIVISOR);
        let others = i64::try_from(terms.held_of(others)).unwrap_or(i64::MAX);
        others.saturating_sub(signed(terms.unit)).max(0)
    }
}

/// Without room, the node that used least makes some.
fn add_use(others: &mut Vec<(Origin, i64)>, origin: Origin, debt: i64) {
    if let Some((_, used)) = others.iter_mut().find(|(known, _)| *known == origin) {
        *used = used.saturating_add(debt);
        return;
    }
    let least = others.iter().enumerate().min_by_key(|(_, (_, used))| *used);
    if let Some((least, _)) = least.filter(|_| others.len() >= MAX_USERS) {
        others.swap_remove(least);
    }
    others.push((origin, debt));
}

/// What is left of a sum after some time, on average over what it was added in.
fn fade(sum: i64, passed: Nanos, within: Nanos) -> i64 {
    let left = i128::from(within.saturating_sub(passed));
    i64::try_from(i128::from(sum) * left / i128::from(within.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests;
