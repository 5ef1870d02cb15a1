//! Waiting for a key's turn: charges that start later.

use alloc::sync::Arc;
use core::cell::Cell;

use crate::acquire::{Granted, Timer, Turn, Wait, Waiters, line};
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::gcra::{Bucket, Terms as _, View, lowered};
use crate::key::{Key, KeyHash};
use crate::observer::Observer;
use crate::overflow::answer;
use crate::rule::{Algorithm as _, Rule};
use crate::table::Update;

use super::{Limiter, State};

/// What a turn has charged to a key.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    key: KeyHash,
    /// The value it left.
    charged: u64,
    /// The debt that it made, in units of the quota in force.
    units: u64,
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

impl<R: Rule<Algorithm: Bucket>, C: Clock, O: Observer> Limiter<R, C, O> {
    /// For limiters with a [`Quota`](crate::Quota) or a `LiveQuota`: waits until the key has room for `cost`, at most as long as
    /// `wait` says. The answer is an allowed decision when the start has come, or a denied one at once. Sleeps on a
    /// [`ThreadTimer`](crate::ThreadTimer).
    ///
    /// Denied at once is who would have to wait longer (`retry_after` is then the time until the same call is
    /// accepted), who would be one too many to wait (the time until the call could start without waiting; see
    /// [`LimiterBuilder::max_waiters`](crate::LimiterBuilder::max_waiters)), and who asks for more than the burst, which
    /// never fits (`None`).
    ///
    /// First come, first served on each key: starts have the order in which places were taken (only
    /// [`Wait::jitter`] can swap those that are less than the jitter apart), and no check passes those who wait, but one
    /// of units that were leased before, or under a longer burst given with the call. The cost of what starts in `[s, t]`, checks among it, is at
    /// most `burst + rate * (t - s)`. The place is taken, by one charge of the key's word into the future, when the future is first polled. Each waiter
    /// wakes once, at its own start. Dropping the future gives up the place, see [`Turn`].
    ///
    /// Who waits keeps the start that was told when the quota changes
    /// ([`LiveQuota`](crate::LiveQuota)), and a place given up after it lapses. Places are then taken
    /// under the new quota, behind what is charged as it is carried over: where that is less than before,
    /// newcomers start before or with those who wait.
    ///
    /// A [`Limiter::refund`] or a [`Limiter::reset`] of a key on which others wait lets newcomers start before or
    /// with them. Whoever wants none of this waits on a key of a limiter that is not refunded. What a
    /// [`Reservation`](crate::Reservation) or a [`LimitSet`](crate::LimitSet) would give back then lapses instead.
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
    ///
    /// # Panics
    /// When it has to wait and the operating system has no thread to give for the timer, see
    /// [`ThreadTimer`](crate::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub async fn acquire(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::acquire::ThreadTimer, key, cost, wait).await
    }

    /// For limiters with a [`Quota`](crate::Quota) or a `LiveQuota`: as [`Limiter::acquire`], sleeping on a timer the caller
    /// gives, that of its runtime.
    #[must_use = "a decision that is not looked at limits nothing"]
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

    /// For limiters with a [`Quota`](crate::Quota) or a `LiveQuota`: as [`Limiter::acquire`], blocking the thread.
    #[cfg(feature = "std")]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn acquire_blocking(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(key, cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// For limiters with a [`Quota`](crate::Quota) or a `LiveQuota`: takes the place in which [`Limiter::acquire`] waits,
    /// without waiting, for who schedules starts by other means. A cost of 0 takes no place: it is a [`Limiter::peek`].
    /// O(1), neither locks nor allocates.
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
        self.enqueue_under(self.algorithm(), self.hash(key), cost, &wait.into())
    }

    /// For limiters with a [`Quota`](crate::Quota) or a `LiveQuota`: as [`Limiter::enqueue`], for a turn that goes with a task: it keeps the limiter alive.
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue_owned(
        self: &Arc<Self>,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'static, Self>, Decision>
    where
        C: 'static,
        O: 'static,
    {
        self.enqueue(key, cost, wait).map(|turn| turn.into_owned(self))
    }

    /// For limiters with a [`Quota`](crate::Quota) or a `LiveQuota`: how many wait on this limiter, that is, hold a turn that
    /// could not start at once, or are in `acquire`.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    /// [`Limiter::enqueue`] under this quota.
    pub(super) fn enqueue_under<B: Bucket<State = State<R>>>(
        &self,
        bucket: &B,
        key: KeyHash,
        cost: u64,
        wait: &Wait,
    ) -> Result<Turn<'_, Self>, Decision> {
        let turn = self.line_up(bucket, key, cost, wait);
        let decision = turn.as_ref().map_or_else(|denied| *denied, Turn::decision);
        let _ = self.heard(key, cost, decision);
        turn
    }

    fn line_up<B: Bucket<State = State<R>>>(
        &self,
        bucket: &B,
        key: KeyHash,
        cost: u64,
        wait: &Wait,
    ) -> Result<Turn<'_, Self>, Decision> {
        let reading = self.clock.now();
        let denied = match self.place(bucket, key, cost, reading, wait, None) {
            Placed::At(_, granted) => return Ok(Turn::new(self, granted, None)),
            Placed::Refused(denied) => return Err(denied),
            Placed::TooLate(denied) if wait.longest(reading).is_zero() => return Err(denied),
            Placed::TooLate(denied) => denied,
        };
        let Some(seat) = self.waiters.enter() else { return Err(denied) };
        match self.place(bucket, key, cost, reading, wait, Some(wait)) {
            Placed::At(units, granted) => {
                Ok(Turn::new(self, granted, Some(seat).filter(|_| units > 0)))
            }
            Placed::TooLate(denied) | Placed::Refused(denied) => Err(denied),
        }
    }

    /// Charges `cost` for a start as far after the reading as `longest` says; `None` for one at once.
    fn place<B: Bucket<State = State<R>>>(
        &self,
        bucket: &B,
        key: KeyHash,
        cost: u64,
        reading: Timestamp,
        wait: &Wait,
        longest: Option<&Wait>,
    ) -> Placed {
        let home = self.table.home(key);
        let longest = |view: &View<B::Terms>| {
            longest.map_or(0, |it| it.longest_units(reading, view.gcra.scale()))
        };
        // By what the place was taken, and the TAT that it made; the last update counts.
        let taken = Cell::new(None);
        let admit = |value, now| {
            let view = bucket.view(value, now);
            // A key without a slot is decided at a later reading than the first one.
            let left = longest(&view).saturating_sub(view.since(reading));
            let charged = view.gcra.admit_by(view.tat, view.now, cost, left).filter(|_| cost > 0);
            if charged.is_some_and(|charged| view.gcra.wait(charged, view.now) > 0) {
                self.waiters.waits_under(view.gcra.scale().to_nanos(view.gcra.tau()));
            }
            taken.set(charged.map(|charged| (view, charged)));
            charged
        };
        let update = home.update(self.instant(reading), || self.instant_now(), admit);
        if let (Update::Written { .. }, Some((view, charged))) = (update, taken.get()) {
            let View { gcra, tat, now, .. } = view;
            let units = gcra.wait(charged, now);
            let late = if units > 0 { view.since(reading) } else { 0 };
            let start = wait.start(reading, units + late, gcra.scale());
            let decision = gcra.answer(Update::Written { before: tat, now }, cost);
            let charge = Some(Charge { key, charged, units: charged - tat.max(now) });
            return Placed::At(units, Granted { charge, start, decision });
        }
        let decision = answer(&self.table, bucket, key, update, cost);
        match update {
            _ if decision.is_allowed() => {
                Placed::At(0, Granted { charge: None, start: reading, decision })
            }
            Update::Unchanged { found, now } if cost > 0 && decision.retry_after().is_some() => {
                let view = bucket.view(found, now);
                let unchanged = Update::Unchanged { found: view.tat, now: view.now };
                Placed::TooLate(view.gcra.answer_by(unchanged, cost, longest(&view)))
            }
            _ => Placed::Refused(decision),
        }
    }
}

impl<R: Rule<Algorithm: Bucket>, C: Clock, O: Observer> line::Sealed for Limiter<R, C, O> {
    type Charge = Charge;
    type Clock = C;

    fn line_clock(&self) -> &C {
        &self.clock
    }

    fn line_waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn take_back(&self, Charge { key, charged, units }: Charge) -> bool {
        // A word that is what this charge made has nobody behind it.
        let last = |value, now| {
            let view = self.algorithm().view(value, now);
            // After a change the value stands for another TAT, which others may share.
            let whole = value == charged && view.tat == charged;
            if whole { lowered(view.tat, view.now, units) } else { None }
        };
        let now = || self.instant_now();
        let update = self.table.home(key).update(now(), now, last);
        matches!(update, Update::Written { .. })
    }
}
