//! When the words of keys were empty lately.
//!
//! A change of another node arrives after its date. Had it been applied at its date, a part of it
//! would have drained while the word was empty since then. `TAT = max(TAT, date) + debt` adds all
//! of it to a word that is in use again. So of keys that change the core keeps the TAT without
//! provisional debt, and the *idle spans* in which that TAT lay in the past. A change fills the
//! spans after its date, the earliest first, and what does not fit into any is added. The TAT is
//! then, whatever the order of arrival, what it would be in the order of dates.
//!
//! With refunds that holds of the changes in the [history](super::history). A charge dated before
//! the history begins, or before the word was moved by something without a date, fills spans; the
//! part that has not drained when the history begins may be given back by a refund in it. A refund
//! dated before the history is taken from the TAT as it is, and from charges that come later and
//! are dated up to [`REFUND_FIRST`] earlier: a node may receive a refund before the charge. Clocks
//! may be read so that the charge seems to be later than its refund: up to [`MISREAD`], a charge of
//! a third node is taken for what was given back if it is about as much as was not owed.
//!
//! Of a key that is not followed nothing is known, and a change is added whole. Of the time before
//! the first span nothing is known either: no part of a change drains in it. What was consumed here
//! since the last flush is in the word and not yet in the TAT kept here: where that TAT lay in the
//! past at the flush, the word counts as empty until the flush, and what does not fit into that
//! span is added whole. So a word exceeds what the order of dates makes of it by a flush interval
//! at most: while it does, the spans after the last flush are not those of the word. It lacks as
//! much at most, where what was consumed since the flush has drained again. A key that is in use
//! when it is first followed has that use in its TAT already; the flush that counts it again lowers
//! the TAT to what the word shows.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::change::Change;
use super::delta::{Delta, KeyId, signed, word_id};
use super::history::History;
use super::id::Origin;
use super::time::{Nanos, SECOND};
use super::unplayed::Replayed;

/// Keys that are followed, at most: with their spans and changes at most 12 MiB.
const MAX_KEYS: usize = 2_048;
/// Idle spans of a key, at most: the oldest are forgotten first.
const MAX_SPANS: usize = 128;
/// How long after it has drained a key is followed, at least.
const KEEP: Nanos = 2 * SECOND;
/// How much later than a refund what it gives back may come, of a key whose history begins after
/// the refund.
const REFUND_FIRST: Nanos = 2 * SECOND;
/// By how much a word may seem to owe more than its TAT here, for the time that reading it takes.
const READING: i64 = 50_000;
/// How much later than its date something may have been given back that was not owed then, at most.
/// Two nodes that reset a key at once give back the same twice: what a third one sends as consumed
/// since a time within this after that is taken for it, if it is about as much.
const MISREAD: i64 = 2_000_000;
/// A key that was not used for this long makes room too: what it owes may take years to drain.
const KEEP_UNUSED: Nanos = 10 * SECOND;
/// How often keys that have drained make room, at most.
const SWEEP_EVERY: Nanos = SECOND / 10;

#[derive(Debug, Default)]
pub(super) struct IdleSpans {
    keys: FxHashMap<KeyId, Track>,
    sweep_at: Nanos,
}

/// A key of which nothing was received for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unobserved {
    /// Since when.
    pub since: Nanos,
    /// What its word owes.
    pub debt: Nanos,
    /// How old a change may be that is charged whole to a word in debt.
    pub grace: Nanos,
}

/// What was given back, by which origin, and how much later than its date that may have been.
#[derive(Clone, Copy, Debug)]
struct Unowed {
    change: Change,
    by: Origin,
    leeway: i64,
}

#[derive(Debug)]
struct Track {
    tat: i64,
    /// From when to when the word was empty, in order.
    spans: VecDeque<(i64, i64)>,
    /// All of them since then.
    since: i64,
    history: History,
    /// What was given back last that the word did not owe, as far as is known.
    unowed: Option<Unowed>,
    /// Nothing was flushed since it is followed: the TAT, as its word's, may contain more than what
    /// was flushed before.
    is_new: bool,
    used_at: Nanos,
}

impl IdleSpans {
    /// This node has consumed this, after which the key owes `debt`.
    pub(super) fn consumed(&mut self, now: Nanos, delta: &Delta, debt: impl FnOnce() -> Nanos) {
        let present = signed(now);
        if let Some(track) = self.keys.get_mut(&delta.word_id()) {
            track.used_at = now;
            for change in delta.change.parts(present) {
                track.insert(change);
            }
            if std::mem::take(&mut track.is_new) {
                track.settle(present, signed(debt()), delta.change.debt < 0);
            }
            return;
        }
        // A spray of keys that find no place is worth no reading of its words.
        if !self.has_room(now) {
            return;
        }
        // Its spans in this time are as good as before; of a word that is empty again it is not
        // known since when.
        let debt = signed(debt());
        let since = if debt > 0 { delta.change.date.min(present) } else { present };
        self.follow(now, delta.word_id(), Track::new(present.saturating_add(debt), since));
    }

    /// Another node has consumed this. What it adds to the word, which owes `debt`. All that was
    /// consumed here before `flushed` is known.
    pub(super) fn landed(
        &mut self,
        now: Nanos,
        flushed: Nanos,
        (origin, delta): (Origin, &Delta),
        debt: Nanos,
    ) -> Change {
        let change = delta.change;
        if let Some(track) = self.keys.get_mut(&delta.word_id()) {
            let flushed = signed(flushed);
            track.used_at = now;
            track.empty_until(flushed);
            let before = track.tat;
            let change = track.land(change, origin);
            if change.debt < 0 {
                // What was consumed here since the flush, and is not in the TAT yet, stays.
                track.empty_until(flushed);
                return Change { debt: track.tat - before, ..change };
            }
            // What came before has drained until then, also of a word that is still empty: it is
            // not known to a table, which keeps nothing that has drained.
            let begins = signed(now).min(track.tat - change.debt);
            return Change { date: change.date.max(begins), ..change };
        }
        let tat = if debt > 0 { signed(now.saturating_add(debt)) } else { change.date };
        let track = if change.debt < 0 {
            let mut track = Track::new(tat, signed(now));
            track.give_back_before(change);
            track
        } else {
            Track::new(change.apply(tat), signed(now))
        };
        self.follow(now, delta.word_id(), track);
        change
    }

    /// When a change of another node was made that gives something back, if its date may be too
    /// early by `leeway`: see [`History::owing`].
    pub(super) fn date(&mut self, (by, delta): (Origin, &Delta), leeway: i64) -> i64 {
        let change = delta.change;
        let Some(track) = self.keys.get_mut(&delta.word_id()) else { return change.date };
        track.reach(change.date);
        let date = track.history.owing(change, leeway);
        if date.is_none() {
            track.unowed = Some(Unowed { change, by, leeway: leeway.min(MISREAD) });
        }
        date.unwrap_or(change.date)
    }

    /// Whether the word of a key, which owes `debt`, contains what is not in its TAT here, or none
    /// is kept.
    pub(super) fn is_behind(&self, now: Nanos, id: KeyId, debt: Nanos) -> bool {
        let track = self.keys.get(&word_id(id));
        let tat = signed(now.saturating_add(debt));
        debt > 0 && track.is_none_or(|track| tat > track.tat.saturating_add(READING))
    }

    /// Follows a key before a change of another node that gives something back. No more of that has
    /// an effect than the word owes, which is known when what has been recorded until then is
    /// flushed.
    pub(super) fn begin(&mut self, now: Nanos, delta: &Delta, debt: Nanos) {
        if self.keys.contains_key(&delta.word_id()) {
            return;
        }
        let present = signed(now);
        let tat = match signed(debt) {
            0 => delta.change.date.min(present),
            debt => present.saturating_add(debt),
        };
        self.follow(now, delta.word_id(), Track::new(tat, present));
    }

    /// What other nodes consumed while this one received nothing of them, in the order of dates.
    /// What it adds to the word: one in debt has been so since then, and one that is empty is taken
    /// to have been empty then, unless more is known.
    pub(super) fn replayed(
        &mut self,
        now: Nanos,
        id: KeyId,
        Unobserved { since, debt, grace }: Unobserved,
        all: &[Replayed],
    ) -> i64 {
        let (present, since) = (signed(now), signed(since));
        let mut track = self.keys.remove(&word_id(id)).unwrap_or_else(|| {
            let tat = if debt > 0 { present.saturating_add(signed(debt)) } else { since };
            Track::new(tat, since)
        });
        let before = track.tat.max(present);
        let known_since = track.since;
        // Of a word that owed something then it is not known that it was empty right before.
        let grace = if track.owed_at_first() { signed(grace) } else { 0 };
        let lapsed = known_since.saturating_sub(grace);
        let earlier = all.iter().filter_map(|replayed| replayed.change_before(lapsed));
        if let Some(sum) = earlier.reduce(Change::then) {
            // What had drained by then has left nothing.
            track.insert(Change { debt: sum.left(known_since), date: known_since });
        }
        for replayed in all {
            match *replayed {
                Replayed::Change(change) if change.date < lapsed => {}
                Replayed::Change(change) => _ = track.insert(change),
                Replayed::Level { at, tat } => track.raise(at, tat),
            }
        }
        let added = track.tat.max(present) - before;
        self.follow(now, word_id(id), track);
        added
    }

    /// The word of a key was moved.
    pub(super) fn shifted(&mut self, now: Nanos, id: KeyId, by: i64) {
        if let Some(track) = self.keys.get_mut(&word_id(id)) {
            let last = track.spans.back().map_or(i64::MIN, |(_, end)| *end);
            track.tat = track.tat.saturating_add(by).max(last);
            track.history = History::new(track.tat, signed(now));
        }
    }

    /// This was added to the word of a key at present. All that was consumed here before `flushed`
    /// is known.
    pub(super) fn added(&mut self, now: Nanos, flushed: Nanos, id: KeyId, debt: i64) {
        if let Some(track) = self.keys.get_mut(&word_id(id)) {
            track.empty_until(signed(flushed));
            track.tat = track.tat.max(signed(now)).saturating_add(debt);
            track.history = History::new(track.tat, signed(now));
        }
    }

    /// Whether all spans of a key since then are known.
    pub(super) fn reach(&self, id: KeyId, since: i64) -> bool {
        self.keys.get(&word_id(id)).is_some_and(|track| track.since <= since)
    }

    /// The word of a key has changed by what is not known to be of any date: it starts anew.
    pub(super) fn forget(&mut self, id: KeyId) {
        self.keys.remove(&word_id(id));
    }

    /// Until when the word of a key was empty last, as far as is known.
    pub(super) fn last_end(&self, id: KeyId) -> Option<i64> {
        self.keys.get(&word_id(id)).and_then(|track| track.spans.back()).map(|(_, end)| *end)
    }

    fn follow(&mut self, now: Nanos, id: KeyId, track: Track) {
        if self.has_room(now) {
            self.keys.insert(id, Track { used_at: now, ..track });
        }
    }

    fn has_room(&mut self, now: Nanos) -> bool {
        if self.keys.len() >= MAX_KEYS && self.sweep_at <= now {
            self.sweep_at = now.saturating_add(SWEEP_EVERY);
            let (least, used) = (signed(now.saturating_sub(KEEP)), now.saturating_sub(KEEP_UNUSED));
            self.keys.retain(|_, track| track.tat >= least && track.used_at >= used);
        }
        self.keys.len() < MAX_KEYS
    }
}

impl Track {
    /// Of which no span is known.
    fn new(tat: i64, since: i64) -> Self {
        let history = History::new(tat, since);
        let spans = VecDeque::new();
        Self { tat, spans, since, history, unowed: None, is_new: true, used_at: 0 }
    }

    /// Whether the word owed something at the beginning of the time of which all spans are known.
    fn owed_at_first(&self) -> bool {
        let known = self.spans.iter().find(|(_, end)| *end > self.since);
        known.map_or(self.tat, |(start, _)| *start) > self.since
    }

    /// What a change of another node adds. It may be what was given back before it came, which is
    /// dated a little too early where clocks are read wrong. What one node sends is in order.
    fn land(&mut self, change: Change, origin: Origin) -> Change {
        let is_it = |unowed: &mut Unowed| {
            let later = change.date.saturating_sub(unowed.change.date);
            change.debt > 0 && unowed.by != origin && (1..=unowed.leeway).contains(&later)
        };
        let since = self.history.since();
        let Some(unowed) = self.unowed.take_if(is_it).filter(|it| it.change.date >= since) else {
            return self.insert(change);
        };
        self.empty_until(change.date);
        let (before, mut is_owed) = (self.tat, false);
        self.replay(unowed.change.date, |history| {
            is_owed = history.add_owed(change, unowed.change, unowed.leeway);
        });
        self.unowed = (!is_owed).then_some(unowed);
        Change { debt: self.tat - before, ..change }
    }

    /// What a change adds.
    fn insert(&mut self, change: Change) -> Change {
        let Change { debt, date } = change;
        self.empty_until(date);
        if !self.history.reaches(date) && debt >= 0 {
            self.empty_until(self.history.since());
        }
        let before = self.tat;
        if !self.history.reaches(date) {
            if debt < 0 {
                self.give_back_before(change);
            } else {
                self.charge_before(change);
            }
        } else if debt >= 0 && !self.history.gave_back_after(date) {
            self.tat = before.saturating_add(self.fill(debt, (date, i64::MAX)));
            self.history.add(change);
        } else {
            self.replay(date, |history| history.add(change));
        }
        Change { debt: self.tat - before, date }
    }

    /// Takes off what was given back before the history begins.
    fn give_back_before(&mut self, change: Change) {
        self.reach(change.date);
        self.replay(change.date, |history| history.add(change));
    }

    /// Has the history reach a date at which something is given back. What that was may come yet,
    /// from another node: the history begins so much earlier that it is taken from that too.
    fn reach(&mut self, date: i64) {
        if !self.history.reaches(date) {
            let since = date.saturating_sub(signed(REFUND_FIRST));
            self.history.begin_at(since, self.spans.iter().copied());
        }
    }

    /// Charges what was consumed before the history begins, as far as it has not drained by then:
    /// that may have been given back since.
    fn charge_before(&mut self, Change { debt, date }: Change) {
        let since = self.history.since();
        let left = self.fill(debt, (date, since));
        if self.history.gave_back_after(since.saturating_sub(1)) {
            self.replay(since, |history| history.charge_before(left));
        } else {
            self.history.charge_before(left);
            self.tat = self.tat.saturating_add(self.fill(left, (since, i64::MAX)));
        }
    }

    /// Changes the history from a date on: the TAT changes as the history's does, and the spans
    /// after the date are the history's.
    fn replay(&mut self, date: i64, alter: impl FnOnce(&mut History)) {
        let before = self.history.tat().max(date);
        alter(&mut self.history);
        let by = self.history.tat().max(date) - before;
        // A span that ends at the TAT lasts: it begins where the word is empty after the replay.
        let end = self.tat;
        let last = self.spans.back().copied().filter(|(_, last)| *last == end);
        let tat = last.map_or(end, |(start, _)| start.max(date));
        self.tat = tat.saturating_add(by);
        self.spans.retain(|(start, _)| *start < date);
        if let Some((_, last)) = self.spans.back_mut() {
            *last = date.min(*last);
        }
        for (start, end) in self.history.spans_after(date) {
            match self.spans.back_mut() {
                Some((_, last)) if *last == start => *last = end,
                _ => self.spans.push_back((start, end)),
            }
        }
        self.tat = self.spans.back().map_or(self.tat, |(_, end)| self.tat.max(*end));
        if last.is_some() {
            self.empty_until(end);
        }
        while self.forget_beyond_bound() > 0 {}
    }

    /// The word owes this. It may contain what is flushed next, so it is only a bound of the TAT,
    /// except where something was given back, which would be taken off twice.
    fn settle(&mut self, present: i64, debt: i64, has_given_back: bool) {
        let last = self.spans.back().map_or(i64::MIN, |(_, end)| *end);
        let tat = present.saturating_add(debt).max(last);
        if self.tat > tat || has_given_back && debt > 0 {
            self.history.add_before(tat.saturating_sub(self.tat));
            self.tat = tat;
        }
    }

    /// At a time the TAT was at least this: of what came before it is not known when the word was
    /// empty.
    fn raise(&mut self, at: i64, tat: i64) {
        if tat > self.tat {
            (self.tat, self.since) = (tat, self.since.max(at.min(tat)));
            self.history = History::new(tat, at);
        }
    }

    /// The word was empty from its TAT to then, if that is later.
    fn empty_until(&mut self, end: i64) {
        if end <= self.tat {
            return;
        }
        match self.spans.back_mut() {
            Some((_, last)) if *last == self.tat => *last = end,
            _ => self.spans.push_back((self.tat, end)),
        }
        self.tat = end;
        self.forget_beyond_bound();
    }

    /// Forgets the oldest span if they are more than is kept; how many were forgotten.
    fn forget_beyond_bound(&mut self) -> usize {
        if self.spans.len() <= MAX_SPANS {
            return 0;
        }
        let Some((_, end)) = self.spans.pop_front() else { return 0 };
        self.since = self.since.max(end);
        1
    }

    /// Fills spans between two dates. What of the debt finds none.
    fn fill(&mut self, debt: i64, (date, until): (i64, i64)) -> i64 {
        // Most changes come after all spans, and read the last one alone.
        if self.spans.back().is_none_or(|(_, end)| *end <= date) {
            return debt;
        }
        let mut left = debt;
        let mut at = self.spans.partition_point(|(_, end)| *end <= date);
        while left > 0
            && let Some((start, end)) = self.spans.get(at).copied()
        {
            let from = start.max(date);
            if from >= until {
                break;
            }
            let taken = left.min(end.min(until) - from);
            left -= taken;
            let rest = [(start, from), (from + taken, end)].into_iter();
            let mut rest = rest.filter(|(start, end)| start < end);
            match (rest.next(), rest.next()) {
                (Some(first), Some(second)) => {
                    self.spans[at] = first;
                    self.spans.insert(at + 1, second);
                    at += 2 - self.forget_beyond_bound();
                }
                (Some(only), None) => {
                    self.spans[at] = only;
                    at += 1;
                }
                _ => _ = self.spans.remove(at),
            }
        }
        left
    }
}

#[cfg(test)]
mod replayed_tests;
#[cfg(test)]
mod tests;
