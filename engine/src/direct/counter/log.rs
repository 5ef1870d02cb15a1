//! An exact log of when each unit was admitted.
//!
//! # Protocol
//! Units are numbered. The ring has `R` entries, a power of two above the limit; unit `x` uses
//! entry `x` modulo `R`. The *head* is the number of the next unit. An entry holds a time and the
//! parity of its lap, which distinguishes the current lap from the one before.
//!
//! A check of cost `c` at the head `h`
//! 1. *settles*: a claim of several units may have left its last entries below `h` unwritten. They
//!    are written, in order, with the time of its first unit. So at most one claim has unwritten
//!    entries at a time;
//! 2. verifies that unit `h + c - 1 - limit` has expired, by its entry or a later one;
//! 3. *announces* its time in the entry of `h`: at least its own `now`, the time of unit `h - 1`,
//!    and any time announced there before;
//! 4. *claims* its units by exchanging the head for `h + c`. The entry of `h` is already written;
//! 5. writes the other entries, as any other thread may from then on.
//!
//! The head never decreases. So what was read before a successful exchange, or before a re-read
//! that finds the same head, belongs to that head. As `R` is above the limit, an announcement for
//! `h` overwrites a unit that no check at `h` reads.
//!
//! The content of an entry only grows, also after a reset: that of a later lap is at least the next
//! integer of its parity. So an exchange of a stale content fails, unless the entry is still of the
//! same lap: then a late announcement makes a unit count for longer, from the reading of a
//! concurrent check.
//!
//! # Why any window holds at most `limit` units
//! Let `now(x)` be the reading of the check that got unit `x` and `e(x)` the time in its entry.
//! Then `e(x) >= now(k)` for all `k <= x`: the check that claims `x` has announced at least its
//! `now` and the time of the entry before, and an announced time never decreases. A check that gets
//! `y` found `now(y) >= e(z) + window` for some `z >= y - limit`. Hence `now(y) >= now(x) + window`
//! for any `x <= y - limit`. Among more than `limit` units, two are that far apart in number, hence
//! a window apart in their readings, even if clocks differ or go back.
//!
//! # Finding the first unit that counts
//! The *hint* is the number that the last admitted check found. A check starts there, goes back if
//! the unit before has not expired at its reading, and forward over those that have. So each unit
//! is passed once, and a hint is used only after an entry has confirmed it.
//!
//! A reset stores the head as the *floor*, below which units have expired.
//!
//! # Restored units
//! They are claimed and written as those of a check, in the order of their times, but whether or
//! not others have expired. Only the last `limit` units count then; `R` is above that, and no check
//! reads an earlier one. A claim is of at most `limit` units, so its first one, which is written,
//! is among these.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | L1 head, load | acquire | L2 | entries older than the head: a unit written with a time before its check's | `log-head-load-relaxed` |
//! | L2 head, exchange | release | L1 | as L1 | `log-claim-relaxed` |
//! | L3 entry, load | acquire | L4 | a re-read may miss that the head has moved on: a late thread writes into the next lap; an earlier entry may be read as of the lap before | `log-entry-relaxed` |
//! | L4 entry, exchange | release | L3 | as L3 | `log-entry-written-relaxed` |
//! | L5 hint | relaxed | none: proved by an entry | - | - |
//! | L6 floor, and the head read by a reset | relaxed | none: a floor above the head that a check read was stored after that head was passed | - | - |
//! | L7 head, re-read | relaxed | ordered after L3 by its acquire | - | `log-late-announcement-without-second-read`, `log-denial-without-second-look` |

use alloc::{boxed::Box, vec::Vec};

use crossbeam_utils::CachePadded;

use crate::base::backoff::Backoff;
use crate::base::decision::Decision;
use crate::base::sync::{AtomicU64, Ordering};

use super::CounterError;
use super::charged::Charged;

/// Maximum limit of a [`SlidingLog`](crate::counter::SlidingLog), in units: 2^24 - 1, a log of 128
/// MiB.
pub const MAX_LOG_UNITS: u64 = (1 << 24) - 1;

/// Expired units that a check steps over one by one before it uses binary search.
const STEPS: u64 = 8;

#[derive(Debug)]
pub(super) struct Log {
    limit: u64,
    window: u64,
    /// Their number is a power of two above the limit.
    entries: Box<[AtomicU64]>,
    /// Units below this number have expired.
    floor: AtomicU64,
    front: CachePadded<LogFront>,
}

/// Written by every admitted check.
#[derive(Debug)]
struct LogFront {
    /// The number of the next unit.
    head: AtomicU64,
    /// Where to start searching for the first unit that counts.
    hint: AtomicU64,
}

/// The denial of a cost that fits later, with what shows whether the reading is stale.
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
            front: CachePadded::new(LogFront {
                head: AtomicU64::new(lap),
                hint: AtomicU64::new(lap),
            }),
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

    /// Decides at `now`, or at a later reading if that turns out to be stale.
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

    /// Decides at readings made after the head was `seen`, retrying while others are admitted at
    /// still later ones.
    #[cold]
    fn check_anew(&self, cost: u64, mut seen: u64, reread: impl Fn() -> u64) -> Decision {
        loop {
            let now = reread();
            match self.decide(cost, now) {
                // If no unit was admitted since, the clock itself is behind.
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

    /// Adds `units`, at most the limit, as if admitted at `time`, or with the newest unit if that
    /// is later.
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

    /// The units that count at `now`, as of the call. A unit whose entry was overwritten since is
    /// replaced by the later unit in it.
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

    /// The decision on a cost that is not charged.
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
            // At least 1 unless the head has moved on, in which case this decision is discarded.
            let wait = self.expires_after(head + cost - 1 - self.limit, now).max(1);
            let decision = Decision::denied(self.limit, free, wait, reset_after);
            Err(Refusal { decision, head, newest })
        }
    }

    /// Takes the units from `head` on; returns the time from which the first counts, at least
    /// `time`.
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

    /// Writes the entries that the last claim before `head` has left unwritten, with the time of
    /// its first unit.
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
            // The thread that moved the head has found everything written.
            if self.put(unit, head, time).is_none() && self.has_passed(head) {
                return;
            }
        }
    }

    /// Raises the entry of a unit to at least `time`; returns its time. `None` if another thread
    /// has changed the entry or the head has moved on.
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
        // A floor beyond the head shows that the head has moved on.
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

    /// The number of the next unit; entries below it are visible.
    #[inline]
    fn head(&self) -> u64 {
        self.front.head.load(Ordering::Acquire) // L1
    }

    /// A re-read: whether the head has moved on, so that what was read may be of a later lap.
    #[inline]
    fn has_passed(&self, head: u64) -> bool {
        self.front.head.load(Ordering::Relaxed) != head // L7
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
