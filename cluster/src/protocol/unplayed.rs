//! What comes while this node is stale, until it is applied in the order of dates.
//!
//! A level is what another node's word owed at a time, and its cut says which changes that word
//! contained. It raises this node's word to as much, so it follows all that it contains: a change
//! that followed it would be added to a word that owes it already, and of a key that does not drain
//! that would stay for good. Dates do not see to that, as the clock of a node that has just opened
//! a link may be read wrong by about as long as this node was stopped. So a level has the date of
//! the latest change that it contains, if that is later than its own.
//!
//! A level that contains what this node has not received counts for nothing, as that is added when
//! it comes. Until then this node's word lacks it, as it would without the level; and what another
//! node has consumed and this one never receives, agreement makes up for once that node is gone.
//!
//! Nor does a level count of which the sender did not know yet that something was given back
//! before, as in a reset: it would bring that back. One that it sends a little later contains it.
//!
//! What is kept is by word: a node that has taken over a state and knows no quota of a key yet
//! sends its level under none.

use std::collections::BTreeMap;

use super::change::Change;
use super::delta::{Delta, KeyId, signed, word_id};
use super::given_back::{GivenBack, LevelsCut};
use super::host::Level;
use super::id::Origin;

/// Changes and levels that are kept, at most, but for those of one batch: then they are applied.
const MAX_KEPT: usize = 1 << 14;
/// Words of which there are some, at most, but for those of one batch: a step applies as many.
const MAX_WORDS: usize = 1 << 10;
/// Entries of the cuts of levels, at most: about 8 MiB, and a second's of 100 nodes.
const MAX_CUT_ENTRIES: usize = 1 << 17;

/// What has come of a key while this node was stale.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replayed {
    Change(Change),
    /// The TAT of another node's word, as of a time.
    Level {
        at: i64,
        tat: i64,
    },
}

impl Replayed {
    pub(super) fn change_before(self, since: i64) -> Option<Change> {
        match self {
            Self::Change(change) if change.date < since => Some(change),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Unplayed {
    words: BTreeMap<KeyId, OfWord>,
    cuts: Vec<LevelsCut>,
    kept: usize,
    cut_entries: usize,
}

/// What has come of one word.
#[derive(Debug, Default)]
struct OfWord {
    /// Of the limits under which it was used, the one whose id says most.
    limit: u64,
    /// As they came.
    changes: Vec<KeptChange>,
    levels: Vec<KeptLevel>,
}

#[derive(Debug)]
struct KeptChange {
    origin: Origin,
    /// The first batch of its origin of which it may be.
    number: u64,
    change: Change,
}

#[derive(Debug)]
struct KeptLevel {
    /// Which of the cuts is its.
    cut: usize,
    at: i64,
    tat: i64,
}

impl Unplayed {
    pub(super) fn is_empty(&self) -> bool {
        self.kept == 0
    }

    pub(super) fn has_levels(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Up to which batch of an origin the words of all levels contain it, if there are levels.
    pub(super) fn least_contained(&self, origin: Origin) -> Option<u64> {
        let contained = |cut: &LevelsCut| cut.get(&origin).copied().unwrap_or(0);
        self.cuts.iter().map(contained).min()
    }

    pub(super) fn is_full(&self) -> bool {
        self.kept >= MAX_KEPT
            || self.words.len() >= MAX_WORDS
            || self.cut_entries >= MAX_CUT_ENTRIES
    }

    /// Keeps a change of an origin, whose first batch that it may be of is `number`. Those of one
    /// origin come in order.
    pub(super) fn keep_change(&mut self, (origin, number): (Origin, u64), delta: &Delta) {
        let change = delta.change;
        self.word(delta.id()).changes.push(KeptChange { origin, number, change });
    }

    /// Keeps levels as of a time, while there is room.
    pub(super) fn keep_levels(
        &mut self,
        at: i64,
        cut: impl FnOnce() -> LevelsCut,
        levels: impl Iterator<Item = Level>,
    ) {
        let (before, place) = (self.kept, self.cuts.len());
        for level in levels {
            if self.is_full() {
                break;
            }
            let tat = at.saturating_add(signed(level.debt));
            self.word(level.id()).levels.push(KeptLevel { cut: place, at, tat });
        }
        if self.kept > before {
            let cut = cut();
            self.cut_entries += cut.len();
            self.cuts.push(cut);
        }
    }

    /// The place of a word of which something more is kept.
    fn word(&mut self, id: KeyId) -> &mut OfWord {
        self.kept += 1;
        let word = self.words.entry(word_id(id)).or_default();
        word.limit = word.limit.max(id.0);
        word
    }

    /// All of it in order, word by word; of the levels those whose cut is contained here, and
    /// contains what was given back before.
    pub(super) fn in_order(
        self,
        is_contained: impl Fn(&LevelsCut) -> bool,
        given_back: &GivenBack,
    ) -> impl Iterator<Item = (KeyId, Vec<Replayed>)> {
        let cuts = self.cuts.into_iter().map(|cut| Some(cut).filter(&is_contained));
        let cuts: Vec<Option<LevelsCut>> = cuts.collect();
        let words = self.words.into_iter();
        words.map(move |(id, word)| {
            let is_lacked = |cut: &LevelsCut| given_back.is_lacked_by(id, cut);
            ((word.limit, id.1), word.in_order(&cuts, is_lacked))
        })
    }
}

impl OfWord {
    fn in_order(
        self,
        cuts: &[Option<LevelsCut>],
        is_lacked: impl Fn(&LevelsCut) -> bool,
    ) -> Vec<Replayed> {
        let latest = if self.levels.is_empty() { BTreeMap::new() } else { self.latest() };
        let changes = self.changes.into_iter().map(|KeptChange { change, .. }| change);
        let mut all: Vec<(i64, Replayed)> =
            changes.map(|change| (change.date, Replayed::Change(change))).collect();
        for KeptLevel { cut, at, tat } in self.levels {
            let cut = cuts.get(cut).and_then(Option::as_ref).filter(|cut| !is_lacked(cut));
            let Some(cut) = cut else { continue };
            let contained = latest.iter().filter_map(|(origin, of_origin)| {
                let through = cut.get(origin)?;
                let contained = of_origin.partition_point(|(number, _)| number <= through);
                of_origin[..contained].last().map(|(_, date)| *date)
            });
            let at = contained.fold(at, i64::max);
            all.push((at, Replayed::Level { at, tat }));
        }
        // Of the same date a level comes after changes.
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, replayed)| replayed).collect()
    }

    /// By origin the numbers of the changes, each with the latest date up to it.
    fn latest(&self) -> BTreeMap<Origin, Vec<(u64, i64)>> {
        let mut latest: BTreeMap<Origin, Vec<(u64, i64)>> = BTreeMap::new();
        for KeptChange { origin, number, change } in &self.changes {
            let of_origin = latest.entry(*origin).or_default();
            let date = of_origin.last().map_or(change.date, |(_, date)| change.date.max(*date));
            of_origin.push((*number, date));
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(generation: u64) -> Origin {
        Origin { addr: ([10, 0, 0, 1], 1).into(), generation }
    }

    fn cut(entries: u64) -> LevelsCut {
        (0..entries).map(|generation| (origin(generation), 1)).collect()
    }

    fn level(key: u64) -> Level {
        Level { limit: 1, key, debt: 5 }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let keep_until_full = |keep: &dyn Fn(&mut Unplayed, u64)| {
            let mut unplayed = Unplayed::default();
            let kept = (0..=MAX_KEPT as u64).take_while(|n| {
                let has_room = !unplayed.is_full();
                keep(&mut unplayed, *n);
                has_room
            });
            (kept.count(), unplayed.kept)
        };
        let change = |unplayed: &mut Unplayed, number, key| {
            let delta = Delta { limit: 1, key, change: Change::new(1, 0) };
            unplayed.keep_change((origin(0), number), &delta);
        };
        assert_eq!(keep_until_full(&|unplayed, n| change(unplayed, n, 1)).0, MAX_KEPT);
        assert_eq!(keep_until_full(&|unplayed, n| change(unplayed, n, n)).0, MAX_WORDS);
        let levels = |entries| {
            keep_until_full(&|unplayed, _| {
                unplayed.keep_levels(0, || cut(entries), [level(1)].into_iter());
            })
        };
        assert_eq!(levels(1), (MAX_KEPT, MAX_KEPT));
        assert_eq!(levels(64), (MAX_CUT_ENTRIES / 64, MAX_CUT_ENTRIES / 64));
    }
}
