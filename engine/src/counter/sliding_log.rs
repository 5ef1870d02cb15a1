//! An exact log of when each unit was admitted.
//!
//! # Protocol
//! Units are numbered from `limit` on; the one numbered `x` has entry `x` modulo `limit`. The *head* is the number
//! of the next unit. An entry holds the time of a unit and the parity of its lap, so it tells whether it is that
//! of the unit that last claimed it, or still of the one a lap before: claimed and not written yet.
//!
//! A check of cost `c` at the head `h`
//! 1. *settles*: writes the entries of the last claim that are not written yet. So every entry below `h`
//!    is written before `h` is passed, and only one claim at a time can be unwritten;
//! 2. finds that unit `h + c - 1 - limit` has expired, by its entry;
//! 3. *raises* the latest time of the log to its own `now`;
//! 4. *claims* its units, by exchanging the head for `h + c`;
//! 5. writes their entries in order, with the latest time, as anybody else may do by then.
//!
//! The head never goes down. So what was read before an exchange that succeeds, or before a second look
//! that finds the same head, belongs to that head: entries of the last lap and none of the next.
//!
//! # Why any window holds at most `limit` units
//! The latest time is raised before a claim, so whoever writes an entry, it is no earlier than the
//! `now` of the check that claimed it; and it never goes down, so entries are in order of
//! time. Be `now(x)` the reading of the check that was given unit `x` and `e(x)` its entry. A check that is given `y`
//! found `now(y) >= e(y - limit) + window`. For any `x <= y - limit` follows `now(y) >= e(x) + window >= now(x) + window`. Of
//! more than `limit` units two are that far apart in number, hence a window apart in their readings, also
//! where clocks differ or go back.
//!
//! A reset raises the latest time by 1 ns and then names the head as the *floor*, below which units have expired. So contents
//! of one entry only grow, and an exchange of a content that was read long ago fails.
//!
//! # Orderings
//! | site | ordering | partner | what breaks if weaker |
//! |---|---|---|---|
//! | L1 head, load | acquire | L2 | entries or a latest time older than the head: a unit written with a time before its check's |
//! | L2 head, exchange | release | L1 | as L1 |
//! | L3 entry, load | acquire | L4 | a second look may miss that the head has passed: a helper writes into the next lap; an entry earlier in order may be read as of the lap before |
//! | L4 entry, exchange | release | L3 | as L3 |
//! | L5 latest, raise | relaxed | ordered before L2 by its release, after L3 by its acquire | - |
//! | L6 floor | acquire, release | each other | the latest time as before the reset |

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::builder::DefaultClock;
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::sync::{AtomicU64, Ordering};
#[cfg(feature = "std")]
use crate::tsc::TscClock;

use super::{CounterError, window_nanos};

/// The largest limit of a [`SlidingLog`], in units: 2^24, a log of 128 MiB.
pub const MAX_LOG_UNITS: u64 = 1 << 24;

/// Readings beyond this are taken for this one: 2^62 ns, 146 years.
const HORIZON: u64 = 1 << 62;

/// An exact limit on the units of any window of time, for one key: a log of when each of the last `limit` units
/// was admitted.
///
/// # When to use it
/// When a limit of up to some thousands must be exact. Higher ones cost less memory in a
/// [`SubWindowCounter`](crate::SubWindowCounter).
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval `[t, t + window)` of the readings `now` of their checks,
///   also where readings of different threads differ or go back. Where they do not, a check that does not meet
///   another is denied only if it would break that. A unit whose reading is earlier than one before it counts from
///   the later reading: for longer, never for less.
/// * A cost is admitted or denied as a whole. Nothing is taken back.
/// * Lock-free: a thread that stops anywhere keeps nobody from deciding. If it stops between being admitted and
///   writing the time, another one writes its own time in its place: units then count for longer, never
///   for less.
///
/// There is no refund, and nothing is charged beyond the limit: a log has no place for either.
///
/// # Cost
/// 8 bytes a unit of the limit. A check is O(log limit + cost).
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::{ManualClock, SlidingLog};
///
/// let clock = ManualClock::new();
/// let log = SlidingLog::with_clock(2, Duration::from_secs(10), &clock)?;
/// assert!(log.check().is_allowed());
/// clock.advance(Duration::from_secs(4));
/// assert!(log.check().is_allowed());
/// assert_eq!(log.check().retry_after(), Some(Duration::from_secs(6)));
/// assert_eq!(log.check_n(2).retry_after(), Some(Duration::from_secs(10)));
/// # Ok::<(), tidegate_engine::CounterError>(())
/// ```
#[derive(Debug)]
pub struct SlidingLog<C = DefaultClock> {
    log: Log,
    clock: C,
}

#[cfg(feature = "std")]
impl SlidingLog {
    /// At most `limit` units each `window`, on the time-stamp counter.
    ///
    /// # Errors
    /// As [`SlidingLog::with_clock`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, CounterError> {
        Self::with_clock(limit, window, TscClock::new())
    }
}

impl<C: Clock> SlidingLog<C> {
    /// As [`SlidingLog::new`], on another clock. A limit of 0 blocks: every cost above 0 is denied and can
    /// never fit.
    ///
    /// # Errors
    /// When the window is 0 or longer than [`MAX_COUNTER_WINDOW`](crate::MAX_COUNTER_WINDOW), the limit is
    /// above [`MAX_LOG_UNITS`], or the memory is not to be had.
    pub fn with_clock(limit: u64, window: Duration, clock: C) -> Result<Self, CounterError> {
        Ok(Self { log: Log::new(limit, window_nanos(window)?)?, clock })
    }

    /// Asks for one unit.
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, all or none. A cost of 0 is a
    /// [`SlidingLog::peek`].
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`SlidingLog::check_n`], at a time the caller gives, on the scale of the log's clock.
    #[inline]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.log.check(cost, now.as_nanos().min(HORIZON))
    }

    /// What a check would find, without charging anything.
    #[inline]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Forgets what has been admitted before this call. From then on the log's time may be 1 ns ahead for each
    /// reset that no clock reading came after.
    pub fn reset(&self) {
        self.log.reset(self.clock.now().as_nanos().min(HORIZON));
    }

    /// The units of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.log.limit
    }

    /// The clock that is read.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all of them taken when the log is made.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.log.entries)
    }
}

#[derive(Debug)]
pub(super) struct Log {
    limit: u64,
    window: u64,
    /// The number of the next unit.
    head: CachePadded<AtomicU64>,
    /// At least the time of every unit.
    latest: AtomicU64,
    /// Units below this number have expired.
    floor: AtomicU64,
    entries: Box<[AtomicU64]>,
}

impl Log {
    pub(super) fn new(limit: u64, window: u64) -> Result<Self, CounterError> {
        if limit > MAX_LOG_UNITS {
            return Err(CounterError::LimitTooHigh);
        }
        let mut entries = Vec::new();
        let count = limit as usize;
        entries.try_reserve_exact(count).map_err(|_| CounterError::OutOfMemory)?;
        entries.resize_with(count, AtomicU64::default);
        Ok(Self {
            limit,
            window,
            head: CachePadded::new(AtomicU64::new(limit)),
            latest: AtomicU64::new(0),
            floor: AtomicU64::new(limit),
            entries: entries.into_boxed_slice(),
        })
    }

    #[inline]
    pub(super) fn check(&self, cost: u64, now: u64) -> Decision {
        if self.limit == 0 {
            return if cost == 0 { Decision::allowed(0, 0, 0) } else { Decision::never(0, 0, 0) };
        }
        loop {
            let head = self.head.load(Ordering::Acquire); // L1
            self.settle(head, now);
            let first = self.first_unexpired(head, now);
            let free = self.limit - (head - first);
            if cost == 0 || cost > free {
                let answer = self.turned_down(cost, free, head, first, now);
                if self.head.load(Ordering::Relaxed) == head {
                    return answer;
                }
            } else if let Some(time) = self.claim(head, cost, now) {
                self.write(head, head + cost, time);
                let reset_after = time + self.window - now;
                return Decision::allowed(self.limit, free - cost, reset_after);
            }
        }
    }

    pub(super) fn reset(&self, now: u64) {
        if self.limit == 0 {
            return;
        }
        let head = self.head.load(Ordering::Acquire); // L1
        self.settle(head, now);
        self.raise(now);
        self.latest.fetch_add(1, Ordering::Relaxed); // L5
        self.floor.fetch_max(head, Ordering::AcqRel); // L6
    }

    /// The answer to a cost that is not charged.
    fn turned_down(&self, cost: u64, free: u64, head: u64, first: u64, now: u64) -> Decision {
        let reset_after = if first == head { 0 } else { self.expires_after(head - 1, now) };
        if cost == 0 {
            Decision::allowed(self.limit, free, reset_after)
        } else if cost > self.limit {
            Decision::never(self.limit, free, reset_after)
        } else {
            // At least 1 unless the head has passed, when nobody gets this answer.
            let wait = self.expires_after(head + cost - 1 - self.limit, now).max(1);
            Decision::denied(self.limit, free, wait, reset_after)
        }
    }

    /// Takes the units from `head` on; the time at which they count.
    #[inline]
    fn claim(&self, head: u64, cost: u64, now: u64) -> Option<u64> {
        let time = self.raise(now);
        // L2
        self.head
            .compare_exchange(head, head + cost, Ordering::Release, Ordering::Relaxed)
            .is_ok()
            .then_some(time)
    }

    /// The latest time, at least `now`.
    #[inline]
    fn raise(&self, now: u64) -> u64 {
        // L5
        let latest = self.latest.load(Ordering::Relaxed);
        if latest >= now { latest } else { self.latest.fetch_max(now, Ordering::Relaxed).max(now) }
    }

    /// Writes what the last claim before `head` has left unwritten.
    #[inline]
    fn settle(&self, head: u64, now: u64) {
        if !self.is_written(head - 1) {
            self.settle_claim(head, now);
        }
    }

    #[cold]
    fn settle_claim(&self, head: u64, now: u64) {
        let oldest = head - self.limit;
        let mut first = head - 1;
        while first > oldest && !self.is_written(first - 1) {
            first -= 1;
        }
        self.write(first, head, self.raise(now));
    }

    /// Writes the entries of a claim in order, those that are not written.
    #[inline]
    fn write(&self, first: u64, head: u64, time: u64) {
        for unit in first..head {
            let entry = self.entry(unit);
            let seen = entry.load(Ordering::Acquire); // L3
            if self.is_of(unit, seen) {
                continue;
            }
            if self.head.load(Ordering::Acquire) != head {
                // Who passed the head has found everything written.
                return;
            }
            let content = time << 1 | self.parity(unit);
            // L4; who fails finds it written.
            let _ = entry.compare_exchange(seen, content, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// The number of the first unit of the window at `now`, or `head`.
    #[inline]
    fn first_unexpired(&self, head: u64, now: u64) -> u64 {
        let floor = self.floor.load(Ordering::Acquire); // L6
        let (mut first, mut end) = ((head - self.limit).max(floor), head);
        while first < end {
            let middle = first + (end - first) / 2;
            if self.expires_after(middle, now) == 0 { first = middle + 1 } else { end = middle }
        }
        // A floor beyond the head tells that the head has passed.
        first.min(head)
    }

    #[inline]
    fn expires_after(&self, unit: u64, now: u64) -> u64 {
        let time = self.entry(unit).load(Ordering::Acquire) >> 1; // L3
        (time + self.window).saturating_sub(now)
    }

    #[inline]
    fn is_written(&self, unit: u64) -> bool {
        self.is_of(unit, self.entry(unit).load(Ordering::Acquire)) // L3
    }

    /// Whether an entry's content is of the unit's lap, rather than of the one before.
    #[inline]
    fn is_of(&self, unit: u64, content: u64) -> bool {
        content & 1 == self.parity(unit)
    }

    #[inline]
    fn parity(&self, unit: u64) -> u64 {
        (unit / self.limit) & 1
    }

    #[inline]
    fn entry(&self, unit: u64) -> &AtomicU64 {
        &self.entries[(unit % self.limit) as usize]
    }
}
