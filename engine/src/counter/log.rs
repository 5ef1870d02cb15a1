//! An exact log of when each unit was admitted.
//!
//! # Protocol
//! Units are numbered. The ring has `R` entries, a power of two above the limit; the unit numbered `x` has entry `x`
//! modulo `R`. The *head* is the number of the next unit. An entry holds a time and the parity of its
//! lap, so it tells whether it is of the present lap or of the one before.
//!
//! A check of cost `c` at the head `h`
//! 1. *settles*: a claim of several units may have left entries below `h` unwritten, at the end. They are written, in order, with
//!    the time of its first unit. So only one claim at a time can have unwritten entries;
//! 2. finds that unit `h + c - 1 - limit` has expired, by its entry or by a later one;
//! 3. *announces* its time in the entry of `h`: at least its own `now`, the time of unit `h - 1`, and what
//!    others have announced there;
//! 4. *claims* its units, by exchanging the head for `h + c`. The entry of `h` is written by then;
//! 5. writes the other entries, as anybody else may do by then.
//!
//! The head never goes down. So what was read before an exchange that succeeds, or before a second look
//! that finds the same head, belongs to that head. As `R` is above the limit, what is announced for `h`
//! takes the place of a unit that no check at `h` asks for.
//!
//! Contents of one entry only grow, also after a reset: a later lap's is made at least the next integer of its
//! parity. So an exchange of a content that was read long ago fails, unless the entry is still of the
//! same lap: then a late announcement lets a unit count for longer, from the reading of a check that met its own.
//!
//! # Why any window holds at most `limit` units
//! Be `now(x)` the reading of the check that was given unit `x` and `e(x)` its entry. Then `e(x) >= now(k)` for all
//! `k <= x`: who claims `x` has announced at least its `now` and the entry before, and an announced time never goes
//! down. A check that is given `y` found `now(y) >= e(z) + window` for a `z >= y - limit`. For any `x <= y - limit`
//! follows `now(y) >= now(x) + window`. Of more than `limit` units two are that far apart in number, hence a
//! window apart in their readings, also where clocks differ or go back.
//!
//! # Where the units begin that count
//! The *hint* is the number that the last admitted check found. A check begins to look there, goes back if the unit before has
//! not expired at its reading, and forward over those that have. So each unit is passed once, and who trusts a hint
//! has seen an entry that proves it.
//!
//! A reset names the head as the *floor*, below which units have expired.
//!
//! # Units that are restored
//! They are claimed and written as those of a check, in the order of their times, but whether or not others have expired. So
//! of the units that count only the last `limit` do; `R` is above it, and no check asks for one before them. A claim of up to
//! `limit` units leaves its first one, which is written, among these.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | L1 head, load | acquire | L2 | entries older than the head: a unit written with a time before its check's | `log-head-load-relaxed` |
//! | L2 head, exchange | release | L1 | as L1 | `log-claim-relaxed` |
//! | L3 entry, load | acquire | L4 | a second look may miss that the head has passed: a late thread writes into the next lap; an entry earlier in order may be read as of the lap before | `log-entry-relaxed` |
//! | L4 entry, exchange | release | L3 | as L3 | `log-entry-written-relaxed` |
//! | L5 hint | relaxed | none: proved by an entry | - | - |
//! | L6 floor, and the head that a reset names | relaxed | none: one that is above the head that was read has been made after the head has passed | - | - |

use alloc::{boxed::Box, vec::Vec};

use crossbeam_utils::CachePadded;

use crate::backoff::Backoff;
use crate::decision::Decision;
use crate::sync::{AtomicU64, Ordering};

use super::CounterError;
use super::restore::Charged;
use super::sliding_log::MAX_LOG_UNITS;

/// Expired units that a check passes one by one before it searches.
const STEPS: u64 = 8;

#[derive(Debug)]
pub(super) struct Log {
    limit: u64,
    window: u64,
    /// A power of two of them, above the limit.
    entries: Box<[AtomicU64]>,
    /// Units below this number have expired.
    floor: AtomicU64,
    front: CachePadded<Front>,
}

/// What each admitted check writes.
#[derive(Debug)]
struct Front {
    /// The number of the next unit.
    head: AtomicU64,
    /// Where to look for the first unit that counts.
    hint: AtomicU64,
}

/// The denial of what fits later, with what tells that a reading is late.
pub(super) struct Refusal {
    decision: Decision,
    head: u64,
    /// The time of the newest unit.
    newest: u64,
}

impl Log {
    pub(super) fn new(limit: u64, window: u64) -> Result<Self, CounterError> {
        if limit > MAX_LOG_UNITS {
            return Err(CounterError::LimitTooHigh { max: MAX_LOG_UNITS });
        }
        let mut entries = Vec::new();
        let lap = (limit + 1).next_power_of_two();
        entries.try_reserve_exact(lap as usize).map_err(|_| CounterError::OutOfMemory)?;
        entries.resize_with(lap as usize, AtomicU64::default);
        Ok(Self {
            limit,
            window,
            entries: entries.into_boxed_slice(),
            floor: AtomicU64::new(lap),
            front: CachePadded::new(Front { head: AtomicU64::new(lap), hint: AtomicU64::new(lap) }),
        })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Nanoseconds.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn entry_bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }

    /// Decides at `now`, or at a later reading where that is seen to be late.
    #[inline]
    pub(super) fn check(&self, cost: u64, now: u64, reread: impl Fn() -> u64) -> Decision {
        match self.decide(cost, now) {
            Err(refusal) if refusal.newest > now => self.check_anew(cost, refusal.head, reread),
            Ok(decision) | Err(Refusal { decision, .. }) => decision,
        }
    }

    /// Decides at a given `now`.
    #[inline]
    pub(super) fn check_at(&self, cost: u64, now: u64) -> Decision {
        self.decide(cost, now).unwrap_or_else(|refusal| refusal.decision)
    }

    /// Decides at readings made after the head was `seen`, as long as others are admitted at still later ones meanwhile.
    #[cold]
    fn check_anew(&self, cost: u64, mut seen: u64, reread: impl Fn() -> u64) -> Decision {
        loop {
            let now = reread();
            match self.decide(cost, now) {
                // Where nobody was admitted since, it is the clock that is behind.
                Err(Refusal { newest, head, .. }) if newest > now && head != seen => seen = head,
                Ok(decision) | Err(Refusal { decision, .. }) => return decision,
            }
        }
    }

    #[inline]
    fn decide(&self, cost: u64, now: u64) -> Result<Decision, Refusal> {
        if self.limit == 0 {
            let blocked = Decision::never(0, 0, 0);
            return Ok(if cost == 0 { Decision::allowed(0, 0, 0) } else { blocked });
        }
        let mut backoff = Backoff::new();
        loop {
            let head = self.head();
            let Some(newest) = self.newest(head) else { continue };
            let first = self.first_unexpired(head, now);
            let free = self.limit - (head - first);
            if cost == 0 || cost > free {
                let answer = self.turned_down(cost, free, head, newest, now);
                if !self.has_passed(head) {
                    return answer;
                }
            } else if let Some(time) = self.claim(head, cost, newest.max(now)) {
                self.front.hint.store(first, Ordering::Relaxed); // L5
                self.write(head + 1, head + cost, time);
                let reset_after = time + self.window - now;
                return Ok(Decision::allowed(self.limit, free - cost, reset_after));
            } else {
                backoff = backoff.pause();
            }
        }
    }

    /// Lets `units` more count, up to the limit of them, as if admitted at `time` or with the newest unit if that is later.
    pub(super) fn append(&self, units: u64, time: u64) {
        let mut backoff = Backoff::new();
        loop {
            let head = self.head();
            let Some(newest) = self.newest(head) else { continue };
            if let Some(time) = self.claim(head, units, newest.max(time)) {
                return self.write(head + 1, head + units, time);
            }
            backoff = backoff.pause();
        }
    }

    /// The units that count at `now`, as of the call. One whose entry has been taken since is told as the later unit that is there.
    pub(super) fn counted(&self, now: u64) -> impl Iterator<Item = Charged> + '_ {
        let head = loop {
            let head = self.head();
            if self.newest(head).is_some() {
                break head;
            }
        };
        let mut units = self.first_unexpired(head, now)..head;
        let mut next = units.next().map(|unit| self.content(unit) >> 1);
        core::iter::from_fn(move || {
            let mut charged = Charged { at: next.take()?, units: 1 };
            for unit in units.by_ref() {
                let at = self.content(unit) >> 1;
                if at != charged.at {
                    next = Some(at);
                    break;
                }
                charged.units += 1;
            }
            Some(charged)
        })
    }

    pub(super) fn reset(&self) {
        let head = self.front.head.load(Ordering::Relaxed); // L6
        self.floor.fetch_max(head, Ordering::Relaxed); // L6
    }

    /// The answer to a cost that is not charged.
    fn turned_down(
        &self,
        cost: u64,
        free: u64,
        head: u64,
        newest: u64,
        now: u64,
    ) -> Result<Decision, Refusal> {
        let counts = free < self.limit;
        let reset_after = if counts { self.expires_after(head - 1, now) } else { 0 };
        if cost == 0 {
            Ok(Decision::allowed(self.limit, free, reset_after))
        } else if cost > self.limit {
            Ok(Decision::never(self.limit, free, reset_after))
        } else {
            // At least 1 unless the head has passed, when nobody gets this answer.
            let wait = self.expires_after(head + cost - 1 - self.limit, now).max(1);
            let decision = Decision::denied(self.limit, free, wait, reset_after);
            Err(Refusal { decision, head, newest })
        }
    }

    /// Takes the units from `head` on; the time at which the first counts, at least `time`.
    #[inline]
    fn claim(&self, head: u64, cost: u64, time: u64) -> Option<u64> {
        let time = self.put(head, head, time)?;
        // L2
        self.front
            .head
            .compare_exchange(head, head + cost, Ordering::Release, Ordering::Relaxed)
            .is_ok()
            .then_some(time)
    }

    /// The time of the newest unit; `None` if it had to be written first.
    #[inline]
    fn newest(&self, head: u64) -> Option<u64> {
        let content = self.content(head - 1);
        if self.is_of(head - 1, content) {
            return Some(content >> 1);
        }
        self.settle(head);
        None
    }

    /// Writes what the last claim before `head` has left unwritten, with the time of its first unit.
    #[cold]
    fn settle(&self, head: u64) {
        let oldest = head - self.limit;
        let mut unit = head - 1;
        while unit > oldest && !self.is_of(unit, self.content(unit)) {
            unit -= 1;
        }
        self.write(unit + 1, head, self.content(unit) >> 1);
    }

    /// Writes the entries from `first` to before `head`, in order.
    #[inline]
    fn write(&self, first: u64, head: u64, time: u64) {
        for unit in first..head {
            // Who passed the head has found everything written.
            if self.put(unit, head, time).is_none() && self.has_passed(head) {
                return;
            }
        }
    }

    /// Lets the entry of a unit have at least `time`; what it has. `None` if somebody else has changed the entry
    /// or passed the head.
    #[inline]
    fn put(&self, unit: u64, head: u64, time: u64) -> Option<u64> {
        let (seen, parity) = (self.content(unit), self.parity(unit));
        let least = if self.is_of(unit, seen) { seen } else { seen + 1 };
        let time = time.max(least >> 1);
        let content = time << 1 | parity;
        if content == seen {
            return Some(time);
        }
        if self.has_passed(head) {
            return None;
        }
        // L4
        self.entry(unit)
            .compare_exchange(seen, content, Ordering::Release, Ordering::Relaxed)
            .is_ok()
            .then_some(time)
    }

    /// The number of the first unit that counts at `now`, or `head`.
    #[inline]
    fn first_unexpired(&self, head: u64, now: u64) -> u64 {
        let floor = self.floor.load(Ordering::Relaxed); // L6
        // A floor beyond the head tells that the head has passed.
        let least = (head - self.limit).max(floor).min(head);
        let mut unit = self.front.hint.load(Ordering::Relaxed).clamp(least, head); // L5
        if unit > least && !self.has_expired(unit - 1, now) {
            return self.search(least, unit - 1, now);
        }
        let few = head.min(unit + STEPS);
        while unit < few && self.has_expired(unit, now) {
            unit += 1;
        }
        if unit < few { unit } else { self.search(unit, head, now) }
    }

    /// The first unit from `first` on that has not expired, or `end`.
    fn search(&self, mut first: u64, mut end: u64, now: u64) -> u64 {
        while first < end {
            let middle = first + (end - first) / 2;
            if self.has_expired(middle, now) { first = middle + 1 } else { end = middle }
        }
        first
    }

    #[inline]
    fn has_expired(&self, unit: u64, now: u64) -> bool {
        self.expires_after(unit, now) == 0
    }

    #[inline]
    fn expires_after(&self, unit: u64, now: u64) -> u64 {
        ((self.content(unit) >> 1) + self.window).saturating_sub(now)
    }

    /// The number of the next unit, with all entries below it.
    #[inline]
    fn head(&self) -> u64 {
        self.front.head.load(Ordering::Acquire) // L1
    }

    /// A second look: whether the head has moved on, so that what was read may be of a later lap.
    #[inline]
    fn has_passed(&self, head: u64) -> bool {
        self.front.head.load(Ordering::Relaxed) != head
    }

    /// Whether an entry's content is of the unit's lap, rather than of the one before.
    #[inline]
    fn is_of(&self, unit: u64, content: u64) -> bool {
        content & 1 == self.parity(unit)
    }

    #[inline]
    fn parity(&self, unit: u64) -> u64 {
        u64::from(unit & self.entries.len() as u64 != 0)
    }

    #[inline]
    fn content(&self, unit: u64) -> u64 {
        self.entry(unit).load(Ordering::Acquire) // L3
    }

    #[inline]
    fn entry(&self, unit: u64) -> &AtomicU64 {
        &self.entries[unit as usize & (self.entries.len() - 1)]
    }
}
