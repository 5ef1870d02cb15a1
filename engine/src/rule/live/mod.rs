//! A quota that can be changed while it is enforced.

mod cell;
mod epoch;
mod inheritance;
#[cfg(all(test, loom))]
mod models;
mod per_call;
mod saves;

use core::fmt;
use core::time::Duration;
use std::sync::PoisonError;

use crate::base::decision::Decision;
use crate::base::sync::{Arc, Mutex};
use crate::base::word::{State, Update};
use crate::rule::algorithm::Algorithm;
use crate::rule::gcra::ring::{self, DEBT_MAX};
use crate::rule::gcra::{self, Bucket, Gcra, PerCallQuotas, Scale, Scaled, Time, View};
use crate::rule::modes::Modes;
use crate::rule::quota::{Quota, QuotaError};
use crate::rule::{DebtRule, Rule, sealed};
use crate::time::Timestamp;

use cell::SeqCell;
use epoch::{AHEAD_MAX, Epoch, SPAN, TIME, TIME_WORDS, WORDS, time_from_words};
pub use inheritance::Inheritance;
pub use per_call::LivePerCall;

/// A [`Quota`] that can be changed while it is enforced: by
/// [`Limiter::set_quota`](crate::Limiter::set_quota) or
/// [`DirectLimiter::set_quota`](crate::DirectLimiter::set_quota).
///
/// Guarantees and operations are those of a quota, except that there are no leases: what a thread
/// holds would have to change with the quota.
///
/// # When to use it
/// When limits are changed at run time: by an operator, a reloaded configuration, or load. Where
/// each customer has a quota of its own, give it with the call instead:
/// [`Limiter::with_quota`](crate::Limiter::with_quota).
///
/// # Cost
/// A check reads the quota each time and takes 1.5 to 1.9 times as long as one under a fixed quota.
/// Memory per key is the same. The error is that of a quota, plus what [`Inheritance`] states for
/// each change.
///
/// ```
/// use tidegate_engine::rule::Inheritance;
/// use tidegate_engine::{Limiter, LiveQuota, Quota};
///
/// let limiter = Limiter::builder(LiveQuota::new(Quota::per_second(5))).build()?;
/// assert!(limiter.check_n("user:42", 5).is_allowed());
/// limiter.set_quota(Quota::per_second(50), Inheritance::Proportional)?;
/// assert!(limiter.check_n("user:42", 45).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveQuota(Quota);

impl LiveQuota {
    /// A rule that enforces `quota` until it is replaced.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self(quota)
    }

    /// The initial quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.0
    }
}

impl From<Quota> for LiveQuota {
    fn from(quota: Quota) -> Self {
        Self(quota)
    }
}

impl sealed::Sealed for LiveQuota {}

impl DebtRule for LiveQuota {}

impl Rule for LiveQuota {
    type Algorithm = LiveGcra;
    type PerCall<'a> = LivePerCall<'a>;

    fn algorithm(&self) -> Result<LiveGcra, QuotaError> {
        let first = Epoch::first(self.0, Gcra::exact(&self.0)?);
        let cell = SeqCell::new(first.to_words());
        Ok(LiveGcra { shared: Arc::new(SharedQuota { cell, in_force: Mutex::new(first) }) })
    }

    fn per_call<'a>(algorithm: &'a LiveGcra, quota: &'a Quota) -> Option<LivePerCall<'a>> {
        Some(gcra::per_call(algorithm, quota))
    }

    fn visit_debt_rule<V: sealed::DebtRuleVisitor<Self>>(visitor: V) -> Option<V::Output> {
        Some(visitor.visit())
    }

    /// Of the quota in force.
    fn refill_time(&self, algorithm: &LiveGcra) -> Option<Duration> {
        algorithm.quota().refill_time()
    }
}

/// GCRA under a quota that changes.
pub struct LiveGcra {
    shared: Arc<SharedQuota>,
}

struct SharedQuota {
    cell: SeqCell<WORDS>,
    /// What the cell holds, once all words are of that epoch; locked while the quota is changed.
    /// Checks never take it.
    in_force: Mutex<Epoch>,
}

impl fmt::Debug for LiveGcra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveGcra").field(&self.epoch()).finish()
    }
}

impl LiveGcra {
    pub(crate) fn quota(&self) -> Quota {
        self.epoch().quota
    }

    /// Puts `quota` in force in all `words`.
    pub(crate) fn change(
        &self,
        quota: Quota,
        inheritance: Inheritance,
        words: &impl Words,
        now: impl Fn() -> Timestamp,
    ) -> Result<(), QuotaError> {
        let gcra = Gcra::exact(&quota)?;
        // A change that panicked, in `now`, changed nothing.
        let mut epoch = self.shared.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let highest = words.highest(|value| epoch.tat(value));
            let at = now();
            if let Some(next) = epoch.next(quota, gcra, inheritance, at, highest) {
                *epoch = self.shared.enter(next, words);
                return Ok(());
            }
            *epoch = self.shared.enter(epoch.shortened(at), words);
        }
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch()
    }

    /// The view of a word's value; of one that is not that of a word any more, any.
    #[inline]
    fn view_word(&self, value: u64, now: u64) -> View {
        self.view_or(value, now, |epoch, _| epoch.tat(value))
    }

    /// The view of a value, whose TAT is that of `unclear` if it is not clearly one of this epoch.
    #[expect(clippy::inline_always, reason = "a call hands the view over in memory, and stalls")]
    #[inline(always)]
    fn view_or(&self, value: u64, now: u64, unclear: impl FnOnce(&Epoch, u64) -> u64) -> View {
        let [units, nanos, floor, base, rule @ ..] =
            self.shared.cell.read::<TIME, { TIME_WORDS + Gcra::WORDS }>();
        let time = time_from_words([units, nanos, floor, base]);
        let point = time.point(Timestamp::from_nanos(now));
        let tat = if value == 0 { 0 } else { ring::tat(floor, value) };
        if tat > point + AHEAD_MAX {
            return self.view_unclear(now, unclear);
        }
        View { gcra: Gcra::from_words(time.scale, rule), time, tat, now: point }
    }

    #[cold]
    #[inline(never)]
    fn view_unclear(&self, now: u64, unclear: impl FnOnce(&Epoch, u64) -> u64) -> View {
        let epoch = self.epoch();
        let now = epoch.time.point(Timestamp::from_nanos(now));
        View { gcra: epoch.gcra, time: epoch.time, tat: unclear(&epoch, now), now }
    }
}

/// The words whose values a changing quota decides on.
pub(crate) trait Words {
    /// The highest TAT; 0 without any.
    fn highest(&self, tat: impl Fn(u64) -> u64) -> u64;

    /// Replaces each value by what `convert` returns, `None` for one that stays. From then on no
    /// thread writes a value that it has decided on before the call.
    fn convert(&self, convert: impl Fn(u64) -> Option<u64>);
}

/// The value of a TAT that owes no more than a burst, or no more than it did.
#[inline]
fn value_of(time: Time, tat: u64) -> u64 {
    ring::value(time.floor, tat)
}

/// An update in terms of the quota in force, under which its value is `tat`.
#[inline]
const fn in_terms(update: Update, tat: u64, now: u64) -> Update {
    match update {
        Update::Written { .. } => Update::Written { before: tat, now },
        Update::Unchanged { .. } => Update::Unchanged { found: tat, now },
        Update::Full { .. } => update,
    }
}

/// The answer to a check that found no room, until a clock's reading of `fresh_from`. Where a
/// change made room, it is the shortest wait there is.
#[cold]
fn full(gcra: &Gcra, fresh_from: u64, now: u64, admitted: bool) -> Decision {
    if admitted {
        return Decision::allowed(gcra.burst(), gcra.burst(), 0);
    }
    // What a key owes is at most two nanoseconds a unit.
    let wait = fresh_from.saturating_sub(now);
    let wait = if wait > 2 * DEBT_MAX { 1 } else { wait.max(1) };
    Decision::denied(gcra.burst(), 0, wait, wait)
}

/// The answer to an update, which may have been decided just before a change, in terms of the quota
/// in force: by `algorithm`; where that would have decided otherwise, by `gcra`, the same quota
/// with its interval rounded up.
#[inline]
fn answer_across(algorithm: &impl Algorithm, gcra: &Gcra, update: Update, cost: u64) -> Decision {
    match update {
        Update::Written { before, now } if algorithm.admit(before, now, cost).is_none() => {
            gcra.overcharged(before, now, cost)
        }
        Update::Unchanged { found, now }
            if cost > 0 && algorithm.admit(found, now, cost).is_some() =>
        {
            gcra.denied_before(found, now)
        }
        update => algorithm.answer(update, cost),
    }
}

impl Bucket for LiveGcra {
    type Terms = Gcra;

    fn scale(&self) -> Scale {
        time_from_words(self.shared.cell.read::<TIME, TIME_WORDS>()).scale
    }

    #[inline]
    fn view(&self, value: u64, now: u64) -> View {
        self.view_or(value, now, |epoch, now| epoch.found(value, now))
    }
}

impl PerCallQuotas for LiveGcra {
    type PerCall<'a> = LivePerCall<'a>;

    fn per_call<'a>(&'a self, quota: &'a Quota, rounded: &Gcra) -> LivePerCall<'a> {
        LivePerCall::new(self, quota, Scaled::of(quota, rounded))
    }

    fn plain(_: &Gcra) -> Option<&Self> {
        None
    }
}

impl SharedQuota {
    fn epoch(&self) -> Epoch {
        Epoch::from_words(self.cell.read::<0, WORDS>())
    }

    /// Begins an epoch, makes all words its own, and says so. The caller serializes changes.
    fn enter(&self, epoch: Epoch, words: &impl Words) -> Epoch {
        self.cell.write(epoch.to_words());
        words.convert(|value| epoch.converted(value));
        let swept = epoch.swept();
        self.cell.amend(SPAN, swept.span());
        swept
    }
}

/// A key is fresh once its TAT has passed, in terms of the quota in force.
pub struct LiveTat {
    shared: Arc<SharedQuota>,
}

impl fmt::Debug for LiveTat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveTat")
    }
}

impl LiveTat {
    /// The TAT of a word, and how its epoch counts time.
    #[inline]
    fn tat(&self, value: u64) -> (u64, Time) {
        let [span, time @ ..] = self.shared.cell.read::<SPAN, { 1 + TIME_WORDS }>();
        let time = time_from_words(time);
        let tat = if value == 0 { 0 } else { ring::tat(time.floor, value) };
        if tat < span { (tat, time) } else { self.tat_before(value) }
    }

    #[cold]
    fn tat_before(&self, value: u64) -> (u64, Time) {
        let epoch = self.shared.epoch();
        (epoch.tat(value), epoch.time)
    }
}

impl State for LiveTat {
    /// A reading of the clock. A word that has been fresh since its epoch began has the value of
    /// that moment, and counts as unused.
    #[inline]
    fn fresh_from(&self, value: u64) -> u64 {
        match self.tat(value) {
            (0, _) => 0,
            (tat, time) => time.scale.to_nanos(time.base.saturating_add(tat)),
        }
    }

    /// Of TATs, because raw values do not rank: the ring has no beginning.
    fn rank(&self, value: u64) -> u64 {
        self.tat(value).0
    }
}

impl Modes for LiveGcra {
    const HAS_MODES: bool = true;
}

/// A `now` is a reading of the clock in nanoseconds, which means the same under every quota.
///
/// Each method reads the quota by itself, so a change may fall between two calls of one check,
/// which is then decided before the change and answered after it.
impl Algorithm for LiveGcra {
    type State = LiveTat;

    const CHANGES: bool = true;

    fn state(&self) -> LiveTat {
        LiveTat { shared: Arc::clone(&self.shared) }
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        now.as_nanos()
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, time, tat, now } = self.view_word(value, now);
        gcra.admit(tat, now, cost).map(|tat| value_of(time, tat))
    }

    fn admit_up_to(&self, value: u64, now: u64, cost: u64) -> Option<(u64, u64)> {
        let view = self.view_word(value, now);
        let (units, tat) = view.gcra.admit_up_to(view.tat, view.now, cost)?;
        Some((units, value_of(view.time, tat)))
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let view = self.view_word(value, now);
        Algorithm::charge(&view.gcra, view.tat, view.now, cost).map(|tat| view.value(tat))
    }

    fn charge_denied(&self, value: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        let view = self.view_word(value, now);
        view.charge_denied(cost, bursts).map(|tat| view.value(tat))
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let View { gcra, time, tat, now } = self.view_word(value, now);
        gcra.refund(tat, now, cost).map(|tat| value_of(time, tat))
    }

    fn give_back(&self, value: u64, now: u64, cost: u64, receipt: u64) -> Option<u64> {
        let epoch = self.epoch();
        let (tat, now) = (epoch.tat(value), epoch.time.point(Timestamp::from_nanos(now)));
        let left = epoch.give_back(tat, now, cost, receipt)?;
        Some(value_of(epoch.time, left))
    }

    fn owes_beyond(&self, value: u64, now: u64, tolerance: u64) -> bool {
        let View { gcra, tat, now, .. } = self.view_word(value, now);
        gcra.owes_beyond(tat, now, tolerance)
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        let View { time, tat, now, .. } = self.view_word(value, now);
        gcra::reset(tat, now).map(|tat| value_of(time, tat))
    }

    fn can_fit(&self, cost: u64) -> bool {
        Algorithm::can_fit(&self.epoch().gcra, cost)
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        let (value, now) = match update {
            Update::Written { before: value, now } | Update::Unchanged { found: value, now } => {
                (value, now)
            }
            Update::Full { fresh_from, now, admitted } => {
                return full(&self.epoch().gcra, fresh_from, now, admitted);
            }
        };
        let View { gcra, tat, now, .. } = self.view(value, now);
        answer_across(&gcra, &gcra, in_terms(update, tat, now), cost)
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "live_tests.rs"]
mod tests;
