//! Sub-windows of time, and words that name one.

use core::time::Duration;

use crate::clock::Timestamp;

use super::CounterError;

/// Readings beyond this are taken for this one: 2^61 ns, 73 years. Nothing expires then.
const HORIZON: u64 = 1 << 61;

/// Bits of a word that say in which state a head is.
const STATUS_BITS: u32 = 2;

/// How time is cut into sub-windows. They are numbered from 1; 0 names none. Time begins a window before the clock's origin, so
/// that what was charged before a restart and still counts has a sub-window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Nanoseconds a sub-window.
    width: u64,
    /// Sub-windows a window.
    count: u64,
    /// Nanoseconds a window: all sub-windows together.
    window: u64,
    /// Bits of a word that count units.
    unit_bits: u32,
}

/// What a word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// A sub-window.
    pub(super) index: u64,
    pub(super) units: u64,
    pub(super) status: Status,
}

/// What may be done with a head; any other word is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Units may be added.
    Open = 0,
    /// The sub-window is over: no units are added, and the next one is to be begun.
    Sealed = 1,
    /// Everything before is void: the cells are to be emptied.
    Resetting = 2,
}

impl Span {
    /// `count` sub-windows of `window` nanoseconds in all, or up to `count` nanoseconds more.
    pub(super) fn new(limit: u64, window: u64, count: u64) -> Result<Self, CounterError> {
        let width = window.div_ceil(count);
        let window = width * count;
        let last = HORIZON / width + count + 1;
        let unit_bits = last.leading_zeros() - STATUS_BITS;
        let span = Self { width, count, window, unit_bits };
        let max = span.most_units();
        if limit > max { Err(CounterError::LimitTooHigh { max }) } else { Ok(span) }
    }

    /// The most units a word can hold.
    pub(super) fn most_units(self) -> u64 {
        (1 << self.unit_bits) - 1
    }

    pub(super) fn count(self) -> u64 {
        self.count
    }

    #[inline]
    pub(super) fn instant(self, now: Timestamp) -> u64 {
        now.as_nanos().min(HORIZON) + self.window
    }

    /// The first sub-window whose units count for `left`, at least 1, from `now` on, or that of `now` if it is earlier:
    /// a later one would expire others too early.
    pub(super) fn index_lasting(self, left: u64, now: u64) -> u64 {
        self.index((now.saturating_add(left) - 1 - self.window).min(now))
    }

    /// When a sub-window begins.
    pub(super) fn begin(self, index: u64) -> u64 {
        (index - 1) * self.width
    }

    /// The sub-window in which an instant lies.
    #[inline]
    pub(super) fn index(self, now: u64) -> u64 {
        now / self.width + 1
    }

    /// Whether a sub-window has ended. Multiplies where `index` would divide.
    #[inline]
    pub(super) fn is_over(self, index: u64, now: u64) -> bool {
        now >= index * self.width
    }

    /// The first sub-window of those that count at `index`.
    #[inline]
    pub(super) fn oldest(self, index: u64) -> u64 {
        index.saturating_sub(self.count)
    }

    /// How long after `now` what was charged in `index` stops to count.
    #[inline]
    pub(super) fn expires_after(self, index: u64, now: u64) -> u64 {
        (index * self.width + self.window).saturating_sub(now)
    }

    /// All sub-windows together.
    pub(super) fn window(self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// The longest that a unit counts: from the begin of its sub-window.
    pub(super) fn longest(self) -> Duration {
        Duration::from_nanos(self.window + self.width)
    }

    #[inline]
    pub(super) fn pack(self, word: Word) -> u64 {
        ((word.index << self.unit_bits | word.units) << STATUS_BITS) | word.status as u64
    }

    #[inline]
    pub(super) fn unpack(self, bits: u64) -> Word {
        let status = match bits & ((1 << STATUS_BITS) - 1) {
            0 => Status::Open,
            1 => Status::Sealed,
            _ => Status::Resetting,
        };
        let rest = bits >> STATUS_BITS;
        Word { index: rest >> self.unit_bits, units: rest & self.most_units(), status }
    }
}

impl Word {
    #[inline]
    pub(super) fn open(index: u64, units: u64) -> Self {
        Self { index, units, status: Status::Open }
    }
}
