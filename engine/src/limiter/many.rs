//! Checking many keys at one reading of the clock.

use alloc::vec::Vec;

use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::observer::Observer;
use crate::overflow::answer;
use crate::rule::{Algorithm as _, Rule};
use crate::table::{Home, Spot};

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
        decisions.clear();
        decisions.reserve(keys.len());
        if self.leases.is_some() {
            return self.check_many_leased(keys, decisions);
        }
        decisions.resize(keys.len(), Decision::OPEN);
        let now = self.instant_now();
        for (keys, decisions) in keys.chunks(TOGETHER).zip(decisions.chunks_mut(TOGETHER)) {
            self.check_together(keys, now, decisions);
        }
        if O::LISTENS {
            for (key, decision) in keys.iter().zip(decisions) {
                self.observer.decided(self.hash(key), 1, decision);
            }
        }
    }

    /// [`Limiter::check_many`] of at most `TOGETHER` keys, in passes: each asks memory for what the
    /// next one needs, for all keys before the next begins, and branches on no single key's place.
    #[inline]
    fn check_together<K: Key>(&self, keys: &[K], now: u64, decisions: &mut [Decision]) {
        let Some(first) = keys.first() else { return };
        let home = |key: &K| self.table.home(self.hash(key));
        let mut homes = [home(first); TOGETHER];
        for (place, key) in homes.iter_mut().zip(keys).skip(1) {
            *place = home(key);
        }
        let homes = &homes[..keys.len()];

        let mut spots = [homes[0].look().0; TOGETHER];
        let (mut here, mut away) = (Indexes::new(), Indexes::new());
        for (index, home) in homes.iter().enumerate() {
            let (spot, found) = home.look();
            spots[index] = spot;
            here.push_if(found, index);
            away.push_if(!found, index);
        }
        for index in away.all() {
            homes[index].prefetch_further();
        }
        let mut left = Indexes::new();
        self.decide_at(&spots, &here, &mut left, homes, now, decisions);
        here = Indexes::new();
        for index in away.all() {
            let (spot, found) = homes[index].look_further();
            spots[index] = spot;
            here.push_if(found, index);
            left.push_if(!found, index);
        }
        for index in left.all() {
            homes[index].prefetch_rest();
        }
        let mut moved = Indexes::new();
        self.decide_at(&spots, &here, &mut moved, homes, now, decisions);
        for index in left.all().chain(moved.all()) {
            let (home, reread) = (homes[index], || self.instant_now());
            let update = home.update_unfound(now, reread, |value, now| self.admit_one(value, now));
            decisions[index] = answer(&self.table, self.algorithm(), home, update, 1);
        }
    }

    /// Decides the keys with the indexes `found`, each in its spot; `lost` gets those that are not
    /// there.
    #[inline]
    fn decide_at<'t>(
        &'t self,
        spots: &[Spot<'t>; TOGETHER],
        found: &Indexes,
        lost: &mut Indexes,
        homes: &[Home<'t, State<R>>],
        now: u64,
        decisions: &mut [Decision],
    ) {
        let admit = |value, now| self.admit_one(value, now);
        for index in found.all() {
            let home = homes[index];
            match home.update_at(spots[index], now, &admit) {
                Some(update) => {
                    decisions[index] = answer(&self.table, self.algorithm(), home, update, 1);
                }
                None => lost.push_if(true, index),
            }
        }
    }

    #[inline]
    fn admit_one(&self, value: u64, now: u64) -> Option<u64> {
        self.algorithm().admit(value, now, 1)
    }

    /// [`Limiter::check_many`] with leases: one key at a time, once their lines are on their way.
    fn check_many_leased<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        let now = self.clock.now();
        for keys in keys.chunks(TOGETHER) {
            let mut ahead = [None; TOGETHER];
            for (hash, key) in ahead.iter_mut().zip(keys) {
                let key = self.hash(key);
                let _ = self.table.home(key);
                *hash = Some(key);
            }
            let decide = |&key| self.decide(key, 1, now, || self.clock.now());
            decisions.extend(ahead.iter().flatten().map(decide));
        }
    }
}

/// Some of the keys that are decided together, in order.
struct Indexes {
    indexes: [u8; TOGETHER],
    count: usize,
}

impl Indexes {
    const fn new() -> Self {
        Self { indexes: [0; TOGETHER], count: 0 }
    }

    /// Adds an index if it `belongs`, without a branch on that.
    #[inline]
    fn push_if(&mut self, belongs: bool, index: usize) {
        self.indexes[self.count % TOGETHER] = index as u8;
        self.count += usize::from(belongs);
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = usize> {
        self.indexes[..self.count].iter().map(|index| usize::from(*index))
    }
}

const _: () = assert!(TOGETHER <= 1 << u8::BITS);

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "many_tests.rs"]
mod tests;
