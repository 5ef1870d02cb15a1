//! A place in line.

mod hold;

use alloc::sync::Arc;
use core::fmt::{self, Debug};
use core::future::{Future as _, poll_fn};
use core::mem;
use core::pin::pin;
use core::task::{Poll, Waker};
use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::KeyHash;
use crate::time::{Clock, Timestamp};

use super::charge::{Charge, Granted};
use super::list::Found;
#[cfg(feature = "std")]
use super::timer::unpark_this_thread;
use super::timer::{LONGEST_SLEEP, Timer};

pub(crate) use hold::until;
pub use hold::{Hold, JoinRequest, JoinResult, Rest};

/// What a [`Turn`] is a place in: a [`Limiter`](crate::Limiter) of a quota, with a line per key, or
/// a [`Queue`](crate::Queue). Sealed.
pub trait Line: line::Sealed {}

impl<L: line::Sealed> Line for L {}

pub(crate) mod line {
    use crate::base::key::KeyHash;
    use crate::contract::wait::{Removal, TakenOff, WaitLists, Waiters};
    use crate::time::Clock;

    pub trait Sealed {
        type Clock: Clock;

        fn line_clock(&self) -> &Self::Clock;

        fn line_waiters(&self) -> &Waiters;

        fn wait_lists(&self) -> &WaitLists;

        /// Takes units off the key's word, if it is as the removal says.
        fn take_off(&self, key: KeyHash, removal: Removal) -> Option<TakenOff>;
    }
}

/// A place in line: the cost is charged, and the holder may start at [`Turn::start`].
///
/// Consume it with [`Turn::wait_on`], [`Turn::block`], [`Turn::schedule`] or [`Turn::keep`]. A turn
/// that is dropped gives up its place: those behind it, and newcomers, start earlier by the time
/// that it took up. What was charged for it lapses, as if it had been used, as far as
/// * it has drained after its start;
/// * later places were fixed by [`Turn::schedule`] or [`Turn::keep`] before their start: these do
///   not move, and what is behind them does not either;
/// * the key was reset, restored or evicted since, or its quota changed;
/// * it started at once, and other calls have started after it, or one that was charged before it
///   was given up since.
///
/// A refund of the key, or a reservation of it that is given back, moves up what was charged
/// before it. Of a turn that started at once before that, dropping may then take off what a later
/// call was charged, at most as much as the turn cost.
#[must_use = "a turn that is dropped gives up its place"]
pub struct Turn<'l, L: Line> {
    line: LineRef<'l, L>,
    key: KeyHash,
    /// As it was given with the place; one that waits may have moved up since.
    start: Timestamp,
    decision: Decision,
    stage: Stage,
}

/// What a turn has to give back.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing: it charged nothing, or has started.
    Nothing,
    /// A charge that started at once.
    Started(Charge),
    /// A place of this number in the key's list, which counts as a waiter.
    Waiting(u64),
}

/// A line, borrowed or shared.
enum LineRef<'l, L> {
    Borrowed(&'l L),
    Shared(Arc<L>),
}

impl<L> LineRef<'_, L> {
    fn line(&self) -> &L {
        match self {
            Self::Borrowed(line) => line,
            Self::Shared(line) => line,
        }
    }
}

impl<'l, L: Line> Turn<'l, L> {
    /// With the number of its place in the key's list, where it waits and counts as a waiter.
    pub(crate) fn new(line: &'l L, granted: Granted, number: Option<u64>) -> Self {
        let Granted { key, decision, charge, start, .. } = granted;
        let stage = match (number, charge) {
            (Some(number), _) => Stage::Waiting(number),
            (None, Some(charge)) => Stage::Started(charge),
            (None, None) => Stage::Nothing,
        };
        Self { line: LineRef::Borrowed(line), key, start: start.at, decision, stage }
    }

    /// The same place, keeping its line alive.
    pub(crate) fn into_owned(mut self, line: &Arc<L>) -> Turn<'static, L>
    where
        L: 'static,
    {
        let stage = mem::replace(&mut self.stage, Stage::Nothing);
        let Self { key, start, decision, .. } = self;
        Turn { line: LineRef::Shared(Arc::clone(line)), key, start, decision, stage }
    }

    /// When the holder may start, on the scale of the line's clock: never later than it was, and
    /// earlier when calls before it have given up their places. O(1), or O(waiters of the key)
    /// after such a move; takes the lock of the key's list.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        let Stage::Waiting(number) = self.stage else { return self.start };
        let line = self.line.line();
        let start = line.wait_lists().start(self.key, number, line.line_clock().now());
        start.unwrap_or(self.start)
    }

    /// The time from now until [`Turn::start`], zero once it has passed. Reads the clock.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.start().since(self.line.line().line_clock().now())
    }

    /// The decision when the place was taken: allowed, with what was left after it and how long
    /// until everything charged has drained.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Sleeps until the start, which may come earlier than it was given. Dropping the future gives
    /// up the place.
    pub async fn wait_on<T: Timer>(mut self, timer: &T) -> Decision {
        let (mut sleep, mut until) = (pin!(None), None);
        poll_fn(|context| {
            loop {
                let Some((start, rest)) = self.poll_start(context.waker()) else {
                    return Poll::Ready(());
                };
                if until != Some(start) {
                    until = Some(start);
                    sleep.set(Some(timer.sleep(rest)));
                }
                // The clock decides, not the timer.
                match sleep.as_mut().as_pin_mut().map(|sleep| sleep.poll(context)) {
                    Some(Poll::Pending) => return Poll::Pending,
                    Some(Poll::Ready(())) | None => until = None,
                }
            }
        })
        .await;
        self.keep()
    }

    /// Blocks the thread until the start, which may come earlier than it was given.
    #[cfg(feature = "std")]
    #[allow(clippy::must_use_candidate, reason = "a turn is always allowed")]
    pub fn block(mut self) -> Decision {
        if let Stage::Waiting(_) = self.stage {
            let waker = unpark_this_thread();
            while let Some((_, rest)) = self.poll_start(&waker) {
                std::thread::park_timeout(rest);
            }
        }
        self.keep()
    }

    /// Fixes the start and returns it, for callers that schedule it by other means: it does not
    /// move any more, and the charge is kept. The turn no longer counts as a waiter.
    ///
    /// A [`Turn::start`] that was read before may be later: calls before this one may have given up
    /// their places meanwhile.
    #[must_use = "the charge is kept: something is to start then"]
    pub fn schedule(mut self) -> Timestamp {
        self.fix().unwrap_or(self.start)
    }

    /// Keeps the charge without waiting: [`Turn::schedule`], for callers that need not know the
    /// start.
    #[allow(clippy::must_use_candidate, reason = "a turn is always allowed")]
    pub fn keep(mut self) -> Decision {
        self.fix();
        self.decision
    }

    /// Removes the place of one that waits; returns its start.
    fn fix(&mut self) -> Option<Timestamp> {
        let (line, key) = (self.line.line(), self.key);
        let number = self.stage.leave(line);
        self.stage = Stage::Nothing;
        let number = number?;
        let panics = Abandoned { line, key, number };
        let start = line.wait_lists().keep(key, number, || line.line_clock().now());
        mem::forget(panics);
        start
    }

    /// Gives up the place, as dropping does; returns whether what was charged for it was taken
    /// back, as far as it had not drained. Lock-free but for the lock of the key's list.
    #[allow(clippy::must_use_candidate, reason = "a caller may have no use for it")]
    pub fn cancel(mut self) -> bool {
        self.give_up()
    }

    /// The start, and the time until then, at most a day; `None` once it has come: then nothing is
    /// left to give back. Before that, `waker` is woken when the start has moved.
    fn poll_start(&mut self, waker: &Waker) -> Option<(Timestamp, Duration)> {
        let Stage::Waiting(number) = self.stage else { return None };
        let line = self.line.line();
        let now = line.line_clock().now();
        match line.wait_lists().poll(self.key, number, now, waker) {
            Found::StartsAt(start) => Some((start, start.since(now).min(LONGEST_SLEEP))),
            Found::Started => {
                line.line_waiters().leave();
                self.stage = Stage::Nothing;
                None
            }
        }
    }

    fn give_up(&mut self) -> bool {
        let (line, key) = (self.line.line(), self.key);
        let (now, take_off) = (|| line.line_clock().now(), |removal| line.take_off(key, removal));
        if let Stage::Started(charge) = self.stage {
            self.stage = Stage::Nothing;
            return line.wait_lists().take_back(key, (charge, self.start), now, take_off);
        }
        let Some(number) = self.stage.leave(line) else { return false };
        let panics = Abandoned { line, key, number };
        let taken = line.wait_lists().give_up(key, number, now, take_off);
        mem::forget(panics);
        taken
    }
}

impl Stage {
    /// Takes the number of one that waits, which no longer counts as a waiter.
    fn leave(&mut self, line: &impl Line) -> Option<u64> {
        let Self::Waiting(number) = *self else { return None };
        *self = Self::Nothing;
        line.line_waiters().leave();
        Some(number)
    }
}

/// Removes a place whose line's clock panics.
struct Abandoned<'l, L: Line> {
    line: &'l L,
    key: KeyHash,
    number: u64,
}

impl<L: Line> Drop for Abandoned<'_, L> {
    fn drop(&mut self) {
        self.line.wait_lists().abandon(self.key, self.number);
    }
}

impl<L: Line> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl<L: Line> Debug for Turn<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("start", &self.start)
            .field("decision", &self.decision)
            .field("stage", &self.stage)
            .finish()
    }
}
