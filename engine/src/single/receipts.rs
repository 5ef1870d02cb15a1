//! Charges with a receipt: a limiter for one thing beside keyed ones in a set, and its reservations.

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::key::{KeyHash, KeyHasher};
use crate::limit::{Limit, Receipt, sealed::Sealed};
use crate::rule::{Algorithm as _, Rule};
use crate::set::Ask;
use crate::table::Update;

use super::Single;

/// Hashes keys that are then left out of account, so its seed need not be secret.
static HASHER: KeyHasher = KeyHasher::rapid(0);

/// The key of all there is.
pub(super) const KEY: KeyHash = KeyHash::from_bits(0);

impl<R: Rule, C: Clock + Send + Sync> Single<R, C> {
    /// `cost` units, to be asked for together with what other limits have to admit: see
    /// [`LimitSet`](crate::LimitSet).
    ///
    /// ```
    /// use tidegate_engine::{LimitSet, Limiter, Quota, Single};
    ///
    /// let per_user = Limiter::builder(Quota::per_minute(100)).build()?;
    /// let in_all = Single::new(Quota::per_second(2))?;
    /// let check = |user| LimitSet::new([per_user.ask(user, 1), in_all.ask(1)]).check();
    /// assert!(check("user:1").is_allowed() && check("user:2").is_allowed());
    /// assert!(!check("user:3").is_allowed());
    /// assert_eq!(per_user.peek("user:3").remaining(), 100);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn ask(&self, cost: u64) -> Ask<'_> {
        Ask::new(self, KEY, cost)
    }

    /// Replaces the value by what `decide(value, now)` returns, and tells what is left then.
    fn correct(&self, decide: impl Fn(u64, u64) -> Option<u64>) -> Decision {
        let now = self.clock.now();
        let found = match self.update(self.instant(now), &decide) {
            Update::Written { before, now } => decide(before, now).unwrap_or(before),
            Update::Unchanged { found, .. } => found,
            // A word of its own is never without a place.
            Update::Full { .. } => 0,
        };
        self.answer(Update::Unchanged { found, now: self.instant(now) }, 0, now)
    }
}

impl<R: Rule, C: Clock> Sealed for Single<R, C> {}

/// Every key is the same one.
impl<R: Rule, C: Clock + Send + Sync> Limit for Single<R, C> {
    fn hasher(&self) -> &KeyHasher {
        &HASHER
    }

    fn place(&self, _: KeyHash) -> KeyHash {
        KEY
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn look(&self, _: KeyHash, cost: u64, now: Timestamp) -> Decision {
        let update = self.update(self.instant(now), |_, _| None);
        let fits = |value, now| cost == 0 || self.algorithm.admit(value, now, cost).is_some();
        match update {
            Update::Unchanged { found, now: at } if fits(found, at) => self.answer(update, 0, now),
            _ => self.answer(update, cost, now),
        }
    }

    fn take(&self, key: KeyHash, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.look(key, 0, now), Receipt::NOTHING);
        }
        let admit = |value, now| self.algorithm.admit(value, now, cost);
        let update = self.update(self.instant(now), admit);
        let charged = match update {
            Update::Written { before, now } => admit(before, now),
            Update::Unchanged { .. } | Update::Full { .. } => None,
        };
        (self.answer(update, cost, now), Receipt::new(charged))
    }

    fn give_back(&self, key: KeyHash, cost: u64, receipt: Receipt) -> Decision {
        let Some(charged) = receipt.charged() else { return self.look(key, 0, self.clock.now()) };
        self.correct(|value, now| self.algorithm.give_back(value, now, cost, charged))
    }

    fn take_anyway(&self, _: KeyHash, cost: u64) -> Decision {
        self.correct(|value, now| self.algorithm.charge(value, now, cost))
    }

    /// There is no observer.
    fn tell(&self, _: KeyHash, _: u64, _: &Decision) {}
}
