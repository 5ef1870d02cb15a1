//! A limiter without quota: words only, so that the debt on them can be compared exactly.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::inline;
use crate::protocol::{Change, Delta, Host, Level, MAX_PART_KEYS, Nanos, ScanPosition};

/// The limit whose burst tolerance is a second; that of all others is endless.
pub(super) const SHORT: u64 = 1 << 40;

/// The limit whose burst tolerance is a tenth of a second.
pub(super) const QUICK: u64 = (1 << 40) + 1;

/// A quota that comes with checks, whose burst tolerance is endless: its keys wait to be sent.
pub(super) const LARGE: u64 = inline::id(Nanos::MAX >> 2, 60_000_000_000);

/// One whose burst tolerance is a second.
pub(super) const SMALL: u64 = inline::id(1_000_000_000, 1_000_000);

/// The limit whose burst tolerance is an hour.
pub(super) const SLOW: u64 = u64::MAX - 2;

type Map = Rc<RefCell<BTreeMap<(u64, u64), Nanos>>>;

pub(super) struct Words {
    clock: Rc<Cell<Nanos>>,
    handle: WordsHandle,
    /// What is left of the drain under way.
    draining: BTreeMap<(u64, u64), Change>,
}

/// The same words, for the test: the node owns the host.
#[derive(Clone)]
pub(super) struct WordsHandle {
    /// The TAT of an unused key. Far in the future, words never drain: they only add up.
    floor: Nanos,
    tats: Map,
    recorded: Rc<RefCell<BTreeMap<(u64, u64), Change>>>,
    /// What a thread does right after the next drain.
    next: Rc<Cell<Option<Use>>>,
    /// A limit that there is none of.
    missing: Rc<Cell<Option<u64>>>,
}

/// What is consumed of a key, or given back.
type Use = ((u64, u64), i64);

impl Words {
    pub(super) fn new(clock: Rc<Cell<Nanos>>, floor: Nanos) -> (Self, WordsHandle) {
        let (tats, recorded, next, missing) = Default::default();
        let handle = WordsHandle { floor, tats, recorded, next, missing };
        (Self { clock, handle: handle.clone(), draining: BTreeMap::new() }, handle)
    }
}

impl WordsHandle {
    pub(super) fn admit(&self, now: Nanos, limit: u64, key: u64, debt: Nanos) {
        self.charge((limit, key), now, debt);
        self.record(now, (limit, key), debt);
    }

    /// Consumes something, without recording it.
    pub(super) fn charge(&self, id: (u64, u64), now: Nanos, debt: Nanos) {
        self.update(id, |tat| tat.max(now) + debt);
    }

    /// Records what was consumed.
    pub(super) fn record(&self, now: Nanos, id: (u64, u64), debt: Nanos) {
        self.record_change(id, Change { debt: debt.cast_signed(), date: now.cast_signed() });
    }

    fn record_change(&self, id: (u64, u64), change: Change) {
        let mut recorded = self.recorded.borrow_mut();
        recorded.entry(id).and_modify(|sum| *sum = sum.then(change)).or_insert(change);
    }

    /// Gives back all that a key owes; how much that is.
    pub(super) fn reset(&self, now: Nanos, id: (u64, u64)) -> Nanos {
        let debt = self.tat(id.0, id.1).saturating_sub(now);
        self.use_now(now, (id, -debt.cast_signed()));
        debt
    }

    fn use_now(&self, now: Nanos, (id, debt): Use) {
        let from = |tat: Nanos| if debt > 0 { tat.max(now) } else { tat };
        self.update(id, |tat| from(tat).saturating_add_signed(debt));
        self.record_change(id, Change { debt, date: now.cast_signed() });
    }

    /// A key is used right after the next drain, while its step goes on.
    pub(super) fn use_after_drain(&self, used: Use) {
        self.next.set(Some(used));
    }

    /// A limit ends, with its words.
    pub(super) fn end(&self, limit: u64) {
        self.missing.set(Some(limit));
        self.tats.borrow_mut().retain(|id, _| id.0 != limit);
    }

    /// As `admit`, if the debt stays within `tau`.
    pub(super) fn check(
        &self,
        now: Nanos,
        (limit, key): (u64, u64),
        debt: Nanos,
        tau: Nanos,
    ) -> bool {
        let fits = self.tat(limit, key).saturating_sub(now) + debt <= tau;
        if fits {
            self.admit(now, limit, key, debt);
        }
        fits
    }

    pub(super) fn tat(&self, limit: u64, key: u64) -> Nanos {
        let limit = inline::words_of(limit);
        self.tats.borrow().get(&(limit, key)).copied().unwrap_or(self.floor)
    }

    fn update(&self, (limit, key): (u64, u64), tat: impl Fn(Nanos) -> Nanos) {
        let mut tats = self.tats.borrow_mut();
        let word = tats.entry((inline::words_of(limit), key)).or_insert(self.floor);
        *word = tat(*word);
    }
}

impl Host for Words {
    fn take_recorded(&mut self, _: Nanos, most: usize, into: &mut Vec<Delta>) -> bool {
        if self.draining.is_empty() {
            self.draining = self.handle.recorded.take();
        }
        let taken = std::iter::from_fn(|| self.draining.pop_first()).take(most);
        into.extend(taken.map(|((limit, key), change)| Delta { limit, key, change }));
        if let Some(used) = self.handle.next.take() {
            self.handle.use_now(self.clock.get(), used);
        }
        self.draining.is_empty()
    }

    fn apply(&mut self, _: Nanos, delta: Delta) -> bool {
        if self.tolerance(delta.limit).is_none() {
            return false;
        }
        let Change { debt, date } = delta.change;
        let date = date.try_into().unwrap_or(0);
        self.handle.update(delta.id(), |tat| tat.max(date).saturating_add_signed(debt));
        true
    }

    fn shift(&mut self, limit: u64, key: u64, by: i64) {
        let now = self.clock.get();
        let from = |tat: Nanos| if by > 0 { tat.max(now) } else { tat };
        self.handle.update((limit, key), |tat| from(tat).saturating_add_signed(by));
    }

    fn raise(&mut self, _: Nanos, level: Level) -> bool {
        let now = self.clock.get();
        self.handle.update((level.limit, level.key), |tat| tat.max(now + level.debt));
        true
    }

    fn debt(&mut self, _: Nanos, limit: u64, key: u64) -> Nanos {
        self.handle.tat(limit, key).saturating_sub(self.clock.get())
    }

    fn tolerance(&self, limit: u64) -> Option<Nanos> {
        let exists = self.handle.missing.get() != Some(limit);
        exists.then_some(if limit == QUICK {
            100_000_000
        } else if limit == SHORT {
            1_000_000_000
        } else if limit == SLOW {
            3_600_000_000_000
        } else {
            inline::tolerance(limit).unwrap_or(Nanos::MAX >> 2)
        })
    }

    fn unit(&self, limit: u64) -> Option<Nanos> {
        self.tolerance(limit)?;
        (limit == QUICK)
            .then_some(100_000)
            .or_else(|| inline::unit(limit).filter(|_| limit == LARGE))
    }

    fn most_debt(&self, limit: u64) -> Nanos {
        // By another quota of its word a key may owe more.
        if limit != SLOW && inline::tolerance(limit).is_some() {
            return Nanos::MAX >> 2;
        }
        self.tolerance(limit).map_or(0, |tolerance| tolerance.saturating_mul(16))
    }

    fn scan(&mut self, at: ScanPosition, into: &mut Vec<Level>) -> Option<ScanPosition> {
        let now = self.clock.get();
        let tats = self.handle.tats.borrow();
        let mut rest = tats.range((at.0, at.1)..);
        for (&(limit, key), tat) in rest.by_ref().take(MAX_PART_KEYS) {
            if *tat > now {
                into.push(Level { limit, key, debt: tat - now });
            }
        }
        rest.next().map(|(&(limit, key), _)| ScanPosition(limit, key))
    }
}
