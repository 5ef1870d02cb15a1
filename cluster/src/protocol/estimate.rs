//! How much was admitted beyond a limit: what a central bucket would have refused.
//!
//! A node that has all batches of all nodes, with their dates, can play them back: into one bucket,
//! in the order in which they were consumed, as a central limiter would have seen them. Where that
//! bucket owes more than the burst tolerance, nodes have admitted too much. A batch is played back
//! a while after its time ([`HOLD`]), when those of the other nodes have arrived too, and its debt
//! is spread evenly over the time since the batch before it.
//!
//! Only batches are played back. So what a node does to its own words is not counted: shifts
//! towards other nodes, debt that came late and was reduced, states that were taken over. Every
//! node that has all batches comes to the same figure; the figures of nodes are not to be added up.
//!
//! Keys are followed from when more than half of the bucket is in use until they are idle. Where a
//! playback begins, the word says what the bucket owed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::bounds::MAX_ORIGINS;
use super::delta::{Delta, KeyId, signed};
use super::id::Origin;
use super::time::{Nanos, SECOND};

/// Keys that are followed, at most: up to 8 MiB.
const MAX_FOLLOWED: usize = 512;
/// Keys that wait to be followed, at most.
const MAX_WANTED: usize = 64;
/// Limits of which figures are kept, at most: a service may make many more, one after the other.
const MAX_LIMITS: usize = 1 << 10;
/// How long a batch waits to be played back, at least.
const HOLD: Nanos = SECOND / 5;
/// And at most.
const MAX_HOLD: Nanos = SECOND / 2;
/// How far back a playback begins.
pub(super) const HISTORY: Nanos = SECOND / 2;
/// A word that is ahead by less than this share of the burst tolerance, as a divisor, was idle.
const IDLE_DIVISOR: i64 = 8;
/// How often batches are played back.
const PLAY_EVERY: Nanos = SECOND / 10;
/// A key in debt that no node uses is forgotten after this time.
const FORGET_AFTER: Nanos = 10 * SECOND;
/// Slots of a playback, at most; their width is a part of the burst tolerance within bounds.
const MAX_SLOTS: usize = 2_048;
const SLOTS_OF_TOLERANCE: i64 = 256;
const LEAST_WIDTH: i64 = 300_000;
const MOST_WIDTH: i64 = 50_000_000;
// All that waits has a slot.
const _: () = assert!(LEAST_WIDTH * MAX_SLOTS as i64 >= (MAX_HOLD + PLAY_EVERY) as i64);
const _: () = assert!(MAX_HOLD >= HISTORY);
// A key that is followed has figures.
const _: () = assert!(MAX_FOLLOWED <= MAX_LIMITS);
/// The worst moment is remembered for this long, at least; twice as long at most.
const REMEMBERED: Nanos = 60 * SECOND;

/// What all nodes admitted beyond a limit, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverAdmission {
    /// The debt of what a central limiter would have refused of all that was admitted, of all keys:
    /// one that does not charge what it refuses. What nodes admit beyond a bucket is paid back, so
    /// under lasting demand it does not go on growing.
    pub total: Duration,
    /// The most that a key owed beyond the burst tolerance in the last one to two minutes.
    pub worst: Duration,
}

/// The playbacks of all keys that are followed.
#[derive(Debug, Default)]
pub(super) struct Estimates {
    keys: FxHashMap<KeyId, Playback>,
    wanted: BTreeSet<KeyId>,
    limits: BTreeMap<u64, Excess>,
    sealed: BTreeMap<Origin, SealDates>,
    /// Times a key was not tracked because there was no room.
    left_out: u64,
    play_at: Nanos,
}

/// When the last batches of an origin were sealed.
#[derive(Clone, Copy, Debug)]
struct SealDates {
    before: i64,
    last: i64,
}

#[derive(Debug, Default)]
struct Excess {
    total: Nanos,
    present: Nanos,
    before: Nanos,
    since: Nanos,
}

/// Debt that was consumed in a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) debt: i64,
}

impl Estimates {
    /// The times of a batch of this origin that was sealed at `at`: since the one before.
    pub(super) fn since(&mut self, origin: Origin, at: i64) -> i64 {
        if self.sealed.len() >= MAX_ORIGINS && !self.sealed.contains_key(&origin) {
            let oldest = self.sealed.iter().min_by_key(|(_, dates)| dates.last);
            let oldest = oldest.map(|(origin, _)| *origin);
            oldest.and_then(|oldest| self.sealed.remove(&oldest));
        }
        let dates = self.sealed.entry(origin).or_insert(SealDates { before: at, last: at });
        // A flush makes several batches of the same time, if need be.
        if at > dates.last {
            *dates = SealDates { before: dates.last, last: at };
        }
        dates.before
    }

    /// Adds what a batch says of keys that are followed.
    pub(super) fn add(&mut self, now: Nanos, since: i64, at: i64, deltas: &[Delta]) {
        if self.keys.is_empty() {
            return;
        }
        for delta in deltas {
            if let Some(playback) = self.keys.get_mut(&delta.id()) {
                playback.used_at = now;
                playback.add(piece(delta, since, at));
            }
        }
    }

    /// This node begins anew under another hash of keys; figures stay.
    pub(super) fn start_over(&mut self) {
        self.keys.clear();
        self.wanted.clear();
        self.sealed.clear();
    }

    pub(super) fn follows(&self, id: KeyId) -> bool {
        self.keys.contains_key(&id)
    }

    /// More than half of a key's bucket is in use, as another node has reported.
    pub(super) fn want(&mut self, id: KeyId) {
        if self.wanted.contains(&id) {
            return;
        }
        if self.wanted.len() < MAX_WANTED && self.keys.len() + self.wanted.len() < MAX_FOLLOWED {
            self.wanted.insert(id);
        } else {
            self.left_out += 1;
        }
    }

    /// The next key to begin with.
    pub(super) fn next_wanted(&mut self) -> Option<KeyId> {
        self.wanted.pop_first()
    }

    /// Begins to follow a key, whose word's TAT is `tat` and contains all of `pieces`, those since
    /// [`HISTORY`].
    pub(super) fn follow(
        &mut self,
        now: Nanos,
        id: KeyId,
        tolerance: Nanos,
        tat: i64,
        pieces: &[Piece],
    ) {
        let begin = signed(now.saturating_sub(HISTORY));
        let tolerance = signed(tolerance);
        let before = owed_before(begin, tat, tolerance, pieces);
        let (begin, tat, pieces) = if before <= begin.saturating_add(tolerance) {
            (begin, before, pieces)
        } else {
            // The word has come by debt that no batch reports, as of a state: it begins with that.
            let now = signed(now);
            (now, tat.min(now.saturating_add(tolerance)), [].as_slice())
        };
        let width = (tolerance / SLOTS_OF_TOLERANCE).clamp(LEAST_WIDTH, MOST_WIDTH);
        let slots = VecDeque::new();
        let mut playback = Playback {
            tolerance,
            kept: tat,
            policed: tat,
            width,
            upto: begin,
            slots,
            used_at: now,
        };
        for piece in pieces {
            playback.add(*piece);
        }
        self.keys.insert(id, playback);
    }

    /// Plays back what is old enough; `lag` is how old batches are when they arrive, `tolerance`
    /// what that of a limit is, which may change.
    pub(super) fn play(
        &mut self,
        now: Nanos,
        lag: Nanos,
        tolerance: impl Fn(u64) -> Option<Nanos>,
    ) {
        if now < self.play_at {
            return;
        }
        self.play_at = now + PLAY_EVERY;
        let hold = HOLD.saturating_add(lag.saturating_mul(2)).min(MAX_HOLD);
        let until = signed(now.saturating_sub(hold));
        let limits = &mut self.limits;
        for limit in limits.values_mut() {
            limit.forget(now);
        }
        self.keys.retain(|(limit, _), playback| {
            if let Some(tolerance) = tolerance(*limit) {
                playback.tolerance = signed(tolerance);
            }
            let limit = limits.entry(*limit).or_default();
            playback.play(until, |refused, excess| limit.note(refused, excess));
            let is_idle = playback.slots.is_empty() && playback.kept <= playback.upto;
            !is_idle && now.saturating_sub(playback.used_at) < FORGET_AFTER
        });
        self.forget_limits(|limit| tolerance(limit).is_some());
    }

    /// Beyond the bound, forgets the figures of limits without a key that is followed: of those
    /// that exist no more first, then those with the lowest ones.
    fn forget_limits(&mut self, exists: impl Fn(u64) -> bool) {
        let over = self.limits.len().saturating_sub(MAX_LIMITS);
        if over == 0 {
            return;
        }
        let followed: BTreeSet<u64> = self.keys.keys().map(|(limit, _)| *limit).collect();
        let others = self.limits.iter().filter(|(limit, _)| !followed.contains(limit));
        let mut others: Vec<_> =
            others.map(|(limit, of)| (exists(*limit), of.worst(), of.total, *limit)).collect();
        others.sort_unstable();
        for (.., limit) in others.into_iter().take(over) {
            self.limits.remove(&limit);
        }
    }

    /// When to play back next, or to forget the worst moments; `None` when there is nothing.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let forget = |limit: &Excess| {
            let due = limit.since.saturating_add(REMEMBERED).max(self.play_at);
            (limit.worst() > 0).then_some(due)
        };
        let play = (!self.keys.is_empty()).then_some(self.play_at);
        play.into_iter().chain(self.limits.values().filter_map(forget)).min()
    }

    /// The figures of a limit.
    pub(super) fn of(&self, limit: u64) -> OverAdmission {
        self.limits.get(&limit).map_or_else(OverAdmission::default, |beyond| OverAdmission {
            total: Duration::from_nanos(beyond.total),
            worst: Duration::from_nanos(beyond.worst()),
        })
    }

    /// The limits of which there are figures.
    pub(super) fn limits(&self) -> impl Iterator<Item = u64> {
        self.limits.keys().copied()
    }

    /// Times a key was not tracked because there was no room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Excess {
    fn worst(&self) -> Nanos {
        self.present.max(self.before)
    }

    /// Forgets the worst moment of the minute before last.
    fn forget(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.since);
        if passed >= REMEMBERED {
            let before = if passed >= 2 * REMEMBERED { 0 } else { self.present };
            (self.before, self.present, self.since) = (before, 0, now);
        }
    }

    fn note(&mut self, refused: Nanos, excess: Nanos) {
        self.total = self.total.saturating_add(refused);
        self.present = self.present.max(excess);
    }
}

/// The TAT of a bucket before these pieces, which a word with the TAT `tat` contains.
fn owed_before(begin: i64, tat: i64, tolerance: i64, pieces: &[Piece]) -> i64 {
    // Had it been idle then. A word may be ahead of that by what drained alone at its beginning,
    // when each node knew of its own use only.
    let mut order: Vec<&Piece> = pieces.iter().collect();
    order.sort_unstable_by_key(|piece| piece.from);
    let idle =
        order.iter().fold(begin, |tat, piece| tat.max(piece.from).saturating_add(piece.debt));
    if tat.saturating_sub(idle) <= tolerance / IDLE_DIVISOR {
        return begin;
    }
    let consumed = pieces.iter().fold(0_i64, |sum, piece| sum.saturating_add(piece.debt));
    tat.saturating_sub(consumed)
}

/// What a delta of a batch says: since when and until when its debt was consumed.
pub(super) fn piece(delta: &Delta, since: i64, at: i64) -> Piece {
    let change = delta.change;
    // The date and the debt end where an idle key's TAT does: at the last use, if less was consumed
    // than drained. Where they reach well beyond the batch more was, and the date is that of the
    // first use.
    let is_steep = change.tat() > at.saturating_add(at.saturating_sub(since) / 4);
    // What waited to be sent is older than the batch before.
    let from = if is_steep { change.date } else { since.min(change.date) }.min(at);
    Piece { from, to: change.tat().clamp(from, at), debt: change.debt }
}

/// The central bucket of one key.
#[derive(Debug)]
struct Playback {
    tolerance: i64,
    /// The TAT of a bucket that is charged all that was consumed.
    kept: i64,
    /// The TAT of one that refuses what exceeds the tolerance.
    policed: i64,
    /// Up to when it is played back: the beginning of the first slot.
    upto: i64,
    width: i64,
    /// Debt that was consumed in each stretch of time from there on.
    slots: VecDeque<i64>,
    used_at: Nanos,
}

impl Playback {
    /// Spreads a piece over its slots.
    fn add(&mut self, piece: Piece) {
        let end = self.upto.saturating_add(self.width.saturating_mul(MAX_SLOTS as i64)) - 1;
        let from = piece.from.clamp(self.upto, end);
        let to = piece.to.clamp(from, end);
        let (first, last) = (self.slot(from), self.slot(to));
        if self.slots.len() <= last {
            self.slots.resize(last + 1, 0);
        }
        let span = i128::from(to - from).max(1);
        let mut rest = piece.debt;
        for slot in first..last {
            let begin = from.max(self.upto + slot as i64 * self.width);
            let end = self.upto + (slot as i64 + 1) * self.width;
            let part = i128::from(piece.debt) * i128::from(end - begin) / span;
            let part = i64::try_from(part).unwrap_or(0);
            self.slots[slot] = self.slots[slot].saturating_add(part);
            rest = rest.saturating_sub(part);
        }
        self.slots[last] = self.slots[last].saturating_add(rest);
    }

    fn slot(&self, at: i64) -> usize {
        ((at - self.upto) / self.width) as usize
    }

    /// Plays back the slots that end by `until`; `note` receives what a central limiter would have
    /// refused, and by how much the bucket exceeds its tolerance.
    fn play(&mut self, until: i64, mut note: impl FnMut(Nanos, Nanos)) {
        while self.upto.saturating_add(self.width) <= until {
            let Some(debt) = self.slots.pop_front() else {
                // Nothing is known of what comes after.
                self.upto = until;
                return;
            };
            let end = self.upto + self.width;
            if debt != 0 {
                // On an idle key it is consumed in the middle of the slot.
                let idle = self.upto + self.width / 2;
                let excess = |tat: i64| tat.saturating_sub(end).saturating_sub(self.tolerance);
                self.kept = self.kept.max(idle).saturating_add(debt);
                self.policed = self.policed.max(idle).saturating_add(debt);
                let (beyond, refused) = (excess(self.kept).max(0), excess(self.policed).max(0));
                self.policed -= refused;
                if beyond > 0 || refused > 0 {
                    note(refused as Nanos, beyond as Nanos);
                }
            }
            self.upto = end;
        }
    }
}

#[cfg(test)]
mod tests;
