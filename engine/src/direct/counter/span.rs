//! Sub-windows of time, and words that hold the index of one.

use core::time::Duration;

use crate::time::Timestamp;

use super::CounterError;

/// Later readings are clamped to this one: 2^61 ns, 73 years. Nothing expires from then on.
const HORIZON: u64 = 1 << 61;

/// Bits of a word for the state of a head.
const STATUS_BITS: u32 = 2;

/// How time is divided into sub-windows. Indices start at 1; 0 is none. Time starts one window
/// before the clock's origin, so that units charged before a restart that still count have a
/// sub-window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Nanoseconds per sub-window.
    width: u64,
    /// Sub-windows per window.
    count: u64,
    /// Nanoseconds per window: all sub-windows together.
    window: u64,
    /// Bits of a word for units.
    unit_bits: u32,
}

/// The contents of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellWord {
    /// The index of a sub-window.
    pub(super) index: u64,
    pub(super) units: u64,
    pub(super) status: Status,
}

/// The state of a head; any other word is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Units may be added.
    Open = 0,
    /// The sub-window is over: no units are added, and the next one must be begun.
    Sealed = 1,
    /// Everything before is void: the cells must be emptied.
    Resetting = 2,
}

impl Span {
    /// `count` sub-windows of `window` nanoseconds in total, rounded up by less than `count`
    /// nanoseconds.
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

    /// The first sub-window whose units count for `left` (at least 1) from `now` on, or that of
    /// `now` if it is earlier: a later one would make other units expire too early.
    pub(super) fn index_lasting(self, left: u64, now: u64) -> u64 {
        self.index((now.saturating_add(left) - 1 - self.window).min(now))
    }

    /// The start of a sub-window.
    pub(super) fn begin(self, index: u64) -> u64 {
        (index - 1) * self.width
    }

    /// The sub-window that contains an instant.
    #[inline]
    pub(super) fn index(self, now: u64) -> u64 {
        now / self.width + 1
    }

    /// Whether a sub-window has ended. A multiplication where `index` needs a division.
    #[inline]
    pub(super) fn is_over(self, index: u64, now: u64) -> bool {
        now >= index * self.width
    }

    /// The first sub-window that counts at `index`.
    #[inline]
    pub(super) fn oldest(self, index: u64) -> u64 {
        index.saturating_sub(self.count)
    }

    /// How long after `now` units charged in `index` expire.
    #[inline]
    pub(super) fn expires_after(self, index: u64, now: u64) -> u64 {
        (index * self.width + self.window).saturating_sub(now)
    }

    /// All sub-windows together.
    pub(super) fn window(self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// The longest time a unit counts: from the start of its sub-window.
    pub(super) fn longest(self) -> Duration {
        Duration::from_nanos(self.window + self.width)
    }

    #[inline]
    pub(super) fn pack(self, word: CellWord) -> u64 {
        ((word.index << self.unit_bits | word.units) << STATUS_BITS) | word.status as u64
    }

    #[inline]
    pub(super) fn unpack(self, bits: u64) -> CellWord {
        let status = match bits & ((1 << STATUS_BITS) - 1) {
            0 => Status::Open,
            1 => Status::Sealed,
            _ => Status::Resetting,
        };
        let rest = bits >> STATUS_BITS;
        CellWord { index: rest >> self.unit_bits, units: rest & self.most_units(), status }
    }
}

impl CellWord {
    #[inline]
    pub(super) fn open(index: u64, units: u64) -> Self {
        Self { index, units, status: Status::Open }
    }
}
