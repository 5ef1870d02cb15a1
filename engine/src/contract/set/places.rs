//! What a set that waits holds of its limits.
//!
//! # When a place is taken
//! A charge in a line covers an interval of time. It may be used from its start until that interval
//! begins: for as long as the burst less the cost takes to drain. So places in two lines can be
//! used together if there is a time at which both may be used. The longest of the waits determines
//! when the set can start. The set takes a place in each line whose charges reach that far. In a
//! shorter line it takes none yet: the charge would have drained before the set starts, and the
//! start would exceed the limit. Such a line is polled again when half of the remaining time has
//! passed, and so on, the last time at the start.
//!
//! The start of a place can move, to earlier or to later. A place that would drain before the
//! latest of the starts is given up, and its line is joined again in time. So each limit is charged
//! for the time at which the set starts.
//!
//! # No lock, no deadlock
//! A place is a point in time, which comes whatever its holder does, and it delays others no longer
//! than its cost takes to drain. Nothing is locked while a set waits.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::task::Waker;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::contract::limit::{Limit, Receipt, Subject, answered};
use crate::contract::wait::{Hold, JoinRequest, JoinResult, Rest, Wait, until};
use crate::time::{Timestamp, saturating_nanos};

use super::{Ask, peek_each};

/// The shortest time between two polls of a line that is not joined yet.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// By how much readings of two clocks, and times in two units, may differ.
const GRACE: Duration = Duration::from_micros(1);

/// How often places are taken and given up again before the set goes on at the next poll.
const MOST_ROUNDS: u32 = 8;

/// What to do next.
pub(super) enum Step {
    Sleep(Duration),
    Done(WaitResult),
}

/// The end of a wait.
pub(super) enum WaitResult {
    /// The asks have taken all.
    Taken,
    /// All was taken for them.
    Started(Vec<GroupDecision>),
    /// Nothing was taken: some of the asks, which have been peeked, would fit too late.
    Late { left: Duration },
    /// All was given back, because of one limit; `left` was the longest wait then.
    Refused { left: Duration, by: GroupDecision },
}

/// The decision of a limit for all asks that match each other.
pub(super) struct GroupDecision {
    /// The index of the first of them.
    first: usize,
    decision: Decision,
}

impl WaitResult {
    /// Writes the decisions to the asks; whether all was admitted.
    pub(super) fn write_to(self, asks: &mut [Ask<'_>]) -> bool {
        match self {
            Self::Taken => return true,
            Self::Started(decisions) => {
                for GroupDecision { first, decision } in decisions {
                    let (earlier, rest) = asks.split_at_mut(first + 1);
                    let matching = rest.iter_mut().filter(|ask| ask.is_as(&earlier[first]));
                    matching.for_each(|ask| ask.insist(decision));
                    earlier[first].insist(decision);
                }
                return true;
            }
            Self::Late { left } => beyond_each(asks, left),
            Self::Refused { left, by: GroupDecision { first, decision: denial } } => {
                peek_each(asks);
                beyond_each(asks, left);
                if asks[first].fits() {
                    // It has changed since: the denial holds nevertheless.
                    asks[first].insist(denial);
                }
            }
        }
        false
    }
}

fn beyond_each(asks: &mut [Ask<'_>], left: Duration) {
    for ask in asks {
        ask.insist(beyond(ask.decision(), left));
    }
}

/// What a caller that can wait as long as `left` finds: a denial only if it would have to wait
/// longer, by the time that is missing.
fn beyond(decision: Decision, left: Duration) -> Decision {
    let Some(wait) = decision.retry_after().filter(|wait| !wait.is_zero()) else { return decision };
    let (limit, remaining) = (decision.limit(), decision.remaining());
    let missing = saturating_nanos(wait.saturating_sub(left));
    Decision::new(limit, remaining, missing, saturating_nanos(decision.reset_after()))
}

/// The charge of all asks that match each other.
struct Group<'a> {
    /// The index of the first of them.
    first: usize,
    limit: &'a dyn Limit,
    subject: Subject<'a>,
    /// The sum of their costs.
    cost: u64,
    /// When the wait began.
    since: Timestamp,
    /// Of the last poll.
    decision: Decision,
    held: Holding<'a>,
    /// As far as nothing is held, by the last poll.
    rest: Rest,
    /// The line is not joined again before: else sets that give up places at one moment, and move
    /// up each other, would go on for ever.
    barred: Timestamp,
}

/// What is held of a limit.
enum Holding<'a> {
    Nothing,
    /// Nothing, and there is a line that may have to be joined before the start.
    Soon,
    Place(Box<dyn Hold + 'a>),
    Taken(Decision, Receipt),
}

/// All that a set holds while it waits. A drop gives it back.
pub(super) struct Places<'a> {
    /// In the order in which all sets take, shadows last.
    groups: Vec<Group<'a>>,
    wait: Wait,
    /// When the jitter ends, once all is taken; by the clock of the first group.
    delayed: Option<Timestamp>,
    /// By the last poll.
    intended: Option<Intended>,
}

/// When a set is to start.
struct Intended {
    /// By the clock of the first group.
    start: Timestamp,
    /// Whether it is the start of a place.
    by_place: bool,
}

impl Group<'_> {
    fn left(&self, wait: &Wait) -> Duration {
        wait.left(self.since, self.limit.now())
    }

    fn decided(&self, decision: Decision) -> GroupDecision {
        GroupDecision { first: self.first, decision }
    }

    /// Finds out how long the limit has the set wait. `Err` for a cost that never fits.
    fn poll_start(&mut self, waker: &Waker) -> Result<i64, GroupDecision> {
        self.rest = match &self.held {
            // It makes no caller wait.
            _ if self.limit.is_shadow() => Rest::NONE,
            Holding::Place(place) => place.watch(waker),
            Holding::Taken(..) => Rest::NONE,
            Holding::Nothing | Holding::Soon => {
                self.decision = self.limit.peek_at(self.subject, self.cost, self.limit.now());
                let denied = self.decided(self.decision);
                match self.decision.retry_after().ok_or(denied)? {
                    Duration::ZERO => Rest::NONE,
                    wait => Rest { start: nanos(wait), ..Rest::NONE },
                }
            }
        };
        Ok(self.rest.start)
    }

    /// Takes a place if it is time to, for a start in `reach`; `Err` if it comes too late.
    fn join(&mut self, wait: &Wait, reach: Duration, waker: &Waker) -> Result<(), GroupDecision> {
        if self.limit.is_shadow() || !matches!(self.held, Holding::Nothing | Holding::Soon) {
            return Ok(());
        }
        let longest = self.left(wait);
        let late = self.rest.start > nanos(longest);
        if !late && !reach.is_zero() && self.limit.now() < self.barred {
            self.held = Holding::Soon;
            return Ok(());
        }
        // A line that is too long says so by itself, and by how much.
        let request = JoinRequest { longest, reach: if late { Duration::ZERO } else { reach } };
        let joined = match self.cost {
            0 => JoinResult::NoLine,
            cost => self.limit.join(self.subject, cost, &request),
        };
        match joined {
            JoinResult::NoLine if late => return Err(self.decided(beyond(self.decision, longest))),
            JoinResult::NoLine => {}
            JoinResult::NotYet => self.held = Holding::Soon,
            JoinResult::Denied(denied) => return Err(self.decided(denied)),
            JoinResult::Held(place) => {
                self.rest = place.watch(waker);
                self.held = Holding::Place(place);
            }
        }
        Ok(())
    }

    /// Takes units of a limit without lines; whether they are there, or need not be.
    fn take(&mut self) -> bool {
        if let Holding::Nothing | Holding::Soon = self.held {
            let (decision, receipt) =
                self.limit.try_charge(self.subject, self.cost, self.limit.now());
            if !answered(self.limit, decision).is_allowed() {
                return false;
            }
            self.held = Holding::Taken(decision, receipt);
        }
        true
    }

    /// Gives up a place that would drain too early, until the line has been polled again.
    fn put_off(&mut self, nap: Duration) {
        self.release();
        self.barred = self.limit.now().saturating_add(nap);
    }

    /// Gives back what is held.
    fn release(&mut self) {
        self.rest = Rest::NONE;
        match mem::replace(&mut self.held, Holding::Nothing) {
            Holding::Taken(_, receipt) if receipt != Receipt::NOTHING => {
                let _ = self.limit.give_back(self.subject, self.cost, receipt);
            }
            // A place is given up by the drop.
            _ => {}
        }
    }

    /// Keeps what is held.
    fn keep(&mut self) -> GroupDecision {
        let decision = match mem::replace(&mut self.held, Holding::Nothing) {
            Holding::Place(place) => place.keep(),
            Holding::Taken(decision, _) => decision,
            Holding::Nothing | Holding::Soon => self.decision,
        };
        self.decided(decision)
    }
}

impl<'a> Places<'a> {
    /// Of asks that have been peeked, and do not fit.
    pub(super) fn new<'l: 'a>(asks: &'a [Ask<'l>], wait: Wait) -> Self {
        let mut groups = Vec::new();
        for (first, ask) in asks.iter().enumerate() {
            let (earlier, later) = (&asks[..first], &asks[first + 1..]);
            if !earlier.iter().any(|other| other.is_as(ask)) {
                let (limit, subject, cost) = (ask.limit(), ask.subject(), ask.cost_with(later));
                let (held, rest) = (Holding::Nothing, Rest::NONE);
                let (since, decision) = (ask.at(), ask.decision());
                groups.push(Group {
                    first,
                    limit,
                    subject,
                    cost,
                    since,
                    decision,
                    held,
                    rest,
                    barred: since,
                });
            }
        }
        groups
            .sort_by_key(|group| (group.limit.is_shadow(), asks[group.first].rank(), group.first));
        Self { groups, wait, delayed: None, intended: None }
    }

    /// Goes on as far as it can. Until the time to sleep is over, `waker` is woken when a place has
    /// moved up.
    pub(super) fn advance(&mut self, waker: &Waker) -> Step {
        if let Some(until) = self.delayed {
            return self.delay(until);
        }
        for _ in 0..MOST_ROUNDS {
            match self.round(waker) {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(by) => {
                    let left = self.left();
                    self.release();
                    return Step::Done(WaitResult::Refused { left, by });
                }
            }
        }
        self.intended.get_or_insert(Intended { start: self.now(), by_place: true });
        Step::Sleep(MIN_POLL_INTERVAL)
    }

    /// Polls all limits, gives up the places that would drain, and takes those whose time it is.
    /// `None` if the start is another one then; `Err` of a limit that refuses.
    fn round(&mut self, waker: &Waker) -> Result<Option<Step>, GroupDecision> {
        let (begun, mut start) = (self.now(), self.intended());
        for group in &mut self.groups {
            start = start.max(group.poll_start(waker)?);
        }
        // The readings of different limits are as far apart.
        let grace = GRACE.saturating_add(self.now().since(begun));
        let reach = Duration::from_nanos(start.max(0).unsigned_abs());
        for group in self.groups.iter_mut().rev() {
            if group.rest.drains.saturating_add(nanos(grace)) < start {
                group.put_off(nap(reach));
            }
        }
        for group in &mut self.groups {
            group.join(&self.wait, reach, waker)?;
        }
        let latest = self.groups.iter().map(|group| group.rest.start).max().unwrap_or(0);
        if latest <= 0 {
            return Ok(self.take());
        }
        Ok((latest == start).then(|| self.sleep(reach)))
    }

    /// When the set was to start by the last poll, as far as that has come: what drains before it
    /// is too early. Not if it was a place, which has moved up, that made the set wait until then.
    fn intended(&self) -> i64 {
        let Some(Intended { start, by_place }) = self.intended else { return i64::MIN };
        let until = until(start, self.now());
        if until > 0 && by_place { i64::MIN } else { until.min(0) }
    }

    /// Sleeps until the start, or the next poll of a line that is not joined yet.
    fn sleep(&mut self, start: Duration) -> Step {
        let last = self.groups.iter().max_by_key(|group| group.rest.start);
        let by_place = last.is_some_and(|group| matches!(group.held, Holding::Place(_)));
        self.intended = Some(Intended { start: self.now().saturating_add(start), by_place });
        let soon = self.groups.iter().any(|group| matches!(group.held, Holding::Soon));
        Step::Sleep(if soon { nap(start).min(start) } else { start })
    }

    /// All places have started: takes the rest all or nothing.
    fn take(&mut self) -> Option<Step> {
        let enforced = self.groups.partition_point(|group| !group.limit.is_shadow());
        let (enforced, shadows) = self.groups.split_at_mut(enforced);
        for index in 0..enforced.len() {
            if !enforced[index].take() {
                let taken = enforced[..index].iter_mut().rev();
                taken
                    .filter(|group| matches!(group.held, Holding::Taken(..)))
                    .for_each(Group::release);
                return None;
            }
        }
        // A shadow is charged only once the others have admitted the set.
        for shadow in shadows {
            shadow.take();
        }
        let delay =
            if self.intended.is_some() { self.wait.delay(self.left()) } else { Duration::ZERO };
        let until = self.now().saturating_add(delay);
        self.delayed = Some(until);
        Some(self.delay(until))
    }

    /// Starts, once the jitter has ended.
    fn delay(&mut self, until: Timestamp) -> Step {
        let rest = until.since(self.now());
        if rest.is_zero() {
            let decisions = self.groups.iter_mut().map(Group::keep).collect();
            return Step::Done(WaitResult::Started(decisions));
        }
        Step::Sleep(rest)
    }

    /// The reading of one of the clocks.
    fn now(&self) -> Timestamp {
        self.groups.first().map_or(Timestamp::ORIGIN, |group| group.limit.now())
    }

    /// What is left of the longest wait.
    fn left(&self) -> Duration {
        self.groups.iter().map(|group| group.left(&self.wait)).min().unwrap_or_default()
    }

    /// Gives back what is held; of the charges to one key under several quotas, the later one
    /// first.
    fn release(&mut self) {
        self.groups.iter_mut().rev().for_each(Group::release);
    }
}

/// The time until lines that are not joined yet are polled again.
fn nap(start: Duration) -> Duration {
    (start / 2).max(MIN_POLL_INTERVAL)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        self.release();
    }
}
