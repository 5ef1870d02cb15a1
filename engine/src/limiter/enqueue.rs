//! Waiting for a key's turn: charges that start later.

use crate::acquire::{Granted, Timer, Turn, Wait, line};
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::key::{Key, KeyHash};
use crate::observer::Observer;
use crate::overflow::answer;
use crate::quota::Quota;
use crate::table::Update;

use super::Limiter;

/// What a turn has charged to a key.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    key: KeyHash,
    /// The TAT it made.
    charged: u64,
    cost: u64,
}

/// What became of an attempt to charge.
enum Placed {
    /// To start so many units of time after the reading.
    At(u64, Granted<Charge>),
    /// Not before the longest wait is over.
    TooLate(Decision),
    /// Waiting is of no use.
    Refused(Decision),
}

impl<C: Clock, O: Observer> Limiter<Quota, C, O> {
    /// Waits until the key has room for `cost`, at most as long as `wait` says: the answer is an allowed
    /// decision when the start has come, or a denied one at once. Sleeps on a [`ThreadTimer`](crate::ThreadTimer).
    ///
    /// Denied at once is who would have to wait longer (`retry_after` is then the time until the same call is
    /// accepted), who would be one too many to wait ([`LimiterBuilder::max_waiters`](crate::LimiterBuilder::max_waiters)),
    /// and who asks for more than the burst, which never fits (`retry_after` is `None`).
    ///
    /// First come, first served on each key: starts have the order in which places were taken (only
    /// [`Wait::jitter`] can swap those that are less than the jitter apart), and no check passes those who wait. The cost of what starts in `[s, t]`, checks among it, is at most `burst + rate * (t - s)`.
    /// The place is taken, by one charge of the key's word into the future, when the future is first polled. Each waiter
    /// wakes once, at its own start. Dropping the future gives up the place, see [`Turn`].
    ///
    /// A [`Limiter::refund`] or a [`Limiter::reset`] of a key on which others wait lets newcomers start before or
    /// with them. Whoever wants none of this waits on a key of a limiter that is not refunded.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate_engine::BuildError> {
    /// let limiter = Limiter::builder(Quota::per_second(1_000).burst(1)).capacity(100).build()?;
    /// for _ in 0..3 {
    ///     assert!(limiter.acquire("user:42", 1, Duration::from_secs(1)).await.is_allowed());
    /// }
    /// let never = limiter.acquire("user:42", 2, Duration::from_secs(1)).await;
    /// assert!(!never.is_allowed() && never.retry_after().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "acquire")]
    pub async fn acquire(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::acquire::ThreadTimer, key, cost, wait).await
    }

    /// As [`Limiter::acquire`], sleeping on a timer the caller gives: that of its runtime.
    pub async fn acquire_on<T: Timer>(
        &self,
        timer: &T,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Decision {
        match self.enqueue(key, cost, wait) {
            Ok(turn) => turn.wait_on(timer).await,
            Err(denied) => denied,
        }
    }

    /// As [`Limiter::acquire`], blocking the thread.
    #[cfg(feature = "std")]
    pub fn acquire_blocking(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(key, cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// Takes the place in which [`Limiter::acquire`] waits, without waiting: for who schedules starts by
    /// other means. A cost of 0 takes no place: it is a [`Limiter::peek`]. O(1), neither locks nor allocates.
    ///
    /// Looks at the key's word alone: what threads have leased counts as used.
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(
        &self,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'_, Self>, Decision> {
        let key = self.hash(key);
        let turn = self.line_up(key, cost, &wait.into());
        let decision = turn.as_ref().map_or_else(|denied| *denied, Turn::decision);
        let _ = self.heard(key, cost, decision);
        turn
    }

    /// How many wait on this limiter: hold a turn that could not start at once, or are in `acquire`.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    /// How many may wait at once.
    #[must_use]
    pub fn max_waiters(&self) -> u64 {
        self.waiters.max()
    }

    fn line_up(&self, key: KeyHash, cost: u64, wait: &Wait) -> Result<Turn<'_, Self>, Decision> {
        let reading = self.clock.now();
        let longest = wait.longest_units(reading, self.algorithm().scale());
        let denied = match self.place(key, cost, reading, 0, wait) {
            Placed::At(_, granted) => return Ok(Turn::new(self, granted, None)),
            Placed::Refused(denied) => return Err(denied),
            Placed::TooLate(denied) if longest == 0 => return Err(denied),
            Placed::TooLate(denied) => denied,
        };
        let Some(seat) = self.waiters.enter() else { return Err(denied) };
        match self.place(key, cost, reading, longest, wait) {
            Placed::At(units, granted) => {
                Ok(Turn::new(self, granted, Some(seat).filter(|_| units > 0)))
            }
            Placed::TooLate(denied) | Placed::Refused(denied) => Err(denied),
        }
    }

    /// Charges `cost` for a start at most `longest` units after the reading.
    fn place(
        &self,
        key: KeyHash,
        cost: u64,
        reading: Timestamp,
        longest: u64,
        wait: &Wait,
    ) -> Placed {
        let (gcra, home) = (self.algorithm(), self.table.home(key));
        let at = self.instant(reading);
        // A key without a slot is decided at a later reading than the first one.
        let left = |now: u64| longest.saturating_sub(now - at);
        let admit = |tat, now| {
            if cost == 0 { None } else { gcra.admit_by(tat, now, cost, left(now)) }
        };
        let update = home.update(at, || self.instant_now(), admit);
        let decision = answer(&self.table, gcra, home, update, cost);
        match update {
            Update::Written { before, now } => {
                let charged = before.max(now) + cost * gcra.interval();
                let units = gcra.wait(charged, now);
                let late = if units > 0 { now - at } else { 0 };
                let start = wait.start(reading, units + late, gcra.scale());
                let charge = Some(Charge { key, charged, cost });
                Placed::At(units, Granted { charge, start, decision })
            }
            _ if decision.is_allowed() => {
                Placed::At(0, Granted { charge: None, start: reading, decision })
            }
            Update::Unchanged { .. } if cost > 0 && cost <= gcra.burst() => {
                Placed::TooLate(gcra.answer_by(update, cost, longest))
            }
            _ => Placed::Refused(decision),
        }
    }
}

impl<C: Clock, O: Observer> line::Sealed for Limiter<Quota, C, O> {
    type Charge = Charge;
    type Clock = C;

    fn line_clock(&self) -> &C {
        &self.clock
    }

    fn take_back(&self, Charge { key, charged, cost }: Charge) -> bool {
        let gcra = self.algorithm();
        // A word that is what this charge made has nobody behind it.
        let last = |tat, now| if tat == charged { gcra.refund(tat, now, cost) } else { None };
        let now = || self.instant_now();
        let update = self.table.home(key).update(now(), now, last);
        matches!(update, Update::Written { .. })
    }
}
