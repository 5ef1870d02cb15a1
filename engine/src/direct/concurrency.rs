//! Concurrency limits: permits for units in flight, which are returned when dropped.
//!
//! One word holds the limit, the units in flight, and whether there are waiters. Without waiters,
//! taking and returning are one compare-and-swap each. Waiters are in a list (`line.rs`); a thread
//! that returns units hands them to its head under a short lock, so newcomers cannot take what the
//! head waits for.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | C1 word, take | acquire | C2 | a holder may not see what an earlier one did before returning the permit | `permit-taken-relaxed` |
//! | C2 word, return | release | C1, C4, through any read-modify-writes between | as C1 | `permit-returned-relaxed`, `permit-returned-under-the-lock-relaxed` |
//! | C3 word, load | relaxed | none: confirmed by the compare-and-swap; a denial describes one moment | - | - |
//! | C4 word, hand over | acquire | C2; the lock carries it further | as C1, for a permit handed over through the list | `permit-handed-over-relaxed` |
//! | C5 word, mark and limit | relaxed | none: a read-modify-write; a return that misses the mark precedes it in the word, so the thread that set the mark finds the returned units | - | `waiter-not-marked` |

mod line;
#[cfg(all(test, loom))]
mod models;
mod permit;
mod word;

use core::time::Duration;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::base::decision::Decision;
use crate::base::sync::{AtomicU64, Ordering};
use crate::contract::wait::{DEFAULT_MAX_WAITERS, Timer, Waiters, sleep_for};

use line::{WaiterList, Waiting};
pub use permit::{OwnedPermit, Permit};
pub use word::MAX_CONCURRENCY;
use word::PermitWord;

/// Limits how many units are in flight at once, independent of time: permits are taken, and
/// returned when dropped.
///
/// # Decisions
/// `limit` and `remaining` are units in flight. When a permit comes back is unknown, so
/// `retry_after` of a denial is 1 ns, "at any moment", and `reset_after` is zero: to wait, use
/// [`Concurrency::acquire`] instead of retrying in a loop. A cost above the limit never fits while
/// the limit stays (`retry_after` is `None`).
///
/// # Guarantees
/// * A permit is granted only while the units in flight stay within the limit. After
///   [`Concurrency::set_limit`] has lowered it, more may be in flight until enough has been
///   returned.
/// * Waiters are served first come, first served, whatever their costs, and newcomers do not pass
///   them: while there are waiters, [`Concurrency::try_acquire`] is denied.
/// * No units are lost: a waiter that gives up, at any moment, passes on what it was granted.
/// * Without waiters, taking and returning are lock-free, and denials write nothing. With waiters,
///   returning takes a short lock.
/// * What the holder of a permit did is visible to later holders of the same units.
///
/// There is no snapshot: units in flight do not outlive the process.
///
/// # When to use it
/// When capacity is scarce rather than rate: connections, memory, workers of a service whose calls
/// are long or vary. It adapts to how fast calls end; it does not bound calls per second.
///
/// # Error
/// None: units in flight are counted exactly.
///
/// # Cost
/// 512 bytes on x86-64, and a list entry per waiter. Taking and returning are one compare-and-swap
/// each without waiters, else a lock and O(log waiters).
///
/// ```
/// use tidegate_engine::Concurrency;
///
/// let uploads = Concurrency::new(2);
/// let one = uploads.try_acquire(1);
/// let two = uploads.try_acquire(1);
/// assert!(one.is_ok() && two.is_ok());
/// assert!(uploads.try_acquire(1).is_err());
/// drop(one);
/// assert!(uploads.try_acquire(1).is_ok());
/// ```
#[derive(Debug)]
pub struct Concurrency {
    word: CachePadded<AtomicU64>,
    line: WaiterList,
    waiters: Waiters,
}

impl Concurrency {
    /// At most `limit` units in flight, clamped to [`MAX_CONCURRENCY`]. With 0 nothing is granted.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(PermitWord::new(limit).0)),
            line: WaiterList::new(),
            waiters: Waiters::new(DEFAULT_MAX_WAITERS),
        }
    }

    /// Bounds the waiters at any time to `count`, [`DEFAULT_MAX_WAITERS`] unless set. With 0 no
    /// call waits.
    #[must_use]
    pub fn max_waiters(self, count: u64) -> Self {
        Self { waiters: Waiters::new(count), ..self }
    }

    /// Takes `cost` units if they are free and there are no waiters. A cost of 0 is always granted.
    /// Lock-free, O(1).
    ///
    /// # Errors
    /// A denied decision.
    #[inline]
    pub fn try_acquire(&self, cost: u64) -> Result<Permit<'_>, Decision> {
        self.take(cost).map(|decision| Permit::new(self, cost, decision))
    }

    /// As [`Concurrency::try_acquire`], for a permit that may outlive the borrow.
    ///
    /// # Errors
    /// A denied decision.
    pub fn try_acquire_owned(self: &Arc<Self>, cost: u64) -> Result<OwnedPermit, Decision> {
        self.try_acquire(cost).map(|permit| permit.into_owned(self))
    }

    /// Waits until `cost` units are free, at most for `max_wait`, behind all current waiters.
    /// Sleeps on a [`ThreadTimer`](crate::wait::ThreadTimer).
    ///
    /// `max_wait` is a [`Duration`], not a [`Wait`](crate::wait::Wait) as for limits with a rate:
    /// there is no clock for a deadline, and jitter would leave permits idle while others wait. For
    /// a deadline pass the time left until then. A `Duration` has the same meaning in both: the
    /// longest wait, from when the place is taken; zero is [`Concurrency::try_acquire`].
    ///
    /// Denied at once if there are as many waiters as allowed, or if `cost` exceeds the limit. A
    /// waiter is denied on timeout, and when the limit is lowered below its cost. The place is
    /// taken when the future is first polled. Dropping the future gives it up, and passes on what
    /// was granted meanwhile.
    ///
    /// A future that is neither polled nor dropped keeps its place and what it is granted, even
    /// after its timeout, and all behind it wait. So poll it to completion or drop it: `select!` on
    /// a future held by reference is not enough.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::Concurrency;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let uploads = Concurrency::new(1);
    /// let permit = uploads.acquire(1, Duration::from_secs(1)).await;
    /// assert!(permit.is_ok_and(|permit| permit.cost() == 1));
    /// # }
    /// ```
    ///
    /// # Errors
    /// A denied decision.
    ///
    /// # Panics
    /// When it has to wait and the operating system cannot start a thread for the timer, see
    /// [`ThreadTimer`](crate::wait::ThreadTimer).
    #[cfg(feature = "acquire")]
    pub async fn acquire(&self, cost: u64, max_wait: Duration) -> Result<Permit<'_>, Decision> {
        self.acquire_on(&crate::contract::wait::ThreadTimer, cost, max_wait).await
    }

    /// As [`Concurrency::acquire`], for a permit that may outlive the borrow.
    ///
    /// # Errors
    /// A denied decision.
    ///
    /// # Panics
    /// When it has to wait and the operating system cannot start a thread for the timer, see
    /// [`ThreadTimer`](crate::wait::ThreadTimer).
    #[cfg(feature = "acquire")]
    pub async fn acquire_owned(
        self: &Arc<Self>,
        cost: u64,
        max_wait: Duration,
    ) -> Result<OwnedPermit, Decision> {
        self.acquire(cost, max_wait).await.map(|permit| permit.into_owned(self))
    }

    /// As [`Concurrency::acquire`], sleeping on the given timer.
    ///
    /// # Errors
    /// A denied decision.
    pub async fn acquire_on<T: Timer>(
        &self,
        timer: &T,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Permit<'_>, Decision> {
        match self.join(cost, max_wait)? {
            Joined::Granted(permit) => Ok(permit),
            Joined::Waiting(waiting) => waiting.wait_on(sleep_for(timer, max_wait)).await,
        }
    }

    /// As [`Concurrency::acquire`], blocking the thread.
    ///
    /// # Errors
    /// A denied decision.
    pub fn acquire_blocking(&self, cost: u64, max_wait: Duration) -> Result<Permit<'_>, Decision> {
        match self.join(cost, max_wait)? {
            Joined::Granted(permit) => Ok(permit),
            Joined::Waiting(waiting) => waiting.block(max_wait),
        }
    }

    /// The current state, without taking anything: denied if a cost of 1 would be.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        let word = self.load();
        if word.has_waiters() { word.denied(1) } else { word.answer(1) }
    }

    /// Units in flight, including those of forgotten permits.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.load().in_flight()
    }

    /// Maximum units in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.load().limit()
    }

    /// Replaces the limit, clamped to [`MAX_CONCURRENCY`]. Raising it grants to waiters at once.
    /// Lowering it takes nothing back: [`Concurrency::in_flight`] may exceed it until permits have
    /// been returned; waiters for more than the limit are denied. O(1) without waiters, else a lock
    /// and O(log waiters) for each waiter that gets a result.
    pub fn set_limit(&self, limit: u64) {
        let before = self.update(Ordering::Relaxed, |word| Some(word.with_limit(limit))); // C5
        if before.is_ok_and(PermitWord::has_waiters) {
            self.line.serve(&self.word);
        }
    }

    /// The current number of waiters.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    #[inline]
    fn take(&self, cost: u64) -> Result<Decision, Decision> {
        // A denial is a single load.
        let found = self.load();
        if found.taken_by_newcomer(cost).is_none() {
            return Err(found.denied(cost));
        }
        match self.exchange(cost) {
            Ok(before) => Ok(before.granted(cost)),
            Err(found) => Err(found.denied(cost)),
        }
    }

    /// Takes units that a load has found free. Out of line, to keep denials and callers small.
    #[inline(never)]
    fn exchange(&self, cost: u64) -> Result<PermitWord, PermitWord> {
        self.update(Ordering::Acquire, |word| word.taken_by_newcomer(cost)) // C1
    }

    fn give_back(&self, cost: u64) {
        if cost == 0 {
            return;
        }
        let returned = |word: PermitWord| (!word.has_waiters()).then(|| word.returned(cost));
        // C2
        if self.update(Ordering::Release, returned).is_err() {
            self.line.give_back(&self.word, cost);
        }
    }

    /// Takes free units, or a place in line.
    fn join(&self, cost: u64, max_wait: Duration) -> Result<Joined<'_>, Decision> {
        let denied = match self.try_acquire(cost) {
            Ok(permit) => return Ok(Joined::Granted(permit)),
            Err(denied) => denied,
        };
        if denied.retry_after().is_none() || max_wait.is_zero() {
            return Err(denied);
        }
        let guard = self.waiters.enter().ok_or(denied)?;
        Ok(Joined::Waiting(Waiting::new(self, cost, guard)))
    }

    /// Replaces the word by the result of `change` and returns the old one; fails with the current
    /// word if `change` returns `None`. Pauses, so not to be called under the list's lock.
    #[inline]
    fn update(
        &self,
        ordering: Ordering,
        change: impl Fn(PermitWord) -> Option<PermitWord>,
    ) -> Result<PermitWord, PermitWord> {
        word::update_pausing(&self.word, ordering, change)
    }

    #[inline]
    fn load(&self) -> PermitWord {
        PermitWord(self.word.load(Ordering::Relaxed)) // C3
    }
}

enum Joined<'c> {
    Granted(Permit<'c>),
    Waiting(Waiting<'c>),
}
