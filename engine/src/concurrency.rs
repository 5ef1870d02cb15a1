//! How much may be under way at once: permits that come back when their holders are done.
//!
//! One word holds the limit, what is in flight, and whether somebody waits. While nobody waits, taking and
//! returning are one compare-and-swap each. Who waits stands in a list (`line.rs`), and then permits are handed
//! to its head by whoever returns some, under a short lock: nobody can take what the head waits for.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | C1 word, take | acquire | C2 | a holder may not see what an earlier one did before it returned the permit | `permit-taken-relaxed` |
//! | C2 word, return | release | C1, C4, through any read-modify-writes between | as C1 | `permit-returned-relaxed`, `permit-returned-under-the-lock-relaxed` |
//! | C3 word, load | relaxed | none: confirmed by the compare-and-swap; a denial is a statement about one moment | - | - |
//! | C4 word, hand over | acquire | C2; from there the lock goes on | as C1, for a permit that goes through the list | `permit-handed-over-relaxed` |
//! | C5 word, mark and limit | relaxed | none: a read-modify-write; a return that misses the mark precedes it in the word, so who marked finds what it returned | - | `waiter-not-marked` |

mod line;
#[cfg(all(test, loom))]
mod models;
mod permit;
mod word;

use core::time::Duration;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::acquire::{DEFAULT_MAX_WAITERS, Timer, Waiters, sleep_for};
use crate::decision::Decision;
use crate::sync::{AtomicU64, Ordering};

use line::{Line, Waiting};
pub use permit::{OwnedPermit, Permit};
use word::Word;

/// The largest limit of a [`Concurrency`], in units: 2^31 - 1.
pub const MAX_CONCURRENCY: u64 = (1 << 31) - 1;

/// Limits how many units are in flight at once, whatever the time: permits are taken and come back when they are
/// dropped.
///
/// # Decisions
/// `limit` and `remaining` are units in flight. Nobody knows when a permit comes back, so `retry_after` of a denial is
/// 1 ns, "at any moment", and `reset_after` is zero: to wait, use [`Concurrency::acquire`] instead of trying in a loop.
/// A cost above the limit is denied as one that never fits, as long as the limit stays (`retry_after` is `None`).
///
/// # Guarantees
/// * A permit is granted only while it keeps what is in flight within the limit. After [`Concurrency::set_limit`] has
///   lowered it, more may be in flight until enough has come back.
/// * First come, first served among those who wait, whatever their costs, and nobody passes them: while
///   somebody waits, [`Concurrency::try_acquire`] is denied.
/// * Nothing is lost: a waiter that gives up, at any moment, hands on what it was granted.
/// * While nobody waits, taking and returning are lock-free, and denials write nothing. While somebody does, returning
///   takes a short lock.
/// * What the holder of a permit did is visible to who is granted the same units later.
///
/// There is no snapshot: it holds who is under way, and nobody survives the process.
///
/// # When to use it
/// When what is scarce is room and not rate: connections, memory, workers of a service whose calls take long or
/// vary. It adapts to how fast calls end; it says nothing about calls a second.
///
/// # Its error
/// None: what is in flight is counted exactly.
///
/// # What it costs
/// 512 bytes on x86-64, and a list entry for each who waits. Taking and returning are one compare-and-swap each while
/// nobody waits, else a lock and O(log waiters).
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
    line: Line,
    waiters: Waiters,
}

impl Concurrency {
    /// At most `limit` units at once; a larger one than [`MAX_CONCURRENCY`] is that. With 0 nothing is granted.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(Word::new(limit).0)),
            line: Line::new(),
            waiters: Waiters::new(DEFAULT_MAX_WAITERS),
        }
    }

    /// The same with room for `count` who wait at once, [`DEFAULT_MAX_WAITERS`] unless set. With 0 nobody waits.
    #[must_use]
    pub fn max_waiters(self, count: u64) -> Self {
        Self { waiters: Waiters::new(count), ..self }
    }

    /// Takes `cost` units if they are free and nobody waits. A cost of 0 is always granted. Lock-free, O(1).
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

    /// Waits until `cost` units are free, at most for `max_wait`, behind all who wait already. Sleeps on a
    /// [`ThreadTimer`](crate::ThreadTimer).
    ///
    /// A [`Duration`], and not a [`Wait`](crate::Wait) as of limits with a rate: there is no clock on which a deadline could be
    /// told, and jitter would leave permits idle while others wait. A caller with a deadline of its own gives what is left
    /// until then. A `Duration` means the same to both: the longest wait, from when the place is taken; zero is
    /// [`Concurrency::try_acquire`].
    ///
    /// Denied at once is who would be one too many to wait and who asks for more than the limit. Who waits is denied
    /// when the time is over, and when the limit is lowered below the cost. The place is taken when the
    /// future is first polled. Dropping the future gives it up, and hands on what was granted meanwhile.
    ///
    /// A future keeps its place as long as it is neither polled nor dropped, also when its time is over, and what it
    /// is granted there: all behind it wait for it. So poll it to its end, or drop it: `select!` on a future that
    /// is kept by reference is not enough.
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
    /// When it has to wait and the operating system has no thread to give for the timer, see
    /// [`ThreadTimer`](crate::ThreadTimer).
    #[cfg(feature = "acquire")]
    pub async fn acquire(&self, cost: u64, max_wait: Duration) -> Result<Permit<'_>, Decision> {
        self.acquire_on(&crate::acquire::ThreadTimer, cost, max_wait).await
    }

    /// As [`Concurrency::acquire`], for a permit that may outlive the borrow.
    ///
    /// # Errors
    /// A denied decision.
    ///
    /// # Panics
    /// When it has to wait and the operating system has no thread to give for the timer, see
    /// [`ThreadTimer`](crate::ThreadTimer).
    #[cfg(feature = "acquire")]
    pub async fn acquire_owned(
        self: &Arc<Self>,
        cost: u64,
        max_wait: Duration,
    ) -> Result<OwnedPermit, Decision> {
        self.acquire(cost, max_wait).await.map(|permit| permit.into_owned(self))
    }

    /// As [`Concurrency::acquire`], sleeping on a timer the caller gives.
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

    /// What is there, without taking anything: denied when a cost of 1 would be.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self) -> Decision {
        let word = self.load();
        if word.has_waiters() { word.denied(1) } else { word.answer(1) }
    }

    /// Units that are in flight now, those of forgotten permits among them.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.load().in_flight()
    }

    /// Units that may be in flight at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.load().limit()
    }

    /// Replaces the limit; larger ones than [`MAX_CONCURRENCY`] are that. Raising it grants to those who wait at
    /// once. Lowering it takes nothing back: [`Concurrency::in_flight`] may exceed it until permits have come back; who waits for
    /// more than the limit is denied. O(1) while nobody waits, else a lock and O(log waiters) for each who is answered.
    pub fn set_limit(&self, limit: u64) {
        let before = self.update(Ordering::Relaxed, |word| Some(word.with_limit(limit)));
        if before.is_ok_and(Word::has_waiters) {
            self.line.serve(&self.word);
        }
    }

    /// How many wait now.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    #[inline]
    fn take(&self, cost: u64) -> Result<Decision, Decision> {
        // A denial is one look and no more.
        let found = self.load();
        if found.taken_by_newcomer(cost).is_none() {
            return Err(found.denied(cost));
        }
        match self.exchange(cost) {
            Ok(before) => Ok(before.granted(cost)),
            Err(found) => Err(found.denied(cost)),
        }
    }

    /// Takes what a look has found free. Out of line, so that denials carry nothing of it, and callers little.
    #[inline(never)]
    fn exchange(&self, cost: u64) -> Result<Word, Word> {
        self.update(Ordering::Acquire, |word| word.taken_by_newcomer(cost))
    }

    fn give_back(&self, cost: u64) {
        if cost == 0 {
            return;
        }
        let returned = |word: Word| (!word.has_waiters()).then(|| word.returned(cost));
        if self.update(Ordering::Release, returned).is_err() {
            self.line.give_back(&self.word, cost);
        }
    }

    /// Takes what is free, or a place in line.
    fn join(&self, cost: u64, max_wait: Duration) -> Result<Joined<'_>, Decision> {
        let denied = match self.try_acquire(cost) {
            Ok(permit) => return Ok(Joined::Granted(permit)),
            Err(denied) => denied,
        };
        if denied.retry_after().is_none() || max_wait.is_zero() {
            return Err(denied);
        }
        let seat = self.waiters.enter().ok_or(denied)?;
        Ok(Joined::Waiting(Waiting::new(self, cost, seat)))
    }

    /// Replaces the word by what `change` makes of it, and tells what it was; or what it is, if `change` leaves it. Not
    /// for who holds the list's lock: it pauses.
    #[inline]
    fn update(
        &self,
        ordering: Ordering,
        change: impl Fn(Word) -> Option<Word>,
    ) -> Result<Word, Word> {
        word::update_pausing(&self.word, ordering, change)
    }

    #[inline]
    fn load(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }
}

enum Joined<'c> {
    Granted(Permit<'c>),
    Waiting(Waiting<'c>),
}
