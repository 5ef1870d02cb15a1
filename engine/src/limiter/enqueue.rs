//! Waiting in a key's line: charges that start later.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::base::word::Update;
use crate::contract::limit::Subject;
use crate::contract::observer::Observer;
use crate::contract::wait::{
    Behind, Charge, Granted, JoinRequest, JoinResult, Removal, TakenOff, Timer, Turn, Wait,
    WaitLists, Waiters, line,
};
use crate::rule::gcra::{Bucket, TAT_MAX, Terms, View, lowered, per_call};
use crate::rule::sealed::DebtRuleVisitor;
use crate::rule::{DebtRule, Rule};
use crate::table::answer::answer;
use crate::time::{Clock, Timestamp, saturating_nanos};

use super::{Limiter, StateOf};

/// A request for a place in a key's line.
#[derive(Clone, Copy)]
struct PlaceRequest<'w> {
    key: KeyHash,
    cost: u64,
    wait: &'w Wait,
    /// The clock when the request was made; its wait counts from here.
    reading: Timestamp,
    /// Whether it may wait as long as `wait` says; if not, only a start at once will do.
    may_wait: bool,
    /// The time from the reading on until which the start can be put off: the charge covers nothing
    /// before that.
    reach: Duration,
    /// Whether it has a place in the list also if it can start at once, because it may be put off.
    listed: bool,
}

impl PlaceRequest<'_> {
    /// The longest wait from the reading on, in the view's units.
    fn longest(&self, view: &View<impl Terms>) -> u64 {
        if self.may_wait { self.wait.longest_units(self.reading, view.gcra.scale()) } else { 0 }
    }

    /// The view as if the key were charged as far as the request reaches.
    fn reaching<T: Terms>(&self, view: View<T>) -> View<T> {
        if self.reach.is_zero() {
            return view;
        }
        let reach = view.gcra.scale().to_units(saturating_nanos(self.reach));
        let point = view.now.saturating_add(reach.saturating_sub(view.since(self.reading)));
        View { tat: view.tat.max(point.min(TAT_MAX)), ..view }
    }
}

/// A charge of a key's word, which starts once all but a burst of what it leaves has drained.
#[derive(Clone, Copy)]
struct Ticket<T> {
    /// The word before the charge, as if it were charged as far as the request reaches.
    view: View<T>,
    /// The TAT after it.
    charged: u64,
    /// What of the charge only lets it reach as far as the request does.
    lead: u64,
}

impl<T: Terms> Ticket<T> {
    /// The charge that serves a request; `None` if it would start too late, and for a cost of 0.
    fn issue(view: View<T>, request: &PlaceRequest<'_>) -> Option<Self> {
        if request.cost == 0 {
            return None;
        }
        let (found, view) = (view, request.reaching(view));
        // A key without a slot is decided at a later reading, by which some of the wait is over.
        let longest = request.longest(&view).saturating_sub(view.since(request.reading));
        let charged = view.gcra.admit_by(view.tat, view.now, request.cost, longest)?;
        let lead = view.tat.max(view.now) - found.tat.max(view.now);
        Some(Self { view, charged, lead })
    }

    /// The time from the view's `now` to the start, in units.
    fn wait(&self) -> u64 {
        self.view.gcra.wait(self.charged, self.view.now)
    }

    /// What the request is granted once the charge has been made.
    fn grant(&self, request: &PlaceRequest<'_>) -> Granted {
        let View { gcra, time, tat, now } = self.view;
        let wait = self.wait();
        // From the reading on. A start at once is a start at the reading.
        let from_reading = if wait == 0 { 0 } else { wait + self.view.since(request.reading) };
        let (lead, end) = (self.lead, self.charged);
        let before = tat.max(now) - lead;
        Granted {
            key: request.key,
            decision: gcra.answer(Update::Written { before: tat, now }, request.cost),
            charge: Some(Charge { time, before, lead, end, tolerance: gcra.tau() }),
            start: request.wait.start(request.reading, from_reading, gcra.scale()),
            waits: wait > 0 || request.listed,
        }
    }
}

/// Why a request gets no place.
enum Denied {
    /// It would have to wait.
    TooLate(Decision),
    /// It would start after the longest wait, or never.
    Never(Decision),
}

impl<R: DebtRule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Waits until the key has room for `cost`, at most as long as `wait` says. The result is an
    /// allowed decision when the start has come, or a denied one at once. Sleeps on a
    /// [`ThreadTimer`](crate::wait::ThreadTimer). Needs a [debt rule](crate::rule::DebtRule).
    ///
    /// A call is denied at once if it would have to wait longer (`retry_after` is then the time
    /// until the same call is accepted), if there are as many waiters as there may be (the time
    /// until the call could start without waiting; see
    /// [`LimiterBuilder::max_waiters`](crate::limiter::LimiterBuilder::max_waiters)), and if `cost`
    /// exceeds the burst and never fits (`None`).
    ///
    /// First come, first served on each key: starts have the order in which places were taken, to
    /// the unit of time (only [`Wait::jitter`] can swap those that are less than the jitter
    /// apart). No check passes waiters, except one of units that were leased before, or under a
    /// longer burst given with the call. The cost of what starts in `[s, t]`, checks included, is
    /// at most `burst + rate * (t - s)`. The place is taken when the future is first polled, by one
    /// charge of the key's word into the future. Dropping the future gives up the place: those
    /// behind it start earlier, see [`Turn`]. Each waiter wakes at its start, and before that at
    /// most once for each place given up before it. One that is not polled delays those behind it
    /// at most to the starts that they were given at first.
    ///
    /// A waiter keeps its start when the quota changes ([`LiveQuota`](crate::LiveQuota)), and a
    /// place that is given up after the change lapses. Places are then taken under the new quota,
    /// behind what is charged as it is carried over: where that is less than before, newcomers
    /// start before or with those that wait.
    ///
    /// A [`Limiter::refund`] or a [`Limiter::reset`] of a key that has waiters lets newcomers start
    /// before or with them. To rule that out, wait on keys of a limiter that is not refunded. What
    /// a [`Reservation`](crate::Reservation) or a [`LimitSet`](crate::LimitSet) would give back
    /// lapses instead.
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
    /// [`ThreadTimer`](crate::wait::ThreadTimer).
    #[cfg(feature = "acquire")]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub async fn acquire(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.acquire_on(&crate::contract::wait::ThreadTimer, key, cost, wait).await
    }

    /// As [`Limiter::acquire`], sleeping on the caller's timer, for example that of its runtime.
    /// Needs a [debt rule](crate::rule::DebtRule).
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

    /// As [`Limiter::acquire`], blocking the thread. Needs a [debt rule](crate::rule::DebtRule).
    #[cfg(feature = "std")]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn acquire_blocking(&self, key: impl Key, cost: u64, wait: impl Into<Wait>) -> Decision {
        self.enqueue(key, cost, wait).map_or_else(|denied| denied, Turn::block)
    }

    /// Takes the place in which [`Limiter::acquire`] waits, without waiting, for callers that
    /// schedule starts by other means. A cost of 0 takes no place: it is a [`Limiter::peek`]. O(log
    /// waiters of the key); a call that can start at once is O(1), and neither locks nor allocates.
    /// Needs a [debt rule](crate::rule::DebtRule).
    ///
    /// Takes the lock of the key's list where it waits. Reads the key's word alone: what threads
    /// have leased counts as used.
    ///
    /// # Errors
    /// A denied decision; nothing is charged.
    pub fn enqueue(
        &self,
        key: impl Key,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<Turn<'_, Self>, Decision> {
        self.enqueue_under(self.algorithm(), key, cost, &wait.into())
    }

    /// As [`Limiter::enqueue`], for a turn that moves into a task: it keeps the limiter alive.
    /// Needs a [debt rule](crate::rule::DebtRule).
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

    /// The number of waiters, that is, of turns that could not start at once and of calls of
    /// `acquire`. Needs a [debt rule](crate::rule::DebtRule).
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters.count()
    }

    /// [`Limiter::enqueue`] under the given quota.
    pub(super) fn enqueue_under<B: Bucket<State = StateOf<R>>>(
        &self,
        bucket: &B,
        key: impl Key,
        cost: u64,
        wait: &Wait,
    ) -> Result<Turn<'_, Self>, Decision> {
        let key = self.hashed(key);
        let reading = self.clock.now();
        let reach = Duration::ZERO;
        let request = PlaceRequest {
            key: key.hash,
            cost,
            wait,
            reading,
            may_wait: true,
            reach,
            listed: false,
        };
        let turn = self.line_up(bucket, request);
        let decision = turn.as_ref().map_or_else(|denied| *denied, Turn::decision);
        let _ = self.notified(&key, cost, decision);
        turn
    }

    /// Takes a place that starts at once, else one among the waiters, if there is room for one
    /// more.
    fn line_up<B: Bucket<State = StateOf<R>>>(
        &self,
        bucket: &B,
        request: PlaceRequest<'_>,
    ) -> Result<Turn<'_, Self>, Decision> {
        let listed = if request.listed { self.waiters.enter() } else { None };
        let waiter = if let Some(waiter) = listed {
            waiter
        } else {
            let at_once = PlaceRequest { may_wait: false, listed: false, ..request };
            let denied = match self.place(bucket, &at_once) {
                Ok(granted) => return Ok(Turn::new(self, granted, None)),
                Err(Denied::Never(denied)) => return Err(denied),
                Err(Denied::TooLate(denied)) => denied,
            };
            let Some(waiter) = self.waiters.enter() else { return Err(denied) };
            waiter
        };
        match self.wait_lists.enter(request.key, || self.place(bucket, &request)) {
            Ok((granted, number)) => {
                // The key may have drained since: then the turn does not count as a waiter.
                if number.is_some() {
                    waiter.hold();
                }
                Ok(Turn::new(self, granted, number))
            }
            Err(Denied::TooLate(denied) | Denied::Never(denied)) => Err(denied),
        }
    }

    /// Charges the request's cost, if it can start as early as requested.
    fn place<B: Bucket<State = StateOf<R>>>(
        &self,
        bucket: &B,
        request: &PlaceRequest<'_>,
    ) -> Result<Granted, Denied> {
        // Of the last call of `charge`, which is the one that counts.
        let issued = Cell::new(None);
        let charge = |value, now| {
            let ticket = Ticket::issue(bucket.view(value, now), request);
            if let Some(Ticket { view, .. }) = ticket.filter(|ticket| ticket.wait() > 0) {
                // Before the charge: a thread that gives units back behind it knows of the wait.
                self.waiters.waits_under(view.gcra.scale().to_nanos(view.gcra.tau()));
            }
            issued.set(ticket);
            ticket.map(|Ticket { view, charged, .. }| view.value(charged))
        };
        let (home, now) = (self.table.home(request.key), self.instant(request.reading));
        let update = home.update(now, || self.instant_now(), charge);
        let charged = || issued.get().map(|Ticket { view, charged, .. }| view.value(charged));
        self.notify_of_update(request.key, update, |_, _| charged());
        match (update, issued.get()) {
            (Update::Written { .. }, Some(ticket)) => Ok(ticket.grant(request)),
            _ => self.place_uncharged(bucket, request, update),
        }
    }

    /// The result of a request that charged nothing: a peek, a denial, or a check of a key that
    /// finds no slot.
    fn place_uncharged<B: Bucket<State = StateOf<R>>>(
        &self,
        bucket: &B,
        request: &PlaceRequest<'_>,
        update: Update,
    ) -> Result<Granted, Denied> {
        let &PlaceRequest { key, cost, reading, .. } = request;
        let decision = answer(&self.table, bucket, key, update, cost);
        if decision.is_allowed() && cost > 0 && !request.reach.is_zero() {
            // Room has come up since the place was due: without it nothing would be charged.
            return self.place(bucket, &PlaceRequest { reach: Duration::ZERO, ..*request });
        }
        if decision.is_allowed() {
            return Ok(Granted::uncharged(key, decision, reading));
        }
        match update {
            Update::Unchanged { found, now } if cost > 0 && decision.retry_after().is_some() => {
                let view = bucket.view(found, now);
                let unchanged = Update::Unchanged { found: view.tat, now: view.now };
                // Whether a place among the waiters would be in time.
                let patient = PlaceRequest { may_wait: true, ..*request };
                let longest = patient.longest(&view);
                if Ticket::issue(view, &patient).is_none() {
                    return Err(Denied::Never(view.gcra.answer_by(unchanged, cost, longest)));
                }
                Err(Denied::TooLate(view.gcra.answer_by(unchanged, cost, 0)))
            }
            _ => Err(Denied::Never(decision)),
        }
    }
}

/// A [`Limit::join`](crate::Limit), for a limiter of any rule.
pub(super) struct Join<'l, 'a, R: Rule, C, O> {
    pub(super) limiter: &'l Limiter<R, C, O>,
    pub(super) subject: Subject<'a>,
    pub(super) cost: u64,
    pub(super) request: JoinRequest,
}

impl<'l, R, C, O> DebtRuleVisitor<R> for Join<'l, '_, R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    type Output = JoinResult<'l>;

    fn visit(self) -> JoinResult<'l>
    where
        R: DebtRule,
    {
        let algorithm = self.limiter.algorithm();
        match self.subject.quota {
            None => self.under(algorithm),
            Some(quota) => self.under(&per_call(algorithm, quota)),
        }
    }
}

impl<'l, R, C, O> Join<'l, '_, R, C, O>
where
    R: DebtRule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    fn under<B: Bucket<State = StateOf<R>>>(self, bucket: &B) -> JoinResult<'l> {
        let Self { limiter, subject, cost, request: JoinRequest { longest, reach } } = self;
        let (key, reading) = (subject.key, limiter.clock.now());
        let wait = &Wait::at_most(longest);
        let request =
            PlaceRequest { key, cost, wait, reading, may_wait: true, reach, listed: true };
        if !limiter.is_due(bucket, &request) {
            return JoinResult::NotYet;
        }
        match limiter.line_up(bucket, request) {
            Ok(turn) => JoinResult::Held(Box::new(turn)),
            Err(denied) => JoinResult::Denied(denied),
        }
    }
}

impl<R: DebtRule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Whether a place is worth taking already. It is if the charges of the key reach as far as the
    /// request does. If they end before, the time between would be lost: that is accepted, up to
    /// half of what the request itself costs, where the key has no room at present.
    fn is_due<B: Bucket<State = StateOf<R>>>(
        &self,
        bucket: &B,
        request: &PlaceRequest<'_>,
    ) -> bool {
        if request.reach.is_zero() {
            return true;
        }
        let now = self.instant(request.reading);
        let update = self.table.home(request.key).update(now, || now, |_, _| None);
        let Update::Unchanged { found, now } = update else { return false };
        let view = bucket.view(found, now);
        let begins = view.tat.max(view.now);
        let lost = request.reaching(view).tat.saturating_sub(begins);
        match view.gcra.admit_by(view.tat, view.now, request.cost, u64::MAX) {
            Some(charged) if lost > 0 => {
                view.gcra.wait(charged, view.now) > 0 && lost <= (charged - begins) / 2
            }
            // A cost that never fits is denied by the line.
            _ => true,
        }
    }
}

impl<R: DebtRule, C: Clock, O: Observer> line::Sealed for Limiter<R, C, O> {
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

    fn take_off(&self, key: KeyHash, removal: Removal) -> Option<TakenOff> {
        let Removal { time, end, behind, .. } = removal;
        // What is leased behind a charge that has started does not move.
        let last = match behind {
            Behind::Places => false,
            Behind::Started => !self.mode().is_by_word(),
            Behind::Unknown => true,
        };
        let taken = Cell::new(None);
        let lower = |value, now| {
            taken.set(None);
            let view = self.algorithm().view(value, now);
            if view.time != time || !removal.fits(view.tat) || last && view.tat != end {
                return None;
            }
            // After the word, and so not before a start of what it counts.
            let at = self.clock.now();
            let units = removal.left_at(time.point(at));
            let left = lowered(view.tat, time.point(at), units)?;
            let value = view.value(left);
            taken.set(Some((TakenOff { units, at, tat: view.tat }, view.tat, left, value)));
            Some(value)
        };
        let now = || self.instant_now();
        let update = self.table.home(key).update(now(), now, lower);
        let written = matches!(update, Update::Written { .. });
        let (off, from, to, value) = taken.get().filter(|_| written)?;
        self.notify_of_update(key, update, |_, _| Some(value));
        self.lowered(key, from, to);
        Some(off)
    }
}
