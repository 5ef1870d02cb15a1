//! The leaky bucket as a queue: calls start at the rate of a quota, in order of arrival.
//!
//! The arithmetic is that of GCRA on one word, see [`Gcra::admit_by`].
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | Q1 TAT, all accesses | relaxed | none: it guards no memory, and each change is one atomic step | - | `queue-reservation-stored` |

mod restore;

use alloc::sync::Arc;
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::base::backoff::Backoff;
use crate::base::decision::Decision;
use crate::base::key::{KEYLESS, KeyHash};
use crate::base::sync::{AtomicU64, Ordering};
use crate::base::word::Update;
use crate::contract::wait::{
    Behind, Charge, DEFAULT_MAX_WAITERS, Granted, Removal, TakenOff, Timer, Turn, Wait, WaitLists,
    Waiters, line,
};
use crate::rule::algorithm::Algorithm as _;
use crate::rule::gcra::{Gcra, Terms as _, Time, lowered};
use crate::rule::quota::{Quota, QuotaError};
use crate::time::{Clock, DefaultClock, Timestamp};

/// Shapes calls: each gets a start time, so that calls start at the rate of a [`Quota`], first
/// come, first served. One 64-bit word; for outgoing calls to a service with a limit per second.
///
/// A burst of 1 spaces all starts evenly; a larger one lets that many start at once after a pause.
///
/// # Guarantees
/// * The cost of the calls that start in any interval `[s, t]` is at most `burst + rate * (t - s)`,
///   for any number of threads, with the unit of time that [`Quota`] states, even if turns are
///   given up. [`Wait::jitter`] adds what it states, and timers late by up to `d` add `rate * d`.
/// * First come, first served: starts are in the order in which the places were taken. Only
///   [`Wait::jitter`] can reorder those less than the jitter apart.
/// * No call waits longer than its [`Wait`], and no more than [`Queue::max_waiters`] wait at once:
///   a call that would exceed either, or costs more than the burst, is denied at once.
/// * A call that does not wait takes no lock. Waiters take one for each operation on their list.
///
/// [`Queue::snapshot`] preserves the line across a restart.
///
/// # When to use it
/// To stay within the limit of a called service by delaying calls instead of dropping them; calls
/// that cannot wait use [`Queue::check`] in the same line. If no call waits use
/// [`DirectLimiter`](crate::DirectLimiter), for a line per key
/// [`Limiter::enqueue`](crate::Limiter::enqueue), to bound calls in flight `Concurrency`.
///
/// # Error
/// None beyond that unit of time, to which starts are rounded up.
///
/// # Cost
/// 640 bytes with the default clock on x86-64, and some 100 for each waiter. A start at once is one
/// compare-and-swap of one word, O(1); a place among waiters is one, and O(log waiters) in a list.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::{Queue, Quota};
///
/// let calls = Queue::new(Quota::per_second(1_000).burst(1))?;
/// for _ in 0..3 {
///     // Sleeps about 1 ms between calls.
///     assert!(calls.acquire_blocking(1, Duration::from_secs(1)).is_allowed());
/// }
/// # Ok::<(), tidegate_engine::QuotaError>(())
/// ```
#[doc(alias = "leaky bucket")]
#[doc(alias = "shaping")]
#[doc(alias = "pacing")]
#[derive(Debug)]
pub struct Queue<C = DefaultClock> {
    tat: CachePadded<AtomicU64>,
    gcra: Gcra,
    quota: Quota,
    clock: C,
    waiters: Waiters,
    wait_lists: WaitLists,
}

#[cfg(feature = "std")]
impl Queue {
    /// An empty queue on the time-stamp counter, with room for
    /// [`DEFAULT_MAX_WAITERS`](crate::wait::DEFAULT_MAX_WAITERS). Blocks for up to 200 ms if it
    /// makes the first [`TscClock`](crate::clock::TscClock) of the process.
    ///
    /// # Errors
    /// When the quota cannot be enforced.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::with_clock(quota, DefaultClock::new())
    }
}

impl<C: Clock> Queue<C> {
    /// As [`Queue::new`], on another clock.
    ///
    /// # Errors
    /// When the quota cannot be enforced.
    pub fn with_clock(quota: Quota, clock: C) -> Result<Self, QuotaError> {
        let gcra = Gcra::exact(&quota)?;
        let waiters = Waiters::new(DEFAULT_MAX_WAITERS);
        let (tat, wait_lists) = (CachePadded::new(AtomicU64::new(0)), WaitLists::keyless());
        Ok(Self { tat, gcra, quota, clock, waiters, wait_lists })
    }

    /// Bounds the waiters at any time to `count`,
    /// [`DEFAULT_MAX_WAITERS`](crate::wait::DEFAULT_MAX_WAITERS) unless set. With 0 no call waits.
    #[must_use]
    pub fn max_waiters(self, count: u64) -> Self {
        Self { waiters: Waiters::new(count), ..self }
    }

    /// Starts as if all of the burst but `units` (clamped to the burst) had just been used, unless
    /// more was. For a process that may restart before its last use has drained elsewhere.
    #[must_use]
    pub fn initial(self, units: u64) -> Self {
        let used = self.quota.burst_size().saturating_sub(units);
        let now = self.gcra.instant(self.clock.now());
        if let Some(charged) = self.gcra.charge(0, now, used) {
            self.tat.fetch_max(charged, Ordering::Relaxed); // Q1
        }
        self
    }

    /// Takes a place in line for `cost`, or is denied at once. A cost of 0 takes no place: it is a
    /// [`Queue::peek`]. O(log waiters), with a lock that only waiters take; a call that can start
    /// at once is O(1), and neither locks nor allocates.
    ///
    /// | denied, because | [`Decision::retry_after`] |
    /// |---|---|
    /// | the maximum number of waiters is reached | the time until the call could start at once |
    /// | the start would be beyond `wait` | the time until the same call gets a place |
    /// | `cost` exceeds the burst | `None`: it never fits |
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(&self, cost: u64, wait: impl Into<Wait>) -> Result<Turn<'_, Self>, Decision> {
        let (wait, reading) = (wait.into(), self.clock.now());
        let denied = match self.place(cost, &Wait::at_most(Duration::ZERO), reading) {
            Ok(granted) => return Ok(Turn::new(self, granted, None)),
            Err(denied) => denied,
        };
        self.in_time(cost, &wait, reading)?;
        let Some(waiter) = self.waiters.enter() else { return Err(denied) };
        let place = || self.place(cost, &wait, reading);
        let (granted, number) = self.wait_lists.enter(KEYLESS, place)?;
        // The line may have drained since: then the turn does not count as a waiter.
        if number.is_some() {
            waiter.hold();
        }
        Ok(Turn::new(self, granted, number))
    }

    /// The denial of a call that would have to wait too long, or whatever it waits.
    fn in_time(&self, cost: u64, wait: &Wait, reading: Timestamp) -> Result<(), Decision> {
        let (now, found) = (self.gcra.instant(reading), self.tat.load(Ordering::Relaxed)); // Q1
        let longest = wait.longest_units(reading, self.gcra.scale());
        if cost > 0 && self.gcra.admit_by(found, now, cost, longest).is_some() {
            return Ok(());
        }
        Err(self.gcra.answer_by(Update::Unchanged { found, now }, cost, longest))
    }

    /// Charges `cost`, if it can start as early as `wait` says.
    fn place(&self, cost: u64, wait: &Wait, reading: Timestamp) -> Result<Granted, Decision> {
        let (now, gcra) = (self.gcra.instant(reading), &self.gcra);
        let longest = wait.longest_units(reading, gcra.scale());
        let mut backoff = Backoff::new();
        loop {
            let found = self.tat.load(Ordering::Relaxed); // Q1
            let charged = gcra.admit_by(found, now, cost, longest).filter(|_| cost > 0);
            let Some(end) = charged else {
                let decision = gcra.answer_by(Update::Unchanged { found, now }, cost, longest);
                // A peek while a cost of 1 would not have to wait, and any cost under an unlimited
                // quota.
                let allowed = decision.is_allowed();
                let granted = Granted::uncharged(KEYLESS, decision, reading);
                return if allowed { Ok(granted) } else { Err(decision) };
            };
            // Q1
            match self.tat.compare_exchange(found, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let (time, before) = (Time::always(gcra.scale()), found.max(now));
                    let wait_units = gcra.wait(end, now);
                    return Ok(Granted {
                        key: KEYLESS,
                        decision: gcra.answer(Update::Written { before: found, now }, cost),
                        charge: Some(Charge { time, before, lead: 0, end, tolerance: gcra.tau() }),
                        start: wait.start(reading, wait_units, gcra.scale()),
                        waits: wait_units > 0,
                    });
                }
                Err(_) => backoff = backoff.pause(),
            }
        }
    }

    /// Takes one unit if it can start at once: [`Queue::check_n`] with a cost of 1.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Takes `cost` if it can start at once, behind all waiters: for calls that are denied instead
    /// of waiting, in one line with those that wait. A cost of 0 takes nothing: it is a
    /// [`Queue::peek`]. O(1), without locks or allocation.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.enqueue(cost, Wait::at_most(Duration::ZERO)).map_or_else(|denied| denied, Turn::keep)
    }

    /// As [`Queue::enqueue`], for a turn that moves into a task: it keeps the queue alive.
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue_owned(
        self: &Arc<Self>,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'static, Self>, Decision>
    where
        C: 'static,
    {
        self.enqueue(cost, wait).map(|turn| turn.into_owned(self))
    }

    /// Waits in line for `cost`: [`Queue::enqueue`], then [`Turn::wait_on`] with a
    /// [`ThreadTimer`](crate::wait::ThreadTimer). Returns an allowed decision at the start, or a
    /// denied one at once.
    ///
    /// The place is taken when the future is first polled. Dropping the future gives it up, see
    /// [`Turn`].
    ///
    /// # Panics
    /// When it has to wait and the operating system cannot start a thread for the timer, see
    /// [`ThreadTimer`](crate::wait::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub async fn acquire(&self, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::contract::wait::ThreadTimer, cost, wait).await
    }

    /// As [`Queue::acquire`], sleeping on the given timer.
    #[must_use = "a decision that is ignored limits nothing"]
    pub async fn acquire_on<T: Timer>(
        &self,
        timer: &T,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Decision {
        match self.enqueue(cost, wait) {
            Ok(turn) => turn.wait_on(timer).await,
            Err(denied) => denied,
        }
    }

    /// As [`Queue::acquire`], blocking the thread.
    #[cfg(feature = "std")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn acquire_blocking(&self, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// The current state, without taking a place: `remaining` units can start at once, and after
    /// `reset_after` everything charged has drained. Denied while a cost of 1 would have to wait
    /// behind waiters.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        let now = self.gcra.instant(self.clock.now());
        // Q1
        self.gcra.answer(Update::Unchanged { found: self.tat.load(Ordering::Relaxed), now }, 0)
    }

    /// The number of waiters: turns that could not start at once, and calls in `acquire`.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    /// The quota at which calls start.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The clock on whose scale starts are given.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C: Clock> line::Sealed for Queue<C> {
    type Clock = C;

    fn line_clock(&self) -> &C {
        &self.clock
    }

    fn line_waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn wait_lists(&self) -> &WaitLists {
        &self.wait_lists
    }

    fn take_off(&self, _: KeyHash, removal: Removal) -> Option<TakenOff> {
        let Removal { end, behind, .. } = removal;
        let mut tat = self.tat.load(Ordering::Relaxed); // Q1
        loop {
            if !removal.fits(tat) || behind == Behind::Unknown && tat != end {
                return None;
            }
            // After the word, and so not before a start of what it counts.
            let at = self.clock.now();
            let now = self.gcra.instant(at);
            let units = removal.left_at(now);
            let less = lowered(tat, now, units)?;
            // Q1
            match self.tat.compare_exchange(tat, less, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(TakenOff { units, at, tat }),
                Err(found) => tat = found,
            }
        }
    }
}
