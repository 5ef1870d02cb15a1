//! Checks of many keys at one reading of the clock, under the limiter's own rule or a quota given
//! with the call.

use alloc::vec::Vec;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::table::answer::answer;
use crate::table::{Home, Missed, Spot};
use crate::time::{Clock, Timestamp};

use super::{Limiter, State};

/// How many keys are decided together: several times the number of lines that a core fetches at
/// once, so that the waits for the first and the last of them are a small part.
const TOGETHER: usize = 32;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Asks for one unit of each key, at one reading of the clock, and puts the decisions into
    /// `decisions` in the order of the keys, replacing its content.
    ///
    /// Each decision is atomic, the batch is not: other checks may come in between, and a key that
    /// occurs twice is charged twice. Lines are prefetched for all keys, so that waits for memory
    /// overlap; this pays from a handful of keys on. Allocates only if `decisions` lacks room.
    /// O(keys).
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        if self.mode().is_by_word() {
            self.check_many_by_words(Self::algorithm, keys, decisions);
        } else {
            let reread = || self.clock.now();
            self.check_in_turn(keys, decisions, |key, now| self.decide(key, 1, now, reread));
        }
    }

    /// [`Limiter::check_many`] by the keys' words alone. The algorithm is given as a function of
    /// the limiter, so that the limiter's own one, a field of it, takes no second register.
    #[inline]
    pub(super) fn check_many_by_words<'a, A: Algorithm<State = State<R>> + 'a, K: Key>(
        &'a self,
        algorithm: impl Fn(&'a Self) -> &'a A + Copy,
        keys: &[K],
        decisions: &mut Vec<Decision>,
    ) {
        decisions.clear();
        decisions.resize(keys.len(), Decision::OPEN);
        let now = self.instant_now();
        for (keys, decisions) in keys.chunks(TOGETHER).zip(decisions.chunks_mut(TOGETHER)) {
            self.check_together(algorithm, keys, now, decisions);
        }
        if O::LISTENS {
            for (key, decision) in keys.iter().zip(decisions) {
                self.observer.decided(self.hash(key), 1, decision);
            }
        }
    }

    /// [`Limiter::check_many`] where `decide` decides each key, one at a time, after their lines
    /// have been prefetched. Out of line, so that batches in passes carry none of its registers.
    #[inline(never)]
    pub(super) fn check_in_turn<K: Key>(
        &self,
        keys: &[K],
        decisions: &mut Vec<Decision>,
        decide: impl Fn(KeyHash, Timestamp) -> Decision,
    ) {
        decisions.clear();
        decisions.reserve(keys.len());
        let now = self.clock.now();
        for keys in keys.chunks(TOGETHER) {
            let mut ahead = [None; TOGETHER];
            for (hash, key) in ahead.iter_mut().zip(keys) {
                let key = self.hash(key);
                self.table.home(key).prefetch();
                *hash = Some(key);
            }
            decisions.extend(ahead.iter().flatten().map(|&key| decide(key, now)));
        }
    }

    /// [`Limiter::check_many`] of at most `TOGETHER` keys, in passes over all of them: each pass
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
    fn check_together<'a, A: Algorithm<State = State<R>> + 'a, K: Key>(
        &'a self,
        algorithm: impl Fn(&'a Self) -> &'a A + Copy,
        keys: &[K],
        now: u64,
        decisions: &mut [Decision],
    ) {
        // Of a short batch, the arrays' other elements are never read.
        let filler = self.table.home(KeyHash::from_bits(0));

        // 1.
        let mut homes = [filler; TOGETHER];
        for (home, key) in homes.iter_mut().zip(keys) {
            *home = self.table.home(self.hash(key));
            home.prefetch();
        }

        // 2.
        let mut spots = [filler.look().0; TOGETHER];
        let mut at_home = Indexes::NONE;
        for index in 0..keys.len().min(TOGETHER) {
            let (spot, found) = homes[index].look();
            spots[index] = spot;
            at_home.add_if(found, index);
        }
        let away = at_home.others(keys.len());
        for index in away.all() {
            homes[index].prefetch_further();
        }

        // 3.
        let mut unfound = self.decide_at(algorithm, &spots, at_home, &homes, now, decisions);

        // 4.
        let mut further = Indexes::NONE;
        for index in away.all() {
            let (spot, found) = homes[index].look_further();
            spots[index] = spot;
            further.add_if(found, index);
            unfound.add_if(!found, index);
        }
        for index in unfound.all() {
            homes[index].prefetch_all();
        }

        // 5.
        let moved = self.decide_at(algorithm, &spots, further, &homes, now, decisions);

        // 6.
        for index in unfound.all().chain(moved.all()) {
            let (home, reread) = (homes[index], || self.instant_now());
            let update =
                home.update_unfound(now, reread, |value, now| algorithm(self).admit(value, now, 1));
            decisions[index] = answer(&self.table, algorithm(self), home.key(), update, 1);
        }
    }

    /// Decides the keys that were `found`, each in its spot. Returns those whose spot was not
    /// theirs, or not settled: they are undecided.
    #[inline]
    fn decide_at<'t, A: Algorithm<State = State<R>> + 't>(
        &'t self,
        algorithm: impl Fn(&'t Self) -> &'t A + Copy,
        spots: &[Spot<'t>; TOGETHER],
        found: Indexes,
        homes: &[Home<'t, State<R>>; TOGETHER],
        now: u64,
        decisions: &mut [Decision],
    ) -> Indexes {
        let mut moved = Indexes::NONE;
        let admit = |value, now| algorithm(self).admit(value, now, 1);
        for index in found.all() {
            let home = homes[index];
            decisions[index] = match home.try_at(spots[index], now, &admit) {
                Ok(update) => answer(&self.table, algorithm(self), home.key(), update, 1),
                Err(Missed::Contended) => {
                    self.decide_contended(algorithm(self), home.key(), now).in_registers()
                }
                Err(Missed::Elsewhere) => {
                    moved.add_if(true, index);
                    continue;
                }
            }
        }
        moved
    }

    /// Decides a key whose word another thread changed between being read and being updated.
    #[cold]
    #[inline(never)]
    fn decide_contended<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        now: u64,
    ) -> Decision {
        let reread = || self.clock.now();
        self.decide_after(Missed::Contended, algorithm, key, 1, now, reread)
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

    /// The complement among the first `count` indexes, at most `TOGETHER`.
    #[inline]
    fn others(self, count: usize) -> Self {
        Self(!self.0 & u32::MAX.checked_shr((TOGETHER - count) as u32).unwrap_or(0))
    }

    /// The indexes in ascending order.
    #[inline]
    fn all(mut self) -> impl Iterator<Item = usize> {
        core::iter::from_fn(move || {
            let lowest = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
            self.0 &= self.0 - 1;
            Some(lowest)
        })
    }
}

const _: () = assert!(TOGETHER == u32::BITS as usize);

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "many_tests.rs"]
mod tests;
