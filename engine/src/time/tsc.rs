//! The time-stamp counter, checked against the operating system's clock.

mod checked;
mod hardware;
#[cfg(all(test, loom))]
mod models;

use crate::time::{Clock, Timestamp};

use checked::Checked;
use hardware::Hardware;

/// The processor's time-stamp counter, scaled to nanoseconds by `quanta`; the operating system's
/// monotonic clock where the counter cannot be trusted. The origin is the clock's creation, and a
/// clone shares it.
///
/// The counter is not trusted where the processor does not promise a constant rate, or where the
/// Linux kernel has rejected it. A trusted one is compared with the operating system's clock
/// (`CLOCK_MONOTONIC_RAW` on Linux, which is never slewed) before it returns a reading that is
/// before the last comparison or at least 2^27 ns (134 ms) after it. After a step of more than 1
/// ms, or a drift of more than 500 parts in a million since the last comparison or since the
/// creation, this clock and its clones use the operating system's clock for good
/// ([`TscClock::is_fallback`]). The causes are a counter that steps, pauses, differs between
/// processors or was calibrated badly, or one that goes on while the machine is suspended, which
/// the other clock does not.
///
/// * A step forward is found before any reading beyond the next comparison is returned, so no
///   reading is more than 134 ms ahead of true time.
/// * The fallback continues where the counter was at the last comparison, or later where the
///   counter was ahead. It is never before a reading returned before the comparison failed, unless
///   the counter itself had gone back, or another processor's was ahead.
/// * Between comparisons readings are the counter's, so where counters of processors differ, a
///   reading can be before a previous one. A difference of up to 1 ms, and 500 parts in a million
///   of the time since the last comparison, is tolerated for good. A processor that is further
///   behind is believed until it reads a time before the last comparison. So no reading is more
///   than 2^27 ns and 1 ms (135.3 ms) before a previous one. What a limiter may then admit beyond
///   its guarantee is what [`Limiter::check_at`](crate::Limiter::check_at) says of readings that
///   differ by `d`.
#[derive(Clone, Debug)]
pub struct TscClock {
    checked: Checked<Hardware>,
}

impl TscClock {
    /// A clock whose origin is this moment. The first one in a process calibrates the counter,
    /// which takes up to 200 ms, and reads which clock sources the Linux kernel accepts; later ones
    /// cost a few counter reads.
    #[must_use]
    pub fn new() -> Self {
        let source = Hardware::new();
        let rate = source.rate();
        Self { checked: Checked::new(source, rate) }
    }

    /// Whether the operating system's clock is used in place of the counter, about 20 ns a reading
    /// slower.
    #[must_use]
    pub fn is_fallback(&self) -> bool {
        self.checked.is_fallback()
    }
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.checked.now())
    }
}
