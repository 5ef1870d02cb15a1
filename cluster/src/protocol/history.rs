//! What changed a key lately, in the order of dates.
//!
//! A change that gives back has an effect up to what the word owed at its date: nodes that reset a
//! key at once, before they know of each other, give back the same debt. In the order of dates the
//! later one finds little of it; applied as it comes, it would take what was consumed since. So
//! where something is given back, or comes late and something was given back after its date, the
//! word becomes what the changes that are kept here make of it, in the order of their dates.
//!
//! Dates are as good as clocks are read. A node gives back what its word owes, so what another node
//! consumed a moment before may seem to come after it, and would stay. [`History::owing`] finds the
//! date at which that was there, [`History::add_owed`] once it comes.

use std::collections::VecDeque;

use super::change::Change;

/// Changes of a key, at most: those before are one TAT. With one more, memory of 128 is allocated.
const MAX_CHANGES: usize = 127;
/// The part of what is given back, as a divisor, by which the words of two nodes may differ there.
const DIFFERENCE: i64 = 8;

#[derive(Debug)]
pub(super) struct History {
    /// The TAT before all changes, which contains what is dated before `since`; also what is dated
    /// after it, where the history has been begun earlier and nothing more was known.
    first: i64,
    since: i64,
    /// In the order of their dates.
    changes: VecDeque<Change>,
}

/// So much of what is given back as a word owes at least where it is owed.
fn most_of(given_back: i64) -> i64 {
    given_back - given_back / DIFFERENCE
}

/// The TAT after a change, of which no more has an effect than the word owed at its date.
fn apply(change: Change, tat: i64) -> i64 {
    match change {
        Change { debt, date } if debt < 0 => tat.saturating_add(debt).max(date.min(tat)),
        _ => change.apply(tat),
    }
}

impl History {
    pub(super) fn new(tat: i64, since: i64) -> Self {
        Self { first: tat, since, changes: VecDeque::new() }
    }

    /// Begins earlier, if it does not yet: of what was before, it is known when the word was empty.
    /// What was consumed between two such spans counts as consumed at the end of the first one.
    pub(super) fn begin_at(
        &mut self,
        since: i64,
        spans: impl DoubleEndedIterator<Item = (i64, i64)>,
    ) {
        if self.since <= since {
            return;
        }
        for (start, end) in spans.rev().skip_while(|(start, _)| *start >= self.since) {
            if end <= since || self.changes.len() >= MAX_CHANGES {
                break;
            }
            if self.first > end {
                let debt = self.first.saturating_sub(end);
                self.changes.push_front(Change { debt, date: end });
            }
            self.first = start;
        }
        self.since = since;
    }

    /// Whether all changes are kept that are dated then or later.
    pub(super) fn reaches(&self, date: i64) -> bool {
        self.since <= date
    }

    /// From when on all changes are kept.
    pub(super) fn since(&self) -> i64 {
        self.since
    }

    /// Adds what of something that was consumed before that had not drained by then.
    pub(super) fn charge_before(&mut self, left: i64) {
        self.first = self.first.max(self.since).saturating_add(left);
    }

    /// Adds what is dated where the history reaches.
    pub(super) fn add(&mut self, change: Change) {
        if change.debt == 0 {
            return;
        }
        self.changes.insert(self.first_after(change.date), change);
        if self.changes.len() > MAX_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.first = apply(oldest, self.first);
            self.since = self.since.max(oldest.date.saturating_add(1));
        }
    }

    /// Adds what is dated before that, which raises or lowers the word by this.
    pub(super) fn add_before(&mut self, by: i64) {
        self.first = self.first.saturating_add(by);
    }

    pub(super) fn tat(&self) -> i64 {
        self.changes.iter().fold(self.first, |tat, change| apply(*change, tat))
    }

    /// From when to when the word was empty, up to each change after a date.
    pub(super) fn spans_after(&self, date: i64) -> impl Iterator<Item = (i64, i64)> {
        let mut tat = self.first;
        self.changes.iter().filter_map(move |change| {
            let (start, end) = (tat.max(date), change.date);
            tat = apply(*change, tat).max(change.date);
            (start < end).then_some((start, end))
        })
    }

    /// The first date at which the word owed what a change gives back, from its own on and at most
    /// `leeway` later, as far as is known. Where a node gave back what had been given back already,
    /// as it had not received that, there is none unless about as much was consumed then.
    pub(super) fn owing(&self, change: Change, leeway: i64) -> Option<i64> {
        let least = most_of(change.debt.saturating_neg());
        let owes = |tat: i64, date| tat.saturating_sub(date) >= least;
        let mut tat = self.tat_at(change.date);
        if owes(tat, change.date) {
            return Some(change.date);
        }
        let until = change.date.saturating_add(leeway);
        let later = self.changes.range(self.first_after(change.date)..);
        let later = later.take_while(|later| later.date <= until);
        let owing = |later: &&Change| {
            tat = apply(**later, tat);
            owes(tat, later.date)
        };
        { later }.find(owing).map(|later| later.date)
    }

    /// Adds what was consumed after one of the changes, which gives something back that was not
    /// owed at its date: if it is about as much as was not, that is dated where it was owed.
    /// Whether it is.
    pub(super) fn add_owed(&mut self, later: Change, given_back: Change, leeway: i64) -> bool {
        let Some(at) = self.changes.iter().position(|known| *known == given_back) else {
            self.add(later);
            return false;
        };
        self.changes.remove(at);
        let owed = self.tat_at(given_back.date).saturating_sub(given_back.date).max(0);
        let is_it = later.debt >= most_of(given_back.debt.saturating_neg().saturating_sub(owed));
        self.add(later);
        let date = if is_it { self.owing(given_back, leeway) } else { None };
        self.add(Change { date: date.unwrap_or(given_back.date), ..given_back });
        date.is_some()
    }

    /// The TAT after all that is dated no later.
    fn tat_at(&self, date: i64) -> i64 {
        let before = self.changes.range(..self.first_after(date));
        before.fold(self.first, |tat, change| apply(*change, tat))
    }

    /// Whether something was given back after a date.
    pub(super) fn gave_back_after(&self, date: i64) -> bool {
        self.changes.range(self.first_after(date)..).any(|change| change.debt < 0)
    }

    /// The place of the first change after a date. Most changes come in the order of their dates:
    /// then only the last one is read.
    fn first_after(&self, date: i64) -> usize {
        if self.changes.back().is_none_or(|last| last.date <= date) {
            return self.changes.len();
        }
        self.changes.partition_point(|change| change.date <= date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn change(debt: i64, date: i64) -> Change {
        Change::new(debt * MS, date * MS)
    }

    fn history(changes: &[Change]) -> History {
        let mut history = History::new(0, 0);
        for change in changes {
            history.add(*change);
        }
        history
    }

    #[test]
    fn what_is_given_back_was_owed_at_its_date() {
        let used = [change(60, 100), change(10, 130)];
        for (given_back, tat, spans) in [
            (change(-20, 120), 150, vec![(0, 100)]),
            (change(-60, 120), 140, vec![(0, 100), (120, 130)]),
            (change(-90, 120), 140, vec![(0, 100), (120, 130)]),
            (change(-60, 140), 140, vec![(0, 100)]),
            (change(-60, 90), 170, vec![(0, 90), (90, 100)]),
        ] {
            let history = history(&[used[0], used[1], given_back]);
            let in_ms = |(start, end): (i64, i64)| (start / MS, end / MS);
            assert_eq!(history.tat() / MS, tat, "{given_back:?}");
            assert_eq!(history.spans_after(0).map(in_ms).collect::<Vec<_>>(), spans);
        }
        let all = history(&[used[0], used[1], change(-20, 120)]);
        assert_eq!(all.spans_after(70 * MS).collect::<Vec<_>>(), [(70 * MS, 100 * MS)]);
        assert!(all.gave_back_after(119 * MS) && !all.gave_back_after(120 * MS));
    }

    /// Each of two nodes gives back all that it knows of, and what is consumed after that stays, in
    /// whatever order it arrives.
    #[test]
    fn a_key_that_is_reset_twice_at_once_keeps_what_was_consumed_since() {
        let used = [change(100, 0), change(15, 30)];
        let resets = [change(-90, 10), change(-88, 12)];
        for order in
            [[used[0], used[1], resets[0], resets[1]], [resets[1], used[1], used[0], resets[0]]]
        {
            assert_eq!(history(&order).tat(), 45 * MS);
        }
    }

    #[test]
    fn what_is_given_back_is_dated_where_it_was_owed() {
        let history = history(&[change(10, 100), change(60, 104), change(30, 108)]);
        for (given_back, at, leeway, date) in [
            (10, 101, 10, Some(101)),
            (60, 102, 10, Some(104)),
            // Words differ by a part of it.
            (70, 102, 10, Some(104)),
            (90, 102, 10, Some(108)),
            // It is not known that it was owed.
            (60, 102, 1, None),
            (200, 102, 10, None),
        ] {
            let found = history.owing(change(-given_back, at), leeway * MS);
            assert_eq!(found.map(|date| date / MS), date, "{given_back} at {at}");
        }
    }

    /// What was consumed after two resets at once is not what the second one gave back.
    #[test]
    fn what_had_been_given_back_already_is_not_owed() {
        let history = history(&[change(100, 0), change(-90, 10), change(15, 14)]);
        assert_eq!(history.owing(change(-88, 12), 10 * MS), None);
        assert_eq!(history.owing(Change::new(i64::MIN, 12), i64::MAX), None);
    }

    #[test]
    fn what_is_given_back_is_dated_where_it_was_owed_once_that_comes() {
        let given_back = change(-60, 102);
        for (used, leeway, is_owed, tat) in
            [(80, 2, true, 124), (54, 2, true, 104), (50, 2, false, 154), (80, 1, false, 184)]
        {
            let mut history = history(&[given_back]);
            let later = change(used, 104);
            assert_eq!(history.add_owed(later, given_back, leeway * MS), is_owed, "{used}");
            assert_eq!(history.tat(), tat * MS, "{used} {leeway}");
            assert!(!history.add_owed(change(7, 104), change(-60, 50), MS), "which did not come");
            assert_eq!(history.tat(), (tat + 7) * MS, "{used} {leeway}");
        }
        // Of 60, 20 were owed: the rest is what comes. What is used here since is not.
        for (later, is_owed) in [(40, true), (34, false)] {
            let used = change(70, 103);
            let mut history = history(&[change(22, 100), given_back, used]);
            let later = change(later, 104);
            assert_eq!(history.add_owed(later, given_back, 2 * MS), is_owed);
        }
    }

    #[test]
    fn the_oldest_changes_become_a_tat() {
        let many = MAX_CHANGES as i64;
        let mut history = history(&(0..=many).map(|n| change(1, 10 * n)).collect::<Vec<_>>());
        assert_eq!(history.changes.len(), MAX_CHANGES);
        assert_eq!((history.first, history.tat()), (MS, (10 * many + 1) * MS));
        assert!(history.reaches(1) && !history.reaches(0));
        history.add_before(2 * MS);
        assert_eq!(history.first, 3 * MS);
        history.add(change(1, 8));
        assert_eq!((history.first, history.changes.len()), (9 * MS, MAX_CHANGES));
        assert!(!history.reaches(8 * MS) && history.reaches(9 * MS));
    }
}
