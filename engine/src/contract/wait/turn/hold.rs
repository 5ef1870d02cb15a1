//! Places that are held while another line, or another limit, is waited for.
//!
//! A charge covers an interval of time, which begins at the start or later. So a start may be put
//! off until that interval begins, and still keeps the quota in every interval of time.

use alloc::boxed::Box;
use core::task::Waker;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::time::{Clock as _, Timestamp};

use super::{Line, Stage, Turn};

/// A request for a place in a line whose start can be put off.
#[derive(Clone, Copy, Debug)]
pub struct JoinRequest {
    /// The start is at most this far away.
    pub(crate) longest: Duration,
    /// The start can be put off until then.
    pub(crate) reach: Duration,
}

/// The result of a [`JoinRequest`].
pub enum JoinResult<'l> {
    /// The limit has no lines.
    NoLine,
    /// A charge would drain before then, and the key has room: there is nothing to wait for yet.
    NotYet,
    Denied(Decision),
    Held(Box<dyn Hold + 'l>),
}

/// A place in a line of any limit. A drop gives it up, also when its start has come.
pub trait Hold: Send {
    /// Reads the start. Until it comes, `waker` is woken when the place has moved up.
    fn watch(&self, waker: &Waker) -> Rest;

    /// Starts, or has started: the charge is kept.
    fn keep(self: Box<Self>) -> Decision;
}

/// A start, and how long it can be put off; in nanoseconds from now on, below 0 for what has been.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    pub(crate) start: i64,
    /// When the charge begins to drain.
    pub(crate) drains: i64,
}

impl Rest {
    /// Of what can be had at any time.
    pub(crate) const NONE: Self = Self { start: i64::MIN, drains: i64::MAX };
}

/// From `now` until a time, in nanoseconds; below 0 for one that has been.
pub(crate) fn until(time: Timestamp, now: Timestamp) -> i64 {
    let until = i128::from(time.as_nanos()) - i128::from(now.as_nanos());
    i64::try_from(until).unwrap_or(if until < 0 { i64::MIN } else { i64::MAX })
}

impl<L: Line> Hold for Turn<'_, L>
where
    Self: Send,
{
    fn watch(&self, waker: &Waker) -> Rest {
        let line = self.line.line();
        let now = line.line_clock().now();
        let (start, drains) = match self.stage {
            Stage::Nothing => return Rest::NONE,
            // Without a place in the list it is unknown how far it has moved up.
            Stage::Started(_) => (self.start, self.start),
            Stage::Waiting(number) => {
                let found = line.wait_lists().watch(self.key, number, now, waker);
                found.unwrap_or((self.start, self.start))
            }
        };
        Rest { start: until(start, now), drains: until(drains, now) }
    }

    fn keep(self: Box<Self>) -> Decision {
        Turn::keep(*self)
    }
}
