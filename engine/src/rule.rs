//! What a limiter enforces, and what an algorithm has to provide for that.

use core::convert::Infallible;
use core::fmt::Debug;
use core::marker::PhantomData;
use core::time::Duration;

use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::denied::ChargeDenied;
use crate::gcra::{Bucket, Gcra, Scale, View};
use crate::key::KeyHash;
use crate::quota::{Quota, QuotaError};
use crate::snapshot::{SavedState, SnapshotKind};
use crate::table::{State, Table, Update};

/// What a [`Limiter`](crate::Limiter) enforces on each of its keys, with one 64-bit word of state a
/// key.
///
/// | rule | algorithm | admitted in a window's length, at most |
/// |---|---|---|
/// | [`Quota`](crate::Quota) | GCRA (token bucket) | the burst and what the rate grants |
/// | [`Quota::strict`](crate::Quota::strict) | GCRA with the burst taken off the rate | the limit |
/// | `LiveQuota` | GCRA whose quota can be changed | as under a [`Quota`](crate::Quota); across changes as `Inheritance` says |
/// | [`SlidingWindow`](crate::SlidingWindow) | two windows, weighted | less than twice the limit |
/// | [`FixedWindow`](crate::FixedWindow), [`CalendarWindow`](crate::CalendarWindow) | a count a window | twice the limit |
///
/// The trait is sealed: an algorithm lives up to what the table asks of its words, which the types of
/// other crates can not be held to.
pub trait Rule: Copy + Debug + Send + Sync + 'static + sealed::Sealed {
    /// The rule in the form in which checks are decided.
    #[doc(hidden)]
    type Algorithm: Saves + 'static;
    /// What decides beside a key's word: leases of hot keys, or the charging of denied checks.
    #[doc(hidden)]
    type Leases: Leasing<Self::Algorithm>;
    /// A quota given with the call, on this rule's values.
    #[doc(hidden)]
    type Given<'a>: Bucket<State = <Self::Algorithm as Algorithm>::State>;

    /// The rule with its place in the wall clock's time, if it needs one and has not been given it.
    /// `now` is the present reading of the limiter's clock.
    #[doc(hidden)]
    #[must_use]
    fn anchor(self, now: Timestamp) -> Self {
        let _ = now;
        self
    }

    /// Compiles the rule.
    #[doc(hidden)]
    fn algorithm(&self) -> Result<Self::Algorithm, QuotaError>;

    /// A quota given with the call; `None` where the rule knows none.
    #[doc(hidden)]
    fn given<'a>(_algorithm: &'a Self::Algorithm, _quota: &'a Quota) -> Option<Self::Given<'a>> {
        None
    }

    /// The time in which all that fits at once is granted anew, which clients are told; `None`
    /// where it never is, or not always the same.
    #[doc(hidden)]
    fn refill_time(&self, _algorithm: &Self::Algorithm) -> Option<Duration> {
        None
    }

    /// What charges denied checks too, up to so many bursts beyond the burst; `None` where nothing does.
    #[doc(hidden)]
    fn charging_denied(_algorithm: &Self::Algorithm, _bursts: u64) -> Option<Self::Leases> {
        None
    }

    /// Leases of up to `units`; `None` where there are to be none.
    #[doc(hidden)]
    fn leases(_algorithm: &Self::Algorithm, _units: u64) -> Option<Self::Leases> {
        None
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Arithmetic on the value of one key: what stands in its word, 0 for a key without one.
///
/// All methods are pure. `now` is what [`Algorithm::instant`] makes of a timestamp; a value may come
/// from a later `now` than the one at hand, and nothing is minted then.
pub trait Algorithm: Debug + Send + Sync {
    /// What the table knows of the values.
    type State: State + Debug + Send + Sync + 'static;

    /// The table's part of the algorithm.
    fn state(&self) -> Self::State;

    /// A point in time on the scale of the values, never beyond the last one at which keys are still
    /// decided rightly: time stands still there, and exhausted keys stay denied.
    fn instant(&self, now: Timestamp) -> u64;

    /// The value after admitting `cost`, at least 1; `None` when it does not fit.
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64>;

    /// The value after charging `cost` whether or not it fits, saturating; `None` when it stays.
    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64>;

    /// The value after giving back `cost`, never better than fresh; `None` when it stays.
    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64>;

    /// The value after giving back `cost` units of the charge that left the value `charged`, as far
    /// as `value` still counts them; `None` when it stays. Where a refund takes from whatever is
    /// there, this leaves alone what others were charged after that charge had drained.
    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64>;

    /// Whether the value owes more than `tolerance` nanoseconds: then some of it starts later than `now` for those who
    /// wait under a burst that takes as long.
    fn owes_beyond(&self, _value: u64, _now: u64, _tolerance: u64) -> bool {
        false
    }

    /// The value of a key whose charges are forgotten; `None` when it has none.
    fn reset(&self, value: u64, now: u64) -> Option<u64>;

    /// Whether a fresh key admits `cost`: if not, no key ever does.
    fn can_fit(&self, cost: u64) -> bool;

    /// The answer to a check of `cost` that did this to the key's word; to a look, of cost 0.
    fn answer(&self, update: Update, cost: u64) -> Decision;
}

/// Values that mean something apart from their clock.
pub trait Saves: Algorithm {
    /// What the values count. Only those of one kind mean the same to two algorithms.
    fn kind(&self) -> SnapshotKind;

    /// What is held against a key with this value as of `now`; `None` for nothing. Durations are rounded up to a
    /// nanosecond.
    fn save(&self, value: u64, now: Timestamp) -> Option<SavedState>;

    /// The value at `now` of a key of which this was saved `downtime` before, saturating; one that is as good
    /// as none when it is over. `None` when the state is of another kind.
    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64>;

    /// What takes the place of `value`, so that it is at least as far from fresh as `told`; `None`
    /// when it stays.
    fn raise(&self, value: u64, now: u64, told: u64) -> Option<u64>;
}

/// What decides beside a key's word: leases of hot keys, or the charging of denied checks.
pub trait Leasing<A: Algorithm>: Debug + Send + Sync + 'static {
    /// Decides by a lease or by the word, and may charge a denial. `now` and `reread` are as in
    /// [`Home::update`](crate::table::Home::update).
    fn decide(
        &self,
        table: &Table<A::State>,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> u64,
    ) -> Decision;

    /// The value after a denial of `cost`, at least 1, by the word; `None` where it stays.
    fn deny(&self, _algorithm: &A, _cost: u64, _value: u64, _now: u64) -> Option<u64> {
        None
    }

    /// Takes from the leases of a key whose word has been lowered to `value` what lies beyond it.
    fn lowered(&self, algorithm: &A, key: KeyHash, value: u64);

    /// What charges denied checks, if that is what it is.
    fn denied(&self) -> Option<ChargeDenied> {
        None
    }
}

/// Of rules that know no leases: there is no value of this type.
#[derive(Debug)]
pub enum NoLeases {}

impl<A: Algorithm> Leasing<A> for NoLeases {
    fn decide(
        &self,
        _: &Table<A::State>,
        _: &A,
        _: KeyHash,
        _: u64,
        _: u64,
        _: impl Fn() -> u64,
    ) -> Decision {
        match *self {}
    }

    fn lowered(&self, _: &A, _: KeyHash, _: u64) {
        match *self {}
    }
}

/// The given quota of rules that know none: there is no value of this type.
#[derive(Debug)]
pub struct NoGiven<S>(Infallible, PhantomData<S>);

impl<S: State + Debug + Send + Sync + 'static> Bucket for NoGiven<S> {
    type Terms = Gcra;

    fn scale(&self) -> Scale {
        match self.0 {}
    }

    fn view(&self, _: u64, _: u64) -> View {
        match self.0 {}
    }
}

impl<S: State + Debug + Send + Sync + 'static> Algorithm for NoGiven<S> {
    type State = S;

    fn state(&self) -> S {
        match self.0 {}
    }

    fn instant(&self, _: Timestamp) -> u64 {
        match self.0 {}
    }

    fn admit(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        match self.0 {}
    }

    fn charge(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        match self.0 {}
    }

    fn refund(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        match self.0 {}
    }

    fn give_back(&self, _: u64, _: u64, _: u64, _: u64) -> Option<u64> {
        match self.0 {}
    }

    fn reset(&self, _: u64, _: u64) -> Option<u64> {
        match self.0 {}
    }

    fn can_fit(&self, _: u64) -> bool {
        match self.0 {}
    }

    fn answer(&self, _: Update, _: u64) -> Decision {
        match self.0 {}
    }
}
