//! The leaky bucket as a queue: calls leave at the rate of a quota, in the order in which they came.
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

use crate::acquire::{DEFAULT_MAX_WAITERS, Granted, Timer, Turn, Wait, Waiters, line};
use crate::backoff::Backoff;
use crate::clock::{Clock, DefaultClock, Timestamp};
use crate::decision::Decision;
use crate::gcra::{Gcra, Terms as _};
use crate::quota::{Quota, QuotaError};
use crate::rule::Algorithm as _;
use crate::sync::{AtomicU64, Ordering};
use crate::table::Update;

/// Shapes calls: each is told when to start, so that they start at the rate of a [`Quota`], first come, first
/// served. One 64-bit word; for outgoing calls to a service that allows so many a second.
///
/// A burst of 1 spaces all starts evenly; a larger one lets so many start at once after a pause.
///
/// # Guarantees
/// * The cost of what starts in any interval `[s, t]` is at most `burst + rate * (t - s)`, for any number of
///   threads, with the unit of time that [`Quota`] states, also when turns are given up. [`Wait::jitter`] adds what it
///   states, and timers that are late by up to `d` add `rate * d`.
/// * First come, first served: starts have the order in which the places were taken. Only [`Wait::jitter`]
///   can swap those that are less than the jitter apart.
/// * Nobody waits longer than the [`Wait`] of the call says, and no more at once than
///   [`Queue::max_waiters`]: who would, or asks for more than the burst, is denied at once.
/// * Lock-free, and no memory but the queue's own: a waiter is nothing but its start.
///
/// [`Queue::snapshot`] keeps the line over a restart.
///
/// # When to use it
/// To keep within the limit of a service that is called, by calling later instead of not at all; calls that can not wait
/// are denied by [`Queue::check`] in the same line. Where none waits take [`Single`](crate::Single), for a line for each key
/// [`Limiter::enqueue`](crate::Limiter::enqueue), to bound what is under way at once `Concurrency`.
///
/// # Its error
/// None beyond that unit of time, in which starts are rounded up.
///
/// # What it costs
/// 640 bytes in all with the default clock on x86-64, whatever waits. A place is one compare-and-swap of one word, O(1).
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
#[derive(Debug)]
pub struct Queue<C = DefaultClock> {
    tat: CachePadded<AtomicU64>,
    gcra: Gcra,
    quota: Quota,
    clock: C,
    waiters: Waiters,
}

#[cfg(feature = "std")]
impl Queue {
    /// An empty queue on the time-stamp counter, with room for
    /// [`DEFAULT_MAX_WAITERS`](crate::DEFAULT_MAX_WAITERS). Blocks for up to 200 ms where it makes the first
    /// [`TscClock`](crate::TscClock) of the process.
    ///
    /// # Errors
    /// When the quota can not be enforced.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::with_clock(quota, DefaultClock::new())
    }
}

impl<C: Clock> Queue<C> {
    /// As [`Queue::new`], on another clock.
    ///
    /// # Errors
    /// When the quota can not be enforced.
    pub fn with_clock(quota: Quota, clock: C) -> Result<Self, QuotaError> {
        let gcra = Gcra::exact(&quota)?;
        let waiters = Waiters::new(DEFAULT_MAX_WAITERS);
        Ok(Self { tat: CachePadded::new(AtomicU64::new(0)), gcra, quota, clock, waiters })
    }

    /// The same with room for `count` who wait at once, [`DEFAULT_MAX_WAITERS`](crate::DEFAULT_MAX_WAITERS) unless set. With
    /// 0 nobody waits.
    #[must_use]
    pub fn max_waiters(self, count: u64) -> Self {
        Self { waiters: Waiters::new(count), ..self }
    }

    /// The queue as if all of its burst but `units` had been used just now, if less of it was; more than the burst is the
    /// burst. For a process that may restart before what it used last has drained elsewhere.
    #[must_use]
    pub fn initial(self, units: u64) -> Self {
        let used = self.quota.burst_size().saturating_sub(units);
        let now = self.gcra.instant(self.clock.now());
        if let Some(charged) = self.gcra.charge(0, now, used) {
            self.tat.fetch_max(charged, Ordering::Relaxed); // Q1
        }
        self
    }

    /// Takes a place in line for `cost`, or is denied at once. A cost of 0 takes no place: it is a [`Queue::peek`]. O(1),
    /// neither locks nor allocates.
    ///
    /// | denied, because | [`Decision::retry_after`] |
    /// |---|---|
    /// | the start would lie beyond `wait` | the time until the same call finds a place |
    /// | as many wait as may | the time until the call could start at once |
    /// | `cost` exceeds the burst | `None`: it never fits |
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(&self, cost: u64, wait: impl Into<Wait>) -> Result<Turn<'_, Self>, Decision> {
        let (wait, reading) = (wait.into(), self.clock.now());
        let now = self.gcra.instant(reading);
        let longest = wait.longest_units(reading, self.gcra.scale());
        if cost == 0 {
            let found = self.tat.load(Ordering::Relaxed);
            let decision = self.gcra.answer(Update::Unchanged { found, now }, 0);
            return self.uncharged(decision, reading);
        }
        let (mut seat, mut backoff) = (None, Backoff::new());
        loop {
            let found = self.tat.load(Ordering::Relaxed);
            let unchanged = Update::Unchanged { found, now };
            let Some(charged) = self.gcra.admit_by(found, now, cost, longest) else {
                return self.uncharged(self.gcra.answer_by(unchanged, cost, longest), reading);
            };
            let units = self.gcra.wait(charged, now);
            if units > 0 && seat.is_none() {
                seat = self.waiters.enter();
                if seat.is_none() {
                    return Err(self.gcra.answer_by(unchanged, cost, 0));
                }
            }
            match self.tat.compare_exchange(found, charged, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(before) => {
                    let decision = self.gcra.answer(Update::Written { before, now }, cost);
                    let start = wait.start(reading, units, self.gcra.scale());
                    let granted =
                        Granted { charge: Some(Charge { charged, cost }), start, decision };
                    return Ok(Turn::new(self, granted, seat.filter(|_| units > 0)));
                }
                Err(_) => backoff = backoff.pause(),
            }
        }
    }

    /// Asks for one unit: [`Queue::check_n`] with a cost of 1.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks whether `cost` can start at once, behind all who wait, and takes it if so: a call that is denied instead of
    /// waiting, in one line with those that wait. A cost of 0 takes nothing: it is a [`Queue::peek`]. O(1), neither
    /// locks nor allocates.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.enqueue(cost, Wait::at_most(Duration::ZERO)).map_or_else(|denied| denied, Turn::keep)
    }

    /// As [`Queue::enqueue`], for a turn that goes with a task: it keeps the queue alive.
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

    /// A turn that charges nothing, if that is allowed: a look while a cost of 1 would not have to wait, and
    /// any cost under an unlimited quota.
    fn uncharged(&self, decision: Decision, start: Timestamp) -> Result<Turn<'_, Self>, Decision> {
        if !decision.is_allowed() {
            return Err(decision);
        }
        Ok(Turn::new(self, Granted { charge: None, start, decision }, None))
    }

    /// Waits in line for `cost`: [`Queue::enqueue`], then [`Turn::wait_on`] with a
    /// [`ThreadTimer`](crate::ThreadTimer). The answer is an allowed decision when the start has come, or a denied one
    /// at once.
    ///
    /// The place is taken when the future is first polled. Dropping the future gives it up, see [`Turn`].
    ///
    /// # Panics
    /// When it has to wait and the operating system has no thread to give for the timer, see
    /// [`ThreadTimer`](crate::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub async fn acquire(&self, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::acquire::ThreadTimer, cost, wait).await
    }

    /// As [`Queue::acquire`], sleeping on a timer the caller gives.
    #[must_use = "a decision that is not looked at limits nothing"]
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
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn acquire_blocking(&self, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// What a call would find, without taking a place: `remaining` can start at once, and after `reset_after`
    /// all that has been charged has drained. Denied while a cost of 1 would have to wait for others that wait.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self) -> Decision {
        let now = self.gcra.instant(self.clock.now());
        self.gcra.answer(Update::Unchanged { found: self.tat.load(Ordering::Relaxed), now }, 0)
    }

    /// How many wait: hold a turn that could not start at once, or are in `acquire`.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    /// The quota at which calls start.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The clock on whose scale starts are told.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

/// What a turn has charged.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// The TAT it made.
    charged: u64,
    cost: u64,
}

impl<C: Clock> line::Sealed for Queue<C> {
    type Charge = Charge;
    type Clock = C;

    fn line_clock(&self) -> &C {
        &self.clock
    }

    fn line_waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn take_back(&self, Charge { charged, cost }: Charge) -> bool {
        let now = self.gcra.instant(self.clock.now());
        let Some(before) = self.gcra.refund(charged, now, cost) else { return false };
        // A word that is back to what this charge made has nobody behind it: all charges after it have
        // been taken back.
        self.tat.compare_exchange(charged, before, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
