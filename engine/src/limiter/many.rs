//! Checks of many keys in one call, under the limiter's own rule or a quota given with the call.
//!
//! All are decided at one reading of the clock, taken when the call begins, until a key without a
//! slot needs a new one: it is decided at a reading taken after it has claimed a slot. From then on
//! that is the call's reading ([`Readings`]): at the earlier one, a later check of the same key
//! would count the time between the two as debt, and be denied a unit that fits.

use alloc::vec::Vec;
use core::cell::Cell;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::contract::observer::{ObservedKey, Observer};
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::table::answer::answer;
use crate::table::{Home, Missed, Spot};
use crate::time::{Clock, Timestamp};

use super::{HashedKey, Limiter, StateOf};

/// How many keys are decided together: several times the number of lines that a core fetches at
/// once, so that the waits for the first and the last of them are a small part.
const TOGETHER: usize = 32;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Asks for one unit of each key and puts the decisions into `decisions` in the order of the
    /// keys, replacing its content.
    ///
    /// A key that occurs several times is charged each time. The decisions on a key are those of
    /// the same checks one after another ([`Limiter::check_at`]), in the order of `keys`, at
    /// readings of the clock that are taken in the call and never go back. That is one reading, the
    /// one with which the call begins, if the clock stands still meanwhile or all keys have a slot.
    /// A key without a slot is decided at another one, taken after it has got its slot, and so are
    /// the checks that are decided after it.
    ///
    /// Each decision is atomic, the batch is not: other calls may come in between, and a key's
    /// checks with which they compete need not be decided in the order of `keys`. Neither need
    /// different keys, so in a table that is full another key may be evicted than with checks in
    /// turn.
    ///
    /// Lines are prefetched for all keys, so that waits for memory overlap; this pays from a
    /// handful of keys on. Allocates only if `decisions` lacks room. O(keys).
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        self.check_all(keys, |key| (key, 1), decisions);
    }

    /// As [`Limiter::check_many`], with a cost for each key: takes those units if all of them fit,
    /// as [`Limiter::check_n`] does. A cost of 0 takes nothing: it is a [`Limiter::peek`].
    ///
    /// ```
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// let limiter = Limiter::builder(Quota::per_hour(10)).capacity(1_000).build()?;
    /// let mut decisions = Vec::new();
    /// limiter.check_many_n(&[("a", 7), ("b", 11), ("a", 3), ("a", 1)], &mut decisions);
    /// let allowed: Vec<bool> = decisions.iter().map(|it| it.is_allowed()).collect();
    /// assert_eq!(allowed, [true, false, true, false]);
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    pub fn check_many_n<K: Key>(&self, checks: &[(K, u64)], decisions: &mut Vec<Decision>) {
        self.check_all(checks, |(key, cost)| (key, *cost), decisions);
    }

    /// Checks all items, each of which `check` makes a key and a cost.
    fn check_all<T, K: Key>(
        &self,
        items: &[T],
        check: impl Fn(&T) -> (&K, u64) + Copy,
        decisions: &mut Vec<Decision>,
    ) {
        if self.mode().is_by_word() {
            self.check_all_by_words(Self::algorithm, items, check, decisions);
        } else {
            self.check_in_turn(items, check, decisions, |key, cost, readings| {
                self.decide(HashedKey::unobserved(key), cost, readings.latest(), || readings.next())
            });
        }
        self.notify_all(items, check, decisions);
    }

    /// Notifies the observer of the decisions on all items.
    pub(super) fn notify_all<T, K: Key>(
        &self,
        items: &[T],
        check: impl Fn(&T) -> (&K, u64),
        decisions: &[Decision],
    ) {
        if self.observer.observes_decisions() {
            for (item, decision) in items.iter().zip(decisions) {
                let (key, cost) = check(item);
                let key = ObservedKey::new(self.hash(key), key);
                self.observer.on_decision(key, cost, decision);
            }
        }
    }

    /// [`Limiter::check_all`] by the keys' words alone. The algorithm is given as a function of
    /// the limiter, so that the limiter's own one, a field of it, takes no second register.
    #[inline]
    pub(super) fn check_all_by_words<'a, A: Algorithm<State = StateOf<R>> + 'a, T, K: Key>(
        &'a self,
        algorithm: impl Fn(&'a Self) -> &'a A + Copy,
        items: &[T],
        check: impl Fn(&T) -> (&K, u64) + Copy,
        decisions: &mut Vec<Decision>,
    ) {
        decisions.clear();
        decisions.resize(items.len(), Decision::OPEN);
        let read = || self.instant_now();
        let readings = Readings::new(&read);
        for (items, decisions) in items.chunks(TOGETHER).zip(decisions.chunks_mut(TOGETHER)) {
            self.check_together(algorithm, items, check, &readings, decisions);
        }
    }

    /// [`Limiter::check_all`] where `decide` decides each key, one at a time, after their lines
    /// have been prefetched. Out of line, so that batches in passes carry none of its registers.
    #[inline(never)]
    pub(super) fn check_in_turn<T, K: Key>(
        &self,
        items: &[T],
        check: impl Fn(&T) -> (&K, u64),
        decisions: &mut Vec<Decision>,
        decide: impl Fn(KeyHash, u64, &Readings<'_, Timestamp>) -> Decision,
    ) {
        decisions.clear();
        decisions.reserve(items.len());
        let read = || self.clock.now();
        let readings = Readings::new(&read);
        for items in items.chunks(TOGETHER) {
            let mut ahead = [None; TOGETHER];
            for (ahead, item) in ahead.iter_mut().zip(items) {
                let (key, cost) = check(item);
                let key = self.hash(key);
                self.observer.prefetch(key);
                self.table.home(key).prefetch();
                *ahead = Some((key, cost));
            }
            let decide = |&(key, cost): &(_, _)| decide(key, cost, &readings);
            decisions.extend(ahead.iter().flatten().map(decide));
        }
    }

    /// [`Limiter::check_all`] of at most `TOGETHER` keys, in passes over all of them: each pass
    /// prefetches what the next one reads, and none branches on where a single key is.
    ///
    /// 1. Hash, and prefetch home lines.
    /// 2. Probe home lines, and prefetch the likely other lines of keys that are not found.
    /// 3. Decide the keys that are at home, while those lines come.
    /// 4. Probe the likely other lines, and prefetch all lines of keys that are not found.
    /// 5. Decide the keys that are there, while those lines come.
    /// 6. Decide the rest one by one: new keys, keys in the least likely lines, and keys whose slot
    ///    was not theirs, or not settled, when it came to be updated.
    #[inline]
    fn check_together<'a, A: Algorithm<State = StateOf<R>> + 'a, T, K: Key>(
        &'a self,
        algorithm: impl Fn(&'a Self) -> &'a A + Copy,
        items: &[T],
        check: impl Fn(&T) -> (&K, u64) + Copy,
        readings: &Readings<'_, u64>,
        decisions: &mut [Decision],
    ) {
        // Of a short batch, the arrays' other elements are never read.
        let filler = self.table.home(KeyHash::from_bits(0));
        // Where all costs are the same, a constant: the index is not even compared.
        let cost = |index| items.get(index).map_or(1, |item| check(item).1);

        // 1. Hash.
        let mut homes = [filler; TOGETHER];
        for (home, item) in homes.iter_mut().zip(items) {
            *home = self.table.home(self.hash(check(item).0));
            self.observer.prefetch(home.key());
            home.prefetch();
        }

        // 2. Probe at home.
        let mut spots = [filler.probe().0; TOGETHER];
        let mut at_home = Indexes::NONE;
        for index in 0..items.len().min(TOGETHER) {
            let (spot, found) = homes[index].probe();
            spots[index] = spot;
            at_home.add_if(found, index);
        }
        let away = at_home.others(items.len());
        for index in away.all() {
            homes[index].prefetch_further();
        }

        // 3. Decide at home.
        let mut unfound =
            self.decide_at(algorithm, &spots, at_home, &homes, cost, readings, decisions);

        // 4. Probe further.
        let mut further = Indexes::NONE;
        for index in away.all() {
            let (spot, found) = homes[index].probe_further();
            spots[index] = spot;
            further.add_if(found, index);
            unfound.add_if(!found, index);
        }
        for index in unfound.all() {
            homes[index].prefetch_all();
        }

        // 5. Decide there.
        let moved = self.decide_at(algorithm, &spots, further, &homes, cost, readings, decisions);

        // 6. Decide the rest.
        for index in unfound.all().chain(moved.all()) {
            let (home, cost, reread) = (homes[index], cost(index), || readings.next());
            let admit = |value, now| admit(algorithm(self), value, now, cost);
            let update = home.update_unfound(readings.latest(), reread, admit);
            self.notify_of_update(home.key(), update, admit);
            decisions[index] = answer(&self.table, algorithm(self), home.key(), update, cost);
        }
    }

    /// Decides the keys that were `found`, each in its spot, at one reading. Returns those that are
    /// undecided: their spot was not theirs, or not settled, or the call has taken another reading.
    #[expect(clippy::too_many_arguments, reason = "in a tuple they take an instruction more a key")]
    #[inline]
    fn decide_at<'t, A: Algorithm<State = StateOf<R>> + 't>(
        &'t self,
        algorithm: impl Fn(&'t Self) -> &'t A + Copy,
        spots: &[Spot<'t>; TOGETHER],
        mut found: Indexes,
        homes: &[Home<'t, StateOf<R>>; TOGETHER],
        cost: impl Fn(usize) -> u64,
        readings: &Readings<'_, u64>,
        decisions: &mut [Decision],
    ) -> Indexes {
        let (now, mut undecided) = (readings.latest(), Indexes::NONE);
        while let Some(index) = found.take_first() {
            let (home, cost) = (homes[index], cost(index));
            let admit = |value, now| admit(algorithm(self), value, now, cost);
            #[cfg(debug_assertions)]
            let admit: crate::table::Decide<'_> = &admit;
            decisions[index] = match home.try_at(spots[index], now, &admit) {
                Ok(update) => {
                    self.notify_of_update(home.key(), update, admit);
                    answer(&self.table, algorithm(self), home.key(), update, cost)
                }
                Err(Missed::Contended) => {
                    let decision = self.decide_contended(algorithm(self), home, cost, readings);
                    if readings.latest() > now {
                        undecided.add_all(core::mem::replace(&mut found, Indexes::NONE));
                    }
                    decision.in_registers()
                }
                Err(Missed::Elsewhere) => {
                    undecided.add_if(true, index);
                    continue;
                }
            }
        }
        undecided
    }

    /// Decides a key whose word another thread changed between being read and being updated; its
    /// slot may also be gone.
    #[cold]
    #[inline(never)]
    fn decide_contended<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        home: Home<'_, StateOf<R>>,
        cost: u64,
        readings: &Readings<'_, u64>,
    ) -> Decision {
        let (now, reread) = (readings.latest(), || readings.next());
        let admit = |value, now| admit(algorithm, value, now, cost);
        #[cfg(debug_assertions)]
        let admit: crate::table::Decide<'_> = &admit;
        let update = home.update_after(Missed::Contended, now, reread, admit);
        self.notify_of_update(home.key(), update, admit);
        answer(&self.table, algorithm, home.key(), update, cost)
    }
}

/// The value after admitting `cost`; `None` when it does not fit, or takes nothing.
#[inline]
fn admit<A: Algorithm>(algorithm: &A, value: u64, now: u64, cost: u64) -> Option<u64> {
    if cost == 0 { None } else { algorithm.admit(value, now, cost) }
}

/// The readings of the clock that a call takes, of which the latest decides.
pub(super) struct Readings<'r, T> {
    latest: Cell<T>,
    read: &'r dyn Fn() -> T,
}

impl<'r, T: Copy + Ord> Readings<'r, T> {
    /// Takes the first one.
    #[inline]
    fn new(read: &'r impl Fn() -> T) -> Self {
        Self { latest: Cell::new(read()), read }
    }

    #[inline]
    pub(super) fn latest(&self) -> T {
        self.latest.get()
    }

    /// Takes another one. A clock that goes back counts as one that stands still.
    pub(super) fn next(&self) -> T {
        let latest = self.latest().max((self.read)());
        self.latest.set(latest);
        latest
    }
}

/// A set of keys that are decided together, by their indexes: a bit each.
#[derive(Clone, Copy)]
struct Indexes(u32);

impl Indexes {
    const NONE: Self = Self(0);

    /// Adds an index if it `belongs`, without a branch on that.
    #[inline]
    fn add_if(&mut self, belongs: bool, index: usize) {
        self.0 |= u32::from(belongs) << index;
    }

    #[inline]
    fn add_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Removes the lowest index.
    #[inline]
    fn take_first(&mut self) -> Option<usize> {
        let lowest = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(lowest)
    }

    /// The complement among the first `count` indexes, at most `TOGETHER`.
    #[inline]
    fn others(self, count: usize) -> Self {
        Self(!self.0 & u32::MAX.checked_shr((TOGETHER - count) as u32).unwrap_or(0))
    }

    /// The indexes in ascending order.
    #[inline]
    fn all(mut self) -> impl Iterator<Item = usize> {
        core::iter::from_fn(move || self.take_first())
    }
}

const _: () = assert!(TOGETHER == u32::BITS as usize);

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "many_tests.rs"]
mod tests;
