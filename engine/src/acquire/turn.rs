//! A place in line.

use alloc::sync::Arc;
use core::fmt::{self, Debug};
use core::mem;
use core::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;

#[cfg(feature = "std")]
use super::timer::block_until;
use super::timer::{Timer, sleep_until};
use super::waiters::Seat;

/// What a [`Turn`] is a place in: a [`Limiter`](crate::Limiter) of a quota, where each key has its line, or a
/// [`Queue`](crate::Queue). Sealed.
pub trait Line: line::Sealed {}

impl<L: line::Sealed> Line for L {}

pub(crate) mod line {
    use core::fmt::Debug;

    use crate::acquire::Waiters;
    use crate::clock::Clock;

    pub trait Sealed {
        /// What was charged, and to whom.
        type Charge: Copy + Debug;
        type Clock: Clock;

        fn line_clock(&self) -> &Self::Clock;

        fn line_waiters(&self) -> &Waiters;

        /// Takes the charge back if it was the last one; whether it was.
        fn take_back(&self, charge: Self::Charge) -> bool;
    }
}

/// What a line grants.
pub(crate) struct Granted<Charge> {
    /// `None` when nothing was charged, so that there is nothing to give back.
    pub(crate) charge: Option<Charge>,
    pub(crate) start: Timestamp,
    pub(crate) decision: Decision,
}

/// A place in line: the cost is charged, and the holder may start at [`Turn::start`].
///
/// Use it up with [`Turn::wait_on`], [`Turn::block`] or [`Turn::keep`]. A turn that is dropped gives up its place:
/// the charge is taken back, exactly, if the line ends with it: nobody has been charged to it since. If somebody has, their
/// start is told already, so the place lapses as if it had been used; a newcomer who got it could start at the same
/// moment as one who stands behind it, and more would start at once than the quota allows.
#[must_use = "a turn that is dropped gives up its place"]
pub struct Turn<'l, L: Line> {
    line: Held<'l, L>,
    granted: Granted<L::Charge>,
    /// Whether it counts as waiting; not if it could start at once.
    waits: bool,
}

/// The line, or a share in it.
enum Held<'l, L> {
    Borrowed(&'l L),
    Shared(Arc<L>),
}

impl<L> Held<'_, L> {
    fn line(&self) -> &L {
        match self {
            Self::Borrowed(line) => line,
            Self::Shared(line) => line,
        }
    }
}

impl<'l, L: Line> Turn<'l, L> {
    pub(crate) fn new(line: &'l L, granted: Granted<L::Charge>, seat: Option<Seat<'l>>) -> Self {
        Self { line: Held::Borrowed(line), granted, waits: seat.map(Seat::hold).is_some() }
    }

    /// The same place, which keeps its line alive.
    pub(crate) fn into_owned(mut self, line: &Arc<L>) -> Turn<'static, L>
    where
        L: 'static,
    {
        let Granted { charge, start, decision } = &mut self.granted;
        let granted = Granted { charge: charge.take(), start: *start, decision: *decision };
        let waits = mem::take(&mut self.waits);
        Turn { line: Held::Shared(Arc::clone(line)), granted, waits }
    }

    /// When the holder may start, on the scale of the line's clock.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.granted.start
    }

    /// How long from now until [`Turn::start`]; zero when it has come. Reads the clock.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.start().since(self.line.line().line_clock().now())
    }

    /// The answer when the place was taken: allowed, with what was left after it and how long until all that
    /// is charged has drained.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.granted.decision
    }

    /// Sleeps until the start has come. Dropping the future gives up the place.
    pub async fn wait_on<T: Timer>(self, timer: &T) -> Decision {
        sleep_until(self.line.line().line_clock(), timer, self.start()).await;
        self.keep()
    }

    /// Blocks the thread until the start has come.
    #[cfg(feature = "std")]
    pub fn block(self) -> Decision {
        block_until(self.line.line().line_clock(), self.start());
        self.keep()
    }

    /// Keeps the charge without waiting: for who schedules the start itself. The caller no longer counts
    /// as waiting.
    pub fn keep(mut self) -> Decision {
        self.granted.charge = None;
        self.granted.decision
    }

    /// Gives up the place, as dropping does; whether the charge was taken back. It is not when others
    /// have been charged since, when it has drained, and when nothing was charged. O(1), lock-free.
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
        // First, since the clock may panic when it is asked for the rest.
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
