//! A place in line.

use alloc::sync::Arc;
use core::fmt::{self, Debug};
use core::mem;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::time::{Clock, Timestamp};

#[cfg(feature = "std")]
use super::timer::block_until;
use super::timer::{Timer, sleep_until};
use super::waiters::WaiterGuard;

/// What a [`Turn`] is a place in: a [`Limiter`](crate::Limiter) of a quota, with a line per key, or
/// a [`Queue`](crate::Queue). Sealed.
pub trait Line: line::Sealed {}

impl<L: line::Sealed> Line for L {}

pub(crate) mod line {
    use core::fmt::Debug;

    use crate::contract::wait::Waiters;
    use crate::time::Clock;

    pub trait Sealed {
        /// What was charged, and to which key.
        type Charge: Copy + Debug;
        type Clock: Clock;

        fn line_clock(&self) -> &Self::Clock;

        fn line_waiters(&self) -> &Waiters;

        /// Takes the charge back if it was the last one; returns whether it was.
        fn take_back(&self, charge: Self::Charge) -> bool;
    }
}

/// What a line grants.
pub(crate) struct Granted<Charge> {
    /// `None` when nothing was charged, so there is nothing to give back.
    pub(crate) charge: Option<Charge>,
    pub(crate) start: Timestamp,
    pub(crate) decision: Decision,
}

/// A place in line: the cost is charged, and the holder may start at [`Turn::start`].
///
/// Consume it with [`Turn::wait_on`], [`Turn::block`] or [`Turn::keep`]. A turn that is dropped
/// gives up its place. The charge is taken back, exactly, if it is the last in line: nothing was
/// charged since. Otherwise later places already have their starts, so this one lapses as if it had
/// been used: a newcomer that got it could start at the same moment as one behind it, and more
/// would start at once than the quota allows.
#[must_use = "a turn that is dropped gives up its place"]
pub struct Turn<'l, L: Line> {
    line: LineRef<'l, L>,
    granted: Granted<L::Charge>,
    /// Whether it counts as a waiter; not if it could start at once.
    waits: bool,
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
    pub(crate) fn new(
        line: &'l L,
        granted: Granted<L::Charge>,
        seat: Option<WaiterGuard<'l>>,
    ) -> Self {
        Self {
            line: LineRef::Borrowed(line),
            granted,
            waits: seat.map(WaiterGuard::hold).is_some(),
        }
    }

    /// The same place, keeping its line alive.
    pub(crate) fn into_owned(mut self, line: &Arc<L>) -> Turn<'static, L>
    where
        L: 'static,
    {
        let Granted { charge, start, decision } = &mut self.granted;
        let granted = Granted { charge: charge.take(), start: *start, decision: *decision };
        let waits = mem::take(&mut self.waits);
        Turn { line: LineRef::Shared(Arc::clone(line)), granted, waits }
    }

    /// When the holder may start, on the scale of the line's clock.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.granted.start
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
        self.granted.decision
    }

    /// Sleeps until the start. Dropping the future gives up the place.
    pub async fn wait_on<T: Timer>(self, timer: &T) -> Decision {
        sleep_until(self.line.line().line_clock(), timer, self.start()).await;
        self.keep()
    }

    /// Blocks the thread until the start.
    #[cfg(feature = "std")]
    pub fn block(self) -> Decision {
        block_until(self.line.line().line_clock(), self.start());
        self.keep()
    }

    /// Keeps the charge without waiting, for callers that schedule the start themselves. The turn
    /// no longer counts as a waiter.
    pub fn keep(mut self) -> Decision {
        self.granted.charge = None;
        self.granted.decision
    }

    /// Gives up the place, as dropping does; returns whether the charge was taken back. It is not
    /// if others have been charged since, if it has drained, or if nothing was charged. O(1),
    /// lock-free.
    pub fn cancel(mut self) -> bool {
        self.give_up()
    }

    fn give_up(&mut self) -> bool {
        let charge = mem::take(&mut self.granted.charge);
        charge.is_some_and(|charge| self.line.line().take_back(charge))
    }
}

impl<L: Line> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        // First, since the clock that `give_up` reads may panic.
        if self.waits {
            self.line.line().line_waiters().leave();
        }
        self.give_up();
    }
}

impl<L: Line> Debug for Turn<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("start", &self.granted.start)
            .field("decision", &self.granted.decision)
            .field("charge", &self.granted.charge)
            .field("waits", &self.waits)
            .finish()
    }
}
