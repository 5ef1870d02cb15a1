//! Where `now` comes from.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | T1 time, all accesses | relaxed | none: the time guards no other memory; `advance` loses no step of another by modification order | - | - |

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::base::sync::{Arc, AtomicU64, Ordering};

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
/// A reading earlier than a previous one mints nothing on a key that the limiter remembers: time
/// only moves a key forward. The limiter may deny what a monotonic clock would have allowed.
///
/// A key whose debt has drained may be forgotten, though, and its slot reused. Where readings
/// differ by `d`, a thread that is behind may then admit such a key up to `rate * d` beyond the
/// guarantee, or, under a rule that counts in windows, the limit once more: see
/// [`Limiter::check_at`](crate::Limiter::check_at). Limits without keys forget nothing; the
/// counters document what `d` does to their windows.
///
/// Clocks can be objects: `&C`, `Box<C>` and `Arc<C>` are clocks for every clock `C`, also for
/// `dyn Clock`; see [`SharedClock`].
pub trait Clock {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// A performance hint, on which no decision depends: whether reading the clock waits for
    /// outstanding loads, as reading a processor's counter does. `true` unless overridden. With
    /// `false`, for a clock that is a plain load, a limiter arranges a check so that the cache
    /// misses of consecutive checks overlap.
    ///
    /// It is asked in each check. Where the clock's type is known and the answer is a constant,
    /// that costs nothing.
    #[inline]
    fn waits_for_loads(&self) -> bool {
        true
    }
}

/// A clock of any kind, chosen when a limiter is built: so that a field holds a limiter on the real
/// clock in production, and on a [`ManualClock`] in tests, in a struct without type parameters.
///
/// The price: a check calls the clock through a pointer, once for the reading and, in a
/// [`Limiter`](crate::Limiter), once for [`Clock::waits_for_loads`]: a few nanoseconds, and nothing
/// is inlined across them. Where that is too much, let the struct have a type parameter for the
/// clock with [`DefaultClock`](crate::clock::DefaultClock) as its default.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate_engine::clock::{SharedClock, TscClock};
/// use tidegate_engine::{BuildError, Clock, Limiter, ManualClock, Quota};
///
/// struct Logins {
///     limiter: Limiter<Quota, SharedClock>,
/// }
///
/// impl Logins {
///     /// In production.
///     fn new() -> Result<Self, BuildError> {
///         Self::with_clock(TscClock::new())
///     }
///
///     fn with_clock(clock: impl Clock + Send + Sync + 'static) -> Result<Self, BuildError> {
///         let builder = Limiter::builder(Quota::per_minute(1)).capacity(1_000);
///         Ok(Self { limiter: builder.clock::<SharedClock>(Arc::new(clock)).build()? })
///     }
/// }
///
/// // In a test.
/// let clock = ManualClock::new();
/// let logins = Logins::with_clock(clock.clone())?;
/// assert!(logins.limiter.check("user:42").is_allowed());
/// assert!(!logins.limiter.check("user:42").is_allowed());
/// clock.advance(Duration::from_secs(60));
/// assert!(logins.limiter.check("user:42").is_allowed());
/// # assert!(Logins::new()?.limiter.check("user:42").is_allowed());
/// # Ok::<(), BuildError>(())
/// ```
pub type SharedClock = alloc::sync::Arc<dyn Clock + Send + Sync>;

macro_rules! held_clocks {
    ($($held:ty),*) => {$(
        impl<C: Clock + ?Sized> Clock for $held {
            #[inline]
            fn now(&self) -> Timestamp {
                (**self).now()
            }

            #[inline]
            fn waits_for_loads(&self) -> bool {
                (**self).waits_for_loads()
            }
        }
    )*};
}

held_clocks!(&C, Box<C>, alloc::sync::Arc<C>);

/// So that limits on a [`SharedClock`] can be printed.
impl fmt::Debug for dyn Clock + Send + Sync + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dyn Clock")
    }
}

/// A clock that is moved by hand, for tests and simulations. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward, at most to the last point that can be expressed.
    pub fn advance(&self, duration: Duration) {
        let mut seen = self.nanos.load(Ordering::Relaxed); // T1
        loop {
            let later = seen.saturating_add(saturating_nanos(duration));
            // T1
            match self.nanos.compare_exchange(seen, later, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    /// Sets the clock to any point, including an earlier one.
    pub fn set(&self, now: Timestamp) {
        // T1
        self.nanos.store(now.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        // T1
        Timestamp(self.nanos.load(Ordering::Relaxed))
    }
}
