//! Checking many keys at one reading of the clock, under the limiter's own rule or a quota given with the call.

use alloc::vec::Vec;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::key::{Key, KeyHash};
use crate::observer::Observer;
use crate::overflow::answer;
use crate::rule::{Algorithm, Rule};
use crate::table::{Home, Missed, Spot};

use super::{Limiter, State};

/// How many keys are decided together: several times what a core fetches lines at a time, so that
/// the waits for the first and the last of them are a small part.
const TOGETHER: usize = 32;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Asks for one unit of each key, at one reading of the clock, and puts the decisions into
    /// `decisions` in the order of the keys, instead of what was there.
    ///
    /// Each decision is atomic, the batch is not: others may check in between, and a key that
    /// stands twice is charged twice. Keys are looked up ahead, so that waiting for memory
    /// overlaps; this pays from a handful of keys on. Allocates only if `decisions` lacks room.
    /// O(keys).
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        if self.leases.is_some() {
            let reread = || self.clock.now();
            self.check_in_turn(keys, decisions, |key, now| self.decide(key, 1, now, reread));
        } else {
            self.check_many_by_words(Self::algorithm, keys, decisions);
        }
    }

    /// [`Limiter::check_many`] by the keys' words alone. The algorithm is named as a function of the limiter, so that its
    /// own one, which lies in it, takes no register beside it.
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

    /// [`Limiter::check_many`] where each key is decided by `decide`, one at a time, once their lines are on their way. Out
    /// of line, so that batches in passes carry none of its registers.
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

    /// [`Limiter::check_many`] of at most `TOGETHER` keys, in passes: each asks memory for what the
    /// next one needs, for all keys before the next begins, and branches on no single key's place.
    #[inline]
    fn check_together<'a, A: Algorithm<State = State<R>> + 'a, K: Key>(
        &'a self,
        algorithm: impl Fn(&'a Self) -> &'a A + Copy,
        keys: &[K],
        now: u64,
        decisions: &mut [Decision],
    ) {
        // Fills the places that no key of a short batch takes, which nobody looks at.
        let nobody = self.table.home(KeyHash::from_bits(0));
        let mut homes = [nobody; TOGETHER];
        for (place, key) in homes.iter_mut().zip(keys) {
            *place = self.table.home(self.hash(key));
            place.prefetch();
        }

        let mut spots = [nobody.look().0; TOGETHER];
        let mut here = Indexes::NONE;
        for index in 0..keys.len().min(TOGETHER) {
            let (spot, found) = homes[index].look();
            spots[index] = spot;
            here.add_if(found, index);
        }
        let away = here.others(keys.len());
        for index in away.all() {
            homes[index].prefetch_further();
        }
        let mut left = self.decide_at(algorithm, &spots, here, &homes, now, decisions);
        here = Indexes::NONE;
        for index in away.all() {
            let (spot, found) = homes[index].look_further();
            spots[index] = spot;
            here.add_if(found, index);
            left.add_if(!found, index);
        }
        for index in left.all() {
            homes[index].prefetch_all();
        }
        let moved = self.decide_at(algorithm, &spots, here, &homes, now, decisions);
        for index in left.all().chain(moved.all()) {
            let (home, reread) = (homes[index], || self.instant_now());
            let update =
                home.update_unfound(now, reread, |value, now| algorithm(self).admit(value, now, 1));
            decisions[index] = answer(&self.table, algorithm(self), home.key(), update, 1);
        }
    }

    /// Decides the keys with the indexes `found`, each in its spot; those that are not there are returned.
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
        let mut lost = Indexes::NONE;
        let admit = |value, now| algorithm(self).admit(value, now, 1);
        for index in found.all() {
            let home = homes[index];
            decisions[index] = match home.try_at(spots[index], now, &admit) {
                Ok(update) => answer(&self.table, algorithm(self), home.key(), update, 1),
                Err(Missed::Contended) => {
                    self.decide_contended(algorithm(self), home.key(), now).in_registers()
                }
                Err(Missed::Elsewhere) => {
                    lost.add_if(true, index);
                    continue;
                }
            }
        }
        lost
    }

    /// Decides a key that was found, and that another thread has charged meanwhile.
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

/// Some of the keys that are decided together, a bit each.
#[derive(Clone, Copy)]
struct Indexes(u32);

impl Indexes {
    const NONE: Self = Self(0);

    /// Adds an index if it `belongs`, without a branch on that.
    #[inline]
    fn add_if(&mut self, belongs: bool, index: usize) {
        self.0 |= u32::from(belongs) << index;
    }

    /// Those of the first `count`, which is at most `TOGETHER`, that are not among these.
    #[inline]
    fn others(self, count: usize) -> Self {
        Self(!self.0 & u32::MAX.checked_shr((TOGETHER - count) as u32).unwrap_or(0))
    }

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
