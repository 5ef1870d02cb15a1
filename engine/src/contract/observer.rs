//! Observers of decisions.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use crate::base::decision::Decision;
use crate::base::key::{KEYLESS, Key, KeyHash, Keyless, ShownKey};

/// Is notified of each decision of a [`Limiter`](crate::Limiter) or a
/// [`DirectLimiter`](crate::DirectLimiter), on the calling thread and before the decision is
/// returned. Set on the builder; without one, nothing is called and it costs nothing.
///
/// Closures are observers, best written with [`from_fn`](crate::observer::from_fn). So are an
/// `Arc<O>` and an `Option<O>` of any observer, `Box<dyn Observer + Send + Sync>`, pairs of
/// observers, and `()`, which is none. A reference to an observer of your own is not; share it in
/// an `Arc`.
///
/// An observer must not panic: units that a set of limits or a charge has taken by then would stay
/// taken.
///
/// # Which keys were denied, and until when
/// ```
/// use std::time::{SystemTime, UNIX_EPOCH};
/// use tidegate_engine::{Limiter, Quota, observer};
///
/// # let lines = std::sync::Mutex::new(Vec::new());
/// # let log = |line: String| lines.lock().unwrap().push(line);
/// let denied_logins = observer::from_fn(|user, cost, decision| {
///     if cost == 0 || decision.is_allowed() {
///         return; // a peek, or nothing to report
///     }
///     match decision.retry_after() {
///         Some(wait) => {
///             let until = SystemTime::now() + wait;
///             let until = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
///             log(format!("login of {user:?} denied until {until}"));
///         }
///         None => log(format!("login of {user:?} denied: it never fits")),
///     }
/// });
/// let logins = Limiter::builder(Quota::per_minute(3)).observer(denied_logins).build()?;
/// for _ in 0..4 {
///     let _ = logins.check("mallory\ndenied");
/// }
/// // In one line: login of "mallory\ndenied" denied until 1795446660
/// # let lines = lines.lock().unwrap();
/// # assert!(lines[0].starts_with(r#"login of "mallory\ndenied" denied until 1"#), "{lines:?}");
/// # assert_eq!(lines.len(), 1);
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not observe decisions",
    label = "not an observer",
    note = "an observer is shared in an `Arc`, or as `&dyn Observer`",
    note = "for a closure use `observer::from_fn(|key, cost, decision| ..)`"
)]
pub trait Observer {
    /// A check of `cost` units (0: a peek) for `key` was decided. Of a check that takes as much as
    /// fits, `cost` is what it took, or 1 where it was denied.
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision);

    /// Whether [`Observer::on_decision`] does anything. Called before each notification, so that
    /// the result may change; where it is a constant it costs nothing. Of a decision that began
    /// before a change the observer may or may not be notified.
    #[inline]
    fn observes_decisions(&self) -> bool {
        true
    }

    /// Whether [`Observer::on_debt_change`] and [`Observer::prefetch`] do anything, for a replica
    /// or a journal of what a limiter charges: false unless overridden. A constant costs nothing. A
    /// limiter whose observer observes debt when it is built has no leases.
    #[inline]
    fn observes_debt(&self) -> bool {
        false
    }

    /// A call has changed what `key` owes; `by` is that change in nanoseconds: more than 0 for what
    /// was charged, less for what was given back or forgotten. Called after the change, on the
    /// calling thread, and before the call returns.
    ///
    /// Of each change that a call makes to a key of a [`Limiter`](crate::Limiter) with a
    /// [`Quota`](crate::Quota) or a `LiveQuota`: by checks of all kinds, charged denials, charges,
    /// refunds, resets, reservations and how they are settled, sets, and places in line that are
    /// taken or given up. So the sum of these changes, as it drains, is what the key owes. Not of
    /// what comes from elsewhere ([`Limiter::charge_debt`](crate::Limiter::charge_debt),
    /// `lower_debt`, `raise_debt`, `restore`), of an eviction, or of a change of the quota; nor of
    /// limits whose state is not a debt, and of a [`DirectLimiter`](crate::DirectLimiter). Each
    /// change is off by less than a nanosecond where the limiter's unit of time is none.
    #[inline]
    fn on_debt_change(&self, key: KeyHash, by: i64) {
        let _ = (key, by);
    }

    /// A call is about to read what `key` owes, and may change it: a hint, to fetch memory ahead.
    /// Not given by sets and by what settles later.
    #[inline]
    fn prefetch(&self, key: KeyHash) {
        let _ = key;
    }
}

/// Makes an observer of a closure, which it returns: an annotation, so that the types of the
/// closure's arguments need not be written.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate_engine::{Limiter, Quota, observer};
///
/// let denied = AtomicU64::new(0);
/// let count = observer::from_fn(|_, cost, decision| {
///     if !decision.is_allowed() {
///         denied.fetch_add(cost, Ordering::Relaxed);
///     }
/// });
/// let limiter = Limiter::builder(Quota::per_hour(2)).observer(count).build()?;
/// let _ = limiter.check_n("user:42", 3);
/// assert_eq!(denied.load(Ordering::Relaxed), 3);
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
pub fn from_fn<F: Fn(ObservedKey<'_>, u64, &Decision)>(observe: F) -> F {
    observe
}

/// The key of an observed decision: its hash, and the key as the caller gave it.
///
/// It is the key itself wherever a call decides: `check` and its variants, also of a batch and
/// under a quota given with the call, `peek`, `charge`, `reserve`, `enqueue` and `acquire`. A
/// [`LimitSet`](crate::LimitSet), and so a layer of the feature `tower`, keeps hashes: there, and
/// where the caller gave a hash, it is that one.
///
/// `{}` and `{:?}` print it as [`ShownKey`] does, in one short line whatever the client chose; a
/// key of a type that does not show itself by its hash. Nothing is done for an observer that does
/// not ask.
#[derive(Clone, Copy)]
pub struct ObservedKey<'k> {
    hash: KeyHash,
    given: &'k dyn Key,
}

impl<'k> ObservedKey<'k> {
    /// A key that was given, and its hash under the limit's hasher.
    #[inline]
    pub(crate) fn new(hash: KeyHash, given: &'k dyn Key) -> Self {
        Self { hash, given }
    }

    /// Where only the hash is left.
    #[inline]
    pub(crate) fn of_hash(hash: &'k KeyHash) -> Self {
        Self { hash: *hash, given: hash }
    }

    /// The key of a limit without keys.
    #[inline]
    pub(crate) fn keyless() -> Self {
        Self { hash: KEYLESS, given: &Keyless }
    }

    /// The key's hash under the limit's hasher; `KeyHash::from_bits(0)` of a limit without keys.
    #[inline]
    #[must_use]
    pub fn hash(self) -> KeyHash {
        self.hash
    }

    /// The key as it was given.
    #[must_use]
    pub fn shown(self) -> ShownKey<'k> {
        match self.given.shown() {
            ShownKey::Hidden => ShownKey::Hash(self.hash),
            shown => shown,
        }
    }

    /// The key as text, in full and unescaped, if it was given as text.
    #[must_use]
    pub fn as_str(self) -> Option<&'k str> {
        self.shown().as_str()
    }

    /// The key's bytes, in full, if it was given as text or bytes.
    #[must_use]
    pub fn as_bytes(self) -> Option<&'k [u8]> {
        self.shown().as_bytes()
    }
}

impl fmt::Display for ObservedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.shown(), f)
    }
}

impl fmt::Debug for ObservedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown(), f)
    }
}

/// No observer.
impl Observer for () {
    #[inline]
    fn on_decision(&self, _: ObservedKey<'_>, _: u64, _: &Decision) {}

    #[inline]
    fn observes_decisions(&self) -> bool {
        false
    }
}

/// A closure, or a function.
impl<F: Fn(ObservedKey<'_>, u64, &Decision) + ?Sized> Observer for F {
    #[inline]
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self(key, cost, decision);
    }
}

/// Both are notified of each decision, in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        if self.0.observes_decisions() {
            self.0.on_decision(key, cost, decision);
        }
        if self.1.observes_decisions() {
            self.1.on_decision(key, cost, decision);
        }
    }

    #[inline]
    fn observes_decisions(&self) -> bool {
        self.0.observes_decisions() || self.1.observes_decisions()
    }

    #[inline]
    fn observes_debt(&self) -> bool {
        self.0.observes_debt() || self.1.observes_debt()
    }

    #[inline]
    fn on_debt_change(&self, key: KeyHash, by: i64) {
        if self.0.observes_debt() {
            self.0.on_debt_change(key, by);
        }
        if self.1.observes_debt() {
            self.1.on_debt_change(key, by);
        }
    }

    #[inline]
    fn prefetch(&self, key: KeyHash) {
        self.0.prefetch(key);
        self.1.prefetch(key);
    }
}

/// An observer, or none.
impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        if let Some(observer) = self {
            observer.on_decision(key, cost, decision);
        }
    }

    #[inline]
    fn observes_decisions(&self) -> bool {
        self.as_ref().is_some_and(Observer::observes_decisions)
    }

    #[inline]
    fn observes_debt(&self) -> bool {
        self.as_ref().is_some_and(Observer::observes_debt)
    }

    #[inline]
    fn on_debt_change(&self, key: KeyHash, by: i64) {
        if let Some(observer) = self {
            observer.on_debt_change(key, by);
        }
    }

    #[inline]
    fn prefetch(&self, key: KeyHash) {
        if let Some(observer) = self {
            observer.prefetch(key);
        }
    }
}

/// An observer behind a pointer. For `&O` and `Box<O>` of every `O` this would contradict closures,
/// since those of a closure are closures: so it is for objects only.
macro_rules! held_observers {
    ($([$($parameter:tt)*] $held:ty),*) => {$(
        impl<$($parameter)*> Observer for $held {
            #[inline]
            fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
                (**self).on_decision(key, cost, decision);
            }

            #[inline]
            fn observes_decisions(&self) -> bool {
                (**self).observes_decisions()
            }

            #[inline]
            fn observes_debt(&self) -> bool {
                (**self).observes_debt()
            }

            #[inline]
            fn on_debt_change(&self, key: KeyHash, by: i64) {
                (**self).on_debt_change(key, by);
            }

            #[inline]
            fn prefetch(&self, key: KeyHash) {
                (**self).prefetch(key);
            }
        }
    )*};
}

macro_rules! observer_objects {
    ($($object:ty),*) => {$(
        held_observers!(['o] &$object, ['o] Box<$object>);

        /// So that limits with such an observer can be printed.
        impl<'o> fmt::Debug for $object {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("dyn Observer")
            }
        }
    )*};
}

held_observers!([O: Observer + ?Sized] Arc<O>);
observer_objects!(
    dyn Observer + 'o,
    dyn Observer + Send + 'o,
    dyn Observer + Sync + 'o,
    dyn Observer + Send + Sync + 'o
);
