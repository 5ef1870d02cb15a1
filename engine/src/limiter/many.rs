//! Checking many keys at one reading of the clock.

use alloc::vec::Vec;

use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::observer::Observer;
use crate::overflow::answer;
use crate::rule::{Algorithm as _, Rule};
use crate::table::Home;

use super::{Limiter, State};

/// How many keys are looked up ahead: about as many as a core fetches lines at a time.
const AHEAD: usize = 16;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Asks for one unit of each key, at one reading of the clock, and puts the decisions into
    /// `decisions` in the order of the keys, instead of what was there.
    ///
    /// Each decision is atomic, the batch is not: others may check in between, and a key that
    /// stands twice is charged twice. Keys are looked up ahead, so that waiting for memory
    /// overlaps; this pays from a handful of keys on. Allocates only if `decisions` lacks room.
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        decisions.clear();
        decisions.reserve(keys.len());
        if self.leases.is_some() {
            return self.check_many_leased(keys, decisions);
        }
        let Some(first) = keys.first() else { return };
        let home = |key: &K| self.table.home(self.hash(key));
        let now = self.instant_now();
        let admit = |value, now| self.algorithm().admit(value, now, 1);

        let mut ahead = [home(first); AHEAD];
        for (place, key) in ahead.iter_mut().zip(keys).skip(1) {
            *place = home(key);
        }
        // Keys that lie further away are fetched while others are decided.
        let (mut away, mut count) = ([(0, ahead[0]); AHEAD], 0);
        for index in 0..keys.len() {
            let place = &mut ahead[index % AHEAD];
            let current = *place;
            if let Some(key) = keys.get(index + AHEAD) {
                *place = home(key);
            }
            let update = current.update_at_home::<false>(now, admit);
            decisions.push(if let Some(update) = update {
                answer(&self.table, self.algorithm(), current, update, 1)
            } else {
                current.prefetch_block();
                away[count] = (index, current);
                count += 1;
                Decision::OPEN
            });
            if count == AHEAD {
                self.decide_away(&away, now, decisions);
                count = 0;
            }
        }
        self.decide_away(&away[..count], now, decisions);
        if O::LISTENS {
            for (key, decision) in keys.iter().zip(decisions) {
                self.observer.decided(self.hash(key), 1, decision);
            }
        }
    }

    /// [`Limiter::check_many`] with leases: one key at a time, once their lines are on their way.
    fn check_many_leased<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        let now = self.clock.now();
        for keys in keys.chunks(AHEAD) {
            let mut ahead = [None; AHEAD];
            for (hash, key) in ahead.iter_mut().zip(keys) {
                let key = self.hash(key);
                let _ = self.table.home(key);
                *hash = Some(key);
            }
            let decide = |&key| self.decide(key, 1, now, || self.clock.now());
            decisions.extend(ahead.iter().flatten().map(decide));
        }
    }

    /// Makes the decisions of a batch on keys that were not found in their home lines.
    #[inline(never)]
    fn decide_away(
        &self,
        away: &[(usize, Home<'_, State<R>>)],
        now: u64,
        decisions: &mut [Decision],
    ) {
        let admit = |value, now| self.algorithm().admit(value, now, 1);
        for (index, home) in away {
            match home.update_in_block(now, admit) {
                Some(update) => {
                    decisions[*index] = answer(&self.table, self.algorithm(), *home, update, 1);
                }
                None => home.prefetch_beyond_block(),
            }
        }
        for (index, home) in away {
            if decisions[*index] == Decision::OPEN {
                let reread = || self.instant_now();
                let update = home.update_beyond_block(now, reread, admit);
                decisions[*index] = answer(&self.table, self.algorithm(), *home, update, 1);
            }
        }
    }
}
