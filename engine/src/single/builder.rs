//! Building a limiter without keys.

use core::time::Duration;

use crate::builder::Source;
use crate::clock::{Clock, DefaultClock};
use crate::observer::Observer;
use crate::quota::{Quota, QuotaError};
use crate::rule::{Algorithm as _, Rule};
use crate::sync::AtomicU64;
use crate::table::Update;

use super::Single;
use super::warm_up::WarmUp;

/// What a [`Single`] is to be made of; see [`Single::builder`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_engine::{Quota, Single};
///
/// // Empty at first, and a tenth of the rate that grows to all of it within a minute.
/// let quota = Quota::per_second(1_000).burst(100);
/// let limiter = Single::builder(quota).initial(0).warm_up(Duration::from_secs(60), 10).build()?;
/// assert_eq!(limiter.peek().limit(), 100);
/// # Ok::<(), tidegate_engine::QuotaError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct SingleBuilder<R = Quota, C = DefaultClock, O = ()> {
    rule: R,
    /// Units that fit when the limiter is made, as far as there are so many.
    initial: u64,
    /// How long, and from which percentage of the rate.
    warm_up: (Duration, u8),
    clock: Source<C>,
    observer: O,
}

impl<R: Rule, C: Clock> SingleBuilder<R, C> {
    pub(super) fn of(rule: R, clock: Source<C>) -> Self {
        Self { rule, initial: u64::MAX, warm_up: (Duration::ZERO, 100), clock, observer: () }
    }
}

impl<C: Clock, O: Observer> SingleBuilder<Quota, C, O> {
    /// Lets the rate grow evenly from `percent` of it, when the limiter is made, to all of it after
    /// `duration`, at most [`MAX_WARM_UP`](crate::MAX_WARM_UP); more than 100 percent is 100. No
    /// warm-up unless set.
    ///
    /// `t` after it was made, for `t <= duration`, units are granted at `p + (1 - p) * t / duration` of the
    /// rate, with `p` the share to begin with; so during the whole warm-up `(1 + p) / 2` of what the
    /// quota grants. What is admitted in `[s, t]` is at most the burst and what has been
    /// granted between `s` and `t`, never more than without a warm-up. The burst itself is there at once, unless
    /// [`SingleBuilder::initial`] takes it away. `retry_after` and `reset_after` know of the growing rate.
    /// The nanosecond to which they are rounded up is one of the slowed time: where the rate is a share `s` of the whole, they
    /// can be up to `1 / s` ns longer than needed, never shorter.
    ///
    /// There is one warm-up: idling does not bring it back, nor does [`Single::reset`].
    pub fn warm_up(self, duration: Duration, percent: u8) -> Self {
        Self { warm_up: (duration, percent), ..self }
    }
}

impl<R: Rule, C: Clock, O: Observer> SingleBuilder<R, C, O> {
    /// How many units fit when the limiter is made: from 0, and all of the burst, or of the window's limit, unless set. More
    /// than all is all. The rest comes as if it had been used when the limiter was made: at the rate of a quota, and with the end
    /// of the window under other rules, which may be near.
    pub fn initial(self, units: u64) -> Self {
        Self { initial: units, ..self }
    }

    /// The clock to read; a new `TscClock` unless set.
    pub fn clock<D: Clock>(self, clock: D) -> SingleBuilder<R, D, O> {
        let Self { rule, initial, warm_up, clock: _, observer } = self;
        SingleBuilder { rule, initial, warm_up, clock: Source::Given(clock), observer }
    }

    /// Who hears of each decision, as one on the key `KeyHash::from_bits(0)`; nobody unless set.
    pub fn observer<P: Observer>(self, observer: P) -> SingleBuilder<R, C, P> {
        let Self { rule, initial, warm_up, clock, observer: _ } = self;
        SingleBuilder { rule, initial, warm_up, clock, observer }
    }

    /// Makes the limiter. On the default clock blocks for up to 200 ms where it makes the first `TscClock` of the process.
    ///
    /// # Errors
    /// When the rule can not be enforced.
    pub fn build(self) -> Result<Single<R, C, O>, QuotaError> {
        let clock = self.clock.get();
        let now = clock.now();
        let rule = self.rule.anchor(now);
        let algorithm = rule.algorithm()?;
        let (duration, percent) = self.warm_up;
        let now_there = algorithm.instant(now);
        let whole = algorithm.answer(Update::Unchanged { found: 0, now: now_there }, 0).limit();
        let used = whole.saturating_sub(self.initial);
        let charged = if used == 0 { None } else { algorithm.charge(0, now_there, used) };
        Ok(Single {
            word: AtomicU64::new(charged.unwrap_or(0)),
            warm_up: WarmUp::new(now, duration, percent),
            algorithm,
            clock,
            observer: self.observer,
            rule,
        })
    }
}
