//! Where `now` comes from.

use core::time::Duration;

use crate::sync::{Arc, AtomicU64, Ordering};

/// A point in time: nanoseconds since the origin of one clock.
///
/// Timestamps of different clocks must not be mixed on one limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);

    /// `nanos` nanoseconds after the origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point plus `duration`, at most the last one that can be expressed.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(duration)))
    }

    /// This point less `duration`, at least the origin.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(duration)))
    }

    /// The time since `earlier`; zero when `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Whole nanoseconds, at most 2^64 - 1.
pub(crate) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A source of time.
///
/// A reading that is earlier than a previous one mints nothing on a key that is remembered: a limiter only ever lets time
/// move a key forward. It may deny what a steady clock would have allowed.
///
/// A key whose debt has drained may be forgotten, though, and its place be given to another key. Where readings differ by
/// `d`, a thread that is behind may then admit such a key up to `rate * d` beyond the guarantee, or, under a rule that counts in
/// windows, the limit once more: see [`Limiter::check_at`](crate::Limiter::check_at). Limits without keys forget nothing; the
/// counters say what `d` does to their windows.
pub trait Clock {
    /// A hint for speed, on which no decision depends: whether reading the clock waits for memory that was asked for before,
    /// as reading a processor's counter does. `true` unless set. With `false`, for a clock that is a plain load, a
    /// limiter arranges a check so that several in a row can wait for memory at the same time.
    const STALLS: bool = true;

    /// The time now.
    fn now(&self) -> Timestamp;
}

impl<C: Clock> Clock for &C {
    const STALLS: bool = C::STALLS;

    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The clock of a limiter that was given none: [`TscClock`](crate::TscClock). Without the feature `std` there is no operating
/// system to ask, and this is another type, of which there is no value: `Limiter` names a type in every build, but only a
/// limiter on a [`ManualClock`] or a clock of yours can be made.
#[cfg(feature = "std")]
pub type DefaultClock = crate::tsc::TscClock;

/// The clock of a limiter that was given none: a type of which there is no value, since without the feature `std` there is no
/// operating system to ask. `Limiter` names a type in every build, but only a limiter on a [`ManualClock`] or a clock of
/// yours can be made; with `std` this is `TscClock`.
#[cfg(not(feature = "std"))]
#[derive(Clone, Debug)]
pub struct DefaultClock(core::convert::Infallible);

#[cfg(not(feature = "std"))]
impl Clock for DefaultClock {
    fn now(&self) -> Timestamp {
        match self.0 {}
    }
}

/// A clock that moves only when told to, for tests and simulations. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward, at most to the last point that can be expressed.
    pub fn advance(&self, duration: Duration) {
        // Relaxed: the time guards no other memory.
        let mut seen = self.nanos.load(Ordering::Relaxed);
        loop {
            let later = seen.saturating_add(saturating_nanos(duration));
            match self.nanos.compare_exchange(seen, later, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    /// Sets the clock to any point, also an earlier one.
    pub fn set(&self, now: Timestamp) {
        // Relaxed: the time guards no other memory.
        self.nanos.store(now.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        // Relaxed: the time guards no other memory.
        Timestamp(self.nanos.load(Ordering::Relaxed))
    }
}
