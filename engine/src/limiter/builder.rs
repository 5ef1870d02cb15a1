//! Building a limiter.

use core::fmt;

use crate::base::key::KeyHasher;
use crate::base::source::Source;
use crate::contract::observer::Observer;
use crate::contract::wait::{DEFAULT_MAX_WAITERS, Waiters};
use crate::direct::counter::CounterError;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::quota::{Quota, QuotaError};
use crate::rule::{DebtRule, Rule};
use crate::table::Table;
use crate::table::overflow::OverflowPolicy;
#[cfg(feature = "std")]
use crate::time::TscClock;
use crate::time::{Clock, DefaultClock};

use super::mode::Mode;
use super::{Limiter, Parts};

/// Keys that fit at once unless [`LimiterBuilder::capacity`] says otherwise.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

/// The largest capacity, in keys: 2^36, a table of 1.25 TiB; where pointers have 32 bits 2^26, one
/// of 1.25 GiB.
pub const MAX_CAPACITY: usize = 1 << if usize::BITS > 32 { 36 } else { 26 };

/// The choices for a limiter; see [`Limiter::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LimiterBuilder<R = Quota, C = DefaultClock, O = ()> {
    rule: R,
    capacity: usize,
    hasher: Source<KeyHasher>,
    lease_units: u64,
    denied_bursts: u64,
    overflow: OverflowPolicy,
    max_waiters: u64,
    clock: Source<C>,
    observer: O,
}

impl<R: Rule, C: Clock> LimiterBuilder<R, C> {
    fn of(rule: R, clock: Source<C>, hasher: Source<KeyHasher>) -> Self {
        Self {
            rule,
            capacity: DEFAULT_CAPACITY,
            hasher,
            lease_units: 0,
            denied_bursts: 0,
            overflow: OverflowPolicy::default(),
            max_waiters: DEFAULT_MAX_WAITERS,
            clock,
            observer: (),
        }
    }
}

impl Limiter {
    /// A limiter that enforces `rule` on up to [`DEFAULT_CAPACITY`] keys, with the defaults of
    /// [`Limiter::builder`]. O(capacity), as [`LimiterBuilder::build`]. Blocks for up to 200 ms if
    /// it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// When the rule cannot be enforced, or the memory cannot be allocated.
    #[cfg(feature = "std")]
    pub fn new<R: Rule>(rule: R) -> Result<Limiter<R>, BuildError> {
        Self::builder(rule).build()
    }

    /// Starts building a limiter that enforces `rule`, on the time-stamp counter unless another
    /// clock is set.
    #[cfg(feature = "std")]
    pub fn builder<R: Rule>(rule: R) -> LimiterBuilder<R> {
        LimiterBuilder::of(rule, Source::Made(TscClock::new), Source::Made(KeyHasher::random))
    }

    /// Starts building a limiter with a clock and a hasher of the caller, without an operating
    /// system. A client that can choose keys must not be able to guess the seed of the hasher.
    ///
    /// ```
    /// use tidegate_engine::{KeyHasher, Limiter, ManualClock, Quota};
    ///
    /// let (clock, hasher) = (ManualClock::new(), KeyHasher::rapid(0x5eed));
    /// let limiter = Limiter::builder_with(Quota::per_second(1), clock, hasher).build()?;
    /// assert!(limiter.check("user:42").is_allowed());
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    pub fn builder_with<R: Rule, C: Clock>(
        rule: R,
        clock: C,
        hasher: KeyHasher,
    ) -> LimiterBuilder<R, C> {
        LimiterBuilder::of(rule, Source::Given(clock), Source::Given(hasher))
    }
}

impl<R: Rule, C: Clock, O: Observer> LimiterBuilder<R, C, O> {
    /// How many keys fit at once, from 1 to [`MAX_CAPACITY`]; [`DEFAULT_CAPACITY`] unless set. A
    /// key takes 20 bytes at this fill, and below 8 730 keys 30; from there to 13 107 keys all take
    /// 256 KiB. The limiter itself takes 4 KiB, and leases (`lease_units`) 4 KiB for each thread
    /// that can run at once, at most 256 KiB; memory that no key has touched is only reserved. So a
    /// limiter for each route or tenant is cheap: one for 64 keys takes 6 KiB, and microseconds to
    /// build.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys, ..self }
    }

    /// The hasher of keys; rapidhash under a random seed unless set. Limiters that exchange
    /// [`KeyHash`](crate::KeyHash)es need the same hasher.
    pub fn hasher(self, hasher: KeyHasher) -> Self {
        Self { hasher: Source::Given(hasher), ..self }
    }

    /// What happens when a key finds no slot because too many others have debt;
    /// [`OverflowPolicy::EvictLeastDebt`] unless set.
    pub fn overflow_policy(self, policy: OverflowPolicy) -> Self {
        Self { overflow: policy, ..self }
    }

    /// The clock to read; a new `TscClock` unless set.
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<R, D, O> {
        self.convert(|_, observer| (Source::Given(clock), observer))
    }

    /// The observer of each decision; none unless set.
    pub fn observer<P: Observer>(self, observer: P) -> LimiterBuilder<R, C, P> {
        self.convert(|clock, _| (clock, observer))
    }

    /// The same with an observer that is made of the one that is set: one around it, or a pair.
    pub fn map_observer<P: Observer>(self, map: impl FnOnce(O) -> P) -> LimiterBuilder<R, C, P> {
        self.convert(|clock, observer| (clock, map(observer)))
    }

    /// The same choices with another clock or observer.
    fn convert<D, P>(
        self,
        exchange: impl FnOnce(Source<C>, O) -> (Source<D>, P),
    ) -> LimiterBuilder<R, D, P> {
        let (clock, observer) = exchange(self.clock, self.observer);
        LimiterBuilder {
            rule: self.rule,
            capacity: self.capacity,
            hasher: self.hasher,
            lease_units: self.lease_units,
            denied_bursts: self.denied_bursts,
            overflow: self.overflow,
            max_waiters: self.max_waiters,
            clock,
            observer,
        }
    }

    /// Builds the limiter: the only step that allocates. O(capacity), most of it in the operating
    /// system, which supplies zeroed pages as keys arrive. On the default clock it blocks for up to
    /// 200 ms if it makes the first `TscClock` of the process.
    ///
    /// # Errors
    /// When the rule cannot be enforced, the capacity is out of range, both leases and charged
    /// denials are configured, or the memory cannot be allocated.
    pub fn build(self) -> Result<Limiter<R, C, O>, BuildError> {
        if self.capacity == 0 || self.capacity > MAX_CAPACITY {
            return Err(BuildError::Capacity);
        }
        if self.lease_units > 0 && self.denied_bursts > 0 {
            return Err(BuildError::LeasesWithChargeDenied);
        }
        // What threads use of a lease would be known only to them.
        let lease_units = if self.observer.observes_debt() { 0 } else { self.lease_units };
        let clock = self.clock.get();
        let rule = self.rule.anchor(clock.now());
        let algorithm = rule.algorithm()?;
        let table = Table::new(self.capacity, algorithm.state()).ok_or(BuildError::OutOfMemory)?;
        Ok(Limiter::from_parts(Parts {
            rule,
            hasher: self.hasher.get(),
            clock,
            table: table.with_policy(self.overflow),
            mode: Mode::new::<R>(&algorithm, self.denied_bursts, lease_units),
            algorithm,
            observer: self.observer,
            waiters: Waiters::new(self.max_waiters),
        }))
    }
}

impl<R: DebtRule, C: Clock, O: Observer> LimiterBuilder<R, C, O> {
    /// Charges denied checks too, so that a client that keeps retrying stays banned. `bursts` is
    /// how many full bursts of debt this can add beyond the burst of a key; 0, the default, leaves
    /// denied checks free. A [`DirectLimiter`](crate::DirectLimiter) has no such choice. Needs a
    /// [debt rule](crate::rule::DebtRule).
    ///
    /// A denied check adds its cost to the debt of the key, in the same step that denies it, until
    /// the debt is `bursts` bursts beyond the burst, or
    /// [`MAX_BURST_TOLERANCE`](crate::rule::MAX_BURST_TOLERANCE). A key that is checked faster than
    /// its rate is never admitted again; one that is left alone is admitted after at most the time
    /// in which `bursts` bursts and the cost are granted. `retry_after` includes what the denial
    /// itself was charged. A cost above the burst never fits and is not charged.
    ///
    /// The price: a denial writes to the word of its key, so denied traffic on one key no longer
    /// scales with cores. Together with [`LimiterBuilder::lease_units`] it is an error. Checks
    /// under a quota given with the call are charged in the same way, by the bursts of that quota.
    ///
    /// A denied reservation is charged in the same way. In a [`LimitSet`](crate::LimitSet), and in
    /// a layer of the feature `tower`, each limit that has no room itself charges the denial; those
    /// that have room charge nothing. Waiting calls are not charged for a denial:
    /// [`Limiter::acquire`](crate::Limiter::acquire) and its variants state how long they would
    /// have waited, and the `retry_after` of a denial is the time until the same call is accepted.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::{Limiter, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let builder = Limiter::builder(Quota::per_second(1)).charge_denied(2);
    /// let limiter = builder.clock(clock.clone()).build()?;
    /// assert!(limiter.check("login:42").is_allowed());
    /// for _ in 0..10 {
    ///     assert!(!limiter.check("login:42").is_allowed());
    ///     clock.advance(Duration::from_millis(500));
    /// }
    /// let wait = limiter.check("login:42").retry_after();
    /// assert_eq!(wait, Some(Duration::from_secs(3)));
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    #[doc(alias = "ban")]
    #[doc(alias = "debounce")]
    #[doc(alias = "penalty")]
    pub fn charge_denied(self, bursts: u64) -> Self {
        Self { denied_bursts: bursts, ..self }
    }

    /// How many callers may wait in [`Limiter::acquire`] and its variants at once, over all keys;
    /// [`DEFAULT_MAX_WAITERS`](crate::wait::DEFAULT_MAX_WAITERS) unless set. Further callers are
    /// denied at once. With 0 no caller waits. Needs a [debt rule](crate::rule::DebtRule).
    pub fn max_waiters(self, count: u64) -> Self {
        Self { max_waiters: count, ..self }
    }
}

#[cfg(feature = "std")]
impl<C: Clock, O: Observer> LimiterBuilder<Quota, C, O> {
    /// Lets threads lease up to `units` of a hot key at once and use them one by one, so that
    /// admissions on one key scale with cores; at most
    /// [`MAX_LEASE_UNITS`](crate::limiter::MAX_LEASE_UNITS), and 0, no leases, unless set. Together
    /// with [`charge_denied`](Self::charge_denied) they are an error. With several hundred units,
    /// threads that check one key at the same time rarely collide. A key is hot after a thread has
    /// been admitted on it at least 64 times. Needs a [`Quota`] as the rule.
    ///
    /// Only [`Limiter::check`], `check_n`, `check_at`, `check_many` and `check_many_n` use leases.
    /// [`Limiter::check_with_headroom`], reservations, sets ([`LimitSet`](crate::LimitSet)),
    /// `acquire` and its variants, [`Limiter::with_quota`] and the layers of the feature `tower` do
    /// not: they use the word of the key, in which leased units count as taken.
    ///
    /// All leases of a key together are at most 1/16 of its burst, and in addition each thread
    /// caches at most 1/4 of the largest lease and at most 31 units. The share of one thread
    /// follows from that and from the number of threads that run at once; where it is below 4 units
    /// there are no leases: [`Limiter::lease_units`] returns the result. An observer of debt
    /// ([`Observer::observes_debt`]) rules them out.
    ///
    /// Every other check then also reads the part of its thread in 4 KiB, which makes a check of a
    /// cold or denied key slower by roughly a fifth. Use leases for limits with keys that several
    /// threads check millions of times a second.
    ///
    /// # What changes for callers
    /// * The bound on what is admitted stays exact, except for the last two points. Leased units
    ///   drain with the time they were charged for, and a unit that has begun to drain is not used.
    /// * A cost of 1 is not denied while an idle thread has leased units of the key that have not
    ///   drained, with three exceptions: that thread is just taking them, a refund is in progress,
    ///   or they are in its thread-local cache. The cache holds at most 31 units and at most a
    ///   quarter of the largest lease, taken out of a lease to be used without an atomic step; they
    ///   are lost when the thread ends. A higher cost is paid as a whole by the word or by one
    ///   lease, so it can be denied while up to 1/16 of the burst is leased in parts, or units are
    ///   cached.
    /// * Units that drain unused in a lease are lost, and those that a thread is taking or
    ///   returning while another one refunds or resets: about 1/16 of what is admitted, at worst
    ///   1/8, on keys whose threads keep changing or are idle for as long as a lease takes to
    ///   drain. In addition at most 1/32 of what a thread uses is lost from its cache, when it ends
    ///   or idles, or when another thread gives units of the key back. A thread that is alone loses
    ///   nothing by its refunds.
    /// * `remaining` counts what other threads have leased as taken, and `reset_after` counts
    ///   leased units as used. Both describe the word of the key at a moment during the call. Where
    ///   remote debt has taken the word beyond the burst, [`Limiter::peek`] reports that and leaves
    ///   out the lease of the calling thread, from which a check may still be admitted.
    /// * [`Limiter::with_quota`], [`Limiter::check_up_to`], [`Limiter::check_with_headroom`] and
    ///   charges of debt use the word only; so does [`Limiter::live`], which counts leased units as
    ///   debt. A charge of debt does not revoke leased units.
    /// * When a key is evicted, its leases are void until the new word has grown past them; what is
    ///   used of them after that comes on top of what the word admits.
    /// * A refund, or what a reservation gives back, ends the leases that were charged last,
    ///   whatever thread's they are, and returns what is left of them as well; a reset ends all.
    ///   Until such a call has returned, however long its thread is stopped, units that were leased
    ///   before it can come on top of what the word admits, as long as they have not drained.
    pub fn lease_units(self, units: u64) -> Self {
        Self { lease_units: units, ..self }
    }
}

/// Why a limiter cannot be built. The errors of limits without keys convert into it, so a function
/// that builds limits of several kinds can return it.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::counter::SubWindowCounter;
/// use tidegate_engine::{BuildError, DirectLimiter, Limiter, Quota};
///
/// fn limits() -> Result<(Limiter, DirectLimiter, SubWindowCounter), BuildError> {
///     let per_user = Limiter::new(Quota::per_second(50))?;
///     let in_all = DirectLimiter::new(Quota::per_second(10_000))?;
///     let per_day = SubWindowCounter::new(1_000_000, Duration::from_secs(86_400))?;
///     Ok((per_user, in_all, per_day))
/// }
/// # limits()?;
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The quota, or another rule, cannot be enforced.
    Quota(QuotaError),
    /// The counter or the log cannot be built.
    Counter(CounterError),
    /// The capacity is 0 or above [`MAX_CAPACITY`].
    Capacity,
    /// Both `lease_units` and [`charge_denied`](LimiterBuilder::charge_denied) are set; a limiter
    /// supports one of them.
    LeasesWithChargeDenied,
    /// The table's memory could not be allocated.
    OutOfMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(error) => write!(f, "quota: {error}"),
            Self::Counter(error) => write!(f, "counter: {error}"),
            Self::Capacity => {
                write!(f, "capacity must be from 1 to {MAX_CAPACITY} keys: change `capacity`")
            }
            Self::LeasesWithChargeDenied => f.write_str(
                "a limiter has leases or charges denied checks: leave out `lease_units` or \
                 `charge_denied`",
            ),
            Self::OutOfMemory => {
                f.write_str("the table's memory could not be allocated: lower `capacity`")
            }
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Quota(error) => Some(error),
            Self::Counter(error) => Some(error),
            Self::Capacity | Self::LeasesWithChargeDenied | Self::OutOfMemory => None,
        }
    }
}

impl From<QuotaError> for BuildError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

impl From<CounterError> for BuildError {
    fn from(error: CounterError) -> Self {
        Self::Counter(error)
    }
}
