//! Waiting for several limits, instead of being denied by one of them.

use core::future::{Future as _, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

#[cfg(feature = "std")]
use crate::contract::wait::unpark_this_thread;
use crate::contract::wait::{LONGEST_SLEEP, Timer, Wait};

use super::places::{Places, Step, WaitResult};
use super::{Ask, LimitSet, SetDecision, peek_each, take_each};

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> LimitSet<'l, A> {
    /// Waits until all limits admit, at most as long as `wait` says, and takes everything at that
    /// moment; for outgoing calls under several limits. The answer is allowed when the start has
    /// come. Sleeps on a [`ThreadTimer`](crate::wait::ThreadTimer).
    ///
    /// # When it is denied
    /// At once if one of the limits would have it wait longer: `blocked` names that limit, and
    /// `retry_after` is the time until the same call is accepted there; `None` for a cost that
    /// never fits. Limits that it would only have had to wait for count as allowed, with what
    /// remains there. It is also denied at once where a line has as many waiters as it may
    /// ([`LimiterBuilder::max_waiters`](crate::limiter::LimiterBuilder::max_waiters)); a set is one
    /// in each line in which it has a place. And later, as soon as it shows that others have taken
    /// what it was to start on, and it cannot start in time any more.
    ///
    /// Nothing stays charged by a set that is denied. A limiter that [charges denied
    /// checks](crate::limiter::LimiterBuilder::charge_denied) does not charge it for waiting, only
    /// where another caller takes the last units between its peek and its charge.
    ///
    /// # Guarantees
    /// * All or nothing: all limits are charged for one start, and what starts keeps each of them
    ///   in every interval, as if the set had been checked at its start. As for
    ///   [`Limiter::acquire`](crate::Limiter::acquire), a timer late by `d` adds `rate * d`, and
    ///   [`Wait::jitter`], which delays the start of the whole set, what it states.
    /// * Limits with lines, which are [`Limiter`](crate::Limiter)s of a quota: the set waits in the
    ///   line of the key with the longest wait, first come, first served, and in the others from
    ///   the time on at which they are as long. A place that would come too early for the others is
    ///   given up and taken anew, so sets of different limits can overtake each other.
    /// * Waiting for one limit does not keep callers out of another one that has room: its units
    ///   are taken at the start. Where a line without room ends shortly before the start, up to
    ///   half of the set's own cost is lost there, so that its places fit together.
    /// * Limits without lines ([`DirectLimiter`](crate::DirectLimiter), windows, counters) are
    ///   asked when all else has started. After a denial they are asked again when its
    ///   `retry_after` has passed. Among several callers that wait for such a limit there is no
    ///   order, so a caller can come too late each time. None spins: each sleeps for the
    ///   `retry_after` of its denial.
    /// * Dropping the future gives up all places: those behind them start earlier, see
    ///   [`Turn`](crate::wait::Turn). No lock is held while it waits, and sets that name limits in
    ///   different orders do not block each other.
    ///
    /// A [`Shadow`](crate::Shadow) makes no caller wait: it is asked when all others are taken.
    ///
    /// Nearly all of the tightest limit is used also where callers give up, if they wait for about
    /// the time of one unit or longer: at least 95 %, and 90 % in the worst case seen of callers
    /// that give up after a tenth of it.
    ///
    /// Asks of one key under one quota are one charge. Under two quotas the later one waits behind
    /// the earlier one, and the set may be denied although there would be a time for both. As a
    /// deadline, a [`Timestamp`](crate::clock::Timestamp) is on the scale of each limit's clock.
    ///
    /// A set that fits at once does what [`LimitSet::check`] does. Neither such a set nor one that
    /// is denied at once by a peek allocates. One that waits allocates O(asks), and looks at its
    /// limits O(log wait) times, and whenever one of its places has moved up. Observers are
    /// notified of each ask once, when the set is decided.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::{DirectLimiter, LimitSet, Limiter, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let hosts = Limiter::builder(Quota::per_second(1_000).burst(1)).capacity(100).build()?;
    /// let accounts = Limiter::builder(Quota::per_second(20).burst(1)).capacity(100).build()?;
    /// let in_all = DirectLimiter::new(Quota::per_hour(10_000))?;
    /// let call = || {
    ///     let account = accounts.ask("account:7", 1).named("account");
    ///     LimitSet::new([hosts.ask("api.example", 1).named("host"), account, in_all.ask(1)])
    /// };
    /// for _ in 0..3 {
    ///     // Sleeps about 50 ms between calls.
    ///     assert!(call().acquire(Duration::from_secs(2)).await.is_allowed());
    /// }
    /// let _ = accounts.charge("account:7", 100);
    /// let denied = call().acquire(Duration::from_secs(2)).await;
    /// assert_eq!(denied.blocked().map(|blocked| blocked.name()), Some("account"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// When it has to wait and the operating system cannot start a thread for the timer, see
    /// [`ThreadTimer`](crate::wait::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub async fn acquire(self, wait: impl Into<Wait>) -> SetDecision<'l, A> {
        self.acquire_on(&crate::contract::wait::ThreadTimer, wait).await
    }

    /// As [`LimitSet::acquire`], sleeping on the caller's timer, for example that of its runtime.
    #[must_use = "a decision that is ignored limits nothing"]
    pub async fn acquire_on<T: Timer>(
        mut self,
        timer: &T,
        wait: impl Into<Wait>,
    ) -> SetDecision<'l, A> {
        let wait = wait.into();
        let outcome = if let Some(outcome) = at_once(self.asks.as_mut(), &wait) {
            outcome
        } else {
            let mut places = Places::new(self.asks.as_ref(), wait);
            let mut sleep = pin!(None);
            poll_fn(|context| {
                loop {
                    let rest = match places.advance(context.waker()) {
                        Step::Sleep(rest) => rest.min(LONGEST_SLEEP),
                        Step::Done(outcome) => return Poll::Ready(outcome),
                    };
                    sleep.set(Some(timer.sleep(rest)));
                    let asleep = sleep.as_mut().as_pin_mut();
                    if asleep.is_some_and(|sleep| sleep.poll(context).is_pending()) {
                        return Poll::Pending;
                    }
                }
            })
            .await
        };
        self.answer(outcome)
    }

    /// As [`LimitSet::acquire`], blocking the thread.
    #[cfg(feature = "std")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn acquire_blocking(mut self, wait: impl Into<Wait>) -> SetDecision<'l, A> {
        let wait = wait.into();
        let outcome = at_once(self.asks.as_mut(), &wait).unwrap_or_else(|| {
            let (waker, mut places) = (unpark_this_thread(), Places::new(self.asks.as_ref(), wait));
            loop {
                match places.advance(&waker) {
                    Step::Sleep(rest) => std::thread::park_timeout(rest.min(LONGEST_SLEEP)),
                    Step::Done(outcome) => return outcome,
                }
            }
        });
        self.answer(outcome)
    }

    /// Notifies the observers of the outcome, and returns it.
    fn answer(mut self, outcome: WaitResult) -> SetDecision<'l, A> {
        let asks = self.asks.as_mut();
        let admitted = outcome.write_to(asks);
        debug_assert!(asks.iter().all(Ask::fits) == admitted, "an answer without a charge");
        for ask in asks {
            ask.notify(if admitted || !ask.fits() { ask.cost() } else { 0 });
        }
        SetDecision::new(self.asks)
    }
}

/// The outcome if there is nothing to wait for.
fn at_once(asks: &mut [Ask<'_>], wait: &Wait) -> Option<WaitResult> {
    if peek_each(asks) && take_each(asks) {
        return Some(WaitResult::Taken);
    }
    let longest = asks.iter().map(|ask| wait.longest(ask.at())).min().unwrap_or(Duration::ZERO);
    let too_late = |ask: &Ask<'_>| ask.decision().retry_after().is_none_or(|wait| wait > longest);
    asks.iter().any(too_late).then_some(WaitResult::Late { left: longest })
}
