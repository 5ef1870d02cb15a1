//! Two counts a key: the algorithm of the sliding-window counter.
//!
//! ```text
//! value (59)   window | count of the window | count of the window before
//! ```
//!
//! The previous window's count weighs as much as of that window is still within one length of
//! `now`, as if what was admitted then had been spread evenly: at `elapsed` into a window of length
//! L the *estimate* is `current + previous * (L - elapsed) / L`. A cost is admitted if the sum of
//! estimate and cost is at most the limit. Both sides are compared times L, in 128 bits, so nothing
//! is rounded.
//!
//! The estimate of an idle key never rises, also from one window to the next: what was current
//! weighs whole at first. So the first instant at which a cost fits is where a falling line crosses
//! the limit less the cost, in this window or in the next one.
//!
//! The estimate is that of "How we built rate limiting capable of scaling to millions of domains"
//! (Cloudflare, 2017).

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::word::{State, Update};
use crate::rule::algorithm::{Algorithm, Saves};
use crate::rule::quota::QuotaError;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

use super::{Even, Periods, count_bits, full, instant, largest};

/// A limit on an estimate of what was admitted within one length before now.
#[derive(Clone, Copy, Debug)]
pub struct Sliding {
    windows: Even,
    limit: u64,
    /// Bits of each count.
    bits: u32,
}

/// What a key has been charged in a window and in the one before.
#[derive(Clone, Copy)]
struct WindowCounts {
    window: u64,
    current: u64,
    previous: u64,
}

impl Sliding {
    pub(super) fn new(windows: Even, limit: u64) -> Result<Self, QuotaError> {
        Ok(Self { windows, limit, bits: count_bits(&windows, limit, 2)? })
    }

    #[inline]
    fn unpack(&self, value: u64) -> WindowCounts {
        WindowCounts {
            window: value >> (2 * self.bits),
            current: (value >> self.bits) & largest(self.bits),
            previous: value & largest(self.bits),
        }
    }

    #[inline]
    fn pack(&self, WindowCounts { window, current, previous }: WindowCounts) -> u64 {
        (((window << self.bits) | current) << self.bits) | previous
    }

    /// The window and counts in force at `now`.
    #[inline]
    fn counts(&self, value: u64, now: u64) -> WindowCounts {
        let counts = self.unpack(value);
        let end = self.windows.end(counts.window);
        if end > now {
            return counts;
        }
        if now - end < self.windows.length {
            return WindowCounts {
                window: counts.window + 1,
                current: 0,
                previous: counts.current,
            };
        }
        WindowCounts { window: self.windows.at(now), current: 0, previous: 0 }
    }

    /// How much of the window is left at `now`, in nanoseconds: all of it before it begins.
    #[inline]
    fn left(&self, counts: WindowCounts, now: u64) -> u64 {
        (self.windows.end(counts.window) - now).min(self.windows.length)
    }

    /// Whether `cost`, at most the limit, fits at `now`.
    #[inline]
    fn fits(&self, counts: WindowCounts, now: u64, cost: u64) -> bool {
        let Some(room) = (self.limit - cost).checked_sub(counts.current) else { return false };
        // A count that fits whole need not be weighted.
        counts.previous <= room
            || u128::from(counts.previous) * u128::from(self.left(counts, now))
                <= u128::from(room) * u128::from(self.windows.length)
    }

    /// Units that fit at `now`.
    #[inline]
    fn remaining(&self, counts: WindowCounts, now: u64) -> u64 {
        let weighed = if counts.previous == 0 {
            0
        } else {
            // At most the count, because at most the length is left.
            (u128::from(counts.previous) * u128::from(self.left(counts, now)))
                .div_ceil(u128::from(self.windows.length)) as u64
        };
        self.limit.saturating_sub(counts.current + weighed)
    }

    /// The time from `now` until `cost`, at most the limit, fits if nothing else is admitted; it
    /// does not fit at `now`.
    fn wait(&self, counts: WindowCounts, now: u64, cost: u64) -> u64 {
        let end = self.windows.end(counts.window);
        let room = self.limit - cost;
        let fits_from = match room.checked_sub(counts.current) {
            Some(left) => end - self.bearable(counts.previous, left),
            None => end + self.windows.length - self.bearable(counts.current, room),
        };
        fits_from - now
    }

    /// How much of a window may be left for the previous count to weigh at most `room`, in
    /// nanoseconds.
    fn bearable(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return self.windows.length;
        }
        // Below the length, because the room is less than the count.
        (u128::from(room) * u128::from(self.windows.length) / u128::from(count)) as u64
    }

    /// The answer to a peek, or to a check that was denied.
    fn unchanged(&self, value: u64, now: u64, cost: u64) -> Decision {
        let counts = self.counts(value, now);
        let remaining = self.remaining(counts, now);
        let reset = self.fresh_from(value).saturating_sub(now);
        if cost > self.limit {
            return Decision::never(self.limit, remaining, reset);
        }
        if cost == 0 && self.fits(counts, now, 0) {
            return Decision::allowed(self.limit, remaining, reset);
        }
        Decision::denied(self.limit, remaining, self.wait(counts, now, cost), reset)
    }
}

impl State for Sliding {
    /// A count expires when the window after its own ends. A key without one is fresh from its
    /// window's beginning.
    #[inline]
    fn fresh_from(&self, value: u64) -> u64 {
        let WindowCounts { window, current, previous } = self.unpack(value);
        if current > 0 {
            self.windows.end(window + 1)
        } else if previous > 0 {
            self.windows.end(window)
        } else {
            self.windows.start(window)
        }
    }
}

impl Algorithm for Sliding {
    type State = Self;

    fn state(&self) -> Self {
        *self
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        instant(now)
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        // A cost above the limit never fits.
        if cost > self.limit {
            return None;
        }
        let counts = self.counts(value, now);
        let charged = WindowCounts { current: counts.current + cost, ..counts };
        self.fits(counts, now, cost).then(|| self.pack(charged))
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let counts = self.counts(value, now);
        let current = counts.current.saturating_add(cost).min(largest(self.bits));
        (current > counts.current).then(|| self.pack(WindowCounts { current, ..counts }))
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let counts = self.counts(value, now);
        let current = counts.current.saturating_sub(cost);
        let rest = cost - (counts.current - current);
        let previous = counts.previous.saturating_sub(rest);
        let lowered = current < counts.current || previous < counts.previous;
        lowered.then(|| self.pack(WindowCounts { current, previous, ..counts }))
    }

    /// The charge counts in its window, and with that window's weight in the next one.
    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        let counts = self.counts(value, now);
        let charged = self.unpack(charged).window;
        let lowered = if counts.window == charged {
            WindowCounts { current: counts.current.saturating_sub(cost), ..counts }
        } else if counts.window == charged + 1 {
            WindowCounts { previous: counts.previous.saturating_sub(cost), ..counts }
        } else {
            return None;
        };
        let lowers = lowered.current < counts.current || lowered.previous < counts.previous;
        lowers.then(|| self.pack(lowered))
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        let fresh = WindowCounts { window: self.windows.at(now), current: 0, previous: 0 };
        (self.fresh_from(value) > now).then(|| self.pack(fresh))
    }

    #[inline]
    fn can_fit(&self, cost: u64) -> bool {
        cost <= self.limit
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        match update {
            Update::Written { before, now } => {
                let counts = self.counts(before, now);
                let counts = WindowCounts { current: counts.current + cost, ..counts };
                let reset = self.windows.end(counts.window + 1) - now;
                Decision::allowed(self.limit, self.remaining(counts, now), reset)
            }
            Update::Unchanged { found, now } => self.unchanged(found, now, cost),
            Update::Full { fresh_from, now, admitted } => {
                full(self.limit, fresh_from - now, admitted)
            }
        }
    }
}

impl Saves for Sliding {
    fn kind(&self) -> SnapshotKind {
        SnapshotKind::SlidingWindows(self.windows.length())
    }

    fn save(&self, value: u64, now: Timestamp) -> Option<SavedState> {
        let now = instant(now);
        let WindowCounts { window, current, previous } = self.counts(value, now);
        let left = Duration::from_nanos(self.windows.end(window) - now);
        (current > 0 || previous > 0).then_some(SavedState::Window { left, current, previous })
    }

    /// May be the value of a window that is over, if its count still weighs in the next one.
    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64> {
        let SavedState::Window { left, current, previous } = state else { return None };
        let Some(window) = self.windows.ending(left, downtime, instant(now)) else {
            return Some(0);
        };
        let most = largest(self.bits);
        let (current, previous) = (current.min(most), previous.min(most));
        Some(self.pack(WindowCounts { window, current, previous }))
    }

    /// The join of both values: the later window, and the least counts there whose estimate is
    /// below neither's, at its beginning and at its end and so between them. Before it begins the
    /// estimate is that of its beginning.
    fn raise(&self, value: u64, now: u64, to: u64) -> Option<u64> {
        let (counts, to) = (self.counts(value, now), self.counts(to, now));
        let window = counts.window.max(to.window);
        let at_beginning = |counts: WindowCounts| counts.current + counts.previous;
        let at_end =
            |counts: WindowCounts| if counts.window == window { counts.current } else { 0 };
        let current = at_end(counts).max(at_end(to));
        let estimate = at_beginning(counts).max(at_beginning(to));
        let previous = (estimate - current).min(largest(self.bits));
        let raised = self.pack(WindowCounts { window, current, previous });
        (at_beginning(to) > 0 && raised != self.pack(counts)).then_some(raised)
    }
}
