//! The debt of each key while time is stopped, exact to the nanosecond.
//!
//! A key's debt rises by what it is admitted, and falls only when the key is evicted. An eviction
//! loses more than nothing and at most a burst, so the debt lost by keys bounds the number of
//! evictions. One exception, as documented of the table: while a thread is stalled between two of
//! its instructions and its slot is reused as often as there are generations in a word, all at one
//! reading, its charge can land on another key. Such charges are counted, and a run with more than
//! a few of them fails.

use core::time::Duration;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, KeyHash, Limiter, ManualClock, Quota};

use super::{Outcome, Violation, handovers, tats};

/// The quota of all keys.
pub(super) const INTERVAL_NANOS: u64 = 999;
pub(super) const BURST: u64 = 5;
pub(super) const TAU_NANOS: u64 = BURST * INTERVAL_NANOS;
/// Evictions per charge that can land on another key: the number of generations in a word.
const GENERATIONS: u64 = 16;
/// A run with more than one such charge per this many evictions fails: each requires a thread
/// stalled at one instruction.
const EVICTIONS_A_STRAY: u64 = 100_000;
/// Phases between two scans of the whole table.
const PHASES_A_SWEEP: u64 = 1_024;

/// The requested and admitted cost of one key by one thread in one phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) admitted: u64,
}

/// The debt of each key, from which that after the next phase follows.
pub(super) struct Book<'a, C> {
    limiter: &'a Limiter<Quota, C>,
    clock: &'a ManualClock,
    keys: &'a [KeyHash],
    evicts: bool,
    /// A time before all checks.
    origin: Timestamp,
    /// Theoretical arrival times in nanoseconds, 0 for keys without a slot.
    pub(super) tats: Vec<u64>,
    pub(super) checks: u64,
    pub(super) admitted: u64,
    pub(super) evicted: u64,
    pub(super) handovers: u64,
    pub(super) strays: u64,
}

impl<'a, C: Clock> Book<'a, C> {
    pub(super) fn new(
        limiter: &'a Limiter<Quota, C>,
        clock: &'a ManualClock,
        keys: &'a [KeyHash],
        evicts: bool,
    ) -> Self {
        Self {
            limiter,
            clock,
            keys,
            evicts,
            origin: clock.now(),
            tats: vec![0; keys.len()],
            checks: 0,
            admitted: 0,
            evicted: 0,
            handovers: 0,
            strays: 0,
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            checks: self.checks,
            admitted: self.admitted,
            evicted: self.evicted,
            handovers: self.handovers,
            strays: self.strays,
            ..Outcome::default()
        }
    }

    /// Audits a phase and advances time.
    pub(super) fn close(
        &mut self,
        phase: u64,
        tallies: &[Mutex<Vec<Tally>>],
        pass: Duration,
    ) -> Result<(), Violation> {
        let mut sums = vec![Tally::default(); self.keys.len()];
        for tally in tallies {
            for (sum, tally) in sums.iter_mut().zip(lock(tally).iter_mut()) {
                let Tally { asked, admitted } = core::mem::take(tally);
                sum.asked += asked;
                sum.admitted += admitted;
            }
        }
        let tats = tats(self.limiter, self.keys, self.origin);
        let evicted = self.limiter.evicted() - self.evicted;
        if !self.evicts && evicted > 0 {
            return Err(Violation::Evicted(evicted));
        }
        self.audit(phase, &sums, &tats, evicted)?;
        self.evicted += evicted;
        let most = 1 + self.evicted / EVICTIONS_A_STRAY;
        if self.strays > most {
            return Err(Violation::Strayed { charges: self.strays, most });
        }
        self.handovers += handovers(&self.tats, &tats);
        self.tats = tats;
        if phase.is_multiple_of(PHASES_A_SWEEP) {
            self.sweep()?;
        }
        self.clock.advance(pass);
        Ok(())
    }

    /// Checks what each key was admitted in a phase, and owes after it, against what it owed before
    /// and the number of evictions.
    fn audit(
        &mut self,
        phase: u64,
        sums: &[Tally],
        tats: &[u64],
        evicted: u64,
    ) -> Result<(), Violation> {
        let strays_most = evicted / GENERATIONS;
        let (mut strays, mut least, mut most) = (0, 0, 0);
        for (key, Tally { asked, admitted }) in sums.iter().copied().enumerate() {
            let [before, after] = [self.tats[key], tats[key]].map(|tat| self.debt(tat));
            let expected = asked.min((TAU_NANOS - before) / INTERVAL_NANOS);
            let owed = before + admitted * INTERVAL_NANOS;
            let missing = expected.saturating_sub(admitted);
            strays += missing.max(after.saturating_sub(owed).div_ceil(INTERVAL_NANOS));
            // A key that was evicted may be admitted more, and owes less than it took.
            let beyond = !self.evicts && admitted > expected;
            if beyond || (missing > 0 && strays > strays_most) {
                return Err(Violation::Admitted { phase, key, expected, admitted });
            }
            let forgotten = owed.saturating_sub(after);
            if after > TAU_NANOS || strays > strays_most || (!self.evicts && forgotten > 0) {
                let [expected, found] = [owed, after].map(Duration::from_nanos);
                return Err(Violation::Debt { key, expected, found });
            }
            // An eviction loses at most a burst; each one of a key after the first, what was
            // charged in between.
            least += forgotten.div_ceil(TAU_NANOS);
            most += forgotten.div_ceil(INTERVAL_NANOS);
            self.checks += asked;
            self.admitted += admitted;
        }
        self.strays += strays;
        if evicted + strays_most < least || evicted > most + strays_most {
            return Err(Violation::Forgotten { phase, least, most, evicted });
        }
        Ok(())
    }

    /// The current debt of a key with this theoretical arrival time.
    fn debt(&self, tat: u64) -> u64 {
        tat.saturating_sub(self.clock.now().as_nanos())
    }

    /// Scans the whole table for keys that have two live words, or were never charged.
    pub(super) fn sweep(&self) -> Result<(), Violation> {
        let mut seen = HashSet::new();
        for (hash, found) in self.limiter.live() {
            let Some(key) = self.keys.iter().position(|key| *key == hash) else {
                return Err(Violation::SetUp(format!("{hash:?} was never checked")));
            };
            if !seen.insert(hash) {
                return Err(Violation::TwoWords { key });
            }
            let expected = Duration::from_nanos(self.debt(self.tats[key]));
            if found != expected {
                return Err(Violation::Debt { key, expected, found });
            }
        }
        Ok(())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
